"""Threads that share tasks: all are run, finished in order, and no error is lost."""

import os
import random
import threading
import time
import warnings

import pytest

from banditsis.core.parallel import Workers, count_jobs, map_in_threads


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_tasks_are_finished_in_order(n_jobs):
    rng, finished, running = random.Random(0), [], [0]
    pauses = [rng.random() / 500 for _ in range(200)]

    def tasks():
        for k in range(200):
            running[0] += 1
            yield k

    def finish(k):
        finished.append(k)
        running[0] -= 1
        assert running[0] <= 12  # those taken and not finished, and the one that is finished here

    Workers(n_jobs).run_in_order(tasks(), lambda k: time.sleep(pauses[k]), finish, max_waiting=11)
    assert finished == list(range(200))


def test_results_are_in_order_and_nested_calls_do_not_wait():
    def double(k):
        return sum(map_in_threads(lambda _: k, range(2)))

    with Workers(3):
        for _ in range(50):
            assert map_in_threads(double, range(20)) == list(range(0, 40, 2))


def test_no_error_is_lost_and_nothing_is_started_after_one():
    done = []

    def fail(k):
        if k == 7:
            raise KeyError(k)
        done.append(k)

    def failing_tasks():
        yield from range(5)
        raise OSError("no more")

    with Workers(3) as workers, pytest.raises(KeyError):
        workers.run([(fail, k) for k in range(200_000)])
    assert len(done) < 199_999
    workers = Workers(4)
    for _ in range(300):
        with pytest.raises(KeyError):
            workers.run_in_order(range(8), fail)
        with pytest.raises(KeyError):
            workers.run_in_order(range(20), lambda k: None, fail)
        with pytest.raises(OSError, match="no more"):
            workers.run_in_order(failing_tasks(), lambda k: None)


def test_thread_counts(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert count_jobs(None) == count_jobs(-1) == cores
    assert (count_jobs(7), count_jobs(-1000)) == (7, 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert (count_jobs(None), count_jobs(3)) == (1, 3)


def test_threads_are_kept():
    workers = Workers(4)
    workers.run_in_order(range(100), lambda k: None)
    before = threading.enumerate()
    for _ in range(20):
        workers.run_in_order(range(100), lambda k: None)
    assert threading.enumerate() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only systems with fork")
def test_a_forked_process_starts_its_own_threads():
    with Workers(3):
        map_in_threads(abs, range(10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks of several threads
        child = os.fork()
    if child == 0:
        with Workers(3):
            found = map_in_threads(abs, range(-10, 0))
        os._exit(0 if found == list(range(10, 0, -1)) else 1)
    assert os.waitpid(child, 0)[1] == 0
