"""Code in the documentation runs and gives the results stated in the text."""

import ast
import re
import tomllib
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from banditsis import SIS, Plan, screen
from banditsis.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text("utf-8"), flags=re.DOTALL)


def run(name, names, capsys):
    """Run the code of a page. A line ``print(…)  # 0.046: …`` prints what its comment begins with."""
    for code in blocks(name):
        lines = code.splitlines()
        for statement in ast.parse(code).body:
            capsys.readouterr()
            piece = ast.Module([statement], [])
            exec(compile(piece, name, "exec"), names)
            printed = capsys.readouterr().out
            stated = re.search(r"^print\(.*\)  # ([^:]+)", lines[statement.end_lineno - 1])
            if stated:
                assert printed.startswith(stated[1].strip()), (name, lines[statement.end_lineno - 1], printed)


def test_readme(capsys):
    """The example runs, and the speed is that of the benchmark."""
    run("README.md", {}, capsys)
    text = (ROOT / "README.md").read_text("utf-8")
    milliseconds, ratio = re.findall(r"`BanditSIS` takes ([\d.]+) ms, ([\d.]+) times as fast", text)[0]
    measured = (ROOT / "benchmarks/README.md").read_text("utf-8")
    assert f"1,000,000 × 4,000: BanditSIS ({milliseconds} ms), times as fast as exact | {ratio}×" in measured


def test_readme_links_on_pypi():
    """On PyPI the README has no relative link: pyproject.toml makes them absolute."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 120
    hooks = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["metadata"]["hooks"]
    for change in hooks["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    links = re.findall(r"\]\((.*?)\)", text)
    assert len(links) > 15
    assert all(link.startswith("https://") for link in links), links


def test_contributed_statistic_and_plan():
    names = {}
    for code in blocks("CONTRIBUTING.md"):
        exec(code, names)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 40)) * np.linspace(1, 3, 40)
    y = 5 * X[:, 3] + X[:, 9] + 7
    sides = np.sign(X - np.median(X, axis=0)), np.sign(y - np.median(y))
    quadrants = np.mean(sides[0].T * sides[1], axis=1)
    for name, expected in (("Slope", np.polyfit(y, X, 1)[0]), ("Quadrant", quadrants)):
        result = screen(X, y, Plan.exact(1000, 40, 3), statistic=names[name])
        np.testing.assert_allclose(result.scores, expected, atol=1e-12)
    halving = names["halving"](1000, 40, 3, 50)
    assert [s.n_keep for s in halving.steps] == [20, 10, 5, 3]
    assert screen(X, y, halving, random_state=0).selected[0] == 3


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(f"docs/{page}")])
def test_code_of_page(page, tmp_path, monkeypatch, capsys):
    """The code of each page runs in order, prints what is stated, and draws the pictures of the page."""
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    run(f"docs/{page}", {}, capsys)
    if page == "results.md":
        assert len(plt.get_fignums()) == 2
        report = (tmp_path / "report.html").read_text("utf-8")
        assert "<h1>Features associated with yield</h1>" in report
    plt.close("all")


def test_sample_check(tmp_path, monkeypatch):
    """The start page and the README show what the command prints for the file of the start page."""
    monkeypatch.chdir(tmp_path)
    exec(blocks("docs/index.md")[0], {})
    page, readme = ((ROOT / name).read_text("utf-8") for name in ("docs/index.md", "README.md"))
    command = re.search(r"^    banditsis (sample-check .*)$", page, flags=re.MULTILINE)[1]
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 0
    lines = [line for line in result.output.split("\n\nDetection")[0].splitlines()[3:] if line]
    assert len(lines) == 10
    assert all(f"    {line}\n" in text for line in lines for text in (page, readme)), lines


def test_printed_plans(capsys):
    """The page on methods shows what its code prints about three plans."""
    code, *_ = blocks("docs/choose.md")
    exec(code, {})
    text = (ROOT / "docs/choose.md").read_text("utf-8")
    plans = capsys.readouterr().out.splitlines()[:3]
    assert all(f"    {line}\n" in text for line in plans), plans


def test_messages():
    """The page of questions quotes the messages as they are."""
    quoted = re.findall(r"^\| `(.+?)` \|", (ROOT / "docs/faq.md").read_text("utf-8"), flags=re.MULTILINE)
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame(rng.standard_normal((100, 5))).add_prefix("x"), rng.standard_normal(100)
    wrong = [(X.mask(X.iloc[5, 3] == X), y), (X.assign(city="Oslo"), y), (X, y[:10]), (X, np.ones(100))]
    messages = list(SIS(2).fit(X, np.arange(100) % 3).result_.notes)
    for data, response in wrong:
        with pytest.raises((TypeError, ValueError)) as raised:
            SIS(2).fit(data, response)
        messages.append(str(raised.value))
    assert len(messages) == 5
    assert all(any(text in message for text in quoted) for message in messages), messages


def test_reproduction_of_table_1():
    """The page on research has the summary that the reproduction of Table 1 has written."""
    record = (ROOT / "paper/README.md").read_text("utf-8")
    table = (ROOT / "docs/research.md").read_text("utf-8")
    agreement = re.findall(r"(\d+) of 60 cells of P within the 99% interval; (\d+) of 20 medians", record)
    assert len(agreement) == 2
    assert re.findall(r"\| (\d+) of 60 \| (\d+) of 20 \|", table) == agreement


def test_documentation_is_short():
    """Pages and words, without code and the tables that benchmarks write."""
    text = "\n".join((ROOT / "docs" / page).read_text("utf-8") for page in PAGES)
    text = re.sub(r"```(?:python|bash|bibtex|\{toctree).*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"(<!-- .* written by .* -->).*?\1", "", text, flags=re.DOTALL)
    words = [word for word in text.split() if any(letter.isalnum() for letter in word)]
    assert len(PAGES) + 1 <= 22  # and the reference of the API
    assert len(words) <= 16_000


def test_links_to_files_exist():
    built = ("auto_tutorials/", "generated/")  # by make docs, which checks these links itself
    names = "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md", "paper/README.md"
    for document in (*(ROOT / name for name in names), *(ROOT / "docs" / page for page in PAGES)):
        for path in re.findall(r"\]\(([\w/.-]+)(?:#[\w-]+)?\)", document.read_text("utf-8")):
            assert path.startswith(built) or (document.parent / path).exists(), (document, path)
