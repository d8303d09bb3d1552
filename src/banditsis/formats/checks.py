"""What is checked of every file: that its library can read it, and that it fits in memory."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from lzma import LZMAError
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

#: Where Linux describes the memory.
PROC = Path("/proc")
#: What libraries raise for damaged files.
DAMAGE = (
    *(ValueError, OSError, RuntimeError, LookupError, TypeError, AttributeError, ArithmeticError),
    *(SystemError, EOFError, MemoryError, SyntaxError, TokenError, BadZipFile, LZMAError, zlib.error),
)


@contextmanager
def readable(path: object, format_name: str, errors: tuple[type[Exception], ...] = DAMAGE) -> Iterator[None]:
    """Raise one error that says what to do if a library cannot read a file."""
    try:
        yield
    except errors as error:
        if isinstance(error, ValueError) and str(path) in str(error):  # which says what to do
            raise
        raise damaged(path, format_name, error) from error


def damaged(path: object, format_name: str, error: Exception) -> Exception:
    """The error to raise if a library cannot read a file."""
    if isinstance(error, (FileNotFoundError, PermissionError, ImportError)):
        return error
    reason = " ".join(str(error).split("\n")[0].split()).rstrip(". ") or type(error).__name__
    if isinstance(error, MemoryError):  # a wrong length asks for too much, too
        return ValueError(
            f"{path} cannot be read: {reason}; it is damaged, or its parts do not fit in memory: write it "
            "again, with smaller chunks or groups of rows."
        )
    return ValueError(f"{path} is not a valid {format_name} file: {reason}; write it again.")


def import_optional(module: str, format_name: str, extra: str) -> Any:
    """Import an optional library, or explain how to install it.

    Examples
    --------
    >>> import_optional("no_such_library", "Zarr", "zarr")
    Traceback (most recent call last):
    ImportError: reading Zarr needs no-such-library: pip install 'banditsis[zarr]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0].replace("_", "-")
        raise ImportError(
            f"reading {format_name} needs {package}: pip install 'banditsis[{extra}]'"
        ) from error


def check_memory(path: object, n_bytes: float, limit: int | None) -> None:
    """Raise if what must be held in memory is larger than the limit, or than the free memory."""
    allowed = available_memory() if limit is None else limit
    if n_bytes > allowed:
        what = "free memory" if limit is None else "limit"
        raise ValueError(
            f"{path} must be read into memory, and its {n_bytes:,.0f} bytes are more than the {what} of "
            f"{allowed:,}: raise the limit, or convert the file to Parquet or Zarr."
        )


def allowed_memory(limit: int | None) -> int:
    """The limit in bytes; by default half of the available memory."""
    return available_memory() // 2 if limit is None else limit


def available_memory() -> int:
    """Bytes that this process can still use."""
    try:
        lines = dict(line.split(":") for line in (PROC / "meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        if not hasattr(os, "sysconf"):
            return 1 << 32
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
