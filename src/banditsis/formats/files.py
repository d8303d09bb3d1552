"""What every format needs: paths, URLs, and checks that a library can read a file and it fits in memory."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
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


def is_url(data: Any) -> bool:
    """Whether data is a URL and not a path."""
    return isinstance(data, str) and re.match(r"[a-z][a-z0-9+.-]+://", data) is not None


def local_path(data: Any) -> Path | None:
    """The local file or folder that data is in; None for URLs and data in memory."""
    if not isinstance(data, (str, os.PathLike)) or is_url(data):
        return None
    return Path(split_path(data)[0])


def split_path(path: str | os.PathLike[str]) -> tuple[Path | str, str]:
    """A file or a URL, and the path within it that follows a colon: data.h5:/counts/raw."""
    text = str(path) if is_url(path) else Path(path).as_posix()
    start = re.match(r"[a-z0-9+.-]+://|[A-Za-z]:/|", text)  # Windows: C:/data.h5:/counts
    end = text.find(":/", start.end() if start else 0)
    if end >= 0 and (is_url(path) or not Path(path).exists()):
        outer, inner = text[:end], text[end:].strip(":/")
        return (outer if is_url(path) else Path(outer)), inner
    return (text if is_url(path) else Path(find_prefix(path))), ""


def find_prefix(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The file that a prefix of PLINK stands for, ``x.bed`` for ``x``; else the path itself."""
    is_prefix = not is_url(path) and not Path(path).exists() and (bed := Path(f"{path}.bed")).is_file()
    return bed if is_prefix else path


class LocalCopy:
    """A temporary copy of a remote file or folder, which is removed with this object."""

    def __init__(self, url: str) -> None:
        files, path = connect(url)
        names = files.find(path) if files.isdir(path) else []
        if outside := [name for name in names if ".." in name.split("/")]:
            raise ValueError(
                f"{url} has a file called {outside[0]!r}, which would be copied outside its folder."
            )
        folder = tempfile.mkdtemp(prefix="banditsis-")
        self.url, self.path = url, Path(folder) / path.rsplit("/", 1)[-1]
        self.remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        files.get(path, str(self.path), recursive=files.isdir(path))

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Put the URL in the place of the path in errors, after which the copy is not needed."""
        try:
            yield
        except (ValueError, TypeError) as error:
            path = str(self.path)
            error.args = tuple(a.replace(path, self.url) if isinstance(a, str) else a for a in error.args)
            self.remove()
            raise


def connect(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    fsspec = import_optional("fsspec", "URLs", "s3")
    try:
        files, path = fsspec.core.url_to_fs(url)
        if not files.exists(path):
            raise FileNotFoundError(f"{url} does not exist or is not readable: check the URL.")
    except ImportError as error:
        raise ImportError(f"reading {url} needs another package: {error}.") from error
    return files, path.rstrip("/")
