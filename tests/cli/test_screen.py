"""The commands screen, shuffle and info, as a person runs them."""

import csv
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

import click
import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner

import files
from banditsis import SIS, Plan, open_data, screen
from banditsis.cli.app import app
from banditsis.engine.sampling import ROW_ORDERS
from banditsis.sources.views import take_rows
from banditsis.statistics import STATISTICS
from files import churn_table

rng = np.random.default_rng(0)
N, P = 4000, 60
X = rng.standard_normal((N, P))
Y = X[:, 7] - X[:, 42] + rng.standard_normal(N)
SORTED = np.argsort(Y)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data with a target in a file of its own, and with one as the last column."""
    place = tmp_path_factory.mktemp("data")
    np.save(place / "x.npy", X)
    np.save(place / "y.npy", Y)
    np.save(place / "both.npy", np.column_stack([X, Y]))
    np.save(place / "gaps.npy", np.where(rng.random(X.shape) < 0.05, np.nan, X))
    np.save(place / "short.npy", Y[:100])
    (place / "empty.npy").write_bytes(b"")
    (place / "torn.npy").write_bytes((place / "x.npy").read_bytes()[:1000])
    (place / "picture.parquet").write_bytes(b"\x89PNG and so on")
    return place


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def said(result):
    return " ".join(result.stderr.split())


def screened(folder, *options, target="y.npy"):
    return run("screen", folder / "x.npy", "--target", folder / target, "--seed", 0, *options)


def test_a_readable_result(folder):
    result = screened(folder, "--keep", 5, "--alpha", 1)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert f"{folder / 'x.npy'}: 4,000 rows, 60 features\n" in result.stdout
    assert re.search(r"y.npy: mean -?0\.\d+, from -[\d.]+ to [\d.]+\n", result.stdout)
    assert re.search(r"rank +feature +score +95% interval\n +1 +x(7|42) .* clear\n", result.stdout)
    assert "2 of 5 clearly associated; the other 3 are indistinguishable from noise.\n" in result.stdout
    assert re.search(r"\n[\d.]+% of the cells were read\. Detection floor: 0\.", result.stdout)
    assert "y.npy was taken in row order." in result.stdout


def test_the_first_command(tmp_path, monkeypatch):
    """A table with gaps, a factor, a date and an id: the answer without any option, in signed scores."""
    monkeypatch.chdir(tmp_path)
    churn_table("churn.csv")
    command = ("screen", "churn.csv", "--target", "churn", "--keep", 8)
    result = run(*command, "--report", "out.html")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "Wrote out.html.\n"
    data, target, empty, heading, *rest = result.stdout.splitlines()
    assert data.startswith("churn.csv: 20,000 rows, ")
    assert target == "churn: Yes 24%, No 76%; a positive score goes with Yes"
    assert (empty, heading.split()) == ("", ["rank", "feature", "score", "p"])
    table = [
        re.fullmatch(r" +(\d) +(\S+) +([+-]0\.\d{4}) +(\S+) +(clear|unclear)", line) for line in rest[:8]
    ]
    rows = {match[2]: match for match in table}
    frame = pd.read_csv("churn.csv")
    for name, match in rows.items():
        if name in frame:
            r = frame[name].corr(1.0 * (frame["churn"] == "Yes"))
            assert float(match[3]) == pytest.approx(r, abs=2e-4)
    assert float(rows["f7"][3]) < -0.3 < 0.3 < float(rows["f3"][3])
    clear = [name for name, match in rows.items() if match[5] == "clear"]
    assert {"f7", "f3"} <= set(clear) <= {"f7", "f3", "city=Oslo", "city=Bergen", "city=Tromsø"}
    assert re.fullmatch(r"[\d.]+e-\d{3}", rows["f7"][4])  # and not 0
    n = len(clear)
    assert rest[8] == f"{n} of 8 clearly associated; the other {8 - n} are indistinguishable from noise."
    assert rest[9].startswith("All rows were read, because that is about as fast")
    assert len(rest) - 10 <= 3
    report = (tmp_path / "out.html").read_text("utf-8")
    for line in (target, rest[8], rest[9]):
        assert line in report
    words = " ".join(map(str, command)).replace("screen", "banditsis screen", 1)
    assert f"<code>{words} --report out.html</code>" in report
    everything = run(*command[:-1], 60).stdout
    assert re.search(r"\bf5 is missing in 3% of the rows; its score is from the others\.", everything)
    record = json.loads(run(*command, "--json").stdout)
    assert record["parameters"]["positive_class"] == "Yes"
    assert [feature["name"] for feature in record["features"]] == list(rows)


def test_several_targets_are_compact(folder, tmp_path):
    frame = pd.DataFrame(X[:, :9], columns=list("abcdefghi"))
    noisy = X[:, :9] + 0.5 * np.random.default_rng(1).standard_normal((N, 9))
    frame["y"], frame["kind"] = noisy[:, 3], np.where(noisy[:, 5] > 0, "case", "control")
    frame["grade"] = np.digitize(noisy[:, 1], [-1, 1]).astype(str)
    frame.to_parquet(tmp_path / "x.parquet")
    targets = ("--target", "y", "--target", "kind", "--target", "grade")
    text = run("screen", tmp_path / "x.parquet", *targets, "--keep", 7).stdout
    assert re.search(r"^kind: control \d\d%, case \d\d%; a positive score goes with control$", text, re.M)
    assert re.search(r"^grade: 1 \d\d%, \d \d\d%, \d \d\d%$", text, re.M)
    assert re.search(r"^ +1  f +-0\.\d+ .* clear$", text, re.M)  # two classes are signed beside three
    assert re.search(r"^ +1  b +0\.\d+ .* clear$", text, re.M)
    assert text.count("All rows were read") == 1
    assert text.count("… and 2 more") == 3
    frame["grade"] = frame["grade"].astype(int)
    frame.to_parquet(tmp_path / "x.parquet")
    for options, line in ((), r"mean [\d.]+, from 0 to 2"), (("--statistic", "anova"), r"1 \d\d%, .*"):
        text = run("screen", tmp_path / "x.parquet", "--target", "grade", "--drop", "kind", *options).stdout
        assert re.search(rf"^grade: {line}$", text, re.M)
        assert ("treated as numbers: if they are classes, set --statistic anova." in text) == (not options)


def test_what_few_readers_need_is_printed_with_verbose(folder):
    options = ("--keep", 5, "--alpha", 1, "--pvalues")
    plain, verbose = screened(folder, *options), screened(folder, *options, "-v")
    for part in (
        r"Plan: +paper",
        r"touching",
        r"seed 0",
        r"round +rows",
        r"interval +p +q\n",
        r"p-values are",
    ):
        assert not re.search(part, plain.stdout + plain.stderr)
        assert re.search(part, verbose.stdout + verbose.stderr)
    assert screened(folder, *options, "-v", "-q").exit_code == 2


def test_at_most_three_notes(tmp_path):
    """A possible leak comes first; the rest are in JSON and with --verbose, in words of the command line."""
    frame = pd.DataFrame(X[:300, :6].copy(), columns=list("abcdef"))
    frame["y"], frame["copy"] = np.arange(300) % 3, np.arange(300) % 3
    frame.loc[:250, "f"] = np.nan
    frame.loc[:4, "y"] = np.nan
    frame["w"] = np.arange(300) % 5
    frame["text"] = [f"name {k}" for k in range(300)]
    frame.to_parquet(tmp_path / "x.parquet")
    command = ("screen", tmp_path / "x.parquet", "--target", "y", "--weights", "w", "--alpha", 1, "--keep", 3)
    notes = json.loads(run(*command, "--json").stdout)["notes"]
    assert len(notes) > 4
    text = run(*command).stdout
    assert text.count("Note: ") == 3
    assert "Note: possible leakage: 'copy'" in text
    assert re.search(r"more notes?: use --verbose", text)
    told = [note for note in notes if note.startswith("all rows were read")]  # before the notes
    assert run(*command, "--verbose").stdout.count("Note: ") == len(notes) - len(told)
    assert any("set --statistic anova" in note for note in notes)
    assert not [note for note in notes if re.search(r"\w=['\"T]", note)]


def test_json_is_the_result_and_nothing_else(folder):
    result = screened(folder, "--keep", 5, "--alpha", 0.7, "--json")
    expected = screen(X, Y, Plan.paper(N, P, 5, 0.7), random_state=0)
    record = json.loads(result.stdout)
    assert [feature["index"] for feature in record["features"]] == expected.selected.tolist()
    assert record["features"][0].keys() >= set(expected.to_frame())
    assert record["detection_floor"] == pytest.approx(expected.detection_floor())
    assert record["cells_read"] == expected.cells_read
    assert result.stderr == ""


def test_a_column_of_the_data_as_target(folder):
    for target in ("x60", "61"):
        result = run("screen", folder / "both.npy", "--target", target, "--keep", 2, "--exact", "--json")
        assert {f["index"] for f in json.loads(result.stdout)["features"]} == {7, 42}


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        (("--exact", "--keep", 3), "exact"),
        (("--budget", 0.3, "--keep", 3), "optimal"),
        (("--budget", 100_000, "--keep", 3), "optimal"),
        (("--min-correlation", 0.4, "--keep", 3), "guaranteed"),
        ((), "exact"),  # which is as fast for such small data
    ],
)
def test_plans(folder, options, plan):
    result = screened(folder, "--json", *options)
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert record["parameters"]["plan"] == plan
    assert {f["index"] for f in record["features"][:2]} == {7, 42}
    assert len(record["features"]) == (3 if options else 30)


def test_files_are_written(folder, tmp_path):
    import pyarrow.parquet as pq

    for ending in ("csv", "parquet", "json"):
        result = screened(folder, "--keep", 4, "--exact", "--quiet", "--output", tmp_path / f"out.{ending}")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    table = pq.read_table(tmp_path / "out.parquet").to_pydict()
    record = json.loads((tmp_path / "out.json").read_text())
    scores = screen(X, Y, Plan.exact(N, P, 4)).scores
    for k, feature in enumerate(record["features"]):
        assert rows[k]["name"] == table["name"][k] == feature["name"]
        assert float(rows[k]["score"]) == table["score"][k] == pytest.approx(scores[feature["index"]])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.json", "out.parquet"]


def test_classes_gaps_and_orders(folder, tmp_path):
    np.save(tmp_path / "classes.npy", (Y > 0).astype(int))
    classes = ("--target", tmp_path / "classes.npy", "--statistic", "anova", "--keep", 2, "--exact", "--json")
    record = json.loads(run("screen", folder / "x.npy", *classes).stdout)
    assert {f["index"] for f in record["features"]} == {7, 42}
    gaps = ("--target", folder / "y.npy", "--keep", 2, "--row-order", "random")
    result = run("screen", folder / "gaps.npy", *gaps, "--missing", "raise")
    assert "contain NaN in column" in said(result)
    assert "set --missing pairwise to ignore missing values, or impute them first" in said(result)
    for options in ((), ("--alpha", 1), ("--exact", "--row-order", "auto")):
        result = run("screen", folder / "gaps.npy", *gaps[:-2], *options)
        assert result.exit_code == 0
        rows = "rows read" if "--alpha" in options else "rows"
        assert re.search(rf"of the features are missing in up to \d% of the {rows};", result.stdout)
    assert "present" in run("screen", folder / "gaps.npy", *gaps, "--verbose").stdout
    complete = run("screen", folder / "x.npy", *gaps, "--alpha", 1).stdout
    assert "Detection floor: 0." in complete  # which needs complete data
    guarantee = run("screen", folder / "gaps.npy", *gaps, "--min-correlation", 0.4)
    assert "contain NaN" in said(guarantee)


def test_covariates_pvalues_and_interactions(folder, tmp_path):
    from banditsis import Interactions

    options = ("--exact", "--keep", 2, "--json", "--pvalues")
    record = json.loads(screened(folder, *options, "--covariates", "x7").stdout)
    expected = screen(X, Y, Plan.exact(N, P, 2), covariates=X[:, 7])
    assert [f["name"] for f in record["features"]] == expected.selected_names
    assert record["n_features"] == P - 1  # a covariate is not a feature
    assert record["features"][0]["score"] == pytest.approx(expected.scores[42])
    (tmp_path / "age.csv").write_text("age,seven\n" + "".join(f"1,{value!r}\n" for value in X[:, 7].tolist()))
    from_file = json.loads(screened(folder, *options, "--covariates", f"{tmp_path}/age.csv:seven,age").stdout)
    assert from_file["features"][0]["score"] == pytest.approx(expected.scores[42])
    assert re.search("score +p\n", screened(folder, "--keep", 2, "--pvalues").stdout)
    np.save(tmp_path / "x.npy", X[:, :8])
    np.save(tmp_path / "y.npy", X[:, 2] * X[:, 5])
    pairs = ("--target", tmp_path / "y.npy", "--interactions", "--exact", "--keep", 1, "--json")
    record = json.loads(run("screen", tmp_path / "x.npy", *pairs).stdout)
    assert record["features"][0]["name"] == "x2 × x5"
    assert Interactions(X[:, :8]).shape[1] == record["n_features"]


def test_weights_of_rows(folder, tmp_path):
    weights = np.arange(N) % 3
    options = ("--exact", "--keep", 2, "--json")
    np.save(tmp_path / "x.npy", np.column_stack([X, weights]))
    from_data = run(
        "screen", tmp_path / "x.npy", "--target", folder / "y.npy", *options, "--weights", f"x{P}"
    )
    (tmp_path / "w.csv").write_text("age,w\n" + "".join(f"1,{value}\n" for value in weights))
    from_file = screened(folder, *options, "--weights", f"{tmp_path}/w.csv:w")
    expected = screen(X, Y, Plan.exact(N, P, 2), sample_weight=weights)
    for result in (from_data, from_file):
        record = json.loads(result.stdout)
        assert record["n_features"] == P
        assert record["parameters"]["sample_weight"] is True
        scores = [feature["score"] for feature in record["features"]]
        assert scores == pytest.approx(expected.scores[expected.selected], rel=1e-6)
    result = screened(folder, "--weights", f"{tmp_path}/w.csv:age,w")
    assert (result.exit_code, "w.csv has no column 'age,w'" in said(result)) == (1, True)


def test_robust_pvalues(folder):
    record = json.loads(screened(folder, "--exact", "--keep", 2, "--json", "--robust-pvalues").stdout)
    expected = screen(X, Y, Plan.exact(N, P, 2), pvalues="robust")
    assert record["parameters"]["pvalues"] == "robust"
    found = [feature["log10_pvalue"] for feature in record["features"]]
    assert found == pytest.approx(expected.log10_pvalues[expected.selected])


def test_features_that_are_not_redundant(tmp_path):
    np.save(tmp_path / "x.npy", np.column_stack([X, X[:, 7] + 0.01 * X[:, 8]]))
    np.save(tmp_path / "y.npy", Y)
    command = ("screen", tmp_path / "x.npy", "--target", tmp_path / "y.npy", "--exact", "--keep", 2)
    result = run(*command, "--avoid-redundancy", "--json")
    (first, second) = (feature["index"] for feature in json.loads(result.stdout)["features"])
    assert {7, P} & {first, second}
    assert 42 in {first, second}
    said_by_plan = said(run(*command, "--avoid-redundancy", "--verbose"))
    assert f"keeps {P + 1} features and chooses 2 of them" in said_by_plan


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_all_features_are_written(folder, tmp_path, monkeypatch, ending):
    """With p-values of all, without selecting all; a few at a time, as for many features."""
    monkeypatch.setattr("banditsis.cli.output.FEATURES_AT_ONCE", 7)
    file = tmp_path / f"all.{ending}"
    result = screened(folder, "--exact", "--pvalues", "--keep", 2, "--output", file, "--all-features")
    assert result.exit_code == 0, result.stderr
    assert "both selected features are clearly associated" in result.stdout.lower()
    written = pd.read_csv(file, keep_default_na=False) if ending == "csv" else pd.read_parquet(file)
    given = {"missing": "pairwise", "pvalues": True}
    expected = screen(X, Y, Plan.exact(N, P, 2), **given).to_frame(all_features=True)
    assert list(written) == list(expected)
    assert written["name"].tolist() == expected["name"].tolist()
    np.testing.assert_allclose(written["log10_pvalue"], expected["log10_pvalue"])
    np.testing.assert_array_equal(written["rank"], np.arange(1, P + 1))
    marks = ["True", "True", *[""] * 58] if ending == "csv" else [True, True, *[None] * 58]
    assert written["associated"].astype(object).tolist() == marks  # only selected features are marked


@pytest.mark.parametrize("options", [(), ("--output", "all.json")])
def test_all_features_need_a_table(folder, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    result = screened(folder, "--all-features", *options)
    assert (result.exit_code, "set --output to a .csv or .parquet file" in said(result)) == (2, True)


def test_a_report(folder, tmp_path):
    result = screened(folder, "--keep", 3, "--report", tmp_path / "out.html")
    assert result.exit_code == 0, result.stderr
    text = (tmp_path / "out.html").read_text()
    assert "x42" in text
    assert text.count("<figure ") == 3  # plots of the data
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]


def test_a_report_of_targets_of_different_kinds(tmp_path):
    """Numbers with missing values, and labels."""
    frame = pd.DataFrame(X[:500, :20], columns=[f"g{j}" for j in range(20)])
    frame["bmi"] = np.where(np.arange(500) < 50, np.nan, X[:500, 3])
    frame["kind"] = np.where(X[:500, 5] > 0, "case", "control")
    frame.to_parquet(tmp_path / "cohort.parquet")
    targets = ("--target", "bmi", "--target", "kind", "--keep", 2)
    result = run("screen", tmp_path / "cohort.parquet", *targets, "--report", tmp_path / "out.html")
    assert result.exit_code == 0, result.stderr
    text = (tmp_path / "out.html").read_text()
    assert "A random sample of 450 rows. The horizontal axis is the feature, the vertical axis bmi" in text
    assert " rows, at most 250 of each class. The vertical axis is the feature" in text
    assert f"<dt>Data</dt><dd>{tmp_path / 'cohort.parquet'}</dd>" in text


def test_sorted_rows_are_not_trusted(folder, tmp_path):
    np.save(tmp_path / "x.npy", X[SORTED])
    np.save(tmp_path / "y.npy", Y[SORTED])
    options = ("--target", tmp_path / "y.npy", "--row-order", "stored", "--alpha", 1, "--keep", 3, "--quiet")
    result = run("screen", tmp_path / "x.npy", *options)
    assert result.stderr.startswith("warning: ")
    assert "shuffle" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("x.npy", "--target", "y.npy", "--alpha", 1, "--budget", 0.1), 2, "mutually exclusive"),
        (("x.npy", "--target", "y.npy", "--exact", "--alpha", 1), 2, "mutually exclusive"),
        (("x.npy", "--target", "y.npy", "--budget", 1e-9), 2, "at least 0.001"),
        (("x.npy", "--target", "y.npy", "--output", "best.xlsx"), 2, "end in .csv"),
        (("x.npy", "--target", "y.npy", "--output", "nowhere/best.csv"), 2, "does not exist"),
        (("x.npy", "--target", "y.npy", "--keep", 0), 2, "--keep"),
        (("x.npy", "--target", "y.npy", "--memory-limit", "lots"), 2, "'lots' is not a size"),
        (("x.npy", "--target", "y.npy", "--statistic", "pearl"), 2, "'pearson'"),
        (("x.npy", "--target", "y.npy", "--row-order", "random-ish"), 2, "'random'"),
        (("x.npy",), 2, "--target"),
        (("x.npy", "--target", "short.npy"), 1, "100 values for the 4,000 rows"),
        (("x.npy", "--target", "no.npy"), 1, "does not exist"),
        (("x.npy", "--target", "x61"), 1, "no column 'x61'"),
        (("nothing.npy", "--target", "y.npy"), 1, "does not exist"),
        (("empty.npy", "--target", "y.npy"), 1, "is empty"),
        (("torn.npy", "--target", "y.npy"), 1, "torn.npy"),
        (("picture.parquet", "--target", "y.npy"), 1, "named as a Parquet file"),
        (("gaps.npy", "--target", "y.npy", "--missing", "raise"), 1, "contain NaN in column"),
    ],
)
def test_a_mistake_gets_one_line_and_a_code(folder, monkeypatch, arguments, code, message):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    result = run("screen", *arguments)
    assert result.exit_code == code, result.stderr
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    if code == 1:
        assert result.stderr.splitlines()[-1].startswith("error: ")
    assert sorted(folder.iterdir()) == before


def test_a_store_in_strata_is_described(folder, tmp_path):
    y = np.zeros(N)
    y[::100] = 1
    np.save(tmp_path / "y.npy", y)
    store = tmp_path / "x.shuffled"
    assert run("shuffle", folder / "x.npy", store, "--target", tmp_path / "y.npy", "--seed", 1).exit_code == 0
    result = run("info", store, "--verify")
    assert re.search(r"^strata: +2, made from y, of 3,960, 40 rows$", result.stdout, re.M)
    assert re.search(r"^chunks: +the first [\d,]+ rows by row, all rows by column$", result.stdout, re.M)
    assert json.loads(run("info", store, "--json").stdout)["stratum_sizes"] == [3960, 40]
    record = json.loads(run("screen", store, "--budget", 0.2, "--keep", 2, "--json").stdout)
    assert (record["parameters"]["sampling"], record["parameters"]["row_order"]) == ("stratified", "stored")
    plain = json.loads(run("screen", store, "--target", folder / "y.npy", "--keep", 2, "--json").stdout)
    assert {f["index"] for f in plain["features"]} == {7, 42}


def test_debugging_shows_where(folder, monkeypatch):
    monkeypatch.setenv("BANDITSIS_DEBUG", "1")
    with pytest.raises(FileNotFoundError):
        run("screen", folder / "nothing.npy", "--target", folder / "y.npy")


def test_shuffle_then_screen(folder, tmp_path):
    store = tmp_path / "x.shuffled"
    result = run("shuffle", folder / "both.npy", store, "--target", "x60", "--seed", 1)
    assert result.exit_code == 0, result.stderr
    assert "banditsis info" in said(result)
    again = run("shuffle", folder / "both.npy", store)
    assert (again.exit_code, "--force" in said(again)) == (1, True)
    record = json.loads(run("screen", store, "--keep", 2, "--json").stdout)  # it carries its target
    assert {f["index"] for f in record["features"]} == {7, 42}
    assert record["parameters"]["row_order"] == "stored"
    result = run("screen", store, "--target", folder / "y.npy", "--keep", 2, "--exact")
    assert "before shuffling" in result.stdout
    assert {int(k) for k in re.findall(r"^ +\d+ +x(\d+) ", result.stdout, re.M)} == {7, 42}


def test_info(folder, tmp_path):
    result = run("info", folder / "x.npy", "--keep", 5)
    assert result.exit_code == 0
    assert "4,000 rows × 60 features" in result.stdout
    assert "default" in result.stdout
    run("shuffle", folder / "x.npy", tmp_path / "x.shuffled", "--seed", 9)
    record = json.loads(run("info", tmp_path / "x.shuffled", "--json", "--verify").stdout)
    assert (record["n_rows"], record["shuffled"], record["seed"], record["verified"]) == (N, True, 9, True)
    costs = {cost["plan"]: cost for cost in record["costs"]}
    assert costs["exact"]["bytes"] == 8 * N * P
    assert costs["default"]["cells"] < N * P
    file = tmp_path / "x.shuffled" / "columns.npy"
    content = bytearray(file.read_bytes())
    content[500] ^= 1
    file.write_bytes(content)
    damaged = run("info", tmp_path / "x.shuffled", "--verify")
    assert (damaged.exit_code, "checksum of columns.npy" in said(damaged)) == (1, True)
    assert "no checksums" in said(run("info", folder / "x.npy", "--verify"))


@pytest.mark.parametrize(
    ("chunks", "order"), [((10, 50), "rows"), ((500, 10), "columns"), ((50, 50), "blocks")]
)
def test_info_says_how_zarr_chunks_are_stored(tmp_path, chunks, order):
    zarr.create_array(str(tmp_path / "x.zarr"), data=X, chunks=chunks)
    assert json.loads(run("info", tmp_path / "x.zarr", "--json").stdout)["memory_order"] == order


def test_help_and_completion():
    text = " ".join(run("screen", "--help").stdout.split())
    for part in ("--min-correlation", "banditsis screen data.parquet"):
        assert part in text
    screen_command = app.commands["screen"]
    parameters = {parameter.name: parameter for parameter in screen_command.params}
    context = click.Context(screen_command)

    def complete(name, incomplete):
        return [item.value for item in parameters[name].shell_complete(context, incomplete)]

    assert complete("statistic", "pe") == ["pearson"]
    assert complete("statistic", "") == ["auto", *STATISTICS]
    assert complete("row_order", "") == ["auto", *ROW_ORDERS[1:]]
    assert complete("missing", "p") == ["pairwise"]


SLOW = """
import sys, time
import numpy as np
import pandas as pd
from banditsis.sources.array import ArraySource
from banditsis.cli.app import app
sums, calls = ArraySource.sums_by_stratum, []
def slowly(self, *args):
    sums(self, *args)
    calls.append(1)
    print("round", flush=True, file=sys.stderr)
    time.sleep(30 if len(calls) > 2 else 0)
