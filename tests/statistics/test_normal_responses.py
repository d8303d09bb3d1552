"""Responses whose p-values need no check are found in one pass, as the check of each by itself finds them."""

import numpy as np
from scipy import stats

from banditsis.core.parallel import Workers
from banditsis.statistics.families import Pearson
from banditsis.statistics.shape import MAX_ERRORS

N = 9000
rng = np.random.default_rng(0)
NOISE = [
    rng.standard_normal(N),
    rng.standard_exponential(N),
    rng.standard_t(4, N),
    rng.random(N),
    rng.standard_normal(N),
]
#: Far from 0, and of very different sizes.
Y = np.column_stack(NOISE) * [1, 1e-6, 1e9, 1, 1e-3] + [0, 7, 1e12, 1e6, -1]


def test_responses():
    skewness, kurtosis = stats.skew(Y), stats.kurtosis(Y)
    expected = (np.abs(skewness) < MAX_ERRORS * np.sqrt(6 / N)) & (
        np.abs(kurtosis) < MAX_ERRORS * np.sqrt(24 / N)
    )
    with Workers(2):
        bound = Pearson.bind(Y, False).calibrate(slice(0, N))
        np.testing.assert_array_equal(bound.normal_responses(slice(0, N)), expected)
    assert expected.any()
    assert not expected.all()
