"""What every source can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from banditsis._typing import Array, Columns, Floats, Indices, Rows
from banditsis.parallel import Workers
from banditsis.statistics.base import Weights


@dataclass(frozen=True)
class Calibration:
    """How each column is moved before it is summed: ``z = scale · x - shift``.

    The shift is about the column's mean, so that a mean of 1e8 does not drown a deviation of 1. The scale is
    a power of two and almost always 1: it keeps the squares of very large or small values in range. No score
    depends on either.
    """

    shift: Array
    scale: Array


class Source(ABC):
    """Rows × columns, wherever they live."""

    shape: tuple[int, int]
    dtype: np.dtype
    names: Sequence[str] | None = None
    #: How many neighbouring rows come at about the cost of one: the chunk length of a chunked store.
    block_rows: int = 1
    #: Whether the data say that their rows were put into random order.
    shuffled: bool = False
    #: What a result should say of how the data were opened.
    notes: Sequence[str] = ()
    #: Whether sums are matrix products, for which threads of ours are better than those of BLAS.
    multiplies: bool = False
    #: What is taken from the columns that features are made of; features of new rows must have it the same.
    means: Floats | None = None
    #: The call that makes features of columns X, such as ``Interactions(X)``; empty if they are the columns.
    recipe: str = ""

    def name(self, column: int) -> str:
        """Name of a feature, made on demand."""
        return f"x{column}" if self.names is None else self.names[column]

    def block_edges(self) -> Indices:
        """Where blocks begin, and where the last one ends."""
        n = self.shape[0]
        return np.append(np.arange(0, n, self.block_rows), n)

    def row_number(self, row: int) -> int:
        """The number of a row in the user's data, for messages."""
        return row

    @abstractmethod
    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        """Cells of some rows × columns as a dense block, a view where there can be one."""

    @abstractmethod
    def calibrate(self, rows: Rows) -> Calibration:
        """Find shift and scale of all columns from some of the rows."""

    @abstractmethod
    def sums(
        self,
        rows: Rows,
        columns: Columns,
        weights: Callable[[Rows], Weights],
        calibration: Calibration,
        out: Floats,
        workers: Workers,
        tick: Callable[[int], None],
    ) -> None:
        """Add the products of some cells with their weights to ``out`` (lines × columns).

        ``tick`` is told how many cells have been added. The result does not depend on the number of
        workers: tiles have a fixed size and are added in a fixed order.
        """

    def sums_by_group(
        self,
        groups: Iterable[Rows],
        columns: Columns,
        weights: Callable[[Rows], Weights],
        calibration: Calibration,
        out: Floats,
        workers: Workers,
        tick: Callable[[int], None],
    ) -> Iterator[None]:
        """As :meth:`sums` for one group of rows after the other, with a stop after each."""
        for rows in groups:
            self.sums(rows, columns, weights, calibration, out, workers, tick)
            yield

    def own_responses(self, y: Any) -> Any:
        """Responses that stay where this source is, or None to have them in memory."""
        return None

    @abstractmethod
    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """Bytes that come from memory when that many cells are read, in whole 64-byte lines."""
