"""Replications can be interrupted, killed and resumed. Their results do not depend on how they were run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from banditsis.paper import reproduce_table1
from banditsis.paper.replications import read_rows, run_replications

TASKS = [("M1", k) for k in range(6)]


def work(task, seed=0):
    model, k = task
    return {"model": model, "replication": k, "value": seed + k / 7}


def never(task):
    raise AssertionError(f"{task} was run again")


def run(out, work=work, tasks=TASKS, jobs=1, **settings):
    keys = ("model", "replication")
    return run_replications("trial", work, tasks, keys=keys, settings=settings, out=out, jobs=jobs)


def test_rows_are_in_task_order_and_stored_in_the_file(tmp_path):
    rows = run(tmp_path)
    assert [(row["model"], row["replication"]) for row in rows] == TASKS
    assert read_rows(tmp_path / "trial.csv") == rows
    assert [row["value"] for row in rows] == [k / 7 for k in range(6)]  # floats survive the file


def test_results_do_not_depend_on_the_number_of_jobs(tmp_path):
    rows = run(tmp_path / "one", jobs=1)
    assert run(tmp_path / "two", jobs=2) == rows
    assert (tmp_path / "one/trial.csv").read_bytes() == (tmp_path / "two/trial.csv").read_bytes()


def test_finished_replications_are_not_run_again(tmp_path):
    rows = run(tmp_path)
    assert run(tmp_path, work=never) == rows


def test_more_replications_resume_and_fewer_keep_all_rows(tmp_path):
    run(tmp_path, tasks=TASKS[:2])
    assert len(run(tmp_path)) == 6
    assert len(run(tmp_path, work=never, tasks=TASKS[:3])) == 3
    run(tmp_path, tasks=[*TASKS[:3], ("M2", 0)])
    assert len(read_rows(tmp_path / "trial.csv")) == 7


@pytest.mark.parametrize("keep", [0, 1, 5, 30, 45, -1, -4])
def test_incomplete_last_line_is_dropped(tmp_path, keep):
    """Wherever the file is cut off, complete rows are kept and the others are run again."""
    rows = run(tmp_path)
    path = tmp_path / "trial.csv"
    content = path.read_bytes()
    path.write_bytes(content[:keep])
    n_lines = content[:keep].count(b"\n")
    run_again = []
    again = run(tmp_path, work=lambda task: run_again.append(task) or work(task))
    assert again == rows
    assert path.read_bytes() == content
    assert len(run_again) == 6 - max(0, n_lines - 1)


def test_an_error_is_raised_and_finished_rows_are_kept(tmp_path):
    def fail(task):
        return work(task) if task[1] < 3 else never(task)

    with pytest.raises(AssertionError, match="was run again"):
        run(tmp_path, work=fail)
    assert len(read_rows(tmp_path / "trial.csv")) == 3


def test_different_settings_in_the_same_folder_raise(tmp_path):
    run(tmp_path, seed=0)
    before = (tmp_path / "trial.csv").read_bytes()
    with pytest.raises(FileExistsError, match=r"seed 0 there and 1 here.*output folder.*delete trial\.csv"):
        run(tmp_path, work=partial(work, seed=1), seed=1)
    assert (tmp_path / "trial.csv").read_bytes() == before
    (tmp_path / "trial.csv").unlink()
    assert run(tmp_path, work=partial(work, seed=1), seed=1)[0]["value"] == 1
    assert json.loads((tmp_path / "trial.settings.json").read_text())["seed"] == 1


def test_missing_settings_raise(tmp_path):
    run(tmp_path)
    (tmp_path / "trial.settings.json").unlink()
    with pytest.raises(FileExistsError, match="version unknown there"):
        run(tmp_path)


def test_progress_goes_to_stderr(tmp_path, capsys):
    run(tmp_path)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "6/6 replications" in captured.err


def test_a_script_without_a_main_guard_gets_a_clear_error(tmp_path):
    script = tmp_path / "script.py"
    call = "reproduce_figure2(replications=1, jobs=2, out='out')"
    script.write_text(f"from banditsis.paper import reproduce_figure2\n{call}\n")
    command = [sys.executable, script.name]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "`if __name__ == '__main__':`, or use jobs=1" in done.stderr


def environment():
    """Return the environment with absolute import paths, for a process in another folder."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))}


def start_table1(out, jobs, replications=3):
    command = [sys.executable, "-m", "banditsis.paper.cli", "table1", "--out", str(out)]
    options = ["--replications", str(replications), "--jobs", str(jobs)]
    return subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # signals to the group must not reach the tests
    )


def wait_for_lines(path, count):
    for _ in range(3000):
        if path.exists() and path.read_bytes().count(b"\n") > count:
            return
        time.sleep(0.01)
    raise TimeoutError(f"{path} did not reach {count} lines")


def group_is_gone(pgid):
    for _ in range(200):
        try:
            os.killpg(pgid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_killed_run_can_be_resumed_with_the_same_results(table1, tmp_path):
    process = start_table1(tmp_path, jobs=2)
    wait_for_lines(tmp_path / "table1.csv", 1)
    process.kill()
    process.communicate()
    assert group_is_gone(process.pid), "worker processes outlived their parent"
    kept = (tmp_path / "table1.csv").read_bytes()
    assert 1 < kept.count(b"\n") < 13

    reproduce_table1(replications=3, jobs=2, out=tmp_path)
    complete, _ = table1  # never interrupted, one job
    for name in ("table1.csv", "table1.md", "table1.svg"):
        assert (tmp_path / name).read_bytes() == (complete / name).read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_keeps_finished_rows_and_explains_how_to_resume(tmp_path, jobs):
    process = start_table1(tmp_path, jobs, replications=500)
    wait_for_lines(tmp_path / "table1.csv", 2)
    os.killpg(process.pid, signal.SIGINT)  # like a terminal: to the parent and its workers
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "again to resume" in errors
    assert "Traceback" not in errors
    kept = len(read_rows(tmp_path / "table1.csv"))
    assert f"{kept} of 2,000 replications" in " ".join(errors.split())
    assert group_is_gone(process.pid)
