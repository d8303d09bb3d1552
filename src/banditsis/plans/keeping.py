"""Which features stay after a step: the strongest, or in guaranteed plans those that the evidence does not
rule out.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Floats, Indices, special
from banditsis.core.formatting import count, were
from banditsis.plans.design import SamplingDesign
from banditsis.plans.floor import excess_inflation, is_undecided, null_shares, sampling_variance

#: Of so many features for each that stays, most are ruled out before the strongest are searched for.
MANY, SAMPLE = 64, 1024
#: No feature with fewer informative rows is dropped. Those of normal features are a third of all.
MIN_GUARANTEED = 30.0
#: Candidates for the first round, in standard errors above its cutoff, and for the growth of rows after it.
STARTS = (0.15, 0.3, 0.5, 0.7, 1.0)
GROWTHS = (1.15, 1.25, 1.4, 1.6)
#: Growth once features without signal are gone and only those close to the minimum are still read.
LATE_GROWTH = 2.0


class KeepRule:
    """Keeps the strongest features, as many as the step says.

    Undecided features may take up to half of the places, those with the fewest informative rows first, but no
    place of the ``n_final`` strongest features.
    """

    #: whether the run ends after this step
    ended: bool = False
    #: remarks for the result
    notes: Sequence[str] = ()

    def __init__(self, n_final: int) -> None:
        self.n_final = n_final

    def keep(self, step: Any, strength: Floats, informative: Floats | None) -> tuple[Indices, float]:
        """Positions of the features that stay, in order, and the strength that the others did not reach.

        ``strength`` and ``informative`` rows, if these are known, are of each remaining feature.
        """
        n_keep, undecided = int(step.n_keep), np.empty(0, np.intp)
        if informative is not None and n_keep < len(strength):
            places = max(0, n_keep - max(self.n_final, n_keep // 2))
            undecided = np.flatnonzero(is_undecided(informative, step.n_rows))
            known = np.rint(informative[undecided])  # small differences between sources do not matter
            undecided = undecided[np.lexsort((-strength[undecided], known))][:places]
        if undecided.size == 0:
            return strongest(strength, n_keep)
        rest = np.delete(np.arange(len(strength)), undecided)
        kept, cutoff = strongest(strength[rest], n_keep - len(undecided))
        return np.sort(np.concatenate([undecided, rest[kept]])), cutoff


def strongest(strength: Floats, n_keep: int) -> tuple[Indices, float]:
    """Positions of the largest values, in order, and the smallest of them; ties go to the lower index."""
    if n_keep == 0:
        return np.arange(0), 1.0
    if len(strength) > MANY * n_keep:  # find out among those that a sample shows to be strong
        sample = strength[:: max(1, len(strength) // SAMPLE)]
        place = min(len(sample) - 1, 4 * (n_keep * len(sample) // len(strength) + 4))
        strong = np.flatnonzero(strength >= np.partition(sample, -place - 1)[-place - 1])
        if n_keep <= len(strong) < len(strength) // 2:
            kept, cutoff = strongest(strength[strong], n_keep)
            return strong[kept], cutoff
    cutoff = np.partition(strength, len(strength) - n_keep)[len(strength) - n_keep]
    keep = strength > cutoff
    ties = np.flatnonzero(strength == cutoff)
    keep[ties[: n_keep - np.count_nonzero(keep)]] = True
    return np.flatnonzero(keep), float(cutoff)


class EvidenceStep(NamedTuple):
    """After ``n_rows`` rows in total, drop every feature that is inconsistent with a minimum correlation.

    A feature is dropped if ``artanh|r| + z · se < artanh(min_correlation)``, but at least ``n_keep`` features
    are kept. As soon as no feature is undecided, or ``n_keep`` are left, the run ends with the best
    ``n_keep`` features (all that are left if it is 0).
    """

    n_rows: int
    n_keep: int
    min_correlation: float
    z: float


def evidence_cutoff(
    step: Any,
    design: SamplingDesign,
    variance_inflation: float,
    kurtosis: float | Floats = 3.0,
    sign: float = -1.0,
) -> Any:
    r"""The smallest \|r\| that an evidence step keeps, or with sign 1 the smallest that surely passes."""
    error = np.sqrt(_variance(step.n_rows, design, step.min_correlation, variance_inflation, kurtosis))
    return np.maximum(0.0, np.tanh(math.atanh(step.min_correlation) + sign * step.z * error))


def _variance(
    n_rows: int,
    design: SamplingDesign,
    correlation: float,
    variance_inflation: float = 1.0,
    kurtosis: float | Floats = 3.0,
) -> Any:
    """Variance of artanh r around its value over all rows; :math:`V_y + r^2 (V_x - V_y) / 2` for normal data.

    :math:`V_y` follows from the effective rows. Rows chosen by the response tell less about the standard
    deviation of the feature, whose relative variance is :math:`V_x / 2`. The variance of outliers of the
    response that were not read is added.
    """
    rows = design.effective_rows(n_rows), design.scale_rows(n_rows)
    of_product, of_scale = (sampling_variance(m, design.n_rows, 1.0) for m in rows)
    scale = excess_inflation(kurtosis, correlation) * of_scale
    scale = scale + correlation**2 / 2 * max(0.0, of_scale - of_product)
    return variance_inflation * of_product + scale + design.unread_variance(n_rows)


def plan_steps(
    design: SamplingDesign, p: int, d: int, min_correlation: float, confidence: float
) -> list[EvidenceStep]:
    """The steps of :meth:`Plan.guaranteed`: the schedule with the fewest expected cells of a few."""
    error = 1.0 - confidence

    def schedule(start: float, growth: float) -> list[EvidenceStep]:
        rows = _first_rows(design, min_correlation, _z(error, p, 1), start)
        late, steps = 4 * rows, list[EvidenceStep]()  # features without signal are decided long before
        while rows < design.n_rows / 1.3:
            steps.append(EvidenceStep(rows, d, min_correlation, _z(error, p, len(steps) + 1)))
            rows = math.ceil(rows * (growth if rows < late else LATE_GROWTH))
        return [*steps, EvidenceStep(design.n_rows, d, min_correlation, _z(error, p, len(steps) + 1))]

    def expected_cells(steps: list[EvidenceStep]) -> float:
        cells, rows, before = 0.0, 0, p
        for step, after in zip(steps, expected_left(steps, design, p), strict=True):
            cells += (step.n_rows - rows) * (before if before > d else 0)
            rows, before = step.n_rows, after
        return cells

    return min((schedule(start, growth) for start in STARTS for growth in GROWTHS), key=expected_cells)


def expected_left(steps: Sequence[EvidenceStep], design: SamplingDesign, p: int) -> list[int]:
    """Expected number of features left after each step, if none has any signal."""
    rows = [design.effective_rows(step.n_rows) for step in steps]
    shares = null_shares(rows, [evidence_cutoff(step, design, 1.0) for step in steps])
    return [max(steps[0].n_keep, min(p, math.ceil(p * share - 1e-3))) for share in shares]


def _z(error: float, p: int, k: int) -> float:
    """Standard errors of round k, which may lose one feature with probability error / (p k (k + 1))."""
    return round(float(-special.ndtri(error / (p * k * (k + 1)))), 4)


def _first_rows(design: SamplingDesign, min_correlation: float, z: float, start: float) -> int:
    """Rows at which normal features without signal begin to be dropped."""
    variance = (math.atanh(min_correlation) / (z + start)) ** 2

    def is_enough(m: int) -> bool:
        known = design.scale_rows(m) >= 3 * MIN_GUARANTEED
        return known and bool(_variance(m, design, min_correlation) <= variance)

    return 1 + bisect_left(range(1, design.n_rows), True, key=is_enough)


class EvidenceRule(KeepRule):
    """Keeps the features that the evidence does not rule out.

    ``measure`` is called once, with the scores of the first step, and returns the variance inflation to use.
    """

    def __init__(self, design: SamplingDesign, measure: Callable[[Floats], float]) -> None:
        self.design, self.measure = design, measure
        self.variance_inflation: float | None = None
        self.ended = False
        self.notes: list[str] = []

    def keep(self, step: Any, strength: Floats, informative: Floats | None) -> tuple[Indices, float]:
        everything = step.n_rows >= self.design.n_rows
        if self.variance_inflation is None:
            self.variance_inflation = 1.0 if everything else self.measure(strength)
        known, kurtosis = np.ones(len(strength), bool), np.array(3.0)
        if informative is not None and not everything:
            known = informative >= MIN_GUARANTEED
            kurtosis = self.design.scale_rows(step.n_rows) / np.maximum(informative, 1.0)
        low, high = (
            evidence_cutoff(step, self.design, self.variance_inflation, kurtosis, sign)
            for sign in (-1.0, 1.0)
        )
        stay = (strength >= low) | ~known
        n_stay = int(np.count_nonzero(stay))
        n_undecided = np.count_nonzero(stay & (~known | (strength < high)))
        self.ended = everything or n_stay <= step.n_keep or n_undecided == 0
        if self.ended:
            self.notes += _stopping_notes(step, strength, n_stay)
        if not self.ended or not step.n_keep:
            return np.flatnonzero(stay), float(evidence_cutoff(step, self.design, self.variance_inflation))
        first = np.where(stay, strength, strength - 2.0)  # those that pass come before the others
        order = np.sort(np.argsort(-first, kind="stable")[: step.n_keep])
        return order, float(strength[order].min())


def _stopping_notes(step: EvidenceStep, strength: Floats, n_stay: int) -> Iterator[str]:
    n_lost, to_keep = n_stay - step.n_keep, f"{step.n_keep:,} {were(step.n_keep)} to be kept"
    if step.n_keep and n_lost > 0:
        place = len(strength) - step.n_keep - 1
        yield (
            f"{n_stay:,} features have |r| ≥ {step.min_correlation:g}, but only {to_keep}: {n_lost:,} of "
            f"them {were(n_lost)} dropped, the largest with |r| = {np.partition(strength, place)[place]:.4f} "
            f"over {step.n_rows:,} rows. Give no number of features to keep all of them."
        )
    elif n_lost < 0:
        yield (
            f"only {count(n_stay, 'feature')} may have |r| ≥ {step.min_correlation:g}; the others were kept "
            f"because {to_keep}."
        )
    elif n_stay == 0:
        yield f"no feature has |r| ≥ {step.min_correlation:g}."
