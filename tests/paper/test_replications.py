"""Replications can be interrupted, killed and resumed. Their results do not depend on how they were run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

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
    assert [(row["model"], row["replication"]) for row in rows] == TASKS
    assert [row["value"] for row in rows] == [k / 7 for k in range(6)]  # floats survive the file
    assert read_rows(tmp_path / "one/trial.csv") == rows
    assert run(tmp_path / "two", jobs=2) == rows
    assert (tmp_path / "one/trial.csv").read_bytes() == (tmp_path / "two/trial.csv").read_bytes()


def test_only_what_is_new_is_run(tmp_path):
    run(tmp_path, tasks=TASKS[:2])
    assert len(run(tmp_path)) == 6
    assert calls == TASKS[2:]
    rows = run(tmp_path, seed=1)
    assert len(calls) == 6
    assert rows[0]["value"] == 1


def test_an_error_is_raised_and_finished_rows_are_kept(tmp_path):
    with pytest.raises(ValueError, match="not enough values"):
        run(tmp_path, tasks=[*TASKS[:3], ("M1",)])
    run(tmp_path)
    assert calls == TASKS[3:]


def start_table1(out, jobs):
    command = [sys.executable, "-m", "paper", "table1", "--out", str(out)]
    options = ["--replications", "2", "--jobs", str(jobs)]
    return subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # signals to the group must not reach the tests
    )


def wait_for_results(folder, count):
    for _ in range(3000):
        if len(list(folder.rglob("output.pkl"))) > count:
            return
        time.sleep(0.01)
    raise TimeoutError(f"{folder} did not reach {count} results")


def group_is_gone(pgid):
    for _ in range(200):
        try:
            os.killpg(pgid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_can_be_resumed_with_the_same_results(table1, tmp_path, signal_):
    process = start_table1(tmp_path, jobs=2)
    wait_for_results(tmp_path, 1)
    os.killpg(process.pid, signal_)  # like a terminal: to the parent and its workers
    _, errors = process.communicate(timeout=30)
    if signal_ == signal.SIGINT:
        assert process.returncode == 130
        assert "again to resume" in errors
        assert "Traceback" not in errors
        assert "of 8 replications" in " ".join(errors.split())
        assert group_is_gone(process.pid)
    experiment.reproduce(Options(replications=2, jobs=2, out=tmp_path))
    complete, _ = table1  # never interrupted, one job
    for name in ("table1.csv", "table1.md", "table1.svg"):
        assert (tmp_path / name).read_bytes() == (complete / name).read_bytes()
