"""Shuffled stores: every cell where it belongs, whatever the layout, the source and the interruptions."""

import itertools
import json
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import zarr

from banditsis import Plan, open_data, open_source, screen
from banditsis.formats.registry import open_file
from banditsis.index.layout import make_layout
from banditsis.index.metadata import find_compressor, read_record, read_vector, verify, write_vector
from banditsis.index.reader import ShuffledSource
from banditsis.index.writer import shuffle
from banditsis.sources.views import RowSubset

rng = np.random.default_rng(0)
LEAST = 1 << 24  # the smallest memory limit: several buckets even for small data


def normal(n, p, dtype="f4"):
    return rng.standard_normal((n, p)).astype(dtype)


DATA = {
    "few cells": lambda: normal(10, 2, "f8"),
    "buckets": lambda: normal(30_000, 301),
    "panels of columns": lambda: np.asfortranarray(normal(20_000, 301)),
    "wide": lambda: normal(150, 40_000, "f8"),
    "compressed": lambda: rng.integers(0, 3, (5000, 2000)).astype("i1"),
    "compressed floats": lambda: np.where(
        rng.random((3000, 70)) < 0.1, np.nan, rng.integers(0, 3, (3000, 70))
    ),
    "flags": lambda: rng.random((999, 40)) < 0.3,
    "byte-swapped": lambda: normal(500, 7, ">f8"),
}


@pytest.fixture(scope="module", params=DATA)
def stored(request, tmp_path_factory):
    """An array, and the store that it was shuffled into."""
    X = DATA[request.param]()
    path = shuffle(X, tmp_path_factory.mktemp("store") / "x.zarr", random_state=3, memory_limit=LEAST)
    return X, ShuffledSource(path)


def test_every_row_is_there_once_and_in_its_place(stored):
    X, source = stored
    np.testing.assert_array_equal(np.sort(source.original_rows), np.arange(len(X)))
    np.testing.assert_array_equal(source.read(slice(0, len(X)), None), X[source.original_rows])
    assert source.row_number(2) == source.original_rows[2]
    assert not list(source.path.parent.glob("*.partial"))


def test_blocks_are_those_of_the_array(stored):
    X, source = stored
    shuffled, (n, p) = X[source.original_rows], X.shape
    for _ in range(12):
        low, high = np.sort(rng.integers(0, n + 1, 2))
        columns = np.sort(rng.choice(p, rng.integers(1, min(p, 500) + 1), replace=False))
        np.testing.assert_array_equal(source.read(slice(low, high), columns), shuffled[low:high][:, columns])
        rows = np.sort(rng.choice(n, min(n, 40), replace=False))
        np.testing.assert_array_equal(source.read(rows, columns), shuffled[rows][:, columns])


def test_zarr_reads_the_store_too(stored):
    X, source = stored
    group = zarr.open_group(str(source.path), mode="r")
    shuffled = X[source.original_rows]
    for k, segment in enumerate(source.segments):
        np.testing.assert_array_equal(group[f"rows_{k}"][:], shuffled[segment.start : segment.stop])
    np.testing.assert_array_equal(group["original_rows"][:], source.original_rows)
    assert verify(source.path, source.record) == []


def test_the_order_is_uniform_and_comes_from_the_seed(tmp_path):
    X = np.arange(1000.0).reshape(-1, 1)
    orders = [shuffle(X, tmp_path / f"{k}.zarr", random_state=k) for k in (0, 1)]
    again = shuffle(X, tmp_path / "again.zarr", random_state=1)
    first, second, third = (
        ShuffledSource(path).read(slice(0, 1000), None)[:, 0] for path in (*orders, again)
    )
    assert (second == third).all()
    assert np.mean(first == second) < 0.02
    assert abs(np.corrcoef(first, np.arange(1000))[0, 1]) < 0.1


