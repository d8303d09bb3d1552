"""Progress bars, the status of a run, and a clock that stops while kernels are compiled."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

#: None shows a bar after two seconds if stderr is a terminal; True or False: always or never;
#: a function is called with the amount done and the total.
Progress: TypeAlias = "bool | Callable[[int, int], None] | None"

DELAY_SECONDS = 2.0
NOTICE = "banditsis: compiling kernels: this takes a few seconds, once on this machine …"


@dataclass
class Status:
    """The round that a run is at."""

    round: int = 0
    n_rounds: int = 0

    def __str__(self) -> str:
        return f"round {self.round} of {self.n_rounds}" if self.round else "screening"


_status: ContextVar[Status] = ContextVar("status", default=Status())  # noqa: B039 - for calls outside runs
#: Return the status of the run in the current thread.
status = _status.get


class Compilation:
    """The compilation of kernels in this process, which is done by one thread at a time."""

    def __init__(self) -> None:
        #: whether to print a notice when a kernel is compiled; None if stderr is a terminal
        self.shown: bool | None = None
        self._announced, self._depth, self._started, self._seconds = False, 0, 0.0, 0.0

    @property
    def seconds(self) -> float:
        """Time spent on compiling kernels, and on loading compiled ones, up to now."""
        return self._seconds + (time.perf_counter() - self._started if self._depth else 0.0)

    def start(self) -> None:
        """Note that a kernel is being compiled or loaded, during which others may be that it calls."""
        if self._depth == 0:
            self._started = time.perf_counter()
        self._depth += 1

    def stop(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._started

    def announce(self) -> None:
        if sys.stderr is None or self._announced:
            return
        if sys.stderr.isatty() if self.shown is None else self.shown:
            self._announced = True
            print(NOTICE, file=sys.stderr, flush=True)


compilation = Compilation()


def clock() -> float:
    """Seconds, as ``time.perf_counter``, but without those in which kernels were compiled or loaded."""
    return time.perf_counter() - compilation.seconds


def announce_compilation(progress: Progress) -> None:
    """Choose whether a notice tells that kernels are compiled: where progress is shown."""
    shown = progress.shown if isinstance(progress, ProgressBar) else progress
    compilation.shown = shown if isinstance(shown, bool) else None


@contextmanager
def show_progress(progress: Progress, total: int) -> Iterator[Callable[[int], None]]:
    """Show the progress of a screening run; yield a function to call with the number of new cells."""
    token = _status.set(Status())
    try:
        with report_progress(progress) as report:
            if isinstance(report, ProgressBar):
                report.status = status()  # the threads that call the bar have no status of their own
            yield add_up(report, total)
    finally:
        _status.reset(token)


def report_progress(
    progress: Progress, description: str = "", unit: str = "cells"
) -> AbstractContextManager[Any]:
    """A context manager whose value is called with the amount done and the total: the user's, or a bar."""
    if callable(progress):
        return nullcontext(progress)
    if not (progress is None or isinstance(progress, bool)):
        raise TypeError(f"progress must be True, False, None or a function, got {progress!r}.")
    return ProgressBar(description, unit, shown=progress, delay=0.0 if progress else DELAY_SECONDS)


def add_up(report: Callable[[int, int], None], total: int) -> Callable[[int], None]:
    """Turn a function of (amount done, estimated total) into one that is called with each increment."""
    done = 0

    def advance(amount: int) -> None:
        nonlocal done
        done += amount
        report(done, max(done, total))

    return advance


class ProgressBar:
    """A progress bar of rich on stderr: a context manager to call with the amount done and the total.

    The ``description`` is by default the status of the run; the ``unit`` "bytes" also shows the speed. The
    bar is ``shown`` by default if stderr is a terminal, after a ``delay`` in seconds.
    """

    def __init__(
        self, description: str = "", unit: str = "cells", *, shown: bool | None = None, delay: float = 0.0
    ) -> None:
        self.description, self.unit = description, unit
        self.shown = sys.stderr is not None and sys.stderr.isatty() if shown is None else shown
        self.start_time = time.perf_counter() + delay
        self.status = status()
        self._bar: Any = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        if self.shown and time.perf_counter() >= self.start_time:
            self._bar = self._bar or self._start(total)
            self._bar.update(0, completed=done, total=total, description=self.description or str(self.status))

    def _start(self, total: int) -> Any:
        """A bar of rich with one task, number 0; a terminal erases it at the end."""
        from rich import progress as rich
        from rich.console import Console

        console = Console(stderr=True, highlight=False)
        name, bar = rich.TextColumn("{task.description}"), rich.BarColumn(bar_width=None)
        amount: tuple[Any, ...] = rich.DownloadColumn(), rich.TransferSpeedColumn()
        if self.unit != "bytes":
            amount = (rich.TextColumn(f"{{task.completed:,}}/{{task.total:,}} {self.unit}"),)
        columns = name, bar, rich.TaskProgressColumn(), *amount, rich.TimeRemainingColumn()
        progress = rich.Progress(*columns, console=console, transient=console.is_terminal)
        progress.add_task("", total=total)
        progress.start()
        return progress
