"""What a shuffle has finished, line by line, so that it can go on after an interruption."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Journal:
    """A file of JSON lines, each appended when something is done; a torn last line does not count.

    Parameters
    ----------
    path : Path
        The file; it need not exist.

    Attributes
    ----------
    begun : dict or None
        What is being shuffled.
    vectors : dict or None
        The files of names, target and so on.
    decided : dict or None
        Layout and ways.
    scattered : int
        Rows that lie in buckets.
    pieces : dict
        The files of each finished piece.
    whole : bool
        Whether the store is whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._forget()
        length = 0
        data = path.read_bytes() if path.exists() else b""
        for line in data.splitlines(keepends=True):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError):
                break
            if not line.endswith(b"\n"):
                break
            length += len(line)
        if length < len(data):
            os.truncate(path, length)

    def _forget(self) -> None:
        self.begun: dict[str, Any] | None = None
        self.vectors: dict[str, Any] | None = None
        self.decided: dict[str, Any] | None = None
        self.scattered = 0
        self.pieces: dict[int, dict[str, Any]] = {}
        self.whole = False

    def _take(self, entry: dict[str, Any]) -> None:
        match entry["what"]:
            case "begun":
                self.begun = entry["about"]
            case "vectors":
                self.vectors = entry["files"]
            case "decided":
                self.decided = entry["about"]
            case "scattered":
                self.scattered = entry["rows"]
            case "piece":
                self.pieces[entry["piece"]] = entry["files"]
            case "whole":
                self.whole = True

    def _note(self, what: str, **entry: Any) -> None:
        with open(self.path, "a") as file:
            file.write(json.dumps({"what": what, **entry}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._take({"what": what, **entry})

    def begin(self, about: dict[str, Any]) -> None:
        """Start anew."""
        self.path.unlink(missing_ok=True)
        self._forget()
        self._note("begun", about=about)

    def note_vectors(self, files: Mapping[str, Any]) -> None:
        """Names, target and so on are written."""
        self._note("vectors", files=dict(files))

    def decide(self, about: dict[str, Any]) -> None:
        """Layout and ways are chosen."""
        self._note("decided", about=about)

    def note_scattered(self, rows: int) -> None:
        """So many rows lie in buckets."""
        self._note("scattered", rows=rows)

    def note_piece(self, piece: int, files: Mapping[str, Any]) -> None:
        """A piece is written."""
        self._note("piece", piece=piece, files=dict(files))

    def note_whole(self) -> None:
        """The store is whole, and only to be moved."""
        self._note("whole")


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Make a folder and keep other processes from working in it."""
    folder.mkdir(exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"{folder} is in use by another process: wait for it to end.") from None
        yield
