"""``banditsis shuffle``: copy data into a folder with rows in random order."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from banditsis.cli.terminal import INTERRUPTED, fail, print_message
from banditsis.core.formatting import format_bytes, format_duration
from banditsis.core.progress import ProgressBar
from banditsis.index.writer import shuffle


def run(data: str, destination: Path, quiet: bool, **options: Any) -> None:
    """Shuffle a file into a folder; ``options`` are those of :func:`banditsis.shuffle`."""
    started = time.perf_counter()
    try:
        with ProgressBar("shuffling", "bytes", shown=False if quiet else None) as bar:
            shuffle(data, destination, progress=bar, **options)
    except KeyboardInterrupt:
        fail("interrupted: nothing was written; run the same command again.", INTERRUPTED)
    if not quiet:
        size = sum(file.stat().st_size for file in destination.rglob("*") if file.is_file())
        seconds = format_duration(time.perf_counter() - started)
        print_message(f"Wrote {destination}, {format_bytes(size)}, in {seconds}.")
        print_message(f"Next: banditsis info {destination}")
