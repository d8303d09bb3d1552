"""Dask collections: the same answers as in memory, small sums, and what happens when things fail."""

import json
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
from click.testing import CliRunner
from distributed import Client, LocalCluster

from banditsis import SIS, BanditSIS, Plan, open_source, screen
from banditsis.cli.app import app
from banditsis.sources.dask import DaskSource, FileOnWorkers, connected

rng = np.random.default_rng(0)
N, P = 2000, 60
X = rng.standard_normal((N, P)) + 3
Y = X[:, 3] - X[:, 40] + rng.standard_normal(N)
LABELS = np.where(Y > 1, "high", np.where(Y < -1, "low", "middle"))
PLAN = Plan.paper(N, P, 5)
UNEVEN = ((300, 1, 699, 500, 500), (25, 35))


@pytest.fixture(params=["threads", "sync"])
def local(request):
    with dask.config.set(scheduler=request.param):
        yield


def lazy(x, chunks=UNEVEN):
    return da.from_array(x, chunks=chunks) + 0


@pytest.mark.parametrize("x", [da.from_array(X, chunks=UNEVEN), lazy(X)], ids=["persisted", "lazy"])
def test_the_same_selection_as_in_memory(local, x):
    expected = screen(X, Y, PLAN, random_state=1)
    for response in (Y, lazy(Y, 450)):
        found = screen(x, response, PLAN, random_state=1, row_order="random")
        np.testing.assert_array_equal(found.selected, expected.selected)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12)


@pytest.mark.parametrize(("statistic", "y"), [("anova", LABELS), ("pearson", Y)])
@pytest.mark.parametrize("missing", ["raise", "pairwise"])
def test_statistics_and_missing_values(statistic, y, missing):
    x = np.where(rng.random(X.shape) < 0.1, np.nan, X) if missing == "pairwise" else X
    options = {"statistic": statistic, "missing": missing, "row_order": "random", "random_state": 0}
    expected = screen(x, y, PLAN, **options)
    found = screen(lazy(x), da.from_array(y, 450), PLAN, **options)
    np.testing.assert_array_equal(found.selected, expected.selected)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12)


def test_rows_without_a_response_and_several_responses():
    y = np.where(rng.random(N) < 0.2, np.nan, Y)
    plan = Plan.exact(N, P, 5)
    expected = screen(X, y, plan, missing="pairwise")
    found = screen(lazy(X), lazy(y, 450), plan, missing="pairwise")
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12)
    with pytest.raises(ValueError, match="response contains NaN"):
        screen(lazy(X), lazy(y, 450), plan)
    several = np.column_stack([Y, X[:, 7] + Y, rng.standard_normal(N)])
    options = {"random_state": 0, "row_order": "random"}
    found = screen(lazy(X), lazy(several, (450, 2)), PLAN, **options)
    for a, b in zip(found, screen(X, several, PLAN, **options), strict=True):
        np.testing.assert_array_equal(a.selected, b.selected)


@pytest.mark.parametrize("missing", ["raise", "pairwise"])
def test_sparse_blocks(missing):
    # Not so sparse that features are undecided: sparse columns are not shifted, so the sums of fourth powers
    # differ a little from those of dense ones, and with them who is undecided.
    gap, offset, tolerance = (0.0, 0, 1e-10) if missing == "raise" else (np.nan, 1e9, 1e-6)
    dense = np.where(rng.random((N, P)) < 0.4, X + offset, gap)
    x = da.from_array(dense, chunks=(450, 30)).map_blocks(sp.csr_matrix, dtype=float)
    expected = screen(dense, Y, PLAN, random_state=0, missing=missing)
    found = screen(x, Y, PLAN, random_state=0, row_order="random", missing=missing)
    np.testing.assert_array_equal(found.selected, expected.selected)
    np.testing.assert_allclose(found.scores, expected.scores, atol=tolerance)


