"""Replications can be interrupted, killed and resumed. Their results do not depend on how they were run."""

import os
import re
import signal
import subprocess
import sys
import time
from subprocess import PIPE

import pytest
from paper.replications import Options, read_rows, run_replications

from paper import table1 as experiment

TASKS = [("M1", k) for k in range(6)]
calls = []


def work(task, seed=0):
    calls.append(task)
    model, k = task
    return {"model": model, "replication": k, "value": seed + k / 7}


def run(out, tasks=TASKS, jobs=1, **options):
    calls.clear()
    return run_replications("trial", work, tasks, out=out, jobs=jobs, **options)


def test_rows_are_in_task_order_for_any_number_of_jobs(tmp_path, capsys):
    rows = run(tmp_path / "one", jobs=1)
    captured = capsys.readouterr()
    assert (captured.out, "100%" in captured.err) == ("", True)
    assert rows == [{"model": "M1", "replication": k, "value": k / 7} for k in range(6)]
    assert read_rows(tmp_path / "one/trial.csv") == rows
    assert run(tmp_path / "two", jobs=2) == rows
    assert (tmp_path / "one/trial.csv").read_bytes() == (tmp_path / "two/trial.csv").read_bytes()


def test_only_what_is_new_is_run(tmp_path):
    run(tmp_path, tasks=TASKS[:2])
    assert (len(run(tmp_path)), calls) == (6, TASKS[2:])
    assert run(tmp_path, seed=1)[0]["value"] == 1
    assert len(calls) == 6


def test_an_error_is_raised_and_finished_rows_are_kept(tmp_path):
    with pytest.raises(ValueError, match="not enough values"):
        run(tmp_path, tasks=[*TASKS[:3], ("M1",)])
    run(tmp_path)
    assert calls == TASKS[3:]


def wait_until(happened, seconds):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_can_be_resumed_with_the_same_results(table1, tmp_path, signal_):
    command = [sys.executable, "-m", "paper", "table1", "--out", str(tmp_path)]
    command += ["--replications", "2", "--jobs", "2"]
    # In a session of its own, because signals to the group must not reach the tests.
    process = subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True)
    wait_until(lambda: len(list(tmp_path.rglob("output.pkl"))) > 1, 30)
    os.killpg(process.pid, signal_)  # like a terminal: to the parent and its workers
    _, errors = process.communicate(timeout=30)
    if signal_ == signal.SIGINT:
        said = " ".join(errors.split())
        assert (process.returncode, "Traceback" in said) == (130, False)
        assert re.search("of 8 replications.*again to resume", said)
        with pytest.raises(ProcessLookupError):  # once all workers have ended
            wait_until(lambda: os.killpg(process.pid, 0), 10)
    experiment.reproduce(Options(replications=2, jobs=1, out=tmp_path))
    complete, _ = table1  # never interrupted, and never two jobs
    for name in ("table1.csv", "table1.md", "table1.svg"):
        assert (tmp_path / name).read_bytes() == (complete / name).read_bytes()
