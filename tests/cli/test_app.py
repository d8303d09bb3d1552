"""The command line, as a person runs it."""

import json
import subprocess
import sys
import threading

import pytest

from banditsis import Plan, __version__
from banditsis.core.progress import ProgressBar, show_progress, status


def banditsis(*arguments):
    command = [sys.executable, "-m", "banditsis.cli.app", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_demo():
    result = banditsis("demo", "--rows", "20000", "--features", "300", "--keep", "20")
    assert result.returncode == 0, result.stderr
    found = [line.split()[-6:] for line in result.stdout.splitlines() if line.startswith("BanditSIS ")]
    correlation, distance = found
    assert correlation[:3] == distance[:3] == ["10", "of", "10"]
    assert distance[3:] == ["5", "of", "5"]
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_help_and_version():
    text = banditsis("--help").stdout
    for part in ("demo", "Exit codes: 0", "130"):
        assert part in text
    assert banditsis("--version").stdout.strip() == f"banditsis {__version__}"


def test_a_mistake_gets_a_message_and_no_traceback():
    result = banditsis("demo", "--rows", "10")
    assert result.returncode == 2
    assert "1000" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_progress_bar_shows_the_amount(capsys):
    with ProgressBar("shuffling", "bytes", shown=True) as bar:
        bar(10**9, 4 * 10**9)
        bar(2 * 10**9, 4 * 10**9)
    text = capsys.readouterr().err
    assert "shuffling" in text
    assert "50%" in text
    assert "2 GB/4 GB" in text
    with ProgressBar() as bar:
        bar(1, 2)
    assert capsys.readouterr().err == ""


def test_the_label_of_a_bar_is_that_of_the_run_in_every_thread(capsys):
    """Threads that read cells report them, and they have no status of their own."""
    with ProgressBar(shown=True) as bar, show_progress(bar, 100) as tick:
        status().start_round(2, 5)
        thread = threading.Thread(target=tick, args=(50,))
        thread.start()
        thread.join()
        tick(50)
    text = capsys.readouterr().err
    assert "round 2 of 5" in text
    assert "screening" not in text


def test_rich_is_loaded_only_for_bars():
    code = "import sys, banditsis.core.formatting, banditsis.core.progress; print('rich' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_planning_without_data():
    result = banditsis("plan", "--rows", "1e12", "--features", "1e6", "--keep", "100", "--budget", "1e-6")
    assert result.returncode == 0, result.stderr
    assert "optimal: 1,000,000,000,000 rows × 1,000,000 features" in result.stdout
    assert "Detection floor" in result.stdout
    assert "full SIS (exact)" in result.stdout


def test_planning_as_json():
    sizes = ("plan", "--rows", "1e7", "--features", "10000", "--keep", "50")
    record = json.loads(banditsis(*sizes, "--min-correlation", "0.1", "--dtype", "float64", "--json").stdout)
    assert record["name"] == "guaranteed"
    assert record["bytes"] == 8 * record["cells"] < 8 * record["most_cells"]
    assert record["detection_floor"] == pytest.approx(0.1)
    several = json.loads(banditsis(*sizes, "--compare", "--json").stdout)
    assert several["full SIS (exact)"]["fraction"] == 1
    assert several["this plan"]["cells"] == Plan.paper(10**7, 10_000, 50).with_few_steps().cells


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--budget", "1e-9"), "4e-06"),
        (("--alpha", "1", "--budget", "0.1"), "mutually exclusive"),
        (("--min-correlation", "2"), "must be in (0, 1), got 2"),
        (("--rows", "many"), "--rows"),
        (("--rows", "inf"), "'inf' is not a positive integer"),
        (("--rows", "1.5"), "'1.5' is not a positive integer"),
        (("--dtype", "text"), "--dtype must be a type of numbers such as float32 or int8, got 'text'"),
        (("--dtype", "object"), "--dtype must be a type of numbers"),
        (("--budget", "half"), "'half' is not a number"),
    ],
)
def test_planning_the_impossible_gets_a_message(options, message):
    sizes = () if "--rows" in options else ("--rows", "1e6")
    result = banditsis("plan", *sizes, "--features", "1e4", "--keep", "10", *options)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", ["", "screen", "shuffle", "info", "plan", "demo"])
def test_short_and_long_help_are_the_same(command):
    short, long = banditsis(*command.split(), "-h"), banditsis(*command.split(), "--help")
    assert (short.returncode, short.stdout) == (0, long.stdout)
    assert "-h" in short.stdout


def test_confidence_needs_a_minimum_correlation():
    sizes = ("plan", "--rows", "1e6", "--features", "1e4", "--keep", "10", "--confidence", "0.9", "--json")
    result = banditsis(*sizes)
    assert result.returncode == 2
    assert "--confidence is the probability for --min-correlation" in result.stderr
    likely = json.loads(banditsis(*sizes, "--min-correlation", "0.1").stdout)
    assert (
        likely["steps"]
        != json.loads(banditsis(*sizes[:-3], "--json", "--min-correlation", "0.1").stdout)["steps"]
    )
