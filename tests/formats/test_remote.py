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
from files import read_all

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
    zarr.create_array(f"{bucket}/x.zarr", data=X, chunks=(64, 11))
    return f"{bucket}/x.zarr"


def test_a_zarr_array_in_a_bucket(stored):
    source = open_source(stored)
    assert source.block_rows == 64
    assert open_source(stored, columns=["2", "5"]).shape == (400, 2)
    some = np.array([0, 63, 64]), np.array([1, 29])
    np.testing.assert_array_equal(source.read(*some), X[np.ix_(*some)])
    np.testing.assert_array_equal(screen(source, Y, PLAN).selected, screen(X, Y, PLAN).selected)


def put(path, bucket):
    """Copy a file or folder to the bucket, and return its address."""
    s3fs.S3FileSystem().put(str(path), f"{bucket}/{path.name}", recursive=path.is_dir())
    return f"{bucket}/{path.name}"


def run(*command):
    """What a command prints."""
    done = CliRunner().invoke(app, list(map(str, command)))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_files_in_a_bucket(bucket, tmp_path):
    np.save(tmp_path / "x.npy", X)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"], file["b"] = X, -X
    np.testing.assert_array_equal(read_all(put(tmp_path / "x.npy", bucket)), X)
    url = put(tmp_path / "x.h5", bucket)
    np.testing.assert_array_equal(read_all(f"{url}:/b"), -X)
    assert json.loads(run("info", f"{url}:/b", "--json"))["format"] == "hdf5"
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
    np.testing.assert_array_equal(read_all(source), X)


def test_the_command_line_takes_urls(bucket, stored, tmp_path):
    np.save(tmp_path / "y.npy", Y)
    pd.DataFrame(X, columns=[f"x{j}" for j in range(30)]).assign(y=Y).to_csv(tmp_path / "x.csv", index=False)
    best, table = screen(X, Y, PLAN).selected.tolist(), put(tmp_path / "x.csv", bucket)
    for url, target in ((stored, tmp_path / "y.npy"), (table, "y")):
        command = "screen", url, "--target", target, "--exact", "--keep", "2"
        assert [feature["index"] for feature in json.loads(run(*command, "--json"))["features"]] == best
        assert run(*command).startswith(f"{url}: 400 rows, ")
        described = json.loads(run("info", url, "--json"))
        assert (described["path"], described["n_rows"]) == (url, 400)
    run("index", table, "--out", tmp_path / "x.index", "--target", "y", "--quiet")
    assert open_source(tmp_path / "x.index").shape == (400, 30)
    done = CliRunner().invoke(app, ["screen", f"{bucket}/none.csv", "--target", "y"])
    assert f"error: {bucket}/none.csv does not exist or is not readable: check the URL." in done.stderr


def test_copies_of_unreadable_files_are_removed(bucket, tmp_path, monkeypatch):
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    url = put(tmp_path / "bad.csv", bucket)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for use in (lambda: open_source(url), lambda: open_data(X, target=f"{url}:a")):
        with pytest.raises(ValueError, match=r"^s3://data/bad\.csv has 1 values in line 2"):
            use()
    assert not list((tmp_path / "temporary").iterdir())


def test_anndata_in_a_bucket(bucket):
    path = files.write_anndata_zarr(X[:40], [f"g{j}" for j in range(30)], "csr_matrix")
    zarr.open_group(str(path)).create_array("layers/counts", data=X[:40] + 1)
    url = put(path, bucket)
    for inner in ("", ":/layers/counts", "/layers/counts"):
        source, age, *_ = open_data(f"{url}{inner}", target="age")
        np.testing.assert_array_equal(read_all(source), X[:40] + bool(inner))
        np.testing.assert_array_equal(age, np.arange(40))
        assert source.names[29] == "g29"


def test_targets_and_covariates_in_a_bucket(bucket, tmp_path):
    pd.DataFrame({"id": range(400), "y": Y, "age": X[:, 3]}).to_csv(tmp_path / "y.csv.gz", index=False)
    pd.DataFrame(X).assign(id=range(400))[::-1].to_parquet(tmp_path / "x.parquet", index=False)
    side, data = (put(tmp_path / name, bucket) for name in ("y.csv.gz", "x.parquet"))
    source, y, *_ = open_data(data, target=f"{side}:y")
    np.testing.assert_array_equal(y, Y[::-1])
    np.testing.assert_array_equal(read_all(source), X[::-1])
    command = "screen", data, "--target", f"{side}:y", "--exact", "--keep", "2"
    assert f"Note: {side} was joined on sample ids." in run(*command, "--na", "-9")
    found = json.loads(run(*command, "--covariates", f"{side}:age", "--json"))
    assert found["features"][0]["name"] == "8"
    run("index", data, "--out", tmp_path / "x.index", "--target", f"{side}:y", "--quiet")
    with pytest.raises(FileNotFoundError, match=r"s3://data/none\.csv does not exist or is not readable"):
        open_data(X, target=f"{bucket}/none.csv:y")


def test_an_index_in_a_bucket(bucket, tmp_path):
    url = put(build_index(X, tmp_path / "s.index", random_state=0), bucket)
    source, few = open_source(url), np.array([0, 1])
    np.testing.assert_array_equal(source.read(slice(5, 300), few), X[source.original_rows[5:300]][:, few])
    assert "(verified)" in run("info", url, "--verify")


def test_names_outside_of_a_folder_raise(bucket):
    remote = s3fs.S3FileSystem()
    for name in ("a.parquet", "../../../../outside"):
        remote.pipe(f"{bucket}/parts.parquet/{name}", b"PAR1")
    with pytest.raises(ValueError, match=r"parts\.parquet has a file called .*\.\./outside"):
        open_source(f"{bucket}/parts.parquet")
