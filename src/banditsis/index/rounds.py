"""A run on an index: the bits of all features, then exact scores of candidates until these are enough.

With probability 1 - α, the d best features are then among the candidates; see :doc:`/indexes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Floats, Indices, chunks, special
from banditsis.core.parallel import Workers, map_in_threads
from banditsis.core.progress import clock, status
from banditsis.core.validation import raise_nonfinite
from banditsis.engine.flags import flag_features
from banditsis.engine.pvalues import correct_pvalues
from banditsis.engine.redundancy import choose_features
from banditsis.engine.rounds import Found, add_effects, add_round
from banditsis.engine.runs import Run
from banditsis.engine.sampling import Strata
from banditsis.engine.state import Scored, SumState
from banditsis.index.sketch import Estimates, find_sketch
from banditsis.plans.keeping import strongest
from banditsis.results.evidence import Round, strength
from banditsis.results.result import ScreeningResult
from banditsis.statistics.linear import LinearStatistic
from banditsis.statistics.moments import SMALLEST_RESIDUAL

#: Probability that a feature is lost, and precision of scores that are computed in float32.
ERROR, ROUNDING = 0.05, 1e-6
#: Cells of queries that are rotated together, and features that are named if their values are not finite.
CELLS_AT_ONCE, MAX_NONFINITE = 1 << 28, 1000


class Question(NamedTuple):
    """What responses ask of the bits: products with orthonormal columns, those of covariates first."""

    columns: Callable[[Any], Floats]
    n_covariates: int
    #: number of columns of each response, and what turns correlations into its scores
    sizes: list[int]
    scales: list[float]


class Estimated(NamedTuple):
    """What bits say about the scores of one response, by feature."""

    scores: Floats
    limits: Floats  #: of |score|, which exceeds it with probability α / d at most


def bit_rounds(run: Run, workers: Workers, tick: Callable[[int], None]) -> Iterator[list[ScreeningResult]]:
    """Yield the result of each response after the bits, and after its candidates were read."""
    n, p = run.source.shape
    everything, q, started = slice(0, n), len(run.members), clock()
    statistic: Any = run.statistic.calibrate(everything)
    sketch = find_sketch(run.source)
    assert sketch is not None
    status().round, status().n_rounds = 1, 2
    found, size, missing = list[Estimated](), max(1, CELLS_AT_ONCE // n), np.zeros(p)
    for k in range(0, q, size):
        part = statistic if q <= size else statistic.subset(range(k, min(k + size, q)))
        question = ask(part, n)
        estimates = sketch.estimate(question.columns, workers, lambda rows: tick(rows * p * q // 32))
        _check_finite(run, estimates)
        missing = estimates.missing
        found += [_find_limits(run, part, question, estimates, j) for j in range(len(question.sizes))]
    seconds = (clock() - started) / q
    results = [_first_result(run, k, estimated, seconds) for k, estimated in enumerate(found)]
    yield results
    status().round = 2
    reason = _why_uncertain(statistic, missing)
    for k, estimated in enumerate(found):
        results[k] = _read_candidates(run, k, results[k], estimated, reason, workers, tick)
        yield results
    if (n_choose := run.settings.n_choose) is not None:
        results = [choose_features(run.source, r, everything, run.weigh, n_choose) for r in results]
    corrected = correct_pvalues(run.source, statistic, results, everything, run.settings.pvalues)
    yield flag_features(run, corrected)


def ask(statistic: LinearStatistic, n: int) -> Question:
    """The columns whose products are needed: the covariates, and the residuals of the targets given these."""

    def add_up(rows: Any) -> tuple[Floats, Floats]:
        B = statistic.targets(rows)
        return statistic.design(rows).T @ B, B.T @ B

    pairs = map_in_threads(add_up, chunks(slice(0, n), 1 << 14), 4)
    slopes, gram = (np.sum(parts, axis=0) for parts in zip(*pairs, strict=True))
    left = gram - slopes.T @ slopes / n  # columns of A are orthogonal, and their mean square is 1
    whitening, scales = list[Floats](), list[float]()
    for k in range(1 if statistic.one_hot else statistic.n_responses):
        targets = np.arange(statistic.n_targets)[statistic.targets_of(k)]
        values, vectors = np.linalg.eigh(left[np.ix_(targets, targets)])
        kept = values > SMALLEST_RESIDUAL * gram.diagonal()[targets].max()
        whitening.append(np.zeros((len(gram), int(kept.sum()))))
        whitening[-1][targets] = vectors[:, kept] / np.sqrt(values[kept])
        is_correlation = statistic.one_hot or statistic.is_correlation
        scales.append(1.0 if is_correlation else float(np.sqrt(values[0]) / _spread(statistic, n, k)))
    W = np.column_stack(whitening)

    def compute(rows: Any) -> Floats:
        A = statistic.design(rows)
        return np.column_stack([A[:, 1:] / np.sqrt(n), (statistic.targets(rows) - A @ (slopes / n)) @ W])

    return Question(compute, statistic.rank, [columns.shape[1] for columns in whitening], scales)


def _spread(statistic: LinearStatistic, n: int, response: int) -> float:
    """The spread of a response by which a statistic divides products."""
    gram = statistic.gram(np.zeros((statistic.n_sums, 0)), statistic.summary(slice(0, n)))
    moments = gram.moments(statistic.targets_of(response), slice(None))
    return float(statistic.response_spread(moments, response)[0])


def _check_finite(run: Run, estimates: Estimates) -> None:
    """Raise if a cell is infinite, or missing although it may not be."""
    bad = np.isnan(estimates.squares) | (estimates.missing > 0) & (not run.statistic.pairwise)
    if bad.any():
        everything = slice(0, run.source.shape[0])
        raise_nonfinite(run.source, everything, np.flatnonzero(bad)[:MAX_NONFINITE], run.statistic.pairwise)


def _find_limits(
    run: Run, statistic: LinearStatistic, question: Question, estimates: Estimates, response: int
) -> Estimated:
    """Estimate the scores of a response, and find what they are at most."""
    a, start = question.n_covariates, question.n_covariates + sum(question.sizes[:response])
    lines = slice(start, start + question.sizes[response])
    known = (estimates.squares > 0) & np.isfinite(estimates.squares)
    squares = np.where(known, estimates.squares, 1.0)
    r, v = estimates.products / np.sqrt(squares), estimates.variances / squares
    error = ERROR / run.plan.n_keep / (2 if a else 1)
    own, given = largest_length(r[lines], v[lines], error), largest_length(r[:a], v[:a], error)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.sqrt(np.maximum(1.0 - np.square(given), 0.0))
        factor = question.scales[response] * _largest_factor(run, statistic, estimates.missing, response)
        limits = np.where(own > 0, np.minimum(own / rest * factor + ROUNDING, statistic.max_score), 0.0)
        explained = np.minimum(shrunken(r[:a], v[:a]), 1.0 - statistic.resolution)
        r, scale = r[lines], question.scales[response] / np.sqrt(1.0 - explained)
    one = len(r) == 1 and not statistic.one_sided
    scores = scale * (r[0] if one else np.sqrt(shrunken(r, v[lines])) if len(r) > 1 else np.abs(r[0]))
    return Estimated(np.clip(scores, -statistic.max_score, statistic.max_score), limits)


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


def _largest_factor(run: Run, statistic: LinearStatistic, missing: Floats, response: int) -> Floats:
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


def _first_result(run: Run, k: int, estimated: Estimated, seconds: float) -> ScreeningResult:
    """What the bits say about a response."""
    p, step = run.source.shape[1], run.plan.steps[0]
    kept, cutoff = strongest(strength(estimated.scores, run.statistic.one_sided), run.plan.n_keep)
    done = Round(step.n_rows, p, len(kept), cutoff, step.n_rows * p, seconds, float(step.n_rows))
    result = add_round(run.begin_result(k), Scored(estimated.scores, None), np.arange(p), kept, done)
    _report(run, done)
    return result


def _report(run: Run, done: Round) -> None:
    if run.settings.on_round is not None:
        run.settings.on_round(done)


def _read_candidates(
    run: Run,
    k: int,
    result: ScreeningResult,
    estimated: Estimated,
    reason: str | None,
    workers: Workers,
    tick: Callable[[int], None],
) -> ScreeningResult:
    """Read candidates in full until no other feature can be among the best, or as many as the plan allows."""
    n, d, budget, started = run.source.shape[0], run.plan.n_keep, run.plan.steps[0].n_keep, clock()
    everything = slice(0, n)
    statistic: Any = run.statistic.subset([k]).calibrate(everything)
    start = SumState.start(run.source, statistic, everything, Strata.uniform(n), np.arange(0))
    order = np.argsort(-estimated.limits, kind="stable")
    level = strongest(strength(estimated.scores, statistic.one_sided), d)[1]
    state, more = start, order[: min(budget, max(d, int(np.count_nonzero(estimated.limits >= level))))]
    while more.size:
        state = _read(start, state, np.sort(more), workers, tick)
        scores = strength(state.score(0, slice(None)).scores, statistic.one_sided)
        cutoff = float(np.partition(scores, len(scores) - d)[len(scores) - d])
        rest = order[len(scores) : budget]
        more = rest[estimated.limits[rest] > cutoff]
    state = state.take(np.argsort(state.features(slice(None))))
    candidates, scored = state.features(slice(None)), state.score(0, slice(None))
    tick(n * (budget - len(candidates)))  # that were not needed
    kept, cutoff = strongest(strength(scored.scores, statistic.one_sided), d)
    result = replace(result, rounds=(replace(result.rounds[0], n_kept=len(candidates)),))
    done = Round(n, len(candidates), d, cutoff, n * len(candidates), clock() - started, float(n))
    result = add_round(result, scored, candidates, kept, done)
    _report(run, done)
    reach = float(estimated.limits[order[len(candidates) :]].max(initial=0.0))
    evidence = replace(result.evidence, reach=None if reason else reach, no_floor_reason=reason)
    return add_effects(Found(state, [kept], [replace(result, evidence=evidence)]), 0)


def _read(
    start: SumState, known: SumState, columns: Indices, workers: Workers, tick: Callable[[int], None]
) -> SumState:
    """The sums of known features, and of some more over all rows."""
    everything, n_lines = slice(0, start.source.shape[0]), start.sums.shape[1]
    more = replace(start, columns=columns, sums=np.zeros((1, n_lines, len(columns))))
    more = more.add(everything, workers, tick)
    if (bad := more.find_nonfinite()).size:
        raise_nonfinite(start.source, everything, bad[:MAX_NONFINITE], start.statistic.pairwise)
    columns = np.concatenate([known.features(slice(None)), columns])
    return replace(more, columns=columns, sums=np.concatenate([known.sums, more.sums], axis=-1))


def _why_uncertain(statistic: LinearStatistic, missing: Floats) -> str | None:
    """Why it is not known what the bits could have missed; None if it is."""
    if missing.any() and not (statistic.is_correlation and statistic.rank == 0):
        return "it is only known for correlations without covariates if cells are missing"
    return None
