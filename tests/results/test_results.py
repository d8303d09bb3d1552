"""Results: tables, JSON, intervals."""

import dataclasses
import json
import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from banditsis import Plan, ScreeningResult, ScreeningResults, plots, screen
from banditsis.results import rank_features
from banditsis.sources.array import ArraySource

rng = np.random.default_rng(3)
X = rng.standard_normal((2000, 60))
Y = X[:, 5] - X[:, 9] + rng.standard_normal(2000)
PLAN = Plan.paper(2000, 60, 6)


@pytest.fixture(scope="module")
def result():
    return screen(X, Y, PLAN, random_state=0)


def test_printed_form(result):
    lines = str(result).splitlines()
    assert lines[0] == "6 of 60 features selected"
    assert lines[1].startswith(f"read {PLAN.cells:,} of 120,000 cells (")
    assert len(lines) >= 3 + len(PLAN.steps) + 1
    assert "x5 (+0." in str(result)
    assert "x9 (-0." in str(result)
    assert repr(result) == str(result)


def test_printed_lines_fit_on_a_terminal():
    """Also long notes and names; only a name without spaces can be wider."""
    names = ["a name with spaces, " * 3 + str(k) for k in range(60)]
    skewed = screen(ArraySource(X, names), np.exp(2 * Y), Plan.exact(2000, 60, 30))
    assert any(len(note) > 80 for note in skewed.notes)
    for result in (skewed, screen(X, Y, PLAN, random_state=0)):
        assert max(map(len, str(result).splitlines())) <= 80


def test_frame(result):
    frame = result.to_frame()
    assert isinstance(frame, pd.DataFrame)
    np.testing.assert_array_equal(frame["index"], result.selected)
    np.testing.assert_array_equal(frame["rank"], np.arange(1, 7))
    everything = result.to_frame(all_features=True)
    np.testing.assert_array_equal(everything["index"], np.argsort(rank_features(result)))
    np.testing.assert_array_equal(everything["rank"], np.arange(1, 61))
    rows = np.array([r.n_rows for r in result.rounds])[result.last_round]
    np.testing.assert_array_equal(everything["rows_read"], rows[everything["index"]])


CASES = {
    "adaptive": {},
    "gaps": {"missing": "pairwise"},
    "p-values": {"pvalues": True},
    "exact": {"keep": Plan.exact(2000, 60, 6)},
    "ranks": {"statistic": "spearman", "keep": Plan.exact(2000, 60, 6)},
    "classes": {"statistic": "anova", "keep": Plan.exact(2000, 60, 6)},
    "distances": {"statistic": "distance", "keep": Plan.exact(2000, 60, 6)},
    "rare": {},
}


@pytest.fixture(params=CASES)
def varied(request):
    """Results of different statistics, with a name for the response."""
    case = request.param
    options = {"keep": PLAN, "random_state": 0} | CASES[case]
    x = pd.DataFrame(X, columns=[f"größe {j}" for j in range(60)])
    x = x.mask(np.random.default_rng(0).random(x.shape) < 0.1) if case == "gaps" else x
    x = (x > 2.5).astype(float) if case == "rare" else x
    y = pd.Series(Y > 0 if case == "classes" else Y, name="price")
    return screen(x, y, **options)


def test_json(varied):
    """Its features have the columns of the frame."""
    text = varied.to_json()
    assert text.isascii()
    record = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    frame = varied.to_frame()
    for k, feature in enumerate(record["features"]):
        assert list(feature) == list(frame.columns)
        for name, value in frame.iloc[k].items():
            assert feature[name] == (None if value != value else pytest.approx(value)), name
    reason = varied.evidence.no_floor_reason
    floor = None if reason else varied.detection_floor()
    assert (record["detection_floor"], record["no_floor_reason"]) == (floor, reason)
    assert (record["response"], record["cells_read"]) == ("price", varied.cells_read)
    assert len(record["rounds"]) == len(varied.rounds)
    assert "scores" not in record


def test_pickled_results_are_equal_in_every_field(varied):
    results = ScreeningResults([varied, replace(varied, notes=("a note",))])
    back = pickle.loads(pickle.dumps(results))
    assert back.names == results.names
    for one, other in zip(back, results, strict=True):
        np.testing.assert_equal(dataclasses.asdict(one), dataclasses.asdict(other))
        nulls = one.evidence.null_distribution, other.evidence.null_distribution
        assert type(nulls[0]) is type(nulls[1])
        assert str(one) == str(other)


