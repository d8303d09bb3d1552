"""The fuzz test itself: failures of a reader are noticed, whatever they are, and the rest continues."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import fuzz
import fuzz_references

ANSWER = {"X": np.arange(12.0).reshape(4, 3), "y": np.arange(4.0), "names": ["a", "b", "c"]}
RUN = fuzz.Run("npy", 7)


@pytest.fixture
def server(monkeypatch):
    """The server of processes imports once what all of them need; it does not take over ``sys.path``."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


@pytest.mark.usefixtures("server")
def test_damaged_files(tmp_path):
    cases = "npy", "npz CSR", "parquet", "arrow", "csv.gz", "zarr v3", "hdf5, gzip", "h5ad", "index", "plink"
    outcomes = list(fuzz.run_all([fuzz.Run(case, seed) for case in cases for seed in (3, 4)], tmp_path))
    assert [outcome for outcome in outcomes if outcome.kind in fuzz.FAILURES] == []
    assert fuzz.tabulate(outcomes).splitlines()[-1].split()[:2] == ["all", "20"]


def fail(run, root):
    """Fail in a way that depends on the seed."""
    if run.seed == 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    if run.seed == 1:
        time.sleep(60)
    if run.seed == 2:
        os._exit(3)
    yield "only ours reads", ""
    if run.seed == 3:  # in the reference reader
        os._exit(3)
    yield "right", str(len(list((root / run.folder).iterdir())))


@pytest.mark.usefixtures("server")
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_failures_are_noticed_and_the_rest_continues(tmp_path):
    runs = [fuzz.Run("npy", seed) for seed in range(6)]
    outcomes = list(fuzz.run_all(runs, tmp_path, fail, seconds=0.5))
    kinds = ["crash", "hang", "crash", "only ours reads", "right", "right"]
    assert [outcome.kind for outcome in outcomes] == kinds
    errors = ["SIGSEGV", "not finished after 0.5 seconds", "exit code 3"]
    assert [outcome.error for outcome in outcomes[:3]] == errors


def raising(error):
    def read(*args):
        raise error

    return read


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        (ValueError("x.npy is not a matrix."), ValueError(), "bare error"),
        (ValueError("{path} is not a matrix."), ValueError(), "error"),
        (ValueError("{path} is not a matrix."), None, "only theirs reads"),
        (ValueError(""), None, "traceback"),
        (KeyError("x"), None, "traceback"),
        (MemoryError(), None, "blow-up"),
        (None, ValueError(), "only ours reads"),
        (None, None, "right"),
    ],
    ids=str,
)
def test_outcomes_are_told_apart(ours, theirs, kind, tmp_path, monkeypatch):
    path = tmp_path / RUN.folder / "x.npy"
    read_ours = {"X": ANSWER["X"], "y": ANSWER["y"], "names": None, "shape": (4, 3)}
    if ours is not None:
        ours = type(ours)(*(str(text).format(path=path) for text in ours.args))
    monkeypatch.setattr(fuzz, "read_ours", raising(ours) if ours else lambda *args: read_ours)
    monkeypatch.setattr(fuzz, "read_theirs", raising(theirs) if theirs else lambda *args: ANSWER)
    assert list(fuzz.check_run(RUN, tmp_path))[-1][0] == kind


@pytest.mark.parametrize("part", ["X", "column", "rows", "y", "names", "scores", "shape"])
def test_differences_are_found(part):
    ours = ANSWER | {"shape": (4, 3), "column": ANSWER["X"][:, [1]], "rows": ANSWER["X"][[0, 2, 3]]}
    assert fuzz_references.difference(ours, ANSWER) == ""
    wrong = (1, 3) if part == "shape" else ["b", "a", "c"] if part == "names" else np.zeros((4, 3))
    assert fuzz_references.difference(
        ours | {part: wrong[0] if part == "scores" else wrong}, ANSWER
    ).startswith(part)
