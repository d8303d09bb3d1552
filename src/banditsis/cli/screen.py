"""``banditsis screen``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from banditsis.cli.display import live_rounds, show_result
from banditsis.cli.errors import INTERRUPTED, UsageError, parse_budget, print_error
from banditsis.cli.loading import Loaded, load, on_workers, read_covariates
from banditsis.cli.output import check_output, write_output, write_report
from banditsis.engine.sampling import ROW_ORDERS
from banditsis.engine.settings import MISSING
from banditsis.plans.factory import make_plan
from banditsis.plans.plan import Plan
from banditsis.results import Interrupted, ScreeningResult
from banditsis.screening import screen
from banditsis.sources.interactions.source import Interactions
from banditsis.statistics import STATISTICS, find_statistic
from banditsis.validation import check_choice


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    data: Path
    target: str | None = None
    keep: int | None = None
    exact: bool = False
    alpha: float | None = None
    budget: float | None = None
    min_correlation: float | None = None
    confidence: float = 0.95
    statistic: str = "pearson"
    covariates: str | None = None
    pvalues: bool = False
    interactions: bool = False
    one_hot: bool = False
    missing: str | None = None
    row_order: str = "auto"
    output: Path | None = None
    report: Path | None = None
    as_json: bool = False
    quiet: bool = False
    seed: int | None = None
    jobs: int | None = None
    memory_limit: int | None = None
    scheduler: str | None = None


def run_screen(request: Request) -> int:
    """Screen a file and show the result; return the exit code.

    Parameters
    ----------
    request : Request
        What was asked for.
    """
    check_request(request)
    if request.scheduler is None:
        return _run(request)
    from banditsis.sources.dask.windows import connected

    with connected(request.scheduler):
        return _run(request)


def _run(request: Request) -> int:
    """Open, screen, show."""
    opening: dict[str, Any] = {"one_hot": request.one_hot, "memory_limit": request.memory_limit}
    beside = request.covariates if request.scheduler is None else None  # workers open the data by the target
    loaded = load(request.data, request.target, covariates=beside, **opening)
    source = _with_pairs(loaded.source) if request.interactions else loaded.source
    if request.scheduler is not None:
        source = on_workers(loaded, request.target, **opening)
    given = None if request.covariates is None else read_covariates(loaded, request.covariates)
    plan = choose_plan(request, *source.shape)
    talk = Console(stderr=True, quiet=request.quiet or request.as_json, highlight=False)
    _introduce(loaded, plan, talk)
    started = time.perf_counter()
    try:
        with live_rounds(not request.quiet, source.dtype.itemsize) as progress:
            result = screen(
                source,
                loaded.y,
                plan,
                statistic=request.statistic,
                row_order=request.row_order,
                missing=request.missing or loaded.missing,
                covariates=given,
                pvalues=request.pvalues,
                n_jobs=request.jobs,
                random_state=request.seed,
                progress=progress,
            )
    except Interrupted as interruption:
        return _end_early(request, interruption.result, source.dtype.itemsize, time.perf_counter() - started)
    assert isinstance(result, ScreeningResult)
    _tell(request, result, source.dtype.itemsize, time.perf_counter() - started)
    _write(request, result, talk)
    return 0


def check_request(request: Request) -> None:
    """Refuse what cannot be, before any data are read."""
    ways = {
        "--exact": request.exact or None,
        "--alpha": request.alpha,
        "--budget": request.budget,
        "--min-correlation": request.min_correlation,
    }
    named = [name for name, value in ways.items() if value is not None]
    if len(named) > 1:
        raise UsageError(f"at most one of {', '.join(ways)} says what to read, got {' and '.join(named)}.")
    if request.scheduler is not None and request.interactions:
        raise UsageError("--interactions are screened on one machine: leave --scheduler out.")
    try:
        find_statistic(request.statistic)
        check_choice("--row-order", request.row_order, ROW_ORDERS)
        check_choice("--missing", request.missing or "raise", MISSING)
        if request.jobs == 0:
            raise UsageError("--jobs must not be 0: give a number of threads, or leave it out for all cores.")
    except ValueError as error:
        raise UsageError(str(error)) from None
    if request.output is not None:
        check_output(request.output, (".csv", ".parquet", ".json"), "--output")
    if request.report is not None:
        check_output(request.report, (".html",), "--report")


def choose_plan(request: Request, n: int, p: int) -> Plan:
    """The plan that was asked for, for data of this shape.

    Examples
    --------
    >>> choose_plan(Request(Path("x.npy"), "y", keep=5, exact=True), 1000, 50).name
    'exact'
    """
    try:
        return make_plan(
            n,
            p,
            request.keep,
            exact=request.exact,
            alpha=request.alpha,
            budget=None if request.budget is None else parse_budget(request.budget),
            min_correlation=request.min_correlation,
            confidence=request.confidence,
            rereads=find_statistic(request.statistic).rereads,
            pvalues=request.pvalues,
        )
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None


def _with_pairs(source: Any) -> Any:
    pairs = Interactions(source)
    pairs.notes = [*source.notes, *pairs.notes]
    return pairs


def _introduce(loaded: Loaded, plan: Plan, talk: Console) -> None:
    rounds = "1 round" if plan.n_steps == 1 else f"{plan.n_steps} rounds"
    kept = f"keeps {plan.n_keep:,}" if plan.n_keep else "keeps all that pass"
    lines = {
        "Data": loaded.describe(),
        "Target": loaded.how,
        "Plan": f"{plan.name}, {rounds}, {kept}, reads {plan.cells:,} cells ({plan.fraction:.2%}).",
    }
    for name, text in lines.items():
        talk.print(f"[bold]{name + ':':<8}[/]{escape(text)}", soft_wrap=True)
    talk.print()


def _tell(request: Request, result: ScreeningResult, itemsize: int, seconds: float) -> None:
    if request.as_json:
        print(result.to_json(), flush=True)
    elif not request.quiet:
        show_result(result, itemsize, seconds, Console(highlight=False))


def _write(request: Request, result: ScreeningResult, talk: Console) -> None:
    if request.output is not None:
        write_output(result, request.output)
        talk.print(f"Written to {request.output}.", soft_wrap=True, markup=False)
    if request.report is not None:
        write_report(result, request.report, f"Screening of {request.data.name}")
        talk.print(f"Report in {request.report}.", soft_wrap=True, markup=False)


def _end_early(request: Request, result: Any, itemsize: int, seconds: float) -> int:
    """Show what is known after Ctrl-C; files are not written, since they would look whole."""
    if isinstance(result, ScreeningResult):
        _tell(request, result, itemsize, seconds)
        print_error(
            "interrupted: what is shown is known from the rounds that were finished; no file was written."
        )
    else:
        print_error("interrupted before the first round was finished: nothing is known yet.")
    return INTERRUPTED


def complete_statistics(incomplete: str) -> list[str]:
    """Names of statistics, for shell completion."""
    return [name for name in STATISTICS if name.startswith(incomplete)]


def complete_row_orders(incomplete: str) -> list[str]:
    """Row orders, for shell completion."""
    return [name for name in ROW_ORDERS if name.startswith(incomplete)]