def test_a_result_has_few_public_names():
    names = {name for name in dir(ScreeningResult) if not name.startswith("_")}
    assert len(names | {f.name for f in dataclasses.fields(ScreeningResult)}) <= 30


def test_a_score_without_a_sign_has_no_plus():
    for statistic in ("anova", "distance", "chatterjee"):
        y = np.digitize(Y, [-1, 1]) if statistic == "anova" else Y
        unsigned = screen(X, y, Plan.exact(2000, 60, 3), statistic=statistic)
        for text in (str(unsigned), str(ScreeningResults([unsigned])), unsigned._repr_html_()):
            assert not re.search(r"[(>]\+0?\.?\d", text), statistic
    signed = screen(X, np.where(Y > 0, "Yes", "No"), Plan.exact(2000, 60, 3))
    assert "x5 (+0." in str(signed)
    assert "a positive score goes with Yes" in str(signed)
    assert "a positive score goes with Yes" in signed._repr_html_()


def test_intervals_cover():
    """95% intervals of a correlation of 0.5 cover it in 95% of 500 samples, give or take 3 errors."""
    generator = np.random.default_rng(0)
    z = generator.standard_normal((2, 100, 500))
    x, y = z[0], 0.5 * z[0] + np.sqrt(0.75) * z[1]
    covered = 0
    for k in range(500):
        result = screen(x[:, [k]], y[:, k], Plan.exact(100, 1, 1))
        low, high = result.interval(0.95)[0]
        covered += low <= 0.5 <= high
    assert abs(covered / 500 - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 500)


def test_interval_edges(result):
    assert (np.diff(result.interval(0.99)) > np.diff(result.interval(0.5))).all()
    perfect = screen(X, X[:, 0], Plan.exact(2000, 60, 1))
    np.testing.assert_allclose(perfect.interval(), [[1, 1]])
    with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\), got 1"):
        result.interval(1)
    classes = screen(X, np.digitize(Y, [0]), Plan.exact(2000, 60, 3), statistic="anova")
    with pytest.raises(ValueError, match="'anova'"):
        classes.interval()


def test_interval_of_gappy_columns_counts_what_is_present():
    gappy = np.where(np.arange(2000)[:, None] < 500, X, np.nan)
    few = screen(gappy, Y, Plan.exact(2000, 60, 3), missing="pairwise")
    same = screen(X[:500], Y[:500], Plan.exact(500, 60, 3))
    np.testing.assert_array_equal(few.selected, same.selected)
    np.testing.assert_allclose(few.interval(), same.interval(), atol=1e-10)


@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
def test_p_values_that_were_not_computed(sampling):
    """They can be requested, so the message says how; it is not that the statistic has none."""
    sampled = screen(X, Y, Plan(2000, 60, ((300, 20), (600, 6))), sampling=sampling, random_state=0)
    assert sampled.parameters["sampling"] == sampling
    for ask in (
        sampled.select,
        lambda: sampled.pvalues,
        lambda: sampled.log10_pvalues,
        ScreeningResults([sampled, sampled]).select,
    ):
        with pytest.raises(ValueError, match=r"^p-values were not computed: set pvalues=True \(--pvalues\)"):
            ask()
    if sampling == "uniform":
        distances = screen(X, Y, Plan.subsample(2000, 60, 6, 100), statistic="distance", random_state=0)
        with pytest.raises(ValueError, match="null distribution of 'distance' is not known"):
            distances.select()


def test_a_lone_surrogate_in_a_name(result, tmp_path):
    """No file and no terminal can hold one: it is shown as an escape."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    odd = replace(result, names=[f"\\ud800 is \ud800 {j}" for j in range(60)])
    shown = "\\ud800 is \\ud800 "
    frame = odd.to_frame()
    assert [name.startswith(shown) for name in frame["name"]] == [True] * 6
    frame.to_csv(tmp_path / "frame.csv")
    assert json.loads(odd.to_json())["features"][0]["name"].startswith(shown)
    assert shown in str(odd)
    str(odd).encode()
    odd.to_html(tmp_path / "report.html")
    plots.scores(odd)
    pyplot.savefig(tmp_path / "plot.svg")
    pyplot.close("all")
