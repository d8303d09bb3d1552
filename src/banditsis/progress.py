"""A progress bar for runs that take longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

#: None: a bar after two seconds if a person watches; True or False: always or never;
#: a function is called with the cells read and the cells to read.
Progress: TypeAlias = "bool | Callable[[int, int], None] | None"

DELAY_SECONDS = 2.0


@dataclass
class Status:
    """Where the run of this thread is, for whoever shows or names it."""

    round: int = 0
    n_rounds: int = 0
    detail: str = ""

    def start_round(self, number: int, n_rounds: int) -> None:
        """Note that a round begins."""
        self.round, self.n_rounds, self.detail = number, n_rounds, ""

    def __str__(self) -> str:
        where = f"round {self.round} of {self.n_rounds}" if self.round else "screening"
        return f"{where}, {self.detail}" if self.detail else where


_status: ContextVar[Status] = ContextVar("status")


def status() -> Status:
    """The status of the run that this thread is in.

    Examples
    --------
    >>> str(status())
    'screening'
    """
    try:
        return _status.get()
    except LookupError:
        _status.set(Status())
        return _status.get()


@contextmanager
def show_progress(progress: Progress, total: int) -> Iterator[Callable[[int], None]]:
    """Give a function to be told how many more cells have been read."""
    token = _status.set(Status())
    try:
        if callable(progress):
            with _told(progress, total) as tick:
                yield tick
        elif progress or (progress is None and sys.stderr.isatty()):
            with _bar(0.0 if progress else DELAY_SECONDS, total) as tick:
                yield tick
        else:
            yield lambda cells: None
    finally:
        _status.reset(token)


@contextmanager
def _told(tell: Callable[[int, int], None], total: int) -> Iterator[Callable[[int], None]]:
    done = 0

    def tick(cells: int) -> None:
        nonlocal done
        done += cells
        tell(done, total)

    yield tick


@contextmanager
def _bar(patience: float, total: int) -> Iterator[Callable[[int], None]]:
    started, done = time.perf_counter(), 0
    bar: Any = None

    def tick(cells: int) -> None:
        nonlocal bar, done
        done += cells
        if bar is None and time.perf_counter() - started >= patience:
            bar = _start_bar(total)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done, description=str(status()))

    try:
        yield tick
    finally:
        if bar is not None:
            bar.stop()


def _start_bar(total: int) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn(f"of {total:,} cells"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    bar.add_task("screening", total=total)
    bar.start()
    return bar
