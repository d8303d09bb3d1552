"""A run on an index: the bits of all features, then exact scores of candidates until these are enough.

With probability 1 - α, the d best features are then among the candidates; see :doc:`/indexes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from banditsis.engine.state import Scored, SumState
from banditsis.index.sketch import Estimates, find_sketch
from banditsis.plans import strongest
from banditsis.results.evidence import Round, strength
from banditsis.results.result import ScreeningResult
from banditsis.sources.base import Calibration, calibrate, pilot_rows, summing_dtype
from banditsis.sources.views import ColumnSubset
from banditsis.statistics.linear import LinearStatistic
from banditsis.statistics.moments import SMALLEST_RESIDUAL

#: Precision of scores that are computed in float32.
ROUNDING = 1e-6
#: Cells of queries that are rotated together, and features that are named if their values are not finite.
CELLS_AT_ONCE, MAX_NONFINITE = 1 << 28, 1000
#: Responses whose candidates are read together, if products of all these features with all responses are at
#: most so many times those that are needed: one large product is that much faster than small ones.
RESPONSES_AT_ONCE, MAX_SPARSITY = 1 << 7, 6


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
    #: the features that may be read, in order, and the number of those that are read in any case
    order: Indices
    n_first: int


def bit_rounds(run: Run, workers: Workers, tick: Callable[[int], None]) -> Iterator[list[ScreeningResult]]:
    """Yield the result of each response after the bits, and after its candidates were read."""
    (n, p), q, started = run.source.shape, len(run.members), clock()
    statistic: Any = run.statistic.calibrate(slice(0, n))
    statistic = statistic.copy_with(y=np.asfortranarray(statistic.y))  # of one response after the other
    sketch = find_sketch(run.source)
    assert sketch is not None
    status().round, status().n_rounds = 1, 2
    found, size = list[Estimated](), max(1, CELLS_AT_ONCE // n)
    for k in range(0, q, size):
        part = statistic if q <= size else statistic.subset(range(k, min(k + size, q)))
        question = ask(part, n)
        estimates = sketch.estimate(question.columns, workers, lambda rows: tick(rows * p * q // 32))
        _check_finite(run, estimates)
        found += [_find_limits(run, part, question, estimates, j) for j in range(len(question.sizes))]
    seconds = (clock() - started) / q
    results = [_first_result(run, k, estimated, seconds) for k, estimated in enumerate(found)]
    yield results
    status().round = 2
    reason = _why_uncertain(statistic, estimates.missing)
    for k in range(0, q, RESPONSES_AT_ONCE):
        part = slice(k, k + RESPONSES_AT_ONCE)
        some = statistic if q <= RESPONSES_AT_ONCE else statistic.subset(range(q)[part])
        results[part] = _read_group(run, some, results[part], found[part], reason, workers, tick)
        yield results
    if (n_choose := run.settings.n_choose) is not None:
        results = [choose_features(run.source, r, slice(0, n), run.weigh, n_choose) for r in results]
    corrected = correct_pvalues(run.source, statistic, results, slice(0, n), run.settings.pvalues)
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
    (r, v), (r_given, v_given) = (
        (estimates.products[some] / np.sqrt(squares), estimates.variances[some] / squares)
        for some in (lines, slice(0, a))
    )
    confidence = dict(run.plan.parameters).get("confidence", 0.95)
    error = (1.0 - confidence) / run.plan.n_keep / (2 if a else 1)
    own, given = largest_length(r, v, error), largest_length(r_given, v_given, error)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.sqrt(np.maximum(1.0 - np.square(given), 0.0))
        factor = question.scales[response] * _largest_factor(run, statistic, estimates.missing, response)
        limits = np.where(own > 0, np.minimum(own / rest * factor + ROUNDING, statistic.max_score), 0.0)
        explained = np.minimum(shrunken(r_given, v_given), 1.0 - statistic.resolution)
        scale = question.scales[response] / np.sqrt(1.0 - explained)
    one = len(r) == 1 and not statistic.one_sided
    scores = scale * (r[0] if one else np.sqrt(shrunken(r, v)) if len(r) > 1 else np.abs(r[0]))
    scores = np.clip(scores, -statistic.max_score, statistic.max_score)
    return Estimated(scores, limits, *_first_candidates(run, scores, limits))


def _first_candidates(run: Run, scores: Floats, limits: Floats) -> tuple[Indices, int]:
    """The features that may be read, in order, and the number of those that are read in any case."""
    budget = run.plan.steps[0].n_keep
    first = np.flatnonzero(limits >= np.partition(limits, len(limits) - budget)[len(limits) - budget])
    order = first[np.argsort(-limits[first], kind="stable")][:budget]
    level = strongest(strength(scores, run.statistic.one_sided), run.plan.n_keep)[1]
    return order, max(run.plan.n_keep, int(np.count_nonzero(limits[order] >= level)))


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


def _read_group(
    run: Run,
    statistic: Any,
    results: Sequence[ScreeningResult],
    found: Sequence[Estimated],
    reason: str | None,
    workers: Workers,
    tick: Callable[[int], None],
) -> list[ScreeningResult]:
    """Read the candidates of some responses together, or one by one in threads if they have few in common."""
    shift, q = np.zeros(run.source.shape[1], summing_dtype(run.source.dtype)), len(found)

    def read(part: Sequence[int], workers: Workers) -> list[ScreeningResult]:
        some = statistic if len(part) == q else statistic.subset(part)
        state = SumState.begin(run.source, some, Calibration(shift, shift + 1), np.arange(0))
        given = [(results[k], found[k]) for k in part]
        return _read_candidates(run, state, given, reason, workers, tick)

    features = [estimated.order[: estimated.n_first] for estimated in found]
    n_products = len(np.unique(np.concatenate(features))) * q
    if n_products <= MAX_SPARSITY * sum(map(len, features)):
        return read(range(q), workers)
    return [result for some in map_in_threads(lambda k: read([k], Workers(1)), range(q)) for result in some]


def _read_candidates(
    run: Run,
    state: SumState,
    responses: list[tuple[ScreeningResult, Estimated]],
    reason: str | None,
    workers: Workers,
    tick: Callable[[int], None],
) -> list[ScreeningResult]:
    """Read candidates in full until no other feature can be among the best, or as many as the plan allows.

    A feature that several responses need is read once.
    """
    n, d, one_sided, started = state.source.shape[0], run.plan.n_keep, run.statistic.one_sided, clock()
    counts = [estimated.n_first for _, estimated in responses]
    unfinished = list(range(len(responses)))
    while unfinished:
        known = [found.order[:count] for (_, found), count in zip(responses, counts, strict=True)]
        state, before, unfinished = _read(state, known, workers, tick), unfinished, []
        for k in before:
            (_, found), count = responses[k], counts[k]
            scores = strength(state.score(k, _positions(state, known[k])).scores, one_sided)
            more = np.count_nonzero(
                found.limits[found.order[count:]] > np.partition(scores, count - d)[count - d]
            )
            if more:  # limits decrease
                counts[k] += int(more)
                unfinished.append(k)
    tick(n * (run.plan.steps[0].n_keep * len(responses) - state.n_columns))  # that were not needed
    seconds, ended = (clock() - started) / len(responses), Found(state, [], [])
    for k, ((result, found), count) in enumerate(zip(responses, counts, strict=True)):
        features = np.sort(found.order[:count])
        positions = _positions(state, features)
        scored = state.score(k, positions)
        kept, cutoff = strongest(strength(scored.scores, one_sided), d)
        done = Round(n, count, d, cutoff, n * count, seconds, float(n))
        result = replace(result, rounds=(replace(result.rounds[0], n_kept=count),))
        result = add_round(result, scored, features, kept, done)
        _report(run, done)
        reach = None if reason else float(np.delete(found.limits, features).max(initial=0.0))
        evidence = replace(result.evidence, reach=reach, no_floor_reason=reason)
        ended.left.append(positions[kept])
        ended.results.append(replace(result, evidence=evidence))
    return [add_effects(ended, k) for k in range(len(responses))]


def _positions(state: SumState, features: Indices) -> Indices:
    return np.searchsorted(state.features(slice(None)), features)


def _read(
    state: SumState, known: Sequence[Indices], workers: Workers, tick: Callable[[int], None]
) -> SumState:
    """The sums of all these features over all rows; the state has some of them."""
    everything, before = slice(0, state.source.shape[0]), state.features(slice(None))
    new = np.setdiff1d(np.concatenate(known), before)
    more = SumState.begin(state.source, state.statistic, _calibrate(state, new), new)
    more = more.add(everything, workers, tick)
    if (bad := more.find_nonfinite()).size:
        raise_nonfinite(state.source, everything, bad[:MAX_NONFINITE], state.statistic.pairwise)
    both = np.concatenate([before, new])
    state = replace(more, columns=both, sums=np.concatenate([state.sums, more.sums], axis=-1))
    return state.take(np.argsort(both))


def _calibrate(state: SumState, columns: Indices) -> Calibration:
    """The calibration with that of some columns; reading cells of all columns would take longer."""
    view, rows = ColumnSubset(state.source, columns), slice(0, state.source.shape[0])
    shift, scale = state.calibration.shift.copy(), state.calibration.scale.copy()
    found = calibrate(view, rows, pilot_rows(view, rows), shift.dtype)
    shift[columns], scale[columns] = found.shift, found.scale
    return Calibration(shift, scale)


def _why_uncertain(statistic: LinearStatistic, missing: Floats) -> str | None:
    """Why it is not known what the bits could have missed; None if it is."""
    if missing.any() and not (statistic.is_correlation and statistic.rank == 0):
        return "it is only known for correlations without covariates if cells are missing"
    return None
