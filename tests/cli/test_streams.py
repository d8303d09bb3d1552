"""What reaches a terminal, a pipe or a full disk: real processes, and names with control characters."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pandas as pd
import pytest
from command_line import X, Y, in_file, read_json, run, selected

COMMAND = [sys.executable, "-m", "banditsis.cli.app", "screen"]
HOSTILE = "größe \x1b[31m\x07\x9b2J\u202e"


def start(folder, tmp_path, *options, **streams):
    """Screen in a real process that writes best.csv."""
    command = [*COMMAND, str(folder / "x.npy"), "--keep", "30", "--target", str(folder / "y.npy")]
    command += ["--output", str(tmp_path / "best.csv"), *options]
    done = subprocess.run(command, check=False, **({"stderr": subprocess.PIPE} | streams))
    assert len((tmp_path / "best.csv").read_text().splitlines()) == 31
    (tmp_path / "best.csv").unlink()
    return done


def test_files_are_written_though_nobody_reads_the_output(folder, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    done = start(folder, tmp_path, stdout=writer)
    os.close(writer)
    assert done.returncode == 141
    assert b"Error" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_standard_output_is_one_line(folder, tmp_path):
    with open("/dev/full", "w") as full:
        done = start(folder, tmp_path, "--json", stdout=full)
        assert done.returncode == 1
        assert done.stderr == b"error: cannot write to standard output: No space left on device.\n"
        done = start(folder, tmp_path, stdout=subprocess.PIPE, stderr=full)  # messages can be lost
    assert done.returncode == 0
    assert b"2 of 30 clearly associated" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="has no limits of file sizes")
def test_a_file_that_the_disk_cannot_hold_is_named(folder, tmp_path):
    code = """
import resource, sys
from banditsis.cli.app import app
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
for option in ("--output=o.csv", "--output=o.parquet", "--output=o.json", "--report=o.html"):
    try:
        app([*sys.argv[1:], option], standalone_mode=True)
    except SystemExit as end:
        print("exit", end.code)
