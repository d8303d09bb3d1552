"""Code in the documentation runs and gives the results stated in the text."""

import re
import tomllib
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from banditsis import Plan, screen

ROOT = Path(__file__).parents[1]


def blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


def test_readme_example(capsys):
    (code,) = blocks("README.md")
    exec(code, {})
    printed = capsys.readouterr().out
    times = re.compile(r" [\d.]+ m?s$")

    def without_times(text):  # nor the spaces, which depend on their widths
        return [times.sub("", " ".join(line.split())) for line in text.splitlines()]

    readme = without_times((ROOT / "README.md").read_text())
    for line in without_times(printed):
        assert line in readme


def test_readme_links_on_pypi():
    """On PyPI the README has no relative link: pyproject.toml makes them absolute."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 120
    hooks = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["metadata"]["hooks"]
    for change in hooks["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    links = re.findall(r"\]\((.*?)\)", text)
    assert len(links) > 20
    assert all(link.startswith("https://") for link in links), links


def test_contributed_statistic_and_plan():
    names = {}
    for code in blocks("CONTRIBUTING.md"):
        exec(code, names)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 40)) * np.linspace(1, 3, 40)
    y = 5 * X[:, 3] + X[:, 9] + 7
    result = screen(X, y, Plan.exact(1000, 40, 3), statistic=names["Slope"])
    slopes = [np.polyfit(y, X[:, j], 1)[0] for j in range(40)]
    np.testing.assert_allclose(result.scores, slopes, atol=1e-12)
    result = screen(X, y, Plan.exact(1000, 40, 3), statistic=names["Quadrant"])
    sides = np.sign(X - np.median(X, axis=0)), np.sign(y - np.median(y))
    np.testing.assert_allclose(result.scores, np.mean(sides[0].T * sides[1], axis=1), atol=1e-12)
    halving = names["halving"](1000, 40, 3, 50)
    assert [s.n_keep for s in halving.steps] == [20, 10, 5, 3]
    assert screen(X, y, halving, random_state=0).selected[0] == 3


def test_seeing(tmp_path, monkeypatch):
    """The code of the page runs in order and draws its three plots."""
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    exec("\n".join(blocks("docs/results.md")), {})
    assert len(plt.get_fignums()) == 3
    plt.close("all")
    report = (tmp_path / "report.html").read_text("utf-8")
    assert "<h1>Features associated with yield</h1>" in report
    assert report.count("<figure ") == 12


def test_interactions_page(capsys):
    names = {}
    for code in blocks("docs/interactions.md"):
        exec(code, names)
    shape, best, out, plain, centred = capsys.readouterr().out.splitlines()
    assert shape == "(5000, 20100)"
    assert best.startswith("['dark × comedy'")
    assert "dark × comedy" in out
    assert int(plain) > 100
    assert centred == "4"
    assert names["kept"].shape == (5000, 10)
    np.testing.assert_allclose(names["new"], names["kept"][:7])


def test_cluster(capsys):
    (example,) = blocks("docs/clusters.md")
    exec(example, {})
    assert set(capsys.readouterr().out.strip("[ ]\n").split()) == {"7", "42"}


PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
OWN_TEST = {"results.md", "interactions.md", "clusters.md"}


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(f"docs/{page}") and page not in OWN_TEST])
def test_code_of_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in blocks(f"docs/{page}"):
        exec(code, names)


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{page}" for page in PAGES)]
)
def test_links_to_files_exist(name):
    document = ROOT / name
    built = ("auto_tutorials/", "generated/")  # by make docs, which checks these links itself
    for path in re.findall(r"\]\(([\w/.-]+)\)", document.read_text("utf-8")):
        assert path.startswith(built) or (document.parent / path).exists(), path
