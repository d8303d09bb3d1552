"""Score test of one feature in a Cox model of survival times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats, Indices, Rows, ratio
from banditsis.statistics.base import RowSizes, SampleStatistic
from banditsis.statistics.covariates import CovariateError, whiten
from banditsis.statistics.families import maximise
from banditsis.statistics.null_distributions import NormalNull, NullDistribution
from banditsis.statistics.saddlepoint import ScoreParts, describe_few_events, log_pvalue

TOLERANCE = 1e-12
#: The likelihood is taken to have no maximum if the log risks of the covariates differ by more.
MAX_LOG_RISK = 60.0
#: A feature with a smaller share of information given the covariates scores 0.
RESOLUTION = 1e-11


class Cox(SampleStatistic):
    r"""Score test of one feature in Cox's proportional hazards model, right-censored, ties by Breslow.

    With :math:`R_t` the rows at risk at event time t, :math:`d_t` the number of events at t, and :math:`e_i`
    the relative risk given the covariates (1 without),

    .. math:: U = \sum_t \Big( \sum_{i: T_i = t, δ_i = 1} x_i - d_t \bar x_t \Big), \quad
              V = \sum_t d_t \big( \overline{x^2}_t - \bar x_t^2 \big), \quad
              \bar x_t = \frac{\sum_{R_t} e_i x_i}{\sum_{R_t} e_i}

    and the score is :math:`U / \sqrt{V n}`; its square times n is the χ² of the score test [1]_, which for a
    feature with two values and without covariates is the log-rank test. V contains a square for each event
    time, so each round rereads all rows read so far. Covariates are fitted to the rows read, and U and V are
    adjusted for them. Sample weights multiply the rows in the sums over events and over rows at risk.

    The response is (time, event): an array or a frame of two columns in this order, or a structured array
    of two fields, in either order if the event is boolean. There can be only one response.

    References
    ----------
    .. [1] Cox, D. R. (1972). Regression models and life-tables. J. R. Stat. Soc. B 34, 187-220.
    .. [2] Breslow, N. (1974). Covariance analysis of censored survival data. Biometrics 30, 89-99.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> X = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.0, 1.0]])
    >>> time, event = [9.0, 7.0, 4.0, 1.0], [True, False, True, True]
    >>> y = np.column_stack([time, event])
    >>> screen(X, y, Plan.exact(4, 2, 1), statistic="cox").scores.round(4)
    array([0.9029, 0.1213])
    """

    name = "cox"
    n_columns = 2
    adjusts = True
    has_pvalues = True
    returns_effect_factor = True

    @classmethod
    def unpack(cls, y: Any) -> Any:
        """Time and event as two columns."""
        values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
        if (fields := values.dtype.names) is not None:
            columns = [values[name] for name in fields]  # text would make both text
            values = np.array(columns[::-1] if columns[0].dtype.kind == "b" else columns, dtype=object).T
        if values.ndim != 2 or values.shape[1] != 2:
            raise ValueError(
                f"statistic 'cox' needs two columns, time and event (0 or 1), got shape {values.shape}."
            )
        try:
            return values.astype(object).astype(np.float64) if values.dtype.kind in "OUS" else values
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"statistic 'cox' needs times and events as numbers, got {str(error).split(': ')[-1]}: an "
                "event is 1 or True, a censored time 0 or False, such as event == 'dead'."
            ) from None

    def bind(self, y: Array, pairwise: bool) -> Self:
        time, event = y.T
        events = "events that are 0 (censored) or 1, in the second column of the response"
        for k, invalid in enumerate((time < 0, (event != 0) & (event != 1))):
            if invalid.any():
                row, needed = int(np.argmax(invalid)), events if k else "times of 0 or more"
                raise ValueError(f"statistic 'cox' needs {needed}, got {y[row, k]:g} in row {row:,}.")
        return self.copy_with(y=y, pairwise=pairwise)

    def subset(self, responses: Sequence[int]) -> Self:
        return self

    def calibrate(self, rows: Rows) -> Self:
        if self.constant_responses(rows):
            n, what = len(self.y), "different times" if self.y[rows, 1].any() else "events"
            raise ValueError(f"all {n:,} rows have no {what}: check that the response is (time, event).")
        return super().calibrate(rows)

    def constant_responses(self, rows: Rows) -> list[int]:
        """The response, if the rows have no event or a single time."""
        time, event = self.y[rows].T
        return [] if event.any() and np.ptp(time) > 0 else [0]

    def response(self, rows: Rows, response: int = 0) -> Floats:
        """Time, event, the sample weight or 1, and the covariates."""
        y = np.asarray(self.y[rows], np.float64)
        weights = np.ones(len(y)) if self.sample_weight is None else self.sample_weight[rows]
        return np.column_stack([y, weights, self.design(rows)[:, 1:]])

    def can_rank(self, y: Floats) -> bool:
        return bool(y[:, 1].any())

    def row_sizes(self) -> RowSizes | None:
        """Size of the martingale residual without covariates; it is large in rows with an event."""
        model = self.prepare(self.copy_with(covariates=None).response(slice(0, len(self.y))))
        sizes = np.empty(len(self.y))
        sizes[model.order] = np.abs(model.linear[0])
        return lambda rows: sizes[rows]

    def prepare(self, y: Floats) -> NullModel:
        return self.prepare_weighted(y, 1.0)

    def prepare_weighted(self, y: Floats, weights: Floats | float) -> NullModel:
        weights = weights * y[:, 2]
        return fit_null_model(y[:, 0], y[:, 1], y[:, 3:], weights / weights.mean())

    def score_block(self, block: Floats, prepared: NullModel) -> Floats:
        out, scales = np.empty((len(prepared.linear) + 1, block.shape[1])), np.empty(block.shape[1])
        kernels.model_free.risk_set_moments(block, tuple(prepared[:7]), scales, out)
        explained = prepared.white @ out[1:-1]
        information = out[-1] - np.square(explained).sum(axis=0)
        information = np.where(information > RESOLUTION * np.maximum(out[-1], 0.0), information, 0.0)
        gradient = out[0] - prepared.gradient @ explained
        root_n, spread = np.sqrt(len(prepared.order)), np.sqrt(information)
        with np.errstate(over="ignore"):  # of very small features
            factors = ratio(scales * root_n, spread)
        return np.stack([ratio(gradient, spread * root_n), factors])

    def null_distribution(
        self, prepared: Any, n_rows: int, present: Floats | None
    ) -> NullDistribution | None:
        return NormalNull(float(np.sqrt(n_rows)))

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        """Martingale residuals, and the partial likelihood if there are covariates."""
        if self.sample_weight is not None:
            return None
        model = self.prepare(self.response(rows))
        residuals = np.empty(len(model.order))
        residuals[model.order] = model.linear[0]
        if self.covariates is None:
            return ScoreParts(residuals[:, None], at_risk=True)
        design = self.design(rows)
        by_likelihood = partial(_log_pvalue, model, design[model.order, 1:])
        return ScoreParts(residuals[:, None], design, by_likelihood=by_likelihood, at_risk=True)

    def few_events(self, rows: Rows) -> str | None:
        return describe_few_events(int(self.y[rows, 1].sum()), self.rank)


class NullModel(NamedTuple):
    """The Cox model with the covariates alone: what ``risk_set_moments`` takes, and what adjusts its sums.

    Rows are in ``order``, latest time first; ``risk`` is the relative risk of each by its weight. ``linear``
    are the martingale residuals, then the weights of the information of each covariate with a feature.
    ``white`` whitens the information of the covariates, and ``gradient`` is theirs, whitened.
    """

    order: Indices
    risk: Floats
    linear: Floats
    square: Floats
    ends: Indices
    events: Floats
    at_risk: Floats
    white: Floats
    gradient: Floats


def fit_null_model(time: Floats, event: Floats, Z: Floats, weights: Floats) -> NullModel:
    """Fit the coefficients of the covariates Z by Newton's method; rows have sampling weights."""
    order = np.argsort(-time, kind="stable")
    event, Z, weights = event[order] * weights[order], Z[order], weights[order]
    # The rows up to the last one with a time are at risk at that time.
    last = np.append(np.flatnonzero(np.diff(time[order])), len(order) - 1)
    events = np.diff(np.cumsum(event)[last], prepend=0.0)
    ends, events = last[events > 0] + 1, events[events > 0]
    # A row is at risk at all event times up to its own.
    own_time = np.searchsorted(ends - 1, np.arange(len(order)))

    def evaluate(beta: Floats) -> tuple[NullModel, float, Floats, Floats]:
        """Model at some coefficients; log partial likelihood, gradient and information."""
        predictor = Z @ beta
        predictor -= predictor.max(initial=0.0)
        risk = weights * np.exp(predictor)
        at_risk = np.cumsum(risk)[ends - 1]
        means = np.cumsum(risk[:, None] * Z, axis=0)[ends - 1] / at_risk[:, None]
        hazards = (events / at_risk)[:, None] * np.column_stack([np.ones(len(events)), means])
        sums = np.cumsum(hazards[::-1], axis=0)[::-1]  # from the earliest time on
        hazard = np.concatenate([sums, np.zeros_like(sums[:1])])[own_time] * risk[:, None]
        linear = np.vstack([event - hazard[:, 0], (hazard[:, :1] * Z - hazard[:, 1:]).T])
        gradient, information = linear[0] @ Z, linear[1:] @ Z
        white = whiten(information)
        likelihood = float(event @ predictor - events @ np.log(at_risk))
        model = NullModel(order, risk, linear, hazard[:, 0], ends, events, at_risk, white, white @ gradient)
        return model, likelihood, gradient, information

    def derivatives(beta: Floats) -> tuple[float, Floats, Floats]:
        is_far = np.ptp(Z @ beta) > 10 * MAX_LOG_RISK
        return (-np.inf, beta, np.eye(len(beta))) if is_far else evaluate(beta)[1:]

    beta = np.zeros(Z.shape[1])
    if beta.size:
        maximum = maximise(derivatives, beta, TOLERANCE)
        if maximum is None or np.ptp(Z @ maximum[0]) > MAX_LOG_RISK:
            raise CovariateError(
                f"the Cox model with the covariates alone does not converge on {len(order):,} rows: a "
                "covariate orders the events perfectly, or nearly so; omit it, or read more rows."
            )
        beta = maximum[0]
    return evaluate(beta)[0]


