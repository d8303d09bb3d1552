"""The plots show the numbers of the result."""

import sys
from dataclasses import replace
from itertools import pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from banditsis import Plan, ScreeningResult, plots, screen
from banditsis.results import Evidence, Round, SampleCheck

mpl.use("Agg")
rng = np.random.default_rng(5)
X = rng.standard_normal((3000, 80))
Y = X[:, 5] - X[:, 9] + rng.standard_normal(3000)
AWKWARD = ["$", "a$b$c", r"\frac{", "<b>", "a\nb", "x" * 300, ""]


@pytest.fixture(autouse=True)
def check_figures():
    """At the end of a test every figure can be drawn (invalid text fails here) and its axes have room."""
    yield
    for figure in map(plt.figure, plt.get_fignums()):
        figure.draw_without_rendering()
        for place in (axes.get_position() for axes in figure.axes):
            assert min(place.width, place.height) > 0.1
    plt.close("all")


@pytest.fixture(scope="module")
def result():
    return screen(X, Y, Plan.paper(3000, 80, 6), random_state=0)


def random_result(n_selected, p=5000):
    """A random result of any size."""
    scores = rng.uniform(-1, 1, p)
    scores = scores[np.argsort(-np.abs(scores))]
    rounds, last_round = (Round(1000, p, n_selected, 0.01, 7, 0.1, 1000.0),), np.zeros(p, np.int32)
    evidence = Evidence(variance_inflation=1.0)
    return ScreeningResult(np.arange(n_selected), scores, rounds, last_round, 2000, p, evidence=evidence)


def assert_apart(axes, labels):
    """The labels do not overlap."""
    axes.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in labels if label.get_visible() and label.get_text()]
    assert len(boxes) >= 3
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def marks(axes, label):
    """The points with a label in the legend."""
    return next(line for line in axes.lines if line.get_label() == label)


def cutoffs(axes):
    """Where the dashed lines are."""
    return {line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"}


def test_scores(result):
    """Signal and noise have different marks."""
    axes = plots.scores(result)
    clear = np.isin(result.selected, result.associated)
    assert clear.sum() == 2
    for label, chosen in (("clearly associated", clear), ("unclear", ~clear)):
        expected = np.column_stack([result.scores[result.selected], 1 + np.arange(6)])[chosen]
        np.testing.assert_array_equal(marks(axes, label).get_xydata(), expected)
    shapes = {line.get_marker() for line in axes.lines if line.get_marker() not in ("", "None", None)}
    assert len(shapes) == 2
    assert [label.get_text() for label in axes.get_yticklabels()] == result.selected_names
    (intervals,) = axes.collections
    np.testing.assert_allclose(np.array(intervals.get_segments())[:, :, 0], result.interval())
    cutoff = result.rounds[-1].cutoff
    assert cutoffs(axes) == {cutoff, -cutoff}
    assert axes.get_title().startswith("6 selected features\n2 of 6 clearly associated")
    few = plots.scores(replace(result, about=replace(result.about, response="a$b$c")), max_features=2)
    assert [label.get_text() for label in few.get_yticklabels()] == result.selected_names[:2]
    assert few.get_title().startswith("the best 2 of 6 selected features for a$b$c\n2 of 6 clearly")


def test_two_hundred_features_are_readable():
    """The figure grows, so labels do not overlap, and they are all different."""
    result = random_result(200)
    names = [f"the same first part of a long name, then {j}, and the same last part" for j in range(5000)]
    axes = plots.scores(replace(result, names=names))
    axes.figure.draw_without_rendering()
    labels = axes.get_yticklabels()
    assert len({label.get_text() for label in labels}) == 200
    boxes = [label.get_window_extent() for label in labels]
    assert all(below.y1 <= above.y0 + 0.5 for above, below in pairwise(boxes))


def test_statistics_without_intervals_or_floor():
    classes = np.digitize(Y, [-1, 1])
    result = screen(X, classes, Plan.paper(3000, 80, 6), statistic="anova", random_state=0)
    axes = plots.scores(result)
    assert not axes.collections
    assert cutoffs(axes) == {result.rounds[-1].cutoff}
    assert axes.get_xlabel() == "score (anova)"
    np.testing.assert_array_equal(marks(axes, "score").get_xdata(), result.scores[result.selected])


def test_manhattan(result):
    """-log10 p in the order of the features, one chromosome after the other."""
    tested = screen(X, Y, Plan.exact(3000, 80, 20))
    chromosomes = np.tile(["2", "10"], 40)
    axes = plots.manhattan(tested, chromosomes=chromosomes)
    first, second, _ = axes.collections
    for k, points in enumerate((first, second)):
        expected = np.column_stack([np.arange(40) + 40 * k, -tested.log10_pvalues[k::2]])
        np.testing.assert_allclose(points.get_offsets(), expected)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "10"]
    (line,) = axes.lines
    assert line.get_ydata()[0] == pytest.approx(-np.log10(0.05 / 80))
    assert {text.get_text() for text in axes.texts} == {tested.name(k) for k in tested.associated}
    annotated = plots.manhattan(replace(tested, annotations={"chromosome": chromosomes}))
    np.testing.assert_array_equal(annotated.collections[1].get_offsets(), second.get_offsets())
    axes = plots.manhattan(result)  # without p-values
    points = axes.collections[0].get_offsets()
    np.testing.assert_array_equal(points, np.column_stack([np.arange(80), np.abs(result.scores)]))
    assert (axes.get_ylabel(), list(axes.lines)) == ("|score|", [])
    copy = plots.manhattan(screen(X, X[:, 5], Plan.exact(3000, 80, 3)))  # with a p-value of 0
    assert np.isfinite(copy.collections[-1].get_offsets()).all()
    with pytest.raises(ValueError, match=r"chromosomes must have one value for each of 80 features, got \(3"):
        plots.manhattan(result, chromosomes=[1, 2, 3])


