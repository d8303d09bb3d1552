"""Maximum likelihood of a generalised linear model with the covariates alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from banditsis.arrays import Floats, Rows, count_rows, spread
from banditsis.statistics.covariates import CovariateError, Covariates, chunks
from banditsis.statistics.projection import whiten

if TYPE_CHECKING:
    from banditsis.statistics.glm import GeneralisedLinear

ROWS_TO_START = 20_000
MAX_STEPS = 100
#: Newton's method has arrived if its step would raise the log-likelihood by less.
ARRIVED = 1e-10
#: Where the likelihood is flatter than this, against the model without covariates, there is no maximum.
FLAT = 1e-7


def fit(model: GeneralisedLinear, covariates: Covariates) -> Floats:
    """Coefficients of the null model of one response: the intercept, then the covariates' basis."""
    n = len(model.y)
    coefficients = np.zeros(1 + covariates.rank)
    average = sum(float(model.values(part).sum()) for part in chunks(slice(0, n))) / n
    coefficients[0] = model.link(average)
    if n > 5 * ROWS_TO_START:  # a sample brings Newton's method most of the way
        sample = spread(slice(0, n), ROWS_TO_START)
        if model.values(sample).mean() > 0:
            coefficients = _maximise(model, covariates, sample, coefficients, must=False)
    return _maximise(model, covariates, slice(0, n), coefficients)


def _maximise(
    model: GeneralisedLinear, covariates: Covariates, rows: Rows, start: Floats, *, must: bool = True
) -> Floats:
    """Newton's method with halved steps; where it need not arrive it may give back the start."""
    beta = start
    spread_of_null = float(model.variance(model.mean(start[:1]))[0])
    value, slope, gram = _derivatives(model, covariates, rows, beta)
    for _ in range(MAX_STEPS):
        white = whiten(gram)
        turned = white @ slope
        step, gain = white.T @ turned, float(turned @ turned)
        if not np.isfinite(gain) or len(white) < len(beta):
            break
        if gain < ARRIVED:
            if np.linalg.eigvalsh(gram)[0] < FLAT * count_rows(rows) * spread_of_null:
                break
            return beta + step
        for halving in range(30):
            tried = beta + step / 2**halving
            new = _derivatives(model, covariates, rows, tried)
            if new[0] > value:
                break
        else:
            if gain < 1e-6:  # as high as rounding can tell
                return beta + step
            break
        beta, (value, slope, gram) = tried, new
    if must:
        raise CovariateError(model.diverged())
    return start


def _derivatives(
    model: GeneralisedLinear, covariates: Covariates, rows: Rows, beta: Floats
) -> tuple[float, Floats, Floats]:
    """Log-likelihood, its slope, and the information."""
    value, slope, gram = 0.0, np.zeros(len(beta)), np.zeros((len(beta), len(beta)))
    for part in chunks(rows):
        A = np.column_stack([np.ones(count_rows(part)), covariates.columns(part)])
        y, predictor = model.values(part)[:, 0], A @ beta
        mean = model.mean(predictor)
        value += model.log_likelihood(y, predictor)
        slope += A.T @ (y - mean)
        gram += A.T @ (A * model.variance(mean)[:, None])
    return value, slope, gram
