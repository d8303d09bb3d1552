"""What Zarr and HDF5 have in common: groups of arrays, of which one is the matrix and others belong to it."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.formats.checks import check_shape, check_size, readable
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
#: Arrays by name; they have a shape, a dtype and values in ``array[...]``.
Members = Mapping[str, Any]


class Store(ABC):
    """A Zarr store or an HDF5 file that has been opened: groups of arrays, with attributes."""

    format_name: str

    def __init__(self, path: object, root: Any, memory_limit: int | None) -> None:
        self.path, self.root, self.memory_limit = path, root, memory_limit

    @abstractmethod
    def arrays(self, group: Any) -> Members:
        """The arrays of a group."""

    @abstractmethod
    def prepare(self, array: Any) -> Any:
        """What can be sliced to read an array; raise if its cells are in other files or need unsafe code."""

    @abstractmethod
    def count_chunks(self, array: Any) -> tuple[tuple[int, ...], int, int]:
        """The shape of a chunk, the number of chunks, and how many of them are stored."""

    @abstractmethod
    def make_source(self, cells: Any, names: Sequence[str] | None) -> Source:
        """A source of the cells of an array that was checked."""

    def where(self, array: Any) -> str:
        """The name of an array in messages."""
        return f"{self.path}:{array.name}".removesuffix(":/")

    def readable(self) -> AbstractContextManager[None]:
        """Explain errors of reading."""
        return readable(self.path, self.format_name)

    def check(self, array: Any) -> Any:
        """What can be sliced to read an array; raise if that is not safe, and warn if parts are missing."""
        where, cells = self.where(array), self.prepare(array)
        self._check_not_packed(array)
        chunk, n_chunks, n_stored = self.count_chunks(array)
        n_bytes = math.prod(chunk) * max(8, np.dtype(array.dtype).itemsize)
        check_size(where, n_bytes, self.memory_limit, f"has chunks of {chunk} cells")
        if n_stored < n_chunks:
            fill = array.fill_value if hasattr(array, "fill_value") else array.fillvalue
            warnings.warn(
                f"{where}: {n_chunks - n_stored:,} of {n_chunks:,} chunks were never written; their cells "
                f"read as {fill}. If writing was interrupted, write the data again.",
                stacklevel=3,
            )
        return cells

    def read(self, array: Any) -> Array:
        """Values of a vector: numbers unchanged, everything else as text."""
        n_bytes = math.prod(array.shape) * max(8, np.dtype(array.dtype).itemsize)
        check_size(self.where(array), n_bytes, self.memory_limit, f"has the shape {array.shape}")
        values = np.asarray(self.check(array)[...]).reshape(-1)
        return values if values.dtype.kind in "fiub" else np.array([to_text(value) for value in values])

    def open_dense(self, where: object, array: Any, names: Sequence[str] | None) -> Source:
        """A source of an array that is a numeric matrix, rows × features."""
        if len(array.shape) != 2:
            raise ValueError(f"{where} is an array of shape {array.shape}; it must be rows × features.")
        if np.dtype(array.dtype).kind not in "fiub":
            raise ValueError(f"{where} is an array of {array.dtype}; it must contain real numbers.")
        if 0 in array.shape:
            raise ValueError(f"{where} is an empty array of shape {array.shape}.")
        check_shape(where, array.shape, self.memory_limit)
        return self.make_source(self.check(array), names)

    def _check_not_packed(self, array: Any) -> None:
        """Raise if the CF attributes of an array say that its cells are not its values."""
        given = {name: array.attrs.get(name) for name in PACKING}
        version = getattr(getattr(array, "metadata", None), "zarr_format", 0)
        if version == 2 and "_ARRAY_DIMENSIONS" in array.attrs and array.fill_value:
            given["_FillValue"] = array.fill_value  # where xarray stores it
        for name, harmless in PACKING.items():
            values = [] if given[name] is None else np.ravel(given[name]).tolist()
            if any(value == value and value not in harmless for value in values):
                raise ValueError(
                    f"{self.where(array)} is packed: its attribute {name} is {values[0]!r}. Open it "
                    "with xarray, which applies such attributes, and pass the DataArray."
                )


def open_matrix(store: Store, where: object, inner: str, options: ReadOptions) -> OpenedMatrix:
    """Open an array, or the matrix of a group, with the names, ids and columns that are next to it.

    Columns that are not features are vectors of a value for each row. The coordinate of the rows contains
    ids if it is text.
    """
    if inner and inner not in store.root:
        choices = ", ".join(sorted(store.arrays(store.root))[:5]) or "none"
        raise ValueError(f"{store.path} has no array {inner}; its arrays are: {choices}.")
    node = store.root[inner] if inner else store.root
    array = node if hasattr(node, "shape") else _find_matrix(where, store.arrays(node))
    parent = array.name.strip("/").rpartition("/")[0]
    group = store.root[parent] if parent else store.root
    members = store.arrays(group) if not hasattr(group, "shape") else {}
    rows, columns = _find_coordinates(array, members)
    source = store.open_dense(where, array, None)
    (n, p), kinds = source.shape, "OSUT"
    source.names = _find_names(store, where, array, group, members, p, columns)
    vectors = {name: member for name, member in members.items() if member.shape in ((n,), (n, 1))}
    ids = next((vectors[name] for name in SAMPLE_IDS if name in vectors), None)
    if ids is None and rows is not None and np.dtype(rows.dtype).kind in kinds:
        ids = rows
    others = {name: partial(store.read, member) for name, member in vectors.items()}
    read_ids = None if ids is None else lambda: np.array(store.read(ids), str)
    return OpenedMatrix(source, where, options, read_ids, others)


def _find_matrix(where: object, members: Members) -> Any:
    """The two-dimensional array of a group: X, or the only one."""
    matrices = {
        name: member
        for name, member in members.items()
        if len(member.shape) == 2 and member.shape[1] > 1 and np.dtype(member.dtype).kind in "fiub"
    }
    if "X" in matrices or len(matrices) == 1:
        return matrices.get("X", next(iter(matrices.values())))
    if not matrices:
        contents = ", ".join(f"{name} {member.shape}" for name, member in members.items()) or "no array"
        raise ValueError(f"{where} has no two-dimensional array of numbers: it contains {contents}.")
    separator = "/" if ":/" in str(where) else ":/"
    choices = ", ".join(f"{where}{separator}{name}" for name in sorted(matrices)[:5])
    raise ValueError(
        f"{where} has {len(matrices):,} two-dimensional arrays, and none is named X: open one of {choices}."
    )


def _find_coordinates(array: Any, members: Members) -> list[Any | None]:
    """The vectors that label the rows and the columns, as netCDF and xarray store them."""
    if hasattr(array, "dims"):  # HDF5
        name = "DIMENSION_LIST"
        if name in array.attrs and array.attrs.get_id(name).dtype.kind != "O":
            return [None, None]  # no list of references, which the library would follow all the same
        found = [scales[0] if len(scales) else None for scales in array.dims]
    else:
        names = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS") or ()
        found = [members.get(name) for name in names]
    if len(found) != 2:
        return [None, None]
    return [
        vector if vector is not None and vector.shape == (length,) and not _is_bare(vector) else None
        for vector, length in zip(found, array.shape, strict=True)
    ]


def _is_bare(scale: Any) -> bool:
    """Whether netCDF stored a dimension without values."""
    return to_text(scale.attrs.get("NAME", "")).startswith(BARE_DIMENSION)


def _find_names(
    store: Store, where: object, array: Any, group: Any, members: Members, p: int, coordinate: Any | None
) -> list[str] | None:
    """Names of the columns, from an attribute, an array of strings or the coordinate of the columns."""
    for key in FEATURE_NAMES:
        names = array.attrs.get(key, group.attrs.get(key))
        if names is None and key in members and len(members[key].shape) == 1:
            names = store.read(members[key])
        if names is None or isinstance(names, str):
            continue
        if len(names) == p:
            return [to_text(name) for name in names]
        if key in array.attrs:  # else they may belong to another array
            raise ValueError(f"{where} has {len(names):,} {key} for {p:,} columns.")
    if coordinate is None:
        return None
    names = [to_text(name) for name in store.read(coordinate)]
    check_unique_names(names, where)
    return names


def to_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
