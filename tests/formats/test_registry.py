"""Files of NumPy, SciPy and scikit-learn; which format a file has; one clear message for what is wrong."""

import gzip
import io
from zipfile import ZipFile

import numpy as np
import pytest
from scipy import sparse
from scipy.io import mmwrite
from sklearn.datasets import dump_svmlight_file

from banditsis import BanditSIS, Plan, open_data, open_source, screen
from banditsis.engine.sampling import resolve_row_order
from banditsis.formats import files as formats_files
from banditsis.formats.opening import FORMATS, find_format
from banditsis.sources import memmap as mapped
from banditsis.sources.memmap import MappedSource
from files import new_path, read_all, read_target
from reference import same

rng = np.random.default_rng(0)
N, P = 200, 12
X = np.where(rng.random((N, P)) < 0.4, rng.standard_normal((N, P)), 0.0)
Y = X[:, 2] - X[:, 7] + 0.1 * rng.standard_normal(N)


def _svmlight(path):
    dump_svmlight_file(X, Y, str(path), zero_based=True)


def _gzipped_market(path):
    buffer = io.BytesIO()
    mmwrite(buffer, sparse.coo_array(X))
    path.write_bytes(gzip.compress(buffer.getvalue()))


WRITERS = {
    "x.npy": lambda path: np.save(path, X),
    "columns.npy": lambda path: np.save(path, np.asfortranarray(X)),
    "dense.npz": lambda path: np.savez(path, X),
    "sparse.npz": lambda path: sparse.save_npz(path, sparse.csr_array(X)),
    "columns.npz": lambda path: sparse.save_npz(path, sparse.csc_matrix(X)),
    "x.mtx": lambda path: mmwrite(path, sparse.coo_array(X)),
    "dense.mtx": lambda path: mmwrite(path, X),
    "x.mtx.gz": _gzipped_market,
    "x.svmlight": _svmlight,
    "x.libsvm": _svmlight,
}


@pytest.fixture(params=WRITERS)
def path(request, tmp_path):
    WRITERS[request.param](tmp_path / request.param)
    return tmp_path / request.param


def test_every_file_gives_the_same_selection(path):
    source, plan = open_source(str(path)), Plan.paper(N, P, 3)
    assert source.shape == (N, P)
    np.testing.assert_allclose(read_all(source), X, rtol=1e-12)
    found = screen(source, Y, plan, row_order="random", random_state=0)
    same(found, screen(X, Y, plan, random_state=0), 1e-9)


def test_a_column_of_the_same_file_is_the_target(path):
    if "svm" in path.name:
        source, y, *_ = open_data(path, target="label")
        np.testing.assert_allclose(y, Y)
        assert source.shape == (N, P)
        return
    for wanted in ("x3", "4"):
        source, y, *_ = open_data(path, target=wanted)
        np.testing.assert_allclose(y, X[:, 3], rtol=1e-12)
        assert [source.name(j) for j in (0, 3, 10)] == ["x0", "x4", "x11"]
        np.testing.assert_allclose(read_all(source), np.delete(X, 3, axis=1), rtol=1e-12)


def test_selectors_take_files_as_sources(path):
    """Names may be given; they are compared."""
    source = open_source(path, [f"f{j}" for j in range(P)])
    selector = BanditSIS(3, random_state=0).fit(source, Y)
    chosen = [f"f{j}" for j in selector.get_support(indices=True)]
    np.testing.assert_array_equal(selector.get_feature_names_out(), chosen)
    np.testing.assert_allclose(selector.transform(source), X[:, selector.get_support()], rtol=1e-12)
    with pytest.raises(ValueError, match="X has 11 features, but BanditSIS is expecting 12"):
        selector.transform(open_source(X[:, 1:]))
    with pytest.raises(ValueError, match=r"selected feature 'f\d+' is not among the 12 features"):
        selector.transform(open_source(path, [f"g{j}" for j in range(P)]))
    with pytest.raises(ValueError, match="got 2 names for 12 columns"):
        open_source(path, ["a", "b"])


def test_arrays_beside_the_matrix_of_a_npz(tmp_path):
    np.savez(tmp_path / "both.npz", X=X, y=Y)
    source, y, *_ = open_data(tmp_path / "both.npz", target="y")
    assert source.shape == (N, P)
    np.testing.assert_array_equal(y, Y)
    with pytest.raises(ValueError, match="has no column 'why': did you mean 'y'"):
        open_data(tmp_path / "both.npz", target="why")


