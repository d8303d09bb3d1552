"""``banditsis screen``: select the features of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np

from banditsis.cli.output import check_output, print_results, summarize_response, write_output
from banditsis.cli.terminal import (
    INTERRUPTED,
    UsageError,
    fail,
    name_options,
    print_message,
    print_output,
    usage_errors,
)
from banditsis.core.progress import clock
from banditsis.core.validation import MissingValueError, check_real, count_classes, find_missing
from banditsis.engine.redundancy import find_sizes
from banditsis.formats.dataset import Dataset, open_dataset
from banditsis.formats.join import find_place
from banditsis.formats.opening import find_format, is_url, local_path
from banditsis.formats.options import ReadOptions
from banditsis.plans import Plan, SamplingDesign, check_confidence, check_exclusive, make_plan
from banditsis.results.result import Interrupted, ScreeningResult, keep_significant
from banditsis.results.several import ScreeningResults
from banditsis.screening import screen
from banditsis.sources.base import Source
from banditsis.sources.views import take_original_rows
from banditsis.statistics import find_statistic

#: Options for :func:`open_source`, for :func:`make_plan`, and for :func:`screen`.
READING = ("columns", "drop", "id_column", "one_hot", "dates", "na", "memory_limit")
PLANNING = ("exact", "alpha", "budget", "min_correlation", "confidence")
SCREENING = ("statistic", "row_order", "sampling", "pvalues")
#: Options that cannot be combined with iterations.
NOT_ITERATIVE = ("fdr", "min_correlation", "pvalues", "avoid_redundancy", "sample_weight", "by", "missing")
#: Options of which only one can be set.
EXCLUSIVE = (
    ("exact", "alpha", "budget", "min_correlation"),
    ("exact", "row_order"),
    ("keep", "fdr"),
    ("min_correlation", "fdr"),
    ("avoid_redundancy", "fdr"),
    *(("iterative", name) for name in NOT_ITERATIVE),
    ("covariates", "by"),
    ("scheduler", "interactions"),
    ("quiet", "verbose"),
)


def run(data: str, **given: Any) -> None:
    """Screen a file, print the result and write it to files."""
    options = SimpleNamespace(data=data, **given)
    check_options(options)
    options.pvalues = options.pvalues or options.fdr is not None
    connection: Any = nullcontext()
    if options.scheduler is not None:
        from banditsis.sources.dask import connected

        connection = connected(options.scheduler)
    with connection:
        _run(options)


def check_options(options: SimpleNamespace) -> None:
    """Raise for invalid options before any data are read."""
    given = {name: None if value in (False, "auto", ()) else value for name, value in vars(options).items()}
    with usage_errors():
        check_confidence(options.confidence, options.min_correlation)
        for names in EXCLUSIVE:
            check_exclusive({f"--{name.replace('_', '-')}": given[name] for name in names})
        if options.fdr is not None:
            check_real("--fdr", options.fdr, 0, 1)
    n_targets, n_columns = len(options.target), find_statistic(options.statistic).n_columns
    if n_targets != n_columns > 1:
        raise UsageError(
            f"--statistic {options.statistic} needs two targets, the time and the event (1, or 0 if "
            f"censored), got {n_targets}: --target time --target event."
        )
    if repeated := [target for target in options.target if options.target.count(target) > 1]:
        raise UsageError(f"--target {repeated[0]} is given twice: give each target once.")
    if options.n_jobs == 0:
        raise UsageError("--n-jobs must not be 0: give a number of threads, or omit it to use all cores.")
    if options.all_features and (options.output is None or options.output.suffix.lower() == ".json"):
        raise UsageError("--all-features needs a table to write: set --output to a .csv or .parquet file.")
    inputs: list[Any] = [local_path(options.data)]
    for given_file in filter(None, (*options.target, *options.covariates, options.sample_weight)):
        with suppress(FileNotFoundError):  # a column, or a file that is reported when it is opened
            inputs.append(find_place(given_file).file)
    for name, suffixes in (("output", (".csv", ".parquet", ".json")), ("report", (".html",))):
        if (path := getattr(options, name)) is not None:
            check_output(path, suffixes, f"--{name}", [file for file in inputs if isinstance(file, Path)])


def _pick(options: SimpleNamespace, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names}


def open_target(options: SimpleNamespace) -> tuple[Dataset, list[str]]:
    """The data that the options describe, and the names of the targets."""
    path = options.data
    targets = list(options.target) or [_stored_target(path)]
    opening = _pick(options, READING)
    beside = options.covariates or tuple(filter(None, [options.by]))
    roles = {"covariates": beside, "sample_weight": options.sample_weight}
    target = targets[0] if len(targets) == 1 else targets
    data = open_dataset(path, target, ReadOptions(**opening, command_line=True), **roles)
    opening |= roles | {"target": tuple(targets)}
    data = data._replace(features=_wrap(data.features, options, opening))
    if len({count_classes(column) > 0 for column in np.atleast_2d(np.asarray(data.target).T)}) > 1:
        raise ValueError("the targets are numbers and labels: screen them one by one.")
    return (_known_events(data) if find_statistic(options.statistic).n_columns > 1 else data), targets


def _run(options: SimpleNamespace) -> None:
    data, targets = open_target(options)
    started = clock()
    found, interrupted = screen_data(data, options)
    seconds = clock() - started
    results = list(_describe(found, data, targets, options))
    if not results:
        fail("interrupted before the first round was finished: there is no result.", INTERRUPTED)
    together = results[0] if len(results) == 1 else ScreeningResults(results)
    try:
        if options.output is not None and not interrupted:
            write_output(together, options.output, all_features=options.all_features)
        if options.report is not None and not interrupted:
            together.to_html(options.report)
    finally:  # a full disk must not hide the result
        if options.as_json:
            print_output(together.to_json())
        elif not options.quiet:
            print_results(results, seconds, verbose=options.verbose)
    if interrupted:
        fail("interrupted: the result is that of the finished rounds; no file was written.", INTERRUPTED)
    if not (options.quiet or options.as_json):
        for file in filter(None, (options.output, options.report)):
            print_message(f"Wrote {file}.")


def _stored_target(path: str) -> str:
    """The name of the target that an index contains."""
    if find_format(path) == "index":
        from banditsis.index.reader import IndexSource

        if (target := IndexSource(path).target) is not None:
            return target
    raise UsageError(
        f"no target: set --target to the name of a column of {path}, to another file or to FILE:COLUMN."
    )


def _wrap(source: Source, options: SimpleNamespace, opening: dict[str, Any]) -> Source:
    """The features for interactions or for a cluster, whose workers open the data themselves."""
    if options.interactions:
        from banditsis.sources.interactions import Interactions

        products = Interactions(source)
        products.notes = [*source.notes, *products.notes]
        return products
    if options.scheduler is not None:
        from banditsis.sources.dask import FileOnWorkers

        path = options.data if is_url(options.data) else Path(options.data).resolve()
        return FileOnWorkers(path, source, **opening)
    return source


def _known_events(data: Dataset) -> Dataset:
    """The rows in which all targets are known, which are the columns of one response."""
    target = np.asarray(data.target)
    rows = np.flatnonzero(~find_missing(target).any(axis=1))
    return data._replace(
        features=take_original_rows(data.features, rows),
        target=target[rows],
        covariates=data.covariates and {name: column[rows] for name, column in data.covariates.items()},
        sample_weight=None if data.sample_weight is None else data.sample_weight[rows],
    )


def screen_data(data: Dataset, options: SimpleNamespace) -> tuple[Sequence[ScreeningResult | None], bool]:
    """Screen responses that are known in all rows, and tell whether the run was interrupted."""
    n, p = data.features.shape
    n_keep, n_choose = find_sizes(options.keep, n, p, options.avoid_redundancy)
    make: Callable[[SamplingDesign], Plan] = partial(
        make_plan,
        p=p,
        d=n_keep,
        by_fdr=options.fdr is not None,
        **_pick(options, PLANNING),
        rereads=find_statistic(options.statistic).rereads,
        pvalues=bool(options.pvalues),
        n_selected=n_choose,
    )

    def plan(design: SamplingDesign) -> Plan:
        with usage_errors():
            plan = make(design)
        # What the user asks for is read, also where reading everything would be as fast.
        follow = options.budget is not None or options.min_correlation is not None
        return replace(plan, or_exact=None, why_exact="") if follow else plan

    beside: Any = data.covariates
    if options.by is not None:
        (beside,) = beside.values()

    def run_with(missing: str) -> Any:
        if options.iterative:
            return _screen_iteratively(data, options)
        return screen(
            data.features,
            data.target,
            plan,
            **_pick(options, SCREENING),
            missing=missing,
            **{"by" if options.by else "covariates": beside},
            sample_weight=data.sample_weight,
            avoid_redundancy=n_choose or False,
            n_jobs=options.n_jobs,
            random_state=options.seed,
            progress=False if options.quiet else None,
        )

    try:
        found = _run_with_gaps(run_with, data, options)
    except Interrupted as interruption:
        finished = interruption.result
        return finished if isinstance(finished, list) else [finished], True
    results = [found] if isinstance(found, ScreeningResult) else list(found)
    if options.fdr is not None:
        results = [keep_significant(result, options.fdr) for result in results]
    return results, False


def _screen_iteratively(data: Dataset, options: SimpleNamespace) -> ScreeningResult | ScreeningResults:
    """The result of :class:`banditsis.IterativeSIS` with the screener that the options describe."""
    from banditsis.estimators import SIS, BanditSIS  # need scikit-learn, which loads slowly
    from banditsis.iterative import IterativeSIS

    common = {
        "statistic": options.statistic,
        "n_jobs": options.n_jobs,
        "random_state": options.seed,
        "progress": False if options.quiet else None,
    }
    adaptive = {name: getattr(options, name) for name in ("alpha", "budget", "row_order", "sampling")}
    screener: Any = SIS(**common) if options.exact else BanditSIS(**common, **adaptive)
    selector = IterativeSIS(options.keep, screener=screener)
    return selector.fit(data.features, data.target, covariates=data.covariates).result_


def _run_with_gaps(run_with: Callable[[str], Any], data: Dataset, options: SimpleNamespace) -> Any:
    """Run with missing values deleted pairwise, unless options say otherwise; complete data are read faster.

    A guarantee, and a detection floor with covariates, are known for complete data only.
    """
    if options.iterative or options.missing is not None or options.min_correlation is not None:
        return run_with(options.missing or "raise")
    if not options.exact and not find_missing(np.asarray(data.target)).any():
        with suppress(MissingValueError):
            return run_with("raise")
    return run_with("pairwise")


def _describe(
    found: Sequence[ScreeningResult | None], data: Dataset, targets: Sequence[str], options: SimpleNamespace
) -> Iterator[ScreeningResult]:
    """The results with what the command knows about them; notes name options as the command does."""
    target, by_class = np.asarray(data.target), find_statistic(options.statistic).by_class
    single = len(found) == 1
    names, columns = ([", ".join(targets)], [target]) if single else (targets, target.T)
    for result, name, values, how in zip(found, names, columns, data.joined, strict=False):
        if result is not None:
            notes = [*result.notes]
            is_column = how.startswith("the column")
            if "rows have a value" in how and (single or not is_column):
                notes.insert(0, f"the target is {how}" if is_column else how)
            elif not is_column and not any(note.startswith(how.split(";")[0].rstrip(".")) for note in notes):
                notes.append(how)
            about = replace(
                result.about,
                response=name,
                data=options.data,
                contents=data.features.contents,
                response_summary=summarize_response(values, by_class),
                command=click.get_current_context().meta["command"],
            )
            yield replace(result, about=about, notes=tuple(map(name_options, notes)))
