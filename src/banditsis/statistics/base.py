"""The base classes of statistics, and what they share: class labels, effect sizes, error messages.

A *linear statistic* (correlation, analysis of variance, score tests) is a function of sums over rows, and a
*binned statistic* of counts. Both can be added, so each round reads only its new rows. A *sample statistic*
(ranks, distances) needs the values themselves: it scores a block of cells directly, and each round rereads
all rows read so far.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, chunks, count_rows, take
from banditsis.statistics.covariates import CovariateError, Covariates
from banditsis.statistics.null_distributions import NullDistribution
from banditsis.statistics.saddlepoint import ScoreParts

#: A feature with missing values that is present in fewer rows scores 0, without covariates.
MIN_PRESENT = 10
#: Text with more distinct values than these, or fewer rows for each on average, is not taken for classes.
#: Nor are p-values checked with more classes, because that would take too long.
MAX_CLASSES, MIN_CLASS_ROWS = 50, 5

#: Attributes that have a value for each response, along the last dimension.
PER_RESPONSE = ("y", "codes", "positive", "centre", "scale", "coefficients")

#: How much some rows contribute to a score.
RowSizes: TypeAlias = Callable[[Rows], Floats]


class Statistic(ABC):
    """A measure of association that is bound to one or several responses."""

    name: str
    #: Parameters of the constructor, recorded in the result.
    settings: Mapping[str, Any] = {}
    #: Whether each round rereads all rows read so far, not only its new rows.
    rereads: ClassVar[bool] = False
    #: Whether only large positive scores indicate association; otherwise large absolute scores do.
    one_sided: ClassVar[bool] = False
    #: Whether the response holds class labels instead of numbers.
    by_class: ClassVar[bool] = False
    #: Number of columns of y that make up one response.
    n_columns: ClassVar[int] = 1
    #: Whether covariates and sample weights are supported.
    adjusts: ClassVar[bool] = False
    #: Whether absolute scores are those of Pearson's correlation, whose sampling distribution is known.
    is_correlation: ClassVar[bool] = False

    #: Whether p-values are known.
    has_pvalues: ClassVar[bool] = True
    #: Why p-values of some features are not known; None if they are for all.
    unknown_pvalues: str | None = None
    #: Why small p-values are not checked although they assume normal data.
    unchecked_pvalues: str | None = None

    #: What the result should say about the response.
    notes: tuple[str, ...] = ()
    #: Class labels of each response, if they are known.
    labels: Sequence[Array] = ()
    #: Label of each response that counts as 1, with which positive scores go; None for numbers.
    positive: Array | None = None
    #: The responses, of shape (n, q); not copied.
    y: Array
    #: Whether missing values are deleted pairwise.
    pairwise: bool
    covariates: Covariates | None = None
    #: Weight of each row, positive and with mean 1; None if all are 1.
    sample_weight: Floats | None = None

    @property
    def n_responses(self) -> int:
        """Number of responses."""
        return int(self.y.shape[1]) // self.n_columns

    @property
    def rank(self) -> int:
        """Number of covariates that are linearly independent of each other and an intercept."""
        return 0 if self.covariates is None else self.covariates.rank

    @property
    def min_present(self) -> int:
        """A feature with missing values that is present in fewer rows scores 0."""
        return MIN_PRESENT + self.rank

    @classmethod
    def unpack(cls, y: Any) -> Any:
        """Convert the user's response to a form that can be validated."""
        return y

    def given(self, covariates: Covariates | None, sample_weight: Floats | None) -> Self:
        """The statistic given covariates, over rows with weights."""
        if covariates is None and sample_weight is None:
            return self
        if not self.adjusts:
            raise unsupported(self.name, "covariates", "the covariates")
        if sample_weight is not None:
            sample_weight = sample_weight / sample_weight.mean()
        changes_score = sample_weight is not None or (covariates is not None and self.by_class)
        return self.copy_with(
            covariates=covariates,
            sample_weight=sample_weight,
            is_correlation=self.is_correlation and not changes_score,
        )

    def design(self, rows: Rows) -> Floats:
        """A column of ones and the basis of the covariates in some rows."""
        return np.ones((count_rows(rows), 1)) if self.covariates is None else self.covariates.design(rows)

    def by_period(self, values: Any) -> Self:
        """The statistic with scores for each period, given the values of the rows."""
        raise ValueError(f"statistic {self.name!r} has no scores by period; use 'chi2', or omit by.")

    def constant_responses(self, rows: Rows) -> list[int]:
        """Responses that have a single value in these rows, so the rows cannot rank features by them."""
        first, varies = self.y[take(rows, 0, 1)], np.zeros(self.n_responses, dtype=bool)
        for part in chunks(rows):
            varies |= (self.y[part] != first).any(axis=0)
            if varies.all():
                break
        return np.flatnonzero(~varies).tolist()

    def calibrate(self, rows: Rows) -> Self:
        """Prepare the statistic with the rows that are read first; raise if a response is constant there.

        The engine passes rows with a constant response only if the response is constant in all rows.
        """
        n, m, needed = len(self.y), count_rows(rows), self.rank + 3
        if self.rank and m < needed:
            first, more = ("read first", ", or read more rows") if m < n else ("known", "")
            raise CovariateError(
                f"{m:,} rows are {first}, but {self.rank} covariates need {needed:,} or more: use fewer "
                f"covariates{more}."
            )
        for k in self.constant_responses(rows):
            raise ValueError(
                f"the response{describe_response(k, self.n_responses)} is constant, {self.y[rows, k][0]}, in "
                f"all {n:,} rows, and cannot rank features: check that the right column is the response."
            )
        return self

    def subset(self, responses: Sequence[int]) -> Self:
        """Restrict the statistic to some of the responses."""
        k: Any = list(responses)
        k = slice(k[0], k[-1] + 1) if k == list(range(k[0], k[-1] + 1)) else k  # no copy
        own = {name: value for name in PER_RESPONSE if (value := vars(self).get(name)) is not None}
        labels = [self.labels[response] for response in responses] if self.labels else ()
        return self.copy_with(labels=labels, **{name: value[..., k] for name, value in own.items()})

    def row_sizes(self) -> RowSizes | None:
        """How much rows contribute to the score of the only response; None if rows must be a uniform sample.

        The size of a row is the root mean square of its contribution for features without association.
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

    def describe_missed(self, response: int, read: Sequence[Rows], rounds: Sequence[Any]) -> str | None:
        """What a random sample may have missed, given the rows of each round, without a detection floor."""
        return None

    def copy_with(self, **attributes: Any) -> Self:
        """Copy the statistic and change some attributes."""
        other = copy(self)
        other.__dict__.update(attributes)
        return other


class SampleStatistic(Statistic):
    """A statistic that needs the values themselves, such as their ranks.

    A subclass has a ``name``, ``prepare``, which processes the response once in each round, and
    ``score_block``. With ``row_sizes`` it also has ``prepare_weighted(y, weights)``, for rows with sampling
    weights. With p-values it sets ``has_pvalues``, and has ``null_distribution`` or ``returns_pvalues``.
    Parameters belong to its constructor; an object can be passed as ``statistic`` instead of a name. The
    engine takes care of rows, columns, threads and missing values.
    """

    rereads = True
    has_pvalues = False
    #: Whether ``score_block`` returns a second line, the decimal logarithm of the p-value of each score.
    returns_pvalues: ClassVar[bool] = False
    #: Whether ``score_stored(cells, prepared)`` scores the :class:`StoredCells` of a sparse matrix.
    reads_stored: ClassVar[bool] = False
    #: Whether several responses are scored together: lines of ``score_block`` are then responses × columns.
    shares_pass: bool = False
    #: Whether its last line is the factor that turns each score into an effect size; 0 if there is none.
    returns_effect_factor: ClassVar[bool] = False

    @abstractmethod
    def prepare(self, y: Floats) -> Any:
        """Compute whatever scores need from the response: at least 3 finite values, not all equal.

        Class labels are passed as the numbers 0, 1, ... in the order of the labels.
        """

    @abstractmethod
    def score_block(self, block: Floats, prepared: Any) -> Floats:
        """Signed scores of the columns of a block; ``prepared`` comes from ``prepare`` for the same rows.

        The block is finite and may be overwritten; its columns are contiguous. A constant column scores 0.
        """

    def null_distribution(
        self, prepared: Any, n_rows: int, present: Floats | None
    ) -> NullDistribution | None:
        """Distribution of the scores of features without association, for a statistic without p-values.

        ``present`` is the number of the ``n_rows`` rows in which each feature is present, by whose square
        root scores were reduced; None if no cell can be missing.
        """
        return None

    def bind(self, y: Array, pairwise: bool) -> Self:
        """Validate the responses and copy the statistic for them."""
        if y.dtype.kind in "OUS" and not self.by_class:
            raise ValueError(
                f"statistic {self.name!r} needs a numeric response, got labels; use 'anova' or 'chi2' for "
                "classes."
            )
        labels = check_classes(self.name, y) if self.by_class or y.dtype.kind == "b" else ()
        return self.copy_with(y=y, pairwise=pairwise, labels=labels)

    def constant_responses(self, rows: Rows) -> list[int]:
        return [k for k in range(self.n_responses) if not self.can_rank(self.response(rows, k))]

    def can_rank(self, y: Floats) -> bool:
        """Whether these values of the response allow a ranking of features."""
        return bool(y.min() < y.max())

    def response(self, rows: Rows, response: int = 0) -> Floats:
        """Values of a response in some rows; class labels as numbers."""
        y = self.y[rows, response]
        return np.asarray(np.searchsorted(self.labels[response], y) if self.labels else y, np.float64)


class Effects(NamedTuple):
    r"""Effect size of each selected feature and its standard error; NaN if it is not known.

    For ``"pearson"`` it is the slope of the response on the feature and the covariates (least squares); for
    ``"logistic"``, ``"poisson"`` and ``"cox"`` the log odds, rate or hazard ratio per unit of it; for
    ``"anova"`` with two classes the mean in the class that sorts last, minus that in the other.

    The log ratios are one Newton step from the model without the feature [1]_, with the score U and its
    variance V given the covariates: :math:`β = U / V` and :math:`se = 1 / \sqrt{V}` (for ``"poisson"`` times
    the root of the dispersion). They are accurate for small effects; refit a model for large ones. The ratio
    β / se is the t or z of the p-value, before that is corrected for skewed data.

    References
    ----------
    .. [1] Le Cam, L. (1956). On the asymptotic theory of estimation and testing hypotheses. Proc. Third
       Berkeley Symp. Math. Statist. Probab. 1, 129-156.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> beta, se = screen(x, [1.0, 3.0, 5.0, 8.0], Plan.exact(4, 1, 1)).effects
    >>> beta.round(3), se.round(3)
    (array([2.3]), array([0.173]))
    """

    beta: Floats
    se: Floats

    def take(self, positions: Indices) -> Effects:
        """The effects of some of the features."""
        return Effects(self.beta[positions], self.se[positions])


def find_effects(scores: Floats, factors: Floats, null: NullDistribution | None) -> Effects:
    """Effects from scores and factors that turn them into effects; NaN if a factor is 0 or not finite."""
    known = np.isfinite(factors) & (factors != 0)
    factors = np.where(known, factors, np.nan)
    errors = np.full(scores.shape, np.nan) if null is None else null.standard_errors(scores)
    return Effects(scores * factors, errors * np.abs(factors))


def is_mostly_missing(n_present: Floats, n_read: float, min_present: int = MIN_PRESENT) -> Array:
    """Which features have missing values and are present in too few rows to be scored."""
    return (n_present < min_present) & (n_present < n_read)


def check_classes(name: str, y: Array) -> list[Array]:
    """Class labels of each column of y; raise if a column does not hold class labels."""
    labels = [np.unique(column) for column in y.T]
    for k, found in enumerate(labels):
        where, problem = describe_response(k, len(labels)), ""
        if y.dtype.kind in "US" and len(found) > max(2, min(MAX_CLASSES, len(y) // MIN_CLASS_ROWS)):
            # Text sorts after digits, so the last value shows why numbers with a few words are not numbers.
            raise ValueError(
                f"the response{where} is text with {len(found):,} classes in {len(y):,} rows, such as "
                f"{show(found[-1])}; at most {MAX_CLASSES} classes, with {MIN_CLASS_ROWS} rows each on "
                "average, are allowed. If it should be numeric, correct what is not a number, or declare it "
                "missing (na); otherwise combine classes."
            )
        if len(found) < 2:
            problem = f"at least two classes, got one class{where}: {show(found[0])}."
        elif y.dtype.kind == "f" and not np.array_equal(found, np.round(found)):
            problem = f"class labels, got a continuous response{where}; use 'pearson', or cut it."
        elif len(found) >= len(y):
            problem = f"classes of several rows, got {len(found):,} classes{where}; use 'pearson'."
        if problem:
            raise ValueError(f"statistic {name!r} needs {problem}")
    return labels


def unsupported(name: str, what: str, omitted: str) -> CovariateError:
    """Create the error for a statistic that does not support covariates or sample weights."""
    return CovariateError(
        f"statistic {name!r} does not support {what}; use 'pearson', 'anova', 'logistic', 'poisson' or "
        f"'cox', or omit {omitted}."
    )


def describe_response(response: int, n_responses: int) -> str:
    """For a message: which response, if there are several."""
    return "" if n_responses == 1 else f" (column {response})"


def show(label: object) -> str:
    """A label without NumPy's type, such as ``'a'`` instead of ``np.str_('a')``."""
    return repr(label.item() if isinstance(label, np.generic) else label)
