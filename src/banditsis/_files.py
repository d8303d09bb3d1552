"""Writing files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