def test_maps_larger_than_memory_know_their_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "AS_IN_MEMORY", 0)
    wide, narrow, plan = (
        np.zeros((3000, 2000), "f4"),
        rng.standard_normal((40_000, 8)),
        Plan.paper(40_000, 8, 1),
    )
    for name, cells in {"wide": wide, "narrow": narrow, "columns": np.asfortranarray(narrow)}.items():
        np.save(tmp_path / f"{name}.npy", cells)
    opened = {name: open_source(tmp_path / f"{name}.npy") for name in ("wide", "narrow", "columns")}
    assert all(isinstance(source, MappedSource) for source in opened.values())
    assert [source.block_rows for source in opened.values()] == [1, 64, 8192]
    assert resolve_row_order(opened["wide"], Plan.paper(3000, 2000, 9), "auto")[0] == "random"
    y = narrow[:, 3] + rng.standard_normal(40_000)
    expected = screen(narrow, y, plan, random_state=0)
    for name in ("narrow", "columns"):
        result = screen(opened[name], y, plan, random_state=0)
        assert result.parameters["row_order"] == "blocks"
        assert result.selected[0] == 3
        assert (result.fraction_read == 1) == (name == "columns")  # which has few blocks
        random = screen(opened[name], y, plan, row_order="random", random_state=0)
        np.testing.assert_allclose(random.scores, expected.scores, atol=1e-12)


def test_formats_by_name_and_content(tmp_path):
    for name, content in {
        "x.mtx.gz": _gzipped_market,
        "x.libsvm": _svmlight,
        "x.npy": WRITERS["x.npy"],
    }.items():
        make(tmp_path / name, content)
    (tmp_path / "x.npy").rename(tmp_path / "renamed.data")  # the content tells
    for name in ("store", "parts", "parts/year=1"):
        (tmp_path / name).mkdir()
    make(tmp_path / "store" / "zarr.json", b"{}")
    make(tmp_path / "parts" / "year=1" / "a.parquet", b"PAR1")
    make(tmp_path / "parts" / "_SUCCESS", b"")
    found = {name: find_format(tmp_path / name) for name in ("x.mtx.gz", "x.libsvm", "renamed.data")}
    assert found == {"x.mtx.gz": "matrixmarket", "x.libsvm": "svmlight", "renamed.data": "npy"}
    assert [find_format(tmp_path / name) for name in ("store", "parts")] == ["zarr", "parquet"]
    assert find_format("s3://bucket/data.parquet") == "parquet"
    with pytest.raises(ValueError, match="s3://bucket/data has an unknown extension"):
        find_format("s3://bucket/data")
    assert all(bool(format.remedy) != (":" in format.opener) for format in FORMATS.values())


def _save_as(path, save, suffix):
    other = path.with_name(f"other{suffix}")
    save(other, X)
    other.rename(path)


def _truncate(path, save):
    save(path, X)
    path.write_bytes(path.read_bytes()[:-100])


def make(path, content):
    """Write a file: bytes, or by a function."""
    content(path) if callable(content) else path.write_bytes(content)
    return path


CUT_MARKET = b"%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 5\n"
WRONG = {
    "empty.npy": (b"", "empty.npy is empty"),
    "text.npy": (b"a,b\n1,2\n", "named as a NumPy file, but its content is not"),
    "really.parquet": (lambda path: _save_as(path, np.save, ".npy"), "content is that of a NumPy file"),
    "zip.npy": (lambda path: _save_as(path, np.savez, ".npz"), "that of a NumPy or SciPy .npz"),
    "cut.npy": (lambda path: _truncate(path, np.save), "is not a valid NumPy file"),
    "cut.npz": (lambda path: _truncate(path, np.savez), "is not a valid .npz file"),
    "objects.npy": (lambda path: np.save(path, np.array([[{}]])), "is not a valid NumPy file: .*objects"),
    "vector.npy": (lambda path: np.save(path, Y), "features have two dimensions"),
    "words.npy": (lambda path: np.save(path, np.array([["a", "b"]])), "must hold numbers"),
    "vectors.npz": (lambda path: np.savez(path, Y, Y), r"one two-dimensional array, .*arr_0 \(200,\)"),
    "two.npz": (lambda path: np.savez(path, X, X), "one two-dimensional array"),
    "bad.mtx": (b"%%MatrixMarket matrix nonsense\n1 1\n", "not a valid Matrix Market file"),
    "cut.mtx": (CUT_MARKET, "not a valid Matrix Market file"),
    "complex.mtx": (lambda path: mmwrite(path, sparse.coo_array(X * 1j)), "Complex data"),
    "bad.svmlight": (b"1 2:3 x:y\n", "is not a valid svmlight file"),
    "unknown.xyz": (b"1 2 3", "unknown extension"),
    "cut.mtx.gz": (b"\x1f\x8b\x08\x00broken", "not a valid gzip file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_clear_message_for_each_wrong_file(name, tmp_path):
    content, message = WRONG[name]
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        open_source(make(tmp_path / name, content))
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path):
    np.save(tmp_path / "data.npy", X)
    with pytest.raises(FileNotFoundError, match=r"dat\.npy does not exist: check the name"):
        open_source(tmp_path / "dat.npy")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="neither a Zarr store nor one of Parquet"):
        open_source(tmp_path / "folder")


