"""Mistakes get one line and an exit code, and no output replaces an input."""

import gzip
import os
import re

import numpy as np
import pandas as pd
import pytest
from command_line import N, X, Y, in_file, run, said

GIVEN = ("x.npy", "--target", "y.npy")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((*GIVEN, "--alpha", 1, "--budget", 0.1), 2, "--alpha and --budget are mutually exclusive"),
        ((*GIVEN, "--exact", "--row-order", "stored"), 2, "--exact and --row-order are mutually exclusive"),
        ((*GIVEN, "--avoid-redundancy", "--fdr", 0.1), 2, "--avoid-redundancy and --fdr are mutually"),
        ((*GIVEN, "--fdr", 0.1, "--keep", 3), 2, "--keep and --fdr are mutually exclusive"),
        ((*GIVEN, "--iterative", "--fdr", 0.1), 2, "--iterative and --fdr are mutually exclusive"),
        ((*GIVEN, "--by", "x1", "--covariates", "x2"), 2, "--covariates and --by are mutually exclusive"),
        ((*GIVEN, "--verbose", "-q"), 2, "--quiet and --verbose are mutually exclusive"),
        ((*GIVEN, "--target", "y.npy"), 2, "the same --target is given twice"),
        ((*GIVEN, "--fdr", 2), 2, "'--fdr': 2.0 is not in the range 0<x<1"),
        ((*GIVEN, "--confidence", 0.9), 2, "--confidence 0.9 needs --min-correlation"),
        ((*GIVEN, "--statistic", "cox"), 2, "needs two targets, the time and the event"),
        ((*GIVEN, "--all-features"), 2, "set --output to a .csv or .parquet file"),
        ((*GIVEN, "--budget", 1e-9), 1, "at least 0.001"),
        ((*GIVEN, "--output", "best.xlsx"), 2, "end in .csv"),
        ((*GIVEN, "--output", "nowhere/best.csv"), 2, "cannot be written: No such file"),
        ((*GIVEN, "--output", f"{300 * 'n'}.csv"), 2, "File name too long"),
        ((*GIVEN, "--n-jobs", 0), 2, "--n-jobs"),
        ((*GIVEN, "--memory-limit", "lots"), 2, "'lots' must be an integer such as 500 or 1e6, or a size"),
        (("gone.npy", "--target", "y", "--exact", "--alpha", 1), 2, "mutually exclusive"),
        (("x.npy",), 2, "--target"),
        (("x.npy", "--target", "short.npy"), 1, "100 values for the 4,000 rows"),
        (("x.npy", "--target", "x61"), 1, "no column 'x61'"),
        (("nothing.npy", "--target", "y.npy"), 1, "does not exist"),
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
    if code == 1:
        assert result.stderr.splitlines()[-1].startswith("error: ")
    assert sorted(folder.iterdir()) == before


def test_debugging_shows_where(folder, monkeypatch):
    monkeypatch.setenv("BANDITSIS_DEBUG", "1")
    with pytest.raises(FileNotFoundError):
        run("screen", folder / "nothing.npy", "--target", folder / "y.npy")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", gzip.compress(b"a,y\n1,2\n"), "x.csv is a gzip file, .*: unpack it, or .* rename it"),
        ("x.csv", "a,y\n1,2\n".encode("utf-16"), "is UTF-16 text: convert it to UTF-8"),
        ("x.csv", b"b,y\n2020-01-01,u\n2020-01-02,v\n2020-01-03,u\n", r"skipped b \(dates\)"),
        ("x.csv", b"a,y\n" + b"".join(b"1,c%d\n" % k for k in range(9)), "text with 9 classes in 9 rows"),
        ("x.csv", b"a,y\n1,hi\n2,hi\n4,hi\n5,hi\n", "got one class: 'hi'."),
        ("x.csv", b"a,y\n", "has no rows"),
        ("x.csv", b"y\n1\n2\n3\n", "has no column that could be a feature"),
        ("x.npy", np.array([[1, "a"]], dtype=object), "Python objects"),
        ("x.npy", np.zeros((4, 3, 2)), r"has shape \(4, 3, 2\): features have two dimensions"),
        ("x.npy", np.zeros(4, dtype=[("a", "f8"), ("b", "f8")]), r"holds records \(a, b\): save its fields"),
        ("x.npy", np.zeros((0, 5)), "no rows"),
    ],
)
def test_faults_of_files(tmp_path, name, content, message):
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        np.save(tmp_path / name, content, allow_pickle=True)
    options = ("--target", "y", "--statistic", "anova", "--alpha", 1, "--keep", 1)
    result = run("screen", tmp_path / name, *options)
    assert result.exit_code == 1
    assert re.search(message, said(result))


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
        message = said(result).split("error: ")[1].replace(str(tmp_path), "")
        assert not re.search(r"\b[Xy]\b(?!')|_(?!samples)", message)


