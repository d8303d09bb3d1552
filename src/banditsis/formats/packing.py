"""Numbers packed by the CF conventions: codes for missing values, a scale factor and an offset.

netCDF files and the Zarr stores of xarray are written this way. The value of a cell is
``cell * scale_factor + add_offset``, or missing if the cell is ``_FillValue`` or ``missing_value``.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array, Columns, Rows
from banditsis.sources.base import Source, SourceView
from banditsis.sources.blocks import BlockSource


class Packing(NamedTuple):
    """How the cells of an array become values."""

    #: dtype of the cells as they are to be understood
    stored: np.dtype
    #: cells that stand for a missing value
    missing: tuple[Any, ...]
    scale: float
    offset: float

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the values: float32 if that is exact, else float64."""
        exact = self.stored.itemsize <= (4 if self.stored.kind == "f" else 2)
        is_plain = (self.scale, self.offset) == (1, 0)
        return np.dtype(np.float32 if exact and is_plain else np.float64)

    def decode(self, cells: Array) -> Array:
        """The values of cells."""
        cells = cells.view(self.stored)
        values = cells.astype(self.dtype)
        if (self.scale, self.offset) != (1, 0):
            values = values * self.scale + self.offset
        for code in self.missing:
            values[cells == code] = np.nan
        return values

    def describe(self) -> str:
        """A note for the result."""
        codes = ", ".join(str(code) for code in self.missing)
        values = f"values are cells × {self.scale:g} + {self.offset:g}"
        missing = f", and cells that are {codes} count as missing" if codes else ""
        return f"by the CF attributes of the data, {values}{missing}."


def find_packing(array: Any) -> Packing | None:
    """The packing that the attributes of a Zarr array or HDF5 dataset declare; None if cells are values."""
    dtype, attributes = array.dtype, array.attrs
    if not isinstance(dtype, np.dtype) or dtype.kind not in "fiu":
        return None
    stored = cell_type = dtype.newbyteorder("=")
    if dtype.kind == "i" and str(attributes.get("_Unsigned", "")).lower() == "true":
        stored = np.dtype(f"u{dtype.itemsize}")
    codes = [*_numbers(array, "_FillValue"), *_numbers(array, "missing_value"), *_fill_value_of_xarray(array)]
    missing = {_to_cell(code, cell_type).view(stored)[()] for code in codes if _is_cell(code, cell_type)}
    scale, offset = (
        next(iter(_numbers(array, key)), default)
        for key, default in (("scale_factor", 1.0), ("add_offset", 0.0))
    )
    packing = Packing(stored, tuple(sorted(missing)), float(scale), float(offset))
    is_packed = missing or (packing.scale, packing.offset) != (1, 0) or stored != cell_type
    return packing if is_packed else None


def _fill_value_of_xarray(array: Any) -> list[Any]:
    """The fill value of a Zarr array, version 2: xarray stores ``_FillValue`` there, others leave it 0."""
    version = getattr(getattr(array, "metadata", None), "zarr_format", None)
    is_xarray = version == 2 and "_ARRAY_DIMENSIONS" in array.attrs
    return [array.fill_value] if is_xarray and array.fill_value else []


def _numbers(array: Any, key: str) -> list[Any]:
    """The numbers in an attribute; xarray writes some of them as text."""
    value = array.attrs.get(key)
    if value is None:
        return []
    try:
        return [
            _to_number(item) if isinstance(item, (str, bytes)) else item + 0
            for item in np.ravel(value).tolist()
        ]
    except (TypeError, ValueError, struct.error, binascii.Error):
        raise ValueError(f"the attribute {key} is {value!r}; it must be a number.") from None


def _to_number(text: str | bytes) -> float:
    """A number, or the base64 code of a double."""
    try:
        return float(text)
    except ValueError:
        return float(struct.unpack("<d", base64.b64decode(text, validate=True))[0])


def _to_cell(code: Any, dtype: np.dtype) -> Array:
    with np.errstate(over="ignore"):
        return np.array(code, np.float64 if dtype.kind == "f" else None).astype(dtype)


def _is_cell(code: Any, dtype: np.dtype) -> bool:
    """Whether cells of a dtype can have this value; NaN needs no decoding."""
    if code != code or dtype.kind == "f":
        return bool(code == code)
    limits = np.iinfo(dtype)
    return bool(limits.min <= code <= limits.max and code == int(code))


class UnpackedSource(BlockSource, SourceView):
    """The values of a source of packed cells."""

    block_rows = 1  # an attribute that the view takes from its base

    def __init__(self, base: Source, packing: Packing) -> None:
        super().__init__(base)
        self.packing, self.dtype = packing, packing.dtype
        self.notes = [*base.notes, packing.describe()]

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self.packing.decode(np.asarray(self.base.read(rows, columns)))

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return self.base.bytes_touched(n_rows, n_columns, scattered=scattered)


def unpack(source: Source, array: Any) -> Source:
    """The values of a source whose cells are those of an array."""
    packing = find_packing(array)
    return source if packing is None else UnpackedSource(source, packing)
