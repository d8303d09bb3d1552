"""The commands info and index."""

import re

import numpy as np
import pandas as pd
import pytest
from command_line import N, P, X, Y, read_json, run, said, selected

import files


def info(*arguments):
    return read_json("info", *arguments)


def test_info(folder):
    result = run("info", folder / "x.npy", "--keep", 5)
    assert result.exit_code == 0
    assert "4,000 rows × 60 features" in result.stdout
    assert re.search(r"^default +random +[\d,]+ +[\d.]+% +\S+ kB +0\.\d+$", result.stdout, re.M)
    assert "no checksums" in said(run("info", folder / "x.npy", "--verify"))


def test_features_and_bytes_are_counted(tmp_path):
    """The target is not a feature, and a column of another type does not change the size of the others."""
    frame = pd.DataFrame(X[:500, :8].astype("f4"), columns=list("abcdefgh")).assign(y=Y[:500])
    path = tmp_path / "x.parquet"
    frame.to_parquet(path)
    record = info(path, "--target", "y")
    assert (record["n_features"], record["target"]) == (8, "y")
    assert (record["dtype"], record["bytes"]) == ("float32", 500 * 8 * 4)
    record = info(path)
    assert (record["dtype"], record["bytes"]) == ("float32 and float64", 500 * (8 * 4 + 8))
    assert record["costs"][0]["bytes"] == record["bytes"]
    assert "counts as a feature: set --target" in " ".join(run("info", path).stdout.split())
    np.save(tmp_path / "y.npy", Y[:500])
    assert info(path, "--target", tmp_path / "y.npy")["n_features"] == 9


@pytest.mark.parametrize(
    ("chunks", "order"), [((10, 50), "rows"), ((500, 1), "columns"), ((50, 50), "blocks")]
)
def test_the_order_of_chunks(tmp_path, chunks, order):
    path = files.write_zarr(X[:500, :50], [f"g{j}" for j in range(50)], chunks=chunks)
    assert info(path)["memory_order"] == order
    np.save(tmp_path / "x.npy", X[:500] if order == "rows" else np.asfortranarray(X[:500]))
    assert info(tmp_path / "x.npy")["memory_order"] == ("rows" if order == "rows" else "columns")


def test_index_then_screen(folder, tmp_path):
    store = tmp_path / "x.index"
    command = ("index", folder / "both.npy", "--out", store, "--target", "x60", "--seed", 1)
    assert "must be at least 16,000,000 bytes (16 MB)" in said(run(*command, "--memory-limit", "15MB"))
    result = run(*command, "--memory-limit", "16MB")
    assert result.exit_code == 0, result.stderr
    assert "banditsis info" in said(result)
    again = run("index", folder / "both.npy", "--out", store)
    assert (again.exit_code, "--force" in said(again)) == (1, True)
    record = read_json("screen", store, "--keep", 2)  # it carries its target
    assert selected(record) == {7, 42}
    assert record["parameters"]["row_order"] == "stored"
    record = read_json("screen", store, "--target", folder / "y.npy", "--keep", 2, "--exact")
    assert selected(record) == {7, 42}
    assert any("was taken in row order" in note for note in record["notes"])
    record = info(store, "--verify")
    assert (record["n_rows"], record["shuffled"], record["seed"], record["verified"]) == (N, True, [1], True)
    assert record["target"] == "x60"
    costs = {cost["plan"]: cost for cost in record["costs"]}
    assert costs["exact"]["bytes"] == 8 * N * P
    assert costs["default"]["cells"] < N * P
    text = run("info", store, "--verify").stdout
    assert "(verified)" in text
    assert re.search("^stored by: +columns, ", text, re.M)
    file = store / "columns.npy"
    content = bytearray(file.read_bytes())
    content[500] ^= 1
    file.write_bytes(content)
    damaged = run("info", store, "--verify")
    assert (damaged.exit_code, "checksum of columns.npy" in said(damaged)) == (1, True)


def test_the_cost_of_whole_blocks(tmp_path):
    """Rows of blocks that may not be in random order have no detection floor and no intervals."""
    frame = pd.DataFrame(np.tile(X[:, :20], (15, 1)).astype("f4"), columns=[f"a{k}" for k in range(20)])
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=500)
    costs = info(tmp_path / "x.parquet")["costs"]
    floors = {cost["detection_floor"] is None for cost in costs if cost["row_order"] == "blocks"}
    assert floors == {False, True}
    assert re.search(r"^default.* blocks .* unknown$", run("info", tmp_path / "x.parquet").stdout, re.M)
    command = ("screen", tmp_path / "x.parquet", "--target", "a3", "--keep", 2, "--row-order", "blocks")
    text = " ".join(run(*command, "--budget", 0.015).stdout.split())
    assert "95% interval" not in text
    assert "random row order" in text
    assert re.search(r"takes [\d.]+% of the cells instead of 1\.[45]\d*%", text)


def test_append_to_an_index_and_screen_it(tmp_path):
    draw = np.random.default_rng(0)
    X = draw.standard_normal((9000, 300))
    y = X[:, 3] / 2 - X[:, 8] / 3 + draw.standard_normal(9000)
    for name, rows in (("a", slice(0, 6000)), ("b", slice(6000, 9000))):
        np.save(tmp_path / f"{name}.npy", np.column_stack([X, y])[rows])
    store = tmp_path / "x.index"
    assert run("index", tmp_path / "a.npy", "--out", store, "--target", "301").exit_code == 0
    assert run("index", tmp_path / "b.npy", "--append", store).exit_code == 0
    text = " ".join(run("screen", store, "--keep", 2).stdout.split())
    assert "These are the 2 features that exact screening selects, with probability 95%" in text
    assert selected(read_json("screen", store, "--keep", 2)) == {3, 8}
    for options in ((), ("--out", store, "--append", store)):
        assert "set --out to the index to write" in said(run("index", tmp_path / "a.npy", *options))
