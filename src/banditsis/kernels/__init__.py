"""Loops over cells, compiled by Numba: arrays in, arrays filled.

A kernel sees a *tile* of the data as strips of contiguous memory inside one flat array: a strip is a
piece of a row (``by_row``) or a piece of a column (``by_column``). Tiles that do not lie in memory like
that are packed first, by the two functions of :mod:`~banditsis.kernels.gather`.
"""
