"""The commands info and index."""

import re

import numpy as np
import pandas as pd
from command_line import N, P, X, Y, message, printed, read_json, run, said, selected

import files


def info(*arguments):
    return read_json("info", *arguments)


def test_info(folder):
    text = printed("info", folder / "x.npy", "--keep", 5)
    assert re.search(r"4,000 rows × 60 features.* default random [\d,]+ [\d.]+% \S+ kB 0\.\d+ ", text)
    assert "no checksums" in said(run("info", folder / "x.npy", "--verify"))


def test_features_and_bytes_are_counted(tmp_path):
    """The target is not a feature, and a column of another type does not change the size of the others."""
    path, size = tmp_path / "x.parquet", 500 * (8 * 4 + 8)
    frame = pd.DataFrame(X[:500, :8].astype("f4"), columns=list("abcdefgh"))
    frame.assign(y=Y[:500]).to_parquet(path)
    expected = {"n_features": 8, "target": "y", "dtype": "float32", "bytes": 500 * 8 * 4}
    assert info(path, "--target", "y").items() >= expected.items()
    record = info(path)
    assert record["dtype"] == "float32 and float64"
    assert record["costs"][0]["bytes"] == record["bytes"] == size
    assert "counts as a feature: set --target" in printed("info", path)
    np.save(tmp_path / "y.npy", Y[:500])
    assert info(path, "--target", tmp_path / "y.npy")["n_features"] == 9


def test_the_order_of_chunks(tmp_path):
    for chunks, order in (((10, 50), "rows"), ((500, 1), "columns"), ((50, 50), "blocks")):
        path = files.write_zarr(X[:500, :50], [f"g{j}" for j in range(50)], chunks=chunks)
        assert info(path)["memory_order"] == order
    for letter, order in (("C", "rows"), ("F", "columns")):
        np.save(tmp_path / "x.npy", np.asarray(X[:500], order=letter))
        assert info(tmp_path / "x.npy")["memory_order"] == order


def test_index_then_screen(folder, tmp_path):
    store = tmp_path / "x.index"
    command = ("index", folder / "both.npy", "--out", store, "--target", "x60", "--seed", 1)
    assert "must be at least 16,000,000 bytes (16 MB)" in said(run(*command, "--memory-limit", "15MB"))
    assert "banditsis info" in message(0, *command, "--memory-limit", "16MB")
    assert "--force" in message(1, "index", folder / "both.npy", "--out", store)
    record = read_json("screen", store, "--keep", 2)  # it carries its target
    assert (selected(record), record["parameters"]["row_order"]) == ({7, 42}, "stored")
    record = read_json("screen", store, "--target", folder / "y.npy", "--keep", 2, "--exact")
    assert selected(record) == {7, 42}
    assert any("was taken in row order" in note for note in record["notes"])
    record = info(store, "--verify")
    expected = {"n_rows": N, "shuffled": True, "seed": [1], "verified": True, "target": "x60"}
    assert record.items() >= expected.items()
    costs = {cost["plan"]: cost for cost in record["costs"]}
    assert costs["exact"]["bytes"] == 8 * N * P
    assert costs["default"]["cells"] < N * P
    assert re.search(r"stored by: columns, .*\(verified\)", printed("info", store, "--verify"))
    content = bytearray((store / "columns.npy").read_bytes())
    content[500] ^= 1
    (store / "columns.npy").write_bytes(content)
    assert "checksum of columns.npy" in message(1, "info", store, "--verify")


def test_the_cost_of_whole_blocks(tmp_path):
    """Rows of blocks that may not be in random order have no detection floor and no intervals."""
    path = tmp_path / "x.parquet"
    frame = pd.DataFrame(np.tile(X[:, :20], (15, 1)).astype("f4"), columns=[f"a{k}" for k in range(20)])
    frame.to_parquet(path, row_group_size=500)
    blocks = [cost for cost in info(path)["costs"] if cost["row_order"] == "blocks"]
    assert {cost["detection_floor"] is None for cost in blocks} == {False, True}
    assert re.search(r"^default.* blocks .* unknown$", run("info", path).stdout, re.M)
    command = ("screen", path, "--target", "a3", "--keep", 2, "--row-order", "blocks")
    text = printed(*command, "--budget", 0.015)
    assert ("95% interval" in text, "random row order" in text) == (False, True)
    assert re.search(r"takes [\d.]+% of the cells instead of 1\.[45]\d*%", text)


def test_append_to_an_index_and_screen_it(tmp_path):
    draw = np.random.default_rng(0)
    X = draw.standard_normal((9000, 300))
    y = X[:, 3] / 2 - X[:, 8] / 3 + draw.standard_normal(9000)
    for name, rows in (("a", slice(0, 6000)), ("b", slice(6000, 9000))):
        np.save(tmp_path / f"{name}.npy", np.column_stack([X, y])[rows])
    store = tmp_path / "x.index"
    printed("index", tmp_path / "a.npy", "--out", store, "--target", "301")
    printed("index", tmp_path / "b.npy", "--append", store)
    text = "These are the 2 features that exact screening selects, with probability 95%"
    assert text in printed("screen", store, "--keep", 2)
    assert selected(read_json("screen", store, "--keep", 2)) == {3, 8}
    for options in ((), ("--out", store, "--append", store)):
        assert "set --out to the index to write" in said(run("index", tmp_path / "a.npy", *options))
