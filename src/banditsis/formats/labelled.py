"""Matrices in memory whose rows and columns have labels: AnnData objects and arrays of xarray."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from banditsis.formats.opened import OpenedMatrix
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.tables import check_unique_names


def is_labelled(data: Any) -> bool:
    """Whether data is an AnnData object, or an array or dataset of xarray."""
    return _is_anndata(data) or type(data).__module__.split(".")[0] == "xarray"


def _is_anndata(data: Any) -> bool:
    return all(hasattr(data, part) for part in ("obs", "var", "obs_names", "var_names", "isbacked"))


def open_labelled(data: Any, options: ReadOptions, names: Sequence[str] | None) -> OpenedMatrix:
    """Open a matrix with labels; ``names`` replace its own."""
    return _open_anndata(data, options, names) if _is_anndata(data) else _open_xarray(data, options, names)


def _open(
    cells: Any, own: Sequence[str] | None, names: Sequence[str] | None, options: ReadOptions, **labels: Any
) -> OpenedMatrix:
    from banditsis.formats.opening import open_in_memory  # which imports this module

    if own is not None:
        check_unique_names(own, "X")
    return OpenedMatrix(open_in_memory(cells, own if names is None else names), "X", options, **labels)


def _open_anndata(data: Any, options: ReadOptions, names: Sequence[str] | None) -> OpenedMatrix:
    from banditsis.formats.arrow import OpenedFrame  # only frames need it

    if data.isbacked:
        raise ValueError(f"the AnnData object has no X in memory: pass its path, {data.filename}.")
    if data.X is None:
        raise ValueError('the AnnData object has no X: pass a layer, such as data.layers["counts"].')
    own, cells = list(map(str, data.var_names)), data.X
    obs = OpenedFrame(data.obs, DEFAULTS)
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
