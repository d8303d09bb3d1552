r"""What a finished or planned run guarantees: the detection floor.

A feature with correlation τ over all n rows shows, over nested uniform samples of :math:`n_1 < n_2 < …` rows,
correlations with

.. math:: z_l = \operatorname{artanh} r_l \sim N(\operatorname{artanh} τ, V_l), \quad
    V_l = κ \left(\frac{1}{n_l - 3} - \frac{1}{n - 3}\right), \quad
    \operatorname{Cov}(z_l, z_m) = V_m \; (n_l < n_m)

(Fisher's transform, rows drawn without replacement): seen from the last round backwards, a chain with
independent increments. κ is the inflation of the variance by heavy tails, 1 for normal data. The feature is
kept if :math:`|r_l|` reaches the cutoff :math:`q_l` in every round; the chance of the contrary is a recursion
in one dimension. A return with the opposite sign is not counted, which errs on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis.arrays import Floats
from banditsis.kernels import chain

if TYPE_CHECKING:
    from banditsis.plans.plan import Plan
    from banditsis.results import ScreeningResult

#: Numbers of Gauss-Legendre nodes; more are taken where rounds follow closely upon each other.
NODES = (48, 96, 192, 384)


def fisher_rows(n_rows: float) -> float:
    """Rows less 3, as Fisher's variance counts them."""
    return max(float(n_rows) - 3.0, 1.0)


def chain_variance(n_rows: int, n: int, variance_inflation: float) -> float:
    """Variance of artanh r over ``n_rows`` of n rows, about its value over all of them."""
    return variance_inflation * (1.0 / fisher_rows(n_rows) - 1.0 / fisher_rows(n))


def detection_floor(
    rows: Sequence[int], cutoffs: Sequence[float], n: int, variance_inflation: float, error: float
) -> float:
    """The smallest τ whose features are lost with at most this probability, given every round's cutoff.

    Parameters
    ----------
    rows, cutoffs : sequences
        Rows read in all after each round, and the least absolute correlation that it kept (0 where it
        dropped nothing).
    n : int
        Rows of the data.
    variance_inflation : float
        The κ above.
    error : float
        Probability to lose a feature at the floor.

    Examples
    --------
    >>> round(detection_floor([1000], [0.1], 10**6, 1.0, 0.05), 4)  # artanh 0.1 + 1.645 √0.001
    0.1512
    >>> detection_floor([1000], [0.1], 1000, 1.0, 0.05)  # all rows: certainty
    0.1
    """
    certain = 0.0
    variances: list[float] = []
    bounds: list[float] = []
    for m, cutoff in zip(rows, cutoffs, strict=True):
        bound = math.atanh(min(cutoff, 1.0 - 1e-12))
        variance = chain_variance(m, n, variance_inflation)
        if variance <= chain.CERTAIN * (variances[-1] if variances else 1.0 / n):
            certain = max(certain, cutoff)
        elif cutoff > 0:
            if variances and variances[-1] - variance < 1e-3 * variances[-1]:  # as good as the same rows
                bound = max(bound, bounds.pop())
                variances.pop()
            variances.append(variance)
            bounds.append(bound)
    if not bounds:
        return certain
    nodes, weights, work = gauss_legendre(_nodes_for_losses(np.array(variances), np.array(bounds)))
    mean = chain.lowest_mean(np.array(variances), np.array(bounds), error, nodes, weights, work)
    return max(certain, math.tanh(mean))


def null_cutoffs(rows: Sequence[int], kept: Sequence[int], p: int) -> list[float]:
    r"""Cutoffs that p independent features without signal will set, if ``kept`` of them are kept.

    Without signal :math:`u_l = z_l \sqrt{n_l - 3}` is standard normal and

    .. math:: u_{l+1} = \sqrt{m_l / m_{l+1}} \, u_l + \sqrt{1 - m_l / m_{l+1}} \, ε, \quad m_l = n_l - 3

    truncated in every round so that the planned share is kept.

    Examples
    --------
    >>> [round(q, 3) for q in null_cutoffs([103, 403], [100, 10], 1000)]
    [0.163, 0.108]
    """
    deciding = _deciding(rows, kept, p)
    counts = np.array([fisher_rows(rows[k]) for k in deciding])
    left = np.array([p, *(kept[k] for k in deciding)], dtype=np.float64)
    cutoffs = np.empty(len(counts))
    nodes, weights, work = gauss_legendre(nodes_for_rows(counts))
    chain.null_chain(counts, left[1:] / left[:-1], cutoffs, True, nodes, weights, work)
    found = np.zeros(len(rows))
    found[deciding] = np.tanh(cutoffs / np.sqrt(counts))
    return [float(q) for q in found]


def _deciding(rows: Sequence[int], kept: Sequence[int], p: int) -> list[int]:
    """The rounds that drop something, and of those over as good as the same rows only the last."""
    chosen: list[int] = []
    for k, (m, left) in enumerate(zip(rows, kept, strict=True)):
        if left == (kept[chosen[-1]] if chosen else p):
            continue
        if chosen and rows[chosen[-1]] > 0.998 * m:
            chosen.pop()
        chosen.append(k)
    return chosen