def _zip(path, *names):
    with ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "1,2\n")


VCF = b"##fileformat=VCFv4.2\n#CHROM\tPOS\tID\n"
UNSUPPORTED = {
    "x.xlsx": (lambda path: _zip(path, "xl/workbook.xml"), "an Excel workbook.*: save its table as CSV"),
    "x.csv.zip": (lambda path: _zip(path, "x.csv"), "a zip archive.*: unpack it"),
    "x.zarr.zip": (lambda path: _zip(path, "zarr.json", "c/0/0"), "a zip archive.*: unpack it"),
    "x.xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "an Excel workbook"),
    "x.vcf": (VCF, "a VCF file.*plink2 --vcf FILE --make-bed"),
    "x.vcf.gz": (gzip.compress(VCF), "a VCF file.*plink2 --vcf FILE --make-bed"),
    "x.txt": (VCF, "a VCF file.*plink2 --vcf FILE --make-bed"),
    "x.bgen": (b"\x14\0\0\0" * 4 + b"bgen" + bytes(20), "a BGEN file.*plink2 --bgen"),
    "x.nc": (b"CDF\x01" + bytes(28), "a netCDF file.*open it with xarray"),
    "x.pgen": (b"\x6c\x1b\x10" + bytes(9), "a PLINK 2 file.*--pfile x --make-bed"),
    "x.rds": (gzip.compress(b"X\n"), "an R file.*arrow::write_parquet"),
    "x.db": (b"SQLite format 3\0" + bytes(99), "an SQLite file.*: save its table as CSV"),
    "x.json": (b"[1]", "a table that only pandas reads.*to_parquet"),
    "x.npy.zst": (b"\x28\xb5\x2f\xfd" + bytes(9), r"a zstd file.*: unpack it, or .* end in \.csv\.zst"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
@pytest.mark.parametrize("use", ["data", "target"])
def test_formats_that_cannot_be_read_are_named(name, use, tmp_path):
    content, message = UNSUPPORTED[name]
    path = make(tmp_path / name, content)
    with pytest.raises(ValueError, match=f"{name} is .*{message}") as caught:
        open_source(path) if use == "data" else read_target(path, None)
    assert "\n" not in str(caught.value)
    assert name == "x.npy.zst" or "rename" not in str(caught.value)


@pytest.mark.parametrize(
    "header", ["FEA1,FEA2", "ORC,b", "BZh91,b", "GOOSE,A,DUCK", "0123456789abcdef,bgen", "PK,b"]
)
def test_headers_that_look_like_other_formats(header):
    text = f"{header}\n" + ",".join("1" * len(header.split(","))) + "\n"
    assert open_source(new_path("x.csv", text)).names == header.split(",")


def test_what_is_larger_than_the_free_memory_or_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(formats_files, "PROC", tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable: 1000 kB\n")
    assert formats_files.allowed_memory(None) == 512_000
    assert formats_files.allowed_memory(123) == 123
    np.savez(tmp_path / "large.npz", np.zeros((1000, 200)))
    with pytest.raises(ValueError, match=r"1,600,.* bytes are more than the free memory of 1,024,000"):
        open_source(tmp_path / "large.npz")
    with pytest.raises(ValueError, match="more than the limit of 1,000"):
        open_source(tmp_path / "large.npz", memory_limit=1000)
