"""Arrays: half precision is that of float32, and sums with several weights are right for any shape."""

import numpy as np
import pytest

from banditsis import Plan, screen
from banditsis.kernels.cells import convert_half
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Calibration
from banditsis.statistics.moments import Weights

rng = np.random.default_rng(5)
X = rng.standard_normal((600, 70)).astype(np.float16)
X[:, 3] = 7.0
X[::7, 5] = np.float16(6e-8)  # subnormal
Y = X[:, 1].astype(np.float64) - X[:, 2] + rng.standard_normal(600)
Z = rng.standard_normal((600, 2))
LABELS = np.digitize(Y, [-1.0, 1.0])


def test_every_number_is_converted_exactly():
    bits = np.arange(1 << 16, dtype=np.uint16)
    tile = np.empty((1, bits.size), np.float32)
    convert_half(bits, np.array([0]), tile)
    expected = bits.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(tile[0], expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(tile[0][known]), np.signbit(expected[known]))


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("options", [{}, {"covariates": Z}, {"missing": "pairwise"}, {"y": LABELS}])
def test_scores_are_those_of_float32(order, options):
    x = np.repeat(X, 2, axis=1)[:, ::2] if order == "strided" else np.array(X, order=order)
    options = {"y": Y, "keep": Plan.exact(*X.shape, 5), **options}
    found, expected = (screen(data, **options).scores for data in (x, X.astype(np.float32)))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("missing", ["raise", "pairwise"])
def test_cells_that_are_not_finite(order, value, missing):
    large = np.zeros((6000, 200), np.float16, order=order)  # too large to be checked as a whole
    large[:] = rng.standard_normal((6000, 200))
    large[4321, 17] = value
    plan, y = Plan.exact(6000, 200, 2), rng.standard_normal(6000)
    if missing == "pairwise" and np.isnan(value):
        screen(large, y, plan, missing=missing)
        return
    with pytest.raises(ValueError, match=r"row 4,?321"):
        screen(large, y, plan, missing=missing)


SHAPES = [(1, 1), (7, 3), (8, 16), (9, 17), (123, 15), (130, 40), (251, 33), (2100, 5), (16, 2100)]


def sums(x, shift, weights):
    out = np.ones((weights.n_lines, x.shape[1]))
    ArraySource(x).add_all(weights, Calibration(shift, np.ones_like(shift)), out)
    return out


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_those_of_products(shape, dtype, order):
    (n, m), wide = shape, (shape[0] + 3, shape[1] + 2)
    x = np.array(rng.standard_normal(wide) + 5, dtype, order=order)[1 : n + 1, 1 : m + 1]
    shift = x.mean(axis=0).astype(dtype)
    z = x.astype(np.float64) - shift
    for q, squared, fourth in ((2, False, False), (5, False, True), (11, True, False), (24, False, False)):
        linear, v = rng.standard_normal((n, q)), rng.random(n) if squared else None
        found = sums(x, shift, Weights.of(linear, v, fourth=fourth))
        v = np.ones(n) if v is None else v
        powers = [(z**4).sum(axis=0)] if fourth else []
        expected = 1 + np.vstack([v @ z, linear.T @ z, v @ z**2, *powers])
        size = np.abs(np.column_stack([v, linear])).T @ np.abs(z)
        limit = np.vstack([size, v @ z**2, *powers]) * np.finfo(dtype).eps * (8 + np.sqrt(n)) + 1e-13
        assert (np.abs(found - expected) <= limit).all()


@pytest.mark.parametrize("order", "CF")
def test_missing_numbers_reach_the_sums(order):
    x = np.ones((24, 20), np.float32, order=order)
    x[9, 17] = np.nan
    found = sums(x, np.zeros(20, np.float32), Weights.of(rng.standard_normal((24, 2))))
    np.testing.assert_array_equal(np.isnan(found).any(axis=0), np.arange(20) == 17)


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_of_an_array_are_read_in_place(order):
    x = np.asarray(rng.standard_normal((5000, 9)), order=order)
    columns = ArraySource(x).read_columns(slice(10, 5000), np.array([1, 7]))
    np.testing.assert_array_equal(columns, x[10:, [1, 7]].T)
    assert all(column.flags.c_contiguous for column in columns)
    assert np.shares_memory(columns[0], x) == (order == "F")
