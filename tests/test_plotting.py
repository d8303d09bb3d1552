"""The plots show the numbers of the result."""

import sys
from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from banditsis import Plan, Round, ScreeningResult, plotting, screen

mpl.use("Agg")
rng = np.random.default_rng(5)
X = rng.standard_normal((3000, 80))
Y = X[:, 5] - X[:, 9] + rng.standard_normal(3000)
AWKWARD = ["$", "a$b$c", r"\frac{", "<b>", "a\nb", "x" * 300, ""]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def result():
    return screen(X, Y, Plan.paper(3000, 80, 6), random_state=0)


def random_result(n_rounds, n_selected, p=5000, n=100_000):
    """A random result of any size."""
    left = np.rint(np.geomspace(p, n_selected, n_rounds + 1)).astype(int)
    rows = np.linspace(100, 3000, n_rounds).astype(int)
    rounds = tuple(
        Round(int(rows[k]), int(left[k]), int(left[k + 1]), 0.01 * (k + 1), 7, 0.1) for k in range(n_rounds)
    )
    scores = rng.uniform(-1, 1, p)
    scores = scores[np.argsort(-np.abs(scores))]
    last_round = (np.arange(p)[:, None] < left[:-1]).sum(axis=1).astype(np.int32) - 1
    return ScreeningResult(np.arange(n_selected), scores, rounds, last_round, n, p, variance_inflation=1.0)


def drawn(axes):
    """Whether the figure can be drawn (invalid text fails here) and its axes have room."""
    axes.figure.draw_without_rendering()
    return axes.get_position().width > 0.1 and axes.get_position().height > 0.1


def test_funnel(result):
    axes = plotting.funnel(result)
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == [80, *(r.n_kept for r in result.rounds)]
    (line,) = axes.lines
    assert list(line.get_xdata()) == [r.n_rows for r in result.rounds]
    assert list(line.get_ydata()) == list(range(1, len(result.rounds) + 1))
    assert f"detection floor: {result.detection_floor():.3g} (95%)" in axes.get_title()
    assert [text.get_text() for text in axes.texts] == [f"{round(width):,}" for width in widths]


