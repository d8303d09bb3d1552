"""Mistakes get one line and an exit code, and no output replaces an input."""

import gzip
import os
import re

import numpy as np
import pandas as pd
import pytest
from command_line import N, X, Y, in_file, message, printed, run, said

GIVEN = ("screen", "x.npy", "--target", "y.npy")
PLAN = ("plan", "--rows", "1e6", "--features", "1e4", "--keep", "10")
CHECK = ("sample-check", "x.npy", "--rows", 100)
EXCLUSIVE = ["--alpha=1 --budget=0.1", "--exact --row-order=stored", "--avoid-redundancy --fdr=0.1"]
EXCLUSIVE += ["--keep=3 --fdr=0.1", "--iterative --fdr=0.1", "--covariates=x2 --by=x1", "--quiet --verbose"]


def names(options):
    return " and ".join(re.findall("--[a-z-]+", options))


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        *(((*GIVEN, *pair.split()), 2, f"{names(pair)} are mutually exclusive") for pair in EXCLUSIVE),
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
        (("screen", "gone.npy", "--target", "y", "--exact", "--alpha", 1), 2, "mutually exclusive"),
        (("screen", "x.npy"), 2, "--target"),
        (("screen", "x.npy", "--target", "short.npy"), 1, "100 values for the 4,000 rows"),
        (("screen", "x.npy", "--target", "x61"), 1, "no column 'x61'"),
        (("screen", "nothing.npy", "--target", "y.npy"), 1, "does not exist"),
        (("screen", "torn.npy", "--target", "y.npy"), 1, "torn.npy"),
        (("screen", "picture.parquet", "--target", "y.npy"), 1, "named as a Parquet file"),
        (("screen", "gaps.npy", "--target", "y.npy", "--missing", "raise"), 1, "contain NaN in column"),
        ((*PLAN, "--budget", "1e-9"), 2, "4e-06"),
        ((*PLAN, "--alpha", "1", "--budget", "0.1"), 2, "mutually exclusive"),
        ((*PLAN, "--min-correlation", "2"), 2, "must be in (0, 1), got 2"),
        ((*PLAN, "--confidence", "0.9"), 2, "--confidence 0.9 needs --min-correlation"),
        ((*PLAN, "--rows", "many"), 2, "--rows"),
        *(((*PLAN, "--rows", number), 2, "must be an integer") for number in ("inf", "1.5")),
        ((*PLAN, "--dtype", "text"), 2, "'float32'"),
        ((*PLAN, "--budget", "half"), 2, "'half' is not a valid float"),
        ((*CHECK, "--target", "y.npy", "--rows", N), 2, "--rows 4,000 is not a sample of the 4,000 rows"),
        ((*CHECK, "--target", "x1", "--plot", "x.bmp"), 2, "must end in .png or .svg or .pdf"),
        ((*CHECK, "--target", "x0", "--target", "x1"), 2, "give one --target"),
        ((*CHECK, "--target", "x1", "--statistic", "distance"), 1, "null distribution"),
        ((*CHECK, "--target", "x1", "--statistic", "cox"), 2, "needs two targets"),
        (CHECK, 2, "no target"),
    ],
)
def test_a_mistake_gets_one_line_and_a_code(folder, monkeypatch, arguments, code, expected):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    result = run(*arguments)
    assert result.exit_code == code, result.stderr
    assert expected in said(result)
    assert result.stdout == ""
    assert code == 2 or result.stderr.splitlines()[-1].startswith("error: ")
    assert sorted(folder.iterdir()) == before


def test_debugging_shows_where(folder, monkeypatch):
    monkeypatch.setenv("BANDITSIS_DEBUG", "1")
    with pytest.raises(FileNotFoundError):
        run("screen", folder / "nothing.npy", "--target", folder / "y.npy")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
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
def test_faults_of_files(tmp_path, name, content, expected):
    path = tmp_path / name
    path.write_bytes(content) if isinstance(content, bytes) else np.save(path, content)
    options = ("--target", "y", "--statistic", "anova", "--alpha", 1, "--keep", 1)
    assert re.search(expected, message(1, "screen", path, *options))


def test_messages_name_concepts(folder, tmp_path, monkeypatch):
    """A person at the command line does not know X, y and their attributes."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"a": X[:50, 0], "b": X[:50, 1], "one": 1.0, "y": Y[:50]})
    frame.to_parquet("x.parquet")
    frame.assign(y=np.where(np.arange(50) == 3, np.inf, Y[:50])).to_parquet("infinite.parquet")
    frame[:2].to_parquet("two.parquet")
    np.save("complex.npy", Y[:50] * 1j)
    for arguments in (
        ("infinite.parquet", "--target", "y"),
        ("infinite.parquet", "--target", "a"),
        ("two.parquet", "--target", "y"),
        ("x.parquet", "--target", "one"),
        ("x.parquet", "--target", "complex.npy"),
        ("x.parquet", "--target", "y", "--statistic", "cox"),
        ("x.parquet", "--target", "y", "--covariates", "y"),
        ("x.parquet", "--target", "y", "--covariates", "gone.csv"),
        ("x.parquet", "--target", "y", "--min-correlation", 0.1, "--covariates", "a"),
        ("x.parquet", "--target", "y", "--min-correlation", 2),
    ):
        result = run("screen", *arguments)
        assert result.exit_code != 0
        assert re.search(r"^error: .{20}", result.stderr, re.M)
        assert not re.search(r"\b[Xy]\b(?!')|_(?!samples)", said(result).split("error: ")[1])


def test_rows_in_order_are_not_trusted(folder, tmp_path):
    order = np.argsort(Y)
    np.save(tmp_path / "x.npy", X[order])
    np.save(tmp_path / "y.npy", Y[order])
    options = ("--row-order", "stored", "--alpha", 1, "--keep", 3)
    result = run(*in_file(tmp_path, *options, "--quiet"))
    assert result.stderr.startswith("warning: ")
    assert "banditsis index" in result.stderr
    np.save(tmp_path / "y.npy", np.repeat(["hi", "lo"], N // 2))
    text = printed(*in_file(folder, *options, target=tmp_path / "y.npy"))
    assert "the response is constant in the" in text
    assert "All rows were read." in text
    pd.DataFrame({"id": np.arange(N), "y": Y}).to_csv(tmp_path / "t.csv", index=False)
    for option in ("-q", "--json"):  # which do not hide warnings
        text = message(0, *in_file(folder, "--keep", 2, option, target=tmp_path / "t.csv"))
        assert re.search("warning:.*joined by their order alone", text)


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
    parts = tmp_path / "parts"
    parts.mkdir()
    pd.DataFrame({"a": X[:50, 0], "b": Y[:50]}).to_parquet(parts / "1.parquet")
    before = contents(tmp_path)
    for option, name in (("--output", "best.parquet"), ("--report", "new.html"), ("--output", "meta.json")):
        output = parts / ".." / "parts" / name
        command = ("screen", parts, "--target", "b", "--keep", 1, option, output)
        assert "would change the input" in message(2, *command)
    assert contents(tmp_path) == before
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in said(run(*in_file(folder, "--output", tmp_path / "folder.csv")))
