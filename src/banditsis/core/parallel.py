"""One pool of threads. Kernels are serial and release the GIL, so threads are enough."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def count_jobs(n_jobs: int | None) -> int:
    """The number of threads; None stands for all cores of the process, up to ``OMP_NUM_THREADS``."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__")):
        raise TypeError(f"n_jobs must be an integer or None, got {n_jobs!r}.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: use a number of threads, or -1 for all cores.")
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


#: The limit of BLAS, set by the first of its users, and None for each other one.
_blas_limits: list[Any] = []
_blas_lock = threading.Lock()


@cache
def _find_blas() -> Any:
    """The BLAS libraries of this process; finding them takes a few milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS, in the whole process, to one thread while our own threads call it."""
    with _blas_lock:
        _blas_limits.append(None if _blas_limits else _find_blas().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _blas_lock:
            if (limit := _blas_limits.pop()) is not None:
                limit.restore_original_limits()


#: The workers of the run that is under way in a thread.
_current = threading.local()


def map_in_threads(function: Callable[[T], R], items: Iterable[T], min_items: int = 1) -> list[R]:
    """Apply a function to each item, in the threads of the run that is under way in this thread.

    Without one, or in one of its helpers, this thread does everything. Waking a thread takes about 0.2 ms, so
    each gets at least ``min_items`` items.
    """
    workers, listed = getattr(_current, "workers", None), list(items)
    if workers is None or len(listed) < 2 * min_items:
        return [function(item) for item in listed]
    results: list[Any] = [None] * len(listed)

    def run(number: int) -> None:
        results[number] = function(listed[number])

    workers.run_in_order(range(len(listed)), run, max_threads=len(listed) // min_items)
    return results


class Workers:
    """Threads for a screening run; the calling thread is one of them."""

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def __enter__(self) -> Workers:
        self._outer, _current.workers = getattr(_current, "workers", None), self
        return self

    def __exit__(self, *exception: object) -> None:
        _current.workers = self._outer

    def run(self, jobs: Iterable[tuple[Any, ...]]) -> None:
        """Run all jobs; a job is a function and its arguments, some of which it fills."""
        self.run_in_order(jobs, lambda job: job[0](*job[1:]))

    def run_in_order(
        self,
        tasks: Iterable[T],
        run: Callable[[T], None],
        finish: Callable[[T], None] = lambda task: None,
        max_waiting: int = 1 << 30,
        max_threads: int = 1 << 30,
    ) -> None:
        """Run tasks in threads, and finish them one at a time, in their order.

        A task is made when a thread is free, and at most ``max_waiting`` are unfinished, to limit memory.
        More than ``max_threads`` would not have enough to do.
        """
        n_threads = min(self.n_jobs, max_threads)
        outer, _current.workers = getattr(_current, "workers", None), None  # tasks run in one thread each
        try:
            if n_threads == 1:
                for task in tasks:
                    run(task)
                    finish(task)
                return
            tasks = iter(tasks)
            first = list(islice(tasks, n_threads))  # as many threads as there are tasks
            queue = _Queue(chain(first, tasks), run, finish, max(max_waiting, 2 * self.n_jobs))
            _helpers.call(queue, len(first) - 1)
            queue.drain()
        finally:
            _current.workers = outer


class _Queue(Generic[T]):
    """Tasks that several threads take, run and finish."""

    def __init__(
        self, tasks: Iterator[T], run: Callable[[T], None], finish: Callable[[T], None], max_waiting: int
    ) -> None:
        self._tasks, self._run, self._finish, self._max_waiting = tasks, run, finish, max_waiting
        self._changed, self._finishing = threading.Condition(), threading.Lock()
        self._n_taken = self._n_finished = self._n_running = 0
        self._done: dict[int, T] = {}
        self._ended = False
        self._error: BaseException | None = None

    def drain(self) -> None:
        """Run tasks until there are none left, and wait for those that helpers have taken."""
        try:
            self.help()
            with self._changed:
                self._changed.wait_for(lambda: self._n_running == 0)
        finally:  # also after Ctrl-C while this thread waits
            self._ended = True
        if self._error is not None:
            raise self._error

    def help(self) -> None:
        """Run tasks until there are none left; an error is left to the thread that drains the queue."""
        while (taken := self._take()) is not None:
            error = None
            try:
                self._run(taken[1])
                self._put(*taken)
            except BaseException as raised:
                error = raised
            with self._changed:  # both at once, or the drain could end without the error
                self._n_running -= 1
                self._note(error)

    def _take(self) -> tuple[int, T] | None:
        with self._changed:
            while not self._ended and self._n_taken - self._n_finished >= self._max_waiting:
                self._changed.wait()
            try:
                for task in () if self._ended else self._tasks:
                    self._n_taken += 1
                    self._n_running += 1  # a helper without a task keeps nobody waiting
                    return self._n_taken - 1, task
            except BaseException as error:  # of making a task
                self._note(error)
            self._ended = True
            return None

    def _note(self, error: BaseException | None) -> None:
        """Wake the threads that wait; after an error, leave no tasks for them."""
        self._error, self._ended = self._error or error, self._ended or error is not None
        self._changed.notify_all()

    def _put(self, number: int, task: T) -> None:
        """Finish the tasks whose turn it is, unless another thread is doing so."""
        self._done[number] = task
        # Asked again after each release: another thread may have put the next task without finishing it.
        while self._n_finished in self._done and self._finishing.acquire(blocking=False):
            try:
                while self._n_finished in self._done:
                    self._finish(self._done.pop(self._n_finished))
                    with self._changed:
                        self._n_finished += 1
                        self._changed.notify_all()
            finally:
                self._finishing.release()


class _Helpers:
    """Threads that wait for queues as long as the process runs: starting one takes longer than a round.

    Nobody waits for a helper that has not taken a task, so one that wakes up late delays nothing.
    """

    def __init__(self) -> None:
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Start again without threads, of which a child process has none."""
        self._lock, self._queues, self._n_threads = threading.Lock(), SimpleQueue[_Queue[Any]](), 0

    def call(self, queue: _Queue[Any], number: int) -> None:
        """Have so many threads help with a queue."""
        with self._lock:
            for k in range(self._n_threads, number):
                name = f"banditsis-{k}"
                threading.Thread(target=self._wait, args=(self._queues,), name=name, daemon=True).start()
            self._n_threads = max(self._n_threads, number)
        for _ in range(number):
            self._queues.put(queue)

    @staticmethod
    def _wait(queues: SimpleQueue[_Queue[Any]]) -> None:
        while True:
            queues.get().help()  # keeps no reference, because a task may hold the data


_helpers = _Helpers()


class RoundError(RuntimeError):
    """A round that a cluster could not finish; ``partial`` is the result of the rounds before it, if any."""
