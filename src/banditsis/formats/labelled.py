"""AnnData objects in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from banditsis.formats.columns import check_unique_names
from banditsis.formats.opened import OpenedMatrix
from banditsis.formats.options import DEFAULTS, ReadOptions


def is_anndata(data: Any) -> bool:
    """Whether data is an AnnData object."""
    return all(hasattr(data, part) for part in ("obs", "var", "obs_names", "var_names", "isbacked"))


def open_anndata_object(
    data: Any, matrix: str = "X", options: ReadOptions = DEFAULTS, names: Sequence[str] | None = None
) -> OpenedMatrix:
    """Open a matrix of an AnnData object: ``X``, ``raw/X`` or ``layers/name``; ``names`` replace its own.

    What the object reads from a file when needed is read from there in parts; only a view of such an object
    is loaded, by anndata. The columns of ``obs`` are those of the object.
    """
    from banditsis.formats.arrow import OpenedFrame  # only frames need it
    from banditsis.formats.opening import open_file, open_in_memory  # which imports this module

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
    check_unique_names(own, "X")
    obs = OpenedFrame(data.obs, ReadOptions())
    columns = {name: partial(obs.values, name) for name in obs.names}
    source = open_in_memory(cells, own if names is None else names)
    return OpenedMatrix(source, "X", options, partial(np.array, data.obs_names, str), columns)