ArraySource.sums_by_stratum = slowly
app()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_shows_what_is_known(folder):
    """A real process, interrupted in its third round."""
    files = [str(folder / "x.npy"), "--target", str(folder / "y.npy")]
    options = [
        "screen",
        *files,
        "--keep",
        "3",
        "--json",
        "--seed",
        "0",
        "--jobs",
        "1",
        "--alpha",
        "0.5",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert process.stderr is not None
    for _ in range(3):
        process.stderr.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "interrupted" in err
    record = json.loads(out)
    assert 1 <= len(record["rounds"]) <= 2
    assert {7, 42} <= {f["index"] for f in record["features"]}


def test_covariates_of_another_file(tmp_path):
    """They are joined with the data as these were opened: target, one-hot columns, ids and all."""
    frame = pd.DataFrame(X[:500, :6], columns=list("abcdef"))
    frame["kind"], frame["id"], frame["y"] = "u", np.arange(500) + 1000, Y[:500]
    frame.loc[::2, "kind"] = "v"
    frame.loc[3, "y"] = np.nan
    frame.to_csv(tmp_path / "x.csv", index=False)
    aside = pd.DataFrame({"age": X[:500, 0], "id": frame["id"]})
    aside.sample(frac=1, random_state=0).to_csv(tmp_path / "z.csv", index=False)
    options = ("--target", "y", "--exact", "--keep", 3, "--json")
    result = run("screen", tmp_path / "x.csv", *options, "--covariates", f"{tmp_path / 'z.csv'}:age")
    record = json.loads(result.stdout)
    assert record["n_features"] == 7  # six, one of two kinds, and no id
    known = np.flatnonzero(frame["y"].notna())
    expected = screen(X[known, :6], Y[known], Plan.exact(len(known), 6, 3), covariates=X[known, 0])
    scores = {f["name"]: f["score"] for f in record["features"]}
    for k in expected.selected[:2]:
        name = "abcdef"[k]
        assert name not in scores or scores[name] == pytest.approx(expected.scores[k])
    assert set(scores) & set("abcdef")


def test_covariates_with_text_and_missing_values(tmp_path):
    """Genotypes with gaps, adjusted for covariates of another file, of which one is text."""
    generator = np.random.default_rng(0)
    x = np.where(generator.random((500, 6)) < 0.03, np.nan, X[:500, :6])
    batch = np.array(["u", "v", "w"])[np.arange(500) % 3]
    frame = pd.DataFrame(x, columns=list("abcdef")).assign(id=np.arange(500) + 1000, y=Y[:500])
    frame.to_csv(tmp_path / "x.csv", index=False)
    aside = pd.DataFrame({"id": frame["id"], "age": X[:500, 7], "batch": batch})
    aside.loc[4, "age"], aside.loc[9, "batch"] = np.nan, None
    aside.to_csv(tmp_path / "z.csv", index=False)
    options = (
        "--target",
        "y",
        "--exact",
        "--keep",
        3,
        "--json",
        "--covariates",
        f"{tmp_path}/z.csv:age,batch",
    )
    result = run("screen", tmp_path / "x.csv", *options, "--missing", "pairwise")
    record = json.loads(result.stdout)
    known = aside.notna().all(axis=1).to_numpy()
    numbers = np.column_stack([X[:500, 7], batch == "v", batch == "w"])[known]
    plan = Plan.exact(known.sum(), 6, 3)
    expected = screen(x[known], Y[:500][known], plan, covariates=numbers, missing="pairwise")
    for feature in record["features"]:
        assert feature["score"] == pytest.approx(expected.scores["abcdef".index(feature["name"])], abs=1e-9)
    assert "covariate 'batch' was expanded into 2 indicator columns." in record["notes"]
    assert "2 rows with missing covariates were omitted." in record["notes"]
    aside.dropna().to_csv(tmp_path / "z.csv", index=False)
    again = json.loads(run("screen", tmp_path / "x.csv", *options, "--missing", "pairwise").stdout)
    assert again["features"] == record["features"]
    aside.to_csv(tmp_path / "z.cov", sep="\t", index=False, na_rep="NA")
    given = (*options[:-1], f"{tmp_path}/z.cov:age,batch")
    again = json.loads(run("screen", tmp_path / "x.csv", *given, "--missing", "pairwise").stdout)
    assert again["features"] == record["features"]
    again = json.loads(run("screen", tmp_path / "x.csv", *options).stdout)  # which is the default
    assert again["features"] == record["features"]
    result = run("screen", tmp_path / "x.csv", *options, "--missing", "raise")
    assert "covariates contain NaN in row 4, column 'age'" in said(result)
    assert "--missing pairwise" in said(result)


def test_warnings_of_ids_are_never_hidden(folder, tmp_path):
    pd.DataFrame({"id": np.arange(N), "y": Y}).to_csv(tmp_path / "t.csv", index=False)
    for option in ("-q", "--json"):
        result = run("screen", folder / "x.npy", "--target", tmp_path / "t.csv", "--keep", 2, option)
        assert result.exit_code == 0
        assert "warning:" in result.stderr
        assert "joined by their order alone" in said(result)


def test_no_header_is_told(tmp_path):
    (tmp_path / "x.csv").write_text(
        "2019,2020,2021\n" + "\n".join(f"{k},{k * k % 7},{k % 3}" for k in range(50))
    )
    assert (
        "no header: the first line of the file was taken as values" in run("info", tmp_path / "x.csv").stdout
    )
    command = ("screen", tmp_path / "x.csv", "--target", 2, "--keep", 1, "--exact")
    assert "Note: no header" in run(*command).stdout
    result = run(*command, "--verbose")
    assert "the column 'x1' of the data, its column 2" in said(result)
    result = run("screen", tmp_path / "x.csv", "--target", 2, "--keep", 1, "--exact", "--json")
    assert "no header: the first line of the file was taken as values." in json.loads(result.stdout)["notes"]


def test_no_floor_and_no_interval_of_blocks(tmp_path):
    frame = pd.DataFrame(rng.standard_normal((60_000, 20)).astype("f4"), columns=[f"a{k}" for k in range(20)])
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=500)
    costs = json.loads(run("info", tmp_path / "x.parquet", "--json").stdout)["costs"]
    assert {cost["detection_floor"] is None for cost in costs if cost["row_order"] == "blocks"} == {
        False,
        True,
    }
    assert re.search(r"^default.* blocks .* unknown$", run("info", tmp_path / "x.parquet").stdout, re.M)
    result = run(
        "screen", tmp_path / "x.parquet", "--target", "a3", "--keep", 2, "--row-order", "blocks", "--alpha", 1
    )
    assert "95% interval" not in result.stdout
    assert re.search("random row order", result.stdout)


