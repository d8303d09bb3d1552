"""What every source promises, as tests that need a fixture ``build``, which makes a source from an array."""

from itertools import cycle

import numpy as np
import pytest

from banditsis import Plan, screen
from banditsis.core.parallel import Workers
from banditsis.engine.redundancy import correlation_among
from banditsis.sources.base import SumContext
from banditsis.statistics import STATISTICS as REGISTERED
from banditsis.statistics import find_statistic
from banditsis.statistics.moments import Weights

rng = np.random.default_rng(0)
N, P = 301, 23
X = rng.standard_normal((N, P)) + 3
GAPS = np.where(rng.random(X.shape) < 0.1, np.nan, X)
NAMES = [f"f{j}" for j in range(P)]
NUMBERS = X[:, :3].sum(axis=1) + rng.standard_normal(N)
LABELS = rng.choice(["a", "b", "c"], N)
RESPONSES = {
    "pearson": NUMBERS,
    "anova": LABELS,
    "logistic": np.where(X[:, 0] + rng.standard_normal(N) > 3, "yes", "no"),
    "poisson": rng.poisson(np.exp(0.3 * X[:, 0])),
    "cox": np.column_stack([rng.exponential(np.exp(-0.3 * X[:, 0])), rng.random(N) < 0.7]),
    "spearman": NUMBERS,
    "kendall": NUMBERS,
    "chatterjee": NUMBERS,
    "distance": NUMBERS,
    "wilcoxon": np.where(X[:, 0] + rng.standard_normal(N) > 3, "yes", "no"),
    "chi2": LABELS,
    "information_value": np.where(X[:, 0] + rng.standard_normal(N) > 3, "yes", "no"),
    "mutual_information": NUMBERS,
}
MOMENT = [name for name in REGISTERED if not find_statistic(name).rereads]
SOME = np.array([0, 1, 5, 22])
CELLS = {
    "all": (slice(0, N), None),
    "run of rows": (slice(10, 250), None),
    "few": (np.array([0, 7, 8, 200, 300]), SOME),
    "most columns": (slice(0, N), np.delete(np.arange(P), [3, 9])),
}
WAVES = np.column_stack([np.linspace(-1, 2, N), np.cos(np.arange(N))])
PRESENCE = np.column_stack([np.ones(N), WAVES**3])
MANY = np.cos(np.arange(30) * np.linspace(0, 1, N)[:, None])
WEIGHTS = {
    "one": Weights.of(WAVES[:, :1]),
    "several": Weights.of(WAVES),
    "several, row weights": Weights.of(WAVES, np.linspace(0.5, 2, N)),
    "one, row weights": Weights.of(WAVES[:, :1], np.linspace(0.5, 2, N)),
    "many": Weights.of(MANY),
    "many, row weights": Weights.of(MANY, np.linspace(0.5, 2, N)),
    "one, gaps": Weights.of(WAVES[:, :1], presence=PRESENCE),
    "one, fourth powers, gaps": Weights.of(WAVES[:, :1], presence=PRESENCE, fourth=True),
    "several, gaps": Weights.of(WAVES, presence=PRESENCE),
    "several, row weights, gaps": Weights.of(WAVES, np.linspace(0.5, 2, N), np.ones((N, 1))),
    "many, gaps": Weights.of(MANY, presence=np.ones((N, 1))),
}


def rotate(kinds, cells):
    """Every kind of weights, and every choice of cells, each with one of the others."""
    return pytest.mark.parametrize(("kind", "cells"), list(zip(kinds, cycle(cells), strict=False)))


def plain_sums(z, w):
    """The lines that :class:`Weights` promises, written down plainly."""
    here = ~np.isnan(z)
    z = z if w.presence is None else np.where(here, z, 0)
    v = np.ones(len(z)) if w.v is None else w.v
    lines = [v @ z, *(w.linear.T @ z), v @ (z * z)]
    if w.presence is not None:
        lines += [*(w.presence.T @ here)]
    if w.fourth:
        lines.append((z**4).sum(axis=0))
    return np.vstack(lines)


def test_shape_and_names(build):
    source = build(X)
    assert source.shape == (N, P)
    assert [source.name(j) for j in range(P)] == NAMES


@pytest.mark.parametrize(("rows", "columns"), CELLS.values(), ids=CELLS)
def test_read(build, rows, columns):
    source = build(X)
    block = source.read(rows, columns)
    if columns is not None:
        np.testing.assert_array_equal(source.read_columns(rows, columns), block.T)
    chosen = slice(0, P) if columns is None else columns
    np.testing.assert_allclose(block, X[rows][:, chosen], rtol=1e-6)
    starts, stops, places, values = source.read_stored(rows, chosen)
    stored = np.zeros_like(block)
    for k, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        stored[places[start:stop] if places.size else slice(None), k] = values[start:stop]
    np.testing.assert_array_equal(stored, block)


