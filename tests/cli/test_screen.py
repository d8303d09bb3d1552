"""The command screen: what it prints and writes, and that it gives the results of Python."""

import re

import numpy as np
import pandas as pd
import pytest
from command_line import N, P, X, Y, in_file, message, printed, read_json, run, selected

from banditsis import SIS, Interactions, Plan, open_data, screen
from files import churn_table


def test_a_readable_result(folder):
    result = run(*in_file(folder, "--keep", 5, "--alpha", 1))
    assert (result.exit_code, result.stderr) == (0, "")
    for part in (
        rf"^{folder / 'x.npy'}: 4,000 rows, 60 features\n",
        r"y.npy: mean -?0\.\d+, from -[\d.]+ to [\d.]+\n",
        r"rank +feature +score +95% interval\n +1 +x(7|42) .* clear\n",
        r"\n2 of 5 clearly associated; the other 3 are unclear.\n",
        r"\n[\d.]+% of the cells were read\. Detection floor: 0\.",
        "y.npy was taken in row order.",
    ):
        assert re.search(part, result.stdout)
    options = ("--keep", 5, "--alpha", 1, "--pvalues")
    plain, verbose = run(*in_file(folder, *options)).stdout, run(*in_file(folder, *options, "-v")).stdout
    for part in (r"Plan 'paper' took", "seed 0", r"round +rows", r"interval +p +adjusted p\n"):
        assert not re.search(part, plain)
        assert re.search(part, verbose)


def test_the_first_command(tmp_path, monkeypatch):
    """A table with gaps, a factor, a date and an id: the answer without any option, in signed scores."""
    monkeypatch.chdir(tmp_path)
    churn_table("churn.csv")
    command = ("screen", "churn.csv", "--target", "churn", "--keep", 8)
    result = run(*command, "--report", "out.html")
    assert (result.exit_code, result.stderr) == (0, "Wrote out.html.\n")
    data, target, empty, heading, *rest = result.stdout.splitlines()
    assert data.startswith("churn.csv: 20,000 rows, ")
    assert target == "churn: Yes 24%, No 76%; a positive score goes with Yes"
    assert (empty, heading.split()) == ("", ["rank", "feature", "score", "p"])
    line = re.compile(r" +\d +(\S+) +([+-]0\.\d{4}) +(\S+) +(clear|unclear)")
    rows = {match[1]: match for match in map(line.fullmatch, rest[:8])}
    frame = pd.read_csv("churn.csv")
    for name in rows.keys() & set(frame):
        r = frame[name].corr(1.0 * (frame["churn"] == "Yes"))
        assert float(rows[name][2]) == pytest.approx(r, abs=2e-4)
    assert float(rows["f7"][2]) < -0.3 < 0.3 < float(rows["f3"][2])
    clear = {name for name, match in rows.items() if match[4] == "clear"}
    assert {"f7", "f3"} <= clear <= {"f7", "f3", "city=Oslo", "city=Bergen", "city=Tromsø"}
    assert re.fullmatch(r"[\d.]+e-\d{3}", rows["f7"][3])  # and not 0
    n = len(clear)
    assert rest[8] == f"{n} of 8 clearly associated; the other {8 - n} are unclear."
    assert rest[9].startswith("All rows were read, because that is about as fast")
    assert len(rest) - 10 <= 3
    words = " ".join(map(str, command))
    for part in (target, rest[8], rest[9], f"<code>banditsis {words} --report out.html</code>"):
        assert part in (tmp_path / "out.html").read_text("utf-8")
    assert " 1 feature has missing values, in up to 3% of the rows." in printed(*command[:-1], 60)
    record = read_json(*command)
    assert record["parameters"]["positive_class"] == "Yes"
    assert [feature["name"] for feature in record["features"]] == list(rows)


