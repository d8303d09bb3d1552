"""Kernels that turn sums into scores, p-values and calibrations, against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest

from banditsis.core.arrays import are_distinct_integers, spread
from banditsis.engine.evidence import informative_rows_of_sums
from banditsis.sources.array import ArraySource
from banditsis.sources.base import PILOT_ROWS, calibrate


def test_informative_rows_from_sums():
    rng = np.random.default_rng(0)
    z, w = rng.standard_t(5, (400, 5)), rng.uniform(0.5, 2, 400)
    z[:, 3], z[:, 4] = 0.0, 1e-100  # no values at all, and fourth powers that are 0
    mean = w @ z / 400
    squares = w @ np.square(z) - 400 * mean**2
    given = w @ z, w**2 @ z, w**2 @ z**2, w**2 @ z**4
    squares[4] = 1e-198
    out = informative_rows_of_sums(squares, *given, np.array([w @ w]), np.array([400.0]))
    fourth = given[3] - 6 * mean**2 * given[2] + 8 * mean**3 * given[1] - 3 * (w @ w) * mean**4
    np.testing.assert_allclose(out[:3], squares[:3] ** 2 / fourth[:3], rtol=1e-12)
    assert out[3:].tolist() == [0, 400]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("special", [None, np.nan, np.inf, -np.inf, "tiny", "huge", "constant", "zero"])
def test_rows_are_calibrated_where_they_are(dtype, special):
    x = np.random.default_rng(0).normal(3, 2, (300, 9000)).astype(dtype)
    limits = np.finfo(dtype)
    match special:
        case "tiny" | "huge":
            x[:, 8500] *= limits.tiny if special == "tiny" else limits.max / 100
        case "constant" | "zero":
            x[:, 8500] = 7.0 if special == "constant" else 0.0
        case float():
            x[:, 8500] = special
    source, rows = ArraySource(x), slice(10, 250)
    found = source.calibrate(rows)
    expected = calibrate(source, rows, spread(rows, PILOT_ROWS), np.dtype(dtype))
    np.testing.assert_array_equal(found.scale, expected.scale)
    np.testing.assert_allclose(found.shift, expected.shift, rtol=1e-5)
    backwards = ArraySource(x[::-1])
    np.testing.assert_allclose(
        backwards.calibrate(slice(50, 290)).shift,
        calibrate(backwards, slice(50, 290), spread(slice(50, 290), PILOT_ROWS), np.dtype(dtype)).shift,
        rtol=1e-5,
    )


def test_distinct_integers():
    n = 40
    block = np.column_stack(
        [np.arange(n), np.arange(n)[::-1] - 5, np.repeat(np.arange(n // 2), 2), np.arange(n) + 0.5]
    )
    assert are_distinct_integers(block).tolist() == [True, True, False, False]
    block[3] = [np.nan, np.inf, 1.0, 2.0]
    assert not are_distinct_integers(block).any()
    assert are_distinct_integers(np.arange(n)[:, None]).tolist() == [True]
    assert not are_distinct_integers(np.ones((n, 2), bool)).any()
