"""Dask collections: the same answers as in memory, small sums, and what happens when things fail."""

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster
from packaging.version import parse

from banditsis import SIS, BanditSIS, Plan, open_source, screen
from banditsis.sources.dask import DaskSource
from reference import same

rng = np.random.default_rng(0)
N, P = 2000, 60
X = rng.standard_normal((N, P)) + 3
Y = X[:, 3] - X[:, 40] + rng.standard_normal(N)
PLAN = Plan.paper(N, P, 5)
UNEVEN = ((300, 1, 699, 500, 500), (25, 35))


def lazy(x, chunks=UNEVEN):
    return da.from_array(x, chunks=chunks) + 0


def blockwise(function, *args, chunks=(20, P)):
    """Blocks of X that a function passes on when they are computed."""
    x = da.from_array(X, chunks=chunks)
    return x.map_blocks(function, *args, dtype=float, meta=np.empty((0, 0)))


OPTIONS = {"row_order": "random", "random_state": 1}


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
@pytest.mark.parametrize("x", [da.from_array(X, chunks=UNEVEN), lazy(X)], ids=["persisted", "lazy"])
@pytest.mark.parametrize("max_weights", [1 << 22, 333])
def test_the_same_selection_as_in_memory(scheduler, x, max_weights, monkeypatch):
    """Also if weights of very many rows go in several graphs."""
    monkeypatch.setattr("banditsis.sources.dask.MAX_WEIGHTS", max_weights)
    several = np.column_stack([Y, X[:, 7] + Y, rng.standard_normal(N)])
    with dask.config.set(scheduler=scheduler):
        for y in (Y, several):
            expected = screen(X, y, PLAN, **OPTIONS)
            same(screen(x, y, PLAN, **OPTIONS), expected)
            same(screen(x, da.from_array(y, 450), PLAN, **OPTIONS), expected)


def test_rows_without_a_response():
    y, plan = np.where(rng.random(N) < 0.2, np.nan, Y), Plan.exact(N, P, 5)
    same(screen(lazy(X), lazy(y, 450), plan, missing="pairwise"), screen(X, y, plan, missing="pairwise"))
    with pytest.raises(ValueError, match="response contains NaN"):
        screen(lazy(X), lazy(y, 450), plan)


@pytest.mark.parametrize("missing", ["raise", "pairwise"])
def test_sparse_blocks(missing):
    # Not so sparse that features are undecided: sparse columns are not shifted, so the sums of fourth powers
    # differ a little from those of dense ones, and with them who is undecided.
    gap, offset, tolerance = (0.0, 0, 1e-10) if missing == "raise" else (np.nan, 1e9, 1e-6)
    dense, options = np.where(rng.random((N, P)) < 0.4, X + offset, gap), {"missing": missing, **OPTIONS}
    x = da.from_array(dense, chunks=(450, 30)).map_blocks(sp.csr_matrix, dtype=float)
    same(screen(x, Y, PLAN, **options), screen(dense, Y, PLAN, **options), tolerance)


def test_a_frame_with_its_names_and_unknown_lengths():
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(P)]).assign(y=Y)
    parts = dd.from_pandas(frame, npartitions=4)
    parts, kept = parts[parts.gene0 > 0], frame[frame.gene0 > 0]  # nobody knows how many rows are left
    selector = SIS(5).fit(parts.drop(columns="y"), parts["y"])
    expected = SIS(5).fit(kept.drop(columns="y"), kept["y"])
    same(selector.result_, expected.result_)
    assert any("lengths" in note for note in selector.result_.notes)
    assert list(selector.transform(parts.drop(columns="y")).columns) == list(expected.get_feature_names_out())
    reversed_columns = parts[frame.columns[-2::-1].tolist()]  # columns are taken by name
    found = selector.transform(reversed_columns).compute()
    np.testing.assert_array_equal(found, expected.transform(kept.drop(columns="y")))
    with pytest.raises(ValueError, match="no column 'gene3', which the selector was fitted on"):
        selector.transform(parts.drop(columns=["y", "gene3"]))


@pytest.fixture(scope="module", params=["parquet", "csv"])
def tables(request, tmp_path_factory):
    """20 files of different lengths as one Dask frame, and the same rows in pandas."""
    folder = tmp_path_factory.mktemp("tables")
    frame = pd.DataFrame(X[:, :12], columns=[f"gene{j}" for j in range(12)]).assign(y=Y)
    for k, (start, stop) in enumerate(pairwise([0, *range(119, N, 99), N])):
        path, part = folder / f"part{k:02}.{request.param}", frame[start:stop]
        part.to_parquet(path) if request.param == "parquet" else part.to_csv(path, index=False)
    read = dd.read_parquet if request.param == "parquet" else dd.read_csv
    return read(str(folder / f"*.{request.param}")), frame


