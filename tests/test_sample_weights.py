"""Weights of the rows; tests/statistics/test_linear_models.py compares scores with weighted models."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)

from banditsis import SIS, BanditSIS, Plan, screen

N, P = 150, 6
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, P)) + 3
W = RNG.gamma(1.0, size=N) * 7
Y = 0.4 * X[:, 2] + RNG.standard_normal(N) / np.sqrt(W)
AGE = np.column_stack([RNG.standard_normal(N) + X[:, 2], RNG.integers(0, 2, N)])
GAPS = np.where(RNG.random((N, P)) < 0.1, np.nan, X)
EXACT = Plan.exact(N, P, 3)


def weighted_correlations(x, y, w):
    x, y = x - np.average(x, axis=0, weights=w), y - np.average(y, weights=w)
    return (w * y) @ x / np.sqrt((w @ x**2) * (w @ y**2))


def test_missing_responses_are_left_out():
    y = np.where(np.arange(N) % 9 == 0, np.nan, Y)
    known = ~np.isnan(y)
    scores = SIS(3, missing="pairwise").fit(X, y, sample_weight=W).scores_
    np.testing.assert_allclose(scores, weighted_correlations(X[known], y[known], W[known]), atol=1e-9)


def test_integer_weights_repeat_rows():
    counts = np.arange(N) % 4
    data = np.where(counts[:, None] > 0, X, 1e9)
    for covariates in (None, AGE):
        weighted = SIS(3).fit(data, Y, sample_weight=counts, covariates=covariates)
        given = None if covariates is None else np.repeat(covariates, counts, axis=0)
        repeated = SIS(3).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts), covariates=given)
        np.testing.assert_allclose(weighted.scores_, repeated.scores_, atol=1e-12)
    assert f"38 of the {N} rows have weight 0 and were left out." in weighted.result_.notes
    without_first = SIS(3).fit(X, Y, sample_weight=(np.arange(N) > 0) * 1.0)
    assert f"1 of the {N} rows has weight 0 and was left out." in without_first.result_.notes


@pytest.mark.parametrize(("covariates", "missing"), [(None, "pairwise"), (AGE, "raise")])
def test_integer_weights_repeat_rows_of_survival_times(covariates, missing):
    data, counts = X if missing == "raise" else GAPS, np.arange(N) % 4
    kept = counts > 0
    y = np.column_stack([RNG.exponential(np.exp(-0.3 * X[:, 0])).round(1), RNG.random(N) < 0.7])
    repeated = [None if a is None else np.repeat(a, counts, axis=0) for a in (data, y, covariates)]
    options = {"statistic": "cox", "missing": missing}
    result = screen(data, y, EXACT, covariates=covariates, sample_weight=counts, **options)
    plan, present = Plan.exact(counts.sum(), P, 3), ~np.isnan(data)  # whose share is not weighted
    expected = screen(*repeated[:2], plan, covariates=repeated[2], **options)
    shares = present[kept].mean(axis=0) / np.average(present, axis=0, weights=counts)
    scores = expected.scores * np.sqrt(shares)
    np.testing.assert_allclose(result.scores, scores, atol=1e-9)
    np.testing.assert_allclose(result.pvalues, chi2.sf(kept.sum() * scores**2, 1), rtol=1e-6)


@pytest.mark.parametrize("statistic", ["auto", "anova"])
def test_scikit_learn_agrees_on_repeated_rows(statistic):
    for selector in (SIS(3, statistic=statistic), SIS(3, statistic=statistic, missing="pairwise")):
        check_sample_weight_equivalence_on_dense_data("SIS", selector)
        check_sample_weight_equivalence_on_sparse_data("SIS", selector)


def test_only_ratios_matter():
    expected = SIS(3).fit(X, Y, sample_weight=W).scores_
    for factor in (1e-200, 1e200):
        np.testing.assert_allclose(SIS(3).fit(X, Y, sample_weight=factor * W).scores_, expected, rtol=1e-9)
    plain = SIS(3, random_state=0).fit(X, Y).result_
    equal = SIS(3, random_state=0).fit(X, Y, sample_weight=np.full(N, 0.3)).result_
    np.testing.assert_array_equal(equal.scores, plain.scores)
    assert equal.parameters == plain.parameters


LARGE = np.random.default_rng(1).standard_normal((6000, 40))
WEIGHTS = np.random.default_rng(2).gamma(1.0, size=6000)
LARGE_Y = LARGE[:, 7] - LARGE[:, 30] + np.random.default_rng(3).standard_normal(6000)
RESPONSES = {
    "pearson": LARGE_Y,
    "anova": np.digitize(LARGE_Y, [-2, 2]),
    "poisson": LARGE_Y > 1,
    "cox": np.column_stack([np.exp(-LARGE_Y), np.random.default_rng(4).random(6000) < 0.5]),
}


@pytest.mark.parametrize("statistic", RESPONSES)
@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
@pytest.mark.parametrize("covariates", [None, LARGE[:, :2] + 1], ids=["alone", "covariates"])
def test_adaptive_sums_of_all_rows_are_exact(sampling, statistic, covariates):
    y, plan = RESPONSES[statistic], Plan(6000, 40, ((500, 20), (6000, 2)))
    options = {"statistic": statistic, "covariates": covariates, "sample_weight": WEIGHTS, "random_state": 0}
    result = screen(LARGE, y, plan, sampling=sampling, **options)
    exact = screen(LARGE, y, Plan.exact(6000, 40, 2), **options)
    assert sorted(result.selected) == [7, 30]
    last = result.last_round == 1
    np.testing.assert_allclose(result.scores[last], exact.scores[last], atol=1e-9)
    for limit in (result.detection_floor, result.interval):
        with pytest.raises(ValueError, match="not known for rows with sample weights"):
            limit()


def test_weights_change_what_is_sampled():
    heavy = np.where(np.arange(6000) < 300, 50.0, 0.1)
    y = np.where(heavy > 1, LARGE[:, 11], LARGE[:, 20])
    selector = BanditSIS(1, alpha=0.5, random_state=0).fit(LARGE, y, sample_weight=heavy)
    assert selector.result_.selected.tolist() == [11]


def test_pvalues_of_selected_features():
    selector = BanditSIS(2, alpha=0.5, pvalues=True, random_state=0)
    selector.fit(LARGE, LARGE_Y, sample_weight=WEIGHTS)
    expected = weighted_correlations(LARGE[:, [7, 30]], LARGE_Y, WEIGHTS)
    np.testing.assert_allclose(selector.scores_[[7, 30]], expected, atol=1e-9)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (W[:-1], ValueError, r"must have shape \(150,\), one weight for each row of X; got \(149,\)"),
        (W[:, None], ValueError, "must have shape"),
        (-W, ValueError, "finite and not negative, got -"),
        (np.where(np.arange(N) == 3, np.nan, W), ValueError, "got nan in row 3"),
        (np.where(np.arange(N) == 3, np.inf, W), ValueError, "got inf in row 3"),
        (np.zeros(N), ValueError, "is known in 0 rows with .* weight that is not zero, but .* at least 3"),
        (["heavy"] * N, TypeError, "must hold numbers"),
    ],
)
def test_bad_weights(weights, error, message):
    with pytest.raises(error, match=message):
        SIS(3).fit(X, Y, sample_weight=weights)


def test_what_does_not_support_weights():
    for statistic in ("spearman", "distance"):
        with pytest.raises(ValueError, match=f"'{statistic}' does not support sample weights; use 'pearson'"):
            SIS(3, statistic=statistic).fit(X, Y, sample_weight=W)
    plan = Plan.guaranteed(6000, 40, None, 0.3)
    with pytest.raises(ValueError, match="only be guaranteed with equal sample weights"):
        screen(LARGE, LARGE_Y, plan, sample_weight=WEIGHTS)


def test_pandas_weights_need_the_labels_of_the_data():
    frame, weights = pd.DataFrame(X), pd.Series(W).sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match=r"sample_weight and X have different row labels"):
        SIS(3).fit(frame, Y, sample_weight=weights)
