"""Base class of statistics that score a block of rows × columns directly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from banditsis.core.arrays import Array, Floats, Rows
from banditsis.statistics.base import Statistic, check_classes
from banditsis.statistics.null_distributions import NullDistribution
from banditsis.statistics.saddlepoint import ScoreParts


class SampleStatistic(Statistic):
    """A statistic that needs the values themselves, such as their ranks.

    A subclass has a ``name``, ``prepare``, which processes the response once in each round, and
    ``score_block``. Parameters belong to its constructor; an object can be passed as ``statistic`` instead of
    a name. The engine takes care of rows, columns, threads and missing values.
    """

    rereads = True
    #: Whether ``score_block`` returns a second line, the factor that makes each score standard normal without
    #: association; 0 means p-value 1, NaN that it is not known.
    returns_null_scale: ClassVar[bool] = False
    #: Whether it returns a second line, the decimal logarithm of the p-value of each score.
    returns_pvalues: ClassVar[bool] = False
    #: Whether ``score_stored`` scores the stored cells of a sparse matrix, of which the others are 0.
    reads_stored: ClassVar[bool] = False
    #: Whether several responses are scored together: lines of ``score_block`` are then responses × columns.
    shares_pass: bool = False
    #: Whether its last line is the factor that turns each score into an effect size; 0 if there is none.
    returns_effect_factor: ClassVar[bool] = False
    #: Class labels of each response, if it has classes.
    labels: list[Array] | None = None

    @classmethod
    def has_pvalues(cls) -> bool:
        return (
            cls.returns_null_scale
            or cls.returns_pvalues
            or cls.null_distribution is not SampleStatistic.null_distribution
        )

    @abstractmethod
    def prepare(self, y: Floats) -> Any:
        """Compute whatever scores need from the response: at least 3 finite values, not all equal.

        Class labels are passed as the numbers 0, 1, ... in the order of the labels.
        """

    def prepare_weighted(self, y: Floats, weights: Floats) -> Any:
        """As ``prepare``, for rows with sampling weights; only called if there are ``row_sizes``."""
        raise NotImplementedError

    @abstractmethod
    def score_block(self, block: Floats, prepared: Any) -> Floats:
        """Signed scores of the columns of a block; ``prepared`` comes from ``prepare`` for the same rows.

        The block is finite and may be overwritten; its columns are contiguous. A constant column scores 0.
        """

    def score_stored(self, cells: Any, prepared: Any) -> Floats:
        """As ``score_block``, of :class:`~banditsis.sources.base.StoredCells`; only if ``reads_stored``."""
        raise NotImplementedError

    def null_distribution(
        self, prepared: Any, n_rows: int, present: Floats | None
    ) -> NullDistribution | None:
        """Distribution of the scores of features without association, or None if it is not known.

        Not called if the statistic returns the null scale. ``present`` is the number of the ``n_rows`` rows
        in which each feature is present, by whose square root scores were reduced; None if none is missing.
        """
        return None

    def rank_parts(self, rows: Rows, linear: bool) -> ScoreParts:
        """The first response of a rank correlation, linear in the ranks of the feature or nearly so."""
        return ScoreParts(self.response(rows)[:, None], ranks=True, linear=linear)

    def bind(self, y: Array, pairwise: bool) -> Self:
        """Validate the responses and copy the statistic for them."""
        if y.dtype.kind in "OUS" and not self.by_class:
            raise ValueError(
                f"statistic {self.name!r} needs a numeric response, got labels; use 'anova' or 'chi2' for "
                "classes."
            )
        labels = check_classes(self.name, y) if self.by_class or y.dtype.kind == "b" else None
        return self.copy_with(y=y, pairwise=pairwise, labels=labels)

    def constant_responses(self, rows: Rows) -> list[int]:
        return [k for k in range(self.n_responses) if not self.can_rank(self.response(rows, k))]

    def subset(self, responses: Sequence[int]) -> Self:
        labels = None if self.labels is None else [self.labels[k] for k in responses]
        return self.copy_with(y=self.y[:, list(responses)], labels=labels)

    def can_rank(self, y: Floats) -> bool:
        """Whether these values of the response allow a ranking of features."""
        return bool(y.min() < y.max())

    def response(self, rows: Rows, response: int = 0) -> Floats:
        """Values of a response in some rows; class labels as numbers."""
        y = self.y[rows, response]
        return np.asarray(y if self.labels is None else np.searchsorted(self.labels[response], y), np.float64)
