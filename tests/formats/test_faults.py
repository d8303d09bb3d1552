"""Files with faults: one clear message each, and nothing is written."""

import gzip
import json
import os
import pickle
import re
import subprocess
import sys
import warnings
import zipfile
import zlib
from pathlib import Path

import h5py
import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zarr
from scipy import sparse
from scipy.io import mmwrite
from sklearn.datasets import dump_svmlight_file

import files
from banditsis import Plan, open_data, open_source, screen

rng = np.random.default_rng(0)
X = rng.standard_normal((400, 6))
NAMES = list("abcdef")


def open_and_screen(path, **options):
    source = open_source(path, **options)
    screen(source, np.arange(float(source.shape[0])), Plan.exact(*source.shape, 1))


def message_of(path, **options):
    """The message of the error from opening and screening a file; the folder must not change."""
    before = sorted(path.parent.rglob("*"))
    with pytest.raises((ValueError, TypeError, FileNotFoundError, ImportError)) as caught:
        open_and_screen(path, **options)
    message = str(caught.value)
    assert sorted(path.parent.rglob("*")) == before
    assert "\n" not in message
    assert len(message) < 400
    return message


def write_with(save, name):
    def write(X, names):
        path = files.new_path(name)
        save(path, X)
        return path

    return write


def gzipped(write):
    def write_gzipped(X, names):
        plain = write(X, names)
        return files.new_path(f"{plain.name}.gz", gzip.compress(plain.read_bytes()))

    return write_gzipped


def dump_svmlight(path, X):
    dump_svmlight_file(X, X[:, 0], str(path))


GZIPPED = {
    "CSV": gzipped(files.write_csv),
    "Matrix Market": gzipped(write_with(mmwrite, "data.mtx")),
    "svmlight": gzipped(write_with(dump_svmlight, "data.svmlight")),
}
WRITERS = {
    "Parquet": files.write_parquet,
    "Feather": files.write_feather,
    "gzipped CSV": GZIPPED["CSV"],
    "npz": write_with(np.savez_compressed, "data.npz"),
    "sparse npz": write_with(lambda path, X: sparse.save_npz(path, sparse.csr_array(X)), "data.npz"),
    "HDF5": files.write_hdf5,
    "chunked HDF5": lambda X, names: files.write_hdf5(X, names, chunks=(40, 4), compression="gzip"),
    "AnnData": files.write_h5ad,
    "sparse AnnData": lambda X, names: files.write_h5ad(X, names, "csr_matrix", chunks=(40,)),
    "PLINK": files.write_bed,
}


@pytest.fixture(params=WRITERS)
def write(request):
    return WRITERS[request.param]


DAMAGE = {
    "truncated": lambda content: content[: int(0.3 * len(content))],
    "end is missing": lambda content: content[: int(0.95 * len(content))],
    "overwritten": lambda content: b"12345678" + content[8:],
    "empty": lambda content: b"",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_named(write, damage):
    path = write(X, NAMES)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    message = message_of(path)
    assert path.name in message
    assert damage != "empty" or message == f"{path} is empty."


def test_wrong_extension(write):
    path = write(X, NAMES)
    right = {path.suffix, {".h5ad": ".h5"}.get(path.suffix)}  # which have the same signature
    for ending in sorted({".parquet", ".h5", ".bed", ".feather", ".csv"} - right):
        path = path.rename(path.with_name(f"other{ending}"))
        assert re.search(rf"other\{ending} is (named as a|a gzip file)", message_of(path))


def test_nothing_but_nan(write):
    assert "NaN" in message_of(write(np.full((40, 6), np.nan), NAMES))


def corrupt(path, start, length=8):
    data = bytearray(path.read_bytes())
    data[start : start + length] = bytes(255 - byte for byte in data[start : start + length])
    path.write_bytes(bytes(data))


def test_a_corrupted_page_or_chunk():
    path = files.write_parquet(X, NAMES)
    corrupt(path, 4, 60)
    assert f"{path} is not a valid Parquet file" in message_of(path)
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(files.table(X, NAMES), path, **options)
    corrupt(path, path.read_bytes().index(X[:8, 2].tobytes()) + 3, 1)
    assert f"{path} is not a valid Parquet file" in message_of(path)
    path = WRITERS["chunked HDF5"](X, NAMES)
    with h5py.File(path) as file:
        start = file["features"].id.get_chunk_info(0).byte_offset
    corrupt(path, start)
    assert f"{path} is not a valid HDF5 file" in message_of(path)


def test_zarr_metadata():
    path = files.write_zarr(X, NAMES, chunks=(100, 3))
    whole = (path / "zarr.json").read_text()
    (path / "zarr.json").write_text(whole[:100])
    assert f"{path} is not a valid Zarr file" in message_of(path)
    (path / "zarr.json").write_text(whole.replace("float64", "float65"))
    assert f"{path} is not a valid Zarr file" in message_of(path)
    (path / "zarr.json").unlink()
    assert f"{path} has no Zarr metadata" in message_of(path)


@pytest.mark.parametrize("options", [{}, {"compressors": None}, {"shards": (200, 6)}], ids=str)
def test_zarr_chunks(options):
    path = files.write_zarr(X, NAMES, chunks=(100, 3), **options)
    chunk = path / "c" / "1" / "0"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:100])
    assert f"{path} is not a valid Zarr file" in message_of(path)
    if "compressors" not in options:
        chunk.write_bytes(bytes(len(whole)))
        assert f"{path} is not a valid Zarr file" in message_of(path)


