"""What formats bring besides their cells: targets, names, ids, missing values; and that little is read."""

import shutil
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import files
from banditsis import Plan, open_data, open_source, screen
from banditsis.formats.tables import CELLS_AT_ONCE
from banditsis.sources.array import ArraySource
from files import open_file, read_all
from reference import same

rng = np.random.default_rng(0)
X = rng.standard_normal((90, 6))
NAMES = list("abcdef")
WRITERS = {
    "Parquet": files.write_parquet,
    "folder of Parquet": files.write_parquet_folder,
    "Feather": files.write_feather,
    "CSV": files.write_csv,
    "Zarr": lambda X, names: files.write_zarr(X, names, chunks=(40, 4)),
    "HDF5": files.write_hdf5,
    "chunked HDF5": lambda X, names: files.write_hdf5(X, names, chunks=(40, 4)),
    "AnnData": files.write_h5ad,
    "sparse AnnData": lambda X, names: files.write_h5ad(X, names, "csr_matrix"),
}


@pytest.fixture(params=WRITERS)
def path(request):
    return WRITERS[request.param](X, NAMES)


@pytest.mark.parametrize(("target", "column"), [("c", 2), ("a", 0), ("6", 5)])
def test_a_column_is_taken_out_as_target(path, target, column):
    source, y, *_ = open_data(path, target=target)
    np.testing.assert_array_equal(y, X[:, column])
    rest = np.delete(np.arange(6), column)
    np.testing.assert_array_equal(read_all(source), X[:, rest])
    assert [source.name(j) for j in range(5)] == [NAMES[j] for j in rest]
    with pytest.raises(ValueError, match=r"no column 'nothing'"):
        open_data(path, target="nothing")


KINDS = pa.table(
    {
        "whole": pa.array([1, None, 3], pa.int16()),
        "flag": pa.array([True, False, None]),
        "money": pa.array([Decimal("1.50"), None, Decimal("-2.25")]),
        "city": pa.array(["Bonn", None, "Rome"]).dictionary_encode(),
        "code": pa.array([7, 7, 9]).dictionary_encode(),
        "empty": pa.nulls(3),
    }
)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_kinds_of_columns(ending):
    path = files.write_tables(ending, KINDS)
    plain = open_source(path)
    assert plain.names == ["whole", "flag", "money", "code", "empty"]
    assert plain.notes[0] == "skipped city (text); to use it: one_hot=True."
    source = open_source(path, one_hot=True)
    assert source.names == ["whole", "flag", "money", "city=Rome", "code", "empty"]
    nan, some = np.nan, np.array([4, 0, 3])
    expected = np.array([[1, 1, 1.5, 0, 7, nan], [nan, 0, nan, 0, 7, nan], [3, nan, -2.25, 1, 9, nan]])
    np.testing.assert_array_equal(read_all(source), expected)
    np.testing.assert_array_equal(source.read(slice(0, 3), some), expected[:, some])
    assert open_file(path, ["city"]).values[0].tolist() == ["Bonn", None, "Rome"]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_blocks_are_row_groups_of_unequal_length(ending):
    table, cuts = files.table(X, NAMES), [0, 40, 50, 85, 90]
    source = open_source(files.write_tables(ending, *(table.slice(a, b - a) for a, b in pairwise(cuts))))
    np.testing.assert_array_equal(source.block_edges(), cuts)
    rows = np.array([0, 39, 40, 49, 50, 84, 85, 89])
    np.testing.assert_array_equal(source.read(rows, None), X[rows])
    np.testing.assert_array_equal(source.read(slice(45, 87), slice(1, 4)), X[45:87, 1:4])
    result = screen(source, X[:, 0], Plan.exact(90, 6, 2), row_order="blocks", random_state=0)
    np.testing.assert_allclose(result.scores, screen(X, X[:, 0], Plan.exact(90, 6, 2)).scores)


