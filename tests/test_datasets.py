"""The simulation models have the distributions given in the paper."""

import numpy as np
import pytest
from scipy import stats

from banditsis import datasets
from banditsis.datasets import make_m1, make_m2, make_m3, make_m4

N, P = 40_000, 12
SIGMA = 0.5 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))


@pytest.mark.parametrize("make", [make_m1, make_m2, make_m3, make_m4])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_shapes_types_and_seeds(make, dtype, monkeypatch):
    """The seed determines the data, and not the size of the blocks."""
    X, y, active = make(300, 40, 1, n_active=4, dtype=dtype)
    assert (X.shape, X.dtype, y.shape, y.dtype) == ((300, 40), dtype, (300,), np.float64)
    assert (active.tolist(), X.flags.c_contiguous, np.isfinite(X).all()) == ([0, 1, 2, 3], True, True)
    monkeypatch.setattr(datasets, "BLOCK", 90)
    for again, first in zip(make(300, 40, 1, n_active=4, dtype=dtype), (X, y, active), strict=True):
        np.testing.assert_array_equal(again, first)
    assert not np.array_equal(make(300, 40, 2, n_active=4, dtype=dtype)[0], X)


@pytest.mark.parametrize(("make", "dtype"), [(make_m1, float), (make_m2, float), (make_m1, np.float32)])
def test_normal_features_have_covariance_sigma(make, dtype):
    X, _, _ = make(N, P, 0, n_active=3, dtype=dtype)
    # The standard error of an entry is at most √(2/n) = 0.007.
    assert np.abs(np.cov(X.T) - SIGMA).max() < 0.035
    assert np.abs(X.mean(axis=0)).max() < 0.025
    assert np.abs(stats.kurtosis(X)).max() < 0.12  # standard error √(24/n) = 0.024


def test_m3_is_a_t_distribution_with_covariance_sigma():
    X, _, _ = make_m3(4 * N, P, 0, n_active=3)
    # Heavy tails: an entry's standard error is √(8/n), three times that of normal data.
    assert np.abs(np.cov(X.T) - SIGMA).max() < 0.04
    some = X[:, ::4]
    assert stats.kstest(some / np.sqrt(3 / 5), stats.t(5).cdf).pvalue.min() > 1e-3
    assert stats.kurtosis(some).min() > 2  # 6 in theory, but it converges slowly; 0 for normal data


def test_m4_shifts_whole_rows_by_two_with_probability_one_half():
    X, _, _ = make_m4(N, 400, 0, n_active=3)
    centre = X.mean(axis=1)  # standard deviation within a component: about √(3/400) = 0.09
    shifted = centre > 1
    assert np.abs(centre - np.where(shifted, 2.0, 0.0)).max() < 0.5
    assert abs(shifted.mean() - 0.5) < 5 * 0.5 / np.sqrt(N)
    for component in (X[shifted, :P] - 2, X[~shifted, :P]):
        assert np.abs(np.cov(component.T) - SIGMA).max() < 0.05
        assert np.abs(component.mean(axis=0)).max() < 0.04


@pytest.mark.parametrize("make", [make_m1, make_m3, make_m4])
def test_equal_coefficients_and_noise_of_variance_one(make):
    X, y, active = make(N, P, 0)
    noise = y - X[:, active].sum(axis=1)
    assert abs(noise.var() - 1) < 0.04
    assert abs(noise.mean()) < 0.03
    assert np.abs([np.corrcoef(noise, x)[0, 1] for x in X.T]).max() < 0.025


def test_m2_coefficients():
    """β = (-1)^U (a + |Z|) with U ~ B(0.95): mostly negative, and at least a in absolute value."""
    n = 500
    minimum = 4 * np.log(n) / np.sqrt(n)
    data = (make_m2(n, 10, seed) for seed in range(200))
    beta = np.array([np.linalg.lstsq(X[:, active], y)[0] for X, y, active in data])  # ± 0.06
    assert np.abs(beta).min() > minimum - 0.4
    assert abs((beta < 0).mean() - 0.95) < 0.025  # five standard errors
    assert abs(np.abs(beta).mean() - minimum - np.sqrt(2 / np.pi)) < 0.07


def test_invalid_arguments_raise():
    for n, p, dtype, message in (
        (0, 5, float, "n must be at least 1, got 0"),
        (5, 0, float, "p must be at least 1, got 0"),
        (5, 5, float, "n_active must be from 1 to 5, got 10"),
        (5, 50, np.int32, "dtype must be float64 or float32, got int32"),
    ):
        with pytest.raises(ValueError, match=message):
            make_m1(n, p, dtype=dtype)
