"""The HTML report and the notebook view are complete, self-contained and escaped."""

import base64
import gzip
import hashlib
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from banditsis import SIS, BanditSIS, Interactions, Plan, ScreeningResult, open_source, screen, shuffle
from banditsis.results.features import describe_features
from banditsis.results.result import About, Evidence
from banditsis.results.sentences import describe_associated, describe_floor
from banditsis.show.report import render
from banditsis.show.report.overview import overview_columns

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
            self._open.append((tag, dict(attrs).get("class", tag)))

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
        """The first table of the page's script."""
        return unpack(self.texts["data"])

    def count(self, tag, kind=None):
        """Number of elements of a tag, or those of a class."""
        return sum(name == tag and kind in (None, a.get("class")) for name, a in self.elements)


def unpack(text):
    return json.loads(gzip.decompress(base64.b64decode(text)))


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
        evidence=Evidence(),
        effects=None,
        names=names,
        parameters=parameters,
        about=replace(result.about, versions={HOSTILE[3]: HOSTILE[4]}),
        notes=tuple(HOSTILE),
    )


def test_embedded_features(result):
    """The table has the columns of a frame, by rank."""
    features = Page(result.to_html()).features
    order = np.argsort(result.ranking)
    assert features["selected"] == 6
    expected = describe_features(result, order)
    assert list(features["columns"]) == list(expected.columns)
    for name, values in features["columns"].items():
        if name in ("name", "flag"):
            assert values == list(expected[name])
        else:
            found = np.array([np.nan if v is None else v for v in values], dtype=float)
            np.testing.assert_allclose(found, np.asarray(expected[name], dtype=float), rtol=1e-5)


def test_the_answer_comes_first(result):
    """Title, target, file, size, statistic, date, what was found, the chart, and then everything else."""
    named = replace(
        result,
        response="blood pressure",
        about=About("cohort.csv", created="2026-11-16T05:00:00+00:00"),
    )
    text = named.to_html(X=X, y=Y)
    page = Page(text)
    assert page.texts["title"] == page.texts["h1"] == "Features associated with blood pressure"
    parts = [
        "<dt>Target</dt><dd>blood pressure</dd>",
        "<dt>Data</dt><dd>cohort.csv</dd>",
        "<dt>Size</dt><dd>2,000 rows × 60 features</dd>",
        "<dt>Statistic</dt><dd>Pearson&#x27;s correlation with the response</dd>",
        "<dt>Date</dt><dd>2026-11-16 05:00:00 UTC</dd>",
        '<p class="answer">2 of 6 clearly associated; the other 4 are indistinguishable from noise.</p>',
        '<table class="ranked">',
        "<h2>Features</h2>",
        "<h2>The best features and the response</h2>",
        "<h2>Correlations among the selected features</h2>",
        "<h2>How they were found</h2>",
        "<h2>Settings</h2>",
    ]
    positions = [text.find(part) for part in parts]
    assert -1 not in positions
    assert positions == sorted(positions)


def test_what_is_not_known_is_left_out(result):
    text = replace(result, response="", about=About()).to_html()
    assert "<h1>Features associated with the response</h1>" in text
    for label in ("Target", "Data", "Date"):
        assert f"<dt>{label}</dt>" not in text


def test_signal_and_noise_have_different_marks(result):
    """Each row of the chart says what is known of its feature by its class, which sets shape and colour."""
    (chart,) = re.findall(r'<table class="ranked">(.*?)</table>', result.to_html(), re.DOTALL)
    rows = re.findall(r'<tr class="(signal|noise|unknown)"><th scope="row" title="([^"]+)">', chart)
    clear = set(result.associated.tolist())
    assert rows == [("signal" if k in clear else "noise", f"x{k}") for k in result.selected]
    assert chart.count('class="interval"') == 6
    assert chart.count("<circle") == 2
    cutoff = result.rounds[-1].cutoff
    assert f"cutoff {cutoff:.3g}" in result.to_html()
    assert chart.count('class="cutoff"') == 12  # on both sides of 0


def test_classes_have_bars_and_no_intervals():
    three = np.digitize(Y, [-1, 1])
    classes = screen(X, three, Plan.paper(2000, 60, 3), statistic="anova", random_state=0)
    assert classes.associated is None
    text = classes.to_html()
    assert text.count('<line class="bar"') == 3
    assert 'class="interval"' not in text
    assert "which of them are clearly associated is not known: set pvalues=True to test them." in text
    assert "only known for the Pearson statistic" in text
    assert not re.search(r">\+\d", text)  # a score without a sign
    tested = screen(X, Y > 0, Plan.paper(2000, 60, 3), statistic="anova", pvalues=True, random_state=0)
    assert '<p class="answer">2 of 3 clearly associated' in tested.to_html()


