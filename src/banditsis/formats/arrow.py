"""Arrow files (IPC, Feather), and folders of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from banditsis.formats.parquet import find_files
from banditsis.formats.registry import Opened, import_optional
from banditsis.formats.tables import TableSource, check_equal_schemas, damaged

MAX_READERS = 64


class ArrowSource(TableSource):
    """One Arrow file, or several of equal schema, one below the other, mapped into memory.

    A reader is made for some columns and knows no others: then compressed files are decompressed for
    these alone.

    Parameters
    ----------
    paths : sequence of Path
        The files.
    where : object
        What messages call them.
    """

    def __init__(self, paths: Sequence[Path], where: object) -> None:
        self.where = where
        self._readers: dict[tuple[Path, tuple[int, ...]], tuple[Any, threading.Lock]] = {}
        self._groups: list[tuple[Path, int]] = []
        schemas, lengths = [], []
        for path in paths:
            # A reader of one column finds out the lengths without the others.
            reader = _open(path, [0])
            schemas.append(_schema(path))
            for group in range(reader.num_record_batches):
                n = _batch(path, reader, group).num_rows
                if n > 0:
                    self._groups.append((path, group))
                    lengths.append(n)
        self.schema, self.lengths = check_equal_schemas(paths, schemas, where), lengths

    def load(self, group: int, columns: Sequence[int], n_rows: int) -> list[Any]:
        path, number = self._groups[group]
        key = path, tuple(columns)
        found = self._readers.get(key)
        if found is None:
            found = _open(path, columns), threading.Lock()
            if len(self._readers) >= MAX_READERS:
                self._readers.clear()
            self._readers[key] = found
        reader, lock = found
        with lock:  # a reader is for one thread at a time
            return list(_batch(path, reader, number).columns)


def open_arrow(
    path: Path,
    target: str | None = None,
    *,
    one_hot: bool = False,
    ids_like: Sequence[str] | None = None,
    **options: Any,
) -> Opened:
    """Open a file, or all files below a folder."""
    import_optional("pyarrow", "parquet", "Arrow")
    return ArrowSource(find_files(path, (".arrow", ".feather", ".ipc")), path).choose(
        target, one_hot, ids_like=ids_like
    )


def _open(path: Path, columns: Sequence[int] | None) -> Any:
    import pyarrow as pa

    try:
        options = pa.ipc.IpcReadOptions(
            included_fields=None if columns is None else list(columns), use_threads=False
        )
        return pa.ipc.open_file(pa.memory_map(str(path)), options=options)
    except (OSError, ValueError) as error:
        raise damaged(path, "Arrow", error) from error


def _schema(path: Path) -> Any:
    schema = _open(path, None).schema
    if not schema.names:
        raise ValueError(f"{path} has no columns.")
    return schema


def _batch(path: Path, reader: Any, number: int) -> Any:
    try:
        return reader.get_batch(number)
    except (OSError, ValueError) as error:
        raise damaged(path, "Arrow", error) from error
