"""Remote files, through fsspec: read in parts, or copied to this machine."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from banditsis.formats.checks import import_optional
from banditsis.formats.opened import Opened
from banditsis.formats.opening import find_format, open_file, split_path
from banditsis.formats.options import ReadOptions


def open_url(url: str, options: ReadOptions) -> Opened:
    """Open a remote Zarr array or index in place, which reads requested parts only, or a copy of others."""
    if find_format(url) in ("index", "zarr"):
        connect("/".join(filter(None, map(str, split_path(url)))))
        return open_file(url, options)
    outer, inner = split_path(url)
    return open_copy(str(outer), lambda copy: open_file(f"{copy}:/{inner}" if inner else copy, options))


def open_copy(url: str, open_file: Callable[[Path], Opened]) -> Opened:
    """Open a copy of a remote file or folder, which is removed with what was opened; errors name the URL."""
    files, path = connect(url)
    outside = [key for key in files.find(path) if ".." in key.split("/")] if files.isdir(path) else []
    if outside:
        raise ValueError(f"{url} has a file called {outside[0]!r}, which would be copied outside its folder.")
    copy = LocalCopy(path.rsplit("/", 1)[-1])
    files.get(path, str(copy.path), recursive=files.isdir(path))
    explain = partial(_name_url, copy, url)
    with explain():
        opened = open_file(copy.path)
    opened.where, opened.copy = url, copy
    opened.explained = explain
    return opened


class LocalCopy:
    """A temporary file, which is removed with this object."""

    def __init__(self, name: str) -> None:
        folder = tempfile.mkdtemp(prefix="banditsis-")
        self.path = Path(folder) / name
        self.remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


@contextmanager
def _name_url(copy: LocalCopy, url: str) -> Iterator[None]:
    """Put the URL in the place of the path in errors, after which the copy is not needed."""
    try:
        yield
    except (ValueError, TypeError) as error:
        path = str(copy.path)
        error.args = tuple(a.replace(path, url) if isinstance(a, str) else a for a in error.args)
        copy.remove()
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
