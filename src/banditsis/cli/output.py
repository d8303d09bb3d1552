"""Results as text on standard output, and in files."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.cli.terminal import UsageError, line_width, print_output, table_of_columns
from banditsis.core.arrays import Array
from banditsis.core.formatting import (
    count,
    encodable,
    format_duration,
    replacing,
    round_share,
    rounds_table,
    to_single_line,
)
from banditsis.core.validation import find_missing
from banditsis.results import Features, ScreeningResult, ScreeningResults, is_exact, list_features, sentences

#: Endings of the files that options name.
SUFFIXES = {"output": (".csv", ".parquet", ".json"), "report": (".html",), "plot": (".png", ".svg", ".pdf")}
#: Features of one target, and of each of several; notes; and classes of a target.
MAX_FEATURES, MAX_FEATURES_OF_SEVERAL, MAX_NOTES, MAX_CLASSES = 20, 5, 3, 5
#: How far names are shortened on a narrow terminal, and how long they are on a wide one.
MIN_NAME, MAX_NAME = 16, 32


def print_results(results: Sequence[ScreeningResult], *, verbose: bool) -> None:
    """Print the data, then what was found for each target; what several have in common is printed once."""
    first, several = results[0], len(results) > 1
    size = f"{first.about.data}: {count(max(result.n_rows for result in results), 'row')}"
    contents = first.about.contents or count(first.n_features, "feature")
    print_output(to_single_line(f"{size}, {contents}"), indent=2)
    printed, limit = set[str](), MAX_FEATURES_OF_SEVERAL if several else MAX_FEATURES
    for result in results:
        target = f"{result.about.response}: {sentences.describe_response(result)}"
        print_output("\n" * several + to_single_line(target) + "\n", indent=2)
        if verbose:
            print_output(rounds_table(result.rounds) + "\n")
        if len(result.selected):
            print_output(features_table(result.features.take(slice(limit)), verbose=verbose))
        if (n_more := len(result.selected) - limit) > 0:
            print_output(f"… and {n_more:,} more: use --output or --json to list all.")
        lines = _describe_run(result, verbose)
        for line in (sentences.describe_answer(result), *lines):
            if line and line not in printed:
                print_output(sentences.sentence(line), indent=0)
        _print_notes([note for note in result.notes if note not in printed], result, verbose)
        printed |= {*lines, *result.notes}


def features_table(features: Features, *, verbose: bool = False) -> str:
    """A table of features that fits the terminal; ``verbose`` adds intervals, adjusted p and present rows."""
    texts = features.texts()
    for heading in () if verbose else ("adjusted p", "present", *(["95% interval"] if "p" in texts else [])):
        texts.pop(heading, None)
    if "evidence" in texts:
        texts[""] = texts.pop("evidence")
    columns = {"rank": list(map(str, features["rank"])), "feature": [""] * len(features), **texts}
    taken = max(map(len, table_of_columns(columns, left=()).splitlines())) - len("feature")
    columns["feature"] = features.labels(min(max(line_width(sys.stdout) - taken, MIN_NAME), MAX_NAME))
    return table_of_columns(columns, left=("feature", ""))


def _describe_run(result: ScreeningResult, verbose: bool) -> list[str]:
    """What was read, and if ``verbose`` the plan, the time and what sampled rows are worth."""
    inflation = sentences.describe_inflation(result) if "chromosome" in result.annotations else ""
    lines = [sentences.describe_run(result), inflation]
    if not verbose:
        return lines
    seed = "" if is_exact(result) else f", seed {result.parameters['seed']}"
    seconds = format_duration(sum(step.seconds for step in result.rounds))
    plan = f"plan {result.parameters['plan']!r} took {seconds}{seed}."
    floor = sentences.describe_floor(result) if is_exact(result) else ""
    return [*lines, plan, sentences.describe_sampling(result), floor]


def _print_notes(notes: Sequence[str], result: ScreeningResult, verbose: bool) -> None:
    """Print the first notes, which are the most important ones, except for what the first lines say."""
    told = ("skipped ",) if result.about.contents and not verbose else ()
    reading = sentences.describe_reading(result)
    left = [note for note in notes if note != reading and not note.startswith(told)]
    for note in left if verbose else left[:MAX_NOTES]:
        print_output(f"Note: {to_single_line(note)}", indent=6)
    if not verbose and (n_more := len(left) - MAX_NOTES) > 0:
        print_output(f"{count(n_more, 'more note')}: use --verbose.")


def summarize_response(values: Array, by_class: bool = False) -> str:
    """The share of each class, the class that counts as 1 first, or mean and range of numbers.

    Numbers are classes if the statistic is ``by_class``.
    """
    if values.ndim > 1:  # time and event
        return count(int(np.count_nonzero(values[:, -1])), "event")
    values = values[~find_missing(values)]
    if values.dtype.kind in "fiu" and not by_class:
        with np.errstate(over="ignore", invalid="ignore"):
            return f"mean {values.mean():.4g}, from {values.min():.4g} to {values.max():.4g}"
    labels, counts = np.unique(values.astype(str), return_counts=True)
    order = [1, 0] if len(labels) == 2 else np.argsort(-counts, kind="stable")
    shares = [f"{labels[k]} {round_share(counts[k] / len(values))}" for k in order]
    more = f" and {len(shares) - MAX_CLASSES:,} more" if len(shares) > MAX_CLASSES else ""
    return ", ".join(shares[:MAX_CLASSES]) + more


def check_output(path: Path, option: str, inputs: Iterable[Path]) -> None:
    """Raise if a file cannot be written or would overwrite an input, before any data are read."""
    what, resolved, endings = f"--{option} {path}", path.resolve(), " or ".join(SUFFIXES[option])
    if path.suffix.lower() not in SUFFIXES[option]:
        raise UsageError(f"{what} must end in {endings}: the suffix sets the format.")
    try:
        tempfile.NamedTemporaryFile(dir=path.absolute().parent, prefix=path.name).close()
    except OSError as error:
        raise UsageError(f"{what} cannot be written: {error.strerror}.") from None
    if path.is_dir():
        raise UsageError(f"{what} is a folder: give the name of a file.")
    for given in inputs:
        is_within = given.resolve() in (resolved, *resolved.parents)
        if is_within or (path.exists() and given.exists() and path.samefile(given)):
            raise UsageError(f"{what} would change the input {given}: choose another file.")


def write_output(
    result: ScreeningResult | ScreeningResults, path: Path, *, all_features: bool = False
) -> None:
    """Write the selected features, or all, as CSV or Parquet, or the whole result as JSON."""
    with replacing(path) as part:
        match path.suffix.lower():
            case ".json":
                part.write_text(result.to_json() + "\n", encoding="utf-8")
            case ".parquet":
                import pyarrow.parquet as pq

                pq.write_table(_to_table(result, all_features), part)
            case _:
                from pyarrow.csv import write_csv

                write_csv(_to_table(result, all_features), part)


def _to_table(result: ScreeningResult | ScreeningResults, all_features: bool) -> Any:
    """The columns of :meth:`ScreeningResult.to_frame` as an Arrow table; several targets have their names."""
    import pyarrow as pa

    if isinstance(result, ScreeningResult):
        return pa.table(dict(list_features(result, all_features).columns))
    tables = []
    for name, one in zip(result.names, result.results, strict=True):
        features = list_features(one, all_features)
        target = pa.repeat(encodable(name), len(features))
        tables.append(pa.table({"target": target, **features.columns}))
    return pa.concat_tables(tables, promote_options="permissive")