def test_a_frame_with_its_names_and_unknown_lengths():
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(P)])
    frame["y"] = Y
    parts = dd.from_pandas(frame, npartitions=4)
    parts = parts[parts.gene0 > 0]  # so that nobody knows how many rows are left
    selector = SIS(5).fit(parts.drop(columns="y"), parts["y"])
    kept = frame[frame.gene0 > 0]
    expected = SIS(5).fit(kept.drop(columns="y"), kept["y"])
    np.testing.assert_array_equal(selector.get_support(), expected.get_support())
    assert selector.result_.name(3) == "gene3"
    assert any("lengths" in note for note in selector.result_.notes)
    assert list(selector.transform(parts.drop(columns="y")).columns) == list(expected.get_feature_names_out())
    wanted = expected.transform(kept.drop(columns="y"))
    reversed_columns = parts[frame.columns[-2::-1].tolist()]  # columns are taken by name
    np.testing.assert_array_equal(selector.transform(reversed_columns).compute(), wanted)
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
    assert parts.npartitions == 20
    features = [f"gene{j}" for j in range(1, 1 + n_columns)]
    expected = SIS(2).fit(frame[features], frame["y"])
    for X_, y in ((parts[features], parts["y"]), (parts.persist()[features].persist(), frame["y"])):
        selector = SIS(2).fit(X_, y)
        np.testing.assert_allclose(selector.result_.scores, expected.result_.scores, atol=1e-12)
        kept = selector.transform(X_)
        assert list(kept.columns) == list(expected.get_feature_names_out())
        np.testing.assert_allclose(kept.compute(), expected.transform(frame[features]), rtol=1e-12)
    drawn = BanditSIS(1, budget=0.5, random_state=0).fit(parts[features], parts["y"])
    assert n_columns == 2 or drawn.get_feature_names_out() == ["gene3"]


def test_the_response_weights_and_covariates_of_many_files(tables):
    parts, frame = tables
    features = ["gene2", "gene3", "gene4"]

    def fit(data):
        return SIS(1).fit(
            data[features], data[["y", "gene5"]], sample_weight=data["gene6"] ** 2, covariates=data[["gene7"]]
        )

    for one, other in zip(fit(parts).result_, fit(frame).result_, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-12)


def test_partitions_that_dask_lost_are_reported(tables):
    """persist() of few columns of many Parquet files makes a frame that Dask itself cannot compute."""
    few = tables[0][["gene2", "gene3"]].persist()
    if set(few.__dask_keys__()) <= set(few.__dask_graph__()):  # CSV, or a Dask without the fault
        assert open_source(few).shape == (N, 2)
    else:
        with pytest.raises(ValueError, match=r"partitions of X are missing.* frame.persist\(\)\[columns\]"):
            open_source(few)


def test_an_array_with_unknown_lengths():
    x = lazy(X)
    some = x[x[:, 0] > 3]
    found = screen(some, lazy(Y, UNEVEN[0])[x[:, 0] > 3], Plan.exact(int((X[:, 0] > 3).sum()), P, 5))
    np.testing.assert_array_equal(found.selected, SIS(5).fit(X[X[:, 0] > 3], Y[X[:, 0] > 3]).result_.selected)


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


def test_progress_counts_every_block_once():
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
    x = da.from_array(X, chunks=(20, P)).map_blocks(counted, str(path), dtype=float, meta=np.empty((0, 0)))
    plan = Plan(N, P, ((150, 20), (300, 5)))
    found = screen(x, response, plan, random_state=0)
    assert found.parameters["row_order"] == "blocks"
    assert found.rounds[-1].n_rows == 300
    # all cells of so small an array are checked; then the pilot, 15 of 100 blocks, and one to find ids
    assert len(path.read_text()) - 100 <= 1 + 15 + 1


@pytest.mark.parametrize(("by", "message"), [(Y, "random order"), (np.abs(Y), "random order.*response")])
def test_blocks_with_different_means_or_spread_give_a_warning(by, message):
    order = np.argsort(by)
    plan = Plan(N, P, ((200, 20), (400, 5)))
    for y in (Y[order], da.from_array(Y[order], chunks=20)):
        with pytest.warns(UserWarning, match=message):
            screen(lazy(X[order], (20, P)), y, plan, random_state=0)


