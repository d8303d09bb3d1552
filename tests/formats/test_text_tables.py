"""Tables of text: compressed, in folders, and with codes for missing values."""

import bz2
import gzip
import lzma
import re

import numpy as np
import pyarrow as pa
import pytest

from banditsis import open_data, open_source
from files import new_path, read_all, read_target


def zstd(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
LABELS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 3))
TEXT = ("a,b,y\n" + "\n".join(",".join(map(repr, row)) for row in X.tolist()) + "\n").encode()


def pack(suffix, content, name="data.csv"):
    return new_path(name + suffix, PACKERS[suffix](content))


each_packer = pytest.mark.parametrize("suffix", PACKERS)
data_and_target = pytest.mark.parametrize("open_it", [open_source, lambda path: read_target(path, "y")])


@each_packer
def test_compressed_text(suffix):
    path = pack(suffix, TEXT)
    source, y, *_ = open_data(path, target="y")
    np.testing.assert_array_equal(read_all(source), X[:, :2])
    np.testing.assert_array_equal(y, X[:, 2])
    np.testing.assert_array_equal(read_target(path, "y").values, X[:, 2])
    np.testing.assert_array_equal(read_all(pack(suffix, TEXT.replace(b",", b"\t"), "data.tsv")), X)


@each_packer
def test_well_compressed_text_is_not_held_in_memory(suffix):
    path = pack(suffix, b"a,b,c,d\n" + b"1.000000,0,2.0000,0\n" * 100_000)
    command = f"duckdb -c \"COPY (FROM '{path}') TO 'data.parquet'\""
    needs = f"needs more memory than the 3 MB that may be used: convert it, as in {command}, or raise"
    with pytest.raises(ValueError, match=re.escape(needs)):
        open_source(path, memory_limit=3_000_000)
    path = pack(suffix, b"y\n" + b"0\n" * (1 << 21), "y.csv")
    with pytest.raises(ValueError, match=r"y\.csv.* needs more memory than the 1 MB"):
        open_data(np.eye(3), target=path, memory_limit=1_000_000)


@data_and_target
@each_packer
def test_damaged_compressed_text(suffix, open_it):
    whole = PACKERS[suffix](TEXT)
    damaged = [whole[:-40], whole[:1000] + bytes(500) + whole[1500:]]
    for content in damaged[: 1 if suffix == ".zst" else 2]:  # its checksum is optional; pyarrow writes none
        with pytest.raises(ValueError, match=f"is not a valid {LABELS[suffix]} file: .*; write it again"):
            open_it(new_path(f"data.csv{suffix}", content))


@data_and_target
@each_packer
def test_compressed_text_with_another_name(suffix, open_it):
    for name in ("data.csv", "data.csv.xz" if suffix == ".gz" else "data.csv.gz"):
        message = rf"is an? {LABELS[suffix]} file.*: unpack it, or .* end in \.csv\{suffix}"
        with pytest.raises(ValueError, match=message):
            open_it(new_path(name, PACKERS[suffix](TEXT)))
    with pytest.raises(ValueError, match="is named as a CSV file, but its content is not"):
        open_it(new_path(f"data.csv{suffix}", TEXT))


def test_folders_of_csv_files_are_converted(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"a,b\n3,4\n"))
    with pytest.raises(ValueError, match=r"is a folder of CSV files: convert it, as in duckdb -c"):
        open_source(tmp_path)
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"nor one of Parquet or Arrow files alone"):
        open_source(tmp_path)


def test_codes_for_missing_values():
    path = new_path("data.csv", "a,b,kind,y\n1,-9,u,1\n-9.0,2,-9,?\n?,3,?,4\n")
    with pytest.raises(ValueError, match=r"numbers and text in column 'a': '\?' in line 4"):
        open_source(path)
    source, y, *_ = open_data(path, target="y", one_hot=True, na=["-9", "?"])
    assert source.names == ["a", "b", "kind=u"]
    np.testing.assert_array_equal(read_all(source), [[1, np.nan, 1], [np.nan, 3, 0]])  # rows with a target
    np.testing.assert_array_equal(y, [1, 4])
    cells = read_all(path, one_hot=True, na="?")
    np.testing.assert_array_equal(cells[:, :2], [[1, -9], [-9, 2], [np.nan, 3]])
    path = new_path("data.csv", "?,2\n3,4\n")  # the first row is not a header
    assert open_source(path).names == ["?", "2"]
    np.testing.assert_array_equal(read_all(path, na="?"), [[np.nan, 2], [3, 4]])
    path = new_path("y.csv", "y,kind\n-9,?\n-9.0,b\n2,c\n")
    assert read_target(path, "kind", na=["?"]).values.tolist() == [None, "b", "c"]
    source, y, *_ = open_data(np.eye(3), target=f"{path}:y", na="-9")
    np.testing.assert_array_equal(y, [-9, 2])
    np.testing.assert_array_equal(read_all(source), np.eye(3)[1:])


