"""The loop: read new rows of the remaining features, add them to the sums, score, keep the best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Columns, Floats, Indices, Rows, count_rows
from banditsis.core.formatting import count, were
from banditsis.core.parallel import Workers, map_in_threads
from banditsis.core.progress import clock, status
from banditsis.core.validation import raise_nonfinite
from banditsis.engine.counts import CountState
from banditsis.engine.evidence import MAX_FEATURES, measure_unread, measure_variance_inflation
from banditsis.engine.exchangeability import group_cuts, warn_if_not_exchangeable
from banditsis.engine.follow_up import correct_pvalues, flag_features
from banditsis.engine.redundancy import choose_features
from banditsis.engine.rereading import RereadState
from banditsis.engine.runs import NO_SAMPLE, UNMEASURED, Run
from banditsis.engine.sampling import Strata, join_rows
from banditsis.engine.state import Positions, Scored, SumState
from banditsis.plans import EvidenceRule, KeepRule, Step, is_undecided
from banditsis.results import Round, ScreeningResult, strength
from banditsis.sources import Source
from banditsis.statistics import BinnedStatistic, Effects, LinearStatistic, is_mostly_missing

#: Scores that are worth another thread.
SCORES_OF_THREAD = 1 << 15
#: One feature is enough for a message, so only these are read again to find a value that is not finite.
MAX_NONFINITE_READ = 1000


class Found(NamedTuple):
    """What is known after a round."""

    state: Any
    left: list[Positions]  #: positions in the state of the features that each response has left
    results: list[ScreeningResult]


def screen_rounds(run: Run, workers: Workers, tick: Callable[[int], None]) -> Iterator[list[ScreeningResult]]:
    """Yield the result of each response after each round, and after what follows the last one."""
    run, draws = run.start()
    read = [next(draws)]
    statistic = run.statistic.calibrate(read[0])
    if isinstance(statistic, LinearStatistic) and not run.is_exact:
        has_theory = statistic.is_correlation and not (statistic.pairwise and statistic.rank)
        statistic = statistic.copy_with(evidence=has_theory)
    q = statistic.n_responses
    state = start_state(run.source, statistic, read[0], run.strata)
    found = Found(state, [slice(None)] * q, [run.begin_result(k) for k in range(q)])
    rule = KeepRule(run.plan.n_keep)
    if run.plan.by_evidence:

        def first_inflation(scores: Floats) -> float:
            assert isinstance(statistic, LinearStatistic)  # as check_guarantee_possible ensures
            size = min(MAX_FEATURES, scores.size)
            best = np.argpartition(-np.abs(scores), size - 1)[:size]
            return measure_variance_inflation(run.source, statistic, 0, read[:1], run.strata, best).high

        rule = EvidenceRule(run.strata.design, first_inflation)
    # Rows that are read first represent all rows only if stored rows are in random order.
    in_parts = run.strata.n_strata > 1 or run.source.stratum_sizes
    checked = not (run.is_exact or run.row_order == "random" or in_parts)
    cuts = group_cuts(run.source, read[0]) if checked and not run.source.shuffled else None
    for number, step in enumerate(run.plan.steps, start=1):
        status().round, status().n_rounds = number, len(run.plan.steps)
        if number > 1:
            read.append(next(draws))
        found = _next_round(run, _drop(found), rule, step, read[-1], workers, tick, cuts)
        if checked and number == 1:
            groups = found.state.groups if isinstance(found.state, SumState) else None
            notes = warn_if_not_exchangeable(run.source, statistic.y, read[0], run.row_order, groups)
            found, cuts = found._replace(results=[add_notes(r, notes) for r in found.results]), None
        yield found.results
        if rule.ended:
            break
    results = [add_effects(found, k) for k in range(q)]
    results[0] = add_notes(results[0], rule.notes)
    yield from _follow_up(run, statistic, results, read, workers, tick)


def _follow_up(
    run: Run,
    statistic: Any,
    results: list[ScreeningResult],
    read: list[Rows],
    workers: Workers,
    tick: Callable[[int], None],
) -> Iterator[list[ScreeningResult]]:
    """Measure the sample, choose features, read them in full, check p-values and look for leakage."""
    if run.is_random_sample and not run.is_exact:
        results = _measure_sample(run, statistic, results, read)
    if (n_choose := run.settings.n_choose) is not None:
        sample = reduce(join_rows, read)
        results = [choose_features(run.source, result, sample, run.weigh, n_choose) for result in results]
    yield results
    if run.settings.pvalues:
        results = [_read_in_full(run, result, k, workers, tick) for k, result in enumerate(results)]
        yield results
    # Small p-values are checked; they come from all rows, or from the rows of a single step.
    n, tested = run.plan.n_rows, read[0]
    if results[0].rounds[-1].n_rows >= n > count_rows(tested):
        tested, statistic = slice(0, n), run.statistic.calibrate(slice(0, n))
    if count_rows(tested) == n or not (len(read) > 1 or run.plan.by_evidence):
        results = correct_pvalues(run.source, statistic, results, tested, run.settings.pvalues)
    yield flag_features(run, results)


def start_state(source: Source, statistic: Any, rows: Rows, strata: Strata, columns: Columns = None) -> Any:
    """The state in which nothing is known yet; ``rows`` are those of the first step."""
    if isinstance(statistic, LinearStatistic):
        return SumState.begin(source, statistic, source.calibrate(rows), strata, columns)
    if isinstance(statistic, BinnedStatistic):
        return CountState.start(source, statistic, rows, strata, columns)
    return RereadState.start(source, statistic, strata, columns)


def _drop(found: Found) -> Found:
    """Drop the sums of features that no response has left."""
    kept = [left for left in found.left if not isinstance(left, slice)]
    if len(kept) < len(found.left):  # some response has all features left
        return found
    if len(kept) == 1:
        return found._replace(state=found.state.take(kept[0]), left=[slice(None)])
    union: Indices = np.unique(np.concatenate(kept))
    left: list[Positions] = [np.searchsorted(union, positions) for positions in kept]
    return found._replace(state=found.state.take(union), left=left)


def _next_round(
    run: Run,
    found: Found,
    rule: KeepRule,
    step: Any,
    rows: Rows,
    workers: Workers,
    tick: Callable[[int], None],
    cuts: Indices | None = None,
) -> Found:
    """Read new rows, score the features of each response and keep the best.

    Sums are also kept of the groups of rows that ``cuts`` separate, if features are scored by sums.
    """
    started, state, statistic = clock(), found.state, found.state.statistic
    features = [state.columns[left] for left in found.left]
    sizes, q = [len(some) for some in features], len(features)
    if count_rows(rows):
        share = sum(sizes) / len(state.columns)
        given = rows, workers, lambda cells: tick(round(cells * share))
        state = state.add(*given, cuts) if isinstance(state, SumState) else state.add(*given)
    if (bad := state.find_nonfinite()).size:
        raise_nonfinite(run.source, rows, bad[:MAX_NONFINITE_READ], statistic.pairwise)

    def keep(k: int) -> tuple[Scored, Indices, float]:
        scored = state.score(k, found.left[k])
        return scored, *rule.keep(step, strength(scored.scores, statistic.one_sided), scored.informative)

    # Threads wait for each other between short operations, so more are slower than few.
    scored = map_in_threads(keep, range(q), -(-q // (1 + max(sizes) // SCORES_OF_THREAD)))
    seconds, n_new = (clock() - started) / q, count_rows(rows)
    n_new = state.n_read if n_new and statistic.rereads else n_new
    effective = run.strata.design.effective_rows(state.n_read)
    results, left = list[ScreeningResult](), list[Positions]()
    for k, (some, kept, cutoff) in enumerate(scored):
        result, positions = found.results[k], found.left[k]
        done = Round(state.n_read, sizes[k], len(kept), cutoff, n_new * sizes[k], seconds, effective)
        if some.present is not None and not result.rounds:
            least = statistic.min_present
            few = np.flatnonzero(is_mostly_missing(some.present, state.n_read, least))
            listed = ", ".join(result.name(int(j)) for j in few[:5]) + ", …" * (few.size > 5)
            note = (
                f"{count(few.size, 'feature')} {were(few.size)} present in fewer than {least} of the "
                f"{state.n_read:,} rows read first and scored 0: {listed}."
            )
            result = add_notes(result, [note] * (few.size > 0))
        results.append(add_round(result, some, features[k], kept, done))
        left.append(kept if isinstance(positions, slice) else positions[kept])
        run.settings.on_round(results[-1].rounds[-1])
    return Found(state, left, results)


def add_notes(result: ScreeningResult, notes: Sequence[str]) -> ScreeningResult:
    """The result with more notes, before those that it has."""
    return replace(result, notes=(*notes, *result.notes)) if notes else result


def add_round(
    result: ScreeningResult, scored: Scored, features: Indices, kept: Indices, done: Round
) -> ScreeningResult:
    """The result after a round, which scored some features and kept those at some positions."""
    scores, last_round, evidence = scored.scores, result.last_round, result.evidence
    if result.rounds:
        scores, last_round = result.scores.copy(), last_round.copy()
        scores[features], last_round[features] = scored.scores, len(result.rounds)
    scores.flags.writeable = False  # users cannot change a result through its arrays
    best = kept[np.argsort(-strength(scored.scores[kept], evidence.one_sided), kind="stable")]
    informative, undecided = scored.informative, result.undecided
    known_response = evidence.informative_response
    if informative is not None:
        if len(kept) < len(informative):
            decided = ~is_undecided(informative, done.n_rows)
            kurtosis = max(3.0, done.n_rows / float(informative[decided].min(initial=np.inf)))
            found = scored.inflation
            inflation = None if found is None else float(found[decided].max(initial=1.0))
            done = replace(done, kurtosis=kurtosis, inflation=inflation)
            decided[kept] = True
            undecided = np.sort(np.concatenate([undecided, features[~decided]]))
        known_response = scored.informative_response
        informative = np.minimum(informative[best], known_response or 0.0)
    all_rows = done.n_rows >= result.n_rows and evidence.no_interval_reason == NO_SAMPLE
    evidence = replace(
        evidence,
        present=None if scored.present is None else scored.present[best],
        informative=informative,
        informative_response=known_response,
        own_inflation=None,
        null_distribution=scored.null,
        no_interval_reason=None if all_rows else evidence.no_interval_reason,
    )
    return replace(
        result,
        scores=scores,
        last_round=last_round,
        selected=features[best],
        rounds=(*result.rounds, done),
        undecided=undecided,
        effects=None,
        evidence=evidence,
    )


def add_effects(found: Found, k: int) -> ScreeningResult:
    """Add the effect sizes of the selected features, or their bins."""
    result, left = found.results[k], found.left[k]
    if isinstance(found.state, CountState):
        return found.state.describe(result)
    effects = found.state.effects(k, left, result.scores[np.sort(result.selected)])
    if effects is None:
        return result
    effects = effects.take(np.argsort(np.argsort(result.selected)))  # from the order of features
    if (present := result.evidence.present) is not None:
        few = is_mostly_missing(present, result.rounds[-1].n_rows, found.state.statistic.min_present)
        effects = Effects(*(np.where(few, np.nan, values) for values in effects))
    return replace(result, effects=effects)


def _measure_sample(
    run: Run, statistic: Any, results: Sequence[ScreeningResult], read: list[Rows]
) -> list[ScreeningResult]:
    """Add what the sample says about all rows: outliers that were not read, and the variance inflation."""
    unread, design = np.zeros(len(results)), run.strata.design
    has_theory = isinstance(statistic, LinearStatistic) and statistic.evidence
    # A sample of one stratum, or of strata with outliers, may have none of the outliers of the response.
    if has_theory and not run.plan.by_evidence and (design.n_strata == 1 or design.has_outliers.any()):
        unread = measure_unread(statistic, read[0])
    measured = []
    for k, result in enumerate(results):
        if (note := statistic.describe_missed(k, read, result.rounds)) is not None:
            result = add_notes(result, [note])
        evidence = replace(result.evidence, unread=float(unread[k]))
        if has_theory:
            given = run.source, statistic, k, read, run.strata, result.selected, result.cells_read
            found = measure_variance_inflation(*given)
            evidence = replace(
                evidence,
                variance_inflation=found.mean,
                own_inflation=found.own,
                no_floor_reason=None if evidence.no_floor_reason == UNMEASURED else evidence.no_floor_reason,
                cells_reread=evidence.cells_reread + found.n_cells,
            )
        measured.append(replace(result, evidence=evidence))
    return measured


def _read_in_full(
    run: Run, result: ScreeningResult, k: int, workers: Workers, tick: Callable[[int], None]
) -> ScreeningResult:
    """Add a round that reads every row of the selected features from the start."""
    (n, p), d, everything = run.source.shape, result.selected.size, slice(0, run.source.shape[0])
    if result.rounds[-1].n_rows >= n or d == 0:
        return result
    statistic, chosen = run.statistic.subset([k]).calibrate(everything), np.sort(result.selected)
    state = start_state(run.source, statistic, everything, Strata.uniform(n), chosen)
    before = Found(state, [slice(None)], [result])
    found = _next_round(run, before, KeepRule(d), Step(n, d), everything, workers, tick)
    note = (
        f"p-values are from all {n:,} rows of the {count(d, 'feature')} selected from {p:,}; selection by "
        f"false discovery rate accounts for all {p:,}."
    )
    return replace(add_effects(found, 0), notes=(*result.notes, note))
