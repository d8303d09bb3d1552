"""The loop: read new rows of the remaining features, add them to the sums, score, keep the best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from banditsis.core.arrays import Columns, Floats, Indices, Rows, count_rows
from banditsis.core.compilation import clock
from banditsis.core.formatting import count
from banditsis.core.parallel import Workers, map_in_threads
from banditsis.core.progress import status
from banditsis.core.validation import raise_nonfinite
from banditsis.engine.evidence import MAX_FEATURES, measure_unread, measure_variance_inflation
from banditsis.engine.exchangeability import group_cuts, warn_if_not_exchangeable
from banditsis.engine.pvalues import correct_pvalues
from banditsis.engine.redundancy import choose_features
from banditsis.engine.rereading import RereadState
from banditsis.engine.runs import Run
from banditsis.engine.sampling import join_rows
from banditsis.engine.state import Positions, Scored, SumState
from banditsis.engine.strata import Strata
from banditsis.engine.trace import Trace
from banditsis.plans.guaranteed import EvidenceRule
from banditsis.plans.keeping import KeepRule
from banditsis.plans.plan import Step
from banditsis.results.evidence import Round, strength
from banditsis.sources.base import Source
from banditsis.statistics.base import Statistic, is_mostly_missing
from banditsis.statistics.effects import Effects
from banditsis.statistics.linear import LinearStatistic
from banditsis.statistics.sample import SampleStatistic

State: TypeAlias = "SumState | RereadState"
#: Scores that are worth another thread.
SCORES_OF_THREAD = 1 << 15
#: One feature is enough for a message, so only these are read again to find a value that is not finite.
MAX_NONFINITE_READ = 1000


class Found(NamedTuple):
    """What is known after a round."""

    state: State
    #: positions in the state of the features that each response has left
    left: list[Positions]
    traces: list[Trace]


def screen_rounds(run: Run, workers: Workers, tick: Callable[[int], None]) -> Iterator[list[Trace]]:
    """Yield what is known about each response after each round, and after what follows the last one."""
    if run.constant:
        shape = run.plan.steps[0].n_rows, run.plan.n_features
        yield [Trace.constant(*shape, run.constant, run.settings.statistic.has_pvalues())]
        return
    steps = run.steps()
    first = next(steps)
    found, rule = _begin(run, *first)
    read = list[Rows]()
    for step, rows in chain([first], steps):
        read.append(rows)
        status().round, status().n_rounds = len(read), run.plan.n_steps
        cuts = _cuts(run, rows) if len(read) == 1 else None
        found = _next_round(run, _drop(found), rule, step, rows, cuts, workers, tick)
        yield found.traces
        if rule.ended:
            break
    traces = [_add_effects(trace, found, k) for k, trace in enumerate(found.traces)]
    traces[0].notes = [*traces[0].notes, *rule.notes]
    if run.is_random_sample and not run.is_exact:
        traces = _measure_sample(run, found.state, traces, read)
    if run.settings.n_choose is not None:
        sample = reduce(join_rows, read)
        traces = [choose_features(run.source, t, sample, run.weigh, run.settings.n_choose) for t in traces]
    yield traces
    if run.settings.pvalues:
        traces = [_read_in_full(run, k, trace, workers, tick) for k, trace in enumerate(traces)]
        yield traces
    _correct_pvalues(run, found.state.statistic, traces, read)
    yield traces


def _begin(run: Run, step: Any, rows: Rows) -> tuple[Found, KeepRule | EvidenceRule]:
    """No sums yet, and the rule by which features stay; given the first step and its rows."""
    statistic = run.statistic.calibrate(rows)
    if isinstance(statistic, LinearStatistic) and not run.is_exact:
        statistic = statistic.with_evidence()
    trace = Trace.start(run.source.shape[1], statistic.one_sided)
    if step != run.plan.steps[0]:
        trace.no_guarantee_reason = "rows were read until the response varied among them"
        trace.notes = [
            f"the response is constant in the {run.plan.steps[0].n_rows:,} rows of the first step, which "
            f"cannot rank features: {count_rows(rows):,} rows of every feature were read before any feature "
            "was dropped."
        ]
    state = _start(run.source, statistic, rows, run.strata)
    rule = run.plan.keep_rule(run.strata.design, partial(_first_inflation, run, statistic, rows))
    n_responses = statistic.n_responses
    return Found(state, [slice(None)] * n_responses, [replace(trace) for _ in range(n_responses)]), rule


def _start(
    source: Source, statistic: Statistic, rows: Rows, strata: Strata, columns: Columns = None
) -> State:
    if isinstance(statistic, SampleStatistic):
        return RereadState.start(source, statistic, rows, strata, columns)
    assert isinstance(statistic, LinearStatistic)
    return SumState.start(source, statistic, rows, strata, columns)


def _first_inflation(run: Run, statistic: Statistic, rows: Rows, scores: Floats) -> float:
    """The variance inflation to assume after the first round: two standard errors above the estimate."""
    size = min(MAX_FEATURES, scores.size)
    strongest = np.argpartition(-np.abs(scores), size - 1)[:size]
    inflation = measure_variance_inflation(run.source, statistic, 0, [rows], run.strata, strongest)
    assert inflation is not None  # as check_guarantee_possible ensures
    return inflation.high


def _cuts(run: Run, rows: Rows) -> Indices | None:
    """Where to cut rows into groups that are to be exchangeable; None if they are known to be."""
    known = run.is_exact or run.row_order == "random" or run.strata.n_strata > 1 or run.source.stratum_sizes
    return None if known else group_cuts(run.source, rows)


def _drop(found: Found) -> Found:
    """Drop the sums of features that no response has left."""
    kept = [left for left in found.left if not isinstance(left, slice)]
    if len(kept) < len(found.left):  # some response has all features left
        return found
    union: Indices = kept[0] if len(kept) == 1 else np.unique(np.concatenate(kept))
    left: list[Positions] = [np.searchsorted(union, positions) for positions in kept]
    return Found(found.state.take(union), [slice(None)] if len(kept) == 1 else left, found.traces)


def _next_round(
    run: Run,
    found: Found,
    rule: KeepRule | EvidenceRule,
    step: Any,
    rows: Rows,
    cuts: Indices | None,
    workers: Workers,
    tick: Callable[[int], None],
) -> Found:
    """Read new rows, score the features of each response and keep the best."""
    started, state, statistic = clock(), found.state, found.state.statistic
    everything = state.features(slice(None))
    features = [everything if isinstance(left, slice) else everything[left] for left in found.left]
    sizes, q = [len(some) for some in features], len(features)
    if count_rows(rows):
        share = sum(sizes) / state.n_columns
        state = state.add(rows, workers, lambda cells: tick(round(cells * share)), cuts)
    if (bad := state.find_nonfinite()).size:
        raise_nonfinite(run.source, rows, bad[:MAX_NONFINITE_READ], statistic.pairwise)

    def keep(k: int) -> tuple[Scored, Indices, float]:
        scored = state.score(k, found.left[k])
        return scored, *rule.keep(step, strength(scored.scores, statistic.one_sided), scored.informative)

    # Threads wait for each other between short operations, so more are slower than few.
    scored = map_in_threads(keep, range(q), -(-q // (1 + max(sizes) // SCORES_OF_THREAD)))
    warnings = []
    if cuts is not None:
        warnings = warn_if_not_exchangeable(run.source, statistic.y, rows, run.row_order, state.groups)
    seconds = (clock() - started) / q
    effective, new = run.strata.design.effective_rows(state.n_read), state.n_new(rows)
    traces: list[Trace] = []
    left: list[Positions] = []
    for k, (found_scores, kept, cutoff) in enumerate(scored):
        size, trace = sizes[k], found.traces[k]
        finished = Round(state.n_read, size, len(kept), cutoff, new * size, seconds, effective)
        missing = state.missingness(k) if statistic.pairwise and not trace.rounds else None
        trace = trace.extend(found_scores, features[k], kept, finished, statistic, missing)
        trace.notes = [*trace.notes, *warnings]
        trace.report(run.on_round)
        positions = found.left[k]
        left.append(kept if isinstance(positions, slice) else positions[kept])
        traces.append(trace)
    return Found(state, left, traces)


def _add_effects(trace: Trace, found: Found, k: int) -> Trace:
    """Add the effect sizes of the selected features."""
    effects = found.state.effects(k, found.left[k], trace.scores[trace.selected])
    if effects is not None and trace.present is not None:
        least = found.state.statistic.min_present
        few = is_mostly_missing(trace.present, trace.rounds[-1].n_rows, least)
        effects = Effects(*(np.where(few, np.nan, values) for values in effects))
    return replace(trace, effects=effects)


def _measure_sample(run: Run, state: State, traces: list[Trace], read: list[Rows]) -> list[Trace]:
    """Add what the sample says about all rows: outliers that were not read, and the variance inflation."""
    statistic, unread = state.statistic, np.zeros(len(traces))
    guaranteed = run.plan.by_evidence or not run.strata.may_miss_outliers
    if isinstance(statistic, LinearStatistic) and statistic.evidence and not guaranteed:
        unread = measure_unread(statistic, read[0])
    measured = []
    for k, trace in enumerate(traces):
        order, n_cells = trace.best_first(), sum(r.cells for r in trace.rounds)
        best = trace.selected[order]
        found = measure_variance_inflation(run.source, statistic, k, read, run.strata, best, n_cells)
        changed: dict[str, Any] = {"unread": float(unread[k])}
        if found is not None:
            changed |= {"variance_inflation": found.mean, "own_inflation": found.own[np.argsort(order)]}
            changed |= {"cells_reread": trace.cells_reread + found.n_cells}
        measured.append(replace(trace, **changed))
    return measured


def _read_in_full(run: Run, k: int, trace: Trace, workers: Workers, tick: Callable[[int], None]) -> Trace:
    """Add a round that reads every row of the selected features from the start."""
    (n, p), d, everything = run.source.shape, trace.selected.size, slice(0, run.source.shape[0])
    if trace.rounds[-1].n_rows >= n or d == 0:
        return trace
    statistic = run.statistic.subset([k]).calibrate(everything)
    state = _start(run.source, statistic, everything, Strata.uniform(n), trace.selected)
    before = Found(state, [slice(None)], [replace(trace, own_inflation=None)])  # it was that of the sample
    found = _next_round(run, before, KeepRule(d), Step(n, d), everything, None, workers, tick)
    detail = (
        f"p-values are from all {n:,} rows of the {count(d, 'feature')} selected from {p:,}; selection by "
        f"false discovery rate accounts for all {p:,}."
    )
    return replace(_add_effects(found.traces[0], found, 0), details=[*trace.details, detail])


def _correct_pvalues(run: Run, statistic: Statistic, traces: list[Trace], read: list[Rows]) -> None:
    """Check the small p-values, which come from all rows or from the rows of a single step."""
    n, rows = run.source.shape[0], read[0]
    if traces[0].rounds[-1].n_rows >= n:
        rows = slice(0, n)
    elif len(read) > 1 or run.plan.by_evidence:
        return
    if count_rows(rows) > count_rows(read[0]):  # than it was calibrated with
        statistic = run.statistic.calibrate(rows)
    correct_pvalues(run.source, statistic, traces, rows, run.settings.pvalues)
