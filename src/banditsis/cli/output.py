"""Results on the terminal and in files."""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.cli.errors import UsageError
from banditsis.cli.terminal import line_width, print_output
from banditsis.core.arrays import Array
from banditsis.core.formatting import (
    count,
    encodable,
    format_bytes,
    format_duration,
    format_share,
    replacing,
    round_share,
    rounds_table,
    text_table,
    to_single_line,
)
from banditsis.core.parallel import map_in_threads
from banditsis.results.features import Features, describe_features
from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import (
    describe_answer,
    describe_floor,
    describe_gaps,
    describe_inflation,
    describe_reading,
    describe_response,
    describe_run,
    describe_sampling,
    sentence,
)
from banditsis.results.several import ScreeningResults

#: Features of one target, and of each of several.
MAX_FEATURES_SHOWN, MAX_FEATURES_OF_SEVERAL = 20, 5
MAX_NOTES_SHOWN = 3
MAX_CLASSES_SHOWN = 5
#: Features of a file that are made into text at once, which bounds the memory.
FEATURES_AT_ONCE = 1 << 16
#: How far names are shortened on a narrow terminal, and how long they are on a wide one.
MIN_NAME, MAX_NAME = 16, 32


def print_results(
    results: Sequence[ScreeningResult], n_bytes: Sequence[float], seconds: float, *, verbose: bool
) -> None:
    """Print the data, then what was found for each target; what all targets have in common comes last."""
    first, several = results[0], len(results) > 1
    size = f"{first.about.data}: {count(max(result.n_rows for result in results), 'row')}"
    print_output(
        to_single_line(f"{size}, {first.about.contents or count(first.n_features, 'feature')}"), indent=2
    )
    read_alike = several and first.is_exact and len(set(map(describe_reading, results))) == 1
    shared = [note for note in first.notes if several and all(note in result.notes for result in results)]
    for result, touched in zip(results, n_bytes, strict=True):
        if several:
            print_output("")
        _print_result(result, MAX_FEATURES_OF_SEVERAL if several else MAX_FEATURES_SHOWN, verbose, read_alike)
        if verbose:
            _print_cost(result, touched, seconds)
        own = [note for note in result.notes if note not in shared]
        _print_notes([*own, *(result.details if verbose else ())], result, verbose)
    if read_alike or shared:
        print_output("")
    if read_alike:
        print_output(sentence(describe_reading(first)), indent=0)
    _print_notes(shared, first, verbose)


def _print_result(result: ScreeningResult, limit: int, verbose: bool, omit_reading: bool) -> None:
    """Print the target, the best features and what is known about them."""
    print_output(to_single_line(f"{result.response}: {describe_response(result)}") + "\n", indent=2)
    if verbose:
        print_output(rounds_table(result.rounds) + "\n")
    if len(result.selected):
        print_output(features_table(result.features.take(slice(limit)), verbose=verbose))
    if (n_more := len(result.selected) - limit) > 0:
        print_output(f"… and {n_more:,} more: use --output or --json to list all.")
    run = describe_gaps(result) if omit_reading else describe_run(result)
    inflation = describe_inflation(result) if "chromosome" in result.annotations else ""
    for text in filter(None, (sentence(describe_answer(result)), run, sentence(inflation))):
        print_output(text, indent=0)


def _print_cost(result: ScreeningResult, n_bytes: float, seconds: float) -> None:
    """Print what few readers need: the cells and bytes read, the time, and what sampled rows are worth."""
    seed = "" if result.is_exact else f", seed {result.parameters['seed']}"
    cost = (
        f"{len(result.selected):,} of {count(result.n_features, 'feature')} selected; read "
        f"{result.cells_read:,} of {result.n_rows * result.n_features:,} cells "
        f"({format_share(result.fraction_read)}), touching {format_bytes(n_bytes)}, in "
        f"{format_duration(seconds)}{seed}."
    )
    floor = describe_floor(result) if result.is_exact else ""
    for line in filter(None, (cost, describe_sampling(result), floor)):
        print_output(sentence(line), indent=0)


def _print_notes(notes: Sequence[str], result: ScreeningResult, verbose: bool) -> None:
    """Print the most important notes, except for what the first lines say."""
    told = ("skipped ",) if result.about.contents and not verbose else ()
    left = [note for note in notes if note != describe_reading(result) and not note.startswith(told)]
    for note in left if verbose else left[:MAX_NOTES_SHOWN]:
        print_output(f"Note: {to_single_line(note)}", indent=6)
    if not verbose and (n_more := len(left) - MAX_NOTES_SHOWN) > 0:
        print_output(f"{count(n_more, 'more note')}: use --verbose.")


