"""Half-precision cells are converted by kernels, and give the results of the same numbers in float32."""

import numpy as np
import pytest

from banditsis import Plan, screen
from banditsis.kernels.cells import convert_half

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
    options = {"y": Y, **options}
    plan = Plan.exact(*X.shape, 5)
    found = screen(x, plan=plan, **options)
    expected = screen(X.astype(np.float32), plan=plan, **options)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)


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
