"""Partial association: equal to that of the residuals of both sides given the covariates."""

import numpy as np
import pytest
import scipy.sparse

from banditsis import SIS, BanditSIS, Plan, screen
from banditsis.statistics import Pearson
from banditsis.statistics.covariates import find_basis
from banditsis.statistics.linear import normal_responses
from banditsis.statistics.saddlepoint import TailTest

rng = np.random.default_rng(7)
N, P = 400, 25
Z = rng.standard_normal((N, 3))
X = rng.standard_normal((N, P)) + Z @ rng.standard_normal((3, P))
Y = Z @ [3.0, -2.0, 1.0] + 0.5 * X[:, 4] + rng.standard_normal(N)
LABELS = np.array(["a", "b", "c"])[np.digitize(Y, np.quantile(Y, [0.3, 0.7]))]


def residuals(values, Z):
    """By least squares on an intercept and Z, columns brought to one size first."""
    Z = np.asarray(Z, float).reshape(len(values), -1)
    Z = Z[:, np.ptp(Z, axis=0) > 0]
    Z = (Z - Z.mean(axis=0)) / np.ptp(Z, axis=0)
    A = np.column_stack([np.ones(len(Z)), Z])
    values = values - values.mean(axis=0)
    return values - A @ np.linalg.lstsq(A, values, rcond=1e-10)[0]


def partial(X, y, Z):
    x, r = residuals(X, Z), residuals(y, Z)
    return x.T @ r / np.sqrt((x * x).sum(axis=0) * (r @ r))


def exact(x=X, y=Y, **options):
    return screen(x, y, Plan.exact(*x.shape, 5), **options)


LEVELS = np.eye(4)[np.arange(N) % 4]
CASES = {
    "one column": Z[:, 0],
    "three": Z,
    "large offsets": Z + np.array([1e7, -1e6, 1e5]),
    "badly scaled": Z * [1e-12, 1.0, 1e12],
    "all levels": np.column_stack([Z, LEVELS]),
    "copies": np.column_stack([Z, Z[:, 0], 2 * Z[:, 1] - Z[:, 2], np.full(N, 3.0)]),
    "nearly collinear": np.column_stack([Z, Z[:, 0] + 1e-5 * rng.standard_normal(N)]),
    "heavy tails": rng.standard_t(2, (N, 3)),
    "integers": rng.integers(0, 5, (N, 2)),
    "booleans": Z > 0,
    "float32": Z.astype("f4"),
}


@pytest.mark.parametrize("name", CASES)
def test_partial_correlation_is_that_of_residuals(name):
    expected = partial(X, Y, np.asarray(CASES[name], float))
    scores = exact(y=Y + 1e6, covariates=CASES[name]).scores
    np.testing.assert_allclose(scores, expected, atol=1e-9 if name != "nearly collinear" else 1e-7)


SURVIVAL = np.column_stack([np.exp(Y / 4), rng.random(N) < 0.7])


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_linear_combinations_of_covariates_score_zero(dtype):
    x = np.column_stack([X, Z, Z @ [1, 2, 3] + 5, np.full(N, 7)]).astype(dtype)
    given = np.column_stack([x[:, P : P + 3], LEVELS])
    for statistic, y in (("pearson", Y), ("anova", LABELS), ("logistic", Y > 0), ("cox", SURVIVAL)):
        result = exact(x, y, covariates=given, statistic=statistic)
        assert (result.scores[P:] == 0).all(), statistic
        assert (result.scores[:P] != 0).all()
        assert (result.pvalues[P:] == 1).all()


def test_stored_values_are_exact_whatever_their_type():
    """float32 holds dates and times with few digits; those it holds count, and none spoils another."""
    generator = np.random.default_rng(0)
    day = generator.integers(0, 28, N)
    dates = (20240100 + day).astype("f4")
    times = (1.7e9 + generator.uniform(0, 3600, N)).astype("f4")
    rare = generator.random(N) < 0.05
    both = np.column_stack([times, rare]).astype("f4")
    for given, rank in ((dates, 1), (both, 2)):
        y = Y + 5 * residuals(given.reshape(N, -1)[:, -1].astype(float), np.ones(N))
        result = exact(y=y, covariates=given)
        np.testing.assert_array_equal(result.scores, exact(y=y, covariates=given.astype(float)).scores)
        np.testing.assert_allclose(result.scores, partial(X, y, given.astype(float)), atol=1e-8)
        assert result.parameters["covariates"] == rank