def test_correlation_among(build):
    columns = np.array([7, 2, 20])
    found = correlation_among(build(X), columns, np.arange(0, N, 2))
    np.testing.assert_allclose(found, np.corrcoef(X[::2, columns].T), atol=1e-6)


@rotate(WEIGHTS, CELLS)
def test_sums(build, kind, cells):
    x = GAPS if "gaps" in kind else X
    check_sums(build(x), x, *CELLS[cells], WEIGHTS[kind])


def check_sums(source, x, rows, columns, weights):
    """Sums of shifted cells, added to what was there, told to the tick, and the same from several threads."""
    listed = np.arange(len(x))[rows]
    everything = np.arange(x.shape[1]) if columns is None else columns
    calibration, weights = source.calibrate(rows), weights.part(listed)
    z = x[np.ix_(listed, everything)] - calibration.shift[everything].astype(float)
    expected, runs = plain_sums(z, weights), []
    for n_jobs in (1, 3):
        out, told = np.ones_like(expected), []
        with Workers(n_jobs) as workers:
            context = SumContext(calibration, out[None], workers, told.append)
            source.add_sums(rows, np.array([0, len(listed)]), columns, weights, context)
        assert abs(sum(told) - z.size) <= len(told)
        runs.append(out)
    np.testing.assert_array_equal(*runs)
    single, n_sums = source.dtype == np.float32, len(expected) - weights.fourth
    np.testing.assert_allclose(out[:n_sums] - 1, expected[:n_sums], rtol=0, atol=5e-4 if single else 1e-9)
    fourth, rtol = expected[n_sums:], 1e-5 if single else 1e-12
    np.testing.assert_allclose(out[n_sums:] - 1, fourth, rtol=rtol, atol=1e-14)


@rotate(["one", "several", "many", "one, gaps", "several, row weights, gaps"], ["all", "few"])
def test_groups_of_rows_have_their_own_sums(build, kind, cells):
    """Groups may interleave, and be empty."""
    columns = CELLS[cells][1]
    source, weights = build(GAPS if "gaps" in kind else X), WEIGHTS[kind]
    groups = [np.arange(0, N, 2), np.arange(0), np.arange(1, 200, 4), np.arange(203, N, 4)]
    rows, edges = np.concatenate(groups), np.cumsum([0, *map(len, groups)])
    calibration = source.calibrate(rows[:50])
    everything = np.arange(P) if columns is None else columns
    z = source.read(slice(0, N), columns) - calibration.shift[everything].astype(float)
    expected = np.array([plain_sums(z[group], weights.part(group)) for group in groups])
    out = np.zeros_like(expected)
    with Workers(2) as workers:
        source.add_sums(rows, edges, columns, weights.part(rows), SumContext(calibration, out, workers))
    np.testing.assert_allclose(out, expected, rtol=0, atol=5e-4 if source.dtype == np.float32 else 1e-9)


@rotate(["one", "several", "many", "one, gaps", "several, gaps"], CELLS)
def test_fourth_powers(build, kind, cells):
    """One more line, the others as before."""
    x = GAPS if "gaps" in kind else X
    check_sums(build(x), x, *CELLS[cells], Weights.of(*WEIGHTS[kind].arrays, fourth=True))


def test_cost_grows_with_what_is_read(build):
    source = build(X)
    costs = [source.bytes_touched(rows, P, scattered=True) for rows in (1, 50, N)]
    assert 0 < costs[0] <= costs[1] <= costs[2]  # the same by column, where rows come all together
    assert source.bytes_touched(50, 3, scattered=True) <= costs[1]


@pytest.mark.parametrize("name", ["pearson", "anova", "cox", "spearman", "wilcoxon", "chi2"])
def test_same_selection_from_every_source(build, name):
    check_selection(build(X), name)


def check_selection(source, name):
    """The selection and the scores are those from an array."""
    plan = Plan.paper(N, P, 4)
    reference = screen(X, RESPONSES[name], plan, statistic=name, random_state=0)
    result = screen(source, RESPONSES[name], plan, statistic=name, row_order="random", random_state=0)
    np.testing.assert_array_equal(result.selected, reference.selected)
    np.testing.assert_allclose(result.scores, reference.scores, atol=1e-6)
