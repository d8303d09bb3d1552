"""Scores equal a two-pass float64 computation, whatever the layout, dtype, offset and scale."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from banditsis import Plan, open_source, screen
from banditsis.core.arrays import spread
from banditsis.core.parallel import Workers
from banditsis.sources.base import PILOT_ROWS, SumContext
from banditsis.statistics.moments import Weights
from reference import correlations

rng = np.random.default_rng(0)
N, P = 700, 37
BASE = rng.standard_normal((N, P))
Y = BASE[:, :5].sum(axis=1) + rng.standard_normal(N)


def exact_scores(X, y, **kwargs):
    return screen(X, y, Plan.exact(*X.shape, X.shape[1]), **kwargs).scores


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"])
def test_layouts_and_dtypes(layout, dtype):
    X = BASE > 0 if dtype == "?" else (20 * BASE + 100).astype(dtype)
    tolerance = 1e-6 if dtype in ("f4", "f2") else 1e-10
    np.testing.assert_allclose(exact_scores(layout(X), Y), correlations(X, Y), rtol=0, atol=tolerance)


HARD = {
    "offset": lambda dtype: BASE + (1e8 if dtype == "f8" else 3000),
    "scales": lambda dtype: BASE * np.logspace(*((-150, 150) if dtype == "f8" else (-30, 30)), P),
    # Early rows say nothing of the mean: the pilot is spread over all rows.
    "drift": lambda dtype: np.where(np.arange(N)[:, None] < 40, BASE + 1e4, BASE),
}


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("kind", HARD)
def test_offsets_and_scales(layout, dtype, kind):
    """scikit-learn's r_regression is wrong at large offsets."""
    X = HARD[kind](dtype).astype(dtype)
    tolerance = 1e-9 if dtype == "f8" else 1e-6  # the other computation also rounds
    for y in (Y, Y + 1e8, Y * 1e200):
        np.testing.assert_allclose(exact_scores(layout(X), y), correlations(X, y), rtol=0, atol=tolerance)


SIZES = [("f4", 1e15, 1), ("f4", 1e-15, 3), ("f4", 1e15, 30), ("f2", 1.0, 1), ("i2", 20.0, 3)]
SIZES += [("f8", 1e100, 1), ("f8", 1e-75, 3), ("f8", 1e100, 30)]


@pytest.mark.filterwarnings("ignore:(over|under)flow")  # by kernels that run as plain Python
@pytest.mark.parametrize(("dtype", "size", "q"), SIZES)
def test_fourth_powers_of_large_and_small_cells(layout, dtype, size, q):
    """Also of a column that is 0 in all pilot rows, so it is not scaled."""
    every, half = slice(0, N), np.arange(0, N, 2)
    pilot = np.union1d(spread(every, PILOT_ROWS), spread(half, PILOT_ROWS))
    X = (BASE * size).astype(dtype)
    X[:, 3] = 0
    X[np.setdiff1d(half, pilot)[::10], 3] = min(size, 1e70)
    source = open_source(layout(X))
    weights = Weights.of(np.cos(np.arange(q) * Y[:, None]), fourth=True)
    for rows, columns in [(every, None), (half, np.arange(0, P, 3))]:
        calibration = source.calibrate(rows)
        assert calibration.scale[3] == 1
        chosen = slice(0, P) if columns is None else columns
        z = X[rows][:, chosen] * calibration.scale[chosen].astype("f8") - calibration.shift[chosen]
        out = np.zeros((q + 3, z.shape[1]))
        with Workers(2) as workers:
            context, edges = SumContext(calibration, out[None], workers), np.array([0, len(z)])
            source.add_sums(rows, edges, columns, weights.part(np.arange(N)[rows]), context)
        np.testing.assert_allclose(out[-1], (z**4).sum(axis=0), rtol=2e-5 if dtype in ("f4", "f2") else 1e-12)
        assert np.isfinite(out).all()


def test_extremes_of_float64():
    mixed = BASE * 10.0 ** rng.choice([-290, 290, 0], P)
    late = np.full((N, 4), 1e-248)  # large values that the first rows do not show
    late[::3] *= 2
    late[17, :2] = 1e6, 5.0
    for X in (mixed, late):
        np.testing.assert_allclose(exact_scores(X, Y), correlations(X, Y), rtol=0, atol=1e-10)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8 + 0.1, -1e-200])
def test_constant_columns_score_zero(layout, value):
    X = BASE.copy()
    X[:, 4] = value
    assert exact_scores(layout(X), Y)[4] == 0


def test_ties_go_to_the_lower_index(layout):
    X = np.repeat(BASE[:, :6], 4, axis=1)
    X[:, 1::4] *= -1
    X[:, 2::4] *= 4
    result = screen(layout(X), Y, Plan.exact(N, 24, 6))
    best, second = np.argsort(-np.abs(correlations(BASE[:, :6], Y)))[:2]
    np.testing.assert_array_equal(result.selected, [*(4 * best + np.arange(4)), 4 * second, 4 * second + 1])


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_same_bits_for_all_thread_counts(layout, dtype):
    big = np.random.default_rng(1).standard_normal((5000, 700)).astype(dtype)
    y = big[:, 0] + np.random.default_rng(2).standard_normal(5000)
    X = layout(big)
    for plan in (Plan.exact(5000, 700, 10), Plan.paper(5000, 700, 10)):
        one, *others = (screen(X, y, plan, n_jobs=k, random_state=0).scores for k in (1, 2, 5))
        np.testing.assert_array_equal(others, [one, one])


