"""Shuffled folders: every cell in its place, whatever the layout, the source and the interruptions."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pytest

from banditsis import Plan, open_data, open_source, screen
from banditsis.index.folder import Folder, verify
from banditsis.index.reader import IndexSource
from banditsis.index.writer import build_index
from banditsis.sources.views import Subset
from files import open_file

rng = np.random.default_rng(0)
LEAST = 1 << 24  # the smallest memory limit: several panels even for small data


def normal(n, p, dtype="f4"):
    return rng.standard_normal((n, p)).astype(dtype)


DATA = {
    "few cells": lambda: normal(10, 2, "f8"),
    "by row": lambda: normal(300_000, 30),  # by way of scratch files
    "by column": lambda: np.asfortranarray(normal(20_000, 301)),
    "wide": lambda: normal(150, 40_000, "f8"),
    "genotypes": lambda: rng.integers(0, 3, (5000, 2000)).astype("i1"),
    "gaps": lambda: np.where(rng.random((3000, 70)) < 0.1, np.nan, rng.integers(0, 3, (3000, 70))),
    "flags": lambda: rng.random((999, 40)) < 0.3,
    "byte-swapped": lambda: normal(500, 7, ">f8"),
}


@pytest.fixture(scope="module", params=DATA)
def stored(request, tmp_path_factory):
    """An array, and the folder that it was shuffled into."""
    X = DATA[request.param]()
    path = build_index(X, tmp_path_factory.mktemp("folder") / "x.index", random_state=3, memory_limit=LEAST)
    return X, IndexSource(path)


def test_every_row_is_there_once_and_in_its_place(stored):
    X, source = stored
    n, p = X.shape
    np.testing.assert_array_equal(np.sort(source.original_rows), np.arange(n))
    shuffled = X[source.original_rows]
    np.testing.assert_array_equal(source.read(slice(0, n), None), shuffled)
    for _ in range(12):
        low, high = np.sort(rng.integers(0, n + 1, 2))
        columns = np.sort(rng.choice(p, rng.integers(1, min(p, 500) + 1), replace=False))
        np.testing.assert_array_equal(source.read(slice(low, high), columns), shuffled[low:high][:, columns])
        rows = np.sort(rng.choice(n, min(n, 40), replace=False))
        np.testing.assert_array_equal(source.read(rows, columns), shuffled[rows][:, columns])
    assert source.row_number(2) == source.original_rows[2]
    assert source.dtype == X.dtype.newbyteorder("=")
    folder = Path(source.parts[0].where)
    np.testing.assert_array_equal(np.load(folder / "columns.npy"), shuffled)
    assert verify(folder) == []
    assert list(folder.parent.iterdir()) == [folder]


def test_a_folder_behind_a_url_is_read_by_ranges(stored, monkeypatch):
    (X, local), files, url = stored, fsspec.filesystem("memory"), "memory://bucket/x.index"
    files.put(local.parts[0].where, "/bucket/x.index", recursive=True)
    source, (n, p), sizes = open_source(url), X.shape, []
    remote = source.parts[0].remote
    read = remote.cat_ranges

    def cat_ranges(paths, starts, ends, **options):
        sizes.extend(np.subtract(ends, starts))
        return read(paths, starts, ends, **options)

    monkeypatch.setattr(remote, "cat_ranges", cat_ranges)
    shuffled = X[source.original_rows]
    few, rows = np.array([0, p - 1]), np.sort(rng.choice(n, 7, replace=False))
    for some, columns in ((slice(2, 9), slice(0, p)), (slice(2, n), few), (rows, slice(0, p))):
        np.testing.assert_array_equal(source.read(some, columns), shuffled[some][:, columns])
    if n > 100_000:
        assert sum(sizes[: p + 2]) <= (2 * n + 7 * p) * X.itemsize
    if not np.isnan(X).any():
        y, plan = rng.standard_normal(n), Plan(n, p, ((n // 2, p), (n, 1)))
        found = screen(source, y, plan, row_order="stored")
        expected = screen(shuffled, y[source.original_rows], plan, row_order="stored")
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
    assert verify(url) == []
    files.rm("/bucket", recursive=True)


def test_the_order_is_uniform_and_comes_from_the_seed(tmp_path):
    X = np.arange(1000.0).reshape(-1, 1)
    paths = [build_index(X, tmp_path / f"{k}.index", random_state=min(k, 1)) for k in range(3)]
    first, second, third = (IndexSource(path).read(slice(0, 1000), None)[:, 0] for path in paths)
    assert (second == third).all()
    assert np.mean(first == second) < 0.02
    assert abs(np.corrcoef(first, np.arange(1000))[0, 1]) < 0.1


def test_names_target_and_ids_travel_with_the_rows(tmp_path):
    frame = pd.DataFrame(normal(200, 3, "f8"), columns=["a", "b c", "größe"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    path = build_index(tmp_path / "x.csv", tmp_path / "x.index", target="größe", random_state=0)
    source, y, *_ = open_data(path, target="größe")
    assert list(source.names) == ["a", "b c"]
    np.testing.assert_allclose(y, frame["größe"])
    expected = frame[["a", "b c"]].to_numpy()[source.original_rows]
    np.testing.assert_allclose(source.read(slice(0, 200), None), expected)
    record = Folder(path).record
    assert (record.target, record.seed, record.source) == ("größe", 0, "x.csv")
    with pytest.raises(ValueError, match="no column 'grosse'"):
        open_file(path, ["grosse"])


def test_outliers_of_a_response_are_read_from_an_index(tmp_path):
    """Three rows carry the correlation of the first feature, 0.2; they are at the end of the index."""
    X, y = normal(20_000, 20), rng.standard_normal(20_000)
    rows = IndexSource(build_index(X, tmp_path / "x.index", random_state=0)).original_rows[-3:]
    y[rows], X[rows, 0] = 60.0, 25.0
    source = IndexSource(build_index(X, tmp_path / "again.index", random_state=0))
    result = screen(source, y, Plan.guaranteed(20_000, 20, None, 0.15), random_state=0)
    assert (result.selected.tolist(), result.parameters["row_order"]) == ([0], "stored")


@pytest.mark.parametrize("kind", ["index", "damaged", "folder", "file", "index with another file", "link"])
def test_only_what_an_earlier_call_wrote_is_replaced_if_that_is_asked_for(tmp_path, kind):
    path, is_ours = tmp_path / "precious", kind in ("index", "damaged")
    if kind == "link":
        path.symlink_to(build_index(normal(50, 3), tmp_path / "x.index"))
    elif kind == "folder":
        path.mkdir()
    elif kind != "file":
        build_index(normal(50, 3), path)
    if kind == "damaged":
        (path / "columns.npy").write_bytes(b"")
    elif not is_ours and kind != "link":
        (path if kind == "file" else path / "thesis.txt").write_text("years")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileExistsError, match="--force"):
        build_index(normal(60, 3), path)
    with nullcontext() if is_ours else pytest.raises(FileExistsError, match="is not replaced"):
        build_index(normal(60, 3), path, force=True)
    assert sorted(tmp_path.rglob("*")) == before
    assert not is_ours or IndexSource(path).shape == (60, 3)


class TornError(Exception):
    pass


@pytest.mark.parametrize("share", [0.01, 0.4, 0.6, 1.0])
@pytest.mark.parametrize("name", ["by row", "by column"])
def test_an_interrupted_shuffle_leaves_nothing(tmp_path, name, share):
    X, shares = DATA[name](), []
    path = build_index(X[:50], tmp_path / "x.index", random_state=0)

    def stop(done, total):
        shares.append(done / total)
        if shares[-1] >= share:
            raise TornError

    with pytest.raises(TornError):
        build_index(X, path, memory_limit=LEAST, progress=stop, force=True)
    assert shares == sorted(shares)
    assert list(tmp_path.iterdir()) == [path]
    assert IndexSource(path).shape == (50, X.shape[1])


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupted_command_leaves_nothing_and_can_be_run_again(tmp_path):
    X, data, path = normal(20_000, 301), tmp_path / "x.npy", tmp_path / "x.index"
    np.save(data, X)
    options = ["--seed", "1", "--memory-limit", "17MB", "--quiet"]
    command = [sys.executable, "-m", "banditsis.cli.app", "index", data, "--out", path, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(tmp_path.glob("x.index.*.partial/scratch/columns.npy")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = " ".join(process.communicate()[1].split())
    assert process.returncode == 130, said
    assert ("same command again" in said, "Traceback" in said) == (True, False)
    assert list(tmp_path.iterdir()) == [data]
    subprocess.run(command, check=True)
    source = IndexSource(path)
    np.testing.assert_array_equal(source.read(slice(0, len(X)), None), X[source.original_rows])


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
import numpy as np
from banditsis import build_index, open_source
from banditsis.index.folder import verify
from banditsis.index.sketch import encode_panel, make_blocks

folder, X = Path(sys.argv[1]), np.random.default_rng(0).standard_normal((3000, 20), dtype=np.float32)
encode_panel(np.ascontiguousarray(X.T), make_blocks(3000), 0, np.empty((48, 20), "u8"), np.empty((10, 20)))

def kill_at(stop, append):
    "Build an index or append to it in a process that is killed at this use of a file; return what it was."
    child = os.fork()
    if not child:
        used = 0
        def count(event, _):
            nonlocal used
            used += event == "open" or event.startswith(("os.", "shutil."))
            if used == stop:
                os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(count)
        build_index(X, folder / "x.index", append=append, random_state=0)
        os._exit(min(used, 255))
    return os.waitpid(child, 0)[1]

for append, written in ((False, folder / "x.index"), (True, folder / "x.index" / "part_1")):
    n_uses = os.waitstatus_to_exitcode(kill_at(0, append))
    assert 20 < n_uses < 255
    shutil.rmtree(written)
    for stop in np.unique(np.linspace(1, n_uses, 20).astype(int)):
        assert kill_at(stop, append) == signal.SIGKILL
        partial = [path for path in folder.iterdir() if path.name != "x.index"]
        assert len(partial) <= 1 and all(path.suffix == ".partial" for path in partial)
        if append or (folder / "x.index").exists():
            n_rows = open_source(folder / "x.index").shape[0]
            assert n_rows in ((3000, 6000) if append else (3000,)) and verify(folder / "x.index") == []
            shutil.rmtree(written, ignore_errors=True)
        for path in partial:
            if (path / "scratch").exists():
                try:
                    open_source(path)
                except ValueError as error:
                    assert "unfinished index: delete it" in str(error)
            shutil.rmtree(path)
    build_index(X, folder / "x.index", append=append, random_state=0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="has no fork")
def test_nothing_half_written_is_valid_whenever_the_process_is_killed(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=True)


@pytest.mark.skipif(sys.platform == "win32", reason="has no limits of file sizes")
@pytest.mark.parametrize("append", [False, True])
def test_a_full_disk_is_one_line_that_names_the_index(tmp_path, append):
    """For every file, the first that is too large: row numbers, cells, and cells of scratch files."""
    np.save(tmp_path / "x.npy", normal(3000, 20))
    path = tmp_path / "x.index"
    if append:
        build_index(tmp_path / "x.npy", path, random_state=0)
    before = sorted(tmp_path.rglob("*"))
    code = """
