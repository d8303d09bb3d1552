"""Results as files, written under another name first, so that none is ever half there."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from banditsis.arrays import Floats
from banditsis.cli.errors import UsageError
from banditsis.formatting import encodable
from banditsis.results import ScreeningResult


def check_output(path: Path, endings: tuple[str, ...], option: str) -> None:
    """Refuse a file that could not be written, before any work is done."""
    if path.suffix.lower() not in endings:
        raise UsageError(f"{option} {path} should end in {' or '.join(endings)}, which says the format.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: the folder {path.absolute().parent} does not exist.")
    if path.suffix.lower() == ".parquet":
        from banditsis.formats.registry import import_optional

        import_optional("pyarrow.parquet", "parquet")


def write_output(result: ScreeningResult, path: Path) -> None:
    """Write the selected features as CSV or Parquet, or the whole result as JSON."""
    writers: dict[str, Callable[[Path], Any]] = {
        ".json": lambda half: half.write_text(result.to_json() + "\n"),
        ".csv": lambda half: _write_csv(selected_columns(result), half),
        ".parquet": lambda half: _write_parquet(selected_columns(result), half),
    }
    _atomically(path, writers[path.suffix.lower()])


def write_report(result: ScreeningResult, path: Path, title: str) -> None:
    """Write the report as one HTML file."""
    _atomically(path, lambda half: result.to_html(half, title=title))


def _atomically(path: Path, write: Callable[[Path], Any]) -> None:
    half = path.with_name(f".{path.name}.{os.getpid()}.half{path.suffix}")
    try:
        write(half)
        os.replace(half, path)
    finally:
        half.unlink(missing_ok=True)


def known_pvalues(result: ScreeningResult) -> Floats | None:
    """P-values of the selected features, if the run gives any."""
    try:
        return result.pvalues[result.selected]
    except ValueError:  # which says why there are none
        return None


def selected_columns(result: ScreeningResult) -> dict[str, list[Any]]:
    """The selected features as columns, best first."""
    chosen = result.selected
    columns: dict[str, list[Any]] = {
        "rank": list(range(1, len(chosen) + 1)),
        "name": [encodable(name) for name in result.selected_names],
        "index": chosen.tolist(),
        "score": result.scores[chosen].tolist(),
        "rows_read": result.rows_read[chosen].tolist(),
    }
    if result.present is not None:
        columns["present"] = [int(count) for count in result.present]
    pvalues = known_pvalues(result)
    if pvalues is not None:
        columns["pvalue"] = pvalues.tolist()
    return columns


def _write_csv(columns: dict[str, list[Any]], path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _write_parquet(columns: dict[str, list[Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
