"""Matrices in memory whose rows and columns have labels: AnnData objects, and arrays of xarray."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from banditsis.formats.columns import check_unique_names
from banditsis.formats.opened import OpenedMatrix
from banditsis.formats.options import DEFAULTS, ReadOptions


def is_labelled(data: Any) -> bool:
    """Whether data is an AnnData object, or an array or dataset of xarray."""
    return _is_anndata(data) or type(data).__module__.split(".")[0] == "xarray"


def _is_anndata(data: Any) -> bool:
    return all(hasattr(data, part) for part in ("obs", "var", "obs_names", "var_names", "isbacked"))


def open_labelled(data: Any, options: ReadOptions, names: Sequence[str] | None) -> OpenedMatrix:
    """Open a matrix with labels; ``names`` replace its own."""
    if _is_anndata(data):
        return open_anndata_object(data, "X", options, names)
    return _open_xarray(data, options, names)


def _open(
    cells: Any, own: Sequence[str] | None, names: Sequence[str] | None, options: ReadOptions, **labels: Any
) -> OpenedMatrix:
    from banditsis.formats.opening import open_in_memory  # which imports this module

    if own is not None:
        check_unique_names(own, "X")
    return OpenedMatrix(open_in_memory(cells, own if names is None else names), "X", options, **labels)


def open_anndata_object(
    data: Any, matrix: str = "X", options: ReadOptions = DEFAULTS, names: Sequence[str] | None = None
) -> OpenedMatrix:
    """Open a matrix of an AnnData object: ``X``, ``raw/X`` or ``layers/name``.

    What the object reads from a file when needed is read from there in parts; only a view of such an object
    is loaded, by anndata. The columns of ``obs`` are those of the object.
    """
    from banditsis.formats.arrow import OpenedFrame  # only frames need it
    from banditsis.formats.opening import open_file  # which imports this module

    raw: Any = data.raw
    others = [f"layers/{name}" for name in data.layers if name is not None]  # None is X in anndata 0.13
    others = others if raw is None else ["raw/X", *others]
    cells: Any = None
    if matrix in ("X", "raw/X") and data.isbacked and not data.is_view:  # layers are in memory
        limits = ReadOptions(memory_limit=options.memory_limit)
        cells = open_file(f"{data.filename}:/{matrix}", limits).source()
    elif matrix == "X":
        cells = data.X
    elif matrix in others:
        cells = raw.X if matrix == "raw/X" else data.layers[matrix.removeprefix("layers/")]
    if cells is None:
        raise ValueError(f"the AnnData object has no {matrix}; it has {', '.join(others) or 'no matrix'}.")
    own = list(map(str, (raw if matrix == "raw/X" else data).var_names))
    obs = OpenedFrame(data.obs, ReadOptions())
    columns = {name: partial(obs.values, name) for name in obs.names}
    return _open(cells, own, names, options, ids=partial(np.array, data.obs_names, str), columns=columns)


def _open_xarray(data: Any, options: ReadOptions, names: Sequence[str] | None) -> OpenedMatrix:
    if not hasattr(data, "to_dataset") or len(data.dims) != 2:
        kind = f"{type(data).__name__} with the dimensions {', '.join(map(str, data.dims))}"
        raise ValueError(f"X is a {kind}: pass an array with two dimensions, such as dataset[name].")
    row, column = data.dims
    own = list(map(str, data[column].values)) if column in data.coords else None
    labels = data[row].values if row in data.coords else np.arange(0)
    is_text = len(labels) > 0 and all(isinstance(label, str) for label in labels)
    columns = {
        str(name): partial(np.asarray, values)
        for name, values in data.coords.items()
        if values.dims == (row,) and name != row
    }
    ids = partial(np.array, labels, str) if is_text else None
    return _open(data.data, own, names, options, ids=ids, columns=columns)
