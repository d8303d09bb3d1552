"""Numbers, names and tables as text, and files that are written atomically."""

from __future__ import annotations

import math
import os
import secrets
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from banditsis.results.evidence import Round

#: Characters of a line when a result or a plan is printed.
LINE_WIDTH = 80
#: Headings of the rounds of a run.
ROUND_HEADS = ("round", "rows", "features", "kept", "cutoff", "cells", "time")


def format_bytes(count: float) -> str:
    """Format a number of bytes, such as 1.5 GB."""
    units = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
    power = min(int(math.log10(max(count, 1)) // 3), len(units) - 1)
    return f"{count / 1000**power:.3g} {units[power]}"


def format_duration(seconds: float) -> str:
    """Format a duration, such as 12.3 ms or 75.50 s."""
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def format_share(share: float) -> str:
    """Format a fraction as a percentage that is 0% or 100% only if the fraction is exactly 0 or 1."""
    if share in (0, 1):
        return f"{share:.0%}"
    percent = 100 * share
    distance = min(percent, abs(100 - percent))
    digits = max(1, 1 - math.floor(math.log10(distance)))
    return f"{percent:.{digits}f}".rstrip("0").rstrip(".") + "%"


def round_share(share: float) -> str:
    """Format a fraction as a whole percentage, or with more digits near 0% and 100%."""
    return f"{share:.0%}" if 0.01 <= share <= 0.99 else format_share(share)


def format_score(score: float, digits: int, one_sided: bool) -> str:
    """Format a score, with its sign unless large scores of one sign only indicate association."""
    return "" if math.isnan(score) else f"{score:{'' if one_sided else '+'}.{digits}f}"


def format_pvalue(log10: float) -> str:
    """Format a p-value by its decimal logarithm with two digits; never as 0."""
    if not math.isfinite(log10):
        return "<1e-300" if log10 < 0 else ""
    if log10 > -4:
        return f"{10**log10:.2g}"
    exponent = math.floor(log10)
    digits = f"{10 ** (log10 - exponent):.2g}"
    return f"1e{exponent + 1}" if digits == "10" else f"{digits}e{exponent}"


def count(number: int, noun: str) -> str:
    """Format a number with its noun, in the plural unless it is 1: 2,500 features."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def were(number: int) -> str:
    """The verb of so many things in the past."""
    return "was" if number == 1 else "were"


def to_single_line(name: str) -> str:
    """Replace line breaks and tabs by spaces, and escape other characters that are not printable."""
    return printable(" ".join(name.split()) if any(char.isspace() and char != " " for char in name) else name)


def wrap(text: str, width: int, indent: int) -> str:
    """Wrap each line at words; further lines are indented."""
    fill = partial(textwrap.fill, width=width, subsequent_indent=" " * indent)
    lines = text.split("\n")
    return "\n".join(fill(line, break_long_words=False, break_on_hyphens=False) for line in lines)


def printable(text: str) -> str:
    """Escape all characters that are not printable except line breaks: they could change the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def encodable(text: str) -> str:
    """Escape lone surrogates in a name for a table of Arrow or pandas, whose text is UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def shorten(name: str, max_length: int = 32) -> str:
    """Return a name as one line, with its middle replaced by … if it is too long."""
    name = to_single_line(name)
    if len(name) <= max_length:
        return name
    half = max(max_length // 2, 1)  # at least the first and the last character
    return f"{name[:half]}…{name[min(half + 1 - max_length, -1) :]}"


def short_labels(names: Sequence[str], max_length: int = 32) -> list[str]:
    """Shorten names to labels that are all different: those that would be identical are numbered."""
    labels = [shorten(name, max_length) for name in names]
    repeated, numbers = Counter(labels), Counter[str]()
    for k, label in enumerate(labels):
        if repeated[label] > 1:
            numbers[label] += 1
            suffix = f" ({numbers[label]})"
            labels[k] = shorten(names[k], max_length - len(suffix)) + suffix
    return labels


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]], align: str = "") -> str:
    """Format a table with aligned columns; ``align`` has ``<`` or ``>`` for each, which is the default."""

    def width(text: str) -> int:  # in a terminal, where a wide East Asian character takes two columns
        return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)

    columns = []
    for column, side in zip(zip(headings, *rows, strict=True), align.ljust(len(headings), ">"), strict=True):
        widest = max(map(width, column))
        padded = [(cell, " " * (widest - width(cell))) for cell in column]
        columns.append([cell + space if side == "<" else space + cell for cell, space in padded])
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))


def round_rows(rounds: Sequence[Round]) -> list[list[str]]:
    """The cells of a table with a line for each round, below :data:`ROUND_HEADS`."""
    rows = []
    for k, r in enumerate(rounds, 1):
        counts = [f"{k}", f"{r.n_rows:,}", f"{r.n_features:,}", f"{r.n_kept:,}"]
        rows.append([*counts, f"{r.cutoff:.4f}", f"{r.cells:,}", format_duration(r.seconds)])
    return rows


def rounds_table(rounds: Sequence[Round]) -> str:
    """Format the rounds of a screening run as a table."""
    return text_table(ROUND_HEADS, round_rows(rounds))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a new temporary path. It replaces ``path`` on success and is deleted after an error."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        open(part, "xb").close()  # raises if it exists, so what is deleted below is ours
        try:
            yield part
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        if error.errno is not None:  # the system does not name the file if the disk is full
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise


def write_text(path: Path, text: str) -> Path:
    """Write a text file atomically."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path
