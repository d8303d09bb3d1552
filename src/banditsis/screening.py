"""The loop: read new rows of the features that are left, add them to the sums, score, keep the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Floats, Indices, Rows, count_rows
from banditsis.engine.accumulators import Accumulator, start_accumulators
from banditsis.engine.exchangeability import ExchangeabilityMonitor, warn_if_not_exchangeable
from banditsis.engine.sampling import ROW_ORDERS, draw_rows, resolve_row_order, slower_than_exact
from banditsis.engine.trace import Trace
from banditsis.engine.variance_inflation import MAX_FEATURES, measure_variance_inflation, pilot_rows
from banditsis.formats.opening import open_source
from banditsis.parallel import Workers, count_jobs, one_blas_thread
from banditsis.plans.guaranteed import EvidenceRule
from banditsis.plans.plan import Plan
from banditsis.progress import Progress, show_progress, status
from banditsis.results import Interrupted, Round, ScreeningResult, attach
from banditsis.sources.base import Source
from banditsis.sources.views import RowSubset
from banditsis.statistics import Statistic, StatisticLike, find_statistic
from banditsis.statistics.covariates import Covariates, check_covariates
from banditsis.validation import (
    CELLS_CHECKED_WHOLE,
    check_choice,
    check_guarantee_possible,
    check_pvalues_available,
    check_responses,
    check_shape,
    is_dask,
    present_rows,
    raise_nonfinite,
    resolve_seed,
)

BAD_LOOKED_INTO = 1000  # features whose sums are not finite: one is enough for a message
MISSING = ("raise", "pairwise")


def screen(
    X: Any,
    y: Any,
    plan: Plan,
    *,
    statistic: StatisticLike = "pearson",
    row_order: str = "auto",
    missing: str = "raise",
    covariates: Any = None,
    pvalues: bool = False,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: Progress = None,
) -> ScreeningResult | list[ScreeningResult]:
    """Screen the features of X for their association with y, as the plan says.

    Parameters
    ----------
    X : array-like of shape (n, p), frame or Source
        The features. An array is read where it lies, and only the cells that the plan asks for: a cell
        that is never read is never checked. Inputs under a million cells are checked whole.
    y : array-like of shape (n,) or (n, q)
        The response. Several responses are screened in one pass over the data while the features they
        have left overlap; each answer is as if its response had been screened alone.
    plan : Plan
        How many rows to read and how many features to keep.
    statistic : str, class or object
        How association is measured: "pearson", "anova", or another of docs/statistics.md. Statistics that are
        no sums, such as those of ranks, read all rows so far again in each step; the plan's cells say so.
    row_order : {"auto", "random", "blocks", "stored"}
        Random rows are right for any data. Whole blocks in random order are cheaper where rows are stored
        in blocks, and the stored order, which reads the first rows, where data were shuffled beforehand:
        both warn if rows that lie together are more alike than chance allows. "auto" takes the stored order
        where the data say that they were shuffled, and else random rows or blocks, whichever is cheap.
    missing : {"raise", "pairwise"}
        What to do about NaN: refuse it, or leave it out pair by pair. A pairwise score is multiplied by
        √(present rows / rows read), and is 0 with fewer than 10 present rows. Rows whose response is NaN are
        left out before sampling.
    covariates : array-like of shape (n,) or (n, k), or frame, optional
        Columns to be given: association is then partial, as if feature and response had both been regressed
        on them and an intercept. Collinear ones do no harm; a feature that they explain scores 0.
    pvalues : bool
        Whether to read the features that are left in full at the end, which gives their exact scores and
        p-values. A run that reads every row needs no such pass. Its cells come on top of the plan's, of which
        :meth:`Plan.optimal` can be told. Refused for a statistic whose null law is not known.
    n_jobs : int, optional
        Number of threads; all cores by default. The answer does not depend on it.
    random_state : int, Generator or RandomState, optional
        Where random rows come from.
    progress : bool or callable, optional
        By default a bar appears on a terminal after two seconds. A function is called with the number of
        cells read and the number to read; if it has a method ``round_done``, that is called with every
        finished :class:`Round`.

    Returns
    -------
    ScreeningResult, or a list of them if y has two dimensions

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 200))
    >>> y = 2 * X[:, 5] + X[:, 17] + rng.standard_normal(5000)
    >>> result = screen(X, y, Plan.paper(5000, 200, 2), random_state=0)
    >>> result.selected
    array([ 5, 17])
    """
    check_choice("row_order", row_order, ROW_ORDERS)
    pairwise = check_choice("missing", missing, MISSING) == "pairwise"
    kind = find_statistic(statistic)
    if pvalues:
        check_pvalues_available(kind)
    source = open_source(X)
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan, such as Plan.exact(n, p, 10); got {plan!r}.")
    check_shape(source, plan)
    plan = plan.rereading(kind.rereads)
    check_guarantee_possible(plan, kind.name, row_order, missing, covariates, source.shuffled)
    given, about_given = _given(covariates, source, pairwise)
    by_column = kind.n_columns == 1
    y = kind.unpack(y.compute() if is_dask(y) else y)
    responses = check_responses(y, source.shape[0], allow_nan=pairwise and by_column, may_allow=by_column)
    single = np.ndim(y) == 1 or not by_column
    if source.shape[0] * source.shape[1] < CELLS_CHECKED_WHOLE:
        raise_nonfinite(source, slice(0, source.shape[0]), None, pairwise)
    parameters = _parameters(plan, source, kind, missing, given, pvalues, resolve_seed(random_state))
    known = present_rows(responses, allow_nan=pairwise) if by_column else [([0], None)]
    runs = [_prepare(source, rows, members, plan, row_order, parameters) for members, rows in known]
    for run in runs:
        run.notes.extend(about_given)
    for trace in (trace for run in runs for trace in run.traces):
        trace.tell = getattr(progress, "round_done", None)
    total = sum(len(run.traces) * run.plan.cells for run in runs)
    if pvalues and plan.steps[-1].n_rows < plan.n_rows:
        total += sum(len(run.traces) * run.plan.n_rows * plan.n_keep for run in runs)
    with (
        Workers(count_jobs(n_jobs)) as workers,
        one_blas_thread(source.uses_blas or responses.shape[1] > 1 or given is not None),
        show_progress(progress, total) as tick,
    ):
        try:
            for run in runs:
                values = responses if run.rows is None else responses[run.rows][:, run.members]
                bound = kind.bind(values, pairwise) if given is None else kind.bind_partial(values, given)
                parts = [(bound, run.traces)]
                if plan.by_evidence:  # which ends the run of each response at its own time
                    parts = [(bound.subset([k]), [trace]) for k, trace in enumerate(run.traces)]
                for part, traces in parts:
                    _run(run, part, traces, workers, tick)
                    if pvalues:
                        _read_in_full(run.source, part, traces, workers, tick)
        except KeyboardInterrupt:
            raise Interrupted(_known(runs, source, "interrupted", single)) from None
        except Exception as error:
            attach(error, _known(runs, source, "ended by an error", single))
            raise
    results: list[Any] = _results(runs, source.names, [])
    return results[0] if single else results


def _given(covariates: Any, source: Source, pairwise: bool) -> tuple[Covariates | None, Sequence[str]]:
    """The covariates, None if they say nothing beside an intercept, and what is to be noted of them."""
    if covariates is None:
        return None, ()
    given = check_covariates(covariates, source.shape[0], source.dtype)
    if pairwise:
        raise ValueError(
            "covariates go with missing='raise' alone: fill the gaps of X and leave out rows whose response "
            "is missing, or leave the covariates out."
        )
    return (given if given.rank else None), given.notes


def _parameters(
    plan: Plan,
    source: Source,
    kind: Any,
    missing: str,
    given: Covariates | None,
    pvalues: bool,
    seed: int,
) -> dict[str, Any]:
    """What a result tells of how it was asked for."""
    return {
        "plan": plan.name,
        **dict(plan.parameters),
        **({"features": source.recipe} if source.recipe else {}),
        "statistic": kind.name,
        **kind.settings,
        **({"one_sided": True} if kind.one_sided else {}),
        "missing": missing,
        "covariates": 0 if given is None else given.rank,
        "seed": seed,
        **({"pvalues": True} if pvalues else {}),
    }


class Run(NamedTuple):
    """Responses that are known in the same rows, and what is to be done for them."""

    source: Source
    rows: Indices | None
    members: list[int]
    plan: Plan
    row_order: str
    parameters: dict[str, Any]
    notes: list[str]
    traces: list[Trace]


def _prepare(
    source: Source,
    rows: Indices | None,
    members: list[int],
    plan: Plan,
    row_order: str,
    parameters: dict[str, Any],
) -> Run:
    part = source if rows is None else RowSubset(source, rows)
    order, limited, notes = resolve_row_order(part, plan.limit_rows(part.shape[0]), row_order)
    parameters = {**parameters, "row_order": order}
    if order != "random" and source.shuffled:
        parameters["shuffled"] = True
    traces = [Trace(plan.n_features, parameters.get("one_sided", False)) for _ in members]
    return Run(part, rows, members, limited, order, parameters, notes + _notes(part, limited, order), traces)


def _known(runs: Sequence[Run], source: Source, how: str, single: bool) -> Any:
    """What the finished rounds of a run say that ended early, or None."""
    note = f"the run was {how}: these are the features that were left by then."
    results = _results(runs, source.names, [note])
    if all(result is None for result in results):
        return None
    return results[0] if single else results


def _results(
    runs: Sequence[Run], names: Sequence[str] | None, notes: Sequence[str]
) -> list[ScreeningResult | None]:
    """A result for each response that has finished a round."""
    results: dict[int, ScreeningResult | None] = {}
    for run in runs:
        for k, trace in zip(run.members, run.traces, strict=True):
            done = (
                trace.result(run.plan, names, run.parameters, [*notes, *run.notes]) if trace.rounds else None
            )
            results[k] = done
    return [results[k] for k in sorted(results)]


def _run(
    run: Run, statistic: Statistic, traces: list[Trace], workers: Workers, tick: Callable[[int], None]
) -> None:
    """The loop itself: one trace for each response."""
    plan, row_order, groups = run.plan, run.row_order, list[Accumulator]()
    exact = plan.steps[0].n_rows == plan.n_rows
    source = run.source if exact or row_order == "random" else ExchangeabilityMonitor(run.source)
    judge = EvidenceRule(
        plan.n_rows, lambda scores: _variance_inflation(source, statistic, pieces[0], scores)
    )
    pieces: list[Rows] = []
    try:
        for step, rows in zip(plan.steps, _sample(run), strict=False):
            pieces.append(rows)
            status().start_round(len(pieces), plan.n_steps)
            if len(pieces) == 1:
                statistic = statistic.calibrate(rows)
                groups = start_accumulators(source, statistic, rows)
            narrower: list[Accumulator] = []
            for group in groups:
                started = time.perf_counter()
                n_read = group.read(rows, workers, tick) if count_rows(rows) else 0
                if (bad := group.unusable()).size:
                    raise_nonfinite(source, rows, bad[:BAD_LOOKED_INTO], statistic.pairwise)
                before = group.n_left
                cutoffs = group.keep_best(partial(judge.count, step), [traces[k] for k in group.members])
                seconds = (time.perf_counter() - started) / len(group.members)
                n_rows = sum(map(count_rows, pieces))
                for k, left, kept, cutoff in zip(group.members, before, group.n_left, cutoffs, strict=True):
                    cutoff = judge.cutoff(step, cutoff)
                    traces[k].add(Round(n_rows, left, kept, cutoff, n_read * left, seconds))
                narrower += group.narrow(count_rows(rows))
            groups = narrower
            if len(pieces) == 1 and isinstance(source, ExchangeabilityMonitor):
                doubts = warn_if_not_exchangeable(source, statistic, rows, row_order)
                for trace in traces:
                    trace.notes += doubts
            if judge.ended:
                traces[0].notes += judge.notes
                break
    finally:  # what is left is known even if the run ends early
        for group in groups:
            group.finish(traces)
    if not exact and (row_order == "random" or source.shuffled):
        sample = pilot_rows(pieces)
        for k, trace in enumerate(traces):
            trace.variance_inflation = measure_variance_inflation(
                source, statistic, k, sample, trace.strongest()
            )


def _sample(run: Run) -> Iterator[Rows]:
    """The rows that each step adds."""
    return draw_rows(
        run.plan.n_rows,
        [step.n_rows for step in run.plan.steps],
        run.row_order,
        np.random.default_rng(run.parameters["seed"]),
        as_needed=run.plan.by_evidence,
        edges=run.source.block_edges() if run.row_order == "blocks" else None,
    )


def _read_in_full(
    source: Source,
    statistic: Statistic,
    traces: list[Trace],
    workers: Workers,
    tick: Callable[[int], None],
) -> None:
    """One more round: every row of the features that are left, from the start."""
    n = source.shape[0]
    for k, trace in enumerate(traces):
        if trace.rounds[-1].n_rows >= n or trace.selected.size == 0:
            continue
        started = time.perf_counter()
        ready = statistic.subset([k])
        ready = ready.calibrate(slice(0, n))
        (group,) = start_accumulators(source, ready, slice(0, n))
        group.restrict(trace.selected)
        group.read(slice(0, n), workers, tick)
        if (bad := group.unusable()).size:
            raise_nonfinite(source, slice(0, n), bad, statistic.pairwise)
        d = trace.selected.size
        (cutoff,) = group.keep_best(len, [trace])
        seconds = time.perf_counter() - started
        trace.rounds.append(Round(n, d, d, cutoff, n * d, seconds))
        trace.notes.append(
            f"p-values are from all {n:,} rows of the {d:,} features that were chosen among "
            f"{trace.scores.size:,}; result.select counts all {trace.scores.size:,}."
        )
        group.finish([trace])


def _variance_inflation(source: Source, statistic: Statistic, rows: Rows, scores: Floats) -> float:
    """The inflation to reckon with after the first round: two standard errors above its estimate."""
    most = min(MAX_FEATURES, scores.size)
    strongest = np.argpartition(-np.abs(scores), most - 1)[:most]
    variance_inflation = measure_variance_inflation(source, statistic, 0, pilot_rows([rows]), strongest)
    assert variance_inflation is not None  # check_guarantee_possible has seen to it
    return variance_inflation.high


def _notes(source: Source, plan: Plan, row_order: str) -> list[str]:
    """Say so where reading everything would be faster than the plan."""
    if not slower_than_exact(source, plan, row_order):
        return list(source.notes)
    return [
        *source.notes,
        "exact screening, which reads every row, would be about as fast here or faster "
        "(SIS, or Plan.exact): this plan saves cells, not time.",
    ]
