"""Linear statistics with covariates, weights and gaps are the fits of statsmodels to the present rows."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import statsmodels.api as sm
from scipy.stats import chi2

from banditsis import Plan, screen

rng = np.random.default_rng(5)
N, P, K = 240, 8, 3
Z = np.column_stack([rng.standard_normal((N, 2)), rng.integers(0, 2, N)])
SHIFTED = Z * [1, 100, 1] + [0, 1e4, 0]  # spans the same
X = rng.binomial(2, 0.3, (N, P)) + rng.standard_normal((N, P)) + 0.4 * Z[:, :1] + 3
W = rng.gamma(2.0, size=N) * 7
Y = Z @ [1.0, -2.0, 0.5] + 0.4 * X[:, 3] + rng.standard_normal(N)
GAPS = np.where(rng.random((N, P)) < 0.1, np.nan, X)
GAPS[:, 5] = X[:, 5]  # complete
GAPS[40:, 6] = np.nan  # mostly missing
GAPS[Z[:, 0] > 0, 7] = np.nan  # not at random
BINARY, COUNTS = Y > 0.3, rng.poisson(rng.gamma(1.0, np.exp(0.4 * Z[:, 1] + 0.5)))


def least_squares(x, y, A, w, b=None, v=None):
    """Partial correlation, and p-value, value and standard error of the slope."""
    fit = sm.WLS(y, np.column_stack([x, A]), weights=w).fit()
    t, p, beta, se = (values[0] for values in (fit.tvalues, fit.pvalues, fit.params, fit.bse))
    return t / np.hypot(t, np.sqrt(fit.df_resid)), p, beta, se


def analysis_of_variance(x, y, A, w, b, v):
    """Correlation ratio, and p-value of the F test."""
    classes = np.column_stack([A, y[:, None] == ["b", "c"]]).astype(float)
    small, large = (sm.WLS(x, design, weights=w).fit() for design in (A, classes))
    return np.sqrt(max(1 - large.ssr / small.ssr, 0)), large.compare_f_test(small)[1]


def score_test(x, y, A, w, b, v):
    """The null model is that of all rows, with residuals b and variances v; sums are over present rows."""
    root = np.sqrt(w * v)[:, None]
    left = x - A @ np.linalg.lstsq(A * root, x * root[:, 0], rcond=None)[0]
    statistic = (w * left) @ b / np.sqrt(w * v @ left**2)
    phi = w @ b**2 / (w @ v) * len(x) / (len(x) - A.shape[1]) if y.max() > 1 else 1.0
    return statistic / np.sqrt(len(x)), chi2.sf(statistic**2 / phi, 1)


CASES = {
    "pearson": (Y, least_squares, None),
    "anova": (np.array(["a", "b", "c"])[np.digitize(Y, [-1.5, 1.5])], analysis_of_variance, None),
    "logistic": (BINARY.astype(int), score_test, sm.families.Binomial()),
    "poisson": (COUNTS, score_test, sm.families.Poisson()),
}
CONTAINERS = {
    "rows": np.asarray,
    "columns": np.asfortranarray,
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "frame": pd.DataFrame,
    "float32": np.float32,
}


def usual_pvalues(result):
    """P-values before they are corrected for skewed data."""
    null = result.evidence.null_distribution
    return 10 ** getattr(null, "usual", null).log10_pvalues(result.scores)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("cells", [X, GAPS], ids=["complete", "missing"])
@pytest.mark.parametrize("weights", [None, W], ids=["equal", "weights"])
@pytest.mark.parametrize("covariates", [None, SHIFTED], ids=["alone", "covariates"])
@pytest.mark.parametrize("statistic", CASES)
def test_scores_and_pvalues(statistic, covariates, weights, cells, container):
    y, reference, family = CASES[statistic]
    A, w = np.ones((N, 1)), np.ones(N) if weights is None else weights / weights.mean()
    A = A if covariates is None else np.column_stack([A, Z])
    b, v = np.zeros((2, N))
    if family is not None:
        mean = sm.GLM(y, A, family, var_weights=w).fit(tol=1e-12).fittedvalues
        b, v = y - mean, family.variance(mean)
    options = {"statistic": statistic, "covariates": covariates, "sample_weight": weights}
    single = container == "float32"
    source, plan = CONTAINERS[container](cells), Plan.exact(N, P, P)
    result = screen(source, y, plan, missing="pairwise", **options)
    if cells is X:  # pairwise deletion changes nothing
        plain, atol = screen(source, y, plan, **options), 1e-6 if single else 1e-12
        np.testing.assert_allclose(result.scores, plain.scores, atol=atol)
        np.testing.assert_allclose(result.log10_pvalues, plain.log10_pvalues, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(result.effects or 0, plain.effects or 0, rtol=1e-5)
    shares = np.isfinite(cells).mean(axis=0)
    known = [np.isfinite(x) for x in cells.T]
    found = [reference(x[m], y[m], A[m], w[m], b[m], v[m]) for x, m in zip(cells.T, known, strict=True)]
    scores, pvalues, *effects = np.array(found).T
    np.testing.assert_allclose(result.scores, scores * np.sqrt(shares), atol=1e-5 if single else 1e-9)
    np.testing.assert_allclose(usual_pvalues(result), pvalues, rtol=2e-3 if single else 1e-6)
    if effects:  # those of other statistics: test_effects.py
        effects = np.array(effects)[:, result.selected]
        np.testing.assert_allclose(result.effects, effects, rtol=1e-3 if single else 1e-9)


def given_covariates(x, y=Y, z=Z, **options):
    """The exact result given covariates."""
    options = {"covariates": z, "missing": "pairwise", **options}
    return screen(x, y, Plan.exact(*x.shape, 5), **options)


def test_cox_is_fitted_to_the_present_rows():
    y = np.column_stack([np.exp(Y / 4), rng.random(N) < 0.7])
    scores = given_covariates(GAPS, y, statistic="cox").scores
    for j in (0, 6, 7):
        known = np.isfinite(GAPS[:, j])
        alone = given_covariates(X[known, j : j + 1], y[known], Z[known], statistic="cox", missing="raise")
        np.testing.assert_allclose(scores[j], alone.scores[0] * np.sqrt(known.mean()), atol=1e-9)


def test_rows_without_response_or_covariate_are_omitted_and_counted():
    y, z = Y.copy(), Z.copy()
    y[::11], z[::13, 1], z[5, 2] = np.nan, np.nan, np.nan
    known, complete = np.isfinite(y), np.isfinite(z).all(axis=1)
    both = known & complete
    result = given_covariates(GAPS, y, z)
    np.testing.assert_allclose(
        result.scores, given_covariates(GAPS[both], y[both], z[both]).scores, atol=1e-12
    )
    assert f"{N - complete.sum()} rows with missing covariates were omitted" in str(result)
    omitted = f"{(complete & ~known).sum()} rows were left out, because their response is missing"
    assert omitted in str(result)
    several = given_covariates(GAPS, np.column_stack([y, Y]), z)
    found = given_covariates(GAPS, Y, z)
    assert "response is missing" not in str(found)
    np.testing.assert_allclose([r.scores for r in several], [result.scores, found.scores], atol=1e-12)
    with pytest.raises(ValueError, match=r"covariates contain NaN in row 0, column 1.*'pairwise'"):
        given_covariates(X, Y, z, missing="raise")
    survival = np.column_stack([np.exp(Y / 4), np.ones(N)])
    found = given_covariates(GAPS, survival, z, statistic="cox")
    few = given_covariates(GAPS[complete], survival[complete], z[complete], statistic="cox")
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
    x = X.copy()
    x[K + 9 :, 0] = np.nan  # present in K + 9 rows
    x[K + 10 :, 1] = np.nan
    x[:, 2] = np.nan
    result = given_covariates(x)
    assert result.scores[0] == result.scores[2] == 0 != result.scores[1]
    assert result.pvalues[0] == result.pvalues[2] == 1
    assert f"fewer than {K + 10} of the {N} rows" in str(result)


def test_covariates_that_are_constant_or_collinear_in_the_present_rows():
    x, group = GAPS.copy(), np.arange(N) % 3
    x[group == 2, 0] = np.nan
    x[group != 1, 1] = np.nan
    z = np.column_stack([Z, np.eye(3)[group]])
    result = given_covariates(x, z=z)
    for j in (0, 1, 2):
        known = np.isfinite(x[:, j])
        left, sizes, _ = np.linalg.svd(z[known] - z[known].mean(axis=0), full_matrices=False)
        A = np.column_stack([np.ones(known.sum()), left[:, sizes > 1e-8]])
        score, pvalue, *_ = least_squares(x[known, j], Y[known], A, 1.0)
        np.testing.assert_allclose(result.scores[j], score * np.sqrt(known.mean()), atol=1e-9)
        np.testing.assert_allclose(result.pvalues[j], pvalue, rtol=1e-6)


def test_a_response_or_feature_that_the_covariates_explain_in_the_present_rows():
    x, group = GAPS.copy(), np.arange(N) % 3 == 0
    x[~group, 0] = np.nan
    assert abs(given_covariates(x, np.where(group, 2.0, Y), group.astype(float)).scores[0]) < 1e-6
    x[:, 1] = np.where(np.isnan(x[:, 1]), np.nan, Z[:, 0] * 3 + 1)
    assert given_covariates(x).scores[1] == 0
