"""One pool of threads. Kernels are serial and release the GIL, so threads are enough."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any


def count_jobs(n_jobs: int | None) -> int:
    """Convert ``n_jobs`` to a number of threads.

    ``None`` means every core that this process may use, but at most ``OMP_NUM_THREADS``, with which joblib
    and clusters limit nested parallelism.
    """
    if n_jobs is not None and (isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__")):
        raise TypeError(f"n_jobs must be an integer or None, got {n_jobs!r}.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: use a number of threads, or -1 for all cores.")
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


_blas_lock = threading.Lock()


_blas_users: list[object] = []


_blas_limits: list[Any] = []


@contextmanager
def one_blas_thread(wanted: bool) -> Iterator[None]:
    """Limit BLAS to one thread while our own threads call it.

    The limit applies to the whole process: the first user sets it, the last one removes it.
    """
    if not wanted:
        yield
        return
    from threadpoolctl import threadpool_limits

    user = object()
    with _blas_lock:
        if not _blas_users:
            _blas_limits.append(threadpool_limits(1, user_api="blas"))
        _blas_users.append(user)
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users.remove(user)
            if not _blas_users:
                _blas_limits.pop().restore_original_limits()


class Workers:
    """Threads for a screening run; the calling thread is one of them."""

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs
        self._pool = ThreadPoolExecutor(n_jobs - 1, "banditsis") if n_jobs > 1 else None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(self, jobs: Sequence[tuple[Any, ...]]) -> None:
        """Run all jobs; a job is a function and its arguments, some of which it fills."""
        helpers = min(self.n_jobs, len(jobs)) - 1
        if self._pool is None or helpers < 1:
            for function, *args in jobs:
                function(*args)
            return
        queue = iter(jobs)  # next() on it is atomic

        def drain() -> None:
            try:
                for function, *args in queue:
                    function(*args)
            finally:
                for _ in queue:  # after a failure, leave no jobs for the others
                    pass

        futures = [self._pool.submit(drain) for _ in range(helpers)]
        try:
            drain()
        finally:
            for future in futures:
                future.result()


class RoundError(RuntimeError):
    """A round that a cluster could not finish; ``partial`` is the result of the rounds before it, if any."""
