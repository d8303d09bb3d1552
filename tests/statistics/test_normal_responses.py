"""Responses whose p-values need no check are found in one pass, as the check of each by itself finds them."""

import numpy as np
import pytest
from scipy import stats

from banditsis.core.parallel import Workers
from banditsis.statistics.covariates import find_basis
from banditsis.statistics.families import Pearson
from banditsis.statistics.shape import MAX_ERRORS
from banditsis.statistics.tail_test import TailTest

N = 9000
rng = np.random.default_rng(0)
Z = rng.standard_normal((N, 3))
NOISE = np.column_stack(
    [
        rng.standard_normal(N),
        rng.standard_exponential(N),
        rng.standard_t(4, N),
        rng.random(N),
        rng.standard_normal(N),
    ]
)
#: Far from 0, of very different sizes, and explained by covariates to different degrees.
Y = (NOISE + Z @ rng.standard_normal((3, 5)) * [0, 1, 3, 0.1, 5]) * [1, 1e-6, 1e9, 1, 1e-3] + [
    0,
    7,
    1e12,
    1e6,
    -1,
]


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


@pytest.mark.parametrize("rows", [slice(0, N), np.arange(0, N, 3)])
def test_residuals_given_covariates(rows):
    bound = Pearson.bind_partial(Y, False, find_basis(Z, np.dtype(float))).calibrate(rows)
    alone = [TailTest(bound.subset([k]).score_parts(rows)).is_exempt for k in range(Y.shape[1])]
    assert bound.normal_responses(rows).tolist() == alone
    assert alone[0]
    assert not alone[1]
