"""Base classes of the statistics, and the sums through which statistics and sources work together.

There are two kinds of statistics. A *linear statistic* (correlation, analysis of variance, score tests) is a
function of sums over rows. It works on the responses and never sees a feature:

1. ``weights(rows)`` turns the responses of some rows into
   :class:`~banditsis.statistics.weights.Weights`;
2. the source multiplies its cells by the weights and adds the products to ``sums``, an array of shape
   (lines, features) whose lines are listed there;
3. ``summary(rows)`` returns the sums that involve the responses alone;
4. ``scores(sums, summary, ...)`` turns both into one score per feature.

Sums over disjoint sets of rows can be added, so each round reads only its new rows. The source does not know
what is scored, and the statistic does not know where the features are stored.

A *sample statistic* (ranks, distances) needs the values themselves: it scores a block of cells directly, and
each round rereads all rows read so far. See :mod:`banditsis.statistics.sample`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from banditsis.core.arrays import Array, Floats, Rows, chunks, count_rows, take
from banditsis.statistics.covariates import CovariateError
from banditsis.statistics.saddlepoint import ScoreParts
from banditsis.statistics.weights import Weights as Weights

#: A feature with missing values that is present in fewer rows scores 0, without covariates.
MIN_PRESENT = 10
#: Text with more distinct values than these, or fewer rows for each on average, is not taken for classes.
#: Nor are p-values checked with more classes, because that would take too long.
MAX_CLASSES, MIN_CLASS_ROWS = 50, 5


class RowSizes(NamedTuple):
    """Sizes of rows, ``|scale · values - centre|``; kernels compute them when they are needed."""

    #: float64 values of some rows
    values: Callable[[Rows], Floats]
    scale: float = 1.0
    centre: float = 0.0

    def __call__(self, rows: Rows) -> Floats:
        return np.asarray(np.abs(self.scale * self.values(rows) - self.centre))


class Statistic(ABC):
    """A measure of association that is bound to one or several responses.

    Attributes
    ----------
    y : ndarray of shape (n, q)
        The responses. Not copied.
    pairwise : bool
        Whether missing values are deleted pairwise.
    """

    name: str
    #: Whether each round rereads all rows read so far, not only its new rows.
    rereads: ClassVar[bool] = False
    #: Parameters of the constructor, recorded in the result.
    settings: Mapping[str, Any] = {}
    #: Whether only large positive scores indicate association; otherwise large absolute scores do.
    one_sided: ClassVar[bool] = False
    #: Whether the response holds class labels instead of numbers.
    by_class: ClassVar[bool] = False
    #: Number of columns of y that make up one response.
    n_columns: ClassVar[int] = 1
    #: Whether absolute scores are those of Pearson's correlation, whose sampling distribution is known.
    is_correlation: ClassVar[bool] = False

    #: Why p-values of some features are not known; None if they are for all.
    unknown_pvalues: str | None = None
    #: Why small p-values are not checked although they assume normal data.
    unchecked_pvalues: str | None = None

    #: Label of each response that counts as 1, with which positive scores go; None for numbers.
    positive: Array | None = None
    y: Array
    pairwise: bool
    #: Weight of each row, positive and with mean 1; None if all are 1.
    sample_weight: Floats | None = None

    @property
    def min_present(self) -> int:
        """A feature with missing values that is present in fewer rows scores 0."""
        return MIN_PRESENT

    @property
    def n_responses(self) -> int:
        """Number of responses."""
        return int(self.y.shape[1])

    @classmethod
    def unpack(cls, y: Any) -> Any:
        """Convert the user's response to a form that can be validated."""
        return y

    @classmethod
    def has_pvalues(cls) -> bool:
        """Whether the null distribution of the scores is known."""
        return True

    def constant_responses(self, rows: Rows) -> list[int]:
        """Responses that have a single value in these rows, so the rows cannot rank features by them."""
        first, varies = self.y[take(rows, 0, 1)], np.zeros(self.n_responses, dtype=bool)
        for part in chunks(rows):
            varies |= (self.y[part] != first).any(axis=0)
            if varies.all():
                break
        return np.flatnonzero(~varies).tolist()

    @abstractmethod
    def calibrate(self, rows: Rows) -> Self:
        """Prepare the statistic with the rows that are read first; raise if a response is constant there.

        The engine passes rows with a constant response only if the response is constant in all rows.
        """

    @abstractmethod
    def subset(self, responses: Sequence[int]) -> Self:
        """Restrict the statistic to some of the responses."""

    @abstractmethod
    def drift(self, rows: Rows, n: int) -> float:
        """Distance of the mean response of these rows from that of all n rows, in standard errors."""

    def normal_responses(self, rows: Rows) -> Array:
        """Which responses are known to be like normal data in these rows, so their p-values need no check."""
        return np.zeros(self.n_responses, bool)

    def row_sizes(self) -> RowSizes | None:
        """How much rows contribute to the score of the only response.

        The size of a row is the root mean square of its contribution for features without association, in
        any unit. None if the statistic needs a uniform sample of rows.
        """
        return None

    def influence(self, block: Array, rows: Rows, response: int, weights: Floats) -> Floats | None:
        """Squared influence of each row on artanh of the score of each column of a block.

        Rows have sampling weights. NaN for constant columns; None if the influence is not known.
        """
        return None

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        """The first response as the linear part of a score statistic, with which p-values are corrected.

        None if the statistic is not linear in the feature, or its p-values do not depend on normal data.
        """
        return None

    def few_events(self, rows: Rows) -> str | None:
        """Why these rows have no p-values because events are few; None if they have."""
        return None

    def with_sample_weight(self, sample_weight: Floats) -> Self:
        """The statistic with weights of the rows; its sampling distribution is not known."""
        return self.copy_with(sample_weight=sample_weight / sample_weight.mean(), is_correlation=False)

    def weigh(self, values: Floats, rows: Rows) -> Floats:
        """Values of some rows times their sample weights."""
        if self.sample_weight is None:
            return values
        return np.asarray((values.T * self.sample_weight[rows]).T)

    def copy_with(self, **attributes: Any) -> Self:
        """Copy the statistic and change some attributes."""
        other = copy(self)
        other.__dict__.update(attributes)
        return other

    def constant_response(self, response: int, value: Any) -> ValueError:
        """Create the error for a response that is constant in all rows."""
        which = describe_response(response, self.n_responses)
        return ValueError(
            f"the response{which} is constant, {value}, in all {len(self.y):,} rows, and features cannot be "
            "ranked by it: check that the right column is used as the response."
        )


