"""Covariates and missing values: each feature is scored over the rows in which it is present."""

import numpy as np
import pytest
import statsmodels.api as sm

from banditsis import Plan, screen

rng = np.random.default_rng(3)
N, P, K = 300, 24, 4
Z = rng.standard_normal((N, K))
COMPLETE = rng.binomial(2, 0.3, (N, P)) + 0.4 * Z[:, :1]
Y = Z @ [1.0, -2.0, 0.5, 0.0] + 0.4 * COMPLETE[:, 3] + rng.standard_normal(N)
X = np.where(rng.random((N, P)) < 0.1, np.nan, COMPLETE)
X[:, 5] = COMPLETE[:, 5]  # complete
X[40:, 6] = np.nan  # mostly missing
X[Z[:, 0] > 0, 7] = np.nan  # not at random


def exact(x=X, y=Y, **options):
    options = {"covariates": Z, "missing": "pairwise", **options}
    return screen(x, y, Plan.exact(*x.shape, 5), **options)


def least_squares(x, y, z):
    """Partial correlation and p-value of the t test in the rows in which x and y are known."""
    known = np.isfinite(x) & np.isfinite(y)
    fit = sm.OLS(y[known], sm.add_constant(np.column_stack([x, z])[known])).fit()
    t = fit.tvalues[1]
    return t / np.sqrt(t * t + fit.df_resid) * np.sqrt(known.sum() / len(known)), fit.pvalues[1]


def expected(x=X, y=Y, z=Z):
    return np.array([least_squares(column, y, z) for column in x.T]).T


def test_cox_is_fitted_to_the_present_rows():
    y = np.column_stack([np.exp(Y / 4), rng.random(N) < 0.7])
    scores = exact(y=y, statistic="cox").scores
    for j in (0, 6, 7):
        known = np.isfinite(X[:, j])
        alone = exact(X[known, j : j + 1], y[known], statistic="cox", covariates=Z[known], missing="raise")
        np.testing.assert_allclose(scores[j], alone.scores[0] * np.sqrt(known.mean()), atol=1e-9)


def test_rows_without_response_or_covariate_are_omitted():
    y, z = Y.copy(), Z.copy()
    y[::11], z[::13, 1], z[5, 2] = np.nan, np.nan, np.nan
    known = np.isfinite(y) & np.isfinite(z).all(axis=1)
    result = exact(y=y, covariates=z)
    np.testing.assert_allclose(result.scores, expected(X[known], y[known], z[known])[0], atol=1e-10)
    assert "rows with missing covariates" in str(result)
    several = screen(X, np.column_stack([y, Y]), Plan.exact(N, P, 5), covariates=z, missing="pairwise")
    np.testing.assert_allclose(several[0].scores, result.scores, atol=1e-12)
    np.testing.assert_allclose(several[1].scores, exact(covariates=z).scores, atol=1e-12)
    with pytest.raises(ValueError, match=r"covariates contain NaN in row 0, column 1.*'pairwise'"):
        exact(COMPLETE, covariates=z, missing="raise")
    survival = np.column_stack([np.exp(Y / 4), np.ones(N)])
    known = np.isfinite(z).all(axis=1)
    few = exact(X[known], survival[known], statistic="cox", covariates=z[known])
    found = exact(y=survival, statistic="cox", covariates=z)
    np.testing.assert_allclose(found.scores, few.scores, atol=1e-12)


@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
@pytest.mark.parametrize("statistic", ["pearson", "logistic", "anova"])
def test_adaptive_runs_with_pvalues(sampling, statistic):
    generator = np.random.default_rng(1)
    n, p = 4000, 40
    z, x = generator.standard_normal((n, 3)), generator.binomial(2, 0.3, (n, p)).astype("f4")
    y = z @ [1.0, 1.0, 0.0] + x[:, 3] + generator.standard_t(3, n)
    y = y if statistic == "pearson" else y > np.quantile(y, 0.9)
    x[generator.random((n, p)) < 0.05] = np.nan
    options = {"covariates": z, "missing": "pairwise", "statistic": statistic}
    whole = screen(x, y, Plan.exact(n, p, 4), **options)
    plan = Plan.optimal(n, p, 4, 0.3)
    result = screen(x, y, plan, **options, sampling=sampling, pvalues=True, random_state=0)
    assert result.parameters["sampling"] == sampling
    assert 3 in result.selected
    chosen = result.selected
    np.testing.assert_allclose(result.scores[chosen], whole.scores[chosen], atol=1e-6)
    np.testing.assert_allclose(result.log10_pvalues[chosen], whole.log10_pvalues[chosen], atol=1e-4)


def test_features_with_few_present_rows_score_zero():
    x = COMPLETE.copy()
    x[K + 9 :, 0] = np.nan  # present in K + 9 rows
    x[K + 10 :, 1] = np.nan
    x[:, 2] = np.nan
    result = exact(x)
    assert result.scores[0] == result.scores[2] == 0 != result.scores[1]
    assert result.pvalues[0] == result.pvalues[2] == 1
    assert f"fewer than {K + 10} of the 300 rows" in str(result)


def test_covariates_that_are_constant_or_collinear_in_the_present_rows():
    batch = np.eye(3)[np.arange(N) % 3]
    z = np.column_stack([Z, batch])
    x = X.copy()
    x[np.arange(N) % 3 == 2, 0] = np.nan
    x[np.arange(N) % 3 != 1, 1] = np.nan
    result = exact(x, covariates=z)
    for j in (0, 1, 2):
        known = np.isfinite(x[:, j])
        a = np.column_stack([Z, batch])[known]
        basis = np.linalg.svd(a - a.mean(axis=0), full_matrices=False)
        a = basis[0][:, basis[1] > 1e-8]
        score, pvalue = least_squares(x[known, j], Y[known], a)
        np.testing.assert_allclose(result.scores[j], score * np.sqrt(known.mean()), atol=1e-9)
        np.testing.assert_allclose(result.pvalues[j], pvalue, rtol=1e-6)


def test_a_response_that_the_covariates_explain_in_the_present_rows():
    x, group = X.copy(), np.arange(N) % 3 == 0
    y = np.where(group, 2.0, Y)
    x[~group, 0] = np.nan
    assert abs(exact(x, y, covariates=group.astype(float)).scores[0]) < 1e-6
    x[:, 1] = np.where(np.isnan(x[:, 1]), np.nan, Z[:, 0] * 3 + 1)
    assert exact(x).scores[1] == 0


def test_notes_count_missing_covariates_and_missing_responses_separately():
    rng = np.random.default_rng(0)
    x, y, z = rng.standard_normal((60, 3)), rng.standard_normal(60), rng.standard_normal(60)
    z[:4] = np.nan
    plan = Plan.exact(60, 3, 1)
    notes = screen(x, y, plan, covariates=z, missing="pairwise").notes
    assert any("4 rows with missing covariates were omitted" in note for note in notes)
    assert not any("response is missing" in note for note in notes)
    y[2:10] = np.nan  # two of these have no covariate either
    notes = screen(x, y, plan, covariates=z, missing="pairwise").notes
    assert any("6 rows were left out, because their response is missing" in note for note in notes)
