"""Compilation of kernels: a notice for the user, and a clock that stops meanwhile."""

from __future__ import annotations

import sys
import time

NOTICE = "banditsis: compiling kernels: this takes a few seconds, once on this machine …"


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
        """Note that a kernel is being compiled or loaded; another one may be meanwhile, which it calls."""
        if self._depth == 0:
            self._started = time.perf_counter()
        self._depth += 1

    def stop(self) -> None:
        """Note the end of what :meth:`start` began."""
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._started

    def announce(self) -> None:
        """Print the notice, once."""
        if sys.stderr is None or self._announced:
            return
        if sys.stderr.isatty() if self.shown is None else self.shown:
            self._announced = True
            print(NOTICE, file=sys.stderr, flush=True)


compilation = Compilation()


def clock() -> float:
    """Seconds, as ``time.perf_counter``, but without those in which kernels were compiled or loaded."""
    return time.perf_counter() - compilation.seconds