def test_names_target_and_ids_travel_with_the_rows(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(normal(200, 3, "f8"), columns=["a", "b c", "größe"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    path = shuffle(tmp_path / "x.csv", tmp_path / "x.zarr", target="größe", random_state=0)
    source, y, *_ = open_data(path, target="größe")
    assert list(source.names) == ["a", "b c"]
    np.testing.assert_allclose(y, frame["größe"].to_numpy()[source.original_rows])
    np.testing.assert_allclose(
        source.read(slice(0, 200), None), frame[["a", "b c"]].to_numpy()[source.original_rows]
    )
    record = read_record(path)
    assert (record.target, record.seed, record.source) == ("größe", 0, "x.csv")
    with pytest.raises(ValueError, match="no column 'grosse'"):
        open_file(path, ["grosse"])


def test_screening_a_store_reads_its_first_rows(tmp_path):
    X = normal(20_000, 200)
    y = X[:, 5] - X[:, 11] + rng.standard_normal(20_000)
    source = ShuffledSource(shuffle(X, tmp_path / "x.zarr", random_state=0))
    plan = Plan.paper(20_000, 200, 10).round_to_blocks(source.block_rows)
    expected = screen(X[source.original_rows], y[source.original_rows], plan, row_order="stored")
    result = screen(source, y[source.original_rows], plan, row_order="stored")
    np.testing.assert_array_equal(result.selected, expected.selected)
    np.testing.assert_allclose(result.scores, expected.scores, atol=1e-6)
    one = screen(source, y[source.original_rows], plan, row_order="stored", n_jobs=1)
    np.testing.assert_array_equal(result.scores, one.scores)
    exact = Plan.exact(20_000, 200, 10)
    np.testing.assert_allclose(
        screen(source, y[source.original_rows], exact).scores, screen(X, y, exact).scores, atol=1e-6
    )
    assert set(result.selected[:2]) == {5, 11}


@pytest.mark.parametrize("with_target", [False, True])
def test_outliers_of_another_response_are_read_from_a_store(tmp_path, with_target):
    """Three rows carry the correlation of the first feature, 0.2; they are at the end of the store."""
    X, y = normal(20_000, 20), rng.standard_normal(20_000)
    np.save(tmp_path / "y.npy", rng.standard_normal(20_000))
    target = {"target": str(tmp_path / "y.npy")} if with_target else {}
    source = ShuffledSource(shuffle(X, tmp_path / "x.zarr", random_state=0, **target))
    rows = source.original_rows[-3:]
    y[rows], X[rows, 0] = 60.0, 25.0
    source = ShuffledSource(shuffle(X, tmp_path / "again.zarr", random_state=0, **target))
    plan = Plan.guaranteed(20_000, 20, None, 0.15)
    result = screen(source, y[source.original_rows], plan, random_state=0)
    assert result.selected.tolist() == [0]
    assert result.parameters["row_order"] == "stored"


@pytest.mark.parametrize(
    ("n", "p", "itemsize"), [(10**6, 5000, 4), (2000, 10**6, 4), (10**9, 300, 1), (3, 2, 8)]
)
def test_layouts_cover_every_row_once(n, p, itemsize):
    segments = make_layout([n], p, itemsize)
    assert segments[0].start == 0
    assert segments[-1].stop == n
    for before, after in itertools.pairwise(segments):
        assert before.stop == after.start
    for s in segments:
        assert (s.stop - s.start) % s.chunk[0] == 0  # nothing is padded
        assert s.shard[0] % s.chunk[0] == s.shard[1] % s.chunk[1] == 0
        assert s.shard[0] * min(s.shard[1], p) * itemsize <= 1 << 27


def test_only_what_shrinks_is_compressed():
    assert find_compressor(normal(4096, 8)) is None
    assert find_compressor(rng.integers(0, 3, (4096, 8)).astype("f4")) is not None


def test_nothing_is_replaced_without_force(tmp_path):
    path = shuffle(normal(50, 3), tmp_path / "x.zarr", random_state=0)
    with pytest.raises(FileExistsError, match="--force"):
        shuffle(normal(50, 3), path)
    other = normal(60, 3)
    shuffle(other, path, random_state=1, force=True)
    assert ShuffledSource(path).shape == (60, 3)
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years")
    with pytest.raises(FileExistsError, match="not a Zarr store"):
        shuffle(other, folder, force=True)
    assert (folder / "thesis.txt").exists()


class TornError(Exception):
    pass


def test_a_progress_bar_and_a_random_state(tmp_path, capsys):
    shuffle(normal(50, 3), tmp_path / "x.zarr", random_state=np.random.default_rng(0), progress=True)
    assert "shuffling" in capsys.readouterr().err
    with pytest.raises(TypeError, match="random_state must be an integer"):
        shuffle(normal(50, 3), tmp_path / "y.zarr", random_state="x")


def stop_after(moved):
    def tell(done, total):
        if done >= moved * total:
            raise TornError

    return tell


@pytest.mark.parametrize("share", [0.01, 0.4, 0.6, 0.95])
@pytest.mark.parametrize("name", ["buckets", "panels of columns"])
def test_an_interrupted_shuffle_goes_on(tmp_path, name, share):
    X, path = DATA[name](), tmp_path / "x.zarr"
    with pytest.raises(TornError):
        shuffle(X, path, random_state=5, memory_limit=LEAST, progress=stop_after(share))
    assert not path.exists()
    told = []
    shuffle(X, path, memory_limit=LEAST, progress=lambda done, total: told.append(done / total))
    assert told[-1] == 1
    source = ShuffledSource(path)
    assert source.record.seed == 5  # that of the run that was interrupted
    np.testing.assert_array_equal(source.read(slice(0, len(X)), None), X[source.original_rows])


def test_another_shuffle_does_not_mix_with_an_unfinished_one(tmp_path):
    X, path = DATA["buckets"](), tmp_path / "x.zarr"
    with pytest.raises(TornError):
        shuffle(X, path, random_state=5, memory_limit=LEAST, progress=stop_after(0.3))
    for other, seed in ((X, 6), (X + 1, 5)):
        with pytest.raises(ValueError, match=r"unfinished shuffle of ndarray .*seed 5.*--force"):
            shuffle(other, path, random_state=seed)
    shuffle(X[:100], path, random_state=6, force=True)
    assert ShuffledSource(path).shape == (100, 301)


def test_damage_is_found(tmp_path):
    path = shuffle(normal(3000, 20), tmp_path / "x.zarr", random_state=0)
    shard = path / "rows_1" / "c" / "0" / "0"
    content = shard.read_bytes()
    shard.write_bytes(content[:100] + b"\x00\x01" + content[102:])
    source = ShuffledSource(path)  # the size is right
    assert verify(path, source.record) == ["rows_1/c/0/0"]
    shard.write_bytes(content[:-8])
    with pytest.raises(ValueError, match=r"damaged: .*rows_1/c/0/0 has .* bytes instead of"):
        ShuffledSource(path)
    shard.unlink()
    with pytest.raises(ValueError, match="is missing"):
        open_source(path)
    meta = json.loads((path / "zarr.json").read_text())
    meta["attributes"]["banditsis_shuffled"].pop("segments")
    (path / "zarr.json").write_text(json.dumps(meta))
    with pytest.raises(ValueError, match="not a valid shuffled store"):
        open_source(path)


def test_strings_and_numbers_come_back(tmp_path):
    labels = np.array(["ja", "nein", "größer"] * 10)
    name, written = write_vector(tmp_path, "labels", labels, "row")
    assert name == "labels/c/0"
    np.testing.assert_array_equal(read_vector(tmp_path, "labels", {name: written}, 30), labels)


def command(folder):
    options = ["--seed", "1", "--memory-limit", "17MB", "--quiet"]
    return [
        sys.executable,
        "-m",
        "banditsis.cli.app",
        "shuffle",
        f"{folder}/x.npy",
        f"{folder}/x.zarr",
        *options,
    ]


def test_killed_at_random_moments(tmp_path):
    """Kill -9 a real process, start it again, until it gets through."""
    X = normal(20_000, 301)
    np.save(tmp_path / "x.npy", X)
    started = time.perf_counter()
    subprocess.run(command(tmp_path), check=True)
    seconds = time.perf_counter() - started
    shutil.rmtree(tmp_path / "x.zarr")
    moments = random.Random(0)
    for _ in range(2):
        process = subprocess.Popen(command(tmp_path), stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.4, 0.95) * seconds)
        process.kill()
        process.wait()
    again = subprocess.run(command(tmp_path), check=False, capture_output=True, text=True)
    assert again.returncode == 0 or "exists" in again.stderr  # one that was killed had just finished
    source = ShuffledSource(tmp_path / "x.zarr")
    np.testing.assert_array_equal(source.read(slice(0, len(X)), None), X[source.original_rows])
    assert verify(source.path, source.record) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_says_how_to_go_on(tmp_path):
    X = normal(20_000, 301)
    np.save(tmp_path / "x.npy", X)
    process = subprocess.Popen(command(tmp_path), stderr=subprocess.PIPE, text=True)
    journal = tmp_path / "x.zarr.partial" / "journal.jsonl"
    while process.poll() is None and not (journal.exists() and "scattered" in journal.read_text()):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "same command again" in " ".join(said.split())
    assert "Traceback" not in said
    assert not (tmp_path / "x.zarr").exists()
    assert subprocess.run(command(tmp_path), check=False).returncode == 0
    assert ShuffledSource(tmp_path / "x.zarr").shape == X.shape


def test_a_store_that_is_shuffled_again(tmp_path):
    """Target, ids and the name of the first file go on, and so does the order of its rows."""
    import pandas as pd

    frame = pd.DataFrame(normal(300, 3, "f8"), columns=list("abc"), index=[f"s{k}" for k in range(300)])
    frame["y"] = np.arange(300.0)
    frame.to_parquet(tmp_path / "x.parquet")
    once = shuffle(tmp_path / "x.parquet", tmp_path / "once.zarr", target="y", random_state=1)
    twice = shuffle(once, tmp_path / "twice.zarr", random_state=2)
    record, opened = read_record(twice), open_file(twice, ["y"])
    source = opened.source
    assert (record.target, record.source, record.n_original) == ("y", "x.parquet", 300)
    assert not (source.original_rows == ShuffledSource(once).original_rows).all()
    np.testing.assert_array_equal(opened.values[0], source.original_rows)
    assert list(opened.ids) == [f"s{k}" for k in source.original_rows]
    expected = frame[list("abc")].to_numpy()[source.original_rows]
    np.testing.assert_array_equal(source.read(slice(0, 300), None), expected)
    other = pd.DataFrame({"id": frame.index, "z": np.arange(300.0)}).sample(frac=1, random_state=0)
    other.to_csv(tmp_path / "z.csv", index=False)
    _, z, *_ = open_data(twice, target=f"{tmp_path / 'z.csv'}:z")
    np.testing.assert_array_equal(z, opened.values[0])


def test_an_outside_target_of_a_store_that_was_shuffled_again(tmp_path):
    X = normal(400, 5, "f8")
    y = np.where(np.arange(400) % 7, X[:, 2], np.nan)  # in the order of the first file
    np.save(tmp_path / "y.npy", y)
    once = shuffle(X, tmp_path / "once.zarr", target=str(tmp_path / "y.npy"), random_state=1)
    for k, target in enumerate((None, str(tmp_path / "y.npy"), "x3")):
        twice = shuffle(once, tmp_path / f"twice{k}.zarr", target=target, random_state=2)
        source, again, *_ = open_data(twice, target=str(tmp_path / "y.npy"))
        np.testing.assert_array_equal(again, source.read(slice(0, len(again)), None)[:, 2])
    both = shuffle(tmp_path / "twice0.zarr", tmp_path / "thrice.zarr", random_state=3, memory_limit=LEAST)
    np.testing.assert_array_equal(
        ShuffledSource(both).read(slice(0, 9), None), X[ShuffledSource(both).original_rows[:9]]
    )


@pytest.mark.parametrize("force", [False, True])
def test_a_store_is_never_shuffled_into_its_own_place(tmp_path, monkeypatch, force):
    path = shuffle(normal(50, 2), tmp_path / "x.zarr", random_state=0)
    before = ShuffledSource(path).read(slice(0, 50), None)
    (tmp_path / "link.zarr").symlink_to(path)
    for data in (path, str(path), ShuffledSource(path), tmp_path / "link.zarr", f"{path}:/rows_0"):
        with pytest.raises(ValueError, match=r"x\.zarr contains the data"):
            shuffle(data, tmp_path / "x.zarr", force=force)
    np.testing.assert_array_equal(ShuffledSource(path).read(slice(0, 50), None), before)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"\. is not a name .*data\.zarr"):
        shuffle(path, ".", force=force)


@pytest.mark.parametrize("labels", [["no", "yes", None], ["", "yes", None], ["", "_", None]], ids=str)
def test_missing_labels_of_a_target_stay_missing(tmp_path, labels):
    import pyarrow as pa
    import pyarrow.parquet as pq

    y = np.array(labels, dtype=object)[np.arange(300) % 3]
    columns = {f"x{j}": normal(300, 1, "f8")[:, 0] for j in range(4)}
    pq.write_table(pa.table({**columns, "y": pa.array(y, pa.string())}), tmp_path / "x.parquet")
    path = shuffle(tmp_path / "x.parquet", tmp_path / "x.zarr", target="y", random_state=0)
    np.testing.assert_array_equal(open_file(path, ["y"]).values[0], y[ShuffledSource(path).original_rows])
    source, kept, *_ = open_data(path, target="y")
    assert source.shape == (200, 4)
    assert set(kept) == set(labels[:2])
    again = shuffle(path, tmp_path / "again.zarr", random_state=1)
    assert sum(value is None for value in open_file(again, ["y"]).values[0]) == 100


def test_labels_of_bytes_are_text(tmp_path):
    name, written = write_vector(tmp_path, "labels", np.array([b"ja", b"nein"]), "row")
    assert read_vector(tmp_path, "labels", {name: written}, 2).tolist() == ["ja", "nein"]


def test_a_target_that_is_neither_number_nor_text_is_not_stored(tmp_path):
    np.save(tmp_path / "y.npy", np.arange(50).astype("datetime64[D]"))
    with pytest.raises(ValueError, match="datetime64"):
        shuffle(normal(50, 2), tmp_path / "x.zarr", target=str(tmp_path / "y.npy"))


def interrupt(*arguments, **options):
    with pytest.raises(TornError):
        shuffle(*arguments, memory_limit=LEAST, progress=stop_after(0.3), **options)


def test_a_corrected_target_is_not_mixed_with_an_unfinished_shuffle(tmp_path):
    X, path, target = normal(3000, 301), tmp_path / "x.zarr", tmp_path / "y.npy"
    np.save(tmp_path / "x.npy", X)
    np.save(target, np.zeros(3000))
    interrupt(tmp_path / "x.npy", path, target=str(target), random_state=1)
    y = np.zeros(3000)
    y[17] = 1
    np.save(target, y)
    with pytest.raises(ValueError, match=r"unfinished shuffle .* with other data or settings"):
        shuffle(tmp_path / "x.npy", path, target=str(target), random_state=1, memory_limit=LEAST)
    shuffle(tmp_path / "x.npy", path, target=str(target), random_state=1, memory_limit=LEAST, force=True)
    source = ShuffledSource(path)
    np.testing.assert_array_equal(source.read_vector("target"), y[source.original_rows])


@pytest.mark.filterwarnings("ignore:The data type")  # text in Zarr v3
@pytest.mark.parametrize("change", ["names", "ids", "cells"])
def test_corrected_data_are_not_mixed_with_an_unfinished_shuffle(tmp_path, change):
    group = zarr.open_group(str(tmp_path / "data.zarr"), mode="w")
    X = group.create_array("X", data=normal(3000, 301), chunks=(500, 100), compressors=None)
    group.create_array("names", data=np.array([f"f{j}" for j in range(301)]))
    group.create_array("ids", data=np.array([f"s{j}" for j in range(3000)]))
    interrupt(tmp_path / "data.zarr", tmp_path / "x.zarr", random_state=1)
    if change == "cells":
        X[1234, 200] = 5  # a row and a column that no sample of cells contains
    else:
        group[change][3] = "other"
    with pytest.raises(ValueError, match=r"unfinished shuffle .* with other data or settings"):
        shuffle(tmp_path / "data.zarr", tmp_path / "x.zarr", random_state=1, memory_limit=LEAST)


def test_a_store_that_was_just_finished_is_not_taken_for_that_of_a_corrected_target(tmp_path):
    X, path, target = normal(500, 3), tmp_path / "x.zarr", tmp_path / "y.npy"
    np.save(target, np.zeros(500))

    def run():
        return shuffle(X, path, target=str(target), random_state=1)

    partial = tmp_path / "x.zarr.partial"
    interrupted = shuffle(X, tmp_path / "other.zarr", target=str(target), random_state=1)
    with pytest.raises(TornError):
        shuffle(X, path, target=str(target), random_state=1, progress=stop_after(0))
    shutil.rmtree(partial / "store")
    with open(partial / "journal.jsonl", "a") as journal:  # killed between the last two steps
        journal.write('{"what": "whole"}\n')
    interrupted.rename(path)
    kept = partial.with_name("kept")
    shutil.copytree(partial, kept)
    assert run() == path
    assert not partial.exists()
    kept.rename(partial)
    np.save(target, np.ones(500))
    with pytest.raises(FileExistsError):
        run()


def test_a_dataset_within_a_file_is_shuffled(tmp_path):
    import h5py

    X = normal(300, 5)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["counts/raw"] = X
        file["counts/other"] = X
    source = ShuffledSource(shuffle(f"{tmp_path}/x.h5:/counts/raw", tmp_path / "x.zarr", random_state=0))
    np.testing.assert_array_equal(source.read(slice(0, 300), None), X[source.original_rows])


def contents(path):
    """Everything that a screening run can take from a store."""
    opened = open_file(path, ["y"])
    source = opened.source
    everything = opened.values[0], opened.ids, source.names, source.original_rows, source.shape
    return repr([np.asarray(part).tolist() for part in everything]), source.read(
        slice(0, source.shape[0]), None
    )


def write_small_store(folder, cells):
    import pandas as pd

    frame = pd.DataFrame(cells, columns=[f"x{j}" for j in range(cells.shape[1])])
    frame.index = [f"s{k}" for k in range(len(cells))]
    frame["y"] = np.arange(len(cells)) % 7
    frame.to_parquet(folder / "x.parquet")
    return shuffle(folder / "x.parquet", folder / "x.zarr", target="y", random_state=1)


@pytest.mark.parametrize("early", [False, True], ids=["now", "without a checksum of the record"])
def test_every_changed_digit_of_the_metadata_is_noticed(tmp_path, early):
    path = write_small_store(tmp_path, normal(600, 5))
    if early:
        meta = json.loads((path / "zarr.json").read_text())
        fields = meta["attributes"]["banditsis_shuffled"]
        del fields["record_checksum"]
        (path / "zarr.json").write_text(json.dumps(meta))
    expected, cells = contents(path)
    unnoticed = []
    for file in [path / "zarr.json"] if early else sorted(path.rglob("zarr.json")):
        text = file.read_text()
        for k in [k for k, letter in enumerate(text) if letter.isdigit()]:
            file.write_text(text[:k] + str((int(text[k]) + 1) % 10) + text[k + 1 :])
            try:
                found, found_cells = contents(path)
            except ValueError as error:
                assert "store" in str(error) or "modified" in str(error) or "version" in str(error)  # noqa: PT017
            else:
                if found != expected or not np.array_equal(found_cells, cells):
                    unnoticed.append((file.parent.name, text[max(0, k - 60) : k + 20]))
        file.write_text(text)
    assert unnoticed == []


@pytest.mark.parametrize("name", ["target", "names", "ids", "original_rows"])
def test_a_changed_vector_is_noticed_when_it_is_read(tmp_path, name):
    path = write_small_store(tmp_path, normal(300, 5))
    file = path / name / "c" / "0"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=rf"damaged: the checksum of .*{name}/c/0 is wrong"):
        contents(path)