def test_no_intervals_because_of_the_row_order():
    """Pearson has intervals, but not for rows that are no random sample."""
    blocks = screen(X, Y, Plan.paper(2000, 60, 3), row_order="stored")
    text = blocks.to_html()
    assert "There are no confidence intervals: the rows read are not a simple random sample" in text
    assert "only known for" not in text


def test_the_chart_has_the_best_of_a_large_selection(result):
    rounds = (replace(result.rounds[-1], n_rows=2000, n_features=60),)
    many = replace(
        result, selected=np.arange(60), effects=None, rounds=rounds, last_round=np.zeros(60, np.int32)
    )
    page = Page(replace(many, evidence=Evidence(), effects=None).to_html())
    assert sum("title" in attributes for tag, attributes in page.elements if tag == "th") == 25


def test_labels_are_unique(result):
    names = [f"the same first part of a long name, then {j}, and the same last part of it" for j in range(60)]
    text = replace(result, names=names).to_html(X=X, y=Y)
    labels = re.findall(r'<th scope="row" title="[^"]+">([^<]+)</th>', text)
    assert len(labels) == len(set(labels)) == 6
    assert all(len(label) <= 24 for label in labels)
    captions = re.findall(r"<figcaption[^>]*>([^<]+)<", text)
    assert len(captions) == len(set(captions)) == 6


def test_flags_are_shown(result):
    text = replace(result, flags={int(result.selected[0]): "possible leakage"}).to_html()
    assert f'<p class="warning">Check {result.selected_names[0]}: possible leakage.</p>' in text


def test_shows_rounds_settings_and_reliability(result):
    text = replace(result, notes=("a note of mine.",)).to_html(title="Genes & traits")
    page = Page(text)
    assert page.texts["title"] == page.texts["h1"] == "Genes & traits"
    for part in (
        f"{100 * result.fraction_read:.1f}%",
        describe_floor(result)[len("detection floor") :],
        f"|r| ≥ {result.detection_floor(simultaneous=True):.4f}",
        "A note of mine.",
        *(f"<dt>{key} version</dt><dd>{value}</dd>" for key, value in result.about.versions.items()),
        "<dt>Seed</dt><dd>0</dd>",
    ):
        assert part in text
    for r in result.rounds:
        assert f"<td>{r.n_rows:,}</td>" in text
        assert f"<td>{r.cells:,}</td>" in text


def test_plots_of_the_data(result):
    """A scatter plot of each selected feature, and the correlations; nothing of it without the data."""
    page = Page(result.to_html(X=X, y=Y))
    assert page.count("figure") == page.count("polyline") == 6
    assert page.count("svg", "heat") == 1
    alone = Page(result.to_html(X=X))
    assert alone.count("figure") == 0
    assert alone.count("svg", "heat") == 1
    without = Page(result.to_html())
    assert without.count("figure") == without.count("svg", "heat") == 0


def test_near_duplicates_are_named():
    copies = X.copy()
    copies[:, 20] = X[:, 5] + 0.1 * rng.standard_normal(2000)
    result = screen(copies, Y, Plan.exact(2000, 60, 4))
    r = np.corrcoef(copies[:, [5, 20]].T)[0, 1]
    text = result.to_html(X=copies)
    assert f"x5 and x20: r = +{r:.3f}" in text or f"x20 and x5: r = +{r:.3f}" in text


def test_a_choice_without_redundancy_shows_its_correlations():
    """They come with the result, and so do the features that were left out; the data are not needed."""
    copies = X.copy()
    copies[:, 20:32] = -X[:, 5:6]
    result = SIS(4, avoid_redundancy=True).fit(copies, Y).result_
    assert result.near_duplicates[5].tolist() == list(range(20, 32))
    text = result.to_html()
    page = Page(text)
    assert page.count("svg", "heat") == 1
    left_out = ", ".join(f"x{k}" for k in range(20, 30))
    assert f"<li>x5: {left_out} and 2 more</li>" in text
    largest = np.abs(result.correlation[np.triu_indices(4, 1)]).max()
    assert f"the largest is {largest:.2f}" in text
    assert "No two of them have |r| &gt; 0.95" in text
    other = replace(result, correlation=np.where(np.eye(4) == 1, 1.0, 0.25))
    assert "the largest is 0.25" in other.to_html(X=copies, y=Y)
    single = SIS(1, avoid_redundancy=True).fit(copies, Y).result_
    assert "<li>x5: x20, " in single.to_html()


