"""Paths and URLs: what they name, and local copies of remote files, made by fsspec."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from banditsis.formats.checks import import_optional


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