def test_labels_do_not_overlap():
    """Five groups of features that are nearly the same, as variants in linkage disequilibrium, and noise."""
    causes = rng.standard_normal((500, 5))
    linked = causes.repeat(20, axis=1) + 0.1 * rng.standard_normal((500, 100))
    data = np.column_stack([linked, rng.standard_normal((500, 400))])
    y = causes @ [1, -1, 0.8, 0.9, -0.7] + rng.standard_normal(500)
    names = [f"rs{1000000 + j}" for j in range(500)]
    places = {"chromosome": np.repeat(np.arange(1, 26), 20)}
    result = screen(data, y, Plan.exact(500, 500, 100), pvalues=True)
    result = replace(result, names=names, annotations=places)
    axes = plots.manhattan(result, plt.subplots(figsize=(5, 4), layout="constrained")[1])
    axes.figure.draw_without_rendering()  # which places the labels
    assert axes.texts[0].get_text() == result.name(result.selected[0])  # the best one has a label
    assert_apart(axes, axes.texts)
    assert_apart(axes, axes.get_xticklabels())
    frame, boxes = axes.get_window_extent(), [text.get_window_extent() for text in axes.texts]
    assert all(frame.x0 <= box.x0 <= box.x1 <= frame.x1 for box in boxes)


def test_sample_check_in_a_small_figure():
    """Ticks are 1, 2 and 5, and do not overlap; features that are missed have labels."""
    effects = np.linspace(0.01, 0.3, 20)
    y = X[:, :20] @ effects + rng.standard_normal(3000)
    plans = Plan.exact(3000, 80, 20), Plan.subsample(3000, 80, 20, 300)
    check = SampleCheck(*(screen(X, y, plan, random_state=0) for plan in plans))
    axes = plots.sample_check(check, plt.subplots(figsize=(5.2, 4.6), layout="constrained")[1])
    assert_apart(axes, axes.get_xticklabels())
    assert {tick.get_text().strip("0.") for tick in axes.get_xticklabels()} <= {"1", "2", "5"}
    assert {text.get_text() for text in axes.texts} <= {check.found.name(k) for k in check.missed}


def test_qq():
    """Sorted p-values against uniform quantiles, and λ, as SciPy computes it."""
    result = screen(X, rng.standard_normal(3000), Plan.exact(3000, 80, 5), pvalues=True)
    expected = stats.chi2.isf(10 ** np.median(result.log10_pvalues), 1) / stats.chi2.median(1)
    assert result.genomic_inflation == pytest.approx(expected)
    axes = plots.qq(result, label="no signal")
    points = axes.lines[-1]
    quantiles = -np.log10((np.arange(80) + 0.5) / 80)
    sorted_values = np.column_stack([quantiles, np.sort(-result.log10_pvalues)[::-1]])
    np.testing.assert_allclose(points.get_xydata(), sorted_values)
    assert axes.get_legend().get_texts()[0].get_text() == f"no signal: λ = {expected:.3f}"
    (band,) = axes.collections
    limits = band.get_paths()[0].vertices
    first = limits[np.isclose(limits[:, 0], quantiles[0])][:, 1]
    expected = -np.log10(stats.beta.ppf([0.975, 0.025], 1, 80))
    np.testing.assert_allclose([first.min(), first.max()], expected, rtol=1e-6)


def test_inflation_without_constant_features():
    """As a variant without variation; far below the range of floats the factor is finite."""
    data = np.column_stack([X, np.ones((3000, 80))])
    y = rng.standard_normal(3000)
    both = (screen(x, y, Plan.exact(*x.shape, 5), pvalues=True).genomic_inflation for x in (X, data))
    assert next(both) == pytest.approx(next(both))
    same = screen(np.repeat(X[:, :1], 9, axis=1), X[:, 0] + 1e-3 * y, Plan.exact(3000, 9, 5), pvalues=True)
    assert 1e4 < same.genomic_inflation < np.inf
    with pytest.raises(ValueError, match="no p-value"):
        plots.qq(screen(X, Y, Plan.paper(3000, 80, 6), pvalues=True, random_state=0))


@pytest.mark.parametrize("n_selected", [0, 1, 41, 1000])
def test_any_size(n_selected):
    result = random_result(n_selected)
    mine = plt.subplots(layout="constrained")[1]  # axes of the caller
    for draw in (plots.manhattan, plots.scores):
        assert draw(result, mine) is mine
    assert max(plots.scores(result).figure.get_size_inches()) < 16


def test_without_matplotlib(result, monkeypatch):
    """Plots raise with the command to install it; the report and the notebook view work."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'banditsis\[plots\]'"):
        plots.scores(result)
    assert result.to_html()
    assert result._repr_html_()


def test_awkward_names(result):
    odd = replace(result, names=(AWKWARD * 12)[:80])
    plots.manhattan(odd)
    labels = [label.get_text() for label in plots.scores(odd).get_yticklabels()]
    assert len(set(labels)) == 6
    for label, feature in zip(labels, odd.selected, strict=True):
        name = " ".join(odd.name(feature).split())
        assert len(label) <= 32
        assert label.startswith(name) or len(name) > 32  # a number may follow