def test_a_note_names_columns_that_are_left_out():
    close = 1e16 + 2.0 * (np.arange(N) % 2)
    result = exact(covariates=np.column_stack([Z, close]))
    np.testing.assert_array_equal(result.scores, exact(covariates=Z).scores)
    assert "column 3 of the covariates was left out" in str(result)
    assert "left out" in str(exact(covariates=close))
    assert "left out" not in str(exact(covariates=np.column_stack([Z, np.ones(N)])))


@pytest.mark.parametrize("given", [None, Z], ids=["alone", "covariates"])
def test_normal_responses_are_found_as_the_check_of_each_finds_them(given):
    n, draw = 9000, np.random.default_rng(0)
    noise = draw.standard_normal((n, 5))
    noise[:, 2:] = np.column_stack([draw.standard_exponential(n), draw.standard_t(4, n), draw.random(n)])
    y = noise * [1, 1e-6, 1e9, 1, 1e-3] + [0, 7, 1e12, 1e6, -1]  # far from 0, and of very different sizes
    basis = given if given is None else find_basis(draw.standard_normal((n, 3)), np.dtype(float))
    rows = slice(0, n)
    bound = Pearson.bind(y, False).given(basis, None).calibrate(rows)
    expected = [TailTest(bound.subset([k]).score_parts(rows)).is_exempt for k in range(5)]
    np.testing.assert_array_equal(normal_responses(bound, rows), expected)
    assert expected == [True, True, False, False, False]


def test_adaptive_runs_regress_over_the_rows_read():
    """A plan of one step over m rows in stored order is a partial correlation over those rows."""
    plan = Plan.subsample(N, P, 5, 60)
    scores = screen(X, Y, plan, covariates=Z, row_order="stored").scores
    np.testing.assert_allclose(scores, partial(X[:60], Y[:60], Z[:60]), atol=1e-10)


def test_float32_features_keep_their_digits():
    """A response that is almost all covariate does not drown in the rounding of float32 sums."""
    y = 1e4 * Z[:, 0] + 0.5 * X[:, 4] + rng.standard_normal(N)
    scores = screen(X.astype("f4"), y, Plan.exact(N, P, 5), covariates=Z).scores
    np.testing.assert_allclose(scores, partial(X.astype("f4").astype(float), y, Z), atol=1e-5)


def test_estimators_take_covariates():
    for selector in (SIS(3), BanditSIS(3, random_state=0)):
        assert selector.fit(X, Y, covariates=Z).get_support()[4]
        assert selector.result_.parameters["covariates"] == 3


def test_detection_floor_and_interval_count_the_covariates():
    x, y = rng.standard_normal((5000, 60)), rng.standard_normal(5000)
    plan = Plan.subsample(5000, 60, 5, 500)
    result = screen(x, y, plan, covariates=x[:, :3] + 1, random_state=0)
    plain = screen(x, y, plan, random_state=0)
    assert 0.9 < result.evidence.variance_inflation < 1.2
    assert result.detection_floor() == pytest.approx(plain.detection_floor(), abs=0.02)
    assert (np.diff(result.interval()) > 2 * 1.95 / np.sqrt(500) * 0.95).all()


CLASSES = {"y": LABELS, "statistic": "anova", "covariates": LABELS[:, None] == ["a", "b"]}
INVALID = [
    ({"covariates": np.where(Z > 2, np.nan, Z)}, r"covariates contain NaN in row \d+, col"),
    ({"covariates": Z[:-1]}, r"covariates must have shape \(400,\) or \(400, k\)"),
    ({"covariates": scipy.sparse.csr_array(Z)}, r"pass covariates\.toarray\(\)"),
    ({"covariates": np.column_stack([Z, Y])}, "response is a linear combination of the cov"),
    ({"statistic": "kendall"}, "'kendall' does not support covariates"),
    ({"keep": Plan.subsample(N, P, 5, 5)}, "5 rows are read first, .* 3 covariates need 6 or more"),
    ({"keep": Plan.guaranteed(N, P, 5, 0.3)}, "guaranteed with no covariates"),
    (CLASSES, "classes of the response are linear combinations of the covariates"),
]


@pytest.mark.parametrize(("options", "message"), INVALID)
def test_invalid_covariates(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        screen(X, **{"y": Y, "keep": Plan.exact(N, P, 5), "covariates": Z, **options})
