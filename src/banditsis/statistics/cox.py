"""Score test of one feature in a Cox model of survival times."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from banditsis.arrays import Array, Floats, Indices, Rows
from banditsis.kernels import risk as kernels
from banditsis.statistics.base import describe_rows_read, ratio
from banditsis.statistics.covariates import CovariateError, Covariates
from banditsis.statistics.null_distributions import NormalNull, NullDistribution
from banditsis.statistics.partial import check_residual_rows
from banditsis.statistics.projection import whiten
from banditsis.statistics.sample import SampleStatistic

MAX_STEPS = 50
ARRIVED = 1e-12
#: Where log risks differ by more, the likelihood has no maximum.
MAX_RISK = 60.0
#: A feature of whose information no more than this share is left beside the covariates scores 0.
RESOLUTION = 1e-11


class Cox(SampleStatistic):
    r"""Score test of one feature in Cox's proportional hazards model, right-censored, ties by Breslow.

    With :math:`R_t` the rows at risk at event time t, :math:`d_t` the events there, and :math:`e_i` the
    relative risk by the covariates alone (1 without),

    .. math:: U = \sum_t \Big( \sum_{i: T_i = t, δ_i = 1} x_i - d_t \bar x_t \Big), \quad
              V = \sum_t d_t \big( \overline{x^2}_t - \bar x_t^2 \big), \quad
              \bar x_t = \frac{\sum_{R_t} e_i x_i}{\sum_{R_t} e_i}

    and the score is :math:`U / \sqrt{V n}`; its square times n is the χ² of the score test [1]_, which
    without covariates is the log-rank test for a feature of two values. V has a square in it for each event
    time, so that it comes from no fixed set of sums: each round reads all rows so far again. With covariates
    their coefficients are fitted to the rows read, and what they explain of U and V is taken off.

    The response is (time, event): an array or a frame of two columns in this order, or a structured array
    of two fields, in either order if the event is boolean. It is one response.

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
    covariates: Covariates | None = None

    @property
    def n_responses(self) -> int:
        return 1

    @classmethod
    def unpack(cls, y: Any) -> Any:
        """Time and event as two columns."""
        values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
        fields = values.dtype.names
        if fields is not None:
            if len(fields) != 2:
                raise ValueError(f"statistic='cox' needs the fields time and event, got {', '.join(fields)}.")
            time, event = fields
            if values.dtype[time].kind == "b":
                time, event = event, time
            values = np.column_stack([_numbers(values[time]), _numbers(values[event])])
        if values.ndim != 2 or values.shape[1] != 2:
            raise ValueError(
                f"statistic='cox' needs y as (time, event), an array of shape (n, 2), got {values.shape}."
            )
        return _numbers(values) if values.dtype.kind in "OUS" else values

    def bind(self, y: Array, pairwise: bool) -> Self:
        time, event = y[:, 0], y[:, 1]
        if (time < 0).any():
            row = int(np.argmax(time < 0))
            raise ValueError(f"statistic='cox' needs times of 0 or more, got {time[row]:g} in row {row:,}.")
        odd = (event != 0) & (event != 1)
        if odd.any():
            row = int(np.argmax(odd))
            raise ValueError(
                "statistic='cox' needs events that are 0 (censored) or 1, in the second column of y; got "
                f"{event[row]:g} in row {row:,}."
            )
        bound = copy(self)
        bound.y, bound.pairwise = y, pairwise
        return bound

    def bind_partial(self, y: Array, covariates: Covariates) -> Self:
        bound = self.bind(y, False)
        bound.covariates = covariates
        return bound

    def subset(self, responses: Sequence[int]) -> Self:
        return self

    def calibrate(self, rows: Rows) -> Self:
        event = self.y[rows, 1]
        check_residual_rows(rows, 0 if self.covariates is None else self.covariates.rank, self.y.shape[0])
        if not event.any() or np.ptp(self.y[rows, 0]) == 0:
            what = "events" if not event.any() else "different times"
            first, more = describe_rows_read(rows, self.y.shape[0])
            raise ValueError(f"{first} have no {what}: check that y is (time, event){more}.")
        return self

    def response(self, rows: Rows, response: int = 0) -> Floats:
        """Time, event, and the covariates."""
        y = np.asarray(self.y[rows], np.float64)
        return y if self.covariates is None else np.column_stack([y, self.covariates.columns(rows)])

    def can_rank(self, y: Floats) -> bool:
        return bool(y[:, 1].any())

    def prepare(self, y: Floats) -> Side:
        return make_side(y[:, 0], y[:, 1], y[:, 2:])

    def score_block(self, block: Floats, side: Side) -> Floats:
        out = np.empty((len(side.linear) + 1, block.shape[1]))
        kernels.centre(block, side.order)
        kernels.moments(
            block,
            side.order,
            side.risk,
            side.linear,
            side.square,
            side.ends,
            side.events,
            side.at_risk,
            out,
        )
        explained = side.white @ out[1:-1]
        left = out[-1] - np.square(explained).sum(axis=0)
        slope = out[0] - side.turned @ explained
        left = np.where(left > RESOLUTION * np.maximum(out[-1], 0.0), left, 0.0)
        return ratio(slope, np.sqrt(left) * np.sqrt(len(side.order)))

    def null_distribution(self, side: Any, n_rows: int, present: Floats | None) -> NullDistribution | None:
        return NormalNull(float(np.sqrt(n_rows)))

    def drift(self, rows: Rows, n: int) -> float:
        from scipy.stats import rankdata

        columns = np.column_stack([rankdata(self.y[:, 0]), self.y[:, 1]])
        some = columns[rows]
        spread = columns.std(axis=0) * np.sqrt(max(1 / len(some) - 1 / n, 0.0))
        return float(np.max(ratio(np.abs(some.mean(axis=0) - columns.mean(axis=0)), spread)))


