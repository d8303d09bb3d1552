"""The loop: read new rows of the features that are left, add them to the sums, score, keep the best."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from banditsis._checks import check_choice
from banditsis._typing import Columns, Floats, Rows
from banditsis.evidence import Judge
from banditsis.groups import AnyGroup, start_groups
from banditsis.inflation import MOST_FEATURES, measure_inflation, pilot_rows
from banditsis.parallel import Workers, count_jobs, one_blas_thread
from banditsis.plans import Plan
from banditsis.progress import Progress, show_progress
from banditsis.responses import check_responses, present_rows
from banditsis.results import Round, ScreeningResult
from banditsis.sampling import ROW_ORDERS, count_rows, new_rows, take
from banditsis.sources import Source, open_source
from banditsis.sources.subset import RowSubset
from banditsis.statistics import Statistic, StatisticLike, find_statistic
from banditsis.tracking import Trace

CELLS_CHECKED_WHOLE = 1_000_000
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
    statistic : {"pearson", "anova"}
        How association is measured.
    row_order : {"auto", "random", "stored"}
        Random rows are right for any data. The stored order, which reads the first rows, is right only for
        data that were shuffled beforehand. "auto" means random.
    missing : {"raise", "pairwise"}
        What to do about NaN: refuse it, or leave it out pair by pair. A pairwise score is multiplied by
        √(present rows / rows read), and is 0 with fewer than 10 present rows. Rows whose response is NaN are
        left out before sampling.
    n_jobs : int, optional
        Number of threads; all cores by default. The answer does not depend on it.
    random_state : int, Generator or RandomState, optional
        Where random rows come from.
    progress : bool or callable, optional
        By default a bar appears on a terminal after two seconds. A function is called with the number of
        cells read and the number to read.

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
    source = open_source(X)
    _check_shape(source, plan)
    plan = plan.rereading(kind.rereads)
    _check_evidence(plan, kind.name, row_order, missing)
    responses = check_responses(y, source.shape[0], allow_nan=pairwise)
    if source.shape[0] * source.shape[1] < CELLS_CHECKED_WHOLE:
        _refuse_nonfinite(source, slice(0, source.shape[0]), None, pairwise)
    seed = _seed(random_state)
    parameters = {
        "plan": plan.name,
        "statistic": kind.name,
        **kind.settings,
        "row_order": row_order,
        "missing": missing,
        "seed": seed,
    }
    results: list[Any] = [None] * responses.shape[1]
    known = list(present_rows(responses, allow_nan=pairwise))
    total = sum(
        len(members) * (plan if rows is None else plan.limit_rows(len(rows))).cells for members, rows in known
    )
    with (
        Workers(count_jobs(n_jobs)) as workers,
        one_blas_thread(source.multiplies or responses.shape[1] > 1),
        show_progress(progress, total) as tick,
    ):
        for members, rows in known:
            part = source if rows is None else RowSubset(source, rows)
            values = responses if rows is None else responses[rows][:, members]
            bound = kind.bind(values, pairwise)
            limited = plan.limit_rows(part.shape[0])
            # Evidence ends the run of each response at its own time.
            alone = [bound.subset([k]) for k in range(bound.n_responses)] if plan.by_evidence else [bound]
            traces = []
            for one in alone:
                traces += _run(part, one, limited, row_order, np.random.default_rng(seed), workers, tick)
            notes = _notes(part, limited, row_order)
            for k, trace in zip(members, traces, strict=True):
                results[k] = trace.result(limited, source.names, parameters, notes)
    return results[0] if np.ndim(y) == 1 else results


def _run(
    source: Source,
    statistic: Statistic,
    plan: Plan,
    row_order: str,
    rng: np.random.Generator,
    workers: Workers,
    tick: Callable[[int], None],
) -> list[Trace]:
    """The loop itself: one trace for each response."""
    traces = [Trace(plan.n_features) for _ in range(statistic.n_responses)]
    groups: list[AnyGroup] = []
    totals = [step.n_rows for step in plan.steps]
    judge = Judge(plan.n_rows, lambda scores: _inflation(source, statistic, pieces[0], scores))
    pieces: list[Rows] = []
    sampled = new_rows(plan.n_rows, totals, row_order, rng, as_needed=plan.by_evidence)
    for step, rows in zip(plan.steps, sampled, strict=False):
        pieces.append(rows)
        if len(pieces) == 1:
            statistic = statistic.calibrate(rows)
            groups = start_groups(source, statistic, rows)
            if row_order == "stored":
                _warn_of_drift(statistic, rows, plan.n_rows)
        narrower: list[AnyGroup] = []
        for group in groups:
            started = time.perf_counter()
            n_read = group.read(rows, workers, tick) if count_rows(rows) else 0
            if (bad := group.unusable()).size:
                _refuse_nonfinite(source, rows, bad[:BAD_LOOKED_INTO], statistic.pairwise)
            before = group.n_left
            cutoffs = group.keep_best(partial(judge.count, step), [traces[k] for k in group.members])
            seconds = (time.perf_counter() - started) / len(group.members)
            for k, left, kept, cutoff in zip(group.members, before, group.n_left, cutoffs, strict=True):
                cutoff = judge.cutoff(step, cutoff)
                traces[k].rounds.append(Round(step.n_rows, left, kept, cutoff, n_read * left, seconds))
            narrower += group.narrow(count_rows(rows))
        groups = narrower
        if judge.ended:
            traces[0].notes = judge.notes
            break
    for group in groups:
        group.finish(traces)
    if plan.steps[0].n_rows < plan.n_rows and row_order != "stored":
        sample = pilot_rows(pieces)
        for k, trace in enumerate(traces):
            trace.inflation = measure_inflation(source, statistic, k, sample, trace.strongest())
    return traces


def _inflation(source: Source, statistic: Statistic, rows: Rows, scores: Floats) -> float:
    """The inflation to reckon with after the first round: two standard errors above its estimate."""
    most = min(MOST_FEATURES, scores.size)
    strongest = np.argpartition(-np.abs(scores), most - 1)[:most]
    inflation = measure_inflation(source, statistic, 0, pilot_rows([rows]), strongest)
    assert inflation is not None  # _check_evidence has seen to it
    return inflation.high


def _check_evidence(plan: Plan, name: str, row_order: str, missing: str) -> None:
    """Refuse to guarantee what cannot be."""
    if not plan.by_evidence:
        return
    for option, value, wanted in (
        ("statistic", name, "pearson"),
        ("missing", missing, "raise"),
        ("row_order", "random" if row_order == "auto" else row_order, "random"),
    ):
        if value != wanted:
            raise ValueError(
                f"min_correlation can be guaranteed with {option}={wanted!r} alone, got {value!r}: "
                "use that, or a plan by alpha or budget."
            )


def _seed(random_state: Any) -> int:
    """A number from which to start again, whatever was given."""
    if isinstance(random_state, bool):
        raise TypeError(f"random_state must be an integer, a Generator or None, got {random_state}.")
    if isinstance(random_state, (int, np.integer)):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state}.")
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    try:
        return int(np.random.default_rng(random_state).integers(2**53))
    except (TypeError, ValueError):
        raise TypeError(
            f"random_state must be an integer, a Generator, a RandomState or None, got {random_state!r}."
        ) from None


def _check_shape(source: Source, plan: Plan) -> None:
    n, p = source.shape
    if p == 0:
        raise ValueError(f"X has 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required.")
    if n < 3:
        raise ValueError(f"X has {n} row(s), and correlations need at least 3 (n_samples={n}).")
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan, such as Plan.exact({n}, {p}, 10); got {plan!r}.")
    if (plan.n_rows, plan.n_features) != (n, p):
        raise ValueError(
            f"the plan is for {plan.n_rows:,} rows × {plan.n_features:,} features and X has "
            f"{n:,} × {p:,}: make the plan for the shape of X."
        )


def _refuse_nonfinite(source: Source, rows: Rows, columns: Columns, pairwise: bool) -> None:
    """Raise an error that names the first cell with a value that cannot be summed."""
    step = max(1, CELLS_CHECKED_WHOLE // (source.shape[1] if columns is None else len(columns)))
    for i in range(0, count_rows(rows), step):
        part = take(rows, i, i + step)
        block = source.read(part, columns)
        bad = np.isinf(block) if pairwise else ~np.isfinite(block)
        if not bad.any():
            continue
        row, j = (int(k) for k in np.argwhere(bad)[0])
        value = "NaN" if np.isnan(block[row, j]) else "infinity"
        name = source.name(j if columns is None else int(columns[j]))
        row = source.row_number(row + part.start if isinstance(part, slice) else int(part[row]))
        remedy = ", or use missing='pairwise' to leave NaN out" if value == "NaN" else ""
        raise ValueError(
            f"Input X contains {value} in column {name!r}, row {row:,}: drop or replace it{remedy}."
        )
    if columns is not None:
        raise ValueError(
            f"the values of column {source.name(int(columns[0]))!r} span too many orders of "
            f"magnitude to be summed as {source.dtype}: rescale it"
            f"{'' if source.dtype == np.float64 else ', or pass X as float64'}."
        )


def _warn_of_drift(statistic: Statistic, rows: Rows, n: int) -> None:
    """Warn if the first rows do not look like a random sample of all rows."""
    if statistic.drift(rows, n) > 5:
        warnings.warn(
            f"The first {count_rows(rows):,} rows differ from the rest in the response far more than "
            "chance allows: the rows are not in random order, and screening their first part gives "
            "wrong answers. Use row_order='random', or shuffle the data once.",
            UserWarning,
            stacklevel=4,
        )


def slower_than_exact(source: Source, plan: Plan, row_order: str) -> bool:
    """Whether reading everything would take about as little time as the plan, or less."""
    n, p = source.shape
    if plan.steps[0].n_rows == n:
        return False
    bytes_a_second, seconds_a_step = 30e9, 1e-4  # of a machine of 2026; only their product matters
    if plan.rereads:  # what counts is not reading, but work on each cell
        return plan.cells >= n * p
    scattered = row_order != "stored"
    cost, rows, left = 0.0, 0, p
    for step, after in zip(plan.steps, plan.n_left, strict=True):
        if plan.by_evidence and left <= plan.n_keep:
            break
        touched = source.bytes_touched(step.n_rows - rows, left, scattered=scattered)
        # Scattered lines come at about half the speed of neighbouring ones.
        cost += touched * (2 if scattered else 1) + bytes_a_second * seconds_a_step
        rows, left = step.n_rows, after
    return cost >= source.bytes_touched(n, p, scattered=False)


def _notes(source: Source, plan: Plan, row_order: str) -> list[str]:
    """Say so where reading everything would be faster than the plan."""
    if not slower_than_exact(source, plan, row_order):
        return []
    return [
        "exact screening, which reads every row, would be about as fast here or faster "
        "(SIS, or Plan.exact): this plan saves cells, not time."
    ]
