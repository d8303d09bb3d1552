"""Sums with several columns of weights, for any number of rows, columns and weights."""

import numpy as np
import pytest

from banditsis.core.parallel import Workers
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Calibration, SumContext
from banditsis.statistics import Weights

rng = np.random.default_rng(11)
SHAPES = [(1, 1), (7, 3), (8, 16), (9, 17), (123, 15), (130, 40), (251, 33), (2100, 5), (16, 2100)]


def sums(x, shift, weights):
    out, scale = np.ones((1, weights.n_lines, x.shape[1])), np.ones_like(shift)
    with Workers(1) as workers:
        context = SumContext(Calibration(shift, scale), out, workers)
        ArraySource(x).add_sums(slice(0, len(x)), np.array([0, len(x)]), None, weights, context)
    return out[0]


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
