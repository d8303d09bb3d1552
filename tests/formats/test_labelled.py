"""Objects of xarray, and the files that it writes."""

import warnings

import numpy as np
import pytest
import xarray as xr

from banditsis import SIS, Plan, open_data, open_source, screen
from files import open_file

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 5))
Y = X[:, 2] - X[:, 4] + rng.standard_normal(60)
NAMES = [f"gene{j}" for j in range(5)]
IDS = [f"sample{i}" for i in range(60)]


def make_dataset(**more):
    coordinates = {"sample": IDS, "gene": NAMES, "age": ("sample", np.arange(60.0))}
    return xr.Dataset({"level": (("sample", "gene"), X), "y": ("sample", Y), **more}, coordinates)


def test_coordinates_are_names_and_ids():
    dataset = make_dataset()
    opened = open_file(dataset["level"], ["age"])
    np.testing.assert_array_equal(opened.source.read(slice(0, 60), None), X)
    assert opened.source.names == NAMES
    assert opened.ids.tolist() == IDS
    numbered = dataset.assign_coords(sample=np.arange(60) + 100, gene=[10, 20, 30, 40, 50])["level"]
    opened = open_file(numbered)
    assert opened.source.names == ["10", "20", "30", "40", "50"]
    assert opened.ids is None  # numbers are names, but not ids


def test_files_of_xarray(tmp_path):
    """A Zarr store is opened without its coordinates, netCDF by xarray."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about text and consolidated metadata in Zarr 3
        for version in (2, 3):
            make_dataset().to_zarr(tmp_path / f"{version}.zarr", zarr_format=version)
        make_dataset().to_netcdf(tmp_path / "x.nc", engine="h5netcdf")
    for version in (2, 3):
        source, y, *_ = open_data(tmp_path / f"{version}.zarr", target="y")
        np.testing.assert_array_equal(source.read(slice(0, 60), None), X)
        np.testing.assert_array_equal(y, Y)
    with pytest.raises(ValueError, match=r"x\.nc is a netCDF file.*open_source\(xarray\.open_dataset"):
        open_source(tmp_path / "x.nc")


def test_a_target_file_is_joined_on_the_coordinate(tmp_path):
    order = rng.permutation(60)
    table = tmp_path / "y.csv"
    table.write_text("id,y\n" + "".join(f"{IDS[i]},{float(Y[i])!r}\n" for i in order))
    source, y, *_ = open_data(make_dataset()["level"], target=f"{table}:y")
    np.testing.assert_array_equal(y, Y)
    assert source.shape == (60, 5)


@pytest.mark.parametrize("chunks", [None, {"sample": 20, "gene": 5}], ids=["numpy", "dask"])
def test_arrays_in_memory(chunks):
    array = make_dataset()["level"]
    array = array if chunks is None else array.chunk(chunks)
    opened = open_file(array, ["age"])
    assert list(opened.source.names) == NAMES
    assert opened.ids.tolist() == IDS
    np.testing.assert_array_equal(opened.values[0], np.arange(60))
    expected = screen(X, Y, Plan.exact(60, 5, 2))
    result = screen(array, Y, Plan.exact(60, 5, 2))
    np.testing.assert_array_equal(result.selected, expected.selected)
    np.testing.assert_allclose(result.scores, expected.scores, atol=1e-12)
    assert sorted(result.names[j] for j in result.selected) == ["gene2", "gene4"]


def test_an_estimator_keeps_the_labels():
    array = make_dataset()["level"]
    selector = SIS(n_features_to_select=2).fit(array, make_dataset()["y"])
    assert selector.get_feature_names_out().tolist() == ["gene2", "gene4"]
    kept = selector.transform(array)
    xr.testing.assert_identical(kept, array[:, [2, 4]])


def test_what_is_not_a_matrix():
    with pytest.raises(ValueError, match=r"X is a Dataset with the dimensions .*pass .*dataset\[name\]"):
        open_source(make_dataset())
    with pytest.raises(ValueError, match="X is a DataArray with the dimensions sample:"):
        open_source(make_dataset()["y"])
    repeated = make_dataset().assign_coords(gene=["a", "a", "b", "c", "d"])["level"]
    with pytest.raises(ValueError, match="several columns called 'a'"):
        open_source(repeated)
