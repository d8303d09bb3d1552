"""Matrices in memory whose rows and columns have labels: AnnData objects and arrays of xarray."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array
from banditsis.formats.tables import check_unique_names


class Labelled(NamedTuple):
    """The parts of a matrix with labels."""

    #: an array, a sparse matrix, or the path of a file that contains it
    cells: Any
    names: list[str] | None
    ids: Array | None
    #: functions that read the columns that are not features
    columns: Mapping[str, Callable[[], Array]]


def is_labelled(data: Any) -> bool:
    """Whether data is an AnnData object, or an array or dataset of xarray.

    Examples
    --------
    >>> is_labelled(np.zeros((3, 2)))
    False
    """
    return _is_anndata(data) or type(data).__module__.split(".")[0] == "xarray"


def take_labels(data: Any) -> Labelled:
    """Separate the cells of a matrix from its labels."""
    labelled = _from_anndata(data) if _is_anndata(data) else _from_xarray(data)
    if labelled.names is not None:
        check_unique_names(labelled.names, "X")
    return labelled


def _is_anndata(data: Any) -> bool:
    return all(hasattr(data, part) for part in ("obs", "var", "obs_names", "var_names", "isbacked"))


def _from_anndata(data: Any) -> Labelled:
    if data.isbacked and data.is_view:
        raise ValueError("X is a view of an AnnData file: call its to_memory(), or pass the file.")
    cells = data.filename if data.isbacked else data.X
    if cells is None:
        raise ValueError('the AnnData object has no X: pass a layer, such as data.layers["counts"].')
    columns = {str(name): partial(_read_series, data.obs[name]) for name in data.obs.columns}
    return Labelled(cells, list(map(str, data.var_names)), np.array(data.obs_names, str), columns)


def _read_series(series: Any) -> Array:
    """A column of pandas: numbers, with NaN if missing, or text, with None if missing."""
    missing = series.isna().to_numpy()
    if series.dtype.kind in "fiub":
        return np.asarray(
            series.to_numpy(np.float64, na_value=np.nan) if missing.any() else series.to_numpy()
        )
    values = np.array(series, object)
    values[missing] = None
    return values


def _from_xarray(data: Any) -> Labelled:
    if not hasattr(data, "to_dataset") or len(data.dims) != 2:
        kind = f"{type(data).__name__} with the dimensions {', '.join(map(str, data.dims))}"
        raise ValueError(f"X is a {kind}: pass an array with two dimensions, such as dataset[name].")
    row, column = data.dims
    names = list(map(str, data[column].values)) if column in data.coords else None
    labels = data[row].values if row in data.coords else np.arange(0)
    is_text = len(labels) > 0 and all(isinstance(label, str) for label in labels)
    columns = {
        str(name): partial(np.asarray, values)
        for name, values in data.coords.items()
        if values.dims == (row,) and name != row
    }
    return Labelled(data.data, names, np.array(labels, str) if is_text else None, columns)
