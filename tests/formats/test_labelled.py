"""Objects of xarray, and the files that it writes."""

import warnings

import numpy as np
import pytest
import xarray as xr

import files
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


def write(dataset, kind):
    path = files.new_path("data.nc" if kind == "netCDF" else "data.zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about text and consolidated metadata in Zarr 3
        if kind == "netCDF":
            dataset.to_netcdf(path, engine="h5netcdf")
        else:
            dataset.to_zarr(path, zarr_format=int(kind[-1]))
    return path


KINDS = ["netCDF", "Zarr 2", "Zarr 3"]


@pytest.mark.parametrize("kind", KINDS)
def test_coordinates_are_names_and_ids(kind):
    opened = open_file(write(make_dataset(), kind), ["y", "age"])
    np.testing.assert_array_equal(opened.source.read(slice(0, 60), None), X)
    assert opened.source.names == NAMES
    assert opened.ids.tolist() == IDS
    np.testing.assert_array_equal(opened.values, [Y, np.arange(60)])


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_several_variables(kind):
    path = write(make_dataset(other=(("sample", "gene"), 2 * X)), kind)
    with pytest.raises(ValueError, match=r"2 two-dimensional arrays.*open one of .*level, .*other"):
        open_source(path)
    separator = ":/" if kind == "netCDF" else "/"
    source, y, *_ = open_data(f"{path}{separator}other", target="y")
    np.testing.assert_array_equal(source.read(slice(0, 60), None), 2 * X)
    assert source.names == NAMES
    np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize("kind", KINDS)
def test_dimensions_without_coordinates(kind):
    opened = open_file(write(make_dataset().drop_vars(["sample", "gene"]), kind), ["y"])
    assert opened.source.names is None
    assert opened.ids is None
    np.testing.assert_array_equal(opened.values[0], Y)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_names_but_not_ids(kind):
    dataset = make_dataset().assign_coords(sample=np.arange(60) + 100, gene=[10, 20, 30, 40, 50])
    for opened in (open_file(write(dataset, kind)), open_file(dataset["level"])):
        assert opened.source.names == ["10", "20", "30", "40", "50"]
        assert opened.ids is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_file_is_joined_on_the_coordinate(kind):
    order = rng.permutation(60)
    table = files.new_path("y.csv")
    table.write_text("id,y\n" + "".join(f"{IDS[i]},{float(Y[i])!r}\n" for i in order))
    for data in (write(make_dataset(), kind), make_dataset()["level"]):
        source, y, *_ = open_data(data, target=f"{table}:y")
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
