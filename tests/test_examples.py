"""The fast examples run without errors or warnings; `make examples` runs all of them."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("name", ["settings", "flight_interactions"])
def test_example_runs(name):
    result = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "328,521 flights" in result.stdout


def test_a_rare_class():
    """The example of docs/sampling.md: strata find what uniform rows miss."""
    run = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / "rare_class.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "stratified: 10 of 10 kept" in run.stdout
