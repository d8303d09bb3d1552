"""The command screen: what it prints and writes, and that it gives the results of Python."""

import csv
import json
import re

import numpy as np
import pandas as pd
import pytest
from command_line import N, P, X, Y, run, said, screened

from banditsis import SIS, Interactions, Plan, open_data, screen
from files import churn_table


def test_a_readable_result(folder):
    result = screened(folder, "--keep", 5, "--alpha", 1)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert f"{folder / 'x.npy'}: 4,000 rows, 60 features\n" in result.stdout
    assert re.search(r"y.npy: mean -?0\.\d+, from -[\d.]+ to [\d.]+\n", result.stdout)
    assert re.search(r"rank +feature +score +95% interval\n +1 +x(7|42) .* clear\n", result.stdout)
    assert "2 of 5 clearly associated; the other 3 are unclear.\n" in result.stdout
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
    assert rest[8] == f"{n} of 8 clearly associated; the other {8 - n} are unclear."
    assert rest[9].startswith("All rows were read, because that is about as fast")
    assert len(rest) - 10 <= 3
    report = (tmp_path / "out.html").read_text("utf-8")
    for line in (target, rest[8], rest[9]):
        assert line in report
    words = " ".join(map(str, command)).replace("screen", "banditsis screen", 1)
    assert f"<code>{words} --report out.html</code>" in report
    everything = run(*command[:-1], 60).stdout
    assert re.search(r"\b1 feature has missing values, in up to 3% of the rows\.", everything)
    record = json.loads(run(*command, "--json").stdout)
    assert record["parameters"]["positive_class"] == "Yes"
    assert [feature["name"] for feature in record["features"]] == list(rows)


def test_several_targets_are_compact(tmp_path):
    """They share a pass, and what they have in common is printed once; classes are listed."""
    frame = pd.DataFrame(X[:, :9], columns=list("abcdefghi"))
    frame["y"], frame["z"] = frame["d"] + frame["a"] / 2, frame["f"] - frame["a"] / 2
    frame["kind"] = np.where(frame["z"] > 0, "case", "control")
    frame["grade"] = np.digitize(frame["y"], [-1, 1])
    frame.to_parquet(tmp_path / "x.parquet")
    command = ("screen", tmp_path / "x.parquet", "--keep", 7, "--target")
    text = run(*command, "y", "--target", "z", "--drop", "kind,grade").stdout
    assert re.search(r"^y: mean -?0\.\d+, from .*\n\n.*\n +1  d +\+0\.\d+ .* clear$", text, re.M)
    assert re.search(r"^z: mean -?0\.\d+, from .*\n\n.*\n +1  f +\+0\.\d+ .* clear$", text, re.M)
    assert text.count("All rows were read") == 1
    assert text.count("… and 2 more") == 2
    frame.loc[:9, "z"] = np.nan
    frame.to_parquet(tmp_path / "x.parquet")
    text = run(*command, "y", "--target", "z", "--drop", "kind,grade").stdout
    assert text.count("Note: 10 rows were left out, because their response is missing.") == 1
    text = run(*command, "z", "--drop", "kind,grade").stdout
    assert "Note: the target is the column 'z' of the data: 3,990 of 4,000 rows have a value." in text
    text = run(*command, "kind", "--drop", "grade").stdout
    assert re.search(r"^kind: control \d\d%, case \d\d%; a positive score goes with control$", text, re.M)
    for options, line in ((), r"mean [\d.]+, from 0 to 2"), (("--statistic", "anova"), r"1 \d\d%, .*"):
        text = run(*command, "grade", "--drop", "kind", *options).stdout
        assert re.search(rf"^grade: {line}$", text, re.M)
        assert ("treated as numbers: if they are classes, set --statistic anova." in text) == (not options)
    frame["label"] = np.array(["a", "b", "c"])[frame["grade"]]
    frame.to_parquet(tmp_path / "x.parquet")
    labels = json.loads(run(*command, "label", "--drop", "kind,grade", "--json").stdout)
    assert labels["parameters"]["statistic"] == "anova"
    mixed = run(*command, "y", "--target", "kind")
    assert mixed.exit_code == 1
    assert "the targets are numbers and labels: screen them one" in said(mixed)


