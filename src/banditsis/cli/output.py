"""Results on the terminal and in files."""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.cli.errors import UsageError
from banditsis.cli.terminal import line_width, print_output
from banditsis.formatting import (
    count,
    encodable,
    format_bytes,
    format_duration,
    format_share,
    replacing,
    rounds_table,
    short_labels,
    text_table,
    to_single_line,
)
from banditsis.multiresponse import ScreeningResults
from banditsis.parallel import map_in_threads
from banditsis.results import (
    ScreeningResult,
    describe_associated,
    describe_floor,
    describe_inflation,
    describe_sampling,
    feature_columns,
)

MAX_FEATURES_SHOWN = 20
#: Features of a file that are made into text at once, which bounds the memory.
FEATURES_AT_ONCE = 1 << 16
#: How far names are shortened on a narrow terminal, and how long they are on a wide one.
MIN_NAME, MAX_NAME = 16, 32


def print_result(result: ScreeningResult, n_bytes: float, seconds: float) -> None:
    """Print the rounds, the best features, the cost, the detection floor and the notes."""
    n_selected, n_cells = len(result.selected), result.n_rows * result.n_features
    seed = "" if result.is_exact else f", seed {result.parameters['seed']}"
    print_output(rounds_table(result.rounds) + "\n")
    print_output(features_table(result, MAX_FEATURES_SHOWN))
    if n_selected > MAX_FEATURES_SHOWN:
        print_output(f"… and {n_selected - MAX_FEATURES_SHOWN:,} more: use --output or --json to list all.")
    print_output(
        f"\n{n_selected:,} of {count(result.n_features, 'feature')} selected; read {result.cells_read:,} of "
        f"{n_cells:,} cells ({format_share(result.fraction_read)}), touching {format_bytes(n_bytes)}, in "
        f"{format_duration(seconds)}{seed}.",
        indent=0,
    )
    inflation = describe_inflation(result) if "chromosome" in result.annotations else ""
    lines = describe_associated(result), *describe_sampling(result), describe_floor(result), inflation
    for line in filter(None, lines):
        print_output(line[:1].upper() + line[1:], indent=0)
    for note in result.notes:
        print_output(f"Note: {to_single_line(note)}", indent=6)


def features_table(result: ScreeningResult, limit: int) -> str:
    """Format the best selected features as a table; notes tell which of them are flagged."""
    columns = feature_columns(result, result.selected[:limit])
    ranks = list(map(str, columns["rank"]))
    texts: dict[str, Iterable[str]] = {"score": map("{:+.4f}".format, columns["score"])}
    if "low" in columns:
        limits = zip(columns["low"], columns["high"], strict=True)
        texts["95% interval"] = (f"{low:+.3f} to {high:+.3f}" for low, high in limits)
    if "pvalue" in columns:
        texts["p-value"] = map("{:.2g}".format, columns["pvalue"])
        texts["q-value"] = map("{:.2g}".format, columns["qvalue"])
    if "associated" in columns:
        texts["clear"] = ("yes" if clear else "no" for clear in columns["associated"])
    if "present" in columns and (columns["present"] < columns["rows_read"]).any():
        texts["present"] = map("{:,.0f}".format, columns["present"])
    rows = list(zip(ranks, *texts.values(), strict=True))
    taken = max(map(len, text_table(["rank", *texts], rows).splitlines()))
    room = min(max(line_width(sys.stdout) - taken - 2, MIN_NAME), MAX_NAME)  # what a line has left
    names = short_labels(columns["name"], room)
    table = [[rank, name, *rest] for name, (rank, *rest) in zip(names, rows, strict=True)]
    return text_table(["rank", "feature", *texts], table, align="><")


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
    results = [result] if isinstance(result, ScreeningResult) else list(result)
    examples = map_in_threads(_example, results)
    columns: dict[str, list[Any]] = {}
    targets = [""]
    if isinstance(result, ScreeningResults):
        columns, targets = {"target": [""]}, result.names
    for example in examples:
        columns |= {k: v for k, v in example.items() if columns.get(k, [None]) == [None]}
    yield columns
    for one, target in zip(results, targets, strict=True):
        chosen = np.argsort(one.ranking) if all_features else one.selected
        for start in range(0, len(chosen), FEATURES_AT_ONCE):
            some = chosen[start : start + FEATURES_AT_ONCE]
            found = _as_lists(feature_columns(one, some)) | {"target": [encodable(target)] * len(some)}
            yield {name: found.get(name, [None] * len(some)) for name in columns}


def _example(result: ScreeningResult) -> dict[str, list[Any]]:
    """All columns, with the first selected feature if there is one."""
    return _as_lists(feature_columns(result, result.selected[:1] if len(result.selected) else np.arange(1)))


def _as_lists(columns: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: list(np.asarray(values).tolist()) for name, values in columns.items()}


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
