"""The HTML report and the notebook view are complete, self-contained and escaped."""

import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from banditsis import SIS, BanditSIS, Interactions, Plan, build_index, open_source, screen
from banditsis.results import About, Evidence, describe_features, rank_features, selection_mask
from banditsis.results.sentences import describe_answer, describe_floor
from banditsis.show.report import render

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
VOID = {"meta", "input"}


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


def tags(text):
    return [tag for tag, _ in Page(text).elements]


def assert_has(text, *parts):
    assert [part for part in parts if part not in text] == []


def embedded(text):
    """The tables of a page's script, one for each response."""
    packed = re.findall(r'class="data">([^<]+)<', text)
    return [json.loads(gzip.decompress(base64.b64decode(data))) for data in packed]


def assert_in_order(text, parts):
    positions = [text.find(part) for part in parts]
    assert -1 not in positions
    assert positions == sorted(positions)


@pytest.fixture(scope="module")
def result():
    return screen(X, Y, Plan.paper(2000, 60, 6), random_state=0)


def make_hostile(result):
    """The same result with hostile texts everywhere."""
    names = [HOSTILE[k % len(HOSTILE)] for k in range(60)]
    parameters = {**result.parameters, HOSTILE[0]: HOSTILE[1], "plan": HOSTILE[2]}
    about = About(HOSTILE[0], response=HOSTILE[1], versions={HOSTILE[3]: HOSTILE[4]})
    bare = replace(result, selected=np.arange(10), evidence=Evidence(), effects=None, flags={3: HOSTILE[2]})
    return replace(bare, names=names, parameters=parameters, about=about, notes=tuple(HOSTILE))


def test_the_answer_comes_first(result):
    """Title, target, file, size, statistic, date, what was found, the chart, and then everything else."""
    about = About("cohort.csv", response="blood pressure", created="2026-11-16T05:00:00+00:00")
    text = replace(result, about=about).to_html()
    page = Page(text)
    assert page.texts["title"] == page.texts["h1"] == "Features associated with blood pressure"
    facts = [
        "Target</dt><dd>blood pressure</dd>",
        "Data</dt><dd>cohort.csv</dd>",
        "Size</dt><dd>2,000 rows × 60 features</dd>",
        "Statistic</dt><dd>Pearson",
        "Date</dt><dd>2026-11-16 05:00:00 UTC</dd>",
    ]
    answer = '<p class="answer">2 of 6 clearly associated; the other 4 are unclear.</p>'
    headings = [f"<h2>{heading}</h2>" for heading in ("Features", "How they were found", "Settings")]
    assert_in_order(text, [*(f"<dt>{fact}" for fact in facts), answer, '<table class="ranked">', *headings])


def test_signal_and_noise_have_different_marks(result):
    """Each row of the chart says what is known of its feature by its class, which sets shape and colour."""
    (chart,) = re.findall(r'<table class="ranked">(.*?)</table>', result.to_html(), re.DOTALL)
    rows = re.findall(r'<tr class="(signal|unclear|leak|unknown)"><th scope="row" title="([^"]+)">', chart)
    clear = set(result.associated.tolist())
    assert rows == [("signal" if k in clear else "unclear", f"x{k}") for k in result.selected]
    assert f"cutoff {result.rounds[-1].cutoff:.3g}" in result.to_html()
    counts = [chart.count(part) for part in ('class="interval"', "<circle", 'class="cutoff"')]
    assert counts == [6, 2, 12]  # cutoffs on both sides of 0


def test_what_is_not_known_is_left_out(result):
    """Names, intervals of other statistics, of rows that are no random sample, and of no features."""
    plan, noise, bare = Plan.paper(2000, 60, 3), rng.standard_normal(2000), replace(result, about=About())
    anova = screen(X, np.digitize(Y, [-1, 1]), plan, statistic="anova", random_state=0)
    unknown = "which of them are clearly associated is not known: set pvalues=True to test them."
    stored = screen(X, Y, plan, row_order="stored")
    no_intervals = "There are no confidence intervals: the rows read are not a simple random sample"
    nothing = screen(X, noise, Plan.guaranteed(2000, 60, None, 0.9), random_state=0)
    for found, absent, *present in (
        (bare, "<dt>(Target|Data|Date)</dt>", "<h1>Features associated with the response</h1>"),
        (anova, r'class="interval"|>\+\d', unknown, "only known for the statistic "),  # scores have no sign
        (stored, 'class="interval"', no_intervals, "Detection floor: not available"),
        (nothing, 'class="ranked"|not corrected for', '<p class="answer">No feature was selected.</p>'),
    ):
        assert_has(found.to_html(), *present)
        assert not re.search(absent, found.to_html())
    gappy = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    pairwise = BanditSIS(3, alpha=0.5, missing="pairwise", random_state=0).fit(gappy, Y).result_
    assert "a feature with |score| at or above it" in pairwise.to_html()
    assert anova.to_html().count('<line class="bar"') == 3
    assert len(nothing.selected) == 0
    assert Page(nothing._repr_html_())


