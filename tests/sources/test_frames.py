"""Frames of pandas, polars and pyarrow, column by column."""

import datetime
import tracemalloc

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.utils.fixes import parse_version

from banditsis import BanditSIS, Plan, open_data, open_source, screen
from banditsis.formats.opened import ReadOptions
from banditsis.sources.array import ArraySource
from banditsis.sources.tables import FrameSource
from files import open_file, read_all
from reference import same

N = 60
rng = np.random.default_rng(0)
COLUMNS = {
    "a": rng.standard_normal(N),
    "b": rng.integers(-9, 9, N),
    "c": rng.random(N) < 0.5,
    "d": rng.standard_normal(N).astype("f4"),
    "gaps": [None if k % 7 == 0 else float(k) for k in range(N)],
    "few": [None if k % 5 == 0 else k for k in range(N)],
    "maybe": [None if k % 11 == 0 else k % 2 == 0 for k in range(N)],
}
EXPECTED = np.column_stack([np.array(values, dtype=float) for values in COLUMNS.values()])  # None becomes NaN
COLOURS = [["red", "green", "blue", None][k % 4] for k in range(N)]
FRAMES = {
    "pandas": lambda columns: pd.DataFrame(columns),
    "pandas, nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas, arrow": lambda columns: pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "polars, in pieces": lambda columns: pl.concat(
        [pl.DataFrame(columns)[:20], pl.DataFrame(columns)[20:]], rechunk=False
    ),
    "pyarrow": pa.table,
    "pyarrow, in pieces": lambda columns: pa.Table.from_batches(pa.table(columns).to_batches(20)),
}


@pytest.fixture(params=FRAMES)
def build(request):
    return FRAMES[request.param]


@pytest.mark.parametrize("rows", [slice(0, N), slice(15, 40), np.array([0, 3, 19, 20, 59])])
@pytest.mark.parametrize("columns", [None, slice(2, 5), np.array([0, 4, 6])])
def test_columns_of_every_kind_are_numbers(build, rows, columns):
    source = open_source(build(COLUMNS))
    assert source.shape == (N, len(COLUMNS))
    assert list(source.names) == list(COLUMNS)
    assert source.dtype == np.float64
    chosen = slice(None) if columns is None else columns
    np.testing.assert_allclose(source.read(rows, columns), EXPECTED[rows][:, chosen], rtol=1e-7)


def test_the_dtype_holds_all_values():
    small = {name: COLUMNS[name] for name in ("c", "d")}
    for build in FRAMES.values():
        assert open_source(build(small)).dtype == np.float32
    assert open_source(pl.DataFrame({"i": np.array([1, 2], "i2"), "u": np.array([1, 2], "u1")})).dtype == "f4"
    assert open_source(pl.DataFrame({"i": np.array([1, 2], "i4")})).dtype == "f8"


def test_a_target_is_taken_out(build):
    for wanted in ("b", "2"):
        source, y, *_ = open_data(build(COLUMNS), target=wanted)
        np.testing.assert_array_equal(y, COLUMNS["b"])
        assert list(source.names) == ["a", "c", "d", "gaps", "few", "maybe"]
        np.testing.assert_allclose(read_all(source), np.delete(EXPECTED, 1, axis=1), rtol=1e-7)
    with pytest.raises(ValueError, match="the frame has no column 'gap': did you mean 'gaps'"):
        open_data(build(COLUMNS), target="gap")
    for target, values in (("few", COLUMNS["few"]), ("colour", COLOURS)):  # rows without it are left out
        source, y, *_ = open_data(build({**COLUMNS, "colour": COLOURS}), target=target)
        known = np.array([value is not None for value in values])
        assert y.tolist() == [value for value in values if value is not None]
        np.testing.assert_array_equal(source.read(slice(0, len(y)), slice(0, 1))[:, 0], COLUMNS["a"][known])


def test_columns_that_are_no_numbers_are_named(build):
    days = [datetime.date(2020, 1, 1)] * N
    frame = build({**COLUMNS, "colour": COLOURS, "day": days})
    for run in (lambda X, y: screen(X, y, Plan.exact(N, 9, 3)), BanditSIS(3).fit):
        with pytest.raises(TypeError, match=r"not numeric: 'colour' \(.*\), 'day' \(.*TableEncoder.*open_so"):
            run(frame, COLUMNS["a"])


def test_one_feature_for_each_value(build):
    source = open_source(build({"a": COLUMNS["a"], "colour": COLOURS}), one_hot=True)
    assert list(source.names) == ["a", "colour=blue", "colour=green", "colour=red"]
    block = source.read(np.array([0, 1, 2, 3]), None)
    np.testing.assert_array_equal(block[:, 1:], [[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0]])
    frame = pd.DataFrame({"k": pd.Categorical(["u", "v", None]), "o": np.array([1, 2.5, None])})
    source = open_source(frame, one_hot=True)
    assert source.names == ["k=v", "o"]
    np.testing.assert_array_equal(read_all(source), [[0, 1], [1, 2.5], [0, np.nan]])
    ids = build({"who": [f"s{k}" for k in range(10_001)], "a": np.ones(10_001)})
    source = open_source(ids, one_hot=True)
    assert list(source.names) == ["a"]
    assert source.notes[0] == "skipped who (over 5,000 levels); to use it: fewer levels."