def test_rows_in_order_are_not_trusted(folder, tmp_path):
    order = np.argsort(Y)
    np.save(tmp_path / "x.npy", X[order])
    np.save(tmp_path / "y.npy", Y[order])
    options = ("--row-order", "stored", "--alpha", 1, "--keep", 3)
    result = run("screen", tmp_path / "x.npy", "--target", tmp_path / "y.npy", *options, "--quiet")
    assert result.stderr.startswith("warning: ")
    assert "banditsis index" in result.stderr
    np.save(tmp_path / "y.npy", np.repeat(["hi", "lo"], N // 2))
    result = run("screen", folder / "x.npy", "--target", tmp_path / "y.npy", *options)
    assert "the response is constant in the" in result.stdout
    assert "All rows were read." in result.stdout
    pd.DataFrame({"id": np.arange(N), "y": Y}).to_csv(tmp_path / "t.csv", index=False)
    for option in ("-q", "--json"):  # which do not hide warnings
        result = run("screen", folder / "x.npy", "--target", tmp_path / "t.csv", "--keep", 2, option)
        assert result.exit_code == 0
        assert "warning:" in result.stderr
        assert "joined by their order alone" in said(result)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("given", ["x", "y", "z"])
def test_no_output_replaces_an_input(tmp_path, monkeypatch, given):
    """Neither the data, the target nor the covariates, by any of their names."""
    for name in "xyz":
        (tmp_path / name).mkdir()
        pd.DataFrame({"a": X[:50, 0], "b": Y[:50]}).to_csv(tmp_path / name / f"{name}.csv", index=False)
    monkeypatch.chdir(tmp_path / given)
    os.symlink(f"{given}.csv", "symbolic.csv")
    os.link(f"{given}.csv", "hard.csv")
    before = contents(tmp_path)
    files = ("../x/x.csv", "--target", "../y/y.csv:b", "--covariates", "../z/z.csv:a")
    for spelling in (f"{given}.csv", f"./../{given}/{given}.csv", "symbolic.csv", "hard.csv"):
        result = run("screen", *files, "--keep", 1, "--output", spelling)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"would change the input ../{given}/{given}.csv" in said(result)
    assert contents(tmp_path) == before


def test_no_output_is_added_to_a_folder_of_data(folder, tmp_path):
    (tmp_path / "parts").mkdir()
    pd.DataFrame({"a": X[:50, 0], "b": Y[:50]}).to_parquet(tmp_path / "parts" / "1.parquet")
    before = contents(tmp_path)
    for option, name in (("--output", "best.parquet"), ("--report", "new.html"), ("--output", "meta.json")):
        output = tmp_path / "parts" / ".." / "parts" / name
        result = run("screen", tmp_path / "parts", "--target", "b", "--keep", 1, option, output)
        assert (result.exit_code, "would change the input" in said(result)) == (2, True)
    assert contents(tmp_path) == before
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in said(run(*in_file(folder, "--output", tmp_path / "folder.csv")))