def _numbers(values: Array) -> Floats:
    """Times and events as numbers, or an error that names the first that is none."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        for value in values.flat:
            try:
                float(value)
            except (TypeError, ValueError):
                break
        raise TypeError(
            f"statistic='cox' needs times and events as numbers, got {str(value)!r}: an event is 1 or True, "
            "a censored time 0 or False, such as event == 'dead'."
        ) from None


@dataclass(frozen=True)
class Side:
    """What scores need to know of times, events and covariates; rows are in ``order``, latest first."""

    order: Indices
    risk: Floats
    #: martingale residuals, then the weights of the information that feature and covariates share
    linear: Floats
    square: Floats
    ends: Indices
    events: Floats
    at_risk: Floats
    white: Floats
    turned: Floats


def make_side(time: Floats, event: Floats, Z: Floats) -> Side:
    """Fit the covariates' coefficients by Newton's method, and weigh the rows."""
    order = np.argsort(-time, kind="stable")
    event, Z = event[order], Z[order]
    # Rows before an end are at risk at the time of the row that comes last among them.
    last = np.append(np.flatnonzero(np.diff(time[order])), len(order) - 1)
    events = np.diff(np.cumsum(event)[last], prepend=0.0)
    ends, events = last[events > 0] + 1, events[events > 0]
    beta = np.zeros(Z.shape[1])
    value, side, slope, gram = _weigh(order, event, Z, ends, events, beta)
    for _ in range(MAX_STEPS if beta.size else 0):
        white = whiten(gram)
        turned = white @ slope
        gain = float(turned @ turned)
        if gain < ARRIVED and len(white) == beta.size and np.ptp(Z @ beta) < MAX_RISK:
            # The last step squares what error is left.
            return _weigh(order, event, Z, ends, events, beta + white.T @ turned)[1]
        for halving in range(30):
            tried = beta + white.T @ turned / 2**halving
            if np.ptp(Z @ tried) > 10 * MAX_RISK:
                continue
            new = _weigh(order, event, Z, ends, events, tried)
            if new[0] >= value or gain < 1e-8:
                break
        else:
            break
        beta, (value, side, slope, gram) = tried, new
    if beta.size:
        raise CovariateError(
            f"the Cox model with the covariates alone does not converge on {len(order):,} rows: a covariate "
            "orders the events perfectly, or nearly so; leave it out, or read more rows."
        )
    return side


def _weigh(
    order: Indices, event: Floats, Z: Floats, ends: Indices, events: Floats, beta: Floats
) -> tuple[float, Side, Floats, Floats]:
    """Log partial likelihood at some coefficients, weights, slope and information."""
    predictor = Z @ beta
    risk = np.exp(predictor - predictor.max(initial=0.0))
    at_risk = np.cumsum(risk)[ends - 1]
    means = np.cumsum(risk[:, None] * Z, axis=0)[ends - 1] / at_risk[:, None]
    # A row is at risk at all event times up to its own: a sum from the back, for the row's first such time.
    hazard = _from_back(events / at_risk)[np.searchsorted(ends - 1, np.arange(len(order)))]
    drift = _from_back((events / at_risk)[:, None] * means)[np.searchsorted(ends - 1, np.arange(len(order)))]
    square = risk * hazard
    linear = np.vstack([event - square, (square[:, None] * Z - risk[:, None] * drift).T])
    slope = linear[0] @ Z
    gram = linear[1:] @ Z
    white = whiten(gram)
    likelihood = event @ predictor - events @ (np.log(at_risk) + predictor.max(initial=0.0))
    side = Side(order, risk, linear, square, ends, events, at_risk, white, white @ slope)
    return float(likelihood), side, slope, gram


def _from_back(values: Floats) -> Floats:
    """Sums of each value and all after it, and a 0 for those who come after all."""
    sums = np.cumsum(values[::-1], axis=0)[::-1]
    return np.concatenate([sums, np.zeros_like(values[:1])])
