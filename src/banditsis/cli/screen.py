"""``banditsis screen``: select the features of a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from banditsis.cli.covariates import id_names, read_covariates
from banditsis.cli.errors import INTERRUPTED, UsageError, check_confidence, fail, usage_errors
from banditsis.cli.output import check_output, print_result, write_output
from banditsis.cli.terminal import print_message, print_output
from banditsis.engine.sampling import ROW_ORDERS, resolve_row_order
from banditsis.engine.settings import MISSING, SAMPLING
from banditsis.formats.options import ReadOptions
from banditsis.formats.registry import find_format, format_label, is_url, split_path
from banditsis.formats.targets import open_with_targets, split_target
from banditsis.formatting import count, format_bytes, format_share, to_single_line
from banditsis.plans.design import SamplingDesign
from banditsis.plans.factory import check_exclusive, make_plan
from banditsis.plans.plan import Plan
from banditsis.progress import ProgressBar
from banditsis.results import Interrupted, ScreeningResult
from banditsis.screening import screen
from banditsis.sources.base import Source
from banditsis.sources.interactions.source import Interactions
from banditsis.statistics import find_statistic
from banditsis.store.metadata import read_record
from banditsis.validation import check_choice


@dataclass(frozen=True)
class ScreenOptions:
    """The options of the command."""

    data: str
    target: str | None
    keep: int | None
    exact: bool
    alpha: float | None
    budget: int | float | None
    min_correlation: float | None
    confidence: float | None
    statistic: str
    covariates: str | None
    pvalues: bool
    interactions: bool
    one_hot: bool
    missing: str | None
    row_order: str
    sampling: str
    output: Path | None
    report: Path | None
    as_json: bool
    quiet: bool
    seed: int | None
    jobs: int | None
    memory_limit: int | None
    scheduler: str | None

    @property
    def verbose(self) -> bool:
        """Whether to print more than the result."""
        return not (self.quiet or self.as_json)


def run_screen(options: ScreenOptions) -> None:
    """Screen a file, print the result and write it to files."""
    check_options(options)
    if options.scheduler is None:
        _run(options)
        return
    from banditsis.sources.dask.windows import connected

    with connected(options.scheduler):
        _run(options)


def check_options(options: ScreenOptions) -> None:
    """Raise for invalid options before any data are read, because opening a large text file converts it."""
    with usage_errors():
        check_exclusive(
            {
                "--exact": options.exact or None,
                "--alpha": options.alpha,
                "--budget": options.budget,
                "--min-correlation": options.min_correlation,
            }
        )
        find_statistic(options.statistic)
        check_choice("--row-order", options.row_order, ROW_ORDERS)
        check_choice("--sampling", options.sampling, SAMPLING)
        check_choice("--missing", options.missing or "raise", MISSING)
    check_confidence(options.confidence, options.min_correlation)
    if options.exact and options.row_order != "auto":
        raise UsageError("--row-order has no effect with --exact, which reads every row: omit one of them.")
    if options.jobs == 0:
        raise UsageError("--jobs must not be 0: give a number of threads, or omit it to use all cores.")
    if options.scheduler is not None and options.interactions:
        raise UsageError("--interactions runs on one machine only: omit --scheduler.")
    inputs = list(_input_files(options))
    if options.output is not None:
        check_output(options.output, (".csv", ".parquet", ".json"), "--output", inputs)
    if options.report is not None:
        check_output(options.report, (".html",), "--report", inputs)


def _input_files(options: ScreenOptions) -> Iterator[Path]:
    if not is_url(options.data):
        yield split_path(Path(options.data))[0]
    for given in filter(None, (options.target, options.covariates)):
        with suppress(FileNotFoundError):  # a column, or a file that is reported when it is opened
            file, _ = split_target(given)
            if file is not None:
                yield file


def _run(options: ScreenOptions) -> None:
    path, target = options.data, options.target or _stored_target(options.data)
    opening: dict[str, Any] = {"one_hot": options.one_hot, "memory_limit": options.memory_limit}
    # Workers open the file by its target alone, so the ids of the covariates must not matter.
    ids_like = id_names(path, options.covariates) if options.scheduler is None else None
    opened, (y,), (joined,), ids = open_with_targets(
        path, [target], ReadOptions(**opening, ids_like=ids_like)
    )
    covariates = None
    if options.covariates is not None:
        covariates = read_covariates(path, opened, ids, options.covariates)
    source = _wrap(opened, options, target, opening)

    def plan(design: SamplingDesign | None) -> Plan:
        made = _make_plan(options, *source.shape, design)
        if options.verbose:
            rounded = resolve_row_order(source, made, options.row_order).plan
            blocks = source.block_rows if rounded.cells > made.cells else None
            _print_task(path, opened, joined, rounded, blocks)
        return made

    started = time.perf_counter()
    try:
        with ProgressBar(shown=False if options.quiet else None, transient=True) as bar:
            result = screen(
                source,
                y,
                plan,
                statistic=options.statistic,
                row_order=options.row_order,
                sampling=options.sampling,
                missing=options.missing or _default_missing(path),
                covariates=covariates,
                pvalues=options.pvalues,
                n_jobs=options.jobs,
                random_state=options.seed,
                progress=bar,
            )
    except Interrupted as interruption:
        if interruption.result is None:
            fail("interrupted before the first round was finished: there is no result.", INTERRUPTED)
        _print_result(options, interruption.result, source, time.perf_counter() - started)
        fail("interrupted: the result is that of the finished rounds; no file was written.", INTERRUPTED)
    assert isinstance(result, ScreeningResult)
    seconds = time.perf_counter() - started
    try:
        _write_files(options, result)
    finally:  # a full disk must not hide the result
        _print_result(options, result, source, seconds)
    if options.verbose:
        for file in filter(None, (options.output, options.report)):
            print_message(f"Wrote {file}.")


def _stored_target(path: str) -> str:
    """Return the name of the target that a shuffled store contains."""
    stored = read_record(Path(path)).target if find_format(path) == "shuffled" else None
    if stored is None:
        raise UsageError(
            f"no target: set --target to the name of a column of {path}, to another file or to FILE:COLUMN."
        )
    return stored


def _default_missing(path: str) -> str:
    """Return how to handle missing values: they are common in genotypes, and an error elsewhere."""
    original = read_record(Path(path)).source if find_format(path) == "shuffled" else path
    return "pairwise" if original.lower().endswith(".bed") else "raise"


def _wrap(source: Source, options: ScreenOptions, target: str, opening: dict[str, Any]) -> Source:
    """Wrap the data for interactions or for a cluster."""
    if options.interactions:
        products = Interactions(source)
        products.notes = [*source.notes, *products.notes]
        return products
    if options.scheduler is not None:
        from banditsis.sources.dask.windows import FileOnWorkers

        path = options.data if is_url(options.data) else Path(options.data).resolve()
        return FileOnWorkers(path, source, target=target, **opening)
    return source


def _make_plan(options: ScreenOptions, n: int, p: int, design: SamplingDesign | None) -> Plan:
    with usage_errors():
        return make_plan(
            n,
            p,
            options.keep,
            exact=options.exact,
            alpha=options.alpha,
            budget=options.budget,
            min_correlation=options.min_correlation,
            confidence=check_confidence(options.confidence, options.min_correlation),
            rereads=find_statistic(options.statistic).rereads,
            pvalues=options.pvalues,
            design=design,
        )


def _print_task(path: str, source: Source, joined: str, plan: Plan, rounded_to: int | None) -> None:
    """Print what will be read; ``rounded_to`` are the rows of a block if the plan was rounded up."""
    n, p = source.shape
    size = format_bytes(n * p * source.dtype.itemsize)
    kept = f"keeps {count(plan.n_keep, 'feature')}" if plan.n_keep else "keeps every feature that passes"
    why = "" if rounded_to is None else f", rounded up to whole blocks of {rounded_to:,} rows"
    cost = f"reads {plan.cells:,} cells ({format_share(plan.fraction)}){why}"
    print_message(
        f"Data:   {to_single_line(str(path))}: {format_label(find_format(path))}, {count(n, 'row')} × "
        f"{count(p, 'feature')}, {source.dtype}, {size}.\n"
        f"Target: {to_single_line(joined)}\n"
        f"Plan:   {plan.name}, {count(plan.n_steps, 'round')}, {kept}, {cost}.\n"
    )


def _print_result(options: ScreenOptions, result: ScreeningResult, source: Source, seconds: float) -> None:
    if options.as_json:
        print_output(result.to_json())
    elif not options.quiet:
        print_result(result, bytes_touched(source, result), seconds)


def bytes_touched(source: Source, result: ScreeningResult) -> float:
    """Return the bytes of the pages, chunks or cache lines that the finished rounds have read."""
    touched = 0.0
    for finished in result.rounds:
        n_rows = finished.cells // max(1, finished.n_features)
        scattered = result.parameters["row_order"] == "random" and n_rows < result.n_rows
        touched += source.bytes_touched(n_rows, finished.n_features, scattered=scattered)
    return touched


def _write_files(options: ScreenOptions, result: ScreeningResult) -> None:
    if options.output is not None:
        write_output(result, options.output)
    if options.report is not None:
        result.to_html(options.report, title=f"Screening of {Path(options.data).name}")