@pytest.mark.parametrize(
    ("values", "response", "drawn"),
    [
        (X[:, 5], Y, "polyline"),
        (X[:, 5], np.where(Y > 0, "<b>", "no"), 'class="box"'),
        (np.round(X[:, 5]).clip(0, 2), Y, 'class="box"'),
        (np.round(X[:, 5]).clip(0, 2), Y > 0, 'class="count"'),
        (np.where(X[:, 7] > 0, np.nan, X[:, 5]), Y, "polyline"),
        (1e308 * np.sign(X[:, 5]) * rng.random(2000), Y, "polyline"),
    ],
    ids=["scatter", "classes", "few values", "both", "missing values", "huge"],
)
def test_kinds_of_plots(values, response, drawn):
    from banditsis.show.report.dataplots import plot_pair

    plot = plot_pair(values, np.asarray(response))
    assert drawn in plot
    assert "nan" not in plot
    assert "<b>" not in plot


def test_many_classes_and_a_sparse_sample():
    from banditsis.show.report.samples import find_classes

    letters = np.array(["a"] * 50 + [f"c{k}" for k in range(30)])
    assert len(find_classes(letters)) == 10
    assert "a" in find_classes(letters)


def test_the_sample_is_of_rows_with_a_response(result):
    from banditsis.show.report.samples import read_sample

    gappy = np.where(np.arange(2000) < 1500, np.nan, Y)
    sample = read_sample(result, open_source(X), gappy)
    assert len(sample.y) == 500
    rows = np.searchsorted(np.sort(Y), sample.y)
    np.testing.assert_array_equal(sample.plotted, X[np.argsort(Y)[rows]][:, result.selected])
    expected = np.corrcoef(X[1500:][:, result.selected].T)
    np.testing.assert_allclose(sample.correlation, expected, atol=1e-12)
    with pytest.raises(ValueError, match="X has 59 features and the result has 60"):
        result.to_html(X=X[:, 1:], y=Y)
    with pytest.raises(ValueError, match=r"2,000 rows and y has 1,999"):
        result.to_html(X=X, y=Y[1:])


def test_rare_classes_are_drawn():
    """At most 250 rows of each class, so the three rows of the rare one are among them."""
    from banditsis.show.report.samples import read_sample

    tall = np.tile(X, (10, 1))
    labels = np.where(np.isin(np.arange(20_000), [17, 9000, 19_999]), "case", "control")
    result = screen(tall, labels, Plan.exact(20_000, 60, 3))
    sample = read_sample(result, open_source(tall), labels)
    assert [np.count_nonzero(sample.y == name) for name in ("case", "control")] == [3, 250]
    rare = tall[[17, 9000, 19_999]][:, result.selected]
    np.testing.assert_array_equal(np.sort(sample.plotted[sample.y == "case"], axis=0), np.sort(rare, axis=0))
    text = result.to_html(X=tall, y=labels)
    assert "A random sample of 253 rows, at most 250 of each class. The vertical axis is the feature" in text
    assert text.count('class="box"') == 6


def test_circles_are_shares_of_a_class():
    """The circles of a class that is drawn as often as it occurs and of one that is not are comparable."""
    from banditsis.show.report.dataplots import plot_pair

    x = np.repeat([0.0, 1.0, 0.0, 1.0], [1, 3, 100, 300])
    y = np.repeat(["rare", "usual"], [4, 400])
    radii = re.findall(r' r="([^"]+)"', plot_pair(x, y))
    assert len(radii) == 4
    assert radii[:2] == radii[2:]
    genotypes = np.round(X).clip(0, 2)
    result = screen(genotypes, Y > 0, Plan.exact(2000, 60, 3), statistic="anova")
    text = result.to_html(X=genotypes, y=Y > 0)
    assert "rows, at most 250 of each class. The areas of circles are shares of each class." in text


def test_survival_times_are_those_of_events():
    time = np.exp(-X[:, 5] + rng.standard_normal(2000))
    event = rng.random(2000) < 0.2
    result = screen(X, np.column_stack([time, event]), Plan.exact(2000, 60, 3), statistic="cox")
    text = result.to_html(X=X, y=np.column_stack([time, event]))
    assert f"A random sample of {event.sum():,} rows with an event." in text


