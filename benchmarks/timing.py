"""Timing on a shared machine: report ratios of best times within one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from banditsis.core.parallel import count_jobs


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _sum(run):
    quarter = run.size // 4
    a, b, c, d = (
        run[:quarter],
        run[quarter : 2 * quarter],
        run[2 * quarter : 3 * quarter],
        run[3 * quarter : 4 * quarter],
    )
    total = run.dtype.type(0)
    for i in range(quarter):
        total += (a[i] + b[i]) + (c[i] + d[i])
    return total


def read_through(array: np.ndarray) -> Callable[[], None]:
    """Return a function that sums the array in threads, to measure the read bandwidth of the machine."""
    run = array.reshape(-1, order="A")
    jobs = count_jobs(None)
    edges = np.linspace(0, run.size, 32 * jobs + 1).astype(int)
    pool = ThreadPoolExecutor(jobs)

    def read() -> None:
        list(pool.map(lambda k: _sum(run[edges[k] : edges[k + 1]]), range(len(edges) - 1)))

    return read


def interleaved(
    repeats: int, *, clock: Callable[[], float] = time.perf_counter, **contestants: Callable[[], object]
) -> dict[str, float]:
    """Return the best time of each function. They run in turns, so slow periods affect all of them."""
    best = dict.fromkeys(contestants, np.inf)
    for repeat in range(repeats + 1):
        for name, run in contestants.items():
            started = clock()
            run()
            elapsed = clock() - started
            if repeat:  # the first turn is a warm-up
                best[name] = min(best[name], elapsed)
    return best