def test_zarr_that_is_no_matrix():
    path = files.write_zarr(X[0], NAMES, chunks=(3,))
    assert message_of(path) == (
        f"{path} is an array of float64 of shape (6,); it must be real numbers, rows × features."
    )


def test_duplicate_columns():
    twice = ["a", "b", "a", "d", "e", "f"]
    table = pa.Table.from_arrays(list(X.T), names=twice)
    tables = [files.write_tables(ending, table) for ending in ("parquet", "feather")]
    text = files.write_csv(X, twice)
    for path, limit in (*((path, None) for path in (*tables, text, files.write_h5ad(X, twice))), (text, 1)):
        told = f"{path} has several columns called 'a' (columns 1, 3): rename them."
        assert message_of(path, memory_limit=limit) == told


TEXTS = {
    b"a,b\n1,2\n3\n": "has 1 values in line 3 and 2 in the first: give every line the same number.",
    b"a,b\n1,2\n3,4,5\n": "has 3 values in line 3 and 2 in the first: give every line the same number.",
    b"a,b\n1,2\n3,x\n": "has numbers and text in column 'b': 'x' in line 3;",
    b"a,b\n1,caf\xe9\n": "is not UTF-8 text: line 2 has byte 0xe9 at position 6;",
    b"caf\xe9,b\n1,2\n": "is not UTF-8 text: line 1 has byte 0xe9 at position 4;",
    b"a,b\n": "has no rows.",
    b"\n\n": "has no values: it is empty.",
    b"a,b\nx,u\ny,v\n": "has no column that could be a feature. skipped a (text), b (text); to use them:",
    b"a\0,b\n1,2\n": "is not text: its first line contains zero bytes.",
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text):
    path = files.new_path("data.csv", text)
    assert message_of(path).startswith(f"{path} {TEXTS[text]}")


@pytest.mark.parametrize("bad", [b"1,x\n", b"1\n", b"1,\xe9\n"])
def test_faults_behind_the_first_block_of_a_text(bad, monkeypatch):
    monkeypatch.setattr("banditsis.formats.text.BLOCK", 1 << 12)
    assert "line 5,002" in message_of(files.new_path("data.csv", b"a,b\n" + b"1,2\n" * 5000 + bad))


def test_files_of_a_folder_must_agree():
    path = files.write_parquet_folder(X, NAMES)
    pq.write_table(files.table(X, ["a", "b", "c", "d", "e", "g"]), path / "c.parquet")
    assert f"{path / 'c.parquet'} differs from a.parquet" in message_of(path)


def edit_entries(change):
    def edit(content):
        lines = [line.split() for line in content.decode().splitlines()]
        change(lines)
        return "".join("\t".join(line) + "\n" for line in lines).encode()

    return edit


def position(text):
    return edit_entries(lambda lines: lines[1].__setitem__(3, text))


BY_SAMPLE = "third byte must be 1. Files with sample after sample, as before 2008, .* --make-bed"
MISPLACED = edit_entries(lambda lines: lines[2].append(lines[1].pop()))
WRONG_COLUMNS = "is not a valid PLINK file: CSV parse error: Expected 6 columns, got 5"
PLINK_FAULTS = {
    "a variant is missing": (".bim", edit_entries(list.pop), r"400 samples \(.fam\) and 5 SNPs \(.bim\)"),
    "no variants": (".bim", None, r"data\.bim is missing"),
    "position too large": (".bim", position("1" + "0" * 30), "parse string: '10"),
    "position is text": (".bim", position("four"), "parse string: 'four'"),
    "entry of a variant in the wrong line": (".bim", MISPLACED, rf"data\.bim {WRONG_COLUMNS}"),
    "entry of a sample in the wrong line": (".fam", MISPLACED, rf"data\.fam {WRONG_COLUMNS}"),
    "by sample": (".bed", lambda content: content[:2] + b"\0" + content[3:], BY_SAMPLE),
    "another third byte": (".bed", lambda content: content[:2] + b"\7" + content[3:], BY_SAMPLE),
    "two bytes": (".bed", lambda content: content[:2], "data.bed"),
}


