"""A run on an index: the bits of all features, then exact scores of candidates until these are enough.

With probability 1 - α, the d best features are then among the candidates; see :doc:`/indexes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from banditsis.core import parallel, progress, validation
from banditsis.core.arrays import Floats, Indices, chunks, special
from banditsis.engine import follow_up, redundancy, rounds, runs, state
from banditsis.index.sketch import Estimates, find_sketch
from banditsis.plans import strongest
from banditsis.results import Round, ScreeningResult, strength
from banditsis.sources import base, views
from banditsis.statistics import linear, moments

#: Precision of scores that are computed in float32.
ROUNDING = 1e-6
#: Cells of queries that are rotated together, and features that are named if their values are not finite.
CELLS_AT_ONCE, MAX_NONFINITE = 1 << 28, 1000


class Estimated(NamedTuple):
    """What bits say about the scores of one response, by feature."""

    scores: Floats
    limits: Floats  #: of |score|, which exceeds it with probability α / d at most
    #: the features that may be read, those with the largest limits first, and how many are read in any case
    order: Indices
    n_first: int


def bit_rounds(
    run: runs.Run, workers: parallel.Workers, tick: Callable[[int], None]
) -> Iterator[list[ScreeningResult]]:
    """Yield the result of each response after the bits, and after its candidates were read."""
    (n, p), q, started, step = run.source.shape, len(run.members), progress.clock(), run.plan.steps[0]
    everything = slice(0, n)
    statistic: Any = run.statistic.calibrate(everything)
    statistic = statistic.copy_with(y=np.asfortranarray(statistic.y))  # of one response after the other
    sketch = find_sketch(run.source)
    assert sketch is not None
    progress.status().round, progress.status().n_rounds = 1, 2
    found, size = list[Estimated](), max(1, CELLS_AT_ONCE // n)
    for k in range(0, q, size):
        part = statistic if q <= size else statistic.subset(range(k, min(k + size, q)))
        compute, asked = ask(part, n)
        estimates = sketch.estimate(compute, workers, lambda rows: tick(rows * p * q // 32))
        bad = np.isnan(estimates.squares) | (estimates.missing > 0) & (not statistic.pairwise)
        if bad.any():
            some = np.flatnonzero(bad)[:MAX_NONFINITE]
            validation.raise_nonfinite(run.source, everything, some, statistic.pairwise)
        found += [_find_limits(run, part, estimates, j, *asks) for j, asks in enumerate(asked)]
    seconds, results = (progress.clock() - started) / q, list[ScreeningResult]()
    for k, estimated in enumerate(found):
        kept, cutoff = strongest(strength(estimated.scores, run.statistic.one_sided), run.plan.n_keep)
        done = Round(step.n_rows, p, len(kept), cutoff, step.n_rows * p, seconds, float(step.n_rows))
        run.settings.on_round(done)
        given = state.Scored(estimated.scores, None), np.arange(p), kept, done
        results.append(rounds.add_round(run.begin_result(k), *given))
    yield results
    progress.status().round = 2
    reason = None
    if estimates.missing.any() and not (statistic.is_correlation and statistic.rank == 0):
        reason = "it is only known for correlations without covariates if cells are missing"
    for k, estimated in enumerate(found):
        alone = statistic if q == 1 else statistic.subset([k])
        results[k] = _read_candidates(run, alone, results[k], estimated, reason, workers, tick)
        if (k + 1) % 100 == 0:
            yield results
    if (chosen := run.settings.n_choose) is not None:
        results = [redundancy.choose_features(run.source, r, everything, run.weigh, chosen) for r in results]
    results = follow_up.correct_pvalues(run.source, statistic, results, everything, run.settings.pvalues)
    yield follow_up.flag_features(run, results)


def ask(
    statistic: linear.LinearStatistic, n: int
) -> tuple[Callable[[Any], Floats], list[tuple[slice, float]]]:
    """The columns whose products with features are needed, and which of them each response asks for.

    They are orthonormal: the covariates, and the residuals of the targets given these. Each response has a
    slice of them, and a factor that turns correlations into its scores.
    """

    def add_up(rows: Any) -> tuple[Floats, Floats]:
        B = statistic.targets(rows)
        return statistic.design(rows).T @ B, B.T @ B

    pairs = parallel.map_in_threads(add_up, chunks(slice(0, n), 1 << 14), 4)
    slopes, gram = (np.sum(parts, axis=0) for parts in zip(*pairs, strict=True))
    left = gram - slopes.T @ slopes / n  # columns of A are orthogonal, and their mean square is 1
    whitening, asked, stop = list[Floats](), list[tuple[slice, float]](), statistic.rank
    for k in range(1 if statistic.one_hot else statistic.n_responses):
        targets = np.arange(statistic.layout.n_targets)[statistic.targets_of(k)]
        values, vectors = np.linalg.eigh(left[np.ix_(targets, targets)])
        kept = values > moments.SMALLEST_RESIDUAL * gram.diagonal()[targets].max()
        whitening.append(np.zeros((len(gram), int(kept.sum()))))
        whitening[-1][targets] = vectors[:, kept] / np.sqrt(values[kept])
        scale = 1.0
        if not (statistic.one_hot or statistic.is_correlation):  # products are divided by another spread
            of_targets = linear.target_moments(statistic, slice(0, n), k)
            scale = float(np.sqrt(values[0]) / statistic.response_spread(of_targets, k)[0])
        start, stop = stop, stop + whitening[-1].shape[1]
        asked.append((slice(start, stop), scale))
    W = np.column_stack(whitening)

    def compute(rows: Any) -> Floats:
        A = statistic.design(rows)
        return np.column_stack([A[:, 1:] / np.sqrt(n), (statistic.targets(rows) - A @ (slopes / n)) @ W])

    return compute, asked


def _find_limits(
    run: runs.Run,
    statistic: linear.LinearStatistic,
    estimates: Estimates,
    response: int,
    lines: slice,
    scale: float,
) -> Estimated:
    """Estimate the scores of a response, and find what they are at most, and the features to read."""
    d, rank = run.plan.n_keep, statistic.rank
    known = (estimates.squares > 0) & np.isfinite(estimates.squares)
    squares = np.where(known, estimates.squares, 1.0)
    (r, v), (r_given, v_given) = (
        (estimates.products[some] / np.sqrt(squares), estimates.variances[some] / squares)
        for some in (lines, slice(0, rank))
    )
    confidence = dict(run.plan.parameters).get("confidence", 0.95)
    error = (1.0 - confidence) / d / (2 if rank else 1)
    own, given = largest_length(r, v, error), largest_length(r_given, v_given, error)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.sqrt(np.maximum(1.0 - np.square(given), 0.0))
        factor = scale * _largest_factor(run, statistic, estimates.missing, response)
        limits = np.where(own > 0, np.minimum(own / rest * factor + ROUNDING, statistic.max_score), 0.0)
        explained = np.minimum(shrunken(r_given, v_given), 1.0 - statistic.layout.resolution)
        scale_given = scale / np.sqrt(1.0 - explained)
    one = len(r) == 1 and not statistic.one_sided
    scores = scale_given * (r[0] if one else np.sqrt(shrunken(r, v)) if len(r) > 1 else np.abs(r[0]))
    scores = np.clip(scores, -statistic.max_score, statistic.max_score)
    budget = run.plan.steps[0].n_keep
    first = np.flatnonzero(limits >= np.partition(limits, len(limits) - budget)[len(limits) - budget])
    order = first[np.argsort(-limits[first], kind="stable")][:budget]
    level = strongest(strength(scores, run.statistic.one_sided), d)[1]
    return Estimated(scores, limits, order, max(d, int(np.count_nonzero(limits[order] >= level))))


def largest_length(estimates: Floats, variances: Floats, error: float) -> Floats:
    """What each vector is long at most, given estimates of its coordinates; wrong with this probability.

    The errors are normal: that along the vector, and the χ² of the others, which make the estimate longer.
    """
    m, squared = len(estimates), np.asarray(np.square(estimates).sum(axis=0))
    if m == 0:
        return squared
    share = error if m == 1 else error / 2
    surplus = 0.0 if m == 1 else float(special.chdtri(m - 1, 1.0 - share)) * variances.min(axis=0)
    reach = -special.ndtri(share) * np.sqrt(variances.max(axis=0))
    return np.asarray(reach + np.sqrt(np.maximum(squared - surplus, 0.0)))


def shrunken(estimates: Floats, variances: Floats) -> Floats:
    """Squared lengths, without what errors add to their squares on average."""
    return np.asarray(np.maximum((np.square(estimates) - variances).sum(axis=0), 0.0))


def _largest_factor(
    run: runs.Run, statistic: linear.LinearStatistic, missing: Floats, response: int
) -> Floats:
    """By how much missing cells can raise scores: most if the response is largest where they are."""
    n, counts = run.source.shape[0], missing.astype(np.intp)
    if not counts.any():
        return np.ones(len(counts))
    y = statistic.targets(slice(0, n))[:, response]
    energy = np.sort(np.square(y - y.mean()))[::-1]
    left = energy.sum() - np.append(0.0, np.cumsum(energy))[counts]
    with np.errstate(divide="ignore"):
        found = np.sqrt(energy.sum() / np.maximum(left, 0.0) * (1.0 - counts / n))
    return np.asarray(np.maximum(found, 1.0))


def _read_candidates(
    run: runs.Run,
    statistic: linear.LinearStatistic,
    result: ScreeningResult,
    found: Estimated,
    reason: str | None,
    workers: parallel.Workers,
    tick: Callable[[int], None],
) -> ScreeningResult:
    """Read candidates in full until no other feature can be among the best, or as many as the plan allows."""
    everything, d, started, budget = (
        slice(0, run.source.shape[0]),
        run.plan.n_keep,
        progress.clock(),
        len(found.order),
    )
    n, count, needed = everything.stop, 0, found.n_first
    while count < needed:  # once or twice, because the cutoff can only grow
        count, features = needed, np.sort(found.order[:needed])
        view = views.Subset(run.source, columns=features)
        pilot, dtype = base.pilot_rows(view, everything), base.summing_dtype(view.dtype)
        calibration = base.calibrate(view, everything, pilot, dtype)
        sums = state.SumState.begin(view, statistic, calibration, run.strata).add(everything, workers, tick)
        if (bad := sums.find_nonfinite()).size:
            validation.raise_nonfinite(view, everything, bad[:MAX_NONFINITE], statistic.pairwise)
        scored = sums.score(0, slice(None))
        kept, cutoff = strongest(strength(scored.scores, statistic.one_sided), d)
        needed = int(np.count_nonzero(found.limits[found.order] > cutoff))  # the first of them
    tick(n * (budget - count))  # that were not needed
    done = Round(n, count, d, cutoff, n * count, progress.clock() - started, float(n))
    result = replace(result, rounds=(replace(result.rounds[0], n_kept=count),))
    run.settings.on_round(done)
    result = rounds.add_round(result, scored, features, kept, done)
    reach = None if reason else float(np.delete(found.limits, features).max(initial=0.0))
    evidence = replace(result.evidence, reach=reach, no_floor_reason=reason)
    return rounds.add_effects(rounds.Found(sums, [kept], [replace(result, evidence=evidence)]), 0)