def test_names_are_those_of_all_columns(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2], "t": ["u", "v"], "b": [2.0, 1]}, index=["p", "q"])
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_csv(tmp_path / "x.csv")
    names = {"x.parquet": ["A", "T", "B", "who"], "x.csv": ["who", "A", "T", "B"]}
    for data, given in ((frame, list("ATB")), *((tmp_path / file, some) for file, some in names.items())):
        opened = open_data(data, "A", names=given)
        assert opened.features.names == ["B"]
        assert opened.ids.tolist() == ["p", "q"]


def test_names_must_differ():
    frame = pd.DataFrame(np.zeros((5, 3)), columns=["a", "b", "a"])
    table = pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"])
    for data in (frame, table):
        with pytest.raises(ValueError, match="several columns called 'a'"):
            open_source(data)
    with pytest.raises(ValueError, match="got 2 names for 1 columns"):
        open_source(pl.DataFrame({"a": [1.0]}), names=["x", "y"])
    assert open_source(pl.DataFrame({"a": [1.0]}), names=["x"]).names == ["x"]


def test_a_frame_that_wraps_an_array_is_that_array():
    for array in (np.zeros((9, 4)), np.asfortranarray(np.zeros((9, 4), "f4")), np.zeros((9, 1))):
        frame = pd.DataFrame(array)
        source = open_source(frame)
        assert isinstance(source, ArraySource)
        assert np.shares_memory(source.array, frame.iloc[:, 0].to_numpy())
    assert isinstance(open_source(pd.DataFrame({"a": [1.0, 2.0], "b": [1, 2]})), FrameSource)


@pytest.mark.parametrize("build", [pl.DataFrame, pa.table])
def test_no_big_copy(build):
    n, p = 40_000, 60
    frame, y = build({f"x{j}": rng.standard_normal(n) for j in range(p)}), rng.standard_normal(n)
    screen(frame, y, Plan.paper(n, p, 3))
    tracemalloc.start()
    screen(frame, y, Plan.paper(n, p, 3))
    screen(frame, y, Plan.exact(n, p, 3), n_jobs=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * n * p


def test_scores_and_selectors_of_frames_of_mixed_types(build):
    y = EXPECTED[:, 0] + EXPECTED[:, 1]
    plan = Plan.exact(N, 7, 3)
    found, expected = (screen(data, y, plan, missing="pairwise") for data in (build(COLUMNS), EXPECTED))
    same(found, expected, 1e-6)
    frame = build({name: COLUMNS[name] for name in "abcd"})
    selector = BanditSIS(2, random_state=0).fit(frame, 5 * COLUMNS["a"] + COLUMNS["b"])
    np.testing.assert_array_equal(selector.get_support(indices=True), [0, 1])
    knows_polars = parse_version(sklearn.__version__) >= parse_version("1.9")
    if isinstance(frame, pd.DataFrame) or (isinstance(frame, pl.DataFrame) and knows_polars):
        assert list(selector.feature_names_in_) == list("abcd")
        np.testing.assert_allclose(selector.transform(frame), EXPECTED[:, :2])


@pytest.mark.parametrize("ending", ["frame", "parquet", "arrow"])
def test_categories_of_polars(tmp_path, ending):
    """Polars writes text and categories as views of text, which pyarrow cannot decode or search."""
    text, path = ["x", None, "y", "x"], tmp_path / f"x.{ending}"
    kinds = {"t": pl.String, "e": pl.Enum(["z", "y", "x"]), "c": pl.Categorical}
    frame = pl.DataFrame(
        {"a": [1.0, 2, 3, 4], **{name: pl.Series(text, dtype=kinds[name]) for name in kinds}}
    )
    if ending == "parquet":
        frame.write_parquet(path)
    elif ending == "arrow":
        frame.write_ipc(path)
    source = open_source(frame if ending == "frame" else path, one_hot=True)
    expected = {f"{name}=y": [value == "y" for value in text] for name in kinds}
    assert dict(zip(source.names, read_all(source).T.tolist(), strict=True)) == {"a": [1, 2, 3, 4]} | expected
    if ending != "frame":
        assert open_file(path, ["e"], ReadOptions(one_hot=True)).values[0].tolist() == text


STREAMS = {
    "query of DuckDB": lambda table: duckdb.connect().from_arrow(table).filter("true"),
    "reader": lambda table: table.to_reader(max_chunksize=20),
}


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
def test_streams_of_other_libraries(make):
    table = pa.table({**COLUMNS, "colour": COLOURS, "y": rng.standard_normal(N)})
    source, y, *_ = open_data(make(table), target="y", one_hot=True)
    assert source.names == [*COLUMNS, "colour=blue", "colour=green", "colour=red"]
    np.testing.assert_array_equal(source.read(slice(0, N), np.arange(len(COLUMNS))), EXPECTED)
    np.testing.assert_array_equal(y, table["y"].to_numpy())