def test_interactions_are_read_as_products():
    source = Interactions(X[:, :9])
    result = screen(source, Y, Plan.paper(*source.shape, 4), random_state=1)
    assert Page(result.to_html(X=source, y=Y)).count("figure") == 4


def test_the_command_is_shown(result):
    text = replace(result, about=About(command="banditsis screen 'a <b>.csv' --target y")).to_html()
    assert Page(text).texts["code"] == "banditsis screen 'a <b>.csv' --target y"
    assert "<pre>" not in result.to_html()


def test_shares_dropped_are_those_of_the_rounds():
    """The default plan joins rounds of the paper's, so it has no common share."""
    paper = screen(X, Y, Plan.paper(2000, 60, 6), random_state=0)
    assert "<dt>Dropped per round</dt><dd>50% of the excess features</dd>" in paper.to_html()
    for r in paper.rounds:
        assert r.n_features - r.n_kept == np.ceil(0.5 * (r.n_features - 6))
    for plan in (Plan.paper(2000, 60, 6).with_few_steps(), Plan.paper(2000, 60, 6).round_to_blocks(200)):
        assert "Dropped per round" not in screen(X, Y, plan, random_state=0).to_html()


@pytest.mark.parametrize(
    ("plan", "shown"),
    [
        (
            Plan.paper(2000, 60, 6, alpha=0.7, discard=0.3),
            [("α", "0.7"), ("Dropped per round", "30% of the")],
        ),
        (Plan.optimal(2000, 60, 6, 0.25), [("Budget", "25% of the cells")]),
        (Plan.optimal(2000, 60, 6, 30_000), [("Budget", "30,000")]),
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
    assert "<dt>P-values</dt><dd>yes" in text
    assert ScreeningResult.from_json(result.to_json()).parameters == result.parameters
    assert plan == replace(plan, parameters=())


def test_all_settings_have_labels(tmp_path):
    from banditsis.statistics import SlicedWasserstein

    store = open_source(shuffle(X, tmp_path / "x.shuffled", random_state=0))
    results = [
        SIS(3, avoid_redundancy=True).fit(X, Y, sample_weight=np.arange(2000)).result_,
        SIS("fdr", pvalues=True).fit(Interactions(X[:, :5]), Y).result_,
        screen(store, Y, Plan.paper(2000, 60, 3), missing="pairwise", covariates=X[:, 0]),
        screen(X, Y, Plan.exact(2000, 60, 3), statistic=SlicedWasserstein(n_directions=4)),
    ]
    text = "".join(result.to_html() for result in results)
    for result in results:
        for key in result.parameters:
            assert f"<dt>{key}</dt>" not in text
    assert "<dt>Avoid redundancy</dt><dd>yes</dd>" in text
    assert "<dt>Shuffled</dt><dd>yes</dd>" in text


def test_is_self_contained(result):
    """The page has no URLs, and its policy allows only its own script and style."""
    text = re.sub(r'class="data">[\w+/=]+<', 'class="data"><', result.to_html(X=X, y=Y))
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
    assert "img-src" not in policy


def test_names_are_shown_and_not_run(hostile):
    """Names do not change the elements of the page, and the table has them unchanged."""
    odd = replace(hostile, response=HOSTILE[1], about=About(HOSTILE[0]), flags={3: HOSTILE[2]})
    labels = np.array(HOSTILE[:3])[rng.integers(0, 3, 2000)]
    text = odd.to_html(title=HOSTILE[0], X=X, y=labels)
    text.encode("utf-8", "backslashreplace")
    page = Page(text)
    plain = Page(
        replace(odd, names=None, response="y").to_html(X=X, y=np.unique(labels, return_inverse=True)[1])
    )
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    escaped = [name.encode("utf-8", "backslashreplace").decode() for name in HOSTILE]
    assert page.features["columns"]["name"][:10] == escaped
    assert page.texts["title"] == HOSTILE[0]
    scripts = [a for tag, a in page.elements if tag == "script"]
    assert scripts == [{"type": "text/plain", "class": "data"}, {}]
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]


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
    assert len(result.to_html(X=X, y=Y)) < 120_000


def test_fifty_thousand_features_with_data_fit_in_3_mb():
    wide = rng.standard_normal((200, 50_000), dtype=np.float32)
    y = wide[:, 7] + rng.standard_normal(200)
    result = replace(
        screen(wide, y, Plan.exact(200, 50_000, 100)), names=[f"rs{10**6 + 37 * j}" for j in range(50_000)]
    )
    page = result.to_html(X=wide, y=y)
    assert len(page.encode()) < 3e6
    assert len(Page(page).features["columns"]["index"]) == 50_000


def test_long_lists_are_cut(result):
    text = render([result], max_listed=20)
    assert len(Page(text).features["columns"]["index"]) == 20
    assert "20 of 60 features" in text
    few = render([result], max_listed=4)
    assert Page(few).features["selected"] == 4
    scores = np.where(result.support, result.scores, np.nan)  # those of the others are not known
    assert "contains 6 of 60 features" in replace(result, scores=scores).to_html()


def test_long_names_are_shortened_without_a_script(result):
    """The table for browsers without a script is in the page, and short."""
    long = "<b>" + "gene " * 1000 + "</b>"
    text = replace(result, names=[long] * 60).to_html()
    (fallback,) = re.findall(r'<div class="scroll features">(.*?)</div>', text, re.DOTALL)
    assert len(fallback) < 3000
    assert "&lt;b&gt;gene gene" in fallback
    assert fallback.count("<tr>") == 7
    assert fallback.count("● clear") == 2
    assert fallback.count("◇ unclear") == 4
    assert Page(text).features["columns"]["name"] == [long] * 60


def test_other_results():
    """NaN, rows in stored order, nothing selected."""
    gappy = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    text = BanditSIS(3, alpha=0.5, missing="pairwise", random_state=0).fit(gappy, Y).result_.to_html()
    assert "a feature with |score| at or above it" in text
    stored = screen(X, Y, Plan.paper(2000, 60, 3), row_order="stored")
    assert "Detection floor: not available" in stored.to_html()
    nothing = screen(X, rng.standard_normal(2000), Plan.guaranteed(2000, 60, None, 0.9), random_state=0)
    assert len(nothing.selected) == 0
    text = nothing.to_html(X=X, y=Y)
    assert '<p class="answer">No feature was selected.</p>' in text
    assert '<table class="ranked">' not in text
    assert "not corrected for selection" not in text
    assert Page(nothing._repr_html_())


def test_exact_runs():
    """P-values, q-values and what they mean; the cells that were read are not drawn."""
    result = screen(X, Y, Plan.exact(2000, 60, 6))
    text = result.to_html()
    columns = Page(text).features["columns"]
    order = np.argsort(result.ranking)
    np.testing.assert_allclose(columns["log10_pvalue"], result.log10_pvalues[order], rtol=1e-5)
    np.testing.assert_allclose(columns["qvalue"], result.qvalues[order], rtol=1e-5)
    assert "Holm&#x27;s correction" in text
    assert "<img" not in text


def test_the_overview_says_if_more_features_may_be_significant():
    rare = X[:, :2] + X[:, 2:4] > 3
    for pvalues, expected in ((False, ["≥ 1", "≥ 1"]), (True, ["2", "2"])):
        results = screen(X, rare, Plan.exact(2000, 60, 1), pvalues=pvalues)
        assert overview_columns(results)["5% FDR over all tests"] == expected


def test_pvalues_of_zero_are_stored():
    result = screen(X, X[:, 5], Plan.exact(2000, 60, 6))
    assert result.log10_pvalues[5] == -np.inf
    columns = Page(result.to_html()).features["columns"]
    assert columns["log10_pvalue"][0] == columns["log10_qvalue"][0] == -1e308


def test_several_responses():
    """An overview with links to a section for each response."""
    many = X[:, :3] + rng.standard_normal((2000, 3))
    many[:, 1] = rng.standard_normal(2000)
    results = screen(X, many, Plan.exact(2000, 60, 4))
    named = type(results)(
        [replace(r, response=name) for r, name in zip(results, ("a", "<b>", "c"), strict=True)]
    )
    text = named.to_html(X=X, y=many)
    page = Page(text)
    assert page.texts["h1"] == "Features associated with 3 responses"
    assert page.count("article", "response") == 3
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    assert links[:3] == ["#response-0", "#response-1", "#response-2"]
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links} <= set(ids)
    assert text.index("5% FDR over all tests") < text.index('<article class="response"')
    counts = re.findall(
        r'<th scope="row"><a [^>]*>([^<]+)</a></th><td[^>]*>(\d+)</td><td[^>]*>(\d+)</td>', text
    )
    assert counts == [
        (name, "4", str(len(r.associated))) for name, r in zip(("a", "&lt;b&gt;", "c"), named, strict=True)
    ]
    assert page.count("figure") == 12 + 3  # and the Q–Q plots
    tables = re.findall(r'class="data">([^<]+)<', text)
    assert [unpack(data)["selected"] for data in tables] == [4, 4, 4]
    few = [
        unpack(data)["columns"]["index"]
        for data in re.findall(r'class="data">([^<]+)<', render(list(named), max_listed=30))
    ]
    assert [len(index) for index in few] == [10, 10, 10]


