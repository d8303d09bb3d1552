"""AnnData in HDF5, in Zarr and in memory: written as its format is described, and by anndata."""

import json
import shutil
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import zarr

import files
from banditsis import SIS, open_data, open_source
from banditsis.formats.opening import open_anndata_object
from files import open_file, read_all

COUNTS = np.random.default_rng(0).poisson(1.0, (60, 8)).astype("f4")
NAMES = list("abcdefgh")
MATRICES = {
    "X": COUNTS[:, :5],
    "layers/counts": COUNTS[:, :5] + 1,
    "layers/sparse": COUNTS[:, :5],
    "raw/X": COUNTS,
}
# anndata 0.13 uses options that pandas 3.1 deprecates.
pytestmark = pytest.mark.filterwarnings(r"ignore:The '[\w.]+' option is deprecated")
WRITERS = {"h5ad": files.write_h5ad, "Zarr": files.write_anndata_zarr}


@pytest.fixture(params=[2, 3])
def store(request):
    """A Zarr store with layers and raw counts."""
    path = files.write_anndata_zarr(COUNTS[:, :5], NAMES[:5], "csr_matrix", zarr_format=request.param)
    root = zarr.open_group(str(path))
    root.create_array("layers/counts", data=COUNTS[:, :5] + 1)
    shutil.copytree(path / "X", path / "layers" / "sparse")
    root.create_array("raw/X", data=COUNTS)
    root.create_group("raw/var", attributes={"_index": "_index"})
    root.create_array("raw/var/_index", data=np.array(NAMES, np.dtypes.StringDType()))
    return path


def test_layers_and_raw_counts(store):
    for inner, cells in MATRICES.items():
        for path in (store / inner, f"{store}:/{inner}"):
            source, y, *_ = open_data(path, target="age")
            np.testing.assert_array_equal(read_all(source), cells)
            assert list(source.names) == NAMES[: cells.shape[1]]
            np.testing.assert_array_equal(y, np.arange(60.0))
    with pytest.raises(ValueError, match="no matrix obs; open one of X, raw/X, layers/counts, layers/sparse"):
        open_source(store / "obs")


@pytest.mark.parametrize("kind", [None, "csr_matrix", "csc_matrix"])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_columns_of_obs_are_targets(write, kind):
    opened = open_file(write(COUNTS, NAMES, kind), ["kind", "age", "c"])
    assert opened.values[0][:3].tolist() == ["B", "T", "B"]
    np.testing.assert_array_equal(opened.values[1], np.arange(60))
    np.testing.assert_array_equal(opened.values[2], COUNTS[:, 2])
    assert opened.ids[:2].tolist() == ["cell0", "cell1"]
    assert opened.source.shape == (60, 7)


def test_codecs_that_are_not_known_raise():
    path = files.write_anndata_zarr(COUNTS, NAMES, zarr_format=2)
    metadata = path / "obs" / "age" / ".zarray"
    content = json.loads(metadata.read_text())
    metadata.write_text(json.dumps(content | {"filters": [{"id": "base64"}]}))
    with pytest.raises(ValueError, match=r"obs/age was written with the codec base64"):
        open_data(path, target="age")


def test_a_damaged_store():
    path = files.write_anndata_zarr(COUNTS, NAMES, "csr_matrix")
    shutil.rmtree(path / "X" / "indices")
    with pytest.raises(ValueError, match=r"data\.zarr is not a valid Zarr file.*write it again"):
        open_source(path)
    path = files.write_anndata_zarr(COUNTS, NAMES)
    shutil.rmtree(path / "var")
    with pytest.raises(ValueError, match=r"data\.zarr is not an AnnData file: it has no var"):
        open_source(path)


@pytest.fixture(scope="module")
def adata():
    import anndata
    import pandas as pd

    obs = {
        "age": np.arange(60.0),
        "kind": pd.Categorical(["B", None, "T"] * 20),
        "doses": pd.array([1, None, 3] * 20, dtype="Int64"),
    }
    frame = pd.DataFrame(obs, index=[f"cell{i}" for i in range(60)])
    layers = {"counts": COUNTS[:, :5] + 1, "sparse": sp.csc_matrix(COUNTS[:, :5])}
    made = anndata.AnnData(sp.csr_matrix(COUNTS[:, :5]), frame, pd.DataFrame(index=NAMES[:5]), layers=layers)
    made.raw = anndata.AnnData(sp.csr_matrix(COUNTS), frame, pd.DataFrame(index=NAMES))
    return made


@pytest.mark.parametrize("kind", ["h5ad", "Zarr 2", "Zarr 3"])
def test_files_of_anndata(adata, kind):
    import anndata

    path = files.new_path("data.h5ad" if kind == "h5ad" else "data.zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about new defaults of anndata
        if kind == "h5ad":
            adata.write_h5ad(path)
        else:
            with anndata.settings.override(zarr_write_format=int(kind[-1])):
                adata.write_zarr(path)
    for inner, cells in MATRICES.items():
        opened = open_file(f"{path}:/{inner}", ["age", "kind", "doses"])
        np.testing.assert_array_equal(read_all(opened.source), cells)
        assert opened.ids[:2].tolist() == ["cell0", "cell1"]
        check_obs(*opened.values)


def check_obs(age, labels, doses):
    np.testing.assert_array_equal(age, np.arange(60))
    assert labels[:3].tolist() == ["B", None, "T"]
    np.testing.assert_array_equal(doses[:3], [1, np.nan, 3])


@pytest.mark.parametrize("mode", [None, "r", "r+"])
def test_matrices_of_objects_in_memory_and_backed(adata, mode):
    import anndata

    path = files.new_path("data.h5ad")
    adata.write_h5ad(path)
    opened = adata.copy() if mode is None else anndata.read_h5ad(path, backed=mode)
    opened.obs["added"] = np.arange(60) % 3  # which the file does not have
    for inner, cells in MATRICES.items():
        data = open_anndata_object(opened, inner)
        np.testing.assert_array_equal(data.values(data.find("added")), np.arange(60) % 3)
        source = data.source()
        np.testing.assert_array_equal(read_all(source), cells)
        assert list(source.names) == NAMES[: cells.shape[1]]
        assert data.ids[:2].tolist() == ["cell0", "cell1"]
    check_obs(*open_file(opened, ["age", "kind", "doses"]).values)
    np.testing.assert_array_equal(read_all(opened[10:40, ["b", "d"]]), COUNTS[10:40][:, [1, 3]])
    selector = SIS(n_features_to_select=2).fit(opened, COUNTS[:, 3] + COUNTS[:, 1])
    assert selector.get_feature_names_out().tolist() == ["b", "d"]
    assert mode is not None or selector.transform(opened).var_names.tolist() == ["b", "d"]
    with pytest.raises(ValueError, match=r"no layers/count; it has raw/X, layers/counts, layers/sparse"):
        open_anndata_object(opened, "layers/count")
    if mode is not None:
        opened.file.close()
    with pytest.raises(ValueError, match="the AnnData object has no X; it has no matrix"):
        open_source(anndata.AnnData(shape=(5, 3)))
