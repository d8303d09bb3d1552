"""Loops over cells, compiled by Numba: arrays in, arrays filled. They do not validate, allocate or print.

Sums are computed over *tiles*: strips of contiguous memory inside one flat array, which are pieces of rows
(``row_moments``) or of columns (``column_moments``). Cells that are not contiguous are packed first
(``gather``).
"""
