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

MIN_MEMORY = 1 << 27  # bytes that every limit allows for what a file declares
BYTES_PER_ROW, BYTES_PER_FEATURE = 16, 100  # a target and a row number; a name, sums and scores
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
        if isinstance(error, (FileNotFoundError, PermissionError, ImportError)):
            raise
        reason = " ".join(str(error).split("\n")[0].split()).rstrip(". ") or type(error).__name__
        if isinstance(error, MemoryError):  # a wrong length asks for too much, too
            raise ValueError(
                f"{path} cannot be read: {reason}; it is damaged, or its parts do not fit in memory: write "
                "it again, with smaller chunks or groups of rows."
            ) from error
        raise ValueError(f"{path} is not a valid {format_name} file: {reason}; write it again.") from error


def import_optional(module: str, what: str, extra: str) -> Any:
    """Import an optional library, or explain how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0].replace("_", "-")
        raise ImportError(f"reading {what} needs {package}: pip install 'banditsis[{extra}]'") from error


def check_memory(where: object, n_bytes: float, limit: int | None, why: str = "") -> None:
    """Raise if something needs more memory than the limit, or than the free memory.

    Every limit allows some of what a file declares, which is said in ``why``.
    """
    allowed = available_memory() if limit is None else max(limit, MIN_MEMORY) if why else limit
    if n_bytes > max(allowed, MIN_MEMORY if why else 0):
        what = "free memory" if limit is None else "limit"
        raise ValueError(
            f"{where} {why or 'must be read into memory'}, and {n_bytes:,.0f} bytes are more than the {what} "
            f"of {allowed:,}: raise the limit, write smaller chunks, or convert the data to Parquet or Zarr."
        )


def check_shape(where: object, shape: tuple[int, int], limit: int | None) -> None:
    """Raise if rows and features need too much memory, whatever is stored in their cells."""
    n_bytes = BYTES_PER_ROW * shape[0] + BYTES_PER_FEATURE * shape[1]
    check_memory(where, n_bytes, limit, "has {:,} rows and {:,} features".format(*shape))


def check_is_file(path: Path) -> None:
    """Raise if there is something else than a file or a folder: reading a FIFO would wait for ever."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path} is not a regular file: write the data to a file first.")


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


def to_text(value: Any) -> str:
    """A value as text; bytes are UTF-8."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
