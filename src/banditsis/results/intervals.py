"""Confidence intervals of correlations, and which of them are clearly not 0."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Floats
from banditsis.plans.detection_floor import excess_inflation

if TYPE_CHECKING:
    from banditsis.results.result import ScreeningResult


class Fisher(NamedTuple):
    """Fisher's transformation of the correlations of the selected features."""

    centre: Floats
    #: standard errors for normal data, and by the variance inflation of each feature
    error: Floats
    own: Floats
    #: number of rows that are informative about the feature
    informative: Floats


def transform(result: ScreeningResult) -> Fisher:
    """The transformed correlations and their standard errors."""
    evidence, last = result.evidence, result.last_round[result.selected]
    read, effective = np.array([(step.n_rows, step.effective_rows) for step in result.rounds])[last].T
    m = read if evidence.present is None else evidence.present
    r = result.scores[result.selected] * np.sqrt(read / np.maximum(m, 1))
    inflation = np.ones_like(r)
    if evidence.informative is not None:
        inflation = 1.0 + excess_inflation(m / np.maximum(evidence.informative, 1.0), r)
    own, rows = inflation, np.full_like(r, np.inf)
    if evidence.own_inflation is not None:
        own, rows = evidence.own_inflation.T
    with np.errstate(divide="ignore"):
        variance = np.stack([inflation, own]) / np.maximum(
            m * effective / read - 3 - evidence.n_covariates, 0
        )
        normal, spread = np.sqrt(variance)
        return Fisher(np.arctanh(np.clip(r, -1.0, 1.0)), normal, spread, rows)


def find_limits(result: ScreeningResult, confidence: float) -> Floats:
    """Lower and upper limits of the correlations of the selected features."""
    centre, error, own, rows = transform(result)
    z = -NormalDist().inv_cdf(0.5 - confidence / 2)
    half = np.fmax(z * error, student_quantile(z, 2 * rows) * own)
    with np.errstate(invalid="ignore"):
        low, high = np.tanh(centre - half), np.tanh(centre + half)
    exact = np.isinf(centre)  # inf - inf, if three rows or a copy of the response give ±1
    return np.where(exact[:, None], np.sign(centre)[:, None], np.column_stack([low, high]))


def is_clear(result: ScreeningResult, error_rate: float) -> Array:
    """Whether the interval of each selected feature, simultaneous for all features, does not contain 0."""
    centre, error, own, rows = transform(result)
    z = -NormalDist().inv_cdf(error_rate / result.n_features / 2)
    wide: Any = z
    evidence = result.evidence
    if evidence.informative is not None and evidence.informative_response is not None:
        share = min(1.0, evidence.informative_response / result.rounds[-1].n_rows)
        wide = z + z * z / (6 * np.sqrt(np.maximum(evidence.informative, 1) * share))
    half = np.maximum(wide * error, student_quantile(z, 2 * rows) * own)
    return np.asarray(np.abs(centre) > half)


def student_quantile(z: float, df: Floats) -> Floats:
    """The quantile of Student's t at the probability of a normal quantile z, by Fisher's expansion.

    Examples
    --------
    >>> student_quantile(1.959964, np.array([10.0, np.inf])).round(2)
    array([2.23, 1.96])
    """
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return np.asarray(z + first / df + second / df**2 + third / df**3)
