"""The report in a real browser: it sorts, searches, turns dark, and runs nothing from data."""

import json
from dataclasses import replace

import numpy as np
import pytest
from test_report import HOSTILE

from banditsis import Plan, Round, ScreeningResult, screen
from browser import NAMES, Browser, find_chromium

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason=f"no browser: none of {', '.join(NAMES)} is on the path and $CHROMIUM is not set; install one, "
    "such as Debian's package chromium, to test the report in it",
)
# The text of a column of the table, and of the line below the table.
CELLS = "[...document.querySelectorAll('#features-table tbody tr')].map(row => row.cells[{}].innerText)"
SHOWN = "document.getElementById('shown').textContent"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(CHROMIUM, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((2000, 60))
    y = X[:, 5] - X[:, 9] + rng.standard_normal(2000)
    return screen(X, y, Plan.paper(2000, 60, 6), random_state=0)


@pytest.fixture
def page(browser, result, tmp_path):
    """The report of a small result; fails at the end if the page logged or requested anything."""
    result.to_html(tmp_path / "report.html")
    browser.open(tmp_path / "report.html")
    yield browser
    assert browser.complaints() == []


def head(column):
    return f"#features-table th:nth-child({column + 1}) button"


def test_shows_the_selected_features(page, result):
    assert page.run(CELLS.format(1)) == result.selected_names
    scores = [float(text.replace("−", "-")) for text in page.run(CELLS.format(2))]
    np.testing.assert_allclose(scores, result.scores[result.selected], atol=5e-5)
    assert page.run(SHOWN) == "1 to 6 of 6 features"
    assert page.run("document.querySelectorAll('.forest').length") == 6


def test_sorts(page, result):
    chosen = result.scores[result.selected]
    page.click(head(2))
    assert page.run(CELLS.format(1)) == [result.selected_names[k] for k in np.argsort(-chosen)]
    assert page.run(f"document.querySelector({json.dumps(head(2))}).parentNode.ariaSort") == "descending"
    page.click(head(2))
    assert page.run(CELLS.format(1)) == [result.selected_names[k] for k in np.argsort(chosen)]
    page.click(head(1))
    assert page.run(CELLS.format(1)) == sorted(result.selected_names, key=lambda name: int(name[1:]))
    page.click(head(0))
    assert page.run(CELLS.format(1)) == result.selected_names


def test_searches(page, result):
    page.click("#only")
    assert page.run(SHOWN) == "1 to 25 of 60 features"
    page.click("#search")
    page.type("X5")
    order = np.argsort(result.ranking)
    expected = [f"x{j}" for j in order if f"x{j}".startswith("x5")]
    assert page.run(CELLS.format(1)) == expected
    ranks = [int(text) for text in page.run(CELLS.format(0))]
    assert ranks == [int(result.ranking[int(name[1:])]) for name in expected]
    page.type("no such name")
    assert page.run(SHOWN) == "no matching feature"


def test_pvalues_below_the_smallest_number(browser, result, tmp_path):
    text = result.to_html()
    values = json.dumps([-400.5, -3.25, -1, *[None] * 57], separators=(",", ":"))
    (tmp_path / "tested.html").write_text(text.replace('"log10p":null', f'"log10p":{values}'), "utf-8")
    browser.open(tmp_path / "tested.html")
    assert browser.run(CELLS.format(4)) == ["3.2e−401", "5.6e−4", "0.1000", "", "", ""]
    assert browser.complaints() == []


def test_turns_pages(page, result):
    page.click("#only")
    page.click("#next")
    page.click("#next")
    assert page.run(SHOWN) == "51 to 60 of 60 features"
    assert page.run(CELLS.format(0)) == [str(rank) for rank in range(51, 61)]
    assert page.run("document.getElementById('next').disabled") is True
    outcomes = page.run(CELLS.format(6))
    order = np.argsort(result.ranking)
    assert outcomes == [f"dropped in round {result.last_round[j] + 1}" for j in order[50:]]
    page.click("#previous")
    assert page.run(SHOWN) == "26 to 50 of 60 features"


def test_shows_its_charts(page):
    """The browser can decode both, and dark mode inverts them."""
    widths = "[...document.querySelectorAll('.chart')].map(image => image.complete && image.naturalWidth)"
    assert page.run(widths) == [442, 442]
    drawn = "getComputedStyle(document.querySelector('.chart')).filter"
    assert page.run(drawn) == "none"
    page.click("#theme")
    assert page.run(drawn).startswith("invert(0.92)")


def test_turns_dark(browser, page, tmp_path):
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.run(paper)
    page.click("#theme")
    dark = page.run(paper)
    page.click("#theme")
    assert page.run(paper) == light
    assert sum(map(int, dark[4:-1].split(","))) < 150 < 600 < sum(map(int, light[4:-1].split(",")))
    browser.open(tmp_path / "report.html", dark=True)
    assert page.run(paper) == dark
    page.click("#theme")
    assert page.run(paper) == light


def test_fits_a_phone_and_prints(browser, page, tmp_path):
    browser.open(tmp_path / "report.html", width=390, height=844)
    assert page.run("document.documentElement.scrollWidth") == 390
    page.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("pvalues", [False, True])
def test_the_table_fits_a_phone(browser, tmp_path, pvalues):
    """The table needs no scrolling and shows the interval."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((2000, 60))
    y = X[:, 5] - X[:, 9] + rng.standard_normal(2000)
    names = [f"a gene of some length {j}" for j in range(60)]
    result = screen(X, y, Plan.paper(2000, 60, 6), pvalues=pvalues, random_state=0)
    replace(result, names=names).to_html(tmp_path / "phone.html")
    browser.open(tmp_path / "phone.html", width=390, height=844)
    box = "document.querySelector('#found .scroll')"
    assert browser.run(f"{box}.scrollWidth <= {box}.clientWidth") is True
    assert browser.run(CELLS.format(3))[0].startswith("+")
    shown = "[...document.querySelectorAll('#features-table th')].filter(head => head.offsetWidth).length"
    assert browser.run(shown) == 4 + pvalues
    assert browser.complaints() == []


def test_long_names_are_shortened(browser, result, tmp_path):
    """The tooltip has the full name, and the search matches it."""
    long = ["<i>" + 2500 * "ab" + f" middle{j} " + 2500 * "\N{DNA DOUBLE HELIX}" for j in range(60)]
    replace(result, names=long).to_html(tmp_path / "long.html")
    browser.open(tmp_path / "long.html")
    first = browser.run(CELLS.format(1))[0]
    assert first == "<i>" + 28 * "ab" + "a…" + 59 * "\N{DNA DOUBLE HELIX}"
    titles = "[...document.querySelectorAll('#features-table td.name')].map(cell => cell.title)"
    assert browser.run(titles) == [long[j] for j in result.selected]
    browser.click("#search")
    browser.type(f"middle{result.selected[1]} ")
    assert browser.run(titles) == [long[result.selected[1]]]
    assert browser.complaints() == []


def test_nothing_selected(browser, result, tmp_path):
    replace(result, selected=np.empty(0, np.intp)).to_html(tmp_path / "nothing.html")
    browser.open(tmp_path / "nothing.html")
    assert browser.run(SHOWN) == "no feature was selected"
    browser.click("#search")
    browser.type("no such name")
    assert browser.run(SHOWN) == "no matching feature"


def test_runs_nothing_from_names(browser, result, tmp_path):
    names = [HOSTILE[k % len(HOSTILE)] for k in range(60)]
    odd = replace(
        result,
        names=names,
        selected=np.arange(len(HOSTILE)),
        notes=tuple(HOSTILE),
        parameters={**result.parameters, HOSTILE[1]: HOSTILE[0]},
    )
    odd.to_html(tmp_path / "odd.html", title=HOSTILE[2])
    browser.open(tmp_path / "odd.html")
    assert browser.complaints() == []
    assert browser.run("document.title") == HOSTILE[2]
    shown = browser.run(CELLS.format(1).replace("innerText", "textContent.replace('\\ud800', '?')"))
    assert shown == [name.replace("\ud800", "?") for name in HOSTILE]
    assert browser.run("document.querySelectorAll('img:not(.chart), [onmouseover]').length") == 0
    assert browser.run("document.scripts.length") == 2


def test_policy_blocks_other_scripts(browser, result, tmp_path):
    """The policy blocks a script that is not part of the page, such as an unescaped name."""
    text = result.to_html().replace("<main>", "<main><script>window.slipped = 1</script>")
    (tmp_path / "slipped.html").write_text(text, "utf-8")
    browser.open(tmp_path / "slipped.html")
    assert browser.run("window.slipped") is None
    assert "Content Security Policy" in str(browser.complaints())


def test_a_hundred_thousand_features(browser, tmp_path):
    """The page has few elements, and the right ones after sorting and searching."""
    p = 100_000
    scores = np.random.default_rng(0).permutation(np.linspace(-1, 1, p))
    selected = np.argsort(-np.abs(scores))[:1000]
    rounds = (Round(1000, p, 1000, 0.99, 1000 * p, 1.0),)
    result = ScreeningResult(selected, scores, rounds, np.zeros(p, np.int32), 1000, p, variance_inflation=1.0)
    result.to_html(tmp_path / "big.html")
    assert (tmp_path / "big.html").stat().st_size < 5e6
    browser.open(tmp_path / "big.html")
    assert browser.run(SHOWN) == "1 to 25 of 1,000 features"
    browser.click("#only")
    assert browser.run(SHOWN) == "1 to 25 of 100,000 features"
    browser.click(head(1))
    assert browser.run(CELLS.format(1)) == [f"x{j}" for j in range(25)]
    browser.click(head(2))
    assert browser.run(CELLS.format(1)) == [f"x{j}" for j in np.argsort(-scores)[:25]]
    browser.click("#search")
    browser.type("x9999")
    assert sorted(browser.run(CELLS.format(1))) == ["x9999", *(f"x9999{k}" for k in range(10))]
    assert browser.run("document.querySelectorAll('*').length") < 2000
    assert browser.complaints() == []
