"""Addresses, against real servers on this machine: one that speaks S3, one that speaks HTTP."""

import functools
import gc
import http.server
import json
import logging
import tempfile
import threading

import h5py
import numpy as np
import pandas as pd
import pytest
import s3fs
import zarr
from click.testing import CliRunner
from moto.server import ThreadedMotoServer

import files
from banditsis import Plan, build_index, open_data, open_source, screen
from banditsis.cli.app import app

# fsspec keeps its connections until they are collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

rng = np.random.default_rng(0)
X = rng.standard_normal((400, 30))
Y = X[:, 3] - X[:, 8] + rng.standard_normal(400)
PLAN = Plan.exact(400, 30, 2)


@pytest.fixture(scope="module")
def bucket():
    """The address of a bucket; credentials are where fsspec looks for them."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "someone")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        system = s3fs.S3FileSystem()
        system.mkdir("data")
        yield "s3://data"
        system.clear_instance_cache()
        del system
        gc.collect()
    server.stop()


@pytest.fixture(scope="module")
def stored(bucket):
    array = zarr.create_array(f"{bucket}/x.zarr", shape=X.shape, chunks=(64, 11), dtype="f8")
    array[:] = X
    return f"{bucket}/x.zarr"


def test_a_zarr_array_in_a_bucket(stored):
    source = open_source(stored)
    assert source.block_rows == 64
    assert open_source(stored, columns=["2", "5"]).shape == (400, 2)
    np.testing.assert_array_equal(
        source.read(np.array([0, 63, 64]), np.array([1, 29])), X[[0, 63, 64]][:, [1, 29]]
    )
    found = screen(source, Y, PLAN)
    np.testing.assert_array_equal(found.selected, screen(X, Y, PLAN).selected)


def test_a_file_in_a_bucket_is_copied_once(bucket, tmp_path):
    np.save(tmp_path / "x.npy", X)
    s3fs.S3FileSystem().put(str(tmp_path / "x.npy"), f"{bucket}/x.npy")
    found = screen(open_source(f"{bucket}/x.npy"), Y, PLAN)
    np.testing.assert_array_equal(found.selected, screen(X, Y, PLAN).selected)


def test_what_is_not_there_is_named(bucket):
    with pytest.raises(FileNotFoundError, match=r"s3://data/none.zarr does not exist"):
        open_source(f"{bucket}/none.zarr")


def test_a_file_behind_http(tmp_path):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    np.save(tmp_path / "x.npy", X)
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        source = open_source(f"http://127.0.0.1:{server.server_port}/x.npy")
        server.shutdown()
    np.testing.assert_array_equal(source.read(slice(0, 400), None), X)


def test_the_command_line_takes_urls(bucket, stored, tmp_path):
    np.save(tmp_path / "y.npy", Y)
    pd.DataFrame(X, columns=[f"x{j}" for j in range(30)]).assign(y=Y).to_csv(tmp_path / "x.csv", index=False)
    s3fs.S3FileSystem().put(str(tmp_path / "x.csv"), f"{bucket}/x.csv")
    best = screen(X, Y, PLAN).selected.tolist()
    for url, target in ((stored, tmp_path / "y.npy"), (f"{bucket}/x.csv", "y")):
        command = ["screen", url, "--target", str(target), "--exact", "--keep", "2"]
        done = CliRunner().invoke(app, [*command, "--json"])
        assert done.exit_code == 0, done.stderr
        assert [feature["index"] for feature in json.loads(done.stdout)["features"]] == best
        assert CliRunner().invoke(app, command).stdout.startswith(f"{url}: 400 rows, ")
        described = json.loads(CliRunner().invoke(app, ["info", url, "--json"]).stdout)
        assert (described["path"], described["n_rows"]) == (url, 400)
    store = tmp_path / "x.index"
    done = CliRunner().invoke(
        app, ["index", f"{bucket}/x.csv", "--out", str(store), "--target", "y", "--quiet"]
    )
    assert done.exit_code == 0, done.stderr
    assert open_source(store).shape == (400, 30)
    done = CliRunner().invoke(app, ["screen", f"{bucket}/none.csv", "--target", "y"])
    assert f"error: {bucket}/none.csv does not exist or is not readable: check the URL." in done.stderr


def test_copies_of_unreadable_files_are_removed(bucket, tmp_path, monkeypatch):
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    s3fs.S3FileSystem().put(str(tmp_path / "bad.csv"), f"{bucket}/bad.csv")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with pytest.raises(ValueError, match=r"^s3://data/bad\.csv has 1 values in line 2"):
        open_source(f"{bucket}/bad.csv")
    with pytest.raises(ValueError, match=r"^s3://data/bad\.csv has 1 values in line 2"):
        open_data(X, target=f"{bucket}/bad.csv:a")
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize("inner", ["", ":/layers/counts", "/layers/counts"])
def test_anndata_in_a_bucket(bucket, inner):
    path = files.write_anndata_zarr(X, [f"g{j}" for j in range(30)], "csr_matrix")
    zarr.open_group(str(path)).create_array("layers/counts", data=X + 1)
    s3fs.S3FileSystem().put(str(path), "data/cells.zarr", recursive=True)
    source, age, *_ = open_data(f"{bucket}/cells.zarr{inner}", target="age")
    np.testing.assert_array_equal(source.read(slice(0, 400), None), X + bool(inner))
    np.testing.assert_array_equal(age, np.arange(400))
    assert source.names[29] == "g29"


def test_targets_and_covariates_in_a_bucket(bucket, tmp_path):
    remote = s3fs.S3FileSystem()
    pd.DataFrame({"id": range(400), "y": Y, "age": X[:, 3]}).to_csv(tmp_path / "y.csv.gz", index=False)
    pd.DataFrame(X).assign(id=range(400))[::-1].to_parquet(tmp_path / "x.parquet", index=False)
    for name in ("y.csv.gz", "x.parquet"):
        remote.put(str(tmp_path / name), f"{bucket}/{name}")
    source, y, *_ = open_data(f"{bucket}/x.parquet", target=f"{bucket}/y.csv.gz:y")
    np.testing.assert_array_equal(y, Y[::-1])
    np.testing.assert_array_equal(source.read(slice(0, 400), None), X[::-1])
    command = ["screen", f"{bucket}/x.parquet", "--target", f"{bucket}/y.csv.gz:y", "--exact", "--keep", "2"]
    done = CliRunner().invoke(app, [*command, "--na", "-9"])
    assert done.exit_code == 0, done.stderr
    assert f"Note: {bucket}/y.csv.gz was joined on sample ids." in done.stdout
    done = CliRunner().invoke(app, [*command, "--covariates", f"{bucket}/y.csv.gz:age", "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["features"][0]["name"] == "8"
    store = tmp_path / "x.index"
    done = CliRunner().invoke(
        app, ["index", command[1], "--out", str(store), "--target", command[3], "--quiet"]
    )
    assert done.exit_code == 0, done.stderr
    with pytest.raises(FileNotFoundError, match=r"s3://data/none\.csv does not exist or is not readable"):
        open_data(X, target=f"{bucket}/none.csv:y")


def test_a_part_of_a_file_in_a_bucket(bucket, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"], file["b"] = X, -X
    s3fs.S3FileSystem().put(str(tmp_path / "x.h5"), f"{bucket}/x.h5")
    np.testing.assert_array_equal(open_source(f"{bucket}/x.h5:/b").read(slice(0, 400), None), -X)
    described = json.loads(CliRunner().invoke(app, ["info", f"{bucket}/x.h5:/b", "--json"]).stdout)
    assert described["format"] == "hdf5"


def test_an_index_in_a_bucket(bucket, tmp_path):
    local = build_index(X, tmp_path / "s.index", random_state=0)
    s3fs.S3FileSystem().put(str(local), f"{bucket}/s.index", recursive=True)
    source = open_source(f"{bucket}/s.index")
    np.testing.assert_array_equal(source.read(slice(0, 400), None), X[source.original_rows])
    few = np.array([0, 1])
    np.testing.assert_array_equal(source.read(slice(5, 300), few), X[source.original_rows[5:300]][:, few])
    done = CliRunner().invoke(app, ["info", f"{bucket}/s.index", "--verify"])
    assert done.exit_code == 0, done.stderr
    assert "(verified)" in done.stdout


def test_names_outside_of_a_folder_raise(bucket):
    remote = s3fs.S3FileSystem()
    for name in ("a.parquet", "../../../../outside"):
        remote.pipe(f"{bucket}/parts.parquet/{name}", b"PAR1")
    with pytest.raises(ValueError, match=r"parts\.parquet has a file called .*\.\./outside"):
        open_source(f"{bucket}/parts.parquet")