"""
    data = [str(folder / "x.npy"), "--target", str(folder / "y.npy"), "--keep", "30", "--quiet"]
    command = [sys.executable, "-c", code, "screen", *data]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["exit", "1"] * 4
    errors = [f"error: o.{suffix}: File too large." for suffix in ("csv", "parquet", "json", "html")]
    assert [line for line in done.stderr.splitlines() if "kernels" not in line] == errors
    assert not list(tmp_path.iterdir())


def test_temporary_files_take_no_name_of_others(folder, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "o.csv.part").symlink_to(tmp_path / "thesis.txt")
    assert run(*in_file(folder, "--output", tmp_path / "o.csv")).exit_code == 0
    assert (tmp_path / "thesis.txt").read_text() == "mine"
    assert {file.name for file in tmp_path.iterdir()} == {"thesis.txt", "o.csv.part", "o.csv"}


def test_closed_streams(folder, tmp_path):
    """Files must not take the place of a closed stream."""
    command = " ".join([*COMMAND, f"{folder / 'x.npy'} --target {folder / 'y.npy'} --keep 30"])
    done = subprocess.run(f"{command} --output {tmp_path / 'best.csv'} >&- 2>&-", shell=True)
    assert done.returncode == 0
    assert len((tmp_path / "best.csv").read_text().splitlines()) == 31


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_lines_fit_on_a_terminal(tmp_path):
    names = [f"{k} is the number of a column, and this is its name" for k in range(9)]
    pd.DataFrame(X[:50, :9], columns=names).assign(y=X[:50, 0]).to_parquet(tmp_path / "x.parquet")
    options = ("x.parquet", "--target", "y", "--exact")
    reader, writer = os.openpty()
    streams = {"stdout": writer, "stderr": subprocess.DEVNULL, "env": {**os.environ, "COLUMNS": "80"}}
    with subprocess.Popen([*COMMAND, *options], cwd=tmp_path, **streams) as process:
        os.close(writer)
        text = b""
        with suppress(OSError):  # at the end of a terminal
            while part := os.read(reader, 1 << 16):
                text += part
    os.close(reader)
    assert process.returncode == 0
    assert re.search(r"1  0 is .*….*name +\+1\.0000 +\S+e-\d+ +leakage\?", text.decode())
    assert max(map(len, text.decode().splitlines())) <= 80
    piped = run("screen", tmp_path / "x.parquet", *options[1:]).stdout
    assert "0 is the number …" in piped
    assert max(map(len, piped.splitlines())) > 80  # lines of a file are not wrapped


def test_names_that_cannot_be_encoded(tmp_path):
    pd.DataFrame(X[:50, :2], columns=[HOSTILE, "y"]).to_parquet(tmp_path / "x.parquet")
    command = [*COMMAND, str(tmp_path / "x.parquet"), "--target", "y", "--exact"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True)
    assert rb"gr\xf6\xdfe \x1b[31m\x07\x9b2J\u202e" in done.stdout
    record = read_json("screen", tmp_path / "x.parquet", "--target", "y", "--exact")
    assert record["features"][0]["name"] == HOSTILE


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    """In names of columns, classes and files: in tables, notes, errors, warnings and reports."""
    folder = tmp_path / HOSTILE
    folder.mkdir()
    path, report, table = folder / f"{HOSTILE}.parquet", folder / "report.html", folder / "o.csv"
    formula = "=1+1"  # for a spreadsheet; it is a name like any other
    frame = pd.DataFrame(X[:60, :4], columns=[HOSTILE, HOSTILE + "\r\n2", "a\nb", formula])
    frame["kind"], frame["y"] = HOSTILE, Y[:60]
    frame.loc[::2, "kind"] = "other"
    frame.to_parquet(path)
    wrong = {"--statistic": HOSTILE, "--output": folder / HOSTILE, "--keep": HOSTILE, "--budget": HOSTILE}
    for command in (
        ("info", path),
        ("screen", path, "--target", "y", "--keep", 6, "--report", report, "-o", table),
        *(("screen", path, "--target", target) for target in (HOSTILE, HOSTILE + "?", "kind")),
        *(("screen", path, "--target", "y", *option) for option in wrong.items()),
        ("screen", folder / f"{HOSTILE}?", "--target", "y"),
        ("index", path, "--out", folder / f"{HOSTILE}.index", "--target", "y"),
        ("plan", "--rows", 10, "--features", 10, "--keep", 1, "--dtype", HOSTILE),
    ):
        text = run(*command).output
        assert text
        assert not set(text) & set("\x1b\x07\x9b\u202e\r"), command
    assert not set(report.read_text("utf-8")) & set("\x1b\x07\x9b\u202e")
    assert {HOSTILE, "a\nb", formula} <= set(pd.read_csv(table, lineterminator="\n")["name"])
    single = run("screen", path, "--target", "y", "--columns", "a\nb,y", "--keep", 1).stdout
    assert re.search(r": 60 rows, 1 numeric feature\n(.*\n)*? *1 +a b +[+-]0", single)


SLOW = """
import sys, time
from banditsis.sources.array import ArraySource
from banditsis.cli.app import app
add_sums, calls = ArraySource.add_sums, []
def slowly(self, *args):
    add_sums(self, *args)
    calls.append(1)
    print("round", flush=True, file=sys.stderr)
    time.sleep(30 if len(calls) > 2 else 0)
ArraySource.add_sums = slowly
app()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_shows_what_is_known(folder):
    """A real process, interrupted in its third round."""
    options = ["screen", str(folder / "x.npy"), "--target", str(folder / "y.npy"), "--keep", "3", "--json"]
    command = [sys.executable, "-c", SLOW, *options, "--n-jobs", "1", "--alpha", "0.5"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": {**os.environ, "COLUMNS": "200"}}
    process = subprocess.Popen(command, text=True, **streams)
    for _ in range(3):
        process.stderr.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, "interrupted" in err, "Traceback" in err) == (130, True, False), err
    record = json.loads(out)
    assert 1 <= len(record["rounds"]) <= 2
    assert {7, 42} <= selected(record)