def test_an_error_carries_the_rounds_before_it(tmp_path):
    def breaks_later(block):
        if (tmp_path / "now").exists():
            raise OSError("the disk is gone")
        return block

    x = da.from_array(X, chunks=(20, P)).map_blocks(breaks_later, dtype=float, meta=np.empty((0, 0)))
    plan = Plan(N, P, ((200, 20), (400, 5)))

    def break_after_first_round(done, total):
        if done >= 200 * P:
            (tmp_path / "now").touch()

    with pytest.raises(RuntimeError, match=r"round 2 .*the disk is gone") as caught:
        screen(x, Y, plan, random_state=0, progress=break_after_first_round)
    assert len(caught.value.partial.selected) == 20


def test_weights_of_very_many_rows_go_in_several_graphs(monkeypatch):
    monkeypatch.setattr("banditsis.sources.dask.source.MAX_WEIGHTS", 333)
    found = screen(lazy(X), Y, PLAN, random_state=1, row_order="random")
    np.testing.assert_array_equal(found.selected, screen(X, Y, PLAN, random_state=1).selected)


def test_workers_open_a_file_for_themselves(tmp_path, monkeypatch):
    monkeypatch.setattr("banditsis.sources.dask.source.CELLS_PER_TASK", 300 * P)
    np.save(tmp_path / "x.npy", X)
    source = FileOnWorkers(tmp_path / "x.npy")
    assert len(source.row_edges) > 3
    np.testing.assert_array_equal(source.read(np.array([5, 1700]), np.array([2, 9])), X[[5, 1700]][:, [2, 9]])
    found = screen(source, Y, PLAN, random_state=1, row_order="random")
    expected = screen(X, Y, PLAN, random_state=1)
    np.testing.assert_array_equal(found.selected, expected.selected)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12)


def test_folders_and_zarr_arrays_of_many_chunks(tables, tmp_path):
    parts, frame = tables
    expected = SIS(2).fit(frame.drop(columns="y"), frame["y"]).result_.scores
    parts.to_parquet(tmp_path / "folder", write_index=False)
    source = FileOnWorkers(tmp_path / "folder", target="y")
    found = SIS(2).fit(source, source.y).result_
    np.testing.assert_allclose(found.scores, expected, atol=1e-12)
    da.from_array(frame.to_numpy(), chunks=(99, 4)).to_zarr(tmp_path / "x.zarr")
    stored = da.from_zarr(tmp_path / "x.zarr")
    for x in (stored[:, :-1], stored[:, :-1].persist()):
        found = SIS(2).fit(x, stored[:, -1]).result_
        np.testing.assert_allclose(found.scores, expected, atol=1e-12)


def test_several_targets_of_a_file_are_given_as_a_list(tmp_path):
    pd.DataFrame(X, columns=[f"c{j}" for j in range(P)]).to_parquet(tmp_path / "x.parquet")
    source = FileOnWorkers(tmp_path / "x.parquet", target=["c0", "c1"], drop=["c2", "c3"])
    assert source.shape[1] == P - 4
    found = screen(source, source.y, Plan.exact(*source.shape, 3))
    expected = screen(X[:, 4:], X[:, :2], Plan.exact(*source.shape, 3))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.selected, other.selected)


def test_a_scheduler_that_does_not_answer_is_named():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.2s"}),
        pytest.raises(ConnectionError, match=r"tcp://127.0.0.1:9"),
        connected("tcp://127.0.0.1:9"),
    ):
        pass


