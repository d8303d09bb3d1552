"""Find the matrix, names, ids and target among the arrays of a Zarr group or an HDF5 file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.formats.opened import OpenedMatrix
from banditsis.formats.options import ReadOptions
from banditsis.formats.tables import check_unique_names
from banditsis.sources.base import Source

FEATURE_NAMES = ("names", "feature_names", "columns", "column_names", "var_names")
SAMPLE_IDS = ("ids", "sample_ids", "index", "obs_names")
#: How the name of a dimension scale begins that netCDF stores without values.
BARE_DIMENSION = "This is a netCDF dimension but not a netCDF variable"

#: Attributes of the CF conventions that change what cells mean, and values that do not, besides NaN.
PACKING = {
    "scale_factor": (1,),
    "add_offset": (0,),
    "_FillValue": ("AAAAAAAA+H8=",),  # how xarray writes NaN in base64
    "missing_value": (),
    "_Unsigned": ("false",),
}
#: Zarr or HDF5 arrays by name; both have a shape, a dtype and values in ``array[...]``.
Members = Mapping[str, Any]


def check_not_packed(array: Any) -> None:
    """Raise if the CF attributes of an array say that its cells are not its values."""
    given = {name: array.attrs.get(name) for name in PACKING}
    version = getattr(getattr(array, "metadata", None), "zarr_format", 0)
    if version == 2 and "_ARRAY_DIMENSIONS" in array.attrs and array.fill_value:
        given["_FillValue"] = array.fill_value  # where xarray stores it
    for name, harmless in PACKING.items():
        values = [] if given[name] is None else np.ravel(given[name]).tolist()
        if any(value == value and value not in harmless for value in values):
            raise ValueError(
                f"{array.name} is packed: its attribute {name} is {values[0]!r}. Open it with xarray, which "
                "applies such attributes, and pass the DataArray."
            )


def find_matrix(where: object, members: Members, separator: str) -> Any:
    """The two-dimensional array of a group: X, or the only one."""
    matrices = {name: member for name, member in members.items() if _is_matrix(member)}
    if "X" in matrices or len(matrices) == 1:
        return matrices.get("X", next(iter(matrices.values())))
    if not matrices:
        contents = ", ".join(f"{name} {member.shape}" for name, member in members.items()) or "no array"
        raise ValueError(f"{where} has no two-dimensional array of numbers: it contains {contents}.")
    choices = ", ".join(f"{where}{separator}{name}" for name in sorted(matrices)[:5])
    raise ValueError(
        f"{where} has {len(matrices):,} two-dimensional arrays, and none is named X: open one of {choices}."
    )


def _is_matrix(member: Any) -> bool:
    return len(member.shape) == 2 and member.shape[1] > 1 and np.dtype(member.dtype).kind in "fiub"


def check_matrix(where: object, array: Any) -> tuple[int, int]:
    """Raise unless an array is a numeric matrix, rows × features; return its shape."""
    if len(array.shape) != 2:
        raise ValueError(f"{where} is an array of shape {array.shape}; it must be rows × features.")
    if np.dtype(array.dtype).kind not in "fiub":
        raise ValueError(f"{where} is an array of {array.dtype}; it must contain real numbers.")
    if 0 in array.shape:
        raise ValueError(f"{where} is an empty array of shape {array.shape}.")
    return int(array.shape[0]), int(array.shape[1])


def find_coordinates(array: Any, members: Members) -> list[Any | None]:
    """The vectors that label the rows and the columns, as netCDF and xarray store them."""
    if hasattr(array, "dims"):  # HDF5
        found = [scales[0] if len(scales) else None for scales in array.dims]
        found = [None if scale is None or _is_bare_dimension(scale) else scale for scale in found]
    else:
        metadata = array.metadata
        names = getattr(metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS") or ()
        found = [members.get(name) for name in names]
    if len(found) != 2:
        return [None, None]
    return [
        vector if vector is not None and vector.shape == (length,) else None
        for vector, length in zip(found, array.shape, strict=True)
    ]


def _is_bare_dimension(scale: Any) -> bool:
    """Whether netCDF stored a dimension without values."""
    return to_text(scale.attrs.get("NAME", "")).startswith(BARE_DIMENSION)


def find_names(
    where: object,
    attributes: Sequence[Mapping[str, Any]],
    members: Members,
    p: int,
    coordinate: Any | None = None,
) -> list[str] | None:
    """Names of the columns, from an attribute, an array of strings or the coordinate of the columns."""
    for key in FEATURE_NAMES:
        names = next((mapping[key] for mapping in attributes if key in mapping), None)
        if names is None and key in members and len(members[key].shape) == 1:
            names = read_vector(members[key])
        if names is None or isinstance(names, str):
            continue
        if len(names) != p:
            raise ValueError(f"{where} has {len(names):,} {key} for {p:,} columns.")
        return [to_text(name) for name in names]
    if coordinate is None:
        return None
    names = [to_text(name) for name in read_vector(coordinate)]
    check_unique_names(names, where)
    return names


def open_matrix(
    where: object,
    array: Any,
    members: Members,
    attributes: Sequence[Mapping[str, Any]],
    open_cells: Callable[[Any, list[str] | None], Source],
    options: ReadOptions,
) -> OpenedMatrix:
    """Open an array with the names, ids and columns that are members of its group.

    Columns that are not features are vectors of a value for each row. The coordinate of the rows contains
    ids if it is text.
    """
    n, p = check_matrix(where, array)
    rows, columns = find_coordinates(array, members)
    names = find_names(where, attributes, members, p, columns)
    vectors = {name: member for name, member in members.items() if member.shape in ((n,), (n, 1))}
    ids = next((vectors[name] for name in SAMPLE_IDS if name in vectors), None)
    if ids is None and rows is not None and np.dtype(rows.dtype).kind in "OSUT":
        ids = rows
    return OpenedMatrix(
        open_cells(array, names),
        where,
        options,
        None if ids is None else (lambda: np.array(read_vector(ids), str)),
        {name: partial(read_vector, member) for name, member in vectors.items()},
    )


def read_vector(member: Any) -> Array:
    """Values of a vector: numbers unchanged, everything else as text."""
    check_not_packed(member)
    values = np.asarray(member[...]).reshape(-1)
    return values if values.dtype.kind in "fiub" else np.array([to_text(value) for value in values])


def to_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