def null_shares(rows: Sequence[int], cutoffs: Sequence[float]) -> list[float]:
    """Shares of features without signal that are left after each round, given the cutoffs.

    Examples
    --------
    >>> [round(share, 3) for share in null_shares([103, 403], [0.163, 0.108])]
    [0.1, 0.01]
    """
    counts = np.array([fisher_rows(m) for m in rows])
    bounds = np.arctanh(np.array(cutoffs)) * np.sqrt(counts)
    shares = np.empty(len(counts))
    nodes, weights, work = gauss_legendre(nodes_for_rows(counts))
    chain.null_chain(counts, shares, bounds, False, nodes, weights, work)
    return [float(share) for share in np.cumprod(shares)]


def error_level(confidence: float, simultaneous: bool, n_kept: int) -> float:
    r"""Probability of loss to allow one feature.

    For all features at once, say that M of them lie at the floor or above. Each is kept with probability
    at least 1 - e, and no more than d are kept in all, so that M (1 - e) ≤ d; some one is lost with
    probability at most M e ≤ d e / (1 - e), which is 1 - confidence for

    .. math:: e = (1 - c) / (d + 1 - c)

    However many features there are, the price is that of d comparisons.
    """
    error = 1.0 - confidence
    return error / (n_kept + error) if simultaneous else error


def plan_floor(plan: Plan, confidence: float, simultaneous: bool, variance_inflation: float) -> float:
    """The detection floor of a plan; see :meth:`Plan.detection_floor`."""
    rows = [step.n_rows for step in plan.steps]
    if plan.by_evidence:
        cutoffs = [evidence_cutoff(step, plan.n_rows, variance_inflation) for step in plan.steps]
    else:
        cutoffs = null_cutoffs(rows, [step.n_keep for step in plan.steps], plan.n_features)
    error = error_level(confidence, simultaneous, plan.n_features if plan.by_evidence else plan.n_keep)
    return detection_floor(rows, cutoffs, plan.n_rows, variance_inflation, error)


def evidence_cutoff(step: Any, n: int, variance_inflation: float, sign: float = -1.0) -> float:
    """The least |r| that a step by evidence keeps, or with sign 1 the least that is decidedly above.

    Examples
    --------
    >>> from banditsis.plans.plan import EvidenceStep
    >>> round(evidence_cutoff(EvidenceStep(2503, 10, 0.1, 3.0), 10**9, 1.0), 4)  # about 0.1 - 3 / 50
    0.0403
    """
    error = math.sqrt(chain_variance(step.n_rows, n, variance_inflation))
    return max(0.0, math.tanh(math.atanh(step.min_correlation) + sign * step.z * error))


def result_floor(result: ScreeningResult, confidence: float, simultaneous: bool) -> float:
    """The detection floor of a finished run; see :meth:`ScreeningResult.detection_floor`."""
    reason = why_no_floor(result)
    if reason is not None:
        raise ValueError(f"no detection floor is known: {reason}.")
    # How many pass by evidence is not fixed beforehand, so that all features count.
    fixed = result.parameters.get("plan") != "guaranteed"
    error = error_level(confidence, simultaneous, len(result.selected) if fixed else result.n_features)
    cutoffs = [r.cutoff if r.n_kept < r.n_features else 0.0 for r in result.rounds]
    # Given covariates take a degree of freedom each (Fisher 1924).
    given = result.parameters.get("covariates", 0)
    rows = [r.n_rows - given for r in result.rounds]
    return detection_floor(rows, cutoffs, result.n_rows - given, result.variance_inflation or 1.0, error)


def why_no_floor(result: ScreeningResult) -> str | None:
    """Why a run has no detection floor, or None if it has one."""
    asked = result.parameters
    if result.rounds[0].n_rows >= result.n_rows:
        return None  # everything was read: nothing is left to chance
    if asked.get("statistic", "pearson") != "pearson":
        return (
            f"the sampling law of statistic={asked['statistic']!r} is not known here, only that of 'pearson'"
        )
    if asked.get("missing") == "pairwise":
        return "with missing='pairwise' every feature has rows of its own, and a law of its own"
    if (reason := why_no_sample(asked)) is not None:
        return reason
    if result.variance_inflation is None:
        return "the result does not say how much the correlations vary (inflation is None)"
    return None


def why_no_sample(parameters: Mapping[str, Any]) -> str | None:
    """Why the rows that a run reads first are no simple random sample, or None if they are one."""
    if parameters.get("row_order") not in ("stored", "blocks") or parameters.get("shuffled"):
        return None
    chosen = "rows in stored order" if parameters["row_order"] == "stored" else "whole blocks of rows"
    return f"{chosen} are no simple random sample; use row_order='random'"


def nodes_for_rows(counts: Floats) -> int:
    """How finely to follow features without signal."""
    if len(counts) < 2:
        return NODES[0]
    step = float(np.sqrt(np.maximum(1.0 - counts[:-1] / counts[1:], 1e-6)).min())
    return _enough(8.0 / step)


def _nodes_for_losses(variances: Floats, bounds: Floats) -> int:
    if len(bounds) < 2:
        return NODES[0]
    step = math.sqrt(min(float(-np.diff(variances).max()), float(variances[-1])))
    reach = float((bounds + chain.REACH * np.sqrt(variances)).max() - bounds.min())
    return _enough(1.5 * reach / step)


def _enough(wanted: float) -> int:
    return next((count for count in NODES if count >= wanted), NODES[-1])


@cache
def _rule(count: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


def gauss_legendre(count: int) -> tuple[Floats, Floats, Floats]:
    """Nodes, weights and room to work in."""
    nodes, weights = _rule(count)
    return nodes, weights, np.empty((4, count))
