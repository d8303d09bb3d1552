"""Tables of DuckDB and SQLite, and DuckDB queries, against the same rows in memory."""

import contextlib
import gc
import sqlite3
import tempfile

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from banditsis import Plan, open_data, open_source, screen, shuffle
from banditsis.cli.app import app
from banditsis.formats.opening import column_names
from banditsis.formats.registry import find_format

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(rng.standard_normal((3000, 5)), columns=list("abcde"))
FRAME["count"] = np.arange(3000)
FRAME["y"] = FRAME["b"] + rng.standard_normal(3000)
X = FRAME.drop(columns="y").to_numpy()
EMPTY = {"id": 0}


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(path) as connection:
        connection.register("frame", FRAME)
        connection.execute('CREATE TABLE "my orders" AS FROM frame')
        connection.execute("CREATE SCHEMA old; CREATE TABLE old.orders AS FROM frame LIMIT 7")
        connection.execute("CREATE VIEW best AS SELECT a, y FROM 'my orders' LIMIT 9")
    return path


@pytest.fixture
def sqlite_file(tmp_path):
    path = tmp_path / "shop.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        FRAME.to_sql("orders", connection, index=False)
        connection.execute("CREATE TABLE mixed (i, r, t, m)")
        connection.executemany("INSERT INTO mixed VALUES (?, ?, ?, NULL)", [(1, 2, "u"), (None, 2.5, 7)])
        connection.commit()
    return path


def read_all(source):
    return source.read(slice(0, source.shape[0]), None)


@pytest.mark.parametrize("limit", [None, 10_000])
def test_a_relation_in_memory_and_stored(limit):
    relation = duckdb.connect().from_df(FRAME)
    source, y, *_ = open_data(relation, target="y", memory_limit=limit)
    assert source.names == [*"abcde", "count"]
    np.testing.assert_array_equal(read_all(source), X)
    np.testing.assert_array_equal(y, FRAME["y"])
    plan = Plan.paper(*X.shape, 2)
    if limit is None:  # rows are in memory, so single rows are sampled as in an array
        found, expected = screen(source, y, plan, random_state=0), screen(X, y, plan, random_state=0)
        np.testing.assert_array_equal(found.selected, expected.selected)
        assert found.parameters["row_order"] == "random"


def test_the_query_is_run_once_and_its_rows_stay(tmp_path):
    connection = duckdb.connect()
    relation = connection.sql("SELECT random() AS a, random() AS b FROM range(5000)")
    for limit in (None, 1000):
        source = open_source(relation, memory_limit=limit)
        np.testing.assert_array_equal(read_all(source), read_all(source))
    assert connection.sql("SELECT 1").fetchall() == [(1,)]


