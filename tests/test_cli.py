"""The command line, as a person runs it."""

import subprocess
import sys


def banditsis(*arguments):
    command = [sys.executable, "-m", "banditsis.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_demo():
    result = banditsis("demo", "--rows", "20000", "--features", "300", "--keep", "20")
    assert result.returncode == 0, result.stderr
    assert "SIS reads everything" in result.stdout
    assert "kept 10 of the 10" in " ".join(result.stdout.split())


def test_help_and_version():
    assert "demo" in banditsis("--help").stdout
    assert banditsis("--version").stdout.startswith("banditsis 0.")


def test_a_mistake_gets_a_message_and_no_traceback():
    result = banditsis("demo", "--rows", "10")
    assert result.returncode == 2
    assert "1000" in result.stderr
    assert "Traceback" not in result.stderr
