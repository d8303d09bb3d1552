"""Each reproduction writes its files, called as a function or as a command."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from paper.figure3 import fit_slope, fit_slopes
from paper.replications import Options, read_rows

from paper import figure1, figure2, figure3


def check_files(folder, name):
    """Check that the four files exist and have the right format."""
    png = (folder / f"{name}.png").read_bytes()
    assert (png[:4], len(png) > 20_000) == (b"\x89PNG", True)
    assert ElementTree.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")
    assert (folder / f"{name}.md").read_text("utf-8").startswith(f"# {name[:-1].title()} {name[-1]}")
    return read_rows(folder / f"{name}.csv")


def test_table1(table1):
    folder, result = table1
    rows, text = check_files(folder, "table1"), str(result)
    assert rows == result.rows
    assert (len(rows), len(rows[0])) == (8, 2 + 4 + 2 * 4 * 4)  # task, SIS, S and three P by variant and α
    assert text == (folder / "table1.md").read_text("utf-8")
    assert "2 replications here and 500 in the paper" in text
    assert text.count("**the paper**") == 20
    assert text.count("✓") + text.count("✗") == 2 + 3 * (4 + 2 * 16)  # 2 in the legend
    for variant in ("published", "printed"):
        cells, medians = (sum(result.summary[name][variant]) for name in ("cells", "medians"))
        assert f"- as {variant}: {cells} of 60 cells of P within the 99% interval" in text
        assert f"{medians} of 20 medians of S agree" in text
    assert sorted(path.name for path in result.files) == [f"table1.{k}" for k in ("csv", "md", "png", "svg")]
    printed = {2000, 1005, 507, 258, 134, 72, 41, 25, 17, 13, 11, 10}
    assert {row["printed_1.5_S"] for row in result.rows} <= printed
    # SIS ranks all features at once, so S determines P.
    assert all(row[f"SIS_P{d}"] == (row["SIS_S"] <= d) for row in result.rows for d in (144, 288, 432))


def test_figure1_draws_a_real_run(tmp_path):
    result = figure1.reproduce(Options(out=tmp_path))
    rows = check_files(tmp_path, "figure1")
    assert rows == result.rows
    plan = result.summary["plan"]
    for k, step in enumerate(plan.steps, 1):
        mine = [row for row in rows if row["round"] == k]
        assert {row["rows"] for row in mine} == {step.n_rows}
        best_first = sorted(mine, key=lambda row: -abs(row["correlation"]))
        assert [bool(row["kept"]) for row in best_first] == [j < step.n_keep for j in range(len(mine))]
    # The rounds of the last result are those of the shorter runs before it.
    selected = {row["feature"] - 1 for row in rows if row["round"] == len(plan.steps) and row["kept"]}
    assert selected == set(result.summary["result"].selected.tolist())


def test_figure2(table1, tmp_path):
    result = figure2.reproduce(Options(replications=2, jobs=1, out=tmp_path))
    rows = check_files(tmp_path, "figure2")
    assert rows == result.rows
    assert len(rows) == 6
    fraction, *shares = result.summary["M3"]["published"][0]
    assert fraction == pytest.approx(0.0777, abs=1e-3)
    for share, name in zip(shares, ("published_1.5", "published_1.5_subsample"), strict=True):
        assert share == pytest.approx(50 * sum(row[name] for row in rows if row["model"] == "M3"))
    # The data sets are those of Table 1: SIS on all rows has the same result in both.
    by_task = {(row["model"], row["replication"]): row["SIS_P144"] for row in table1[1].rows}
    assert all(by_task[row["model"], row["replication"]] == row["SIS"] for row in rows)


def test_figure3_small(tmp_path):
    by_rows, by_features = [(1000, 200), (4000, 200), (16_000, 200)], [(500, 200), (500, 800)]
    result = figure3.measure(by_rows, by_features, 3, Options(out=tmp_path))
    rows = check_files(tmp_path, "figure3")
    assert (rows, len(rows)) == (result.rows, 15)
    assert all(row[f"{method}_seconds"] > 0 for row in rows for method in figure3.METHODS)
    for method in ("SIS", "1.5", "0.5"):
        plan = figure3.make_plan(method, 4000, 200)
        assert {row[f"{method}_cells"] for row in rows if row["n"] == 4000} == {plan.cells}
    text = (tmp_path / "figure3.md").read_text("utf-8")
    assert ("| SIS |" in text, "## Millions of cells read against n" in text) == (True, True)
    for axis, sizes in (("n", [1000, 4000, 16_000]), ("p", [200, 800])):
        assert result.summary[axis]["SIS"]["size"].tolist() == sizes


def test_cells_grow_like_the_square_root_of_n():
    """From the plans alone, up to a million rows."""
    sizes = np.array([1e4, 3e4, 1e5, 3e5, 1e6])
    for method in figure3.METHODS:
        cells = np.array([float(figure3.make_plan(method, int(n), 2000).cells) for n in sizes])
        slope = fit_slope(sizes, cells, sizes > 0)
        low, high = (0.999, 1.001) if method == "SIS" else (0.45, 0.60)
        assert low < slope < high


def test_slopes_exclude_short_times_and_few_rows():
    size, seconds = np.array([1e3, 1e4, 1e5, 1e6]), np.array([9e-4, 2e-3, 2e-2, 2e-1])
    points = {"size": size, "seconds": seconds, "cells": np.array([1e6, 1e4, 1e5, 1e6])}
    assert fit_slopes(points, "n") == pytest.approx((1.0, 1.0))
    assert np.isnan(fit_slopes(points | {"seconds": np.full(4, 1e-5)}, "n")[0])


@pytest.mark.parametrize("name", ["figure1", "figure2"])
def test_commands_run_and_write(tmp_path, command, name):
    done = command(name, "--quick", "--replications", 1, "--jobs", 1, "--seed", 3, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    check_files(tmp_path, name)
    assert done.stdout.strip() == (tmp_path / f"{name}.md").read_text("utf-8").strip()
    assert f"{name}.svg" in done.stderr


def test_invalid_options_give_a_one_line_error(tmp_path, command):
    done = command("figure2", "--replications", 0, "--out", tmp_path)
    assert (done.returncode, done.stderr) == (1, "error: replications must be at least 1, got 0.\n")