def test_codes_for_missing_values_apply_to_text_alone(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    np.save(tmp_path / "y.npy", np.arange(3.0))
    for data, target in ((np.eye(3), None), (tmp_path / "x.npy", None), (tmp_path / "x.npy", "y.npy")):
        with pytest.raises(ValueError, match="na='-9' applies to CSV and other text files alone"):
            open_data(data, target=target and str(tmp_path / target), na="-9")


def write_cells(columns):
    """A table in which every cell is quoted."""
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    return new_path("x.csv", "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows))


@pytest.mark.parametrize("cell", ["83.7%", "$1,250", "1,5", "x", "3 €", "1_000", "٣"])
def test_numbers_that_are_not_plain(cell):
    """An error that names the cell, also of numbers of Python alone; as a class label, it is text."""
    path = write_cells({"a": ["1", "2", " ", cell], "b": "1234"})
    message = re.escape(f"{path} has numbers and text in column 'a': {cell!r} in line 5")
    with pytest.raises(ValueError, match=message):
        open_source(path)
    assert open_source(path, drop="a").names == ["b"]
    assert list(open_data(path, target="a")[1]) == ["1", "2", cell]
    assert list(read_target(path, "a").values) == ["1", "2", None, cell]


@pytest.mark.parametrize("cells", [["5 days", "7 days"], ["3-4", "5-6"], ["1.2.3", "1.3.0"], ["--5", "x"]])
def test_text_that_is_not_numeric_stays_text(cells):
    path = write_cells({"a": cells, "b": "12"})
    assert open_source(path).contents == "1 numeric feature; skipped a (text)"
    assert list(open_data(path, target="a")[1]) == cells


def test_indicators_that_do_not_fit_in_memory():
    """A few columns of text may be many features, which are then made when they are read."""
    columns = {name: [f"{name}{k}" for k in rng.integers(0, 100, 300)] for name in "abc"}
    path = write_cells(columns)
    whole, limited = open_source(path, one_hot=True), open_source(path, one_hot=True, memory_limit=50_000)
    assert (type(whole).__name__, type(limited).__name__) == ("ArraySource", "FrameSource")
    assert (whole.names, whole.contents, whole.notes) == (limited.names, limited.contents, limited.notes)
    np.testing.assert_array_equal(read_all(whole), read_all(limited))
    levels = sorted(set(columns["a"]))
    expected = [[cell == level for level in levels] for cell in columns["a"]]
    np.testing.assert_array_equal(read_all(whole)[:, : len(levels)], expected)


def test_columns_without_values():
    """A header alone, and text that begins with missing values."""
    with pytest.raises(ValueError, match=r"x\.csv has no rows"):
        open_source(new_path("x.csv", "a,b\n"))
    path = new_path("x.csv", "a,b\n" + "1,\n" * 1000 + "2,late\n")
    assert open_source(path).contents == "1 numeric feature; skipped b (text)"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_columns_separated_by_blanks_are_read_in_blocks(suffix, monkeypatch):
    monkeypatch.setattr("banditsis.formats.text.BLOCK", 1 << 12)
    lines = "".join(f"  {k}  \t{k / 4:>9} \r\n" + "\n" * (k % 2) for k in range(3000))
    path = new_path(f"x.txt{suffix}", (gzip.compress if suffix else bytes)(f"a b\n{lines}".encode()))
    np.testing.assert_array_equal(read_all(path), np.outer(np.arange(3000), [1, 0.25]))


def test_cells_of_blanks():
    cells = read_all(write_cells({"a": ["1", " ", "\t"], "b": "123"}))
    np.testing.assert_array_equal(cells[:, 0], [1, np.nan, np.nan])
    with pytest.raises(ValueError, match=r"has cells of blanks, .* in column 'a': leave cells empty"):
        open_source(write_cells({"a": ["1", "   ", "3"], "b": "123"}))