class CountedArray:
    """Cells that count how often they are opened."""

    shape, opened = X.shape, 0

    def __array__(self, dtype=None, copy=None):
        self.opened += 1
        return X


def test_several_responses_open_the_data_once():
    results = screen(X, np.column_stack([Y, -Y, X[:, 3]]), Plan.exact(2000, 60, 4))
    cells = CountedArray()
    assert Page(results.to_html(X=cells)).count("svg", "heat") == 3
    assert cells.opened == 1


def test_responses_of_different_sizes():
    """The head of a page is about all responses: rows without a response do not count."""
    responses = np.column_stack([Y, np.where(np.arange(2000) < 1500, Y, np.nan)])
    results = screen(X, responses, Plan.exact(2000, 60, 4), missing="pairwise")
    size = "1,500 to 2,000 rows × 60 features"
    assert f"<dt>Size</dt><dd>{size}</dd>" in results.to_html()
    assert f"<b>2 responses</b>, {size}" in results._repr_html_()
    assert str(results).startswith(f"2 responses, {size}\n")
    ranks = screen(X, Y, Plan.exact(2000, 60, 4), statistic="spearman")
    text = type(results)([results[0], ranks]).to_html()
    assert "<dt>Size</dt><dd>2,000 rows × 60 features</dd>" in text
    assert "Pearson&#x27;s correlation with the response; Spearman&#x27;s rank correlation" in text


