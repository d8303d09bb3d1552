"""Sums with several columns of weights, for any number of rows, columns and weights."""

import numpy as np
import pytest

from banditsis.sources.products import Strips, add_products
from banditsis.statistics import Weights

rng = np.random.default_rng(11)
SHAPES = [(1, 1), (7, 3), (8, 16), (9, 17), (123, 15), (130, 40), (251, 33), (2100, 5), (16, 2100)]


@pytest.mark.parametrize("along_rows", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_those_of_products(shape, dtype, along_rows):
    (n, m), wide = shape, (shape[0] + 3, shape[1] + 2)
    whole = np.array(rng.standard_normal(wide) + 5, dtype, order="C" if along_rows else "F")
    block = whole[1 : n + 1, 1 : m + 1]
    step = wide[1] if along_rows else wide[0]
    starts = step + 1 + step * np.arange(n if along_rows else m)
    strips = Strips(whole.ravel(order="K"), starts, along_rows)
    shift = block.mean(axis=0).astype(dtype)
    z = block.astype(np.float64) - shift
    for q, squared, fourth in ((2, False, False), (5, False, True), (11, True, False), (24, False, False)):
        linear = rng.standard_normal((n, q))
        square = rng.random(n) if squared else None
        out = np.ones((q + 2 + fourth, m))
        weights = Weights.of(linear, square, fourth=fourth)
        add_products(None, strips, shift, weights, out)
        v = np.ones(n) if square is None else square
        powers = [(z**4).sum(axis=0)] if fourth else []
        expected = 1 + np.vstack([v @ z, linear.T @ z, v @ z**2, *powers])
        size = np.abs(np.column_stack([v, linear])).T @ np.abs(z)
        limit = np.vstack([size, v @ z**2, *powers]) * np.finfo(dtype).eps * (8 + np.sqrt(n)) + 1e-13
        assert (np.abs(out - expected) <= limit).all()


def test_missing_numbers_reach_the_sums():
    x = np.ones((24, 20), np.float32)
    x[9, 17] = np.nan
    for along_rows in (True, False):
        memory = x.ravel(order="C" if along_rows else "F")
        starts = 20 * np.arange(24) if along_rows else 24 * np.arange(20)
        out = np.zeros((4, 20))
        weights = Weights.of(rng.standard_normal((24, 2)))
        add_products(None, Strips(memory, starts, along_rows), np.zeros(20, np.float32), weights, out)
        np.testing.assert_array_equal(np.isnan(out).any(axis=0), np.arange(20) == 17)
