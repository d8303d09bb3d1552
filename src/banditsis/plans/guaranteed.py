"""Guaranteed plans: which rows to read, and how features are judged by evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from banditsis.arrays import Floats
from banditsis.plans.detection_floor import evidence_cutoff, fisher_rows, null_shares
from banditsis.plans.plan import EvidenceStep

if TYPE_CHECKING:
    from banditsis.plans.plan import Plan, Step

#: How far above its cutoff's zero, in standard errors, the first round starts; how fast rows then grow.
STARTS = (0.15, 0.3, 0.5, 0.7, 1.0)
GROWTHS = (1.15, 1.25, 1.4, 1.6)
#: Growth where no feature without signal is left: only those close to the minimum are still read.
LATE_GROWTH = 2.0


def plan_steps(n: int, p: int, d: int, min_correlation: float, confidence: float) -> list[EvidenceStep]:
    """The steps of :meth:`Plan.guaranteed`: of a few schedules, the one of the fewest expected cells."""
    best: tuple[float, list[EvidenceStep]] | None = None
    for start in STARTS:
        for growth in GROWTHS:
            steps = _schedule(n, p, d, min_correlation, 1.0 - confidence, start, growth)
            left = _expected(steps, n, p, d)
            cost = _cost(steps, left, p, d)
            if best is None or cost < best[0]:
                best = cost, steps
    assert best is not None
    return best[1]


def expected_left(plan: Plan) -> tuple[int, ...]:
    """Features left after each step, if none has any signal."""
    steps = [step for step in plan.steps if isinstance(step, EvidenceStep)]
    return tuple(_expected(steps, plan.n_rows, plan.n_features, plan.n_keep))


def _schedule(
    n: int, p: int, d: int, minimum: float, error: float, start: float, growth: float
) -> list[EvidenceStep]:
    rows = _first_rows(n, minimum, _z(error, p, 1), start)
    # Beyond four times the rows that decide on features without signal, only others are left.
    late = 4 * rows
    steps: list[EvidenceStep] = []
    while rows < n / 1.3:
        steps.append(EvidenceStep(rows, d, minimum, _z(error, p, len(steps) + 1)))
        rows = math.ceil(rows * (growth if rows < late else LATE_GROWTH))
    steps.append(EvidenceStep(n, d, minimum, _z(error, p, len(steps) + 1)))
    return steps


def _z(error: float, p: int, k: int) -> float:
    """Standard errors of round k; one feature may be lost there with probability error / (p k (k + 1))."""
    from scipy.special import ndtri

    return round(float(-ndtri(error / (p * k * (k + 1)))), 4)


def _first_rows(n: int, minimum: float, z: float, start: float) -> int:
    """Rows m at which features without signal begin to be droppable."""
    # there 1/m - 1/n is the square of artanh(minimum) / (z + start)
    variance = (math.atanh(minimum) / (z + start)) ** 2
    return min(n, math.ceil(1.0 / (variance + 1.0 / fisher_rows(n))) + 3)


def _expected(steps: list[EvidenceStep], n: int, p: int, d: int) -> list[int]:
    rows = [step.n_rows for step in steps]
    shares = null_shares(rows, [evidence_cutoff(step, n, 1.0) for step in steps])
    return [max(d, min(p, math.ceil(p * share - 1e-3))) for share in shares]


def _cost(steps: list[EvidenceStep], left: list[int], p: int, d: int) -> float:
    cost, rows, before = 0.0, 0, p
    for step, after in zip(steps, left, strict=True):
        cost += (step.n_rows - rows) * (before if before > d else 0)
        rows, before = step.n_rows, after
    return cost


class EvidenceRule:
    """Decide how many features stay after a step, and whether the run has ended.

    Parameters
    ----------
    n : int
        Rows of the data.
    measure : function
        Called once, after the first round by evidence, with its scores; returns the inflation to reckon
        with.
    """

    def __init__(self, n: int, measure: Callable[[Floats], float]) -> None:
        self.n, self.measure = n, measure
        self.variance_inflation: float | None = None
        self.ended = False
        self.notes: list[str] = []

    def count(self, step: Step | EvidenceStep, scores: Floats) -> int:
        """How many of the best stay."""
        if not isinstance(step, EvidenceStep):
            return step.n_keep
        if self.variance_inflation is None:
            self.variance_inflation = 1.0 if step.n_rows >= self.n else self.measure(scores)
        size = np.abs(scores)
        low, high = (evidence_cutoff(step, self.n, self.variance_inflation, sign) for sign in (-1.0, 1.0))
        stay = int(np.count_nonzero(size >= low))
        undecided = np.count_nonzero((size >= low) & (size < high))
        self.ended = stay <= step.n_keep or undecided == 0
        if not self.ended:
            return stay
        self.notes += self._stopping_notes(step, size, stay)
        return step.n_keep or stay

    def cutoff(self, step: Step | EvidenceStep, smallest_kept: float) -> float:
        """What a feature had to reach: the evidence asked for, or more if only the best were kept."""
        if not isinstance(step, EvidenceStep) or (self.ended and step.n_keep):
            return smallest_kept
        return evidence_cutoff(step, self.n, self.variance_inflation or 1.0)

    def _stopping_notes(self, step: EvidenceStep, size: Floats, stay: int) -> Iterator[str]:
        minimum = step.min_correlation
        if step.n_keep and stay > step.n_keep:
            cut = np.partition(size, len(size) - step.n_keep - 1)[len(size) - step.n_keep - 1]
            yield (
                f"{stay:,} features have |r| of {minimum:g} or more, and {step.n_keep:,} were asked for: "
                f"the last cut lost {stay - step.n_keep:,} of them, the largest with |r| = {cut:.4f} over "
                f"{step.n_rows:,} rows (n_features_to_select=None keeps all)."
            )
        elif stay < step.n_keep:
            yield (
                f"all but {stay:,} features are known to have |r| below {minimum:g}; the others were kept "
                f"because {step.n_keep:,} were asked for."
            )
        elif stay == 0:
            yield f"no feature has |r| of {minimum:g} or more."