def test_nested_columns_are_skipped_over():
    path = files.new_path("nested.parquet")
    nested = pa.array([{"u": 1.0, "v": 2.0}, {"u": 3.0, "v": 4.0}])
    pq.write_table(pa.table({"s": nested, "l": [[1], [2, 3]], "x": [5.0, 6.0]}), path)
    source = open_source(path)
    assert source.names == ["x"]
    assert source.notes[0].startswith("skipped s (nested values), l (nested values)")
    pq.write_table(pa.table({"s": nested, "x": [5.0, 6.0]}), path)
    np.testing.assert_array_equal(read_all(open_data(path, target="s").features), [[5], [6]])


def bytes_read():
    counters = Path("/proc/self/io")
    if not counters.exists():
        pytest.skip("the system does not count the bytes that a process reads")
    return int(counters.read_text().split()[1])


def test_parquet_reads_only_the_columns_asked_for():
    path = files.new_path("wide.parquet")
    wide = rng.standard_normal((2000, 200))
    pq.write_table(files.table(wide, [f"x{j}" for j in range(200)]), path, row_group_size=500)
    source = open_source(path)
    columns = np.arange(7, 200, 20)
    before = bytes_read()
    block = source.read(slice(500, 1500), columns)
    read = bytes_read() - before
    np.testing.assert_array_equal(block, wide[500:1500, columns])
    assert read < 1.2 * path.stat().st_size * (10 / 200) * (1000 / 2000)


def test_parquet_with_one_large_row_group():
    """Columns are decoded one by one, and columns are calibrated from their first pages."""
    path, n = files.new_path("large.parquet"), CELLS_AT_ONCE + 5000
    tall = rng.standard_normal((n, 6))
    tall[rng.random(n) < 0.01, 2] = np.nan
    columns = {f"x{j}": pa.array(tall[:, j], from_pandas=True) for j in range(6)}
    labels = rng.choice(["red", "green"], n)
    pq.write_table(pa.table({**columns, "colour": labels}), path, row_group_size=n, use_dictionary=["colour"])
    source = open_source(path, one_hot=True)
    before = bytes_read()
    calibration = source.calibrate(slice(0, n))
    assert bytes_read() - before < path.stat().st_size / 2
    np.testing.assert_allclose(calibration.shift[:6], np.nan_to_num(tall[:1000]).mean(axis=0), atol=1)
    y = tall[:, 1] - tall[:, 4] + rng.standard_normal(n)
    whole = np.column_stack([tall, labels == "red"])
    plan = Plan.exact(n, 7, 3)
    same(*(screen(data, y, plan, missing="pairwise") for data in (source, whole)))


PANDAS = [b"5", b"[5]", b"{", b"\xff", b"[" * 100_000, b'{"index_columns": 5}', b'{"index_columns": null}']


@pytest.mark.parametrize("metadata", PANDAS, ids=lambda metadata: metadata[:24])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_damaged_metadata_of_pandas(ending, metadata):
    path = files.write_tables(ending, files.table(X, NAMES).replace_schema_metadata({"pandas": metadata}))
    with pytest.raises(ValueError, match=f"{path} is not a valid Parquet or Arrow file") as caught:
        open_source(path)
    assert "\n" not in str(caught.value)


def few_values(page):
    """The header of the page says that it has 8 values and not 60."""
    assert page.count(b"\x2c\x15\x78") == 1
    return page.replace(b"\x2c\x15\x78", b"\x2c\x15\x10", 1)


@pytest.mark.parametrize("edit", [few_values, lambda page: bytes(len(page))])
@pytest.mark.parametrize("target", ["y", "other"])
def test_columns_of_another_length_in_one_row_group(edit, target):
    """The damaged column is the target, or the only feature."""
    path = files.new_path("x.parquet")
    columns = {"y": rng.standard_normal(600), "other": rng.standard_normal(600)}
    pq.write_table(pa.table(columns), path, row_group_size=60, use_dictionary=False, compression="none")
    chunk, data = pq.read_metadata(path).row_group(9).column(0), bytearray(path.read_bytes())
    place = slice(chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size)
    data[place] = edit(data[place])
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"{path} is not a valid Parquet file"):
        read_all(open_data(path, target=target).features)