def test_shows_rounds_settings_and_reliability(result):
    flags = {int(result.selected[0]): "possible leakage"}
    about = replace(result.about, command="a <b>")
    flagged = replace(result, notes=("a note of mine.",), flags=flags, about=about)
    text = flagged.to_html(title="Genes & traits")
    page = Page(text)
    assert page.texts["title"] == page.texts["h1"] == "Genes & traits"
    dropped = ", ".join(f"{1 - r.n_kept / r.n_features:.0%}" for r in result.rounds)
    assert_has(
        text,
        f'<p class="warning">Check {result.selected_names[0]}: possible leakage.</p>',
        f"{100 * result.fraction_read:.1f}%",
        describe_floor(result)[len("detection floor") :],
        f"|r| ≥ {result.detection_floor(simultaneous=True):.4f}",
        "A note of mine.",
        *(f"<dt>{key} version</dt><dd>{value}</dd>" for key, value in result.about.versions.items()),
        *(f"<td>{r.n_rows:,}</td>" for r in result.rounds),
        "<dt>Seed</dt><dd>0</dd>",
        f"<dt>Features dropped per round</dt><dd>{dropped}</dd>",
        "<code>a &lt;b&gt;</code>",
    )
    assert "<pre>" not in result.to_html()


def test_all_settings_have_labels(tmp_path):
    store = open_source(build_index(X, tmp_path / "x.index", random_state=0))
    results = [
        SIS(3, avoid_redundancy=True).fit(X, Y, sample_weight=np.arange(2000)).result_,
        SIS(fdr=0.05, pvalues=True).fit(Interactions(X[:, :5]), Y).result_,
        screen(store, Y, Plan.guaranteed(2000, 60, 6, 0.3), missing="raise"),
    ]
    text = "".join(result.to_html() for result in results)
    shown = re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", text)
    assert not {key for result in results for key in result.parameters} & {label for label, _ in shown}
    assert {("Minimum |r|", "0.3"), ("Confidence", "0.95"), ("P-values", "yes")} <= set(shown)


def test_a_choice_without_redundancy_shows_its_correlations():
    """They come with the result, and so do the features that were left out."""
    copies = X.copy()
    copies[:, 20:32] = -X[:, 5:6]
    result = SIS(4, avoid_redundancy=True).fit(copies, Y).result_
    assert result.evidence.near_duplicates[5].tolist() == list(range(20, 32))
    left_out = ", ".join(f"x{k}" for k in range(20, 30))
    largest = np.abs(result.evidence.correlation[np.triu_indices(4, 1)]).max()
    assert_has(result.to_html(), f"<li>x5: {left_out} and 2 more</li>", f"the largest {largest:.2f}")
    single = SIS(1, avoid_redundancy=True).fit(copies, Y).result_.to_html()
    assert ("<li>x5: x20, " in single, "The mean |r|" in single) == (True, False)
    assert "Redundant features" not in screen(copies, Y, Plan.exact(2000, 60, 4)).to_html()


def test_is_self_contained(result):
    """The page has no URLs, and its policy allows only its own script and style."""
    text = re.sub(r'class="data">[\w+/=]+<', 'class="data"><', result.to_html())
    assert not re.search(r"https?:|//[a-z]|@import|url\(", re.sub(r"// .*", "", text))
    page = Page(text)
    assert not [tag for tag, attributes in page.elements if {"src", "href", "style"} & set(attributes)]
    (policy,) = (a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    own = [re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1].encode() for tag in ("script", "style")]
    digests = [base64.b64encode(hashlib.sha256(part).digest()).decode() for part in own]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests
    assert not re.search("unsafe|img-src", policy)


def test_names_are_shown_and_not_run(result):
    """Names do not change the elements of the page or of the notebook view; the table has them unchanged."""
    hostile = make_hostile(result)
    text = hostile.to_html(title=HOSTILE[0])
    text.encode("utf-8", "backslashreplace")
    page = Page(text)
    plain = replace(hostile, names=None, about=About("x", response="y", versions={"a": "b"}))
    assert tags(text) == tags(plain.to_html())
    assert tags(hostile._repr_html_()) == tags(plain._repr_html_())
    escaped = [name.encode("utf-8", "backslashreplace").decode() for name in HOSTILE]
    assert embedded(text)[0]["columns"]["name"][:10] == escaped
    assert page.texts["title"] == HOSTILE[0]
    scripts = [a for tag, a in page.elements if tag == "script"]
    assert scripts == [{"type": "text/plain", "class": "data"}, {}]
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]


def test_writes_the_file_completely_or_not_at_all(result, tmp_path):
    folder, path = tmp_path / "folder", tmp_path / "out.html"
    folder.mkdir()
    with pytest.raises(OSError, match="folder"):
        result.to_html(folder)
    assert result.to_html(str(path), title="t") is None
    assert path.read_text("utf-8") == result.to_html(title="t")
    assert {file.name for file in tmp_path.iterdir()} == {"folder", "out.html"}