@pytest.mark.parametrize("fault", PLINK_FAULTS)
def test_plink(fault):
    ending, change, reason = PLINK_FAULTS[fault]
    path = files.write_bed(X, NAMES)
    part = path.with_suffix(ending)
    if change is None:
        part.unlink()
    else:
        part.write_bytes(change(part.read_bytes()))
    assert re.search(reason, message_of(path))


FLIPS = """
import sys
import numpy as np
from banditsis import Plan, open_source, screen

path = sys.argv[1]
whole = open(path, "rb").read()
for seed in range(60):
    damaged, rng = bytearray(whole), np.random.default_rng(seed)
    for place in rng.integers(len(whole), size=3):
        damaged[place] ^= 1 << int(rng.integers(8))
    with open(path, "wb") as file:
        file.write(damaged)
    try:
        source = open_source(path, one_hot=True)
        screen(source, np.arange(float(source.shape[0])), Plan.exact(*source.shape, 1), missing="pairwise")
    except (ValueError, TypeError) as error:
        assert "\\n" not in str(error), error
"""


@pytest.mark.parametrize("kind", ["uncompressed.feather", "lz4.feather", "parquet"])
def test_flipped_bits_in_text(kind):
    """Offsets that point outside of the text end in an error, and not in a crash of the process."""
    path = files.new_path(f"data.{kind}")
    text = pa.array([f"level {k % 7}" for k in range(300)])
    view = text.cast(pa.string_view())
    table = files.table(X[:300], NAMES, text=text, view=view, kind=text.dictionary_encode())
    if kind == "parquet":
        pq.write_table(table.drop_columns("view"), path)
    else:
        pa.feather.write_feather(table, path, compression=kind.split(".")[0])
    command = [sys.executable, "-W", "ignore", "-c", FLIPS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


LONG = b"x" * 140_000
TEXTS_WITH_A_REMEDY = {
    b"a,b\r1,2\r3,4\r": "ends its lines with carriage returns alone: convert them, as in tr '\\r' '\\n'.",
    b"a," + LONG + b"\n1,2\n": "has a cell of more than 131,072 characters that ends in line 1, or a quote",
    b'a,b\n"1,2\n' + b"3,4\n" * 40_000: "has a cell of more than 131,072 characters",
    b"1,2," * (1 << 23): "has more than 16,777,216 bytes in line 1: write fewer columns",
}


@pytest.mark.parametrize("text", TEXTS_WITH_A_REMEDY, ids=range(4))
@pytest.mark.parametrize("use", ["data", "target"])
def test_texts_that_cannot_be_split(text, use):
    path = files.new_path("data.csv", text)
    with pytest.raises(ValueError, match=r"data\.csv") as caught:
        open_source(path) if use == "data" else open_data(X, target=f"{path}:1")
    assert str(caught.value).startswith(f"{path} {TEXTS_WITH_A_REMEDY[text]}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", GZIPPED)
def test_flipped_bits_in_gzip(kind):
    path = GZIPPED[kind](X, NAMES)
    text = path.read_bytes()
    for place in [*range(2, 12), *range(12, len(text), len(text) // 40), *range(len(text) - 8, len(text))]:
        path.write_bytes(text[:place] + bytes([text[place] ^ 16]) + text[place + 1 :])
        if place not in (4, 5, 6, 7, 8, 9):  # time, level and system mean nothing
            assert str(path) in message_of(path)


MATRIX = b"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n"
ENDS = {b"4\0\n": r"'4\x00'", b"4\0": r"'4\x00'", b"4E": "'4E'", b"4 x": "'x'"}


@pytest.mark.parametrize("end", ENDS)
def test_matrix_market_that_ends_within_a_number(end):
    path = files.new_path("data.mtx", MATRIX + end)
    reason = f"it contains zero bytes, or ends in {ENDS[end]}, which is not a number"
    assert message_of(path) == f"{path} is not a valid Matrix Market file: {reason}; write it again."


def test_hdf5_of_pandas_and_with_cells_in_other_files():
    part, virtual, frame = files.write_hdf5(X, NAMES), files.new_path("data.h5"), files.new_path("frame.h5")
    layout = h5py.VirtualLayout(X.shape, "f8")
    layout[:] = h5py.VirtualSource(part, "features", X.shape)
    with h5py.File(virtual, "w") as file:
        file.create_virtual_dataset("X", layout)
    told = f"{virtual}:/X has its cells in other files: write all of them to one file."
    assert message_of(virtual) == told
    with h5py.File(frame, "w") as file:  # what pandas marks its groups with
        file.create_group("frame").attrs["pandas_type"] = "frame"
    assert "written by pandas" in message_of(frame)


def test_a_filter_that_is_not_installed_is_named():
    path = files.new_path("data.h5")
    with h5py.File(path, "w") as file:
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_chunk((400, 6))
        settings.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())  # zstd
        space = h5py.h5s.create_simple((400, 6))
        made = h5py.h5d.create(file.id, b"X", h5py.h5t.IEEE_F64LE, space, settings)
        made.write_direct_chunk((0, 0), X.tobytes())  # not what the filter expects
    assert re.search(r"is compressed with a filter .* pip install hdf5plugin", message_of(path))


def test_filters_of_hdf5plugin_are_loaded_if_it_is_installed(tmp_path):
    (tmp_path / "hdf5plugin.py").write_text("print('loaded')")  # what the package does on import
    code = f"from banditsis import open_source; open_source({str(files.write_hdf5(X, NAMES))!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    assert subprocess.check_output([sys.executable, "-c", code], text=True, env=environment) == "loaded\n"


def write_zarr_2(codec):
    def write(X, names):
        options = {"zarr_format": 2, "compressors": numcodecs.get_codec({"id": codec})}
        return files.write_zarr(np.round(X), names, chunks=(400, 6), **options)

    return write


STORES = {name: (WRITERS[name], "") for name in ("HDF5", "chunked HDF5")}
STORES |= {codec: (write_zarr_2(codec), "0.0") for codec in ("zlib", "gzip", "blosc", "zstd")}


@pytest.mark.parametrize("kind", STORES)
def test_whatever_byte_is_damaged_there_is_at_most_one_line(kind):
    write, member = STORES[kind]
    path = write(X[:40], NAMES)
    part, places, told = path / member if member else path, np.random.default_rng(0), 0
    whole = part.read_bytes()
    for _ in range(200):
        k = int(places.integers(0 if member else 8, min(len(whole), 6000)))
        part.write_bytes(whole[:k] + bytes([whole[k] ^ int(places.integers(1, 256))]) + whole[k + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                open_source(path).read(slice(0, 1), None)
            except (ValueError, ImportError) as error:
                assert "\n" not in str(error)  # noqa: PT017
                assert path.name in str(error)  # noqa: PT017
                told += 1
    assert told


@pytest.mark.parametrize("code", [-2, 2])
def test_codes_outside_the_categories(code):
    path = files.write_h5ad(X, NAMES)
    with h5py.File(path, "a") as file:
        file["obs/kind/codes"][3] = code
    with pytest.raises(ValueError, match="for 2 categories"):
        open_data(path, target="kind")


class RunsCode:
    def __reduce__(self):
        return Path.touch, (RunsCode.mark,)


@pytest.mark.parametrize("member", ["ids", "names", "X", "y"])
def test_zarr_codecs_that_run_code_are_not_used(member, monkeypatch):
    # As before version 0.16.6:
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    path = files.new_path("data.zarr")
    RunsCode.mark = path.with_name("executed")
    group = zarr.open_group(str(path), mode="w", zarr_format=2)
    group.create_array("X", data=X, chunks=(400, 6), compressors=None)
    shape = {"X": [400, 6], "names": [6]}.get(member, [400])
    about = {"zarr_format": 2, "shape": shape, "chunks": shape, "fill_value": None, "order": "C"}
    pickled, text = {"id": "pickle", "protocol": 4}, {"id": "vlen-utf8"}
    (path / member).mkdir(exist_ok=True)
    (path / member / ("0.0" if member == "X" else "0")).write_bytes(pickle.dumps(RunsCode()))
    for dtype, filters, compressor in (
        ("|O", [pickled], None),
        ("|O", [text], pickled),
        ("<f8", None, pickled),
        ("<f8", [pickled], {"id": "no_such_codec"}),
    ):
        more = {"dtype": dtype, "filters": filters, "compressor": compressor}
        (path / member / ".zarray").write_text(json.dumps(about | more))
        with pytest.raises(ValueError, match=path.name):
            open_data(path, target="y").features.read(slice(0, 2), None)
        assert not RunsCode.mark.exists()


@pytest.mark.parametrize("new", [b"(400, 6, ", b"(%d, 6)," % 10**30])
def test_npy_with_a_damaged_header(new):
    content = write_with(np.save, "data.npy")(X, NAMES).read_bytes()
    assert content.count(b"(400, 6),") == 1
    path = files.new_path("data.npy", content.replace(b"(400, 6),", new))
    assert f"{path} is not a valid NumPy file" in message_of(path)


SPARSE_FAULTS = {
    "index too large": ("indices", 50, 10**6),
    "last index too large": ("indices", -1, 400),
    "index beyond 32 bits": ("indices", 50, 2**33),
    "negative index": ("indices", 50, -1),
    "pointer decreases": ("indptr", 2, 0),
    "pointer too large": ("indptr", 2, 10**8),
    "negative pointer": ("indptr", 2, -50),
    "pointer does not begin with 0": ("indptr", 0, 2),
}


@pytest.mark.parametrize("fault", SPARSE_FAULTS)
@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("suffix", [".npz", ".h5ad"])
def test_indices_of_sparse_matrices(suffix, kind, fault):
    part, place, value = SPARSE_FAULTS[fault]
    matrix = getattr(sparse, f"{kind}_array")(np.where(X > 0, X, 0))
    parts = {name: getattr(matrix, name).astype("i8") for name in ("indices", "indptr")}
    while place == 2 and parts["indptr"][1] == 0:
        place += 1
    parts[part][place] = value
    if suffix == ".npz":
        path = files.new_path("data.npz")
        np.savez(path, format=kind.encode(), shape=X.shape, data=matrix.data, **parts)
    else:
        path = files.write_h5ad(np.where(X > 0, X, 0), NAMES, f"{kind}_matrix")
        with h5py.File(path, "a") as file:
            for name, values in parts.items():
                del file["X"][name]
                file["X"][name] = values
    for limit in (None, 1) if suffix == ".h5ad" else (None,):  # in memory, and tile by tile
        message = message_of(path, memory_limit=limit)
        assert path.name in message
        assert re.search("sparse matrix is damaged|index pointer|inconsistent parts", message)


def test_indices_that_are_unsorted_or_repeated_are_added_up():
    path = files.new_path("data.npz")
    parts = {"data": np.arange(1.0, 7), "indices": [2, 0, 1, 1, 0, 2], "indptr": [0, 2, 4, 6]}
    np.savez(path, format=b"csr", shape=(3, 3), **parts)
    np.testing.assert_array_equal(files.read_all(path), [[2, 0, 1], [0, 7, 0], [5, 0, 6]])


@pytest.mark.parametrize("kind", ["npz", "sparse npz"])
def test_corrupted_npz(kind):
    path = WRITERS[kind](X, NAMES)
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda entry: entry.compress_size)
    corrupt(path, largest.header_offset + largest.compress_size // 2, 200)
    assert f"{path} is not a valid .npz file" in message_of(path)


def write_chunked(stored, **options):
    """An HDF5 file whose first chunk is stored as given."""
    path = files.new_path("x.h5")
    with h5py.File(path, "w") as file:
        data = file.create_dataset("X", (100, 10), "f8", chunks=(50, 10), **options)
        data[50:] = 1.0
        data.attrs["DIMENSION_LIST"] = 3.0  # no list of references, which the library would follow
        if stored is not None:
            data.id.write_direct_chunk((0, 0), stored)
    return path


@pytest.mark.parametrize("n_bytes", [1, 1000, 3999, 4001, 400_000, 10**8])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_hdf5_chunks_of_another_size_raise(n_bytes, compression):
    """The library would read what follows in the file, write beyond its memory, or unpack everything."""
    content = bytes(n_bytes if compression else min(n_bytes, 10**6))
    path = write_chunked(zlib.compress(content) if compression else content, compression=compression)
    found = min(len(content), 4001) if compression else len(content)
    with pytest.raises(ValueError, match=rf"a chunk has {found:,} bytes instead of 4,000"):
        files.read_all(path)


def test_a_chunk_that_was_never_written_has_the_fill_value():
    cells = files.read_all(write_chunked(None, fillvalue=7.0))
    np.testing.assert_array_equal(cells[:, 0], np.repeat([7.0, 1.0], 50))