def is_mostly_missing(n_present: Floats, n_read: float, min_present: int = MIN_PRESENT) -> Array:
    """Which features have missing values and are present in too few rows to be scored."""
    return (n_present < min_present) & (n_present < n_read)


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """``numerator / denominator``, and 0 where the denominator is not positive."""
    out = np.zeros_like(numerator)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out


def mean_drift(values: Floats, rows: Rows) -> float:
    """Distance of the mean of some rows from the mean of all, in standard errors; largest over columns."""
    sample = values[rows]
    error = values.std(axis=0) * np.sqrt(max(1 / len(sample) - 1 / len(values), 0.0))
    return float(np.max(ratio(np.abs(sample.mean(axis=0) - values.mean(axis=0)), error)))


def class_drift(codes: Array, rows: Rows) -> float:
    """As :func:`mean_drift`, for the indicators of the classes 0, 1, ..."""
    n, m, counts = len(codes), count_rows(rows), np.bincount(codes)
    share = counts / n
    error = np.sqrt(share * (1 - share) * (1 / m - 1 / n))
    return float(np.max(ratio(np.abs(np.bincount(codes[rows], minlength=len(counts)) / m - share), error)))


def check_classes(name: str, y: Array) -> list[Array]:
    """Class labels of each column of y; raise if a column does not hold class labels."""
    n, labels = len(y), [np.unique(column) for column in y.T]
    for k, found in enumerate(labels):
        where = describe_response(k, len(labels))
        if len(found) < 2:
            raise ValueError(
                f"statistic {name!r} needs at least two classes, got one class{where}: {show(found[0])}."
            )
        if y.dtype.kind in "US" and len(found) > 2:
            _check_number_of_classes(n, found, where)
        if y.dtype.kind == "f" and not np.array_equal(found, np.round(found)):
            raise ValueError(
                f"statistic {name!r} needs class labels, got a continuous response{where}; use the statistic "
                "'pearson', or cut the response into classes."
            )
        if len(found) >= n:
            raise ValueError(
                f"statistic {name!r} needs classes of several rows, got {len(found):,} classes in {n:,} "
                f"rows{where}; use the statistic 'pearson' for a numeric response."
            )
    return labels


def _check_number_of_classes(n: int, labels: Array, where: str) -> None:
    """Raise if text has so many different values that they are hardly classes, but ids or numbers."""
    if len(labels) > MAX_CLASSES or n < MIN_CLASS_ROWS * len(labels):
        # Text sorts after digits, so the last value shows why numbers with a few words are not numbers.
        raise ValueError(
            f"the response{where} is text with {len(labels):,} classes in {n:,} rows, such as "
            f"{show(labels[-1])}; at most {MAX_CLASSES} classes, with {MIN_CLASS_ROWS} rows each on average, "
            "are allowed. If it should be numeric, correct what is not a number, or declare it missing (na); "
            "otherwise combine classes."
        )


def no_covariates(name: str) -> CovariateError:
    """Create the error for a statistic that does not support covariates."""
    return CovariateError(
        f"statistic {name!r} does not support covariates; use 'pearson', 'anova', 'logistic', 'poisson' or "
        "'cox', or omit the covariates."
    )


def no_weights(name: str) -> ValueError:
    """Create the error for a statistic that does not support sample weights."""
    return ValueError(
        f"statistic {name!r} does not support sample weights; use 'pearson', 'anova', 'logistic', 'poisson' "
        "or 'cox', or omit sample_weight."
    )


def describe_response(response: int, n_responses: int) -> str:
    """For a message: which response, if there are several."""
    return "" if n_responses == 1 else f" (column {response})"


def show(label: object) -> str:
    """A label without NumPy's type, such as ``'a'`` instead of ``np.str_('a')``."""
    return repr(label.item() if isinstance(label, np.generic) else label)


def check_residual_rows(rows: Rows, rank: int, n: int) -> None:
    """Raise if the rows that are read first are too few for a regression on covariates of this rank."""
    if (m := count_rows(rows)) < rank + 3:
        rows_read = f"{m:,} rows are read first" if m < n else f"there are {m:,} rows"
        raise CovariateError(
            f"{rows_read}, but {rank} covariates with an intercept need {rank + 3:,} or more: use fewer "
            f"covariates{', or read more rows, or all of them' if m < n else ''}."
        )
