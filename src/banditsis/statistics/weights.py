"""The weights by which a source multiplies its cells: all that it needs to know of a linear statistic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, as_indices, take

#: ``linear`` of shape (rows, q), ``v`` of shape (rows,) or None, and ``presence`` of shape (rows, s) or None.
WeightArrays: TypeAlias = "tuple[Floats, Floats | None, Floats | None]"


@dataclass(frozen=True)
class Weights:
    """The weights by which a source multiplies the cells of some rows.

    Let ``z`` be the cells of a feature, shifted by a constant (scores do not depend on the shift), and ``v``
    the weights of the rows, 1 if none are given. The source computes these lines of sums over the rows, each
    with one value per feature: ``Σ v·z``; ``Σ z·w`` for each column w of ``linear``; ``Σ v·z²``. With
    ``presence``, missing values (NaN) are deleted pairwise, that is left out of all sums, and ``Σ u`` over
    the rows in which the cell is present follows for each of its columns u. With ``fourth``, the last line is
    ``Σ z⁴``, which is infinite or 0 if cells are beyond about 1e76 or 1e-76.

    ``compute`` returns the arrays of some rows when they are first used, so a source takes the weights of a
    tile in the thread that sums it. What a source has to know before takes no computation.

    Examples
    --------
    >>> weights = Weights.of(np.array([[1.0], [2.0], [3.0]]))
    >>> weights.part(slice(1, 3)).linear.tolist()
    [[2.0], [3.0]]
    """

    #: the rows that the weights belong to, by position
    rows: Rows
    compute: Callable[[Rows], WeightArrays] | None
    #: number of columns of ``linear``
    n_linear: int
    #: whether rows have weights ``v``
    weighted: bool = False
    #: number of columns of ``presence``; 0 for complete data
    n_presence: int = 0
    fourth: bool = False

    @classmethod
    def of(
        cls, linear: Floats, v: Floats | None = None, presence: Floats | None = None, fourth: bool = False
    ) -> Weights:
        """Weights with these arrays."""
        n_presence = 0 if presence is None else presence.shape[1]
        weights = cls(slice(0, len(linear)), None, linear.shape[1], v is not None, n_presence, fourth)
        vars(weights)["arrays"] = linear, v, presence
        return weights

    def part(self, positions: slice | Indices) -> Weights:
        """Weights of the rows at some positions, which share the arrays if these are known."""
        if "arrays" in vars(self):
            linear, v, presence = (None if part is None else part[positions] for part in self.arrays)
            assert linear is not None
            return Weights.of(linear, v, presence, self.fourth)
        if isinstance(positions, slice):
            return replace(self, rows=take(self.rows, positions.start, positions.stop))
        return replace(self, rows=as_indices(self.rows)[positions])

    @property
    def computed(self) -> Weights:
        """The same weights, computed now: parts of them share the arrays."""
        _ = self.arrays
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Arrays are sent to other processes, and not what computes them."""
        return Weights.of, (*self.arrays, self.fourth)

    @cached_property
    def arrays(self) -> WeightArrays:
        """``linear``, ``v`` and ``presence``."""
        assert self.compute is not None  # or the arrays were given
        return self.compute(self.rows)

    linear = property(lambda self: self.arrays[0])
    v = property(lambda self: self.arrays[1])
    presence = property(lambda self: self.arrays[2])

    @property
    def is_plain(self) -> bool:
        """Whether there is one linear weight, for complete data, and nothing else."""
        return self.n_linear == 1 and not self.weighted and not self.n_presence

    @property
    def n_lines(self) -> int:
        """Number of lines of the sums."""
        return 2 + self.n_linear + self.n_presence + self.fourth

    def padded(self, dtype: np.dtype, multiple: int = 1, along_rows: bool = True) -> Array:
        """The row weights, the linear weights, and zeros up to a multiple of columns.

        The shape is (rows, columns), or (columns, rows) unless ``along_rows``. Tiles with the same rows share
        the array.
        """
        key = dtype, multiple, along_rows
        if key not in self._padded:
            (linear, v, _), q = self.arrays, self.n_linear
            n_columns = -(-(q + 1) // multiple) * multiple
            columns = np.zeros((len(linear), n_columns), dtype, order="C" if along_rows else "F")
            columns[:, 0], columns[:, 1 : q + 1] = 1 if v is None else v, linear
            self._padded[key] = columns if along_rows else columns.T
        return self._padded[key]

    @cached_property
    def _padded(self) -> dict[tuple[np.dtype, int, bool], Array]:
        return {}
