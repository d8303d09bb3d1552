"""Results on the terminal and in files."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from banditsis.cli.errors import UsageError
from banditsis.cli.terminal import print_output
from banditsis.formatting import (
    count,
    encodable,
    format_bytes,
    format_duration,
    format_share,
    replacing,
    rounds_table,
    shorten,
    text_table,
    to_single_line,
)
from banditsis.results import ScreeningResult, describe_floor, describe_sampling

MAX_FEATURES_SHOWN = 20


def print_result(result: ScreeningResult, n_bytes: float, seconds: float) -> None:
    """Print the rounds, the best features, the cost, the detection floor and the notes."""
    n_selected, n_cells = len(result.selected), result.n_rows * result.n_features
    print_output(rounds_table(result.rounds) + "\n")
    print_output(features_table(result, MAX_FEATURES_SHOWN))
    if n_selected > MAX_FEATURES_SHOWN:
        print_output(f"… and {n_selected - MAX_FEATURES_SHOWN:,} more: use --output or --json to list all.")
    print_output(
        f"\n{n_selected:,} of {count(result.n_features, 'feature')} selected; read {result.cells_read:,} of "
        f"{n_cells:,} cells ({format_share(result.fraction_read)}), touching {format_bytes(n_bytes)}, in "
        f"{format_duration(seconds)}."
    )
    for line in (*describe_sampling(result), describe_floor(result)):
        print_output(line[:1].upper() + line[1:])
    for note in result.notes:
        print_output(f"Note: {to_single_line(note)}")


def features_table(result: ScreeningResult, limit: int) -> str:
    """Format the best selected features as a table."""
    columns = selected_columns(result)
    texts: dict[str, Iterable[str]] = {
        "rank": map(str, columns["rank"]),
        "feature": map(shorten, columns["name"]),
        "score": map("{:+.4f}".format, columns["score"]),
    }
    with suppress(ValueError):  # not every statistic has intervals
        texts["95% interval"] = (f"{low:+.3f} to {high:+.3f}" for low, high in result.interval())
    if "pvalue" in columns:
        texts["p-value"] = map("{:.2g}".format, columns["pvalue"])
        texts["q-value"] = map("{:.2g}".format, columns["qvalue"])
    if "present" in columns:
        texts["present"] = map("{:,}".format, columns["present"])
    texts["rows read"] = map("{:,}".format, columns["rows_read"])
    if result.flags:
        texts["flag"] = columns["flag"]
    rows = list(zip(*texts.values(), strict=True))
    return text_table(list(texts), rows[:limit], align="><")


def selected_columns(result: ScreeningResult) -> dict[str, list[Any]]:
    """Return the selected features as columns, best first."""
    selected = result.selected
    columns: dict[str, list[Any]] = {
        "rank": list(range(1, len(selected) + 1)),
        "name": [encodable(name) for name in result.selected_names],
        "index": selected.tolist(),
        **{name: values[selected].tolist() for name, values in result.annotations.items()},
        "score": result.scores[selected].tolist(),
        "rows_read": result.rows_read[selected].tolist(),
        "flag": [result.flags.get(int(k), "") for k in selected],
    }
    if result.present is not None:
        columns["present"] = [int(number) for number in result.present]
    if result.effects is not None:
        columns |= {name: values.tolist() for name, values in result.effects._asdict().items()}
    if result.has_pvalues:
        columns["pvalue"] = result.pvalues[selected].tolist()
        columns["qvalue"] = result.qvalues[selected].tolist()
    return columns


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
    if path.suffix.lower() == ".parquet":
        from banditsis.formats.registry import import_optional

        import_optional("pyarrow.parquet", "parquet")


def _is_within(path: Path, given: Path) -> bool:
    """Whether a path is the given file or folder, by any of its names, or lies in the folder."""
    resolved = path.resolve()
    if given.resolve() in (resolved, *resolved.parents):
        return True
    return path.exists() and given.exists() and path.samefile(given)


def write_output(results: Mapping[str, ScreeningResult], path: Path) -> None:
    """Write the selected features of all targets as CSV or Parquet, or whole results as JSON."""
    suffix, several = path.suffix.lower(), len(results) > 1
    if suffix == ".json":
        records = {target: json.loads(result.to_json()) for target, result in results.items()}
        text = json.dumps(records, indent=2) if several else next(iter(results.values())).to_json()
    else:
        columns = _join_columns(results) if several else selected_columns(next(iter(results.values())))
    with replacing(path) as part:
        if suffix == ".json":
            part.write_text(text + "\n", encoding="utf-8")
        elif suffix == ".csv":
            _write_csv(columns, part)
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table(columns), part)


def _join_columns(results: Mapping[str, ScreeningResult]) -> dict[str, list[Any]]:
    """The selected features of all targets, one below the other; None for what a target does not have."""
    parts = {target: selected_columns(result) for target, result in results.items()}
    names = dict.fromkeys(name for part in parts.values() for name in part)
    joined: dict[str, list[Any]] = {"target": []} | {name: [] for name in names}
    for target, part in parts.items():
        n = len(part["rank"])
        joined["target"] += [encodable(target)] * n
        for name in names:
            joined[name] += part.get(name, [None] * n)
    return joined


def _write_csv(columns: dict[str, list[Any]], path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
