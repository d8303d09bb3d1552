"""Files that declare or unpack to more than they store, and members of folders that are not files."""

import gzip
import json
import os

import h5py
import numcodecs
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import zarr
from zarr import codecs

import files
from banditsis import open_data
from banditsis.formats.files import MIN_MEMORY

X = np.random.default_rng(0).standard_normal((300, 12))
NAMES = [f"x{j}" for j in range(12)]
BILLION = 10**9


def read(path, memory_limit=MIN_MEMORY):
    return files.read_all(path, memory_limit=memory_limit)


def text(name, content):
    return lambda: files.new_path(name, gzip.compress(content) if name.endswith("gz") else content)


def write_npz(**changes):
    path, matrix = files.new_path("data.npz"), sp.csr_array(X)
    parts = {part: getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    np.savez(path, **{"format": b"csr"} | parts | changes)
    return path


def write_npy(old, new):
    path = files.new_path("data.npy")
    np.save(path, X)
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    return path


def write_zarr(zarr_format=3, **fields):
    path = files.write_zarr(X, NAMES, chunks=(100, 12), zarr_format=zarr_format)
    metadata = path / ("zarr.json" if zarr_format == 3 else ".zarray")
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | fields))
    return path


def write_deep_zarr():
    path = write_zarr()
    (path / "zarr.json").write_text("[" * 10**5 + "]" * 10**5)
    return path


