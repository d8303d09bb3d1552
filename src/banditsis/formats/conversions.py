"""Files that were converted to Parquet, and where they are kept."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from banditsis.core.validation import warn_user


def find_converted(path: Path, write: Callable[[str], None], reason: str, na: Sequence[str] = ()) -> Path:
    """The Parquet version of a file, which is written next to it or in the temporary folder.

    Parameters
    ----------
    path : Path
        The file, or a folder of files.
    write : callable
        Called with the name of the Parquet file to write, if there is none yet.
    reason : str
        Why the file must be converted, for the warning.
    na : sequence of str
        What stands for a missing value in it, besides the usual codes.
    """
    home = path.resolve().parent
    states = [file.stat() for file in (path, *(path.iterdir() if path.is_dir() else ()))]
    size, time = sum(state.st_size for state in states), max(state.st_mtime_ns for state in states)
    codes = "-" + hashlib.sha256(repr(sorted(na)).encode()).hexdigest()[:16] if na else ""
    name = f"{path.name}.{size:x}-{time:x}{codes}.parquet"
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    temporary = Path(tempfile.gettempdir()) / f"banditsis-{user}"
    # Files of other folders may have the same name.
    place = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    files = home / ".banditsis" / name, temporary / f"{place}-{name}"
    for file in files:
        if _is_private(file.parent) and file.exists():
            return file
    for file in files:
        if _write_once(file, write):
            if file.parent != temporary:
                _remove_stale(path, file, f"{path.name}.{size:x}-{time:x}")
            warn_user(f"{path} {reason}: it was converted once to {file}, which you may delete.")
            return file
    raise ValueError(
        f"{path} does not fit in memory, and neither {files[0].parent} nor {temporary} is a folder that you "
        "alone can write to: raise the memory limit, or set TMPDIR to a folder with space."
    )


def _write_once(destination: Path, write: Callable[[str], None]) -> bool:
    """Write a file that appears when it is complete; return whether its folder can be used."""
    folder = destination.parent
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(folder):
            return False
        handle, part = tempfile.mkstemp(prefix=destination.name, suffix=".part", dir=folder)
    except OSError:  # the folder is not writable
        return False
    os.close(handle)
    try:
        write(part)
        os.replace(part, destination)
    finally:
        Path(part).unlink(missing_ok=True)
        with suppress(OSError):  # remove it if it is empty
            folder.rmdir()
    return True


def _is_private(folder: Path) -> bool:
    """Whether a folder exists in which no other user can place files."""
    try:
        state = os.lstat(folder)
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return stat.S_ISDIR(state.st_mode)
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o022


def _remove_stale(path: Path, current: Path, version: str) -> None:
    """Remove conversions of other versions of the table than that whose names start with ``version``."""
    own = re.compile(re.escape(path.name) + r"\.[0-9a-f]+-[0-9a-f]+(-[0-9a-f]+)?\.parquet")
    for file in current.parent.iterdir():
        if own.fullmatch(file.name) and not file.name.startswith(version):
            with suppress(OSError):  # another process may use it
                file.unlink()
