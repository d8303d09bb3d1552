"""Parquet files, and folders of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from banditsis.formats.registry import Opened, import_optional
from banditsis.formats.tables import TableSource, check_equal_schemas, damaged

MAX_HANDLES = 64  # open files that wait to be used again
COLUMNS_AT_ONCE = 1000  # the library slows down with more


class ParquetSource(TableSource):
    """One Parquet file, or several of equal schema, one below the other.

    Only the column chunks that are asked for are read, by plain reads: nothing between them.

    Parameters
    ----------
    paths : sequence of Path
        The files.
    where : object
        What messages call them.
    """

    def __init__(self, paths: Sequence[Path], where: object) -> None:
        self.where = where
        self._free: dict[Path, list[Any]] = {}
        self._lock = threading.Lock()
        self._metadata: dict[Path, Any] = {}
        self._groups: list[tuple[Path, int]] = []
        schemas, lengths = [], []
        for path in paths:
            handle = _open(path, None)
            self._metadata[path] = handle.metadata
            schemas.append(handle.schema_arrow)
            for group in range(handle.num_row_groups):
                n = handle.metadata.row_group(group).num_rows
                if n > 0:
                    self._groups.append((path, group))
                    lengths.append(n)
            self._give_back(path, handle)
        self.schema, self.lengths = check_equal_schemas(paths, schemas, where), lengths
        self._leaves = _first_leaves(self.schema)

    def tile_columns(self, n_columns: int) -> int:
        return min(COLUMNS_AT_ONCE, super().tile_columns(n_columns))

    def load(self, group: int, columns: Sequence[int], n_rows: int) -> list[Any]:
        path, number = self._groups[group]
        leaves = [self._leaves[j] for j in columns]
        with self._handle(path) as handle:
            reader = handle.reader  # by number: names are looked up among all columns
            try:
                if 4 * n_rows <= self.lengths[group]:  # the rest need not be decoded
                    batch = next(reader.iter_batches(n_rows, [number], leaves, use_threads=False))
                    if batch.num_rows >= n_rows:
                        return list(batch.columns)
                table = reader.read_row_group(number, column_indices=leaves, use_threads=False)
            except (OSError, ValueError) as error:
                raise damaged(path, "Parquet", error) from error
        return list(table.columns)

    @contextmanager
    def _handle(self, path: Path) -> Iterator[Any]:
        """An open file for one thread at a time; files stay open for the next."""
        with self._lock:
            free = self._free.get(path)
            handle = free.pop() if free else None
        if handle is None:
            handle = _open(path, self._metadata[path])
        yield handle
        self._give_back(path, handle)

    def _give_back(self, path: Path, handle: Any) -> None:
        with self._lock:
            if sum(map(len, self._free.values())) < MAX_HANDLES:
                self._free.setdefault(path, []).append(handle)
            else:
                handle.close()


def open_parquet(
    path: Path,
    target: str | None = None,
    *,
    one_hot: bool = False,
    ids_like: Sequence[str] | None = None,
    **options: Any,
) -> Opened:
    """Open a file, or all files below a folder."""
    import_optional("pyarrow", "parquet")
    return ParquetSource(find_files(path, (".parquet", ".pq")), path).choose(
        target, one_hot, ids_like=ids_like
    )


def find_files(path: Path, endings: tuple[str, ...]) -> list[Path]:
    """The file itself, or the files below a folder, by name; hidden ones are none."""
    if not path.is_dir():
        return [path]
    below = (file for file in path.rglob("*") if file.name.lower().endswith(endings) and file.is_file())
    found = sorted(file for file in below if not file.name.startswith((".", "_")))
    if not found:
        raise ValueError(f"{path} has no file that ends in {' or '.join(endings)}.")
    return found


def _open(path: Path, metadata: Any) -> Any:
    pq = import_optional("pyarrow.parquet", "parquet")
    try:
        return pq.ParquetFile(path, metadata=metadata)
    except (OSError, ValueError) as error:
        raise damaged(path, "Parquet", error) from error


def _first_leaves(schema: Any) -> list[int]:
    """Where each column begins among the columns that Parquet stores, of which nested ones have several."""
    first, total = [], 0
    for field in schema:
        first.append(total)
        total += _count_leaves(field.type)
    return first


def _count_leaves(kind: Any) -> int:
    if kind.num_fields == 0:
        return 1
    return sum(_count_leaves(kind.field(k).type) for k in range(kind.num_fields))
