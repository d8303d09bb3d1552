"""The features of :class:`Interactions`: their order, their names, and their shift and scale."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Floats, Indices
from banditsis.core.parallel import map_in_threads
from banditsis.sources.base import Calibration

# The smallest variance of a product, as a share of its mean square, that unshifted sums can resolve.
MIN_VARIANCE = {4: 5e-3, 8: 1e-5}
# Largest absolute binary exponent of cells at which sums of squares of products stay in the range of float32.
SAFE_EXPONENT = 28
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
        """The two columns of each of some sorted features; a column itself is paired with column m.

        Examples
        --------
        >>> PairOrder.make(3, main_effects=True, squares=False).factors(np.arange(1, 6))
        (array([1, 2, 0, 0, 1]), array([3, 3, 1, 2, 2]))
        """
        m = len(self.offsets) - 1
        counts = np.diff(np.searchsorted(features, self.offsets))
        main = features[: len(features) - counts.sum()]
        to_second = np.arange(m) + self.lead - self.offsets[:-1]
        first = np.concatenate([main, np.repeat(np.arange(m), counts)])
        second = np.concatenate([np.full_like(main, m), features[len(main) :] + np.repeat(to_second, counts)])
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
        alone = np.concatenate([np.arange(self.offsets[0]), flat])
        if columns is None:
            return alone
        positions = np.searchsorted(columns, alone)
        return np.asarray(positions[columns.take(positions, mode="clip") == alone])


class PairNames(Sequence[str]):
    """Names of the features, made on demand; they do not keep the data alive."""

    def __init__(self, base: Sequence[str] | None, order: PairOrder) -> None:
        self.base, self.order = base, order

    def __len__(self) -> int:
        return int(self.order.offsets[-1])

    def __getitem__(self, feature: Any) -> Any:
        if isinstance(feature, slice):
            return [self[k] for k in range(*feature.indices(len(self)))]
        k = range(len(self))[feature]
        offsets, lead = self.order
        if k < offsets[0]:
            return self._base_name(k)
        first = bisect_right(offsets, k) - 1
        second = k - int(offsets[first]) + first + lead
        name = self._base_name(first)
        return f"{name}²" if first == second else f"{name} × {self._base_name(second)}"

    def _base_name(self, column: int) -> str:
        return f"x{column}" if self.base is None else str(self.base[column])


@dataclass(frozen=True)
class PairCalibration(Calibration):
    """Shift and scale of the features."""

    #: the products that must be shifted because unshifted sums would lose their variance
    flat: Indices
    #: the dtype of matrix products
    dtype: np.dtype


def calibrate_pairs(block: Floats, order: PairOrder, dtype: np.dtype) -> PairCalibration:
    """Calibrate all features from pilot rows of all base columns.

    Columns are always shifted by their means. Products are shifted only if needed, because shifted products
    are summed one by one.
    """
    p = int(order.offsets[-1])
    finite = np.isfinite(block)
    if not finite.all():
        means = np.where(finite, block, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
        block = np.where(finite, block, means)
    if (np.abs(np.frexp(block)[1]) > SAFE_EXPONENT).any():
        dtype = np.dtype(np.float64)
    flat = _find_flat(block.astype(dtype), order)
    if dtype == np.float32 and len(flat) > p // 100:
        dtype = np.dtype(np.float64)
        flat = _find_flat(block, order)
    block, shift = np.column_stack([block, np.ones(len(block))]), np.zeros(p)
    shifted = np.concatenate([np.arange(order.offsets[0]), flat])
    for i in range(0, len(shifted), PRODUCTS_AT_ONCE):
        features = shifted[i : i + PRODUCTS_AT_ONCE]
        shift[features] = _means(block, *order.factors(features))
    return PairCalibration(shift, np.broadcast_to(1.0, (p,)), flat, dtype)


def _find_flat(block: Array, order: PairOrder) -> Indices:
    """The products whose variance is lost in unshifted sums in the dtype of the block."""
    variable, squares = 1 - MIN_VARIANCE[block.dtype.itemsize], np.square(block)

    def find(top: int) -> Indices:
        mean, square = (x[:, top : top + PANEL].T @ x[:, top:] / len(x) for x in (block, squares))
        flat = np.square(mean, out=mean) > np.multiply(square, variable, out=square)
        if not flat.any():
            return np.empty(0, np.intp)
        first, second = np.nonzero(np.triu(flat, order.lead))
        return order.offsets[top + first] + second - first - order.lead

    return np.concatenate(map_in_threads(find, range(0, block.shape[1], PANEL), 2))


def _means(block: Floats, first: Indices, second: Indices) -> Floats:
    """Means of products; exact for constant products, which then become exactly 0."""
    products = np.empty((len(block), len(first)))
    kernels.interactions.multiply(block, first, second, products)
    constant = (products == products[0]).all(axis=0)
    return np.asarray(np.where(constant, products[0], products.mean(axis=0)))
