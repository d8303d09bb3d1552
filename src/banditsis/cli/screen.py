"""``banditsis screen``: select the features of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis.cli.errors import (
    INTERRUPTED,
    UsageError,
    check_confidence,
    fail,
    usage_errors,
)
from banditsis.cli.output import check_output, print_results, summarize_response, write_output
from banditsis.cli.standard_input import STANDARD_INPUT, spooled
from banditsis.cli.terminal import name_options, print_message, print_output, shown
from banditsis.core.arrays import Array, Indices
from banditsis.core.compilation import clock
from banditsis.core.formatting import count, format_bytes, format_share, to_single_line
from banditsis.core.parallel import Workers, count_jobs
from banditsis.core.progress import DELAY_SECONDS, ProgressBar
from banditsis.core.validation import (
    MissingValueError,
    Responses,
    check_real,
    count_classes,
    find_missing,
    rows_by_missingness,
)
from banditsis.engine.redundancy import count_candidates
from banditsis.engine.sampling import resolve_row_order
from banditsis.formats.options import ReadOptions
from banditsis.formats.registry import find_format, format_label, is_url, local_path
from banditsis.formats.targets import Dataset, find_place, open_dataset
from banditsis.plans.design import SamplingDesign
from banditsis.plans.factory import check_exclusive, make_plan
from banditsis.plans.plan import Plan, default_size
from banditsis.results.result import Interrupted, ScreeningResult, keep_significant
from banditsis.results.several import ScreeningResults
from banditsis.screening import screen
from banditsis.sources.base import Source
from banditsis.sources.views import take_rows
from banditsis.statistics import find_statistic

if TYPE_CHECKING:
    from banditsis.index.folder import Record


#: Options that say how to open the data, as for :func:`open_source`.
READING = ("columns", "drop", "id", "one_hot", "dates", "na", "memory_limit")


class ScreenOptions(SimpleNamespace):
    """The options of the command by name, as :mod:`banditsis.cli.app` defines them."""

    def replace(self, **changes: Any) -> ScreenOptions:
        """The options with other values."""
        return ScreenOptions(**{**vars(self), **changes})

    @property
    def prints_text(self) -> bool:
        """Whether to print text for a reader."""
        return not (self.quiet or self.as_json)

    @property
    def pvalue_kind(self) -> bool | str:
        """The p-values, as for :func:`screen`."""
        return "robust" if self.robust_pvalues else self.pvalues or self.fdr is not None

    @property
    def opening(self) -> dict[str, Any]:
        """How to open the data."""
        return {name: getattr(self, name) for name in READING}


def run_screen(options: ScreenOptions) -> None:
    """Screen a file, print the result and write it to files."""
    check_options(options)
    if options.scheduler is None:
        with spooled(options.data) as data:
            _run(options.replace(data=data))
        return
    from banditsis.sources.dask import connected

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
        check_exclusive({"--keep": options.keep, "--fdr": options.fdr})
        check_exclusive({"--min-correlation": options.min_correlation, "--fdr": options.fdr})
        check_exclusive({"--avoid-redundancy": options.avoid_redundancy or None, "--fdr": options.fdr})
        check_exclusive({"--robust-pvalues": options.robust_pvalues or None, "--weights": options.weights})
        check_exclusive({"--quiet": options.quiet or None, "--verbose": options.verbose or None})
        if options.fdr is not None:
            check_real("--fdr", options.fdr, 0, 1)
        n_columns = find_statistic(options.statistic).n_columns
    check_confidence(options.confidence, options.min_correlation)
    if n_columns > 1 and len(options.target) != n_columns:
        raise UsageError(
            f"--statistic {options.statistic} needs two targets, the time and the event (1, or 0 if "
            f"censored), got {len(options.target)}: --target time --target event."
        )
    repeated = [target for target in options.target if options.target.count(target) > 1]
    if repeated:
        raise UsageError(f"--target {repeated[0]} is given twice: give each target once.")
    if options.avoid_redundancy and options.min_correlation is not None and options.keep is None:
        raise UsageError("--avoid-redundancy chooses a number of features: set --keep too.")
    if options.exact and options.row_order != "auto":
        raise UsageError("--row-order has no effect with --exact, which reads every row: omit one of them.")
    if options.jobs == 0:
        raise UsageError("--jobs must not be 0: give a number of threads, or omit it to use all cores.")
    if options.scheduler is not None and options.interactions:
        raise UsageError("--interactions runs on one machine only: omit --scheduler.")
    if options.scheduler is not None and options.data == STANDARD_INPUT:
        raise UsageError("workers cannot read standard input: name a file, or omit --scheduler.")
    inputs = list(_input_files(options))
    if options.output is not None:
        check_output(options.output, (".csv", ".parquet", ".json"), "--output", inputs)
    if options.all_features and (options.output is None or options.output.suffix.lower() == ".json"):
        raise UsageError("--all-features needs a table to write: set --output to a .csv or .parquet file.")
    if options.report is not None:
        check_output(options.report, (".html",), "--report", inputs)


def _input_files(options: ScreenOptions) -> Iterator[Path]:
    path = local_path(options.data)
    if path is not None:
        yield path
    for given in filter(None, (*options.target, *options.covariates, options.weights)):
        with suppress(FileNotFoundError):  # a column, or a file that is reported when it is opened
            file = find_place(given).file
            if isinstance(file, Path):
                yield file


def _run(options: ScreenOptions) -> None:
    path, targets = options.data, list(options.target) or [_stored_target(options.data)]
    given: dict[str, Any] = {"covariates": options.covariates, "weights": options.weights}
    data = open_dataset(path, targets, ReadOptions(**options.opening, command_line=True), **given)
    source = _wrap(data.features, options, {"target": tuple(targets), **given, **options.opening})
    assert data.target is not None
    is_one = find_statistic(options.statistic).n_columns > 1  # the targets are the columns of one response
    targets = [", ".join(targets)] if is_one else targets
    results: dict[str, ScreeningResult] = {}
    started = clock()
    for members, rows in group_responses(data.target, is_one):
        some = slice(None) if rows is None else rows
        part = data._replace(
            features=source if rows is None else take_rows(source, rows),
            target=_single_or_all(data.target[some][:, members]),
            covariates=data.covariates and {name: column[some] for name, column in data.covariates.items()},
            weights=None if data.weights is None else data.weights[some],
        )
        joined = [data.joined[k] for k in members]
        joined = [" ".join(dict.fromkeys(joined))] if is_one else joined
        found = list(dict.fromkeys(joined))
        task = [f"Target: {' '.join(found[:3])}" + " …" * (len(found) > 3)]
        if data.covariates:
            files = [how for how in data.joined[-len(data.covariates) :] if not how.startswith("the column")]
            listed = ", ".join([*list(data.covariates)[:10], *["…"] * (len(data.covariates) > 10)])
            task.append(" ".join([f"Covariates: {listed}.", *dict.fromkeys(files)]))
        names = targets if is_one else [targets[k] for k in members]
        results |= _screen(options, part, names, joined, task)
    seconds = clock() - started
    results = {target: results[target] for target in targets}
    try:
        _write_files(options, results, source, data.target)
    finally:  # a full disk must not hide the result
        _print_results(options, results, source, seconds)
    if options.prints_text:
        for file in filter(None, (options.output, options.report)):
            print_message(f"Wrote {file}.")


def group_responses(target: Array, is_one: bool) -> Iterator[tuple[list[int], Indices | None]]:
    """Group responses that can share a pass: all numbers or all as many classes, and known in the same rows.

    The columns of one response are a group: the rows in which all of them are known.
    """
    if is_one:
        known = ~find_missing(target).any(axis=1)
        yield list(range(target.shape[1])), None if known.all() else np.flatnonzero(known)
        return
    kinds = [count_classes(response) for response in target.T]
    for kind in dict.fromkeys(kinds):
        alike = [k for k, other in enumerate(kinds) if other == kind]
        for members, rows in rows_by_missingness(Responses(target[:, alike], has_missing=True)):
            complete = rows is None or len(rows) == len(target)
            yield [alike[k] for k in members], None if complete else rows


def _screen(
    options: ScreenOptions,
    data: Dataset,
    targets: Sequence[str],
    joined: Sequence[str],
    task: Sequence[str],
) -> dict[str, ScreeningResult]:
    """Screen responses that are known in all rows of the data."""
    source, response = data.features, data.target
    assert response is not None
    values = [response] if len(targets) == 1 else list(response.T)
    n_choose = _count_to_choose(options, *source.shape)
    printed = set[Plan]()

    def plan(design: SamplingDesign) -> Plan:
        made = _make_plan(options, source, n_choose, design)
        if options.verbose and options.prints_text and made not in printed:
            printed.add(made)
            rounded = resolve_row_order(source, made, options.row_order).plan
            blocks = source.block_rows if rounded.cells > made.cells else None
            _print_task(options.data, source, task, rounded, n_choose, blocks)
        return made

    def run(missing: str) -> Any:
        with ProgressBar(shown=False if options.quiet else None, delay=DELAY_SECONDS, transient=True) as bar:
            return screen(
                source,
                response,
                plan,
                statistic=options.statistic,
                row_order=options.row_order,
                sampling=options.sampling,
                missing=missing,
                covariates=data.covariates,
                sample_weight=data.weights,
                pvalues=options.pvalue_kind,
                n_choose=n_choose,
                n_jobs=options.jobs,
                random_state=options.seed,
                progress=bar,
            )

    def describe(found: Any) -> dict[str, ScreeningResult]:
        results = [found] if len(values) == 1 else found
        described = zip(targets, values, joined, results, strict=True)
        return {
            target: _describe(options, source, target, response, how, result)
            for target, response, how, result in described
            if result is not None
        }

    started = clock()
    try:
        found = _run_with_gaps(options, run)
    except Interrupted as interruption:
        if interruption.result is None:
            fail("interrupted before the first round was finished: there is no result.", INTERRUPTED)
        _print_results(options, describe(interruption.result), source, clock() - started)
        fail("interrupted: the result is that of the finished rounds; no file was written.", INTERRUPTED)
    results = describe(found)
    if options.fdr is None:
        return results
    kept = {target: keep_significant(result, options.fdr) for target, result in results.items()}
    return kept


def _run_with_gaps(options: ScreenOptions, run: Callable[[str], Any]) -> Any:
    """Run with missing values deleted pairwise, unless the options say otherwise.

    A guarantee, and a detection floor with covariates, are known for complete data only.
    """
    if options.missing is not None:
        return run(options.missing)
    if options.min_correlation is None and (options.exact or options.covariates is None):
        return run("pairwise")
    try:
        return run("raise")
    except MissingValueError:
        if options.min_correlation is not None:
            raise
        return run("pairwise")


def _describe(
    options: ScreenOptions,
    source: Source,
    target: str,
    values: Array,
    how: str,
    result: ScreeningResult,
) -> ScreeningResult:
    """The result with what the command knows about it; notes name options as the command does."""
    notes = list(result.notes)
    lost = "rows have a value" in how
    where = how.partition(": ")[0].rstrip(".")
    told = where == f"the column {target!r} of the data" or f"{where};" in " ".join(notes)
    if lost or not told:
        how = f"the target is {how}" if how.startswith("the column") else how
        notes.insert(0 if lost else len(notes), how)
    summary = summarize_response(values, find_statistic(options.statistic).by_class)
    about = replace(result.about, data=shown(options.data), contents=source.contents, command=options.command)
    about = replace(about, response_summary=summary)
    return replace(result, response=target, about=about, notes=tuple(map(name_options, notes)))


def _stored_target(path: str) -> str:
    """Return the name of the target that a shuffled store contains."""
    stored = _read_record(path)
    if stored is None or stored.target is None:
        raise UsageError(
            f"no target: set --target to the name of a column of {path}, to another file or to FILE:COLUMN."
        )
    return stored.target


def _read_record(path: str) -> Record | None:
    """The description of a shuffled store; None for other data."""
    if find_format(path) != "shuffled":
        return None
    from banditsis.index.folder import read_record

    return read_record(path)


def _wrap(source: Source, options: ScreenOptions, opening: Mapping[str, Any]) -> Source:
    """Wrap the data for interactions or for a cluster."""
    if options.interactions:
        from banditsis.sources.interactions.source import Interactions

        products = Interactions(source)
        products.notes = [*source.notes, *products.notes]
        return products
    if options.scheduler is not None:
        from banditsis.sources.dask import FileOnWorkers

        path = options.data if is_url(options.data) else Path(options.data).resolve()
        return FileOnWorkers(path, source, **opening)
    return source


def _count_to_choose(options: ScreenOptions, n: int, p: int) -> int | None:
    """Return how many features to choose without redundant ones; None for all that the plan keeps."""
    if not options.avoid_redundancy:
        return None
    return default_size(max(n, 3), p) if options.keep is None else min(options.keep, p)


def _make_plan(options: ScreenOptions, source: Source, n_choose: int | None, design: SamplingDesign) -> Plan:
    """The plan for the rows of a sampling design."""
    n, p = design.n_rows, source.shape[1]
    with usage_errors():
        keep = options.keep if n_choose is None else count_candidates(n_choose, p)
        plan = make_plan(
            n,
            p,
            keep if options.fdr is None else "fdr",
            exact=options.exact,
            alpha=options.alpha,
            budget=options.budget,
            min_correlation=options.min_correlation,
            confidence=check_confidence(options.confidence, options.min_correlation),
            rereads=find_statistic(options.statistic).rereads,
            pvalues=bool(options.pvalue_kind),
            n_selected=n_choose,
            design=design,
        )
    # What the user asks for on the command line is read, also where reading everything would be as fast.
    follow = options.budget is not None or options.min_correlation is not None
    return replace(plan, or_exact=None, why_exact="") if follow else plan


def _print_task(
    path: str, source: Source, joined: Sequence[str], plan: Plan, n_choose: int | None, rounded_to: int | None
) -> None:
    """Print what will be read; ``rounded_to`` are the rows of a block if the plan was rounded up."""
    n, p = source.shape
    size = format_bytes(n * p * source.dtype.itemsize)
    kept = f"keeps {count(plan.n_keep, 'feature')}" if plan.n_keep else "keeps every feature that passes"
    if n_choose is not None:
        kept += f" and chooses {n_choose:,} of them"
    why = "" if rounded_to is None else f", rounded up to whole blocks of {rounded_to:,} rows"
    cost = f"reads {plan.cells:,} cells ({format_share(plan.fraction)}){why}"
    for line in (
        f"Data:   {to_single_line(str(path))}: {format_label(find_format(path))}, {count(n, 'row')} × "
        f"{count(p, 'feature')}, {source.dtype}, {size}.",
        *map(to_single_line, joined),
        f"Plan:   {plan.name}, {count(plan.n_steps, 'round')}, {kept}, {cost}.",
        "",
    ):
        print_message(line, indent=8)


def _print_results(
    options: ScreenOptions, results: Mapping[str, ScreeningResult], source: Source, seconds: float
) -> None:
    """Print the results as JSON or text."""
    if options.as_json:
        print_output(_all(results).to_json(full=False))
    elif options.prints_text:
        found = list(results.values())
        n_bytes = [bytes_touched(source, result) for result in found]
        print_results(found, n_bytes, seconds, verbose=options.verbose)


def bytes_touched(source: Source, result: ScreeningResult) -> float:
    """Return the bytes of the pages, chunks or cache lines that the finished rounds have read."""
    touched = 0.0
    for finished in result.rounds:
        n_rows = finished.cells // max(1, finished.n_features)
        scattered = result.parameters["row_order"] == "random" and n_rows < result.n_rows
        touched += source.bytes_touched(n_rows, finished.n_features, scattered=scattered)
    return touched


def _all(results: Mapping[str, ScreeningResult]) -> ScreeningResult | ScreeningResults:
    """The result of one target, or those of several together."""
    found = list(results.values())
    return found[0] if len(found) == 1 else ScreeningResults(found)


def _write_files(
    options: ScreenOptions, results: Mapping[str, ScreeningResult], source: Source, target: Array
) -> None:
    """Write the files that were asked for; the report reads a sample of the data."""
    found = _all(results)
    if options.output is not None:
        with Workers(count_jobs(options.jobs)):
            write_output(found, options.output, all_features=options.all_features)
    if options.report is not None:
        found.to_html(options.report, X=source, y=_single_or_all(target))


def _single_or_all(target: Array) -> Array:
    """One response, or several as columns."""
    return target[:, 0] if target.shape[1] == 1 else target