def test_what_few_readers_need_is_printed_with_verbose(folder):
    options = ("--keep", 5, "--alpha", 1, "--pvalues")
    plain, verbose = screened(folder, *options), screened(folder, *options, "-v")
    for part in (
        r"Plan 'paper' took",
        "seed 0",
        r"round +rows",
        r"interval +p +adjusted p\n",
    ):
        assert not re.search(part, plain.stdout + plain.stderr)
        assert re.search(part, verbose.stdout + verbose.stderr)


def test_iterations_find_what_matters_only_jointly(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 60))
    X[:, 3] = X[:, :3].sum(axis=1) / 2 + X[:, 3] / 2
    y = X[:, :3].sum(axis=1) - 1.5 * X[:, 3] + rng.standard_normal(500) / 4
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(60)]).assign(y=y)
    frame.to_parquet(tmp_path / "x.parquet")
    command = ("screen", tmp_path / "x.parquet", "--target", "y", "--keep", 8, "--json")
    names = [feature["name"] for feature in json.loads(run(*command, "--exact").stdout)["features"]]
    assert "g3" not in names
    for options in ((), ("--exact",)):
        found = json.loads(run(*command, "--iterative", *options).stdout)
        assert {"g0", "g1", "g2", "g3"} <= {feature["name"] for feature in found["features"]}
        assert found["parameters"]["iterations"] == len(found["rounds"]) > 1


def test_at_most_three_notes(tmp_path):
    """A possible leak comes first; the rest are in JSON and with --verbose, in words of the command line."""
    frame = pd.DataFrame(X[:300, :6].copy(), columns=list("abcdef"))
    frame["y"], frame["copy"] = np.arange(300) % 3, np.arange(300) % 3
    frame.loc[:250, "f"] = np.nan
    frame.loc[:4, "y"] = np.nan
    frame["w"] = np.arange(300) % 5
    frame["text"] = [f"name {k}" for k in range(300)]
    frame.to_parquet(tmp_path / "x.parquet")
    command = (
        "screen",
        tmp_path / "x.parquet",
        "--target",
        "y",
        "--sample-weight",
        "w",
        "--alpha",
        1,
        "--keep",
        3,
    )
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
    assert record["features"][0].keys() == set(expected.to_frame())
    assert record["detection_floor"] == pytest.approx(expected.detection_floor())
    assert record["cells_read"] == expected.cells_read
    assert result.stderr == ""
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
        assert re.search(rf"features have missing values, in up to \d% of the {rows}\.", result.stdout)
    assert "present" in run("screen", folder / "gaps.npy", *gaps, "--verbose").stdout
    complete = run("screen", folder / "x.npy", *gaps, "--alpha", 1).stdout
    assert "Detection floor: 0." in complete  # which needs complete data
    guarantee = run("screen", folder / "gaps.npy", *gaps, "--min-correlation", 0.4)
    assert "contain NaN" in said(guarantee)


def test_covariates_pvalues_and_interactions(folder, tmp_path):
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
        "screen", tmp_path / "x.npy", "--target", folder / "y.npy", *options, "--sample-weight", f"x{P}"
    )
    (tmp_path / "w.csv").write_text("age,w\n" + "".join(f"1,{value}\n" for value in weights))
    from_file = screened(folder, *options, "--sample-weight", f"{tmp_path}/w.csv:w")
    expected = screen(X, Y, Plan.exact(N, P, 2), sample_weight=weights)
    for result in (from_data, from_file):
        record = json.loads(result.stdout)
        assert record["n_features"] == P
        assert record["parameters"]["sample_weight"] is True
        scores = [feature["score"] for feature in record["features"]]
        assert scores == pytest.approx(expected.scores[expected.selected], rel=1e-6)
    result = screened(folder, "--sample-weight", f"{tmp_path}/w.csv:age,w")
    assert (result.exit_code, "w.csv has no column 'age,w'" in said(result)) == (1, True)


