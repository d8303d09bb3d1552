"""Replications can be stopped, killed and resumed, and do not depend on how they were run."""

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


def test_rows_come_in_the_order_of_the_tasks_and_lie_in_the_file(tmp_path):
    rows = run(tmp_path)
    assert [(row["model"], row["replication"]) for row in rows] == TASKS
    assert read_rows(tmp_path / "trial.csv") == rows
    assert [row["value"] for row in rows] == [k / 7 for k in range(6)]  # floats survive the file


def test_number_of_jobs_changes_nothing(tmp_path):
    rows = run(tmp_path / "one", jobs=1)
    assert run(tmp_path / "two", jobs=2) == rows
    assert (tmp_path / "one/trial.csv").read_bytes() == (tmp_path / "two/trial.csv").read_bytes()


def test_finished_replications_are_not_run_again(tmp_path):
    rows = run(tmp_path)
    assert run(tmp_path, work=never) == rows


def test_more_replications_go_on_and_fewer_lose_nothing(tmp_path):
    run(tmp_path, tasks=TASKS[:2])
    assert len(run(tmp_path)) == 6
    assert len(run(tmp_path, work=never, tasks=TASKS[:3])) == 3
    run(tmp_path, tasks=[*TASKS[:3], ("M2", 0)])
    assert len(read_rows(tmp_path / "trial.csv")) == 7


@pytest.mark.parametrize("keep", [0, 1, 5, 30, 45, -1, -4])
def test_a_torn_last_line_is_dropped(tmp_path, keep):
    """Wherever a kill cuts the file, what is whole is kept and the rest is run again."""
    rows = run(tmp_path)
    path = tmp_path / "trial.csv"
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    left = whole[:keep].count(b"\n")
    asked = []
    again = run(tmp_path, work=lambda task: asked.append(task) or work(task))
    assert again == rows
    assert path.read_bytes() == whole
    assert len(asked) == 6 - max(0, left - 1)


def test_an_error_in_the_work_is_raised_and_the_finished_are_kept(tmp_path):
    def fail(task):
        return work(task) if task[1] < 3 else never(task)

    with pytest.raises(AssertionError, match="was run again"):
        run(tmp_path, work=fail)
    assert len(read_rows(tmp_path / "trial.csv")) == 3


def test_other_settings_in_the_same_folder_are_refused(tmp_path):
    run(tmp_path, seed=0)
    before = (tmp_path / "trial.csv").read_bytes()
    with pytest.raises(FileExistsError, match=r"seed 0 there and 1 here.*--out.*delete trial\.csv"):
        run(tmp_path, work=partial(work, seed=1), seed=1)
    assert (tmp_path / "trial.csv").read_bytes() == before
    (tmp_path / "trial.csv").unlink()
    assert run(tmp_path, work=partial(work, seed=1), seed=1)[0]["value"] == 1
    assert json.loads((tmp_path / "trial.settings.json").read_text())["seed"] == 1


def test_lost_settings_are_refused(tmp_path):
    run(tmp_path)
    (tmp_path / "trial.settings.json").unlink()
    with pytest.raises(FileExistsError, match="version unknown there"):
        run(tmp_path)


def test_progress_goes_to_stderr(tmp_path, capsys):
    run(tmp_path)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "6/6 replications" in captured.err


def test_a_script_without_a_guard_is_told_of_it(tmp_path):
    script = tmp_path / "script.py"
    call = "reproduce_figure2(replications=1, jobs=2, out='out')"
    script.write_text(f"from banditsis.paper import reproduce_figure2\n{call}\n")
    command = [sys.executable, script.name]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "put the call under `if __name__ == '__main__':`, or use jobs=1" in done.stderr


def environment():
    """The path of this process, made absolute, for one that works in another folder."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))}


def start_table1(out, jobs, replications=3):
    command = [sys.executable, "-m", "banditsis.paper.cli", "table1", "--out", str(out)]
    options = ["--replications", str(replications), "--jobs", str(jobs)]
    return subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that a signal to the group stays away from the tests
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
def test_a_killed_run_goes_on_and_gives_the_same(table1, tmp_path):
    process = start_table1(tmp_path, jobs=2)
    wait_for_lines(tmp_path / "table1.csv", 1)
    process.kill()
    process.communicate()
    assert group_is_gone(process.pid), "worker processes outlived their parent"
    kept = (tmp_path / "table1.csv").read_bytes()
    assert 1 < kept.count(b"\n") < 13

    reproduce_table1(replications=3, jobs=2, out=tmp_path)
    whole, _ = table1  # never stopped, and run by one job
    for name in ("table1.csv", "table1.md", "table1.svg"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path, jobs):
    process = start_table1(tmp_path, jobs, replications=500)
    wait_for_lines(tmp_path / "table1.csv", 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to parent and workers alike
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "replications are kept in" in errors
    assert "Run the same again to go on" in errors
    assert "Traceback" not in errors
    kept = len(read_rows(tmp_path / "table1.csv"))
    assert f"{kept} of 2,000 replications" in " ".join(errors.split())
    assert group_is_gone(process.pid)