def test_needs_no_matplotlib(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert '<table class="ranked">' in result.to_html(X=X, y=Y)


def test_notebook(result, hostile):
    text = result._repr_html_()
    assert len(text) < 5000
    found = describe_associated(result)
    assert f"<b>{found[0].upper()}{found[1:]}</b>" in text
    assert text.index("</b>") < text.index("6 of 60 features selected") < text.index("<details>")
    assert describe_floor(result) in text
    for name in result.selected_names:
        assert f"<td>{name}</td>" in text
    page, plain = Page(hostile._repr_html_()), Page(replace(hostile, names=None)._repr_html_())
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    many = replace(result, selected=np.arange(50), evidence=Evidence(), effects=None)
    assert "… and 40 more" in many._repr_html_()


def test_several_results_and_plans_in_a_notebook():
    results = screen(X, X[:, :2] + rng.standard_normal((2000, 2)), Plan.exact(2000, 60, 4))
    text = results._repr_html_()
    assert "<b>2 responses</b>, 2,000 rows × 60 features" in text
    assert "<td>y1</td><td>4</td><td>1</td>" in text
    assert Page(text).count("tr") == 3
    for plan in (Plan.paper(2000, 60, 6), Plan.guaranteed(2000, 60, None, 0.3)):
        view = Page(plan._repr_html_())
        assert view.count("tr") == 1 + len(plan.rows_of_table())
        assert view.texts["p"] == plan.headline()


def test_estimators_in_a_notebook():
    selector = SIS(2)
    assert "features selected" not in selector._repr_mimebundle_()["text/html"]
    selector.fit(X, Y)
    for text in (selector._repr_mimebundle_()["text/html"], selector._repr_html_()):
        assert text.count(selector.result_._repr_html_()) == 1
        assert "sk-" in text
    assert set(selector._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert "<b>" not in selector._repr_mimebundle_()["text/plain"]


def test_all_pvalues_have_a_qq_plot():
    """With the inflation factor in one line; not if features have no p-value."""
    result = screen(X, Y, Plan.exact(2000, 60, 5), pvalues=True)
    text = result.to_html()
    Page(text)
    assert "<h2>Q–Q plot of all p-values</h2>" in text
    assert f"<p>Genomic inflation factor λ = {result.genomic_inflation:.3f}. It is about 1" in text
    copy = screen(X, X[:, 5], Plan.exact(2000, 60, 5), pvalues=True)  # has a p-value of 0
    assert "nan" not in copy.to_html().split("Q–Q plot")[1].split("</svg>")[0]
    adaptive = screen(X, Y, Plan.paper(2000, 60, 5), pvalues=True, random_state=0)
    assert "Q–Q" not in adaptive.to_html()
