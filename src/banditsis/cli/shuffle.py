"""``banditsis shuffle``."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from banditsis.cli.display import byte_progress
from banditsis.cli.errors import INTERRUPTED, print_error
from banditsis.formatting import format_bytes, format_duration


def run_shuffle(
    data: Path,
    destination: Path,
    target: str | None,
    seed: int | None,
    force: bool,
    memory_limit: int | None,
    quiet: bool,
) -> int:
    """Shuffle a file into a store, with a bar; return the exit code."""
    from banditsis.store.writer import shuffle

    started = time.perf_counter()
    try:
        with byte_progress(not quiet, "shuffling") as tell:
            shuffle(
                data,
                destination,
                target=target,
                seed=seed,
                force=force,
                memory_limit=memory_limit,
                progress=tell,
            )
    except KeyboardInterrupt:
        print_error(
            f"interrupted: give the same command again, and it goes on where {destination}.partial ends."
        )
        return INTERRUPTED
    if not quiet:
        size = sum(file.stat().st_size for file in destination.rglob("*") if file.is_file())
        Console(stderr=True, highlight=False).print(
            f"{destination}: {format_bytes(size)} in {format_duration(time.perf_counter() - started)}. "
            f"Next: banditsis info {destination}",
            soft_wrap=True,
            markup=False,
        )
    return 0
