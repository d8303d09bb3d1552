"""Damaged files of every format: no crash, no traceback, no hang, no change that a checksum shows."""

import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import fuzz


def test_damaged_files(tmp_path):
    outcomes = list(fuzz.run(range(150), tmp_path))
    assert [outcome for outcome in outcomes if fuzz.failed(outcome)] == []
    kinds = Counter(outcome.kind for outcome in outcomes)
    assert min(kinds[kind] for kind in ("same", "error", "different")) >= 10


def fail(number, root):
    """Fail in a way that depends on the number."""
    if number == 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 1:
        time.sleep(60)
    if number == 2:
        os._exit(3)
    return "same", str(len(list((root / str(number)).iterdir())))


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_failures_are_noticed_and_the_rest_continues(tmp_path):
    outcomes = list(fuzz.run(range(6), tmp_path, fail, seconds=1))
    assert [outcome.kind for outcome in outcomes] == ["crash", "time-out", "crash", "same", "same", "same"]
    assert [outcome.error for outcome in outcomes[:3]] == [
        "SIGSEGV",
        "not finished after 1 seconds",
        "exit code 3",
    ]


class Unreadable:
    """A case of which every answer is an error of this type."""

    data, target, name, memory_limit, check = "{path}", "y", "x", None, None

    def __init__(self, error):
        self.error = error

    def pack(self, path):
        raise self.error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("x is not a matrix."), "error"),
        (ValueError(""), "traceback"),
        (KeyError("x"), "traceback"),
        (MemoryError(), "memory"),
    ],
    ids=str,
)
def test_errors_are_told_apart(error, kind, tmp_path, monkeypatch):
    monkeypatch.setitem(fuzz.CASES, "npy", Unreadable(error))
    monkeypatch.setattr(fuzz, "expected_answer", lambda name, root: "answer")
    assert fuzz.screen_damaged(0, tmp_path)[0] == kind


def test_a_changed_answer_is_a_failure_if_a_checksum_shows_it(tmp_path, monkeypatch):
    case = fuzz.CASES["npz dense"]
    fuzz.write_inputs(tmp_path, ["npz dense"])
    number = fuzz.NUMBERED.index("npz dense")
    (tmp_path / "npz dense").rename(tmp_path / str(number))
    monkeypatch.setattr(fuzz, "expected_answer", lambda name, root: "another answer")
    assert fuzz.screen_damaged(number, tmp_path)[0] == "different"
    path = tmp_path / str(number) / case.name
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    path.write_bytes(content)
    assert fuzz.shows_damage(case, path)
    assert fuzz.screen_damaged(number, tmp_path)[0] == "error"
    monkeypatch.setattr(fuzz, "find_answer", lambda *args: "the wrong answer")
    monkeypatch.setattr(fuzz, "show_info", lambda *args: "")
    assert fuzz.screen_damaged(number, tmp_path)[0] == "silent"
