"""The features of :class:`Interactions`: their order, their names, and their shift and scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Floats, Indices
from banditsis.core.parallel import map_in_threads
from banditsis.sources.base import Calibration

# The smallest variance of a product, as a share of its mean square, that unshifted sums can resolve.
MIN_VARIANCE = {4: 5e-3, 8: 1e-5}
# Largest absolute binary exponent, by bytes of a cell, at which sums of fourth powers stay in range.
SAFE_EXPONENT = {4: 10, 8: 100}
PANEL = 128
PRODUCTS_AT_ONCE = 1 << 13


class PairOrder(NamedTuple):
    """The order of the features: the m columns if they are features, then products row by row.

    ``offsets[i]`` is the first product of column i, with column ``i + lead`` as its second factor;
    ``offsets[m]`` is the number of features.
    """

    offsets: Indices
    lead: int

    @classmethod
    def make(cls, m: int, main_effects: bool, squares: bool) -> PairOrder:
        """The order of the features that m columns give."""
        lead, start = 0 if squares else 1, m if main_effects else 0
        return cls(start + np.concatenate([[0], np.cumsum(np.arange(m, 0, -1) - lead)]).astype(np.intp), lead)

    def factors(self, features: Indices) -> tuple[Indices, Indices]:
        """The two columns of each of some sorted features; a column itself is paired with column m."""
        first, second = np.empty((2, len(features)), np.intp)
        kernels.interactions.find_pairs(features, *self, first, second)
        return first, second

    def used_columns(self, features: Indices) -> tuple[Indices, Indices, Indices]:
        """The base columns of some features, and the positions of both factors among them.

        The second factor of a column itself is a column of ones after the others.
        """
        first, second = self.factors(features)
        mask = np.zeros(len(self.offsets), bool)
        mask[first] = mask[second] = mask[-1] = True
        position = np.cumsum(mask) - 1
        return np.flatnonzero(mask[:-1]), position[first], position[second]

    def single(self, columns: Columns, flat: Indices) -> Indices:
        """Positions of the features that no matrix product sums: columns themselves, and flat products."""
        if columns is None:
            return np.concatenate([np.arange(self.offsets[0]), flat])
        n_main = int(np.searchsorted(columns, self.offsets[0]))
        shifted = np.flatnonzero(np.isin(columns[n_main:], flat, assume_unique=True)) if len(flat) else flat
        return np.concatenate([np.arange(n_main), n_main + shifted])


class PairNames(Sequence[str]):
    """Names of the features, made on demand; they do not keep the data alive."""

    def __init__(self, base: Sequence[str] | None, order: PairOrder) -> None:
        self.base, self.order = base, order

    def __len__(self) -> int:
        return int(self.order.offsets[-1])

    @overload
    def __getitem__(self, feature: int) -> str: ...
    @overload
    def __getitem__(self, feature: slice) -> list[str]: ...
    def __getitem__(self, feature: int | slice) -> str | list[str]:
        if isinstance(feature, slice):
            return [self[k] for k in range(*feature.indices(len(self)))]
        k = int(feature) + (len(self) if feature < 0 else 0)
        if not 0 <= k < len(self):
            raise IndexError(f"feature {feature} of {len(self):,}.")
        first, second = (int(columns[0]) for columns in self.order.factors(np.array([k])))
        if second == len(self.order.offsets) - 1:
            return self._base_name(first)
        if first == second:
            return f"{self._base_name(first)}²"
        return f"{self._base_name(first)} × {self._base_name(second)}"

    def _base_name(self, column: int) -> str:
        return f"x{column}" if self.base is None else str(self.base[column])


@dataclass(frozen=True)
class PairCalibration(Calibration):
    """Shift and scale of the features."""

    #: scale of the base columns, and of a column of ones
    base_scale: Floats
    #: the products that must be shifted because unshifted sums would lose their variance
    flat: Indices
    #: the dtype of matrix products
    dtype: np.dtype


def calibrate_pairs(
    block: Floats, order: PairOrder, dtype: np.dtype, find_flat: Callable[[Array, PairOrder], Indices]
) -> PairCalibration:
    """Calibrate all features from pilot rows of all base columns.

    Columns are always shifted by their means. Products are shifted only if needed, because shifted products
    are summed one by one.
    """
    p = int(order.offsets[-1])
    block = _fill_missing(block)
    base_scale = np.append(_base_scale(block, dtype), 1.0)
    block = np.column_stack([block, np.ones(len(block))]) * base_scale
    flat = find_flat(block[:, :-1].astype(dtype), order)
    if dtype == np.float32 and len(flat) > p // 100:
        dtype = np.dtype(np.float64)
        flat = find_flat(block[:, :-1], order)
    scale: Floats = np.broadcast_to(1.0, (p,))
    if (base_scale != 1).any():
        first, second = order.factors(np.arange(p))
        scale = base_scale[first] * base_scale[second]
    shift = np.zeros(p)
    shifted = np.concatenate([np.arange(order.offsets[0]), flat])
    for i in range(0, len(shifted), PRODUCTS_AT_ONCE):
        features = shifted[i : i + PRODUCTS_AT_ONCE]
        shift[features] = _means(block, *order.factors(features))
    return PairCalibration(shift, scale, base_scale, flat, dtype)


def _fill_missing(block: Floats) -> Floats:
    """Replace values that are not finite by the mean of the others."""
    finite = np.isfinite(block)
    if finite.all():
        return block
    block = np.where(finite, block, 0.0)
    return np.where(finite, block, block.sum(axis=0) / np.maximum(finite.sum(axis=0), 1))


def _base_scale(block: Floats, dtype: np.dtype) -> Floats:
    """Powers of two that bring very large or small columns to about 1."""
    exponent = np.clip(np.frexp(np.abs(block).max(axis=0))[1], -250, 250)
    return np.where(np.abs(exponent) > SAFE_EXPONENT[dtype.itemsize], np.ldexp(1.0, -exponent), 1.0)


def find_flat(block: Array, order: PairOrder) -> Indices:
    """The products whose variance is lost in unshifted sums in the dtype of the block."""
    min_variance, squares = MIN_VARIANCE[block.dtype.itemsize], block * block

    def find(top: int) -> Indices:
        panel, found = slice(top, top + PANEL), np.empty(0, np.intp)
        means = [x[:, panel].T @ x[:, top:] / len(x) for x in (block, squares)]
        given = *means, top, *order, min_variance
        if n_flat := kernels.interactions.find_flat(*given, found):  # with no room it only counts
            kernels.interactions.find_flat(*given, found := np.empty(n_flat, np.intp))
        return found

    return np.concatenate(map_in_threads(find, range(0, block.shape[1], PANEL), 2))


def _means(block: Floats, first: Indices, second: Indices) -> Floats:
    """Means of products; exact for constant products, which then become exactly 0."""
    products = np.empty((len(block), len(first)))
    kernels.interactions.multiply(block, first, second, products)
    constant = (products == products[0]).all(axis=0)
    means: Floats = np.where(constant, products[0], products.mean(axis=0))
    return means
