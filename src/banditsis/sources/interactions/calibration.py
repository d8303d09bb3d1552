"""Which products have to be shifted before they are summed, and by how much, from a few rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banditsis.arrays import Floats, Indices
from banditsis.kernels import interactions as pairs
from banditsis.sources.base import Calibration

# The least share of its mean square that the variance of a product may be, for plain sums to show it.
MIN_VARIANCE = {4: 5e-3, 8: 1e-5}
# Exponents of two between which fourth powers, and sums of them, neither overflow nor vanish.
SAFE_EXPONENT = {4: 10, 8: 100}
PANEL = 128
PRODUCTS_AT_ONCE = 1 << 13


@dataclass(frozen=True)
class PairCalibration(Calibration):
    """Shift and scale of features, and what they come from.

    Attributes
    ----------
    base_scale : ndarray of shape (m + 1,)
        Scale of the base columns, and of 1.
    flat : ndarray of int
        The products that are shifted, since their variance is lost in plain sums.
    compute : dtype
        In which matrix products are taken.
    """

    base_scale: Floats
    flat: Indices
    compute: np.dtype


def calibrate_pairs(block: Floats, offsets: Indices, lead: int, dtype: np.dtype) -> PairCalibration:
    """Find out from pilot rows of all base columns.

    Columns themselves are always shifted by their means; products only where it is needed, since shifted
    ones are summed one by one.
    """
    p = int(offsets[-1])
    block = _filled(block)
    base_scale = _base_scale(block, dtype)
    block = np.column_stack([block * base_scale, np.ones(len(block))])
    base_scale = np.append(base_scale, 1.0)
    flat = _find_flat(block[:, :-1], offsets, lead, dtype)
    if dtype == np.float32 and len(flat) > p // 100:
        dtype = np.dtype(np.float64)
        flat = _find_flat(block[:, :-1], offsets, lead, dtype)
    scale: Floats = np.broadcast_to(1.0, (p,))
    if (base_scale != 1).any():
        first, second = list_pairs(np.arange(p), offsets, lead)
        scale = base_scale[first] * base_scale[second]
    shift = np.zeros(p)
    moved = np.concatenate([np.arange(offsets[0]), flat])
    for i in range(0, len(moved), PRODUCTS_AT_ONCE):
        some = moved[i : i + PRODUCTS_AT_ONCE]
        shift[some] = _means(block, *list_pairs(some, offsets, lead))
    return PairCalibration(shift, scale, base_scale, flat, dtype)


def list_pairs(features: Indices, offsets: Indices, lead: int) -> tuple[Indices, Indices]:
    """The two columns of each of some sorted features; the second of a column itself is m."""
    first, second = np.empty((2, len(features)), np.intp)
    pairs.find_pairs(features, offsets, lead, first, second)
    return first, second


def _filled(block: Floats) -> Floats:
    """Gaps take the mean of what is there."""
    finite = np.isfinite(block)
    if finite.all():
        return block
    block = np.where(finite, block, 0.0)
    return np.where(finite, block, block.sum(axis=0) / np.maximum(finite.sum(axis=0), 1))


def _base_scale(block: Floats, dtype: np.dtype) -> Floats:
    """Powers of two that make very large or small columns about 1."""
    exponent = np.clip(np.frexp(np.abs(block).max(axis=0))[1], -250, 250)
    return np.where(np.abs(exponent) > SAFE_EXPONENT[dtype.itemsize], np.ldexp(1.0, -exponent), 1.0)


def _find_flat(block: Floats, offsets: Indices, lead: int, dtype: np.dtype) -> Indices:
    """The products that vary so little around their mean that their variance is lost in plain sums."""
    least, squares = MIN_VARIANCE[dtype.itemsize], block * block

    def look(found: Indices) -> int:
        n_found = 0
        for top in range(0, block.shape[1], PANEL):
            panel = slice(top, top + PANEL)
            mean, square = (x[:, panel].T @ x[:, top:] / len(x) for x in (block, squares))
            n_found = pairs.find_flat(mean, square, top, offsets, lead, least, found, n_found)
        return n_found

    found = np.empty(look(np.empty(0, np.intp)), np.intp)
    if found.size:
        look(found)
    return found


def _means(block: Floats, first: Indices, second: Indices) -> Floats:
    """Means of products; exact where they are all the same, so that these become exactly 0."""
    products = np.empty((len(block), len(first)))
    pairs.multiply(block, first, second, products)
    means: Floats = np.where((products == products[0]).all(axis=0), products[0], products.mean(axis=0))
    return means