import resource, sys
from banditsis.cli.app import app
for limit in (600, 25_000, 100_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        app(["index", *sys.argv[1:], "--quiet"], standalone_mode=True)
    except SystemExit as end:
        print("exit", end.code)
"""
    given = [str(tmp_path / "x.npy"), "--append" if append else "--out", str(path)]
    done = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["exit", "1"] * 3
    said = [line.strip() for line in done.stderr.splitlines() if "kernels" not in line]
    assert " ".join(said) == " ".join([f"error: {path}: File too large."] * 3)
    assert sorted(tmp_path.rglob("*")) == before


def test_two_shuffles_at_once_do_not_mix(tmp_path):
    X, path = normal(500, 3), tmp_path / "x.index"
    with pytest.raises(FileExistsError, match="exists"):
        build_index(X, path, progress=lambda *_: path.exists() or build_index(X[:100], path, random_state=2))
    assert IndexSource(path).shape == (100, 3)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("force", [False, True])
def test_a_store_is_never_shuffled_into_its_own_place(tmp_path, monkeypatch, force):
    path = build_index(normal(50, 2), tmp_path / "x.index", random_state=0)
    before = IndexSource(path).read(slice(0, 50), None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.index").symlink_to(path)
    for data, place in ((path, path), (str(path), path), ("link.index", path), (path, ".")):
        with pytest.raises(ValueError, match=f"{place} contains the data"):
            build_index(data, place, force=force)
    np.testing.assert_array_equal(IndexSource(path).read(slice(0, 50), None), before)


@pytest.mark.parametrize("labels", [["no", "yes", None], ["", "yes", None], ["", "_", None]], ids=str)
def test_missing_labels_of_a_target_stay_missing(tmp_path, labels):
    y = np.array(labels, dtype=object)[np.arange(300) % 3]
    pd.DataFrame(normal(300, 4)).add_prefix("x").assign(y=y).to_parquet(tmp_path / "x.parquet")
    path = build_index(tmp_path / "x.parquet", tmp_path / "x.index", target="y", random_state=0)
    np.testing.assert_array_equal(open_file(path, ["y"]).values[0], y)
    source, kept, *_ = open_data(path, target="y")
    assert (source.shape, set(kept)) == ((200, 4), set(labels[:2]))
    with pytest.raises(ValueError, match="an index already"):
        build_index(path, tmp_path / "again.index")
    assert not (tmp_path / "again.index").exists()


@pytest.fixture
def small(tmp_path):
    """An index with every kind of file."""
    frame = pd.DataFrame(normal(600, 5), [f"s{k}" for k in range(600)], [f"x{j}" for j in range(5)])
    frame.assign(y=np.arange(600) % 7).to_parquet(tmp_path / "x.parquet")
    return build_index(tmp_path / "x.parquet", tmp_path / "x.index", target="y", random_state=1)


def read_everything(path):
    """Everything that a run can take from an index."""
    opened = open_file(path, ["y"])
    source = opened.source
    assert source.sketch is not None
    labels = opened.values[0], opened.ids, source.names, source.original_rows
    return repr([np.asarray(part).tolist() for part in (*labels, source.read(slice(0, 600), None))])


def test_every_changed_digit_of_the_metadata_is_noticed(small):
    expected, file = read_everything(small), small / "meta.json"
    text = file.read_text()
    for k in [k for k, letter in enumerate(text) if letter.isdigit()]:
        file.write_text(text[:k] + ("2" if text[k] == "1" else "1") + text[k + 1 :])
        with pytest.raises(ValueError, match="build it again"):
            open_source(small)
    file.write_text(text)
    assert read_everything(small) == expected


@pytest.mark.parametrize("name", ["columns.npy", "target.npy", "names.json", "ids.json", "original_rows.npy"])
def test_a_changed_file_is_noticed(small, name):
    content = (small / name).read_bytes()
    (small / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert verify(small) == [name]
    if name != "columns.npy":  # of which only the size is checked in a run
        with pytest.raises(ValueError, match=rf"damaged: the checksum of {name} is wrong"):
            read_everything(small)
    (small / name).write_bytes(content[:-8])
    with pytest.raises(ValueError, match=rf"damaged: .*{name} has .* bytes instead of"):
        open_source(small)
    (small / name).unlink()
    with pytest.raises(ValueError, match="is missing"):
        open_source(small)


def zeros(dtype):
    return lambda file: np.save(file, np.zeros((600, 5), dtype))


LIES = [
    ("original_rows.npy", lambda file: np.save(file, np.load(file) // 2), "does not have every row once"),
    ("original_rows.npy", lambda file: file.write_bytes(file.read_bytes()[:90]), "is not valid"),
    ("names.json", lambda file: file.write_text(file.read_text().replace('"', "")), "is not valid"),
    ("names.json", lambda file: file.write_text("[5, 5, 5, 5, 5]"), "a list of texts"),
    ("bits.npy", lambda file: np.save(file, np.load(file)[:-1]), "has the shape"),
    ("moments.npy", lambda file: np.save(file, np.load(file).astype("f4")), "has the shape"),
    ("columns.npy", lambda file: np.save(file, np.load(file)[:-1]), "has the shape"),
    ("columns.npy", lambda file: file.write_bytes(file.read_bytes().replace(b"(", b"[", 1)), "damaged"),
    *(
        ("columns.npy", zeros(dtype), "not a valid index")
        for dtype in ("O", "c8", "V8", "datetime64[ns]", "U4")
    ),
]


@pytest.mark.parametrize(("name", "change", "reason"), LIES)
def test_files_that_lie_with_right_checksums(small, name, change, reason):
    folder = Folder(small)
    record = folder.record
    change(small / name)
    record.files[name] = folder.checksum(name)
    record.write(small)
    with pytest.raises(ValueError, match=reason):
        read_everything(small)


def test_descriptions_that_lie_with_right_checksums_and_of_another_version(small, monkeypatch):
    record = Folder(small).record
    for changes, reason in (
        # else an index from elsewhere could make a run read any file or address
        ({"target": "https://example.com/y.csv", "files": {}}, "no values of its target"),
        ({"files": {"../secret.npy": [0, 0]}, "target": None}, "impossible names"),
        ({"shape": (600, -5)}, "its shape is"),
        ({}, r"version 6 of the layout.* build it again"),
    ):
        dataclasses.replace(record, **changes).write(small)
        monkeypatch.setattr("banditsis.index.folder.VERSION", 6 if changes else 7)
        with pytest.raises(ValueError, match=reason):
            open_source(small)


def test_rows_of_a_part_of_an_array_count_from_its_first(tmp_path):
    X, y = normal(100, 3), tmp_path / "y.npy"
    np.save(y, np.arange(50.0))
    part = Subset(open_source(X), np.arange(50, 100))
    source = open_source(build_index(part, tmp_path / "x.index", target=str(y), random_state=0))
    assert sorted(source.original_rows) == list(range(50))
    np.testing.assert_array_equal(source.read(slice(0, 50), None), X[50:][source.original_rows])
