"""Data from standard input, which are copied to a temporary file because formats are read out of order."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from banditsis.cli.errors import UsageError
from banditsis.cli.terminal import show_as
from banditsis.formats.registry import COMPRESSED, FORMATS, find_suffix, match_content

STANDARD_INPUT = "-"


@contextmanager
def spooled(data: str) -> Iterator[str]:
    """The data, or for ``-`` the path of a copy of standard input, which is removed at the end."""
    if data != STANDARD_INPUT:
        yield data
        return
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("- is standard input, which is a terminal: pipe data into it, or name a file.")
    with tempfile.TemporaryDirectory(prefix="banditsis-") as folder:
        first = sys.stdin.buffer.read(1 << 16)
        path = Path(folder) / f"standard input{_extension(first)}"
        show_as(str(path), "standard input")
        with open(path, "wb") as file:
            file.write(first)
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        yield str(path)


def _extension(first: bytes) -> str:
    """The extension of the format that the first bytes are in; text is a CSV table."""
    content = match_content(first)
    if content in COMPRESSED:
        return f".csv{find_suffix(content)}"
    return ".csv" if content is None else FORMATS[content].extensions[0]
