"""The command line, as a person runs it."""

import re
import subprocess
import sys
import threading

import click
import pytest
from command_line import read_json, run

from banditsis import __version__
from banditsis.cli.app import GROUPS, app
from banditsis.core.progress import ProgressBar, show_progress, status
from banditsis.plans import make_plan
from banditsis.statistics import STATISTICS


def test_demo():
    result = run("demo", "--rows", "20000", "--features", "300", "--keep", "20")
    assert result.exit_code == 0, result.stderr
    correlation, distance = re.findall(r"^BanditSIS.* (\d+ of \d+) +(\S+ \S+ \S+)$", result.stdout, re.M)
    assert (correlation[0], *distance) == ("10 of 10", "10 of 10", "5 of 5")
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_help_version_and_completion():
    assert run("-h").stdout == run("--help").stdout
    groups = [run("screen", "--help").stdout.index(f"\n{group}:") for group in GROUPS]
    assert groups == sorted(groups)
    for name, command in app.commands.items():
        text = run(name, "--help").stdout
        assert f"\n  {name} " in run("-h").stdout
        assert "Exit codes: 0 success, 1 invalid input" in text
        assert max(map(len, text.splitlines())) <= 80
        assert all(option in text for parameter in command.params[1:] for option in parameter.opts)
    code = """
import sys, banditsis.core.progress
from banditsis.cli.app import app
app(["--version"], standalone_mode=False)
print(*{"rich", "numpy", "pyarrow"} & {*sys.modules})  # rich is loaded for bars only
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"banditsis {__version__}", ""]
    screen = app.commands["screen"]
    parameters = {parameter.name: parameter for parameter in screen.params}
    for name, incomplete, expected in (
        ("statistic", "pe", ["pearson"]),
        ("statistic", "", ["auto", *STATISTICS]),
        ("row_order", "b", ["blocks"]),
    ):
        found = parameters[name].shell_complete(click.Context(screen), incomplete)
        assert [completion.value for completion in found] == expected


def test_planning():
    small = ("plan", "--rows", 100, "--features", 50, "--keep", 1, "--budget", 1)
    assert read_json(*small)["fraction"] == 1
    huge = ("plan", "--rows", "1e12", "--features", "1e6", "--keep", "100", "--budget", "1e-6", "--compare")
    text = run(*huge).stdout
    assert re.search(r"optimal: 1,000,000,000,000 rows × 1,000,000 features(.|\n)*Detection floor", text)
    assert max(map(len, text.splitlines())) <= 80
    sizes = ("plan", "--rows", "1e7", "--features", "10000", "--keep", "50")
    record = read_json(*sizes, "--min-correlation", "0.1", "--dtype", "float64")
    assert (record["name"], record["detection_floor"]) == ("guaranteed", pytest.approx(0.1))
    assert record["bytes"] == 8 * record["cells"] < 8 * record["most_cells"]
    likely = read_json(*sizes, "--min-correlation", "0.1", "--confidence", "0.9")
    assert likely["steps"] != record["steps"]
    records = read_json(*sizes, "--compare")
    cells = make_plan(10**7, 10_000, 50).cells
    compared = {name: other["cells"] / cells for name, other in records.items()}
    assert compared["this plan"] == 1
    assert compared.pop("all rows (SIS)") > 1
    assert all(0.99 <= share <= 1 for share in compared.values())
    assert any(name.startswith("paper (α = 0.4") for name in compared)


def test_a_progress_bar_shows_the_amount(capsys):
    with ProgressBar("shuffling", "bytes", shown=True) as bar:
        bar(10**9, 4 * 10**9)
        bar(2 * 10**9, 4 * 10**9)
    assert re.search("shuffling.*50%.*2.0/4.0 GB", capsys.readouterr().err)
    with ProgressBar() as bar:
        bar(1, 2)
    assert capsys.readouterr().err == ""


def test_the_label_of_a_bar_is_that_of_the_run_in_every_thread(capsys):
    """Threads that read cells report them, and they have no status of their own."""
    with ProgressBar(shown=True) as bar, show_progress(bar, 100) as tick:
        status().round, status().n_rounds = 2, 5
        thread = threading.Thread(target=tick, args=(50,))
        thread.start()
        thread.join()
        tick(50)
    text = capsys.readouterr().err
    assert ("round 2 of 5" in text, "screening" in text) == (True, False)