def _log_pvalue(model: NullModel, Z: Floats, x: Array) -> float:
    """By the partial likelihood: in each risk set, the row with the event is drawn by its relative risk."""
    last, d = model.ends - 1, model.events
    g = x[model.order] - x.mean(dtype=np.float64)
    g = g - Z @ (model.white.T @ (model.white @ (model.linear[1:] @ g)))

    def moments(t: float) -> tuple[Floats, Floats, Floats]:
        tilted = model.risk * np.exp(np.clip(t * g, -700.0, 700.0))
        total, first, second = (np.cumsum(tilted * g**k)[last] for k in range(3))
        return total, first / total, second / total - np.square(first / total)

    total, mean, variance = moments(0.0)
    if not (information := float(d @ variance)) > 0:
        return -np.inf
    g /= np.sqrt(information)
    expected = float(d @ mean) / np.sqrt(information)

    def cumulants(t: float) -> tuple[float, float, float]:
        tilted, first, second = moments(t)
        value = float(d @ np.log(tilted / total)) - t * expected
        return value, float(d @ first) - expected, float(d @ second)

    # As in a t test, each covariate takes a degree of freedom of the events.
    freedom = max(1.0 - Z.shape[1] / d.sum(), 0.0)
    return log_pvalue(cumulants, float(model.linear[0] @ g) * np.sqrt(freedom))