def test_several_targets_are_compact(tmp_path):
    """They share a pass, and what they have in common is printed once; classes are listed."""
    frame = pd.DataFrame(X[:, :9], columns=list("abcdefghi"))
    frame["y"], frame["z"] = frame["d"] + frame["a"] / 2, frame["f"] - frame["a"] / 2
    frame["kind"] = np.where(frame["z"] > 0, "case", "control")
    frame["grade"] = np.digitize(frame["y"], [-1, 1])
    frame["label"] = np.array(["a", "b", "c"])[frame["grade"]]

    def print_result(*options, **changed):
        frame.assign(**changed).to_parquet(tmp_path / "x.parquet")
        return run("screen", tmp_path / "x.parquet", "--keep", 7, "--target", *options)

    both = ("y", "--target", "z", "--drop", "kind,grade,label")
    text = print_result(*both).stdout
    for target, best in (("y", "d"), ("z", "f")):
        line = rf"^{target}: mean -?0\.\d+, from .*\n\n.*\n +1  {best} +\+0\.\d+ .* clear$"
        assert re.search(line, text, re.M)
    assert (text.count("All rows were read"), text.count("… and 2 more")) == (1, 2)
    gaps = frame["z"].where(np.arange(N) > 9)
    text = print_result(*both, z=gaps).stdout
    assert text.count("Note: 10 rows were left out, because their response is missing.") == 1
    text = print_result("z", "--drop", "kind,grade,label", z=gaps).stdout
    assert "Note: the target is the column 'z' of the data: 3,990 of 4,000 rows have a value." in text
    text = print_result("kind", "--drop", "grade").stdout
    assert re.search(r"^kind: control \d\d%, case \d\d%; a positive score goes with control$", text, re.M)
    for options, line in ((), r"mean [\d.]+, from 0 to 2"), (("--statistic", "anova"), r"1 \d\d%, .*"):
        text = print_result("grade", "--drop", "kind,label", *options).stdout
        assert re.search(rf"^grade: {line}$", text, re.M)
        assert ("treated as numbers: if they are classes, set --statistic anova." in text) == (not options)
    assert "so the statistic is 'anova'" in print_result("label", "--drop", "grade").stdout
    mixed = print_result("y", "--target", "kind")
    assert (mixed.exit_code, "numbers and labels: screen them one by one" in mixed.stderr) == (1, True)


