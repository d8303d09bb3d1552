"""What every source can do: rows × columns of features, wherever they live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from banditsis.arrays import Array, Columns, Floats, Indices, Rows
from banditsis.parallel import Workers
from banditsis.statistics.base import Weights

#: Gives the weights of some rows.
WeightFunction: TypeAlias = Callable[[Rows], Weights]


@dataclass(frozen=True)
class Calibration:
    """How each column is transformed before it is summed: ``z = scale · x - shift``.

    The shift is close to the column's mean, so a mean of 1e8 does not drown a deviation of 1. The scale is a
    power of two and almost always 1; it keeps the squares of very large or small values in range. Scores do
    not depend on either.
    """

    shift: Array
    scale: Array

    def take(self, columns: Indices | slice) -> Calibration:
        """The calibration of some of the columns."""
        return Calibration(self.shift[columns], self.scale[columns])


def ignore_progress(cells: int) -> None:
    """A ``tick`` that does nothing."""


class SumContext(NamedTuple):
    """What a pass over the data needs besides rows, columns and weights."""

    #: of all columns of the source
    calibration: Calibration
    #: the sums, lines × columns, to which the pass adds
    out: Floats
    workers: Workers
    #: called with the number of cells that have been added
    tick: Callable[[int], None] = ignore_progress


class Source(ABC):
    """Rows × columns, wherever they live.

    A new kind of source sets ``shape`` and ``dtype`` and implements ``read``, ``calibrate``, ``sums`` and
    ``bytes_touched``. The other attributes and methods have defaults that suit an array in memory.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    names: Sequence[str] | None = None
    #: Rows and columns that are stored together.
    chunk: tuple[int, int] = (1, 1)
    #: Number of consecutive rows that cost about as much to read as one of them.
    block_rows: int = 1
    #: Whether cells are stored row by row.
    by_row: bool = False
    #: Whether the data declare that their rows are in random order.
    shuffled: bool = False
    #: What the result should say about how the data were opened.
    notes: Sequence[str] = ()
    #: Whether sums are matrix products; BLAS is then limited to one thread for each of ours.
    uses_blas: bool = False
    #: What is subtracted from the columns that features are made of; None if nothing is.
    means: Floats | None = None
    #: The call that makes the features from columns X, such as ``Interactions(X)``; empty for plain columns.
    recipe: str = ""

    def name(self, column: int) -> str:
        """Name of a feature."""
        return f"x{column}" if self.names is None else self.names[column]

    def block_edges(self) -> Indices:
        """Where blocks of rows begin, and where the last one ends."""
        n = self.shape[0]
        return np.append(np.arange(0, n, self.block_rows), n)

    def row_number(self, row: int) -> int:
        """The number of a row in the user's data, for messages."""
        return row

    @abstractmethod
    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        """Cells of some rows × columns as a dense block; a view if possible."""

    @abstractmethod
    def calibrate(self, rows: Rows) -> Calibration:
        """Find the shift and scale of all columns from some of the rows."""

    @abstractmethod
    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        """Add the products of some cells with their weights to ``context.out``.

        The result does not depend on the number of workers: tiles have a fixed size and are added in a fixed
        order.
        """

    def sums_by_group(
        self, groups: Iterable[Rows], columns: Columns, weights: WeightFunction, context: SumContext
    ) -> Iterator[None]:
        """Call :meth:`sums` for one group of rows after the other, and yield after each."""
        for rows in groups:
            self.sums(rows, columns, weights, context)
            yield

    @abstractmethod
    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """Bytes that are read from memory or disk for that many rows × columns."""

    def release(self) -> None:  # noqa: B027 - most sources hold no pages
        """Return cached pages of a memory map to the system, if there is one."""


class SourceView(Source):
    """A source that wraps another: it delegates everything that a subclass does not override.

    Parameters
    ----------
    base : Source
        The wrapped source.
    """

    def __init__(self, base: Source) -> None:
        self.base = base
        for attribute in Source.__annotations__:  # all of them, so no wrapper can forget one
            setattr(self, attribute, getattr(base, attribute))

    def name(self, column: int) -> str:
        return self.base.name(column)

    def block_edges(self) -> Indices:
        return self.base.block_edges()

    def row_number(self, row: int) -> int:
        return self.base.row_number(row)

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self.base.read(rows, columns)

    def calibrate(self, rows: Rows) -> Calibration:
        return self.base.calibrate(rows)

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        self.base.sums(rows, columns, weights, context)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return self.base.bytes_touched(n_rows, n_columns, scattered=scattered)

    def release(self) -> None:
        self.base.release()