GIVEN = {
    "alone": {},
    "covariates": {"covariates": np.column_stack([BASE[:, 3] + Y, BASE[:, 9]])},
    "weights": {"sample_weight": np.exp(BASE[:, 7])},
}


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("missing", ["raise", "pairwise"])
@pytest.mark.parametrize("given", GIVEN)
def test_many_responses_equal_one_by_one(layout, dtype, missing, given):
    X = (BASE + 5 * np.arange(P)).astype(dtype)
    if missing == "pairwise":
        X[rng.random(X.shape) < 0.1] = np.nan
    Ys = np.column_stack([Y, BASE[:, 10] + 0.1 * Y, rng.standard_normal((N, 3)) + 1e6])
    plan, options = Plan.paper(N, P, 4), {"missing": missing, "random_state": 5, **GIVEN[given]}
    together = screen(layout(X), Ys, plan, **options)
    assert len(together) == 5
    for k, result in enumerate(together):
        alone = screen(X, Ys[:, k], plan, **options)
        np.testing.assert_array_equal(result.selected, alone.selected)
        np.testing.assert_allclose(result.scores, alone.scores, rtol=0, atol=1e-12 if dtype == "f8" else 1e-6)
        assert [r.cells for r in result.rounds] == [r.cells for r in alone.rounds]


sizes = st.tuples(st.integers(3, 40), st.integers(1, 12))


@settings(max_examples=100)
@given(data=st.data(), shape=sizes, order=st.sampled_from("CF"))
def test_any_matrix(data, shape, order):
    """Scores are correlations, lie in [-1, 1], and do not change with shift, scale and sign of a column."""
    # Within a column, squares of more than 300 orders of magnitude cannot be summed, which is refused.
    cells = st.one_of(st.just(0.0), st.floats(1e-100, 1e6), st.floats(-1e6, -1e-100))
    X = data.draw(arrays(np.float64, shape, elements=cells))
    y = data.draw(arrays(np.float64, shape[0], elements=cells, unique=True))
    X = np.asarray(X, order=order)
    scores = exact_scores(X, y)
    assert (np.abs(scores) <= 1).all()
    # A column whose spread is a millionth of its size has few digits of its own to compare.
    clear = np.ptp(X, axis=0) > 1e-6 * np.abs(X).max(axis=0)
    if np.ptp(y) > 1e-6 * np.abs(y).max():
        np.testing.assert_allclose(scores[clear], correlations(X, y)[clear], rtol=0, atol=1e-8)
    np.testing.assert_array_equal(exact_scores(-2.0 * X, y), -scores)


@settings(max_examples=50)
@given(data=st.data(), shape=sizes)
def test_any_matrix_with_gaps(data, shape):
    cells = st.one_of(st.just(np.nan), st.just(0.0), st.floats(1e-100, 1e3), st.floats(-1e3, -1e-100))
    X = data.draw(arrays(np.float64, shape, elements=cells))
    y = np.arange(shape[0], dtype=float)
    scores = exact_scores(X, y, missing="pairwise")
    present = (~np.isnan(X)).sum(axis=0)
    scored = (present >= 10) | (present == shape[0])
    assert (scores[~scored] == 0).all()
    for j in np.flatnonzero(scored):
        here = ~np.isnan(X[:, j])
        if np.ptp(X[here, j]) > 1e-6 * np.abs(X[here, j]).max():
            r = correlations(X[here][:, [j]], y[here])[0] * np.sqrt(present[j] / len(X))
            np.testing.assert_allclose(scores[j], r, atol=1e-9)


@pytest.mark.parametrize("name", ["pearson", "anova", "logistic", "poisson", "cox", "distance", "spearman"])
def test_smallest_numbers(name):
    X = np.random.default_rng(0).integers(0, 2, (60, 4)).astype(float)
    y = np.where(np.arange(60) % 5, X[:, 1], 1 - X[:, 1])
    response = np.column_stack([1 + y, np.ones(60)]) if name == "cox" else y
    expected = exact_scores(X, response, statistic=name)
    for size in (5e-324, 1e-323, 3e-322):
        np.testing.assert_allclose(exact_scores(X * size, response, statistic=name), expected, atol=1e-12)
        if name not in ("anova", "poisson", "cox"):
            np.testing.assert_allclose(exact_scores(X, y * size, statistic=name), expected, atol=1e-12)


@pytest.mark.parametrize("statistic", ["pearson", "spearman", "distance"])
def test_large_integers_are_rounded_to_float64(layout, statistic):
    X = np.random.default_rng(3).integers(-(2**63), 2**63 - 1, (200, 4))
    X[0, :2], X[1, 1:3] = 2**63 - 1, -(2**63)
    y = np.arange(200) + 20 * np.random.default_rng(4).standard_normal(200)
    for integers in (X, X.astype(np.uint64) + np.uint64(2**63)):
        expected = exact_scores(integers.astype(float), y, statistic=statistic)
        found = exact_scores(layout(integers), y, statistic=statistic)
        np.testing.assert_allclose(found, expected, atol=1e-12)
    objects = np.array([Decimal(int(v)) for v in X.flat]).reshape(X.shape)
    np.testing.assert_allclose(exact_scores(objects, X[:, 0]), exact_scores(X, X[:, 0]), atol=1e-12)
