"""Linear statistics with covariates, weights and gaps are the tests of statsmodels on the present rows."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import statsmodels.api as sm
from scipy.stats import chi2

from banditsis import Plan, screen
from banditsis.statistics.covariates import whiten
from banditsis.statistics.moments import eliminate, residuals

rng = np.random.default_rng(5)
N, P = 240, 8
Z = np.column_stack([rng.standard_normal((N, 2)), rng.integers(0, 2, N)])
X = rng.binomial(2, 0.3, (N, P)) + rng.standard_normal((N, P)) + 0.4 * Z[:, :1] + 3
W = rng.gamma(2.0, size=N) * 7
Y = Z @ [1.0, -2.0, 0.5] + 0.4 * X[:, 3] + rng.standard_normal(N)
GAPS = np.where(rng.random((N, P)) < 0.1, np.nan, X)
GAPS[:, 5] = X[:, 5]  # complete
GAPS[40:, 6] = np.nan  # mostly missing
GAPS[Z[:, 0] > 0, 7] = np.nan  # not at random
BINARY, COUNTS = Y > 0.3, rng.poisson(np.exp(0.4 * Z[:, 1] + 0.5))


def least_squares(x, y, A, w, b, v):
    """Partial correlation, and p-value of the slope."""
    fit = sm.WLS(y, np.column_stack([x, A]), weights=w).fit()
    return fit.tvalues[0] / np.hypot(fit.tvalues[0], np.sqrt(fit.df_resid)), fit.pvalues[0]


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
@pytest.mark.parametrize("covariates", [None, Z], ids=["alone", "covariates"])
@pytest.mark.parametrize("statistic", CASES)
def test_scores_and_pvalues(statistic, covariates, weights, cells, container):
    y, reference, family = CASES[statistic]
    A, w = np.ones((N, 1)), np.ones(N) if weights is None else weights / weights.mean()
    A = A if covariates is None else np.column_stack([A, covariates])
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
    scores, pvalues = np.array(found).T
    np.testing.assert_allclose(result.scores, scores * np.sqrt(shares), atol=1e-5 if single else 1e-9)
    np.testing.assert_allclose(usual_pvalues(result), pvalues, rtol=2e-3 if single else 1e-6)


def test_a_gram_matrix_is_eliminated_and_whitened():
    pairs = np.array([[4.0], [2.0], [3.0]])
    pivots = eliminate(pairs, np.array([[1e-9], [1e-9]]))
    assert pivots.ravel().tolist() == [4, 2]  # 3 - 2² / 4
    assert residuals(pairs, pivots, np.array([[2.0], [1.5]])).ravel().tolist() == [2, 0.5]
    assert whiten(np.diag([4.0, 0.0, 1.0])).shape == (2, 3)