@pytest.mark.parametrize("n_columns", [11, 4, 2])
def test_frames_of_many_files(tables, n_columns):
    """Dask reads several Parquet files in one task if few of their columns are used."""
    parts, frame = tables
    features = [f"gene{j}" for j in range(1, 1 + n_columns)]
    expected = SIS(2).fit(frame[features], frame["y"])
    for data, y in ((parts[features], parts["y"]), (parts.persist()[features].persist(), frame["y"])):
        selector = SIS(2).fit(data, y)
        same(selector.result_, expected.result_)
        kept = selector.transform(data)
        assert list(kept.columns) == list(expected.get_feature_names_out())
        np.testing.assert_allclose(kept.compute(), expected.transform(frame[features]), rtol=1e-12)


def test_the_response_weights_and_covariates_of_many_files(tables):
    found, expected = (
        SIS(1).fit(
            data[["gene2", "gene3", "gene4"]],
            data[["y", "gene5"]],
            sample_weight=data["gene6"] ** 2,
            covariates=data[["gene7"]],
        )
        for data in tables
    )
    same(found.result_, expected.result_)


def test_the_estimator_accepts_and_returns_dask_arrays():
    blocks = da.from_array(X, chunks=UNEVEN), da.from_array(Y, chunks=450)
    selector = BanditSIS(5, alpha=0.5, random_state=0).fit(*blocks)
    kept = selector.transform(lazy(X))
    assert isinstance(kept, da.Array)
    np.testing.assert_array_equal(kept.compute(), X[:, selector.get_support()])


def test_what_is_in_memory_is_read_by_row_and_what_is_not_by_block():
    assert DaskSource(da.from_array(X, chunks=UNEVEN)).block_rows == 1
    assert DaskSource(lazy(X).persist()).block_rows == 1
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=3) + 0
    assert DaskSource(frame).block_rows > 1
    assert DaskSource(frame.persist()).block_rows == 1
    source = DaskSource(lazy(X))
    assert source.block_rows == 500
    np.testing.assert_array_equal(source.block_edges(), [0, 300, 301, 1000, 1500, 2000])
    rows, columns = np.array([0, 299, 300, 301, 1999]), np.array([0, 24, 25, 59])
    np.testing.assert_array_equal(source.read(rows, columns), X[np.ix_(rows, columns)])
    np.testing.assert_array_equal(source.read(slice(290, 1010), None), X[290:1010])
    assert source.read(np.arange(0), None).shape == (0, P)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (lazy(X), lazy(Y[:-1], 450), "2,000 rows.* 1,999"),
        (lazy(X)[:, 0], Y, "two dimensions"),
        (da.from_array(X.astype(str), chunks=UNEVEN), Y, "must hold numbers"),
        (lazy(X), da.from_array(Y + 0j, chunks=450), "response must be real"),
        (lazy(X), da.ones(N, chunks=450), "response is constant"),
    ],
)
def test_invalid_data_raise(x, y, message):
    with pytest.raises((TypeError, ValueError), match=message):
        screen(x, y, PLAN)


@pytest.mark.parametrize("cut", [np.s_[:-1], np.s_[:, :-1]], ids=["rows", "columns"])
def test_blocks_of_another_shape_than_their_chunks_raise(cut):
    x = lazy(X).map_blocks(lambda block: block[cut], dtype=float, meta=np.empty((0, 0)))
    for use in (lambda: screen(x, Y, PLAN), lambda: DaskSource(x).calibrate(slice(0, 40))):
        with pytest.raises(RuntimeError, match=r"shape \(\d+, \d+\), but its chunks say \(\d+, \d+\)"):
            use()


def test_progress_counts_every_cell_once(monkeypatch):
    monkeypatch.setattr("banditsis.sources.dask.MAX_WEIGHTS", 500)
    calls = []
    screen(lazy(X, (500, P)), Y, Plan.exact(N, P, 5), progress=lambda *counts: calls.append(counts))
    assert [done for done, _ in calls] == [500 * P * k for k in (1, 2, 3, 4)]
    assert calls[-1][0] == calls[-1][1]


def counted(block, path):
    with open(path, "a") as file:
        file.write("+")
    return block


@pytest.mark.parametrize("response", [Y, lazy(Y, 450)], ids=["array", "Dask array"])
def test_only_blocks_that_a_plan_needs_are_loaded(tmp_path, response):
    path = tmp_path / "loaded"
    x = blockwise(counted, str(path))
    plan = Plan(N, P, ((150, 20), (300, 5)))
    found = screen(x, response, plan, random_state=0)
    assert found.parameters["row_order"] == "blocks"
    assert found.rounds[-1].n_rows == 300
    # all cells of so small an array are checked; then the pilot, 15 of 100 blocks, and one to find ids
    assert len(path.read_text()) - 100 <= 1 + 15 + 1


def test_blocks_with_different_means_give_a_warning():
    order, plan = np.argsort(Y), Plan(N, P, ((200, 20), (400, 5)))
    with pytest.warns(UserWarning, match="random order"):
        screen(lazy(X[order], (20, P)), da.from_array(Y[order], chunks=20), plan, random_state=0)


