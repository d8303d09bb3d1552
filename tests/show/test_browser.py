"""The report in a real browser: it sorts, searches, turns dark, and runs nothing from data."""

import json
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from test_report import HOSTILE, X, Y, make_hostile

from banditsis import Plan, ScreeningResult, screen
from banditsis.results import Evidence, Round, rank_features
from browser import NAMES, Browser, find_chromium

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or sys.platform == "win32",  # the browser is spoken to over a pipe of POSIX
    reason=f"no browser: none of {', '.join(NAMES)} is on the path and $CHROMIUM is not set; install one, "
    "such as Debian's package chromium, to test the report in it",
)
# The text of a column of the table, and of the line below the table.
CELLS = "[...document.querySelectorAll('.list tbody tr')].map(row => row.cells[{}].innerText.trim())"
SHOWN = "document.querySelector('.shown').textContent"
VISIBLE = "[...document.querySelectorAll('{}')].filter(e => e.offsetHeight).map(e => e.{})"
HEADS = VISIBLE.format(".list th", "ariaLabel")
READY = "document.documentElement.dataset.ready >= 1"
NAME, SCORE, INTERVAL, EVIDENCE = 1, 3, 4, 5


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(CHROMIUM, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def page(browser):
    """The browser; fails at the end if the page logged or requested anything."""
    yield browser
    assert browser.complaints() == []


@pytest.fixture(scope="module")
def result():
    return screen(X, Y, Plan.paper(2000, 60, 6), random_state=0)


def show(page, result, folder, title=None, **window):
    """Open the report of a result, and wait for its table."""
    path = folder / "report.html"
    result.to_html(path, title=title)
    page.open(path, **window)
    page.wait_for(READY)


def head(column):
    return f".list th:nth-child({column + 1}) button"


def test_shows_the_selected_features(page, result, tmp_path):
    show(page, result, tmp_path)
    known = ["rank", "feature", "column", "score", "95% interval", "evidence", "beta", "se", "rows read"]
    assert page.run(HEADS) == known
    assert page.run(CELLS.format(NAME)) == result.selected_names
    marks = ["● clear" if k in result.associated else "◇ unclear" for k in result.selected]
    assert page.run(CELLS.format(EVIDENCE)) == marks
    scores = [float(text.replace("−", "-")) for text in page.run(CELLS.format(SCORE))]
    np.testing.assert_allclose(scores, result.scores[result.selected], atol=5e-5)
    assert page.run(SHOWN) == "1 to 6 of 6 features"


def test_sorts(page, result, tmp_path):
    show(page, result, tmp_path)
    best = np.argsort(-result.scores[result.selected])
    orders = (SCORE, best), (SCORE, best[::-1]), (NAME, np.argsort(result.selected)), (0, np.arange(6))
    for k, (column, order) in enumerate(orders):
        page.click(head(column))
        assert page.run(CELLS.format(NAME)) == [f"x{j}" for j in result.selected[order]]
        if k == 0:
            sorted_by = f"document.querySelector({json.dumps(head(SCORE))}).parentNode.ariaSort"
            assert page.run(sorted_by) == "descending"


def test_searches_and_turns_pages(page, result, tmp_path):
    show(page, result, tmp_path)
    order = np.argsort(rank_features(result))
    for button, rows in ((".only", "1 to 25"), (".next", "26 to 50"), (".next", "51 to 60")):
        page.click(button)
        assert page.run(SHOWN) == f"{rows} of 60 features"
    assert page.run(CELLS.format(0)) == [str(rank) for rank in range(51, 61)]
    assert page.run("document.querySelector('.next').disabled") is True
    assert page.run(HEADS)[-1] == "dropped in round"
    dropped = page.run(CELLS.format("row.cells.length - 1"))
    assert dropped == [str(result.last_round[j] + 1) for j in order[50:]]
    page.click(".previous")
    assert page.run(SHOWN) == "26 to 50 of 60 features"
    page.click(".search")
    page.type("X5")
    found = [(rank, f"x{j}") for rank, j in enumerate(order, 1) if f"x{j}".startswith("x5")]
    ranks = map(int, page.run(CELLS.format(0)))
    assert [*zip(ranks, page.run(CELLS.format(NAME)), strict=True)] == found
    page.type("no such name")
    assert page.run(SHOWN) == "no matching feature"


def test_sorts_by_pvalues_below_the_smallest_number(page, tmp_path):
    """A p-value of 0 comes first, and adjusted p-values that underflow are ordered by their logarithms."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((5000, 60))
    X[:, 40:42] = X[:, 5:6] + [0.1, 0.2] * rng.standard_normal((5000, 2))
    result = screen(X, X[:, 5], Plan.exact(5000, 60, 4))
    assert result.log10_pvalues[5] == -np.inf
    assert (result.features["adjusted_pvalue"][:3] == 0).all()
    show(page, result, tmp_path)
    assert page.run(CELLS.format(7))[0] == "▲ leakage?"
    best = ["x5", "x40", "x41"]
    for column in (5, 6):
        page.click(head(column))
        assert page.run(CELLS.format(NAME))[:3] == best
        assert page.run(CELLS.format(column))[0] == "<1e−300"
        page.click(head(column))
        assert page.run(CELLS.format(NAME))[1:] == best[::-1]
    exponent = int(np.floor(result.features["log10_adjusted_pvalue"][1]))
    assert page.run(CELLS.format(6))[2].endswith(f"e−{-exponent}")


def test_downloads_a_csv_file(page, result, tmp_path):
    """All columns of the features that match, as in a frame; names are quoted where they must be."""
    odd = replace(result, names=[f'gene "{j}", a\nnew line' for j in range(60)])
    show(page, odd, tmp_path)
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.click(".only")
    page.click(".download")
    file, deadline = tmp_path / "features.csv", time.monotonic() + 20
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    written = pd.read_csv(file, dtype=str, keep_default_na=False, lineterminator="\n")
    frame = odd.to_frame(all_features=True)
    assert (list(written), list(written["name"])) == (list(frame), list(frame["name"]))
    assert list(written["associated"]) == ["" if mark is None else str(mark) for mark in frame["associated"]]
    np.testing.assert_allclose(written["score"].astype(float), frame["score"], rtol=1e-5)
    assert list(written["low"] == "") == list(frame["low"].isna())


def test_several_responses(page, tmp_path):
    """One response at a time, chosen by the links of the overview."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((1000, 60))
    results = screen(X, X[:, :3] + rng.standard_normal((1000, 3)), Plan.exact(1000, 60, 4))
    show(page, results, tmp_path)
    shown = VISIBLE.format(".response", "id")
    assert page.run(shown) == ["response-0"]
    page.click(".overview tbody tr:nth-child(3) a")
    page.wait_for("document.documentElement.dataset.ready === '2'")
    assert page.run(shown) == ["response-2"]
    assert page.run(VISIBLE.format("#response-2 .list td.name", "innerText")) == results[2].selected_names
    assert page.run("document.querySelector('.overview [aria-current]').innerText") == "y2"
    show(page, results, tmp_path, width=390, height=844)
    assert page.run("document.documentElement.scrollWidth") == 390


def test_turns_dark(page, result, tmp_path):
    """The page and its charts."""
    show(page, result, tmp_path)
    paper = "getComputedStyle(document.body).backgroundColor"
    mark = "getComputedStyle(document.querySelector('.ranked .signal .mark')).fill"
    colours = [(page.run(paper), page.run(mark))]
    for _ in range(2):
        page.click("#theme")
        colours.append((page.run(paper), page.run(mark)))
    (light, blue), (dark, other), again = colours
    assert (again, blue != other) == ((light, blue), True)
    assert sum(map(int, dark[4:-1].split(","))) < 150 < 600 < sum(map(int, light[4:-1].split(",")))
    show(page, result, tmp_path, dark=True)
    assert page.run(paper) == dark
    page.click("#theme")
    assert page.run(paper) == light


@pytest.mark.parametrize("pvalues", [False, True])
def test_fits_a_phone_and_prints(page, tmp_path, pvalues):
    """The table needs no scrolling and shows the interval."""
    result = screen(X, Y, Plan.paper(2000, 60, 6), pvalues=pvalues, random_state=0)
    named = replace(result, names=[f"a gene of some length {j}" for j in range(60)])
    show(page, named, tmp_path, width=390, height=844)
    box = "document.querySelector('.features')"
    assert page.run(f"{box}.scrollWidth <= {box}.clientWidth") is True
    assert page.run("document.documentElement.scrollWidth") == 390
    page.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert page.run(CELLS.format(INTERVAL))[0].startswith("+")
    assert page.run(CELLS.format(EVIDENCE + 2 * pvalues))[0] == "● clear"


def test_long_names_are_shortened(page, result, tmp_path):
    """The tooltip has the full name, and the search matches it."""
    long = ["<i>" + 2500 * "ab" + f" middle{j} " + 2500 * "\N{DNA DOUBLE HELIX}" for j in range(60)]
    show(page, replace(result, names=long), tmp_path)
    assert page.run(CELLS.format(NAME))[0] == "<i>" + 28 * "ab" + "a…" + 59 * "\N{DNA DOUBLE HELIX}"
    titles = VISIBLE.format(".list td.name", "title")
    assert page.run(titles) == [long[j] for j in result.selected]
    page.click(".search")
    page.type(f"middle{result.selected[1]} ")
    assert page.run(titles) == [long[result.selected[1]]]


def test_runs_nothing_from_names(browser, result, tmp_path):
    show(browser, make_hostile(result), tmp_path, title=HOSTILE[2])
    assert browser.complaints() == []
    assert browser.run("document.title") == HOSTILE[2]
    shown = browser.run(CELLS.format(NAME).replace("innerText.trim()", "textContent"))
    assert shown == [name.replace("\ud800", "\\ud800") for name in HOSTILE]
    assert browser.run("document.querySelectorAll('img, [onmouseover]').length") == 0
    assert browser.run("document.scripts.length") == 2
    text = result.to_html().replace("<main>", "<main><script>window.slipped = 1</script>")
    (tmp_path / "slipped.html").write_text(text, "utf-8")
    browser.open(tmp_path / "slipped.html")
    browser.wait_for(READY)
    assert browser.run("window.slipped") is None  # the policy allows only the page's own script
    assert "Content Security Policy" in str(browser.complaints())


def test_a_hundred_thousand_features(page, tmp_path):
    """The page has few elements, and the right ones after sorting and searching."""
    p = 100_000
    scores = np.random.default_rng(0).permutation(np.linspace(-1, 1, p))
    selected = np.argsort(-np.abs(scores))[:1000]
    rounds, last_round = (Round(1000, p, 1000, 0.99, 1000 * p, 1.0, 1000.0),), np.zeros(p, np.int32)
    evidence = Evidence(variance_inflation=1.0)
    show(page, ScreeningResult(selected, scores, rounds, last_round, 1000, p, evidence=evidence), tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 3e6
    assert page.run(SHOWN) == "1 to 25 of 1,000 features"
    page.click(".only")
    assert page.run(SHOWN) == "1 to 25 of 100,000 features"
    for column, order in ((NAME, np.arange(p)), (SCORE, np.argsort(-scores))):
        page.click(head(column))
        assert page.run(CELLS.format(NAME)) == [f"x{j}" for j in order[:25]]
    page.click(".search")
    page.type("x9999")
    assert sorted(page.run(CELLS.format(NAME))) == ["x9999", *(f"x9999{k}" for k in range(10))]
    assert page.run("document.querySelectorAll('*').length") < 3000