@pytest.mark.parametrize("dtype", ["O", "object", "complex64", "V8", "datetime64[ns]", "f4,f4", "U4"])
def test_only_numbers_are_cells_of_a_store(tmp_path, dtype):
    path = shuffle(normal(300, 5), tmp_path / "x.zarr", random_state=0)
    meta = json.loads((path / "zarr.json").read_text())
    fields = meta["attributes"]["banditsis_shuffled"]
    fields.pop("record_checksum", None)
    fields["dtype"] = dtype
    (path / "zarr.json").write_text(json.dumps(meta))
    with pytest.raises(ValueError, match="not a valid shuffled store"):
        open_source(path)


def test_damage_of_compressed_cells_is_reported(tmp_path):
    path = shuffle(rng.integers(0, 3, (600, 40)).astype("i1"), tmp_path / "x.zarr", random_state=0)
    source, places = ShuffledSource(path), np.random.default_rng(1)
    shard = path / "rows_1" / "c" / "0" / "0"
    content = shard.read_bytes()
    index = len(content) - 16 * 3
    for k in [*range(16), *places.integers(0, len(content), 100), *range(index, len(content))]:
        for value in (0, 255, content[k] ^ 64):
            shard.write_bytes(content[:k] + bytes([value]) + content[k + 1 :])
            try:
                ShuffledSource(path).read(slice(0, 600), None)
            except ValueError as error:
                assert f"{shard} is damaged" in str(error)  # noqa: PT017
    assert source.record.compressor is not None


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_too_few_file_descriptors(tmp_path):
    """A store of many shards is read with a few open files, and the message says what to do without any."""
    path = shuffle(normal(3000, 301), tmp_path / "x.zarr", random_state=0, memory_limit=LEAST)
    code = """if True:
        import resource, sys
        from banditsis.index.reader import ShuffledSource
        source = ShuffledSource(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), 99))
        try:
            print(source.read(slice(0, 3000), None).shape)
        except OSError as error:
            print(error)
    """
    done = [
        subprocess.run(
            [sys.executable, "-c", code, path, n], check=True, capture_output=True, text=True
        ).stdout
        for n in ("16", "3")
    ]
    assert done[0] == "(3000, 301)\n"
    assert "too many open files" in done[1]
    assert "ulimit -n" in done[1]


def test_rows_of_a_part_of_an_array_count_from_its_first(tmp_path):
    X = normal(100, 3)
    np.save(tmp_path / "y.npy", np.arange(50.0))
    part = RowSubset(open_source(X), np.arange(50, 100))
    path = shuffle(part, tmp_path / "x.zarr", target=str(tmp_path / "y.npy"), random_state=0)
    source = open_source(path)
    assert sorted(source.original_rows) == list(range(50))
    np.testing.assert_array_equal(source.read(slice(0, 50), None), X[50:][source.original_rows])