@pytest.fixture(scope="module")
def client():
    settings = {
        "distributed.worker.daemon": True,
        "distributed.scheduler.allowed-failures": 5,
        "distributed.admin.low-level-log-length": 0,
        "logging.distributed": "critical",
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def slowly(block, seconds):
    time.sleep(seconds)
    return block


def test_a_cluster_gives_the_same_sums_to_the_last_bit(client):
    x, y = da.from_array(X, chunks=UNEVEN) + 0, da.from_array(Y, chunks=450)
    with dask.config.set(scheduler="threads"):
        expected = screen(x, y, PLAN, random_state=1, row_order="random")
    for persisted in (x, client.persist(x)):
        found = screen(persisted, y, PLAN, random_state=1, row_order="random")
        np.testing.assert_array_equal(found.scores, expected.scores)


def fails_once(block, path):
    """Fails the first time that anyone asks for it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return block
    raise OSError("a passing fault")


def test_a_task_that_fails_once_is_tried_again(client, tmp_path):
    x = da.from_array(X, chunks=(500, P)).map_blocks(
        fails_once, str(tmp_path / "failed"), dtype=float, meta=np.empty((0, 0))
    )
    found = screen(x, Y, Plan.exact(N, P, 5))
    np.testing.assert_array_equal(found.selected, screen(X, Y, Plan.exact(N, P, 5)).selected)
    assert (tmp_path / "failed").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interruption_cancels_what_is_under_way(client):
    x = da.from_array(X, chunks=(50, P)).map_blocks(slowly, 0.2, dtype=float)
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        screen(x, Y, Plan.exact(N, P, 5))
    deadline = time.monotonic() + 10
    while any(client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(client.processing().values())


def test_the_command_screens_on_a_cluster(client, tmp_path):
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(P)]).assign(y=Y)
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=300)
    asked = ["screen", str(tmp_path / "x.parquet"), "--target", "y", "--keep", "5", "--exact", "--json"]
    found = CliRunner().invoke(app, [*asked, "--scheduler", client.scheduler.address])
    assert found.exit_code == 0, found.output
    expected = CliRunner().invoke(app, asked)
    features = [[row["name"] for row in json.loads(run.stdout)["features"]] for run in (found, expected)]
    assert features[0] == features[1]


def test_tasks_have_names_that_say_what_they_do(client):
    found = []

    def on_progress(done, total):
        found.extend(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes)))

    screen(da.from_array(X, chunks=(500, P)), Y, Plan.exact(N, P, 5), progress=on_progress)
    assert "banditsis_round1_sums" in found


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_worker_killed_in_each_round_changes_nothing(client):
    x = client.persist(da.from_array(X, chunks=(500, P)).map_blocks(slowly, 0.02, dtype=float))
    plan = Plan(N, P, ((400, 20), (900, 10), (1500, 5)))
    killed, calls = [], []

    def on_progress(done, total):
        calls.append(done)
        if len(calls) in (1, 5, 9):  # the first block of each round
            pid = max(worker.pid for worker in client.cluster.workers.values() if worker.pid)
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    found = screen(x, Y, plan, random_state=1, row_order="random", progress=on_progress)
    np.testing.assert_array_equal(found.selected, screen(X, Y, plan, random_state=1).selected)
    assert len(killed) == plan.n_steps


COMPILE = """
import numpy as np
from banditsis.kernels.gather import gather
tile = np.empty((2, 2))
gather(np.arange(9.0), np.array([0, 3]), np.array([0, 2]), 0, tile)
print(tile.tolist())
"""


def test_many_processes_may_fill_the_cache_of_kernels_at_once(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", COMPILE], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert {process.communicate()[0].strip() for process in started} == {"[[0.0, 2.0], [3.0, 5.0]]"}
    assert any(tmp_path.rglob("*.nbi"))


def test_repeated_column_names_are_reported():
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((100, 3)), columns=["a", "b", "a"])
    lazy = dd.from_pandas(frame, npartitions=2)
    selector = SIS(1).fit(frame.to_numpy(), frame["b"])
    for use in (open_source, lambda data: SIS(1).fit(data, frame["b"]), selector.transform):
        with pytest.raises(ValueError, match="the frame has several columns called 'a'"):
            use(lazy)