def summarize_response(values: Array, by_class: bool = False) -> str:
    """The share of each class, the class that counts as 1 first, or mean and range of numbers.

    Numbers are classes if the statistic is ``by_class``.

    Examples
    --------
    >>> summarize_response(np.array(["No", "Yes", "No"])), summarize_response(np.array([1.0, 2.0, 6.0]))
    ('Yes 33%, No 67%', 'mean 3, from 1 to 6')
    """
    if values.ndim > 1:  # time and event
        return count(int(np.count_nonzero(values[:, -1])), "event")
    if values.dtype.kind in "fiu" and not by_class:
        with np.errstate(over="ignore", invalid="ignore"):
            return f"mean {values.mean():.4g}, from {values.min():.4g} to {values.max():.4g}"
    labels, counts = np.unique(values.astype(str), return_counts=True)
    order = [1, 0] if len(labels) == 2 else np.argsort(-counts, kind="stable")
    shares = [f"{labels[k]} {round_share(counts[k] / len(values))}" for k in order]
    more = f" and {len(shares) - MAX_CLASSES_SHOWN:,} more" if len(shares) > MAX_CLASSES_SHOWN else ""
    return ", ".join(shares[:MAX_CLASSES_SHOWN]) + more


def features_table(features: Features, *, verbose: bool = False) -> str:
    """Format features as a table; ``verbose`` adds intervals, q-values and present rows."""
    texts = features.texts()
    if not verbose:
        left_out = {"q", "present"} | ({"95% interval"} if "p" in texts else set())
        texts = {heading: column for heading, column in texts.items() if heading not in left_out}
    headings = ["rank", *("" if heading == "evidence" else heading for heading in texts)]
    rows = list(zip(map(str, features["rank"]), *texts.values(), strict=True))
    taken = max(map(len, text_table(headings, rows).splitlines()))
    room = min(max(line_width(sys.stdout) - taken - 2, MIN_NAME), MAX_NAME)  # what a line has left
    table = [[rank, name, *rest] for name, (rank, *rest) in zip(features.labels(room), rows, strict=True)]
    headings.insert(1, "feature")
    return text_table(
        headings, table, "><".ljust(len(headings) - 1, ">") + ("<" if headings[-1] == "" else ">")
    )


def check_output(path: Path, suffixes: tuple[str, ...], option: str, inputs: Iterable[Path]) -> None:
    """Raise if a file cannot be written or would overwrite an input, before any data are read."""
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{option} {path} must end in {' or '.join(suffixes)}: the suffix sets the format.")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"{option} {path}: the folder {folder} does not exist.")
    try:
        tempfile.NamedTemporaryFile(dir=folder, prefix=path.name).close()
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be written: {error.strerror}.") from None
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder: give the name of a file.")
    for given in inputs:
        if _is_within(path, given):
            raise UsageError(f"{option} {path} would change the input {given}: choose another file.")


def _is_within(path: Path, given: Path) -> bool:
    """Whether a path is the given file or folder, by any of its names, or lies in the folder."""
    resolved = path.resolve()
    if given.resolve() in (resolved, *resolved.parents):
        return True
    return path.exists() and given.exists() and path.samefile(given)


def write_output(
    result: ScreeningResult | ScreeningResults, path: Path, *, all_features: bool = False
) -> None:
    """Write the selected features, or all, as CSV or Parquet, or the whole result as JSON."""
    suffix = path.suffix.lower()
    with replacing(path) as part:
        if suffix == ".json":
            part.write_text(result.to_json() + "\n", encoding="utf-8")
        elif suffix == ".csv":
            _write_csv(_output_tables(result, all_features), part)
        else:
            _write_parquet(_output_tables(result, all_features), part)


def _output_tables(
    result: ScreeningResult | ScreeningResults, all_features: bool
) -> Iterator[dict[str, list[Any]]]:
    """The columns of :meth:`ScreeningResult.to_frame`, a table for some of the features of each target.

    The first table is an example of all columns, with one feature.
    """
    if isinstance(result, ScreeningResult):
        together, columns = ScreeningResults([result]), dict[str, list[Any]]()
    else:
        together, columns = result, {"target": [""]}
    for example in map_in_threads(_example, together.results):
        columns |= {k: v for k, v in example.items() if columns.get(k, [None]) == [None]}
    yield columns
    for one, target in zip(together, together.names, strict=True):
        chosen = np.argsort(one.ranking) if all_features else one.selected
        for start in range(0, len(chosen), FEATURES_AT_ONCE):
            some = describe_features(one, chosen[start : start + FEATURES_AT_ONCE])
            found = some.to_lists() | {"target": [encodable(target)] * len(some)}
            yield {name: found.get(name, [None] * len(some)) for name in columns}


def _example(result: ScreeningResult) -> dict[str, list[Any]]:
    """All columns, with the first selected feature if there is one."""
    chosen = result.selected[:1] if len(result.selected) else np.arange(1)
    return describe_features(result, chosen).to_lists()


def _write_csv(tables: Iterator[dict[str, list[Any]]], path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(next(tables))
        for table in tables:
            writer.writerows(zip(*table.values(), strict=True))


def _write_parquet(tables: Iterator[dict[str, list[Any]]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.table(next(tables)).schema
    waiting, n_rows = [schema.empty_table()], 0
    with pq.ParquetWriter(path, schema) as writer:
        for table in tables:
            waiting.append(pa.table(table, schema=schema))
            n_rows += len(waiting[-1])
            if n_rows >= FEATURES_AT_ONCE:  # those of many targets share a row group
                writer.write_table(pa.concat_tables(waiting))
                waiting, n_rows = [], 0
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