def write_hdf5(*shape, name="X", **options):
    path = files.new_path("data.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset(name, shape, "f8", **options)
    return path


ZEROS = b"0\n" * (MIN_MEMORY // 2 + 1)
MARKET = b"%%%%MatrixMarket matrix %s real general\n"
HUGE = {
    "svmlight": text("x.svm", b"1 1:2 300000000:1\n"),
    "packed svmlight": text("x.svm.gz", b"1 1:2 300000000:1\n"),
    "mtx": text("x.mtx", MARKET % b"coordinate" + b"5 300000000 1\n1 1 1\n"),
    "mtx entries": text("x.mtx", MARKET % b"coordinate" + b"5 5 300000000\n1 1 1\n"),
    "dense mtx": text("x.mtx", MARKET % b"array" + b"300000 300000\n1\n"),
    "unpacked mtx": text("x.mtx.gz", MARKET % b"array" + b"2 2\n" + ZEROS),
    "unpacked svmlight": text("x.svm.gz", ZEROS),
    "npz": lambda: write_npz(shape=(300, BILLION)),
    "Zarr features": lambda: write_zarr(shape=[3, BILLION]),
    "Zarr 2 features": lambda: write_zarr(2, shape=[3, BILLION]),
    "Zarr rows": lambda: write_zarr(shape=[BILLION, 12]),
    "HDF5 features": lambda: write_hdf5(300, BILLION, chunks=(300, 10)),
    "HDF5 rows": lambda: write_hdf5(BILLION, 12, chunks=(1000, 12)),
    "HDF5 chunk": lambda: write_hdf5(300, 10**6, chunks=(300, 10**6)),
    "contiguous HDF5": lambda: write_hdf5(300, 10**8),
}


@pytest.mark.parametrize("kind", HUGE)
def test_declared_sizes_are_checked_against_the_memory_limit(kind):
    with pytest.raises(ValueError, match=r"bytes are more than the limit") as caught:
        read(HUGE[kind]())
    assert "\n" not in str(caught.value)


LIES = {
    "npz format": (lambda: write_npz(format=5), "is not a valid .npz file"),
    "npz shape": (lambda: write_npz(shape=(300,)), "is not a valid .npz file"),
    "npy of fewer rows": (lambda: write_npy(b"(300, 12)", b"(299, 12)"), "and its header declares"),
    "npy of another type": (lambda: write_npy(b"<f8", b"<f4"), "and its header declares"),
    "HDF5 of deep groups": (
        lambda: write_hdf5(300, 12, name="a/" * 2000 + "X"),
        "has no two-dimensional array of numbers",
    ),
    "Zarr of another type": (lambda: write_zarr(data_type="float32"), "is not a valid Zarr file"),
    "Zarr of deep metadata": (write_deep_zarr, "is not a valid Zarr file"),
    "Zarr 2 of another type": (lambda: write_zarr(2, dtype="<f4"), "is not a valid Zarr file"),
}


@pytest.mark.parametrize("kind", LIES)
def test_metadata_that_contradict_the_data_raise(kind):
    write, reason = LIES[kind]
    with pytest.raises(ValueError, match=reason):
        read(write())


COMPRESSIONS = {
    "zstd": codecs.ZstdCodec(),
    "gzip": codecs.GzipCodec(),
    "blosc": codecs.BloscCodec(),
    "zstd in shards": codecs.ZstdCodec(),
    **{f"{name}, Zarr 2": numcodecs.get_codec({"id": name}) for name in ("zstd", "zlib", "lz4")},
}


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize("n_bytes", [100, 9599, 9601, 10**7])
def test_zarr_chunks_unpack_to_what_their_shape_declares(kind, n_bytes):
    def write(cells, height):
        path = files.new_path("x.zarr")
        options = {"shards": (2 * height, cells.shape[1])} if "shards" in kind else {}
        options |= {"zarr_format": 2 if "Zarr 2" in kind else 3, "compressors": COMPRESSIONS[kind]}
        zarr.create_array(str(path), data=cells, chunks=(height, cells.shape[1]), **options)
        return path, path / ("0.0" if "Zarr 2" in kind else "c/0/0")

    path, chunk = write(X, 100)
    np.testing.assert_array_equal(read(path), X)
    chunk.write_bytes(write(np.ones((2, n_bytes), "u1"), 1)[1].read_bytes())
    reason = r"unpacks to more than 10,816 bytes" if n_bytes == 10**7 else ""
    with pytest.raises(ValueError, match=f"is not a valid Zarr file: .*{reason}"):
        read(path)


def test_frames_and_streams_of_zstd():
    path = files.write_zarr(X, NAMES, chunks=(100, 12), compressors=codecs.ZstdCodec())
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:  # which does not store its size
        stream.write(X[:100].tobytes())
    (path / "c/0/0").write_bytes(sink.getvalue())
    np.testing.assert_array_equal(read(path), X)
    frame, bomb = (numcodecs.Zstd().encode(bytes(n)) for n in (9600, 10**7))
    for content in (frame + bomb, bomb, frame[:4]):
        (path / "c/0/0").write_bytes(content)
        with pytest.raises(ValueError, match=r"is not a valid Zarr file"):
            read(path)


def test_text_of_zarr_unpacks_to_a_limit():
    path = files.new_path("x.zarr")
    group = zarr.create_group(str(path))
    group.create_array("X", data=X)
    group.create_array("names", data=np.array(["x" * 10**6] * 12, np.dtypes.StringDType()))
    with pytest.raises(ValueError, match="unpacks to more than"):
        read(path)


FIFOS = {
    **{f"{name} file": (text(f"x{name}", b"1"), f"x{name}") for name in (".parquet", ".csv", ".h5", "")},
    "PLINK samples": (lambda: files.write_bed(X, NAMES), "data.fam"),
    "PLINK variants": (lambda: files.write_bed(X, NAMES), "data.bim"),
    "Zarr metadata": (write_zarr, "data.zarr/zarr.json"),
    "Zarr 2 metadata": (lambda: write_zarr(2), "data.zarr/.zattrs"),
    "Zarr chunk": (write_zarr, "data.zarr/c/1/0"),
    "AnnData matrix": (lambda: files.write_anndata_zarr(X, NAMES), "data.zarr/X/zarr.json"),
    "AnnData column": (lambda: files.write_anndata_zarr(X, NAMES), "data.zarr/obs/_index/c/0"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="FIFOs of POSIX")
@pytest.mark.parametrize("kind", FIFOS)
def test_fifos_are_not_read(kind):
    write, name = FIFOS[kind]
    path = write()
    member = path.parent / name
    member.unlink()
    os.mkfifo(member)
    with pytest.raises(ValueError, match="is not a regular file"):
        read(path)


@pytest.mark.parametrize("name", ["X", "obs/age"])
def test_links_to_other_files_raise(name):
    path = files.write_h5ad(X, NAMES)
    with h5py.File(path, "a") as file:
        del file[name]
        file[name] = h5py.ExternalLink("/etc/passwd", "/X")
    with pytest.raises(ValueError, match=f"has {name} in another file"):
        read(path)


@pytest.mark.parametrize("values", [np.arange(10.0), np.arange(301.0), np.ones((300, 2)), np.array(5.0)])
def test_columns_of_another_shape_raise(values):
    path = files.write_h5ad(X, NAMES)
    with h5py.File(path, "a") as file:
        file["obs/other"] = values
    with pytest.raises(ValueError, match=r"values of shape .* in column 'other', and 300 rows"):
        open_data(path, target="other")
