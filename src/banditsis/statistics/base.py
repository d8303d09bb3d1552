"""The seam between statistics and sources.

A moment statistic lives on the side of the response. For a few rows it gives :class:`Weights`; a source
multiplies them with its cells and adds up; the statistic turns the sums into scores. A sample statistic
scores a block of cells as it is, so that every round reads all rows so far again. Sources know nothing
of scores, statistics nothing of where cells come from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from banditsis.arrays import Array, Floats, Indices, Rows, count_rows
from banditsis.statistics.covariates import CovariateError, Covariates
from banditsis.statistics.null_distributions import NullDistribution

#: What to do about a statistic that cannot be given covariates.
COVARIATE_STATISTICS = "use 'pearson', 'anova', 'logistic', 'poisson' or 'cox', or leave the covariates out"


@dataclass(frozen=True)
class Weights:
    """What a source multiplies its cells with, for some rows.

    With ``z`` the cells (shifted by a constant per column, which no score depends on), a source adds these
    lines to the sums, one value per column:

    ================= ================================================================================
    always            ``Σ z``; ``Σ z·w`` for each column w of ``linear``; ``Σ z²``, or ``Σ v·z²`` with v the
                      ``square`` weights (not with ``pairwise`` or ``codes``)
    if ``pairwise``   also ``Σ m``; ``Σ m·w`` for each w; ``Σ m·w²`` for each w; here ``m`` is 1 where
                      a cell is not NaN, and NaN cells are left out of all sums
    with ``codes``    instead: ``Σ z`` over the rows of each class; ``Σ z²``; and if ``pairwise``,
                      ``Σ m`` over the rows of each class
    ================= ================================================================================
    """

    linear: Floats
    pairwise: bool = False
    codes: Array | None = None
    n_classes: int = 0
    square: Floats | None = None

    @property
    def needs_products(self) -> bool:
        """Whether there is more to add up than one column of linear weights and plain squares."""
        return self.linear.shape[1] > 1 or self.square is not None

    def part(self, rows: slice | Indices) -> Weights:
        """Weights of some of the rows."""
        codes = None if self.codes is None else self.codes[rows]
        square = None if self.square is None else self.square[rows]
        return Weights(self.linear[rows], self.pairwise, codes, self.n_classes, square)


class Statistic(ABC):
    """A measure of association, bound to one or several responses: what both kinds have in common.

    Parameters
    ----------
    y : ndarray of shape (n, q)
        The responses. Nothing of length n is copied.
    pairwise : bool
        Whether NaN cells are left out pairwise.
    """

    name: ClassVar[str]
    #: Whether each round reads all rows so far again, and not only its new ones.
    rereads: ClassVar[bool] = False
    #: What its constructor was told, for the result.
    settings: Mapping[str, Any] = {}

    #: Whether large scores alone speak of association, and not those far below 0.
    one_sided: ClassVar[bool] = False
    #: Columns of y that make one response.
    n_columns: ClassVar[int] = 1

    y: Array
    pairwise: bool

    @property
    def n_responses(self) -> int:
        """Number of responses."""
        return int(self.y.shape[1])

    @classmethod
    def unpack(cls, y: Any) -> Any:
        """The user's response in a form that can be checked."""
        return y

    @classmethod
    def has_pvalues(cls) -> bool:
        """Whether the null distribution of the scores is known."""
        return True

    @abstractmethod
    def calibrate(self, rows: Rows) -> Self:
        """The same statistic, made ready by the rows that are read first; they must tell responses apart."""

    @abstractmethod
    def subset(self, responses: Sequence[int]) -> Self:
        """The same statistic for some of the responses."""

    @abstractmethod
    def drift(self, rows: Rows, n: int) -> float:
        """How far the responses of these rows lie from those of all n, in standard errors."""

    def influence(self, block: Array, rows: Rows, response: int) -> Floats | None:
        """Squared influence of each row on artanh of the score, averaged over the columns of a block.

        Columns without a variance are left out; empty if all are, None where no such law is known.
        """
        return None


class MomentStatistic(Statistic):
    """A statistic that comes from sums, so that a round reads its new rows alone."""

    #: Whether several responses can share one pass over the data.
    shares_pass: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        """Check the responses and get ready to weigh rows."""

    @classmethod
    def bind_partial(cls, y: Array, covariates: Covariates) -> MomentStatistic:
        """As :meth:`bind`, for the association that is left when the covariates are given."""
        raise CovariateError(f"statistic={cls.name!r} takes no covariates; {COVARIATE_STATISTICS}.")

    @abstractmethod
    def lines(self, response: int) -> list[int]:
        """Which lines of the sums one response needs."""

    @property
    @abstractmethod
    def n_sums(self) -> int:
        """Number of lines of the sums."""

    @abstractmethod
    def weights(self, rows: Rows) -> Weights:
        """Weights of a few rows."""

    @abstractmethod
    def summary(self, rows: Rows) -> Floats:
        """What scores need to know of the responses themselves; summaries of several row sets add up."""

    @abstractmethod
    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        """Signed scores of some columns of the sums for one response; a constant column scores 0."""

    @abstractmethod
    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        """The law of the scores of features that have nothing to do with the response, if it is known."""
        return None

    @abstractmethod
    def present(self, sums: Floats, columns: Indices | slice) -> Floats | None:
        """How many rows each column was present in, or None if in all."""


def describe_rows_read(rows: Rows, n: int) -> tuple[str, str]:
    """For a message: the rows that are read first, of n, in words, and how to read more of them, if any.

    Examples
    --------
    >>> seen(slice(0, 60), 100)
    ('the 60 rows that are read first', ', or read more rows (a smaller alpha, or SIS)')
    >>> seen(slice(0, 100), 100)
    ('all 100 rows', '')
    """
    m = count_rows(rows)
    if m >= n:
        return f"all {n:,} rows", ""
    return f"the {m:,} rows that are read first", ", or read more rows (a smaller alpha, or SIS)"


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """``numerator / denominator``, and 0 where the denominator is not positive."""
    out = np.zeros_like(numerator)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out


#: Fewer present rows than this say nothing: such a column scores 0.
MIN_PRESENT = 10