def test_iterations_and_features_that_are_not_redundant(tmp_path):
    """Iterations find what matters only jointly."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 60))
    X[:, 3] = X[:, :4].sum(axis=1) / 2
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X[:, :3].sum(axis=1) - 1.5 * X[:, 3] + rng.standard_normal(500) / 4)
    assert 3 not in selected(read_json(*in_file(tmp_path, "--keep", 8, "--exact")))
    for options in ((), ("--exact",)):
        found = read_json(*in_file(tmp_path, "--keep", 8, "--iterative", *options))
        assert {0, 1, 2, 3} <= selected(found)
        assert found["parameters"]["iterations"] == len(found["rounds"]) > 1
    X[:, 7:9], y = X[:, 8:9] + 0.01 * X[:, 7:9], X[:, 8] + X[:, 42] / 2
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y)
    found = read_json(*in_file(tmp_path, "--exact", "--keep", 2, "--avoid-redundancy"))
    assert selected(found) in ({7, 42}, {8, 42})
    assert any("chosen among the" in note for note in found["notes"])


def test_at_most_three_notes(tmp_path):
    """A possible leak is among them; the rest are in JSON and with --verbose, as the command line says it."""
    path, rows = tmp_path / "x.parquet", np.arange(300)
    frame = pd.DataFrame(X[:300, :6].copy(), columns=list("abcdef"))
    frame.loc[:250, "f"] = np.nan
    columns = {"y": np.where(rows < 5, np.nan, rows % 3), "copy": rows % 3, "w": rows % 5}
    frame.assign(**columns, text=[f"name {k}" for k in rows]).to_parquet(path)
    command = ("screen", path, "--target", "y", "--sample-weight", "w", "--alpha", 1, "--keep", 3)
    notes = read_json(*command)["notes"]
    assert len(notes) > 4
    text = run(*command).stdout
    assert (text.count("Note: "), text.count("Note: possible leakage: 'copy'")) == (3, 1)
    assert re.search(r"more notes?: use --verbose", text)
    told = [note for note in notes if note.startswith("all rows were read")]  # before the notes
    assert run(*command, "--verbose").stdout.count("Note: ") == len(notes) - len(told)
    assert any("set --statistic anova" in note for note in notes)
    assert not [note for note in notes if re.search(r"\w=['\"T]", note)]


def test_plans(folder):
    choices = {("--exact",): "exact", ("--budget", 0.3): "optimal", ("--budget", 100_000): "optimal"}
    choices |= {("--min-correlation", 0.4): "guaranteed", (): "exact"}  # as fast for such small data
    for options, plan in choices.items():
        record = read_json(*in_file(folder, "--keep", 2, *options))
        assert (record["parameters"]["plan"], selected(record)) == (plan, {7, 42})
    assert len(read_json(*in_file(folder))["features"]) == 30


def test_json_has_the_result_of_python(folder):
    record = read_json(*in_file(folder, "--keep", 5, "--alpha", 0.7))
    expected = screen(X, Y, Plan.paper(N, P, 5, 0.7), random_state=0)
    assert [feature["index"] for feature in record["features"]] == expected.selected.tolist()
    assert record["features"][0].keys() == set(expected.to_frame())
    assert record["detection_floor"] == pytest.approx(expected.detection_floor())
    assert record["cells_read"] == expected.cells_read
    for target in ("x60", "61"):
        both = ("screen", folder / "both.npy", "--target", target, "--keep", 2, "--exact")
        assert selected(read_json(*both)) == {7, 42}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_are_written(folder, tmp_path, ending):
    """With p-values of all features, without selecting all."""
    file, options = tmp_path / f"out.{ending}", ("--exact", "--pvalues", "--keep", 2, "--quiet", "--output")
    expected = screen(X, Y, exact=True, keep=2, missing="pairwise", pvalues=True)
    for more, everything in ((), False), (("--all-features",), True):
        result = run(*in_file(folder, *options, file, *more))
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
        written = pd.read_csv(file, keep_default_na=False) if ending == "csv" else pd.read_parquet(file)
        frame = expected.to_frame(all_features=everything)
        assert (list(written), list(written["name"])) == (list(frame), list(frame["name"]))
        np.testing.assert_allclose(written["log10_pvalue"], frame["log10_pvalue"])
    marks = ["true", "true", *[""] * 58] if ending == "csv" else [True, True, *[None] * 58]
    assert written["associated"].astype(object).tolist() == marks  # only selected features are marked
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_missing_values(folder):
    gaps = ("screen", folder / "gaps.npy", "--target", folder / "y.npy", "--keep", 2)
    remedy = "contain NaN in column.*set --missing pairwise to ignore missing values, or impute them first"
    assert re.search(remedy, message(1, *gaps, "--missing", "raise"))
    for options, rows in ((), "rows"), (("--alpha", 1), "rows read"), (("--exact",), "rows"):
        note = rf"features have missing values, in up to \d% of the {rows}\."
        assert re.search(note, printed(*gaps, *options))
    assert "present" in printed(*gaps, "--verbose")
    assert "contain NaN" in message(1, *gaps, "--min-correlation", 0.4)  # a guarantee needs complete data


def test_covariates_weights_and_interactions(folder, tmp_path):
    """As columns of the data and of other files; they are not features."""
    weights, options = np.arange(N) % 3, ("--exact", "--keep", 2)
    lines = [f"1,{value!r},{weight}" for value, weight in zip(X[:, 7].tolist(), weights, strict=True)]
    (tmp_path / "z.csv").write_text("\n".join(["age,seven,w", *lines]))
    np.save(tmp_path / "x.npy", np.column_stack([X, weights]))
    np.save(tmp_path / "y.npy", Y)
    adjusted = screen(X, Y, 2, exact=True, covariates=X[:, 7])
    weighted = screen(X, Y, 2, exact=True, sample_weight=weights)
    for given, expected, place in (
        (("--covariates", "x7", "--drop", f"x{P}"), adjusted, tmp_path),
        (("--covariates", f"{tmp_path}/z.csv:seven,age"), adjusted, folder),
        (("--sample-weight", f"x{P}"), weighted, tmp_path),
        (("--sample-weight", f"{tmp_path}/z.csv:w"), weighted, folder),
    ):
        record = read_json(*in_file(place, *options, *given))
        assert record["n_features"] == P - (given[1] == "x7")
        found = {feature["name"]: feature["score"] for feature in record["features"]}
        assert found["x42"] == pytest.approx(expected.scores[42], rel=1e-6)
    assert record["parameters"]["sample_weight"] is True
    wrong = in_file(folder, "--sample-weight", f"{tmp_path}/z.csv:age,w")
    assert "z.csv has no column 'age,w'" in message(1, *wrong)
    np.save(tmp_path / "x.npy", X[:, :8])
    np.save(tmp_path / "y.npy", X[:, 2] * X[:, 5])
    record = read_json(*in_file(tmp_path, "--interactions", "--exact", "--keep", 1))
    assert record["features"][0]["name"] == "x2 × x5"
    assert Interactions(X[:, :8]).shape[1] == record["n_features"]


def test_selection_by_false_discovery_rate(folder):
    expected = screen(X, Y, Plan.exact(N, P, P)).select(0.01)
    for plan in (), ("--exact",), ("--alpha", 0.5):
        record = read_json(*in_file(folder, *plan, "--fdr", 0.01))
        assert selected(record) == set(expected)
        assert (record["fraction_read"] == 1) == (plan != ("--alpha", 0.5))
        assert any("needs the p-value of every feature" in note for note in record["notes"]) == (not plan)
    text = printed(*in_file(folder, "--fdr", 0.01))
    assert f"{len(expected)} discoveries at a false discovery rate of 1%" in text
    assert "was kept" not in text


def test_covariates_with_text_and_missing_values(tmp_path, monkeypatch):
    """Features with gaps; the target and covariates, of which one is text, are joined by the ids of all."""
    x = np.where(np.random.default_rng(0).random((500, 6)) < 0.03, np.nan, X[:500, :6])
    batch = np.array(["u", "v", "w"])[np.arange(500) % 3]
    key = pd.Series(np.arange(500) + 1000, name="key")
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(x, columns=list("abcdef")).assign(key=key).to_csv("x.csv", index=False)
    key.to_frame().assign(y=Y[:500]).sample(frac=1, random_state=0).to_csv("y.csv", index=False)
    aside = pd.DataFrame({"key": key, "age": X[:500, 7], "batch": batch})
    aside.loc[4, "age"], aside.loc[9, "batch"] = np.nan, None
    aside.sample(frac=1, random_state=1).to_csv("z.csv", index=False)
    given = ("--target", "y.csv:y", "--id-column", "key", "--covariates", "z.csv")  # all columns but the id
    command = ("screen", "x.csv", *given, "--exact", "--keep", 3)
    record = read_json(*command)
    known = aside.notna().all(axis=1).to_numpy()
    numbers = np.column_stack([X[:500, 7], batch == "v", batch == "w"])[known]
    expected = screen(x[known], Y[:500][known], 3, exact=True, covariates=numbers, missing="pairwise")
    scores = [feature["score"] for feature in record["features"]]
    np.testing.assert_allclose(scores, expected.scores[expected.selected], atol=1e-9)
    assert "covariate 'batch' was expanded into 2 indicator columns." in record["notes"]
    assert "2 rows with missing covariates were omitted." in record["notes"]
    text = message(1, *command, "--missing", "raise")
    assert re.search("covariates contain NaN in row 4, column 'age'.*--missing pairwise", text)


def test_survival_times(tmp_path):
    """Time and event are two targets of one response; rows that lack one of them are left out."""
    local = np.random.default_rng(4)
    n = 200
    frame = pd.DataFrame(local.standard_normal((n, 6)), columns=list("abcdef"))
    death, censored = local.exponential(np.exp(-frame["c"])), local.exponential(2.0, n)
    frame["months"], frame["died"] = np.minimum(death, censored), (death <= censored).astype(float)
    frame.loc[3, "months"] = frame.loc[7, "died"] = np.nan
    path, output = tmp_path / "x.csv", tmp_path / "best.csv"
    frame.to_csv(path, index=False)
    options = ("--target", "months", "--target", "died", "--statistic", "cox", "--exact", "--keep", 2)
    record = read_json("screen", path, *options, "-o", output)
    assert (record["response"], record["n_rows"]) == ("months, died", n - 2)
    assert re.fullmatch(r"\d+ events", record["response_summary"])
    known = frame.dropna()
    expected = (
        SIS(2, statistic="cox").fit(known[list("abcdef")], known[["months", "died"]]).result_.to_frame()
    )
    found = pd.read_csv(output)[["name", "score"]]
    pd.testing.assert_frame_equal(found, expected[["name", "score"]], rtol=1e-12)


def test_a_table_as_most_are(tmp_path):
    """Text with few levels is encoded, blanks are missing numbers, and a note says what was skipped."""
    path = churn_table(tmp_path / "churn.csv", 2000)
    record = read_json("screen", path, "--target", "churn", "--keep", 8, "--exact")
    assert record["n_features"] == 63
    skipped = "skipped customer_id (id), signup (dates)"
    remedy = f"{skipped}; to use them: --columns …, --dates numeric."
    assert [note for note in record["notes"] if "skipped" in note] == [remedy]
    contents = f"60 numeric features and city (3 levels); {skipped}"
    assert open_data(path, "churn", one_hot=50).features.contents == record["contents"] == contents
    total = (X[:500, 0] + X[:500, 1]).round(2).astype(str)
    total[::50] = "unknown"
    pd.DataFrame(X[:500, :2], columns=["a", "b"]).assign(total=total).to_csv(path, index=False)
    command = ("screen", path, "--target", "total", "--exact")
    assert "such as 'unknown'" in run(*command).stderr
    assert read_json(*command, "--na", "unknown")["n_rows"] == 490


def test_scores_and_stability_by_a_column(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((3000, 6)), columns=list("abcdef"))
    frame["bad"] = frame["a"] + rng.standard_normal(3000) > 1
    month = np.array(["2024-01", "2024-02", "2024-03"])[np.arange(3000) % 3]
    path, out = tmp_path / "loans.parquet", tmp_path / "best.csv"
    frame.assign(month=month).to_parquet(path)
    command = ("screen", path, "--target", "bad", "--statistic", "information_value", "--keep", 2, "--exact")
    lines = run(*command, "--by", "month", "--output", out).stdout.splitlines()
    assert max(map(len, lines[3:])) <= 80
    X, y = frame.drop(columns="bad"), frame["bad"]
    expected = screen(X, y, Plan.exact(3000, 6, 2), statistic="information_value", by=month)
    expected, found = expected.to_frame().drop(columns="flag"), pd.read_csv(out)
    pd.testing.assert_frame_equal(found[expected.columns], expected, check_dtype=False)
    assert {"score 2024-01", "psi 2024-03"} <= set(found)
    largest = found[["psi 2024-02", "psi 2024-03"]].max(axis=1)
    shown = [line.split()[-1] for line in lines if re.search(r"largest PSI|\d\.\d{3}$", line)]
    assert shown == ["PSI", *(f"{x:.3f}" for x in largest)]
