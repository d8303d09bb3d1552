"""Statistics that score a block of rows × columns directly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np

from banditsis.arrays import Array, Floats, Rows
from banditsis.statistics.base import COVARIATE_STATISTICS, Statistic, describe_rows_read
from banditsis.statistics.classes import check_labels
from banditsis.statistics.covariates import CovariateError, Covariates
from banditsis.statistics.null_distributions import NullDistribution


class SampleStatistic(Statistic):
    """A statistic that needs the values themselves, such as one of ranks.

    A subclass has a ``name`` and two methods. ``prepare`` does once in each round what concerns the response
    alone; ``score_block`` scores a few features. What a statistic can be told belongs to its constructor, and
    an object with other settings is passed as ``statistic=`` like a name. Rows, columns, threads and missing
    values are not its concern.
    """

    rereads = True
    #: Whether the response holds class labels, and not numbers.
    by_class: ClassVar[bool] = False
    #: Scores of features without association fall as rows to the power of minus this; more so if squared.
    noise: ClassVar[float] = 0.5
    #: Whether ``score_block`` gives a second line: what to multiply each score with to make it standard
    #: normal where there is no association; 0 for p-value 1, NaN where it is not known.
    returns_null_scale: ClassVar[bool] = False
    #: Class labels of each response, where it has classes.
    labels: list[Array] | None = None

    @classmethod
    def has_pvalues(cls) -> bool:
        return cls.returns_null_scale or cls.null_distribution is not SampleStatistic.null_distribution

    @abstractmethod
    def prepare(self, y: Floats) -> Any:
        """What scores need to know of the response over some rows: at least 3 finite values, not all equal.

        Class labels come as the numbers 0, 1, … in the order of the labels.
        """

    @abstractmethod
    def score_block(self, block: Floats, side: Any) -> Floats:
        """Signed scores of the columns of a block; ``side`` is what ``prepare`` made of the same rows.

        The block is finite, rows × columns, and each column is contiguous; it may be overwritten. A constant
        column scores 0.
        """

    def null_distribution(self, side: Any, n_rows: int, present: Floats | None) -> NullDistribution | None:
        """The law of the scores of features that have nothing to do with the response, if it is known.

        ``side`` is what ``prepare`` made of all rows read; ``present`` how many of them each feature was
        present in, where values may be missing: its score was multiplied with √(present / rows read).
        Not asked of a statistic that tells the stretch of each score.
        """
        return None

    def bind_partial(self, y: Array, covariates: Covariates) -> Self:
        """As :meth:`bind`, for the association that is left when the covariates are given."""
        raise CovariateError(f"statistic={self.name!r} takes no covariates; {COVARIATE_STATISTICS}.")

    def bind(self, y: Array, pairwise: bool) -> Self:
        """The same statistic for these responses, which are checked."""
        bound = copy(self)
        bound.y, bound.pairwise = y, pairwise
        if self.by_class or y.dtype.kind in "OUSb":
            if not self.by_class and y.dtype.kind != "b":
                raise ValueError(
                    f"statistic={self.name!r} needs a numeric response, got labels; use statistic='anova' "
                    "or 'mv' for classes."
                )
            bound.labels = [np.unique(column) for column in y.T]
            for k, labels in enumerate(bound.labels):
                check_labels(self.name, labels, len(y), y.dtype.kind, f" {k}" if y.shape[1] > 1 else "")
        return bound

    def can_rank(self, y: Floats) -> bool:
        """Whether features can be ranked by the responses of some rows."""
        return bool(y.min() < y.max())

    def response(self, rows: Rows, response: int = 0) -> Floats:
        """Values of a response in some rows; class labels as numbers."""
        y = self.y[rows, response]
        return np.asarray(y if self.labels is None else np.searchsorted(self.labels[response], y), np.float64)

    def calibrate(self, rows: Rows) -> Self:
        for k in range(self.n_responses):
            y = self.response(rows, k)
            if y.min() == y.max():
                where = "" if self.n_responses == 1 else f" (response {k})"
                first, more = describe_rows_read(rows, self.y.shape[0])
                raise ValueError(
                    f"y{where} is constant, {self.y[rows, k][0]}, in {first}, so that no feature can be "
                    f"ranked by it: check that the right column was taken as the response{more}."
                )
        return self

    def subset(self, responses: Sequence[int]) -> Self:
        part = copy(self)
        part.y = self.y[:, list(responses)]
        part.labels = None if self.labels is None else [self.labels[k] for k in responses]
        return part

    def drift(self, rows: Rows, n: int) -> float:
        return max(self._drift(rows, n, k) for k in range(self.n_responses))

    def _drift(self, rows: Rows, n: int, response: int) -> float:
        """By ranks, which no outlier moves; classes one by one."""
        some, everything = self.response(rows, response), self.response(slice(0, n), response)
        m = len(some)
        if m >= n:
            return 0.0
        values, counts = np.unique(everything, return_counts=True)
        if self.labels is None:
            ranks = (np.cumsum(counts) - (counts + 1) / 2 - (n - 1) / 2)[:, None]
        else:
            ranks = np.eye(len(values)) - counts / n
        error = np.sqrt((ranks**2 * counts[:, None]).sum(axis=0) / n * (1 / m - 1 / n))
        means = ranks[np.searchsorted(values, some)].mean(axis=0)
        return float(np.max(np.abs(means) / error))
