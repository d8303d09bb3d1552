"""``banditsis screen``: select the features of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace as Options
from typing import Any

import click
import numpy as np

from banditsis.cli import output, terminal
from banditsis.core.validation import MissingValueError, count_classes, find_missing
from banditsis.formats import dataset, files, opening
from banditsis.plans import check_confidence, check_exclusive
from banditsis.results import Interrupted, ScreeningResult, ScreeningResults
from banditsis.screening import screen
from banditsis.statistics import find_statistic

#: Options for :func:`open_data`, and for :func:`screen`.
READING = ("columns", "drop", "id_column", "one_hot", "dates", "na", "memory_limit")
SCREENING = (
    *("keep", "fdr", "exact", "max_samples", "alpha", "budget", "min_correlation", "confidence"),
    *("statistic", "row_order", "sampling", "pvalues", "avoid_redundancy", "n_jobs"),
)
#: Options of which only one can be set, and those that cannot be combined with iterations.
EXCLUSIVE = (
    *("exact alpha budget min_correlation", "exact row_order", "keep fdr", "min_correlation fdr"),
    *("avoid_redundancy fdr", "covariates by", "quiet verbose"),
)
NOT_ITERATIVE = ("fdr", "min_correlation", "pvalues", "avoid_redundancy", "sample_weight", "by", "missing")


def run_screen(**given: Any) -> None:
    """Screen a file, print the result and write it to files."""
    options = Options(**given, plot=None, max_samples=None)
    check_options(options)
    data, targets = open_target(options)
    found, interrupted = screen_data(data, options)
    results = list(_describe(found, data, targets, options))
    if not results:
        terminal.fail("interrupted before the first round was finished: there is no result.")
    together = results[0] if len(results) == 1 else ScreeningResults(results)
    try:
        if options.output is not None and not interrupted:
            output.write_output(together, options.output, all_features=options.all_features)
        if options.report is not None and not interrupted:
            together.to_html(options.report)
    finally:  # a full disk must not hide the result
        if options.as_json:
            terminal.print_output(together.to_json())
        elif not options.quiet:
            output.print_results(results, verbose=options.verbose)
    if interrupted:
        terminal.fail("interrupted: the result is that of the finished rounds; no file was written.")
    if not (options.quiet or options.as_json):
        for file in filter(None, (options.output, options.report)):
            terminal.print_message(f"Wrote {file}.")


def check_options(options: Options) -> None:
    """Raise for invalid options before any data are read."""
    given = {name: None if value in (False, "auto", ()) else value for name, value in vars(options).items()}
    with terminal.usage_errors():
        check_confidence(options.confidence, options.min_correlation)
        for names in (*EXCLUSIVE, *(f"iterative {name}" for name in NOT_ITERATIVE)):
            check_exclusive({f"--{name.replace('_', '-')}": given[name] for name in names.split()})
    n_targets, n_columns = len(options.target), find_statistic(options.statistic).n_columns
    if n_targets != n_columns > 1:
        raise terminal.UsageError(
            f"--statistic {options.statistic} needs two targets, the time and the event (1, or 0 if "
            f"censored), got {n_targets}: --target time --target event."
        )
    if n_targets > len(set(options.target)):
        raise terminal.UsageError("the same --target is given twice: give each target once.")
    if options.all_features and (options.output is None or options.output.suffix.lower() == ".json"):
        raise terminal.UsageError("--all-features needs a table: set --output to a .csv or .parquet file.")
    inputs: list[Any] = [files.local_path(options.data)]
    for name in filter(None, (*options.target, *options.covariates, options.sample_weight)):
        with suppress(FileNotFoundError):  # a column, or a file that is reported when it is opened
            inputs.append(dataset.find_place(name).file)
    for option in output.SUFFIXES:
        if path := getattr(options, option):
            output.check_output(path, option, [file for file in inputs if isinstance(file, Path)])


def _pick(options: Options, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names}


def open_target(options: Options) -> tuple[dataset.Dataset, list[str]]:
    """The data that the options describe, and the names of the targets."""
    targets = list(options.target) or [_stored_target(options.data)]
    data = dataset.open_data(
        options.data,
        targets[0] if len(targets) == 1 else targets,
        covariates=options.covariates or tuple(filter(None, [options.by])),
        sample_weight=options.sample_weight,
        **_pick(options, READING),
    )
    if options.interactions:
        from banditsis import Interactions  # rarely needed

        data = data._replace(features=Interactions(data.features))
    values = np.asarray(data.target)
    if len({count_classes(column) > 0 for column in np.atleast_2d(values.T)}) > 1:
        raise ValueError("the targets are numbers and labels: screen them one by one.")
    if find_statistic(options.statistic).n_columns == 1:
        return data, targets
    rows = np.flatnonzero(~find_missing(values).any(axis=1))  # in which time and event are known
    covariates = data.covariates and {name: column[rows] for name, column in data.covariates.items()}
    weights = None if data.sample_weight is None else data.sample_weight[rows]
    known: Any = {"target": values[rows], "covariates": covariates, "sample_weight": weights}
    return data._replace(features=data.features[rows], **known), targets


def _stored_target(path: str) -> str:
    """The name of the target that an index contains."""
    if opening.find_format(path) == "index":
        source: Any = opening.open_source(path)
        if source.target is not None:
            return str(source.target)
    raise terminal.UsageError(
        f"no target: set --target to the name of a column of {path}, to another file or to FILE:COLUMN."
    )


def screen_data(data: dataset.Dataset, options: Options) -> tuple[Sequence[ScreeningResult | None], bool]:
    """Screen responses that are known in all rows, and tell whether the run was interrupted.

    By default missing values are deleted pairwise, after an attempt without this, because complete data are
    read faster. A guarantee, and a detection floor with covariates, are known for complete data only.
    """
    needs_complete = options.iterative or options.min_correlation is not None
    missing = options.missing or ("raise" if needs_complete else "pairwise")
    may_have_gaps = options.missing or options.exact or find_missing(np.asarray(data.target)).any()
    try:
        if missing == "pairwise" and not may_have_gaps:
            with suppress(MissingValueError):
                return screen_once(data, options, "raise"), False
        return screen_once(data, options, missing), False
    except Interrupted as interruption:
        finished = interruption.result
        return finished if isinstance(finished, list) else [finished], True


def screen_once(data: dataset.Dataset, options: Options, missing: str) -> list[ScreeningResult]:
    """Screen each response, or in iterations a single one."""
    common: Any = {"random_state": options.seed, "progress": False if options.quiet else None}
    if options.iterative:
        from banditsis import SIS, BanditSIS, IterativeSIS  # need scikit-learn, which loads slowly

        common |= _pick(options, ("statistic", "n_jobs"))
        adaptive = _pick(options, ("alpha", "budget", "row_order", "sampling"))
        screener: Any = SIS(**common) if options.exact else BanditSIS(**common, **adaptive)
        selector: Any = IterativeSIS(options.keep, screener=screener)
        return [selector.fit(data.features, data.target, covariates=data.covariates).result_]
    if options.by is None:
        common["covariates"] = data.covariates
    elif data.covariates is not None:
        (common["by"],) = data.covariates.values()
    weights, settings = data.sample_weight, _pick(options, SCREENING)
    found = screen(data.features, data.target, **settings, missing=missing, sample_weight=weights, **common)
    return [found] if isinstance(found, ScreeningResult) else list(found)


def _describe(
    found: Sequence[ScreeningResult | None], data: dataset.Dataset, targets: list[str], options: Options
) -> Iterator[ScreeningResult]:
    """The results with what the command knows about them; notes name options as the command does."""
    target, by_class = np.asarray(data.target), find_statistic(options.statistic).by_class
    single = len(found) == 1
    names, columns = ([", ".join(targets)], [target]) if single else (targets, target.T)
    for result, name, values, how in zip(found, names, columns, data.joined, strict=False):
        if result is None:
            continue
        notes, some_rows = list(result.notes), "rows have a value" in how
        if not how.startswith("the column"):
            notes.insert(0 if some_rows else len(notes), how)
        elif single and some_rows:
            notes.insert(0, f"the target is {how}")
        about = replace(
            result.about,
            response=name,
            data=options.data,
            contents=data.features.contents,
            response_summary=output.summarize_response(values, by_class),
            command=click.get_current_context().meta["command"],
        )
        yield replace(result, about=about, notes=tuple(map(terminal.name_options, notes)))