def test_features_that_are_not_redundant(tmp_path):
    np.save(tmp_path / "x.npy", np.column_stack([X, X[:, 7] + 0.01 * X[:, 8]]))
    np.save(tmp_path / "y.npy", Y)
    command = ("screen", tmp_path / "x.npy", "--target", tmp_path / "y.npy", "--exact", "--keep", 2)
    result = run(*command, "--avoid-redundancy", "--json")
    (first, second) = (feature["index"] for feature in json.loads(result.stdout)["features"])
    assert {7, P} & {first, second}
    assert 42 in {first, second}
    assert "chosen among the" in run(*command, "--avoid-redundancy").stdout


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_all_features_are_written(folder, tmp_path, ending):
    """With p-values of all, without selecting all."""
    file = tmp_path / f"all.{ending}"
    result = screened(folder, "--exact", "--pvalues", "--keep", 2, "--output", file, "--all-features")
    assert result.exit_code == 0, result.stderr
    assert "2 of 2 clearly associated" in result.stdout.lower()
    written = pd.read_csv(file, keep_default_na=False) if ending == "csv" else pd.read_parquet(file)
    given = {"missing": "pairwise", "pvalues": True}
    expected = screen(X, Y, Plan.exact(N, P, 2), **given).to_frame(all_features=True)
    assert list(written) == list(expected)
    assert written["name"].tolist() == expected["name"].tolist()
    np.testing.assert_allclose(written["log10_pvalue"], expected["log10_pvalue"])
    np.testing.assert_array_equal(written["rank"], np.arange(1, P + 1))
    marks = ["true", "true", *[""] * 58] if ending == "csv" else [True, True, *[None] * 58]
    assert written["associated"].astype(object).tolist() == marks  # only selected features are marked


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


def test_covariates_with_text_and_missing_values(tmp_path):
    """Features with gaps; the target and covariates, of which one is text, are joined by the ids of all."""
    x = np.where(np.random.default_rng(0).random((500, 6)) < 0.03, np.nan, X[:500, :6])
    batch = np.array(["u", "v", "w"])[np.arange(500) % 3]
    frame = pd.DataFrame(x, columns=list("abcdef")).assign(key=np.arange(500) + 1000)
    frame.to_csv(tmp_path / "x.csv", index=False)
    target = frame[["key"]].assign(y=Y[:500]).sample(frac=1, random_state=0)
    target.to_csv(tmp_path / "y.csv", index=False)
    aside = pd.DataFrame({"key": frame["key"], "age": X[:500, 7], "batch": batch})
    aside.loc[4, "age"], aside.loc[9, "batch"] = np.nan, None
    aside.sample(frac=1, random_state=1).to_csv(tmp_path / "z.csv", index=False)
    aside.to_csv(tmp_path / "z.cov", sep="\t", index=False, na_rep="NA")
    data = ("screen", tmp_path / "x.csv", "--target", f"{tmp_path / 'y.csv'}:y", "--id-column", "key")
    command = (*data, "--exact", "--keep", 3, "--json", "--covariates")
    record = json.loads(run(*command, f"{tmp_path}/z.csv:age,batch").stdout)
    known = aside.notna().all(axis=1).to_numpy()
    numbers = np.column_stack([X[:500, 7], batch == "v", batch == "w"])[known]
    plan = Plan.exact(known.sum(), 6, 3)
    expected = screen(x[known], Y[:500][known], plan, covariates=numbers, missing="pairwise")
    for feature in record["features"]:
        assert feature["score"] == pytest.approx(expected.scores["abcdef".index(feature["name"])], abs=1e-9)
    assert "covariate 'batch' was expanded into 2 indicator columns." in record["notes"]
    assert "2 rows with missing covariates were omitted." in record["notes"]
    again = json.loads(run(*command, f"{tmp_path}/z.cov").stdout)  # all columns but the id
    assert again["features"] == record["features"]
    result = run(*command, f"{tmp_path}/z.csv:age,batch", "--missing", "raise")
    assert "covariates contain NaN in row 4, column 'age'" in said(result)
    assert "--missing pairwise" in said(result)


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
    targets = ("--target", "months", "--target", "died", "--statistic", "cox")
    command = ("screen", path, *targets, "--exact", "--keep", 2, "-o", output, "--report", report, "--json")
    record = json.loads(run(*command).stdout)
    assert (record["response"], record["n_rows"]) == ("months, died", n - 2)
    assert re.fullmatch(r"\d+ events", record["response_summary"])
    known = frame.dropna()
    expected = SIS(2, statistic="cox").fit(known[list("abcdef")], known[["months", "died"]]).result_
    table = pd.read_csv(output)
    assert list(table["name"]) == expected.selected_names
    np.testing.assert_allclose(table["score"], expected.scores[expected.selected], rtol=1e-12)
    assert "months, died" in report.read_text("utf-8")