def test_an_error_carries_the_rounds_before_it(tmp_path):
    def breaks_later(block):
        if (tmp_path / "now").exists():
            raise OSError("the disk is gone")
        return block

    plan = Plan(N, P, ((200, 20), (400, 5)))

    def break_after_first_round(done, total):
        if done >= 200 * P:
            (tmp_path / "now").touch()

    x = blockwise(breaks_later)
    with pytest.raises(RuntimeError, match=r"round 2 .*the disk is gone") as caught:
        screen(x, Y, plan, random_state=0, progress=break_after_first_round)
    assert len(caught.value.partial.selected) == 20


def test_zarr_arrays_of_many_chunks(tmp_path):
    expected = SIS(2).fit(X[:, :12], Y).result_
    da.from_array(np.column_stack([X[:, :12], Y]), chunks=(99, 4)).to_zarr(tmp_path / "x.zarr")
    stored = da.from_zarr(tmp_path / "x.zarr")
    for x in (stored[:, :-1], stored[:, :-1].persist()):
        same(SIS(2).fit(x, stored[:, -1]).result_, expected)


@pytest.mark.skipif(
    parse(dask.__version__) < parse("2026.7"), reason="the client of a dead scheduler is never closed"
)
def test_a_scheduler_that_dies_is_named():
    def close():
        time.sleep(1)
        cluster.sync(cluster.scheduler.close)

    settings = {"distributed.comm.timeouts.connect": "1s", "logging.distributed": "critical"}
    options = {"processes": False, "n_workers": 1, "dashboard_address": ":0", "silence_logs": 50}
    with dask.config.set(settings), LocalCluster(**options) as cluster, Client(cluster, timeout=1):
        x = blockwise(slowly, 0.3)
        threading.Thread(target=close).start()
        with pytest.raises(RuntimeError, match=r"scheduler no longer answers"):
            DaskSource(x).read(slice(0, N), None)


@pytest.fixture(scope="module")
def client():
    settings = {
        "distributed.worker.daemon": True,
        "distributed.scheduler.allowed-failures": 5,
        "distributed.admin.low-level-log-length": 0,
        "logging.distributed": "critical",
    }
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with dask.config.set(settings), LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client


def slowly(block, seconds):
    time.sleep(seconds)
    return block


def test_a_cluster_gives_the_same_sums_to_the_last_bit(client):
    x, y = lazy(X), da.from_array(Y, chunks=450)
    with dask.config.set(scheduler="threads"):
        expected = screen(x, y, PLAN, **OPTIONS)
    for persisted in (x, client.persist(x)):
        same(screen(persisted, y, PLAN, **OPTIONS), expected, 0)


def fails_once(block, path):
    """Fails the first time that anyone asks for it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return block
    raise OSError("a passing fault")


def test_a_task_that_fails_once_is_tried_again(client, tmp_path):
    x = blockwise(fails_once, str(tmp_path / "failed"), chunks=(500, P))
    plan = Plan.exact(N, P, 5)
    same(screen(x, Y, plan), screen(X, Y, plan))
    assert (tmp_path / "failed").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interruption_cancels_what_is_under_way(client):
    x = blockwise(slowly, 0.2, chunks=(50, P))
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        screen(x, Y, Plan.exact(N, P, 5))
    deadline = time.monotonic() + 10
    while any(client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(client.processing().values())


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_worker_killed_in_each_round_changes_nothing(client, monkeypatch):
    monkeypatch.setattr("banditsis.sources.dask.MAX_WEIGHTS", 1)  # a graph for each block
    x = client.persist(blockwise(slowly, 0.02, chunks=(500, P)))
    plan = Plan(N, P, ((400, 20), (900, 10), (1500, 5)))
    killed, calls = [], []

    def on_progress(done, total):
        calls.append(done)
        if len(calls) in (1, 5, 9):  # the first block of each round
            killed.append(max(worker.pid for worker in client.cluster.workers.values() if worker.pid))
            os.kill(killed[-1], signal.SIGKILL)

    same(screen(x, Y, plan, progress=on_progress, **OPTIONS), screen(X, Y, plan, **OPTIONS))
    assert len(killed) == len(plan.steps)


COMPILE = """
import numpy as np
from banditsis.kernels.cells import gather
tile = np.empty((2, 2))
gather(np.arange(9.0), np.array([0, 3]), np.array([0, 2]), 0, tile)
print(tile.tolist())
"""


def test_many_processes_may_fill_the_cache_of_kernels_at_once(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COMPILE]
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert {process.communicate()[0].strip() for process in started} == {"[[0.0, 2.0], [3.0, 5.0]]"}
    assert any(tmp_path.rglob("*.nbi"))


def test_repeated_column_names_are_reported():
    frame = pd.DataFrame(X[:100, :3], columns=["a", "b", "a"])
    selector = SIS(1).fit(frame.to_numpy(), frame["b"])
    for use in (open_source, lambda data: SIS(1).fit(data, frame["b"]), selector.transform):
        with pytest.raises(ValueError, match="the frame has several columns called 'a'"):
            use(dd.from_pandas(frame, npartitions=2))