ZARRS = {
    "checksum": {"compressors": [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()]},
    "big endian": {"serializer": zarr.codecs.BytesCodec(endian="big"), "compressors": None},
    "separator": {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
}


@pytest.mark.parametrize("kind", ZARRS)
def test_zarr_codecs(kind):
    path = files.write_zarr(X, NAMES, chunks=(40, 4), **ZARRS[kind])
    source = open_source(path)
    rows, columns = np.array([1, 2, 39, 40, 79, 89]), np.array([0, 2, 5])
    np.testing.assert_array_equal(source.read(rows, columns), X[np.ix_(rows, columns)])
    np.testing.assert_array_equal(source.read(slice(3, 88), slice(1, 6)), X[3:88, 1:6])


def test_zarr_groups():
    path = files.new_path("group.zarr")
    group = zarr.create_group(str(path))
    for name, values in {"X": X, "other": X[:, :2], "y": X[:, 0] * 2}.items():
        group.create_array(name, data=values)
    group.attrs["feature_names"] = NAMES
    source, y, *_ = open_data(path, target="y")
    assert source.names == NAMES
    np.testing.assert_array_equal(y, 2 * X[:, 0])
    assert open_source(path / "other").shape == (90, 2)
    with pytest.raises(ValueError, match=r"no column 'z': there are 'y', 'a', 'b'"):
        open_data(path, target="z")
    shutil.rmtree(path / "X")
    group.create_array("more", data=X)
    with pytest.raises(ValueError, match=r"2 matrices.* X: open one of .*more"):
        open_source(path)


def test_hdf5_paths_within_files():
    path = files.new_path("two.h5")
    with h5py.File(path, "w") as file:
        file["group/first"], file["group/second"], file["group/y"] = X, 2 * X, X[:, 0]
    with pytest.raises(ValueError, match=r"two\.h5:/group/first, "):
        open_source(path)
    source, y, *_ = open_data(f"{path}:/group/second", target="y")
    assert isinstance(source, ArraySource)  # a memory map
    np.testing.assert_array_equal(source.array, 2 * X)
    np.testing.assert_array_equal(y, X[:, 0])
    with pytest.raises(ValueError, match="has no array third"):
        open_source(f"{path}:/third")


def test_tables_with_marks_blank_lines_and_without_a_header():
    for text, names in {b"\n\na;b\n1;2\n\n3;4\n": ["a", "b"], b"1,2\n3,4\n": ["x0", "x1"]}.items():
        source, y, *_ = open_data(files.new_path("data.csv", b"\xef\xbb\xbf" + text), target=names[1])
        assert [source.name(0)] == names[:1]
        assert (read_all(source).tolist(), y.tolist()) == ([[1], [3]], [2, 4])


def test_line_ends_in_quotes(monkeypatch):
    """Also in the header, and where a block of the parser ends."""
    monkeypatch.setattr("banditsis.formats.text.BLOCK", 1 << 12)
    n = 2000
    text = "".join(f'{k},"first, {k}\n\nlast ""{k}"""\n' for k in range(n))
    path = files.new_path("data.csv", '"the\nnumber",comment\n' + text)
    source, y, *_ = open_data(path, target="comment")
    assert source.names == ["the\nnumber"]
    np.testing.assert_array_equal(read_all(source)[:, 0], range(n))
    assert y.tolist() == [f'first, {k}\n\nlast "{k}"' for k in range(n)]
    np.save(path.with_name("x.npy"), np.zeros((n, 2)))
    _, numbers, *_ = open_data(path.with_name("x.npy"), target=f"{path}:the\nnumber")
    np.testing.assert_array_equal(numbers, range(n))


HDF5 = {"HDF5": {}, "chunked HDF5": {"chunks": (20, 3), "compression": "gzip"}}
PACKING = {"_FillValue": 200, "missing_value": -999.0, "scale_factor": 0.25, "add_offset": -3.0}


@pytest.mark.parametrize("kind", [*HDF5, "Zarr 2", "Zarr 3"])
@pytest.mark.parametrize("name", PACKING)
def test_packed_cells_raise(kind, name):
    """Attributes of the CF conventions, as netCDF and xarray write them; a fill value of NaN says nothing."""
    cells = np.random.default_rng(1).integers(1, 100, (90, 6)).astype("u1")

    def write(**attributes):
        if kind in HDF5:
            path = files.write_hdf5(cells, NAMES, **HDF5[kind])
            with h5py.File(path, "a") as file:  # netCDF writes arrays of one number
                file["features"].attrs.update({key: np.array([value]) for key, value in attributes.items()})
        else:
            path = files.write_zarr(cells, NAMES, chunks=(20, 3), zarr_format=int(kind[-1]))
            zarr.open_array(str(path), mode="a").attrs.update(attributes)
        return path

    with pytest.raises(ValueError, match=f"is packed, as its attribute {name} says. .* xarray"):
        open_source(write(**{name: PACKING[name]}))
    source = open_source(write(_FillValue=np.nan))
    np.testing.assert_array_equal(read_all(source), cells)
    assert source.dtype == np.uint8


def test_fill_values_as_xarray_writes_them_to_zarr_raise():
    cells = np.random.default_rng(1).standard_normal((90, 7))
    path = files.new_path("data.zarr")
    array = zarr.create_array(str(path), data=cells, chunks=(20, 3), fill_value=-999.0, zarr_format=2)
    np.testing.assert_array_equal(read_all(path), cells)  # not from xarray
    array.attrs["_ARRAY_DIMENSIONS"] = ["time", "station"]
    with pytest.raises(ValueError, match=r"packed, as its attribute _FillValue says"):
        open_source(path)


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix"])
def test_duplicate_entries_of_sparse_anndata_are_summed(kind):
    rows, columns, entries = rng.integers(0, 60, 500), rng.integers(0, 8, 500), rng.standard_normal(500)
    expected = np.zeros((60, 8))
    np.add.at(expected, (rows, columns), entries)
    lines, others = (rows, columns) if kind == "csr_matrix" else (columns, rows)
    order = np.argsort(lines, kind="stable")
    path = files.write_h5ad(expected, [f"g{j}" for j in range(8)], kind)
    with h5py.File(path, "a") as file:
        for name in ("data", "indices", "indptr"):
            del file["X"][name]
        file["X/data"], file["X/indices"] = entries[order], others[order]
        file["X/indptr"] = np.searchsorted(lines[order], np.arange(expected.shape[kind == "csc_matrix"] + 1))
    for limit in (None, 1):
        source, some = open_source(path, memory_limit=limit), (np.array([3, 50]), np.array([1, 7]))
        np.testing.assert_allclose(read_all(source), expected, atol=1e-12)
        np.testing.assert_allclose(source.read(*some), expected[np.ix_(*some)])
    assert source.block_rows == 60 or kind == "csr_matrix"  # by column: all rows come together


def test_nullable_text_of_anndata():
    path = files.write_h5ad(X[:6, :3], list("abc"))
    with h5py.File(path, "a") as file:
        del file["obs/_index"], file["var/_index"]
        for part, labels in {"obs/_index": "uvwxyz", "var/_index": "abc", "obs/site": "ABABAB"}.items():
            group = file.create_group(part)
            group.attrs["encoding-type"] = "nullable-string-array"
            group["values"] = np.array(list(labels), dtype=object)
            group["mask"] = np.zeros(len(labels), bool)
        file["obs/site/mask"][1] = True
    source, y, *_ = open_data(path, target="site")
    assert list(source.names) == list("abc")
    assert y.tolist() == ["A", "A", "B", "A", "B"]
    np.testing.assert_array_equal(read_all(source), X[[0, 2, 3, 4, 5], :3])
    assert open_file(path).ids.tolist() == list("uvwxyz")
    with h5py.File(path, "a") as file:
        file["obs/_index/mask"][2] = True
    with pytest.raises(ValueError, match="missing names in obs"):
        open_source(path)
