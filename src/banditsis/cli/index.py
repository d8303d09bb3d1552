"""``banditsis index``: build an index of a file, or append to one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from banditsis.cli.terminal import INTERRUPTED, UsageError, fail, print_message
from banditsis.core.formatting import format_bytes, format_duration
from banditsis.core.progress import ProgressBar
from banditsis.index.writer import build_index


def run(data: str, out: Path | None, append: Path | None, seed: int, quiet: bool, **options: Any) -> None:
    """Index a file; the other ``options`` are those of :func:`banditsis.build_index`."""
    destination = out or append
    if destination is None or (out and append):
        raise UsageError(
            "set --out to the index to write, such as data.index, or --append to an existing one."
        )
    started = time.perf_counter()
    try:
        with ProgressBar("indexing", "bytes", shown=False if quiet else None) as bar:
            build_index(
                data, destination, append=append is not None, random_state=seed, progress=bar, **options
            )
    except KeyboardInterrupt:
        fail("interrupted: nothing was written; run the same command again.", INTERRUPTED)
    if not quiet:
        size = sum(file.stat().st_size for file in destination.rglob("*") if file.is_file())
        seconds = format_duration(time.perf_counter() - started)
        print_message(f"Wrote {destination}, {format_bytes(size)}, in {seconds}.")
        print_message(f"Next: banditsis info {destination}")