def test_long_lists_are_cut(result):
    text = render([result], max_listed=20)
    assert len(embedded(text)[0]["columns"]["index"]) == 20
    assert "20 of 60 features" in text
    assert embedded(render([result], max_listed=4))[0]["selected"] == 4
    scores = np.where(selection_mask(result), result.scores, np.nan)  # those of the others are not known
    assert "contains 6 of 60 features" in replace(result, scores=scores).to_html()


def test_long_names_are_shortened_without_a_script(result):
    """The table for browsers without a script is in the page, and short; labels differ."""
    names = [f"the same first part of a long name, then {j}, and the same last part of it" for j in range(60)]
    text = replace(result, names=names).to_html()
    labels = re.findall(r'<th scope="row" title="[^"]+">([^<]+)</th>', text)
    assert len(labels) == len(set(labels)) == 6
    assert all(len(label) <= 24 for label in labels)
    long = "<b>" + "gene " * 1000 + "</b>"
    text = replace(result, names=[long] * 60).to_html()
    (fallback,) = re.findall(r'<div class="scroll features">(.*?)</div>', text, re.DOTALL)
    assert len(fallback) < 3000
    assert "&lt;b&gt;gene gene" in fallback
    assert [fallback.count(part) for part in ("<tr>", "● clear", "◇ unclear")] == [7, 2, 4]
    assert embedded(text)[0]["columns"]["name"] == [long] * 60


def test_embedded_features_and_pvalues():
    """The table has the columns of a frame, by rank; p-values may be 0, and all have an inflation factor."""
    result = screen(X, Y, Plan.exact(2000, 60, 6), pvalues=True)
    text = result.to_html()
    (features,) = embedded(text)
    expected = describe_features(result, np.argsort(rank_features(result)))
    assert (features["selected"], list(features["columns"])) == (6, list(expected.columns))
    for name, values in features["columns"].items():
        if name in ("name", "flag"):
            assert values == list(expected[name])
        else:
            found, exact = np.array(values, dtype=float), np.asarray(expected[name], dtype=float)
            np.testing.assert_allclose(found, exact, rtol=1e-5)
    inflation = f"<li>Genomic inflation factor λ = {result.genomic_inflation:.3f}.</li>"
    assert_has(text, "Holm&#x27;s correction", inflation)
    copy = screen(X, X[:, 5], Plan.exact(2000, 60, 6))
    columns = embedded(copy.to_html())[0]["columns"]
    assert columns["log10_pvalue"][0] == columns["log10_adjusted_pvalue"][0] == -1e308
    adaptive = screen(X, Y, Plan.paper(2000, 60, 5), pvalues=True, random_state=0)
    assert "inflation factor" not in adaptive.to_html()


def test_several_responses():
    """An overview with links to a section for each response, and a table in a notebook."""
    many = X[:, :3] + rng.standard_normal((2000, 3))
    many[:, 1] = rng.standard_normal(2000)
    results = screen(X, many, Plan.exact(2000, 60, 4))
    pairs = zip(results, ("a", "<b>", "c"), strict=True)
    named = type(results)([replace(r, about=replace(r.about, response=name)) for r, name in pairs])
    text = named.to_html()
    page = Page(text)
    assert page.texts["h1"] == "Features associated with 3 responses"
    assert sum(a.get("class") == "response" for tag, a in page.elements if tag == "article") == 3
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    assert links[:3] == ["#response-0", "#response-1", "#response-2"]
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links} <= set(ids)
    row = r'<th scope="row"><a [^>]*>([^<]+)</a></th><td[^>]*>(\d+)</td><td[^>]*>(\d+)</td>'
    clear = [str(len(r.associated)) for r in named]
    assert re.findall(row, text) == [*zip(("a", "&lt;b&gt;", "c"), "444", clear, strict=True)]
    few = embedded(render(list(named), max_listed=30))
    assert [(data["selected"], len(data["columns"]["index"])) for data in few] == [(4, 10)] * 3
    view = named._repr_html_()
    last = f"<td>c</td><td>4</td><td>{clear[2]}</td>"
    assert_has(view, "<b>3 responses</b>, 2,000 rows × 60 features", last)
    assert tags(view).count("tr") == 4


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
    assert re.search("<dt>Statistic</dt><dd>Pearson.*; Spearman&#x27;s rank correlation[^[]*</dd>", text)


def test_notebook(result):
    text = result._repr_html_()
    assert len(text) < 5000
    found = describe_answer(result)
    answer = f'<p class="answer">{found[0].upper()}{found[1:]}</p>'
    assert_in_order(text, [answer, "6 of 60 features selected", "<table>", "<details>"])
    assert_has(text, describe_floor(result)[1:], *(f"<td>{name}</td>" for name in result.selected_names))
    many = replace(result, selected=np.arange(50), evidence=Evidence(), effects=None)
    assert "… and 40 more" in many._repr_html_()
