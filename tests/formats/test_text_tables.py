"""Tables of text: compressed, in folders, and with codes for missing values."""

import bz2
import gzip
import lzma

import numpy as np
import pyarrow as pa
import pytest

from banditsis import open_source
from banditsis.formats.targets import read_target


def zstd(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
LABELS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 3))
TEXT = ("a,b,y\n" + "\n".join(",".join(map(repr, row)) for row in X.tolist()) + "\n").encode()


def read_all(source):
    return source.read(slice(0, source.shape[0]), None)


@pytest.mark.parametrize("limit", [None, 20_000])
@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_text(suffix, limit, tmp_path, recwarn):
    path = tmp_path / f"data.csv{suffix}"
    path.write_bytes(PACKERS[suffix](TEXT))
    source, y = open_source(path, target="y", memory_limit=limit)
    np.testing.assert_array_equal(read_all(source), X[:, :2])
    np.testing.assert_array_equal(y, X[:, 2])
    assert [str(warning.message).count("converted once") for warning in recwarn] == [1] * (limit is not None)
    np.testing.assert_array_equal(read_target(path, "y").values, X[:, 2])
    (tmp_path / f"data.tsv{suffix}").write_bytes(PACKERS[suffix](TEXT.replace(b",", b"\t")))
    np.testing.assert_array_equal(read_all(open_source(tmp_path / f"data.tsv{suffix}")), X)


@pytest.mark.parametrize("suffix", PACKERS)
def test_well_compressed_text_is_not_held_in_memory(suffix, tmp_path):
    path = tmp_path / f"data.csv{suffix}"
    path.write_bytes(PACKERS[suffix](b"a,b,c,d\n" + b"1.000000,0,2.0000,0\n" * 100_000))
    with pytest.warns(UserWarning, match=r"needs about 0\.006\d* GB in memory, and 0\.003 GB may be used"):
        assert open_source(path, memory_limit=3_000_000).shape == (100_000, 4)


@pytest.mark.parametrize("use", ["data", "target"])
@pytest.mark.parametrize("suffix", PACKERS)
def test_damaged_compressed_text(suffix, use, tmp_path):
    open_it = open_source if use == "data" else lambda path: read_target(path, "y")
    whole, path = PACKERS[suffix](TEXT), tmp_path / f"data.csv{suffix}"
    path.write_bytes(whole[:-40])
    with pytest.raises(ValueError, match=f"is not a valid {LABELS[suffix]} file: .*; write it again"):
        open_it(path)
    if suffix == ".zst":  # its checksum is optional, and pyarrow writes none
        return
    path.write_bytes(whole[:1000] + bytes(500) + whole[1500:])
    with pytest.raises(ValueError, match=f"is not a valid {LABELS[suffix]} file: .*; write it again"):
        open_it(path)


@pytest.mark.parametrize("use", ["data", "target"])
@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_text_with_another_name(suffix, use, tmp_path):
    open_it = open_source if use == "data" else lambda path: read_target(path, "y")
    for name in ("data.csv", "data.csv.xz" if suffix == ".gz" else "data.csv.gz"):
        (tmp_path / name).write_bytes(PACKERS[suffix](TEXT))
        with pytest.raises(
            ValueError, match=rf"that of a {LABELS[suffix]} file: rename it to data\.csv\{suffix}"
        ):
            open_it(tmp_path / name)
    (tmp_path / f"data.csv{suffix}").write_bytes(TEXT)
    with pytest.raises(ValueError, match="is named as a CSV file, but its content is not"):
        open_it(tmp_path / f"data.csv{suffix}")


def test_compressed_files_of_other_kinds(tmp_path):
    (tmp_path / "x.npy.zst").write_bytes(zstd(b"x"))
    with pytest.raises(ValueError, match=r"with zstd: unpack it, or .* rename it to end in \.csv\.zst"):
        open_source(tmp_path / "x.npy.zst")