def test_stored_rows_are_removed_with_the_source(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = open_source(duckdb.sql("SELECT range + 0.5 AS a FROM range(5000)"), memory_limit=1000)
    assert len(list(tmp_path.glob("banditsis-*/rows.parquet"))) == 1
    np.testing.assert_array_equal(read_all(source)[:, 0], np.arange(5000) + 0.5)
    del source
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_types_of_duckdb():
    relation = duckdb.sql(
        "SELECT true AS b, 3::HUGEINT AS h, 1.25::DECIMAL(9, 2) AS d, 7::UTINYINT AS u, NULL::DOUBLE AS m"
    )
    source = open_source(relation)
    np.testing.assert_array_equal(read_all(source), [[1, 3, 1.25, 7, np.nan]])


@pytest.mark.parametrize(("inner", "n_rows"), [("my orders", 3000), ("old.orders", 7), ("best", 9)])
def test_tables_of_a_database(database, inner, n_rows):
    source, y, *_ = open_data(f"{database}:/{inner}", target="y")
    assert source.shape[0] == n_rows
    if inner != "best":
        np.testing.assert_array_equal(read_all(source), X[:n_rows])
    np.testing.assert_array_equal(y, FRAME["y"][:n_rows])
    assert column_names(f"{database}:/{inner}")[-1] == "y"


def test_the_only_table_needs_no_name(tmp_path):
    with duckdb.connect(tmp_path / "one.db") as connection:  # the content shows the format
        connection.execute("CREATE TABLE t AS SELECT 1.5 AS a")
    assert find_format(tmp_path / "one.db") == "duckdb"
    np.testing.assert_array_equal(read_all(open_source(tmp_path / "one.db")), [[1.5]])


def test_tables_that_do_not_exist(database, sqlite_file, tmp_path):
    with pytest.raises(ValueError, match=r"has 3 tables: open one of .*shop\.duckdb:/best"):
        open_source(database)
    with pytest.raises(ValueError, match=r"has no table 'order': open one of .*shop\.sqlite:/mixed"):
        open_source(f"{sqlite_file}:/order")
    duckdb.connect(tmp_path / "empty.duckdb").close()
    with pytest.raises(ValueError, match=r"empty\.duckdb has no table"):
        open_source(tmp_path / "empty.duckdb")


@pytest.mark.parametrize("limit", [None, 10_000])
def test_a_table_of_sqlite(sqlite_file, limit):
    source, y, *_ = open_data(f"{sqlite_file}:/orders", target="y", memory_limit=limit)
    np.testing.assert_array_equal(read_all(source), X)
    np.testing.assert_array_equal(y, FRAME["y"])
    assert column_names(f"{sqlite_file}:/orders") == list(FRAME.columns)


def test_values_of_sqlite_with_types_of_their_own(sqlite_file):
    source = open_source(f"{sqlite_file}:/mixed", one_hot=True)
    assert source.names == ["i", "r", "t=u", "m"]
    np.testing.assert_array_equal(read_all(source), [[1, 2, 1, np.nan], [np.nan, 2.5, 0, np.nan]])


def test_queries(tmp_path):
    FRAME.to_parquet(tmp_path / "big.parquet")
    query = f"duckdb:SELECT a, b, 4 // 2 AS two, y FROM '{tmp_path}/big.parquet' WHERE count >= 10"
    source, y, *_ = open_data(query, target="y")
    np.testing.assert_array_equal(read_all(source), np.column_stack([X[10:, :2], np.full(2990, 2)]))
    assert column_names(query) == ["a", "b", "two", "y"]
    (tmp_path / "y.csv").write_text("response\n" + "\n".join(map(str, y)))
    np.testing.assert_array_equal(open_data(query, target=f"{tmp_path}/y.csv")[1], y)


def test_queries_that_fail():
    with pytest.raises(ValueError, match=r"the DuckDB query cannot be read: Parser Error: syntax error"):
        open_source("duckdb:SELEC 1")
    with pytest.raises(ValueError, match=r"the DuckDB query cannot be read: Catalog Error: Table .* EMPTY"):
        open_source("duckdb:FROM EMPTY")  # and not the variable of this module
    with pytest.raises(ValueError, match=r"the DuckDB query cannot be read: .*Conversion Error"):
        open_source("duckdb:SELECT (CASE range WHEN 90000 THEN 'x' ELSE '1' END)::INT AS a FROM range(99999)")
    with pytest.raises(ValueError, match="the DuckDB query has several columns called 'a'"):
        open_source("duckdb:SELECT 1 AS a, 2 AS a")
    with pytest.raises(ValueError, match="the DuckDB relation has no column 'z'"):
        open_data(duckdb.sql("SELECT 1 AS a"), target="z")
    with pytest.raises(ValueError, match="the DuckDB query has no rows"):
        open_source("duckdb:SELECT 1.5 AS a WHERE false")


def test_damaged_databases(tmp_path):
    (tmp_path / "x.duckdb").write_bytes(bytes(8) + b"DUCK\x40" + bytes(40))
    with pytest.raises(ValueError, match=r"x\.duckdb cannot be read: "):
        open_source(tmp_path / "x.duckdb")
    (tmp_path / "x.sqlite").write_bytes(b"SQLite format 3\0" + bytes(200))
    with pytest.raises(ValueError, match=r"x\.sqlite is not a valid SQLite file: .*; write it again"):
        open_source(tmp_path / "x.sqlite")
    (tmp_path / "y.duckdb").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is named as a DuckDB file, but its content is not"):
        open_source(tmp_path / "y.duckdb")


@pytest.mark.parametrize("use", ["table", "query"])
def test_the_commands(database, tmp_path, use):
    FRAME.to_parquet(tmp_path / "x.parquet")
    data = f"{database}:/my orders" if use == "table" else f"duckdb:FROM '{tmp_path}/x.parquet'"
    run = CliRunner().invoke(app, ["screen", data, "--target", "y", "--keep", "1", "--exact", "--verbose"])
    assert run.exit_code == 0, run.output
    assert "DuckDB, 3,000 rows × 6 features" in run.output
    assert "(DuckDB)" in CliRunner().invoke(app, ["info", data]).output
    shuffle(data, tmp_path / "shuffled.zarr", target="y")
    assert open_source(tmp_path / "shuffled.zarr").shape == (3000, 6)


def test_queries_are_not_run_on_workers():
    options = ["--target", "y", "--scheduler", "tcp://127.0.0.1:1"]
    run = CliRunner().invoke(app, ["screen", "duckdb:SELECT 1 AS y", *options])
    assert run.exit_code == 2
    assert "another order on each worker" in run.output


def test_columns_that_are_not_used_are_not_read(tmp_path):
    """A column that cannot be computed does no harm if it is dropped."""
    broken = "SELECT *, CAST('x' || CAST(a AS VARCHAR) AS DOUBLE) AS broken, FROM frame"
    frame = FRAME.assign(order_id=np.arange(3000))
    relation = duckdb.sql(broken)
    assert len(frame) == 3000
    with pytest.raises(ValueError, match="Conversion Error"):
        open_data(relation, target="y")
    for options in ({"drop": "broken"}, {"columns": ["a", "order_id", "2"]}):
        source, y, *_ = open_data(relation, target="y", **options)
        assert "broken" not in source.names
        np.testing.assert_array_equal(y, FRAME["y"])
    assert source.names == ["a", "b", "order_id"]  # an id that was asked for is a feature


def test_ids_by_number_if_columns_are_chosen():
    frame = FRAME.assign(who=np.arange(3000)[::-1])
    relation = duckdb.sql("FROM frame")
    assert len(frame) == 3000
    source = open_source(relation, id="8", columns="d")
    assert source.names == ["d"]
