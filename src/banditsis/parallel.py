"""One pool of threads. Kernels are serial and release the GIL, so threads are enough."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


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


#: The workers of the run that is under way in a thread.
_current = threading.local()


def map_in_threads(function: Callable[[T], R], items: Iterable[T], at_least: int = 1) -> list[R]:
    """Apply a function to each item, in the threads of the run that is under way in this thread.

    Without one, or in one of its helpers, this thread does everything. It takes a thread about 0.2 ms to
    begin, so each should have ``at_least`` so many items to work on.

    Examples
    --------
    >>> with Workers(2):
    ...     map_in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    workers, listed = getattr(_current, "workers", None), list(items)
    if workers is None or len(listed) < 2 * at_least:
        return [function(item) for item in listed]
    results: list[Any] = [None] * len(listed)

    def run(number: int) -> None:
        results[number] = function(listed[number])

    workers.run_in_order(range(len(listed)), run, max_threads=len(listed) // at_least)
    return results


class Workers:
    """Threads for a screening run; the calling thread is one of them."""

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs
        self._pool = ThreadPoolExecutor(n_jobs - 1, "banditsis") if n_jobs > 1 else None

    def __enter__(self) -> Workers:
        self._outer, _current.workers = getattr(_current, "workers", None), self
        return self

    def __exit__(self, *exception: object) -> None:
        _current.workers = self._outer
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(self, jobs: Iterable[tuple[Any, ...]]) -> None:
        """Run all jobs; a job is a function and its arguments, some of which it fills."""
        self.run_in_order(jobs, lambda job: job[0](*job[1:]))

    def run_in_order(
        self,
        tasks: Iterable[T],
        run: Callable[[T], None],
        finish: Callable[[T], None] | None = None,
        max_waiting: int = 1 << 30,
        max_threads: int = 1 << 30,
    ) -> None:
        """Run tasks in threads, and finish them one at a time, in their order.

        Parameters
        ----------
        tasks : iterable
            Made one at a time, when a thread is free.
        run : callable
            Called with each task, by several threads at once.
        finish : callable, optional
            Called with each task after it has run, and after all tasks before it are finished.
        max_waiting : int
            Tasks that may have been taken and not finished, which limits memory.
        max_threads : int
            Threads that have enough to do to be worth starting.
        """
        queue = _Queue(iter(tasks), run, finish, max(max_waiting, 2 * self.n_jobs))
        n_threads = min(self.n_jobs, max_threads)
        if self._pool is None or n_threads < 2:
            queue.drain()
            return
        first = list(islice(queue.tasks, n_threads))  # as many threads as there are tasks
        queue.tasks = chain(first, queue.tasks)
        futures = [self._pool.submit(queue.drain) for _ in range(len(first) - 1)]
        outer, _current.workers = getattr(_current, "workers", None), None  # tasks run in one thread each
        try:
            queue.drain()
        finally:
            _current.workers = outer
            for future in futures:
                future.result()


class _Queue(Generic[T]):
    """Tasks that several threads take, run and finish."""

    def __init__(
        self,
        tasks: Iterator[T],
        run: Callable[[T], None],
        finish: Callable[[T], None] | None,
        max_waiting: int,
    ) -> None:
        self.tasks, self._run, self._finish, self._max_waiting = tasks, run, finish, max_waiting
        self._changed = threading.Condition()
        self._n_taken = self._n_finished = 0
        self._done: dict[int, T] = {}
        self._is_finishing = self._ended = False

    def drain(self) -> None:
        """Run tasks until there are none left."""
        try:
            while (taken := self._take()) is not None:
                number, task = taken
                self._run(task)
                self._put(number, task)
        except BaseException:
            with self._changed:
                self._ended = True  # after a failure, leave no tasks for the others
                self._changed.notify_all()
            raise

    def _take(self) -> tuple[int, T] | None:
        with self._changed:
            while not self._ended and self._n_taken - self._n_finished >= self._max_waiting:
                self._changed.wait()
            for task in () if self._ended else self.tasks:
                self._n_taken += 1
                return self._n_taken - 1, task
            self._ended = True
            return None

    def _put(self, number: int, task: T) -> None:
        """Finish the tasks whose turn it is, unless another thread is doing so."""
        with self._changed:
            self._done[number] = task
            if self._is_finishing:
                return
            self._is_finishing = True
        while True:
            with self._changed:
                if self._n_finished not in self._done:
                    self._is_finishing = False
                    return
                task = self._done.pop(self._n_finished)
            if self._finish is not None:
                self._finish(task)
            with self._changed:
                self._n_finished += 1
                self._changed.notify_all()


class RoundError(RuntimeError):
    """A round that a cluster could not finish; ``partial`` is the result of the rounds before it, if any."""
