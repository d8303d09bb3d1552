"""Tables of text that do not fit in memory: converted to Parquet, once."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.formats.csv import Form, MemoryTable, csv_options, explained
from banditsis.formats.parquet import ParquetSource
from banditsis.formats.registry import Opened

GROUP_BYTES = 1 << 28  # of a row group


def open_converted(
    path: Path,
    form: Form,
    why: str,
    target: str | None,
    one_hot: bool,
    ids_like: Sequence[str] | None = None,
) -> Opened:
    """Convert a table to Parquet, unless that has been done, and open that."""
    state = path.stat()
    name = f"{path.name}.{state.st_size:x}-{state.st_mtime_ns:x}.parquet"
    done = [folder / name for folder in _cache_folders(path) if (folder / name).exists()]
    if not done:
        # What is wrong in the first lines is told before anything is written.
        MemoryTable(_first_rows(path, form), path).choose(target, one_hot, form.row_names, ids_like)
        done = [_convert(path, form, name)]
        _remove_stale(path, done[0])
        warnings.warn(
            f"{path} {why}: it was converted once to {done[0]}, which you may delete.", stacklevel=4
        )
    opened = ParquetSource(done, path).choose(target, one_hot, form.row_names, ids_like)
    opened.source.notes = form.notes
    return opened


def _remove_stale(path: Path, kept: Path) -> None:
    """Remove what was made of the table as it was before; only beside it, where names tell whose they are."""
    if kept.parent != _cache_folders(path)[0]:
        return
    own = re.compile(re.escape(path.name) + r"\.[0-9a-f]+-[0-9a-f]+\.parquet")
    for file in kept.parent.iterdir():
        if own.fullmatch(file.name) and file != kept:
            with suppress(OSError):  # in use elsewhere
                file.unlink()


def _cache_folders(path: Path) -> list[Path]:
    return [path.resolve().parent / ".banditsis", Path(tempfile.gettempdir()) / f"banditsis-{_user()}"]


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


def _convert(path: Path, form: Form, name: str) -> Path:
    """Write the table as Parquet, first under another name, so that no half of it looks whole."""
    for folder in _cache_folders(path):
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            handle, part = tempfile.mkstemp(prefix=name, suffix=".part", dir=folder)
        except OSError:  # nothing may be written there
            continue
        os.close(handle)
        try:
            _write_parquet(path, form, part)
            os.replace(part, folder / name)
        finally:
            Path(part).unlink(missing_ok=True)
            with suppress(OSError):  # it goes if it is empty
                folder.rmdir()
        return folder / name
    raise ValueError(
        f"{path} does not fit in memory, and nothing can be written beside it or in {tempfile.gettempdir()}: "
        "raise the memory limit, or set TMPDIR to a folder with room."
    )


def _write_parquet(path: Path, form: Form, destination: str) -> None:
    import pyarrow.parquet as pq
    from pyarrow import csv as arrow_csv

    kinds = _stable_kinds(_first_rows(path, form).schema, form)
    convert = arrow_csv.ConvertOptions(column_types=kinds, strings_can_be_null=True)
    height = int(np.clip(GROUP_BYTES // (8 * len(form.names)), 1024, 1 << 17))
    try:
        reader = arrow_csv.open_csv(path, convert_options=convert, **csv_options(form))
        with pq.ParquetWriter(destination, reader.schema, use_dictionary=False) as writer:
            for table in _tables(reader, height):
                writer.write_table(table, row_group_size=height)
    except (OSError, ValueError) as error:
        raise explained(path, form, error) from error


def _tables(reader: Any, height: int) -> Iterator[Any]:
    """What is read, in tables of at least so many rows."""
    import pyarrow as pa

    waiting: list[Any] = []
    for batch in reader:
        waiting.append(batch)
        if sum(batch.num_rows for batch in waiting) >= height:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _first_rows(path: Path, form: Form) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    convert = arrow_csv.ConvertOptions(strings_can_be_null=True)
    try:
        reader = arrow_csv.open_csv(path, convert_options=convert, **csv_options(form))
        batch = next(iter(reader), None)
    except (OSError, ValueError) as error:
        raise explained(path, form, error) from error
    table = reader.schema.empty_table() if batch is None else pa.Table.from_batches([batch])
    if any(str(kind) == "binary" for kind in table.schema.types):
        raise explained(path, form, ValueError("it is not UTF-8 text"))
    return table


def _stable_kinds(schema: Any, form: Form) -> dict[str, Any]:
    """Types that the first block of a table shows, widened to what later blocks may bring."""
    import pyarrow as pa

    t = pa.types
    kinds = {f.name: pa.float64() if t.is_integer(f.type) or t.is_null(f.type) else f.type for f in schema}
    if form.row_names is not None:
        kinds[form.names[form.row_names]] = pa.string()
    return kinds
