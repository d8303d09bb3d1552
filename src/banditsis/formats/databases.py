"""Tables of DuckDB and SQLite databases, and the results of DuckDB queries."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from banditsis.formats.arrow import read_table, write_parquet
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.registry import QUERY, Opened, allowed_memory, import_optional, split_path
from banditsis.formats.tables import check_unique_names, damaged, find_roles, open_table
from banditsis.sources.tables import FrameSource, RowGroup, Table

BATCH_CELLS = 1 << 24  # of a batch of rows: few batches, and each is small compared to the memory
#: Number a value of SQLite by its type, so the largest number is that of a type for the whole column.
SQLITE_KIND = "CASE typeof({}) WHEN 'null' THEN 0 WHEN 'integer' THEN 1 WHEN 'real' THEN 2 ELSE 3 END"


class Rows(NamedTuple):
    """The result of a query, which can be read once."""

    schema: Any
    batches: Iterator[Any]


#: Runs a query, until the context is left.
Run = Callable[[], AbstractContextManager[Rows]]


def open_duckdb(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open a table or view of a DuckDB file: ``shop.duckdb:/table``, or the only one."""
    with _duckdb_table(path) as relation:
        return open_relation(relation, apart, options, path)


def open_query(text: str, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open the result of ``duckdb:SELECT …``."""
    with _duckdb_query(text) as relation:
        return open_relation(relation, apart, options, "the DuckDB query")


def open_relation(
    relation: Any,
    apart: Sequence[str] = (),
    options: ReadOptions = DEFAULTS,
    where: object = "the DuckDB relation",
) -> Opened:
    """Open a relation of DuckDB; its query is run once, because rows could have another order next time."""
    names = list(relation.columns)
    check_unique_names(names, where)
    taken, ids, chosen = find_roles(names, apart, (), options, where)
    used = sorted({*taken, *ids, *chosen})
    if len(used) < len(names):  # the database need not read the others
        relation = relation.project(", ".join(_quote(names[j]) for j in used))
        columns = [names[j] for j in chosen] if options.columns else ()
        own_id = None if options.id is None else names[ids[0]]
        options = options._replace(columns=columns, drop=(), id=own_id)
        apart = [names[j] for j in taken]
    return _open_rows(partial(_run_relation, relation, where), apart, options, where)


def open_sqlite(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open a table or view of an SQLite file: ``shop.sqlite:/table``, or the only one."""
    return _open_rows(partial(_run_sqlite, path), apart, options, path)


def database_columns(data: str | os.PathLike[str]) -> list[str]:
    """The columns of a query, or of a table of a database."""
    if str(data).startswith(QUERY):
        with _duckdb_query(str(data)) as relation:
            return list(relation.columns)
    path = Path(data)
    with open(split_path(path)[0], "rb") as file:
        is_sqlite = file.read(6) == b"SQLite"
    if is_sqlite:
        with _sqlite_table(path) as (_, _, names):
            return names
    with _duckdb_table(path) as relation:
        return list(relation.columns)


def _open_rows(run: Run, apart: Sequence[str], options: ReadOptions, where: object) -> Opened:
    """Hold rows in memory if they fit, else in a Parquet file that is removed with the source."""
    limit, held, size = allowed_memory(options.memory_limit), [], 0
    with run() as (schema, batches):
        check_unique_names(schema.names, where)
        find_roles(schema.names, apart, (), options, where)  # raises before anything is read
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if 2 * size > limit:  # the database needs memory, too
                return _open_stored(schema, _drain(held, batches), apart, options, where)
    groups = [RowGroup(len(batch), partial(_columns_of, batch)) for batch in held if len(batch)]
    return open_table(Table(schema, groups, where), apart, options, make=FrameSource)


def _columns_of(batch: Any, columns: Sequence[int], n_rows: int) -> list[Any]:
    return [batch.column(j) for j in columns]


def _drain(held: list[Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Yield all batches, and keep none of them in memory."""
    while held:
        yield held.pop(0)
    yield from batches


def _open_stored(
    schema: Any, batches: Iterator[Any], apart: Sequence[str], options: ReadOptions, where: object
) -> Opened:
    folder = tempfile.mkdtemp(prefix="banditsis-")
    try:
        path = Path(folder) / "rows.parquet"
        write_parquet(schema, batches, str(path))
        opened = open_table(read_table(path, where), apart, options)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(opened.source, shutil.rmtree, folder, ignore_errors=True)
    return opened


def _batch_rows(n_columns: int) -> int:
    return int(np.clip(BATCH_CELLS // max(1, n_columns), 1024, 1 << 17))


def _quote(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _choose_table(path: Path, tables: dict[str, str]) -> str:
    """The table that the path names, or the only one; ``tables`` has the SQL of each name."""
    file, inner = split_path(path)
    name = next(iter(tables), "") if inner is None and len(tables) == 1 else (inner or "").strip("/")
    if name in tables:
        return tables[name]
    if not tables:
        raise ValueError(f"{file} has no table.")
    choices = ", ".join(f"{file}:/{table}" for table in list(tables)[:5]) + ("…" if len(tables) > 5 else "")
    problem = f"{len(tables):,} tables" if inner is None else f"no table {name!r}"
    raise ValueError(f"{file} has {problem}: open one of {choices}.")


@contextmanager
def _duckdb_table(path: Path) -> Iterator[Any]:
    duckdb = import_optional("duckdb", "duckdb")
    with _explained(path), duckdb.connect(str(split_path(path)[0]), read_only=True) as connection:
        found = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal "
            "UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
        ).fetchall()
        tables = {
            name if schema == "main" else f"{schema}.{name}": f"FROM {_quote(schema)}.{_quote(name)}"
            for schema, name in found
        }
        yield connection.sql(_choose_table(path, tables))


@contextmanager
def _duckdb_query(text: str) -> Iterator[Any]:
    duckdb = import_optional("duckdb", "duckdb")
    # A table of the query must not be taken from the variables of Python.
    settings = {"python_enable_replacements": "false"}
    with _explained("the DuckDB query"), duckdb.connect(config=settings) as connection:
        relation = connection.sql(text.removeprefix(QUERY))
        if relation is None:
            raise ValueError("the DuckDB query returns no rows: write it as SELECT ….")
        yield relation


@contextmanager
def _explained(where: object) -> Iterator[None]:
    """Raise an error that names the table or query if DuckDB cannot read it."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        reason = str(error).splitlines()[0].rstrip(". ")
        raise ValueError(f"{where} cannot be read: {reason}.") from error


@contextmanager
def _run_relation(relation: Any, where: object) -> Iterator[Rows]:
    with _explained(where):
        reader = relation.to_arrow_reader(_batch_rows(len(relation.columns)))

    def read() -> Iterator[Any]:
        try:
            with _explained(where):
                yield from reader
        except OSError as error:  # Arrow's version of an error of DuckDB
            reason = str(error).splitlines()[0].rstrip(". ")
            raise ValueError(f"{where} cannot be read: {reason}.") from error

    with closing(reader):  # so the connection can run other queries after an error
        yield Rows(reader.schema, read())


@contextmanager
def _sqlite_table(path: Path) -> Iterator[tuple[sqlite3.Connection, str, list[str]]]:
    """The connection, and the name and columns of the table."""
    file = split_path(path)[0]
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as connection:
            found = connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                "AND substr(name, 1, 7) != 'sqlite_' ORDER BY name"
            )
            table = _choose_table(path, {name: _quote(name) for (name,) in found})
            columns = connection.execute(f"SELECT * FROM {table} LIMIT 0").description
            yield connection, table, [column[0] for column in columns]
    except sqlite3.Error as error:
        raise damaged(file, "SQLite", error) from error


@contextmanager
def _run_sqlite(path: Path) -> Iterator[Rows]:
    import pyarrow as pa

    with _sqlite_table(path) as (connection, table, names):
        # Every value of SQLite has a type of its own.
        kinds = connection.execute(
            f"SELECT {', '.join(f'max({SQLITE_KIND.format(_quote(name))})' for name in names)} FROM {table}"
        ).fetchone()
        types = [(pa.null(), pa.int64(), pa.float64(), pa.string())[kind or 0] for kind in kinds]
        schema = pa.schema(list(zip(names, types, strict=True)))
        yield Rows(schema, _sqlite_batches(connection.execute(f"SELECT * FROM {table}"), schema))


def _sqlite_batches(cursor: sqlite3.Cursor, schema: Any) -> Iterator[Any]:
    import pyarrow as pa

    while rows := cursor.fetchmany(_batch_rows(len(schema))):
        columns = [
            [None if value is None else str(value) for value in column]
            if pa.types.is_string(kind)
            else column
            for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
        ]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
        yield pa.record_batch(arrays, schema=schema)
