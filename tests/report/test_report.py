"""The HTML report and the notebook view are complete, self-contained and escaped."""

import base64
import hashlib
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest

from banditsis import SIS, BanditSIS, Interactions, Plan, ScreeningResult, screen
from banditsis.report import render
from banditsis.report.tables import embed_json
from banditsis.results import describe_floor

rng = np.random.default_rng(7)
X = rng.standard_normal((2000, 60))
Y = X[:, 5] - X[:, 9] + rng.standard_normal(2000)
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</script><script>alert(3)</script>",
    "<!-- <script>",
    "' onmouseover='alert(4)",
    "]]></style>&amp;&#60;",
    "line\u2028separator\u2029and\x00null",
    "a lone surrogate \ud800",
    "$title ${script} $$",
    "größe µ 大きさ",
]
VOID = {"meta", "input", "line", "rect", "circle", "polyline", "img", "br", "link"}


class Page(HTMLParser):
    """The elements of a page, their attributes and texts; checks that elements close in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self._open = [], {}, []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append((tag, dict(attrs).get("id", tag)))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag

    def handle_data(self, data):
        if self._open:
            name = self._open[-1][1]
            self.texts[name] = self.texts.get(name, "") + data

    @property
    def features(self):
        return json.loads(self.texts["features"])


def charts(result):
    """The SVG images of a report, as text."""
    images = [a["src"] for tag, a in Page(result.to_html()).elements if tag == "img"]
    return [base64.b64decode(source.removeprefix("data:image/svg+xml;base64,")).decode() for source in images]


@pytest.fixture(scope="module")
def result():
    return screen(X, Y, Plan.paper(2000, 60, 6), random_state=0)


@pytest.fixture(scope="module")
def hostile(result):
    names = [HOSTILE[k % len(HOSTILE)] for k in range(60)]
    parameters = {**result.parameters, HOSTILE[0]: HOSTILE[1], "plan": HOSTILE[2]}
    return replace(
        result,
        selected=np.arange(10),
        names=names,
        parameters=parameters,
        versions={HOSTILE[3]: HOSTILE[4]},
        notes=tuple(HOSTILE),
    )


def test_embedded_features(result):
    features = Page(result.to_html()).features
    order = np.argsort(result.ranking)
    assert features["index"] == order.tolist()
    assert features["selected"] == 6
    assert features["name"] == [f"x{j}" for j in order]
    np.testing.assert_allclose(features["score"], result.scores[order], rtol=1e-5)
    np.testing.assert_allclose(np.c_[features["low"], features["high"]], result.interval(), rtol=1e-5)
    assert features["rows"] == result.rows_read[order].tolist()
    assert features["round"] == (result.last_round[order] + 1).tolist()


def test_shows_setup_numbers_and_reliability(result):
    text = result.with_notes(["a note of mine."]).to_html(title="Genes & traits")
    page = Page(text)
    assert page.texts["title"] == page.texts["h1"] == "Genes & traits"
    for part in (
        "2,000 rows × 60 features",
        "Pearson's correlation with the response".replace("'", "&#x27;"),
        "6 of 60",
        f"{100 * result.fraction_read:.1f}%",
        describe_floor(result)[len("detection floor") :],
        f"|r| ≥ {result.detection_floor(simultaneous=True):.4f}",
        "A note of mine.",
        *(f"<dt>{key}</dt><dd>{value}</dd>" for key, value in result.versions.items()),
        "<dt>seed</dt><dd>0</dd>",
    ):
        assert part in text
    for r in result.rounds:
        assert f"<td>{r.n_rows:,}</td>" in text
        assert f"<td>{r.cells:,}</td>" in text


def test_code_reproduces_the_result(result):
    others = [screen(X, Y > 0, Plan.exact(2000, 60, 3), statistic=name) for name in ("anova", "chatterjee")]
    for same in (result, *others):
        code = Page(same.to_html()).texts["code"]
        names = {"X": X, "y": Y if same is result else Y > 0}
        exec(code, names)
        np.testing.assert_array_equal(names["result"].scores, same.scores)
        assert [r.cells for r in names["result"].rounds] == [r.cells for r in same.rounds]


@pytest.mark.parametrize(
    "plan",
    [Plan.paper(2000, 60, 6), Plan.exact(2000, 60, 6), Plan(2000, 60, ((300, 10), (2000, 6)))],
    ids=lambda plan: plan.name,
)
def test_code_reproduces_the_pvalues(plan):
    """The final round that reads all rows is not a step of the plan."""
    result = screen(X, Y, plan, pvalues=True, random_state=3)
    assert result.parameters["pvalues"] is True
    names = {"X": X, "y": Y}
    exec(Page(result.to_html()).texts["code"], names)
    again = names["result"]
    np.testing.assert_array_equal(again.scores, result.scores)
    np.testing.assert_array_equal(again.selected, result.selected)
    np.testing.assert_array_equal(again.log10_pvalues, result.log10_pvalues)
    assert [r.cells for r in again.rounds] == [r.cells for r in result.rounds]
    assert again.notes == result.notes


@pytest.mark.parametrize(
    "options",
    [{}, {"squares": True, "center": True}, {"main_effects": False}],
    ids=lambda options: str(options),
)
def test_code_reproduces_interactions(options):
    source = Interactions(X[:, :9], **options)
    result = screen(source, Y, Plan.paper(*source.shape, 4), random_state=1)
    text = result.to_html()
    assert "products: Interactions(X" in text
    names = {"X": X[:, :9], "y": Y}
    exec(Page(text).texts["code"], names)
    np.testing.assert_array_equal(names["result"].scores, result.scores)
    assert names["result"].selected_names == result.selected_names


@pytest.mark.parametrize(
    ("plan", "shown"),
    [
        (
            Plan.paper(2000, 60, 6, alpha=0.7, discard=0.3),
            [("α", "0.7"), ("Dropped per round", "30% of the")],
        ),
        (Plan.optimal(2000, 60, 6, 0.25), [("Budget", "25% of the cells")]),
        (Plan.optimal(2000, 60, 6, 30_000), [("Budget", "30,000 cells")]),
        (
            Plan.guaranteed(2000, 60, 6, 0.3, confidence=0.9),
            [("Minimum |r|", "0.3"), ("Confidence", "90%")],
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_shows_the_parameters_of_the_plan(plan, shown):
    result = screen(X, Y, plan, pvalues=True, random_state=0)
    text = result.to_html()
    for label, value in shown:
        assert f"<dt>{label}</dt><dd>{value}" in text
    for key, value in plan.parameters:
        assert result.parameters[key] == value
        assert f"<dt>{key}</dt><dd>{value}</dd>" in text
    assert "<dt>P-values</dt><dd>from all rows" in text
    assert ScreeningResult.from_json(result.to_json()).parameters == result.parameters
    assert plan == replace(plan, parameters=())


def test_no_code_if_the_result_stores_too_little(result):
    guaranteed = screen(X, Y, Plan.guaranteed(2000, 60, None, 0.3), random_state=0)
    gappy = replace(result, parameters={**result.parameters, "missing": "pairwise"})
    own = replace(result, parameters={**result.parameters, "statistic": "slope"})
    moved = Interactions(X[:, :5], center=np.zeros(5))
    means = screen(moved, Y, Plan.exact(*moved.shape, 2))
    assert means.parameters["features"] == "Interactions(X, center=means)"
    odd = replace(result, parameters={**result.parameters, "features": "print(X)"})
    for other in (guaranteed, gappy, own, means, odd):
        assert "<pre>" not in other.to_html()


def test_is_self_contained(result):
    """The page has no URLs, and its policy allows only its own script, style and images."""
    text = re.sub(r'src="data:image/svg\+xml;base64,[\w+/=]+"', "", result.to_html())
    assert not re.search(r"https?:|//[a-z]|@import|url\(", re.sub(r"// .*", "", text))
    page = Page(text)
    assert not [tag for tag, attributes in page.elements if {"src", "href", "style"} & set(attributes)]
    (policy,) = (a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    digests = re.findall(r"'sha256-([^']+)'", policy)
    script, style = (re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1] for tag in ("script", "style"))
    assert digests == [
        base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in (script, style)
    ]
    assert "unsafe" not in policy
    assert "img-src data:;" in policy


def test_names_are_shown_and_not_run(hostile, result):
    """Names do not change the elements of the page, and are stored unchanged."""
    text = render(hostile, HOSTILE[0])
    page, plain = Page(text), Page(render(replace(hostile, names=None), "title"))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    assert page.features["name"][:10] == HOSTILE
    assert page.texts["title"] == HOSTILE[0]
    scripts = [a for tag, a in page.elements if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "features"}, {}]
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]


@pytest.mark.parametrize("text", HOSTILE)
def test_json_in_a_script(text):
    embedded = embed_json({text: [text]})
    assert json.loads(embedded) == {text: [text]}
    assert not set("<>&\u2028\u2029") & set(embedded)
    embedded.encode()


def test_writes_the_file_atomically(result, tmp_path, monkeypatch):
    path = tmp_path / "out.html"
    path.write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="full"):
            result.to_html(path)
    assert path.read_text() == "before"
    assert result.to_html(str(path), title="t") is None
    assert path.read_text("utf-8") == result.to_html(title="t")
    assert [file.name for file in tmp_path.iterdir()] == ["out.html"]


def test_size(result):
    assert len(result.to_html()) < 60_000


def test_long_lists_are_cut(result):
    text = render(result, "t", max_listed=20)
    assert len(Page(text).features["index"]) == 20
    assert "20 of 60 features" in text
    few = render(result, "t", max_listed=4)
    assert Page(few).features["selected"] == 4
    back = ScreeningResult.from_json(result.to_json())
    assert "contains 6 of 60 features" in back.to_html()
    assert Page(back.to_html()).features["index"] == result.selected.tolist()


def test_long_names_are_shortened_without_a_script(result):
    long = "<b>" + "gene " * 1000 + "</b>"
    text = replace(result, names=[long] * 60).to_html()
    (noscript,) = re.findall(r"<noscript>(.*?)</noscript>", text, re.DOTALL)
    assert len(noscript) < 3000
    assert "&lt;b&gt;gene gene" in noscript
    assert Page(text).features["name"] == [long] * 60


def test_other_results():
    """One round, classes without intervals, NaN, rows in stored order, nothing selected."""
    classes = SIS(3, statistic="anova").fit(X, Y > 0).result_
    assert Page(classes.to_html()).features["low"] is None
    assert "intervals are available only for Pearson" in classes.to_html()
    gappy = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    for result in (
        BanditSIS(3, missing="pairwise", random_state=0).fit(gappy, Y).result_,
        screen(X, Y, Plan.paper(2000, 60, 3), row_order="stored"),
    ):
        assert "withheld" in result.to_html()
    nothing = screen(X, rng.standard_normal(2000), Plan.guaranteed(2000, 60, None, 0.9), random_state=0)
    assert len(nothing.selected) == 0
    assert "<dt>features selected</dt><dd>0 of 60</dd>" in nothing.to_html()
    assert "not corrected for selection" not in nothing.to_html()
    assert "contains 0 of 60 features" in ScreeningResult.from_json(nothing.to_json()).to_html()
    assert Page(nothing._repr_html_())


def test_pvalues(result):
    """The table has p-values if the result has them."""

    class Tested(ScreeningResult):
        has_pvalues = True

        @property
        def log10_pvalues(self):
            return np.where(self.support, -400.5, np.nan)

    tested = Tested(**vars(result))
    assert Page(tested.to_html()).features["log10p"] == [-400.5] * 6 + [None] * 54
    assert "multiple testing" in tested.to_html()
    assert Page(result.to_html()).features["log10p"] is None


def test_cells_read_again_count_once(result):
    """Rank statistics read all earlier rows again in each round."""
    rounds = tuple(replace(r, cells=r.n_rows * r.n_features) for r in result.rounds)
    again = replace(result, rounds=rounds)
    assert again.cells_read > result.cells_read
    assert charts(again) == charts(result)


def test_charts_are_those_of_plotting(result):
    """Drawn without titles, with the same settings each time."""
    funnel, reading_map = charts(result)
    assert all(
        f">{text}</text>" in funnel for text in ("start", "round 1", "60", "features kept", "rows read")
    )
    assert all(f">{r.n_kept:,}</text>" in funnel for r in result.rounds)
    assert all(f">{text}</text>" in reading_map for text in ("features by rank", "rows in reading order"))
    assert "detection floor" not in funnel
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert charts(result) == [funnel, reading_map]


def test_without_matplotlib(result, monkeypatch):
    """No charts, and how to get them."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = result.to_html()
    assert "pip install &#x27;banditsis[plots]&#x27;" in text
    assert "<img" not in text
    assert Page(text).features["index"]


def test_notebook(result, hostile):
    text = result._repr_html_()
    assert len(text) < 5000
    assert "<b>6 of 60 features selected</b>" in text
    assert describe_floor(result) in text
    for name in result.selected_names:
        assert f"<td>{name}</td>" in text
    page, plain = Page(hostile._repr_html_()), Page(replace(hostile, names=None)._repr_html_())
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    many = replace(result, selected=np.arange(50))
    assert "… and 40 more" in many._repr_html_()


def test_estimators_in_a_notebook():
    selector = SIS(2)
    assert "features selected" not in selector._repr_mimebundle_()["text/html"]
    selector.fit(X, Y)
    for text in (selector._repr_mimebundle_()["text/html"], selector._repr_html_()):
        assert text.count(selector.result_._repr_html_()) == 1
        assert "sk-" in text
    assert set(selector._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert "<b>" not in selector._repr_mimebundle_()["text/plain"]