def test_a_table_as_most_are(tmp_path):
    """Text with few levels is encoded, blanks are missing numbers, and a note says what was skipped."""
    path = churn_table(tmp_path / "churn.csv")
    command = ("screen", path, "--target", "churn", "--keep", 8, "--exact", "--json")
    record = json.loads(run(*command).stdout)
    assert record["n_features"] == 63
    assert [feature["name"] for feature in record["features"][:3]] == ["f7", "f3", "city=Oslo"]
    skipped = [note for note in record["notes"] if "skipped" in note]
    assert skipped == ["skipped customer_id (id), signup (dates); to use them: --columns …, --dates numeric."]
    contents = "60 numeric features and city (3 levels); skipped customer_id (id), signup (dates)"
    assert open_data(path, "churn", one_hot=50).features.contents == record["contents"] == contents
    assert json.loads(run(*command, "--one-hot", 2).stdout)["n_features"] == 60
    total = (X[:500, 0] + X[:500, 1]).round(2).astype(str)
    total[::50] = " "
    frame = pd.DataFrame(X[:500, :2], columns=["a", "b"]).assign(total=total)
    frame.to_csv(path, index=False)
    command = ("screen", path, "--target", "total", "--exact", "--json")
    record = json.loads(run(*command).stdout)
    assert record["n_rows"] == 490
    frame["total"] = frame["total"].replace(" ", "unknown")
    frame.to_csv(path, index=False)
    assert "such as 'unknown'" in said(run(*command))
    assert json.loads(run(*command, "--na", "unknown").stdout)["n_rows"] == 490


def test_scores_and_stability_by_a_column(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((3000, 6)), columns=list("abcdef"))
    frame["bad"] = frame["a"] + rng.standard_normal(3000) > 1
    month = np.array(["2024-01", "2024-02", "2024-03"])[np.arange(3000) % 3]
    path, out = tmp_path / "loans.parquet", tmp_path / "best.csv"
    frame.assign(month=month).to_parquet(path)
    command = ("screen", path, "--target", "bad", "--statistic", "information_value", "--keep", 2, "--exact")
    result = run(*command, "--by", "month", "--output", out)
    assert result.exit_code == 0, result.stderr
    assert max(map(len, result.stdout.splitlines()[3:])) <= 80
    X, y = frame.drop(columns="bad"), frame["bad"]
    expected = screen(X, y, Plan.exact(3000, 6, 2), statistic="information_value", by=month).to_frame()
    found = pd.read_csv(out)
    expected = expected.drop(columns="flag")
    pd.testing.assert_frame_equal(found[expected.columns], expected, check_dtype=False)
    assert {"score 2024-01", "psi 2024-03"} <= set(found)
    largest = found[["psi 2024-02", "psi 2024-03"]].max(axis=1)
    lines = [line for line in result.stdout.splitlines() if line.endswith(tuple(f"{x:.3f}" for x in largest))]
    assert "largest PSI" in result.stdout
    assert len(lines) == 2
    assert "mutually exclusive" in run(*command, "--by", "month", "--covariates", "b").stderr