def fault(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    return run("screen", tmp_path / name, "--target", "y", "--statistic", "anova", "--alpha", 1, "--keep", 1)


TEXTS = {
    "gzip": (
        "x.csv",
        gzip.compress(b"a,y\n1,2\n"),
        "its content is that of a gzip file: rename it to x.csv.gz",
    ),
    "UTF-16": ("x.csv", "a,y\n1,2\n".encode("utf-16"), "is UTF-16 text: convert it to UTF-8"),
    "decimal commas": (
        "x.csv",
        b"a;y\n1,5;2\n2,5;3\n",
        "numbers and text in column 'a': '1,5' in line 2",
    ),
    "dates": ("x.csv", b"b,y\n2020-01-01,u\n2020-01-02,v\n2020-01-03,u\n", r"skipped b \(dates\)"),
    "classes": (
        "x.csv",
        b"a,y\n" + b"".join(b"1,c%d\n" % k for k in range(9)),
        "text with 9 classes in 9 rows",
    ),
    "one class": ("x.csv", b"a,y\n1,hi\n2,hi\n4,hi\n5,hi\n", "got one class: 'hi'."),
    "empty": ("x.csv", b"", "x.csv is empty"),
    "header alone": ("x.csv", b"a,y\n", "has no rows"),
    "target alone": ("x.csv", b"y\n1\n2\n3\n", "has no column that could be a feature"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_faults_of_texts(tmp_path, name):
    file, content, message = TEXTS[name]
    result = fault(tmp_path, file, content)
    assert result.exit_code == 1
    assert re.search(message, said(result))


def test_sorted_classes(folder, tmp_path):
    np.save(tmp_path / "y.npy", np.repeat(["hi", "lo"], N // 2))
    options = ("--statistic", "anova", "--row-order", "stored", "--alpha", 1, "--keep", 2)
    result = run("screen", folder / "x.npy", "--target", tmp_path / "y.npy", *options)
    assert "the response is constant in the" in result.stdout
    assert "Use random row order" in said(result)


ARRAYS = {
    "objects": (np.array([[1, "a"]], dtype=object), "Python objects"),
    "three dimensions": (np.zeros((4, 3, 2)), "has shape (4, 3, 2): features have two dimensions"),
    "one dimension": (np.zeros(4), "has shape (4,): features have two dimensions"),
    "records": (np.zeros(4, dtype=[("a", "f8"), ("b", "f8")]), "holds records (a, b): save its fields"),
    "no features": (np.zeros((50, 0)), "no features"),
    "no rows": (np.zeros((0, 5)), "no rows"),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("command", ["info", "screen"])
def test_arrays_that_are_no_features(folder, tmp_path, name, command):
    array, message = ARRAYS[name]
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    options = ("--target", folder / "y.npy") if command == "screen" else ()
    result = run(command, tmp_path / "x.npy", *options)
    assert result.exit_code == 1
    assert message in said(result)


def test_options_are_checked_before_any_data_are_read(tmp_path):
    for options, message in {
        ("--jobs", 0): "--jobs",
        ("--exact", "--alpha", 1): "--exact and --alpha",
    }.items():
        result = run("screen", tmp_path / "gone.npy", "--target", "y", *options)
        assert result.exit_code == 2
        assert message in said(result)


def test_names_with_line_breaks_and_single_things(tmp_path):
    frame = pd.DataFrame({"a\nb": X[:50, 0], "y": Y[:50]})
    frame.to_parquet(tmp_path / "x.parquet")
    result = run("screen", tmp_path / "x.parquet", "--target", "y", "--exact", "--keep", 1)
    assert re.search(r"^ *1 +a b +[+-]0", result.stdout, re.MULTILINE)
    assert ": 50 rows, 1 numeric feature\n" in result.stdout
    assert "The selected feature is" in result.stdout


def test_lists_are_not_to_be_encoded(tmp_path):
    pd.DataFrame({"a": [[1, 2], [3]], "y": [1.0, 2.0]}).to_parquet(tmp_path / "x.parquet")
    result = run("screen", tmp_path / "x.parquet", "--target", "y")
    assert "skipped a (nested values)" in said(result)


def test_a_pvalue_of_zero_is_a_number_in_json(tmp_path):
    np.save(tmp_path / "x.npy", np.column_stack([X[:, :3], X[:, 0]]))
    result = run("screen", tmp_path / "x.npy", "--target", 4, "--exact", "--keep", 2, "--json")
    first, second = (feature["log10_pvalue"] for feature in json.loads(result.stdout)["features"])
    assert first == -1e308
    assert second > -10


@pytest.mark.parametrize("row_order", ["auto", "blocks", "stored"])
def test_the_cost_of_whole_blocks_is_shown_before_the_run(tmp_path, row_order):
    frame = pd.DataFrame(rng.standard_normal((20_000, 20)).astype("f4"), columns=[f"a{k}" for k in range(20)])
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=500)
    options = ("--target", "a3", "--keep", 2, "--budget", 0.031, "--row-order", row_order, "--seed", 0)
    result = run("screen", tmp_path / "x.parquet", *options, "--verbose")
    cells, share = re.search(
        r"reads ([\d,]+) cells \((.*)\), rounded up to whole blocks of 500 rows", said(result)
    ).groups()
    output = json.loads(run("screen", tmp_path / "x.parquet", *options, "--json").stdout)
    assert sum(step["cells"] for step in output["rounds"]) == int(cells.replace(",", ""))
    assert int(cells.replace(",", "")) > 0.031 * 20_000 * 19
    assert f"takes {share} of the cells instead of" in " ".join(result.stdout.split())
    assert run("shuffle", tmp_path / "x.parquet", tmp_path / "s.shuffled", "--target", "a3").exit_code == 0
    shuffled = run("screen", tmp_path / "s.shuffled", "--keep", 2, "--budget", 0.031)
    assert "Run `banditsis shuffle`" not in shuffled.stdout


def test_keys_that_data_target_and_covariates_share(tmp_path):
    frame = pd.DataFrame(X[:, :6], columns=[f"x{j}" for j in range(6)])
    frame["customer_id"] = np.random.default_rng(1).permutation(N) + 1000
    frame.to_csv(tmp_path / "x.csv", index=False)
    other = frame[["customer_id"]].assign(y=Y, age=X[:, 7])
    other[["y", "customer_id"]].sample(frac=1, random_state=0).to_csv(tmp_path / "y.csv", index=False)
    other[["age", "customer_id"]].sample(frac=1, random_state=1).to_csv(tmp_path / "z.csv", index=False)
    files = "--target", f"{tmp_path / 'y.csv'}:y", "--covariates", f"{tmp_path / 'z.csv'}:age"
    result = run("screen", tmp_path / "x.csv", *files, "--keep", "3", "--exact", "--json")
    record = json.loads(result.stdout)
    expected = screen(X[:, :6], Y, Plan.exact(N, 6, 3), covariates=X[:, 7])
    scores = {f["index"]: f["score"] for f in record["features"]}
    assert list(scores) == expected.selected.tolist()
    np.testing.assert_allclose(list(scores.values()), expected.scores[expected.selected], atol=1e-12)
    assert sum("joined on the column 'customer_id' of both" in note for note in record["notes"]) == 2


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("given", ["x", "y", "z"])
@pytest.mark.parametrize("spelling", ["{}.csv", "./../{}/{}.csv", "symbolic.csv", "hard.csv"])
def test_no_output_replaces_an_input(tmp_path, monkeypatch, given, spelling):
    """Neither the data, the target nor the covariates, by any of their names."""
    for name in "xyz":
        (tmp_path / name).mkdir()
        pd.DataFrame({"a": X[:50, 0], "b": Y[:50]}).to_csv(tmp_path / name / f"{name}.csv", index=False)
    monkeypatch.chdir(tmp_path / given)
    os.symlink(f"{given}.csv", "symbolic.csv")
    os.link(f"{given}.csv", "hard.csv")
    before = contents(tmp_path)
    files = ("../x/x.csv", "--target", "../y/y.csv:b", "--covariates", "../z/z.csv:a")
    result = run("screen", *files, "--keep", 1, "--output", spelling.format(given, given))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"would change the input ../{given}/{given}.csv" in said(result)
    assert contents(tmp_path) == before


def test_no_output_is_added_to_a_folder_of_data(folder, tmp_path):
    (tmp_path / "parts").mkdir()
    pd.DataFrame({"a": X[:50, 0], "b": Y[:50]}).to_parquet(tmp_path / "parts" / "1.parquet")
    run("shuffle", folder / "both.npy", tmp_path / "x.shuffled", "--target", "x60", "--quiet")
    before = contents(tmp_path)
    for data, target in {"parts": "b", "x.shuffled": "x60"}.items():
        for option in (("--output", "best.parquet"), ("--report", "new.html"), ("--output", "meta.json")):
            output = tmp_path / "parts" / ".." / data / option[1]
            result = run("screen", tmp_path / data, "--target", target, "--keep", 1, option[0], output)
            assert result.exit_code == 2
            assert "would change the input" in said(result)
    assert contents(tmp_path) == before


def test_outputs_are_checked_before_the_run(folder, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name, message in {"folder.csv": "is a folder", "n" * 300 + ".csv": "File name too long"}.items():
        result = screened(folder, "--output", tmp_path / name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in said(result)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


def start(folder, tmp_path, *options, env=None, **streams):
    """Screen in a real process that writes best.csv."""
    command = [sys.executable, "-m", "banditsis.cli.app", "screen", str(folder / "x.npy"), "--keep", "30"]
    command += ["--target", str(folder / "y.npy"), "--output", str(tmp_path / "best.csv"), *options]
    return subprocess.run(
        command, check=False, env={**os.environ, **(env or {})}, **({"stderr": subprocess.PIPE} | streams)
    )


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_files_are_written_though_nobody_reads_the_output(folder, tmp_path, options):
    reader, writer = os.pipe()
    os.close(reader)
    done = start(folder, tmp_path, *options, stdout=writer)
    assert done.returncode == 141
    assert b"Error" not in done.stderr
    assert len((tmp_path / "best.csv").read_text().splitlines()) == 31
    (tmp_path / "best.csv").unlink()
    done = start(folder, tmp_path, *options, stdout=writer, stderr=writer)
    os.close(writer)
    assert done.returncode == 141
    assert (tmp_path / "best.csv").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_standard_output_is_one_line(folder, tmp_path):
    with open("/dev/full", "w") as full:
        done = start(folder, tmp_path, "--json", stdout=full)
        assert done.returncode == 1
        assert done.stderr == b"error: cannot write to standard output: No space left on device.\n"
        assert (tmp_path / "best.csv").exists()
        (tmp_path / "best.csv").unlink()
        done = start(folder, tmp_path, stdout=subprocess.PIPE, stderr=full)  # messages can be lost
    assert done.returncode == 0
    assert b"2 of 30 clearly associated" in done.stdout
    assert (tmp_path / "best.csv").exists()


def test_closed_streams(folder, tmp_path):
    """Files must not take the place of a closed stream."""
    python = f"{sys.executable} -m banditsis.cli.app screen {folder / 'x.npy'} --target {folder / 'y.npy'}"
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        done = subprocess.run(
            f"{python} --keep 30 --output {tmp_path / 'best.csv'} {closed}", shell=True, capture_output=True
        )
        assert done.returncode == 0
        assert len((tmp_path / "best.csv").read_text().splitlines()) == 31
        assert b"Wrote" not in done.stdout  # a message for the closed stream
        (tmp_path / "best.csv").unlink()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_lines_fit_on_a_terminal(tmp_path):
    frame = pd.DataFrame(X[:50, :9]).rename(
        columns=lambda k: f"{k} is the number of a column, and this is its name"
    )
    frame.assign(y=X[:50, 0]).to_parquet(tmp_path / "x.parquet")
    command = [sys.executable, "-m", "banditsis.cli.app", "screen", "x.parquet", "--target", "y", "--exact"]
    piped = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "0 is the number …" in piped
    assert max(map(len, piped.splitlines())) > 80  # lines of a file are not wrapped
    reader, writer = os.openpty()
    environment = {**os.environ, "COLUMNS": "80"}
    streams = {"stdout": writer, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **streams) as process:
        os.close(writer)
        text = b""
        with suppress(OSError):  # at the end of a terminal
            while part := os.read(reader, 1 << 16):
                text += part
    os.close(reader)
    assert process.returncode == 0
    lines = text.decode().splitlines()
    assert any(re.search(r"1  0 is .*….*name +\+1\.0000 +\S+e-\d+ +leakage\?", line) for line in lines)
    assert max(map(len, lines)) <= 80


HOSTILE = "größe \x1b[31m\x07\x9b2J\u202e"


def test_names_that_cannot_be_encoded(tmp_path):
    frame = pd.DataFrame(X[:50, :2], columns=[HOSTILE, "y"])
    frame.to_parquet(tmp_path / "x.parquet")
    command = [sys.executable, "-m", "banditsis.cli.app", "screen", str(tmp_path / "x.parquet"), "--target"]
    command += ["y", "--exact", "--output", str(tmp_path / "best.csv")]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert rb"gr\xf6\xdfe \x1b[31m\x07\x9b2J\u202e" in done.stdout
    done = subprocess.run([*command, "--json"], capture_output=True, env=environment, check=False)
    assert json.loads(done.stdout)["features"][0]["name"] == HOSTILE


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    """In names of columns, classes and files: in tables, notes, errors, warnings and reports."""
    folder = tmp_path / HOSTILE
    folder.mkdir()
    path, report = folder / f"{HOSTILE}.parquet", folder / "report.html"
    frame = pd.DataFrame(X[:60, :3], columns=[HOSTILE, HOSTILE + "\r\n2", "c"])
    frame["kind"], frame["y"] = HOSTILE, Y[:60]
    frame.loc[::2, "kind"] = "other"
    frame.to_parquet(path)
    commands = [
        ("info", path),
        (
            "screen",
            path,
            "--target",
            "y",
            "--keep",
            5,
            "--report",
            report,
            "-o",
            folder / "o.csv",
        ),
        ("screen", path, "--target", "y"),
        ("screen", path, "--target", HOSTILE),
        ("screen", path, "--target", HOSTILE + "?"),
        ("screen", folder / f"{HOSTILE}?", "--target", "y"),
        ("screen", path, "--target", "kind"),
        ("screen", path, "--target", "y", "--statistic", HOSTILE),
        ("screen", path, "--target", "y", "--output", folder / HOSTILE),
        ("screen", path, "--target", "y", "--keep", HOSTILE),
        ("screen", path, "--target", "y", "--budget", HOSTILE),
        ("shuffle", path, folder / f"{HOSTILE}.shuffled"),
        ("shuffle", path, folder / f"{HOSTILE}.shuffled", "--target", "y"),
        ("plan", "--rows", 10, "--features", 10, "--keep", 1, "--dtype", HOSTILE),
    ]
    for command in commands:
        result = run(*command)
        text = result.stdout + result.stderr
        assert text
        assert not set(text) & set("\x1b\x07\x9b\u202e\r"), command
    assert not set(report.read_text("utf-8")) & set("\x1b\x07\x9b\u202e")
    names = pd.read_csv(folder / "o.csv", lineterminator="\n")["name"]
    assert HOSTILE in set(names)


def test_a_spreadsheet_formula_is_a_name_like_any_other(tmp_path):
    """Names are data: what is written is read back equal."""
    names = ["=1+1", "+a", "-b", "@c", "\td", "'e", 'f"g', "h,i"]
    frame = pd.DataFrame(X[:60, : len(names)], columns=names)
    frame["y"] = Y[:60]
    frame.to_parquet(tmp_path / "x.parquet")
    options = ("--target", "y", "--exact", "--keep", 8, "--output", tmp_path / "o.csv")
    result = run("screen", tmp_path / "x.parquet", *options)
    assert result.exit_code == 0, result.stderr
    assert set(pd.read_csv(tmp_path / "o.csv")["name"]) == set(names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--confidence", 0.9), "--confidence is the probability for --min-correlation"),
        (("--exact", "--row-order", "stored"), "--row-order has no effect with --exact"),
        (("--keep", 3, "--keep", 4), "'--keep': given more than once"),
        (("--alpha", 1, "--budget", 0.1), "error: --alpha and --budget are mutually exclusive"),
        (("--avoid-redundancy", "--fdr", 0.1), "--avoid-redundancy and --fdr are mutually exclusive"),
        (("--avoid-redundancy", "--min-correlation", 0.1), "set --keep too"),
        (("--robust-pvalues", "--weights", "w"), "--robust-pvalues and --weights are mutually exclusive"),
    ],
)
def test_no_option_is_ignored(tmp_path, options, message):
    result = run("screen", tmp_path / "gone.npy", "--target", "y", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_the_smallest_memory_limit(folder, tmp_path):
    result = run("shuffle", folder / "x.npy", tmp_path / "x.shuffled", "--memory-limit", "15MB")
    assert "must be at least 16,000,000 bytes (16 MB), got 15,000,000." in said(result)
    assert run("shuffle", folder / "x.npy", tmp_path / "x.shuffled", "--memory-limit", "16MB").exit_code == 0


def test_messages_name_concepts(folder, tmp_path):
    """A person at the command line does not know X, y and their attributes."""
    frame = pd.DataFrame({"a": X[:50, 0], "b": X[:50, 1], "one": 1.0, "y": Y[:50]})
    frame.to_parquet(tmp_path / "x.parquet")
    frame.assign(y=np.where(np.arange(50) == 3, np.inf, Y[:50])).to_parquet(tmp_path / "infinite.parquet")
    frame[:2].to_parquet(tmp_path / "two.parquet")
    np.save(tmp_path / "complex.npy", Y[:50] * 1j)
    for arguments in (
        ("infinite.parquet", "--target", "y"),
        ("infinite.parquet", "--target", "a"),
        ("two.parquet", "--target", "y"),
        ("x.parquet", "--target", "one"),
        ("x.parquet", "--target", tmp_path / "complex.npy"),
        ("x.parquet", "--target", "y", "--statistic", "cox"),
        ("x.parquet", "--target", "y", "--covariates", "y"),
        ("x.parquet", "--target", "y", "--covariates", tmp_path / "gone.csv"),
        ("x.parquet", "--target", "y", "--min-correlation", 0.1, "--covariates", "a"),
        ("x.parquet", "--target", "y", "--min-correlation", 2),
    ):
        result = run("screen", tmp_path / arguments[0], *arguments[1:])
        assert result.exit_code != 0
        assert re.search(r"^error: .{20}", result.stderr, re.M)
        assert not re.search(
            r"\b[Xy]\b(?!')|_(?!samples)", said(result).split("error: ")[1].replace(str(tmp_path), "")
        )


def test_a_column_of_labels_chooses_anova(tmp_path):
    rng = np.random.default_rng(0)
    kind = np.array(["a", "b", "c"])[np.arange(60) % 3]
    rows = "\n".join(
        f"{(k == 'b') + x:.3f},{z:.3f},{k}" for k, x, z in zip(kind, *rng.normal(size=(2, 60)), strict=True)
    )
    (tmp_path / "data.csv").write_text(f"x,z,kind\n{rows}\n")
    result = run("screen", tmp_path / "data.csv", "--target", "kind", "--keep", 1, "--exact", "--json")
    parameters = json.loads(result.stdout)["parameters"]
    assert parameters["statistic"] == "anova"


def test_codes_for_missing_values(tmp_path):
    rows = np.random.default_rng(0).standard_normal((200, 3)).round(3).astype(str)
    rows[::7, 0], rows[::9, 2] = "-9", "?"
    path = tmp_path / "data.csv"
    path.write_text("a,b,y\n" + "\n".join(map(",".join, rows)) + "\n")
    codes = ["--na", "-9", "--na", "?"]
    done = CliRunner().invoke(
        app, ["screen", str(path), "--target", "y", "--missing", "pairwise", "--exact", "--json", *codes]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["n_rows"] == 200 - len(rows[::9])
    assert CliRunner().invoke(app, ["info", str(path), *codes]).exit_code == 0
    done = CliRunner().invoke(
        app, ["shuffle", str(path), str(tmp_path / "x.shuffled"), "--target", "b", *codes]
    )
    assert done.exit_code == 0, done.output
    np.save(tmp_path / "x.npy", np.eye(9))
    done = CliRunner().invoke(app, ["info", str(tmp_path / "x.npy"), *codes])
    assert done.exit_code == 1
    assert "applies to CSV" in done.output


def _as_text(frame):
    return frame.to_csv(index=False).encode()


def _as_parquet(frame):
    target = io.BytesIO()
    frame.to_parquet(target)
    return target.getvalue()


PIPED = {
    "CSV": _as_text,
    "gzip": lambda frame: gzip.compress(_as_text(frame)),
    "tabs": lambda frame: _as_text(frame).replace(b",", b"\t"),
    "Parquet": _as_parquet,
}


@pytest.mark.parametrize("kind", PIPED)
def test_standard_input(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    frame = pd.DataFrame(X[:, :9], columns=list("abcdefghi")).assign(y=Y)
    data, options = PIPED[kind](frame), ["--target", "y", "--keep", "1", "--exact"]
    done = CliRunner().invoke(app, ["screen", "-", *options, "--verbose"], input=data)
    assert done.exit_code == 0, done.output
    label = "Parquet" if kind == "Parquet" else "CSV"
    assert f"Data:   standard input: {label}, 4,000 rows × 9 features" in done.stderr
    assert done.stdout.startswith("standard input: 4,000 rows, 9 ")
    assert str(tmp_path) not in done.output
    record = json.loads(CliRunner().invoke(app, ["screen", "-", *options, "--json"], input=data).stdout)
    (tmp_path / "file.parquet").write_bytes(_as_parquet(frame))
    file = CliRunner().invoke(app, ["screen", str(tmp_path / "file.parquet"), *options, "--json"])
    names = [
        [feature["name"] for feature in found["features"]] for found in (record, json.loads(file.stdout))
    ]
    assert names[0] == names[1] == ["h"]
    info = json.loads(CliRunner().invoke(app, ["info", "-", "--json"], input=data).stdout)
    assert (info["path"], info["n_rows"]) == ("standard input", N)
    done = CliRunner().invoke(app, ["screen", "-", "--target", "z"], input=data)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: standard input has no column 'z'")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.parquet"]


def test_standard_input_that_cannot_be_read(tmp_path):
    done = CliRunner().invoke(app, ["screen", "-", "--target", "y"], input=b"")
    assert (done.exit_code, done.stderr) == (1, "error: standard input is empty.\n")
    done = CliRunner().invoke(app, ["screen", "-", "--target", "y"], input=b"\xff\xff\xff\xff" + bytes(40))
    assert "standard input is an Arrow stream" in done.stderr
    done = CliRunner().invoke(app, ["screen", "-", "--target", "y", "--scheduler", "tcp://127.0.0.1:1"])
    assert done.exit_code == 2
    assert "workers cannot read standard input" in done.stderr
    done = CliRunner().invoke(app, ["shuffle", "-", str(tmp_path / "x.shuffled")], input=b"a\n1\n")
    assert done.exit_code == 2
    assert "cannot read standard input: name a file" in done.stderr


def test_selection_by_false_discovery_rate(folder):
    expected = screen(X, Y, Plan.exact(N, P, P)).select(0.01)
    for plan in (), ("--exact",), ("--alpha", 0.5):
        record = json.loads(screened(folder, *plan, "--fdr", 0.01, "--json").stdout)
        assert {feature["index"] for feature in record["features"]} == set(expected)
        assert (record["fraction_read"] == 1) == (plan != ("--alpha", 0.5))
        assert any("needs the p-value of every feature" in note for note in record["notes"]) == (not plan)
    printed = " ".join(screened(folder, "--fdr", 0.01).stdout.split())
    assert f"{len(expected)} discoveries at a false discovery rate of 1%" in printed
    assert "was kept" not in printed
    for options, message in (
        (("--fdr", 0.1, "--keep", 3), "--keep and --fdr are mutually exclusive"),
        (("--fdr", 2), "--fdr must be in (0, 1), got 2"),
    ):
        result = screened(folder, *options)
        assert result.exit_code == 2
        assert message in said(result)


def test_survival_times(tmp_path):
    """Time and event are two targets of one response; rows that lack one of them are left out."""
    local = np.random.default_rng(4)
    n = 200
    Z = local.standard_normal((n, 6))
    death, censored = local.exponential(np.exp(-Z[:, 2])), local.exponential(2.0, n)
    frame = pd.DataFrame(Z, columns=list("abcdef"))
    frame["months"], frame["died"] = np.minimum(death, censored), (death <= censored).astype(float)
    frame.loc[3, "months"] = frame.loc[7, "died"] = np.nan
    path, output, report = tmp_path / "x.csv", tmp_path / "best.csv", tmp_path / "report.html"
    frame.to_csv(path, index=False)
    options = ("--statistic", "cox", "--exact", "--keep", 2)
    written = ("-o", output, "--report", report)
    command = ("screen", path, "--target", "months", "--target", "died", *options)
    result = run(*command, *written)
    assert result.exit_code == 0, result.stderr
    known = frame.dropna()
    expected = SIS(2, statistic="cox").fit(known[list("abcdef")], known[["months", "died"]]).result_
    table = pd.read_csv(output)
    assert list(table["name"]) == expected.selected_names
    np.testing.assert_allclose(table["score"], expected.scores[expected.selected], rtol=1e-12)
    assert expected.selected_names[0] in result.stdout
    assert "months, died" in report.read_text("utf-8")
    record = json.loads(run(*command, "--json").stdout)
    assert (record["response"], record["n_rows"]) == ("months, died", n - 2)
    for targets in (("--target", "months"), ("--target", "a", "--target", "b", "--target", "c"), ()):
        failed = run("screen", path, *targets, *options)
        assert failed.exit_code == 2
        assert (
            f"needs two targets, the time and the event (1, or 0 if censored), got {len(targets) // 2}"
            in (said(failed))
        )


def test_info_counts_features_and_stored_bytes(tmp_path):
    """The target is not a feature, and a column of another type does not change the size of the others."""
    frame = pd.DataFrame(X[:500, :8].astype("f4"), columns=list("abcdefgh")).assign(y=Y[:500])
    path = tmp_path / "x.parquet"
    frame.to_parquet(path)
    record = json.loads(run("info", path, "--target", "y", "--json").stdout)
    assert (record["n_features"], record["target"]) == (8, "y")
    assert (record["dtype"], record["bytes"]) == ("float32", 500 * 8 * 4)
    assert record["stored_bytes"] == path.stat().st_size
    record = json.loads(run("info", path, "--json").stdout)
    assert (record["dtype"], record["bytes"]) == ("float32 and float64", 500 * (8 * 4 + 8))
    assert record["costs"][0]["bytes"] == record["bytes"]
    assert "counts as a feature: set --target" in " ".join(run("info", path).stdout.split())
    np.save(tmp_path / "y.npy", Y[:500])
    record = json.loads(run("info", path, "--target", tmp_path / "y.npy", "--json").stdout)
    assert record["n_features"] == 9


@pytest.mark.parametrize(
    ("chunks", "order"), [((10, 50), "rows"), ((500, 1), "columns"), ((50, 50), "blocks")]
)
def test_info_names_the_order_of_chunks(tmp_path, chunks, order):
    path = files.write_zarr(X[:500, :50], [f"g{j}" for j in range(50)], chunks=chunks)
    assert json.loads(run("info", path, "--json").stdout)["memory_order"] == order
    np.save(tmp_path / "x.npy", X[:500])
    assert json.loads(run("info", tmp_path / "x.npy", "--json").stdout)["memory_order"] == "rows"
    np.save(tmp_path / "x.npy", np.asfortranarray(X[:500]))
    assert json.loads(run("info", tmp_path / "x.npy", "--json").stdout)["memory_order"] == "columns"


@pytest.fixture(scope="module")
def churn(tmp_path_factory):
    return files.churn_table(tmp_path_factory.mktemp("churn") / "churn.csv")


def test_a_table_as_most_are(churn):
    """Text with few levels is encoded, and one note says what was skipped and how to use it."""
    command = (
        "screen",
        churn,
        "--target",
        "churn",
        "--keep",
        8,
        "--exact",
        "--missing",
        "pairwise",
        "--json",
    )
    record = json.loads(run(*command).stdout)
    assert record["n_features"] == 63
    assert {feature["name"] for feature in record["features"][:2]} == {"f7", "f3"}
    assert record["features"][2]["name"] == "city=Oslo"
    skipped = [note for note in record["notes"] if "skipped" in note]
    assert skipped == record["notes"][:1]
    assert skipped == ["skipped customer_id (id), signup (dates); to use them: --columns …, --dates numeric."]
    source = open_data(churn, "churn", one_hot=50).features
    contents = "60 numeric features and city (3 levels); skipped customer_id (id), signup (dates)"
    assert source.contents == contents
    assert take_rows(source, np.arange(100)).contents == contents
    assert json.loads(run(*command, "--one-hot", 0).stdout)["n_features"] == 60
    assert json.loads(run(*command, "--one-hot", 2).stdout)["n_features"] == 60


def test_numbers_with_blanks_as_target(tmp_path):
    """11 blanks in 7,043 rows made a column of amounts a text with 6,500 classes."""
    local = np.random.default_rng(1)
    tenure, monthly = local.integers(0, 73, 7043), local.uniform(18, 119, 7043).round(2)
    total = (tenure * monthly).round(2).astype(str)
    total[local.choice(7043, 11, replace=False)] = " "
    frame = pd.DataFrame({"tenure": tenure, "MonthlyCharges": monthly, "TotalCharges": total})
    path = tmp_path / "telco.csv"
    frame.to_csv(path, index=False)
    record = json.loads(
        run("screen", path, "--target", "TotalCharges", "--exact", "--keep", 2, "--json").stdout
    )
    assert record["n_rows"] == 7043 - 11
    known = total != " "
    r = [np.corrcoef(x[known], total[known].astype(float))[0, 1] for x in (tenure, monthly)]
    found = {feature["name"]: feature["score"] for feature in record["features"]}
    assert [found["tenure"], found["MonthlyCharges"]] == pytest.approx(r)
    frame["TotalCharges"] = frame["TotalCharges"].replace(" ", "unknown")
    frame.to_csv(path, index=False)
    failed = run("screen", path, "--target", "TotalCharges")
    assert failed.exit_code == 1
    assert "text with " in said(failed)
    assert "such as 'unknown'" in said(failed)
    record = run("screen", path, "--target", "TotalCharges", "--na", "unknown", "--exact", "--json")
    assert json.loads(record.stdout)["n_rows"] == 7043 - 11