def test_scores(result):
    axes = plotting.scores(result)
    points = next(line for line in axes.lines if line.get_label() == "score")
    np.testing.assert_array_equal(points.get_xdata(), result.scores[result.selected])
    assert [label.get_text() for label in axes.get_yticklabels()] == result.selected_names
    (intervals,) = axes.collections
    ends = np.array([segment[:, 0] for segment in intervals.get_segments()])
    np.testing.assert_allclose(ends, result.interval())
    cutoff = result.rounds[-1].cutoff
    positions = {line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"}
    assert positions == {cutoff, -cutoff}
    few = plotting.scores(result, most=2)
    assert [label.get_text() for label in few.get_yticklabels()] == result.selected_names[:2]
    assert few.get_title() == "the best 2 of 6 selected features"


def test_statistics_without_intervals_or_floor():
    classes = np.digitize(Y, [-1, 1])
    result = screen(X, classes, Plan.paper(3000, 80, 6), statistic="anova", random_state=0)
    assert "withheld" in plotting.funnel(result).get_title()
    axes = plotting.scores(result)
    assert not axes.collections
    assert [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"] == [
        result.rounds[-1].cutoff
    ]
    assert axes.get_xlabel() == "score (anova)"


def test_reading_map_shows_what_was_read(result):
    """Compares each cell, for both orders of the features and both scales."""
    for order, scale in (("ranked", "log"), ("ranked", "linear"), ("stored", "linear"), ("stored", "log")):
        axes = plotting.reading_map(result, features=order, scale=scale)
        mesh = axes.collections[0]
        columns, rows = mesh.get_coordinates()[0, :, 0], mesh.get_coordinates()[:, 0, 1]
        cells = np.ma.filled(mesh.get_array(), np.nan)
        features = np.argsort(result.ranking) if order == "ranked" else np.arange(80)
        at = np.searchsorted(columns, np.arange(80), side="right") - 1
        if scale == "linear":
            assert len(columns) == 81
            np.testing.assert_array_equal(cells[0, at], np.abs(result.scores[features]))
        for band in range(len(rows) - 1):
            read = rows[band] < result.rows_read[features]
            if order == "ranked" or scale == "linear":
                np.testing.assert_array_equal(~np.isnan(cells[band, at]), read)
    read = ~np.isnan(cells)
    assert read.any()


def test_reading_map_counts_the_cells(result):
    mesh = plotting.reading_map(result, scale="linear").collections[0]
    grid = mesh.get_coordinates()
    sizes = np.outer(np.diff(grid[:, 0, 1]), np.diff(grid[0, :, 0]))
    assert sizes[~np.ma.getmaskarray(mesh.get_array())].sum() == result.cells_read


def test_reading_map_of_a_stored_result(result):
    """A result stored without all scores has the same read cells."""
    back = ScreeningResult.from_json(result.to_json())
    mine, stored = (
        plotting.reading_map(r, scale="linear").collections[0].get_array() for r in (result, back)
    )
    np.testing.assert_array_equal(np.ma.getmaskarray(mine)[:, :6], np.ma.getmaskarray(stored)[:, :6])
    np.testing.assert_array_equal(np.ma.getmaskarray(mine).sum(), np.ma.getmaskarray(stored).sum())


def test_scale_of_the_map(result):
    assert plotting.reading_map(result).get_xscale() == "linear"
    assert plotting.reading_map(random_result(5, 10)).get_yscale() == "symlog"
    with pytest.raises(ValueError, match="scale must be"):
        plotting.reading_map(result, scale="cubic")


def test_compare(result):
    exact = screen(X, Y, Plan.exact(3000, 80, 20))
    axes = plotting.compare({"BanditSIS": result, "SIS": exact})
    both = len(set(result.selected) & set(exact.selected))
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["6\n100%", f"{both}\n{both / 6:.0%}", f"{both}\n{both / 20:.0%}", "20\n100%"]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[1].startswith("SIS\n100% of the cells, ")
    assert labels[0].startswith(f"BanditSIS\n{100 * result.fraction_read:.1f}% of the cells, ")
    assert [label.get_text() for label in plotting.compare([exact]).get_xticklabels()] == ["result 1"]
    with pytest.raises(ValueError, match="same features"):
        plotting.compare([result, random_result(2, 3)])


def test_plot_has_both(result):
    left, right = result.plot()
    assert left.figure is right.figure
    assert "detection floor" in left.get_title()
    assert right.get_title() == "6 selected features"
    assert drawn(left)
    assert drawn(right)


def test_axes_of_the_caller(result):
    axes = plt.subplots()[1]
    for draw in (plotting.funnel, plotting.scores, plotting.reading_map):
        assert draw(result, axes) is axes
    assert plotting.compare([result], axes) is axes
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize(("n_rounds", "n_selected"), [(1, 1), (15, 1), (1, 1000), (15, 1000), (4, 41)])
def test_any_size(n_rounds, n_selected):
    result = random_result(n_rounds, n_selected)
    for axes in (*result.plot(), plotting.reading_map(result), plotting.compare([result] * 3)):
        assert drawn(axes)
        width, height = axes.figure.get_size_inches()
        assert width < 16
        assert height < 16


def test_nothing_selected():
    result = replace(random_result(2, 5), selected=np.arange(0))
    assert all(map(drawn, result.plot()))
    assert drawn(plotting.reading_map(result))


def test_without_matplotlib(result, monkeypatch):
    """Plots raise with the command to install it; the report and the notebook view work."""
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'banditsis\[plots\]'"):
        result.plot()
    assert result.to_html()
    assert result._repr_html_()


def test_awkward_names(result):
    odd = replace(result, names=(AWKWARD * 12)[:80])
    axes = odd.plot()[1]
    assert drawn(axes)
    for label, feature in zip(axes.get_yticklabels(), odd.selected, strict=True):
        name = " ".join(odd.name(feature).split())
        assert len(label.get_text()) <= 32
        assert label.get_text() == name or len(name) > 32
    assert drawn(plotting.compare(dict.fromkeys(AWKWARD, odd)))
