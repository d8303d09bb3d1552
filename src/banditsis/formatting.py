"""Text for people: numbers, durations, names, tables; and files written whole or not at all."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from banditsis.results import ScreeningResult


def format_bytes(count: float) -> str:
    """A number of bytes in words.

    Examples
    --------
    >>> format_bytes(1.5e9), format_bytes(800)
    ('1.5 GB', '800 B')
    """
    units = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
    power = min(int(math.log10(max(count, 1)) // 3), len(units) - 1)
    return f"{count / 1000**power:.3g} {units[power]}"


def count(number: int, noun: str) -> str:
    """How many there are of something.

    Examples
    --------
    >>> count(1, "row"), count(2500, "feature")
    ('1 row', '2,500 features')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def to_single_line(name: str) -> str:
    """A name without line breaks, which would break the rows of a table.

    Examples
    --------
    >>> to_single_line("a name\\nin two lines")
    'a name in two lines'
    """
    return " ".join(name.split()) if any(mark.isspace() and mark != " " for mark in name) else name


def rounds_table(result: ScreeningResult, title: str) -> Table:
    """A line for each round."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("round", "rows read", "features", "kept", "cutoff", "cells read", "time"):
        table.add_column(heading, justify="right")
    for k, r in enumerate(result.rounds, 1):
        table.add_row(
            str(k),
            f"{r.n_rows:,}",
            f"{r.n_features:,}",
            f"{r.n_kept:,}",
            f"{r.cutoff:.4f}",
            f"{r.cells:,}",
            format_duration(r.seconds),
        )
    return table


def features_table(result: ScreeningResult, title: str, most: int = 10) -> Table:
    """A line for each of the best features."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("rank", "feature", "score", "95% interval", "rows read"):
        table.add_column(heading, justify="left" if heading == "feature" else "right")
    rows_read = result.rows_read
    for rank, (k, (low, high)) in enumerate(zip(result.selected[:most], result.interval(), strict=False), 1):
        interval = f"{low:+.3f} to {high:+.3f}"
        table.add_row(str(rank), result.name(k), f"{result.scores[k]:+.4f}", interval, f"{rows_read[k]:,}")
    return table


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Another path to write to, which becomes ``path`` once everything is written, and else vanishes."""
    part = path.with_name(path.name + ".part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> Path:
    """Write a file whole or not at all."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def encodable(text: str) -> str:
    r"""Text that files and terminals can hold: a lone surrogate is written as an escape.

    Examples
    --------
    >>> encodable("a \ud800")
    'a \\ud800'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def format_duration(seconds: float) -> str:
    """Seconds in words.

    Examples
    --------
    >>> format_duration(0.0123), format_duration(75.5)
    ('12.3 ms', '75.50 s')
    """
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
