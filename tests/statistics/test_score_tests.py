"""Score tests of generalised linear models and of Cox's model, against statsmodels."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import special

from banditsis import SIS, BanditSIS, Plan, screen

rng = np.random.default_rng(11)
N, P = 300, 12
Z = rng.standard_normal((N, 2)) * [1, 100] + [0, 1e4]
X = rng.standard_normal((N, P)) + 0.3 * Z[:, [0]]
X[:, 5] = rng.integers(0, 3, N)
PREDICTOR = 0.4 * X[:, 1] + 0.5 * Z[:, 0]
BINARY = rng.random(N) < 1 / (1 + np.exp(-PREDICTOR))
COUNTS = rng.poisson(np.exp(PREDICTOR))
TIMES = np.ceil(20 * rng.exponential(np.exp(-PREDICTOR)))  # with ties
EVENTS = rng.random(N) < 0.7
SURVIVAL = np.column_stack([TIMES, EVENTS])
GIVEN = {"alone": None, "covariates": Z}


def exact(y, statistic, given=None, x=X, **options):
    return screen(x, y, Plan.exact(*x.shape, 3), statistic=statistic, covariates=given, **options)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("statistic", ["logistic", "poisson"])
def test_glm_score_tests(statistic, given):
    y, family = (
        (BINARY, sm.families.Binomial()) if statistic == "logistic" else (COUNTS, sm.families.Poisson())
    )
    z = np.empty((N, 0)) if given == "alone" else (Z - Z.mean(axis=0)) / Z.std(axis=0)
    fitted = sm.GLM(y, np.column_stack([np.ones(N), z]), family=family).fit(tol=1e-14)
    theirs = [fitted.score_test(exog_extra=X[:, [j]]) for j in range(P)]
    chi2, pvalues = np.array([[float(np.squeeze(part)) for part in test[:2]] for test in theirs]).T
    result, signs = exact(y, statistic, GIVEN[given]), np.sign(X.T @ (y - fitted.mu))
    np.testing.assert_allclose(result.scores, signs * np.sqrt(chi2 / N), atol=1e-9)
    if statistic == "logistic":  # counts are divided by their dispersion: test_saddlepoint.py
        np.testing.assert_allclose(result.pvalues, pvalues, rtol=1e-7)


@pytest.mark.parametrize("given", GIVEN)
def test_cox_score_test(given):
    z = np.empty((N, 0)) if given == "alone" else (Z - Z.mean(axis=0)) / Z.std(axis=0)
    result = exact(SURVIVAL, "cox", GIVEN[given])
    beta = sm.PHReg(TIMES, z, EVENTS, ties="breslow").fit().params if z.size else np.empty(0)
    at = np.concatenate([[0.0], beta])
    for j in range(P):
        model = sm.PHReg(TIMES, np.column_stack([X[:, j], z]), EVENTS, ties="breslow")
        slope, information = model.score(at), -model.hessian(at)
        rest = np.linalg.solve(information[1:, 1:], information[1:, :1]) if z.size else np.empty((0, 1))
        variance = information[0, 0] - (information[:1, 1:] @ rest).sum()
        assert result.scores[j] == pytest.approx(slope[0] / np.sqrt(variance * N), abs=1e-9)


@pytest.mark.parametrize("statistic", ["logistic", "poisson", "cox", "cox alone"])
def test_skewed_or_rare_features_are_not_found_by_chance(statistic):
    """The score test alone finds features in half of the data sets, as its variance rests on few rows."""
    found, (n, p) = 0, (1000, 300) if statistic == "poisson" else (100, 1000)
    for seed in range(30):
        draw = np.random.default_rng(seed)
        z = draw.standard_normal((n, 1))
        x = np.exp(z + draw.standard_normal((n, p)))
        if statistic == "logistic":
            y = draw.random(n) < 1 / (1 + np.exp(-z[:, 0]))
        elif statistic == "poisson":
            x = (0.8 * z + 0.6 * draw.standard_normal((n, p)) > 1.5) * 1.0
            y = draw.poisson(0.05 * np.exp(-1.5 * z[:, 0]))
        else:
            x = x if statistic == "cox" else x / np.exp(z)  # no association without the covariate either
            time, censoring = draw.exponential(np.exp(-z[:, 0])), draw.exponential(size=n)
            y = np.column_stack([np.minimum(time, censoring), time <= censoring])
        given = None if statistic == "cox alone" else z
        found += exact(y, statistic.split()[0], given, x, pvalues=True).select(0.05).size > 0
    assert found <= 3  # half of that is expected at most


@pytest.mark.parametrize("statistic", ["logistic", "poisson"])
def test_pvalues_with_covariates_are_those_of_responses_drawn_from_the_null_model(statistic):
    """Those of skewed features that depend on the covariate."""
    draw = np.random.default_rng(3)
    z = draw.standard_normal((400, 1))
    x, predictor = np.exp(0.5 * z + draw.standard_normal((400, 30))), 0.8 * z[:, 0] - 0.5
    family, mean, draw_responses = {
        "logistic": (sm.families.Binomial(), special.expit, lambda m, shape: draw.binomial(1, m, shape)),
        "poisson": (sm.families.Poisson(), np.exp, draw.poisson),
    }[statistic]
    y, A = draw_responses(mean(predictor), 400), sm.add_constant(z)
    fitted = sm.GLM(y, A, family=family).fit()
    v = family.variance(fitted.mu)
    g = x - A @ np.linalg.solve(A.T @ (A * v[:, None]), A.T @ (v[:, None] * x))
    null = np.abs((draw_responses(fitted.mu, (40_000, 400)) - fitted.mu) @ g)
    expected = np.log10((null >= np.abs((y - fitted.mu) @ g)).mean(axis=0))
    result = exact(y, statistic, z, x, pvalues=True)
    small = expected < -0.5  # others are not checked
    np.testing.assert_allclose(result.log10_pvalues[small], expected[small], rtol=0.1, atol=0.06)
    assert expected.min() < -1.5


def test_few_events_give_no_pvalues():
    draw = np.random.default_rng(0)
    z, x, time = draw.standard_normal((60, 2)), draw.standard_normal((60, 20)), draw.exponential(size=60)
    survival = np.column_stack([time, np.arange(60) < 39])
    for statistic, n_events in (("cox", 39), ("logistic", 21), ("poisson", 39)):
        y = survival if statistic == "cox" else survival[:, 1]
        result = exact(y, statistic, z, x, pvalues=True)
        note = f"no p-values: there are {n_events} events, and small p-values given 2 covariates need 40"
        assert note in " ".join(result.notes)
        assert np.isnan(result.pvalues).all()
        assert result.associated is None
        assert np.isfinite(exact(y, statistic, None, x, pvalues=True).pvalues).all()
    enough = np.column_stack([time, np.arange(60) < 40])
    assert np.isfinite(exact(enough, "cox", z, x, pvalues=True).pvalues).all()


def test_cox_of_two_groups_is_the_log_rank_test():
    group = (X[:, [0]] > 0).astype(float)
    untied = TIMES + rng.random(N)
    chi2, p = sm.duration.survdiff(untied, EVENTS, group[:, 0])
    result = exact(np.column_stack([untied, EVENTS]), "cox", x=group.repeat(3, axis=1))
    assert N * result.scores[0] ** 2 == pytest.approx(chi2, rel=1e-9)
    assert result.pvalues[0] == pytest.approx(p, rel=1e-7)


def test_forms_of_survival():
    expected = exact(SURVIVAL, "cox").scores
    fields = np.rec.fromarrays([TIMES, EVENTS], names="time, event").view(np.ndarray)
    for y in (fields, fields[["event", "time"]], pd.DataFrame({"t": TIMES, "e": EVENTS})):
        np.testing.assert_array_equal(exact(y, "cox").scores, expected)
        np.testing.assert_array_equal(SIS(3, statistic="cox").fit(X, y).scores_, expected)


def test_labels_of_two_classes():
    """The label that sorts last counts as 1."""
    expected = exact(BINARY, "logistic", Z).scores
    for y in (np.where(BINARY, "yes", "no"), np.where(BINARY, 2, 1)):
        np.testing.assert_array_equal(exact(y, "logistic", Z).scores, expected)
        plain = exact(BINARY * 1.0, "pearson").scores
        np.testing.assert_allclose(exact(y, "logistic").scores, plain, atol=1e-14)
    np.testing.assert_allclose(exact(~BINARY, "logistic", Z).scores, -expected, atol=1e-10)


def test_adaptive_runs_project_the_rows_read():
    """Over part of the rows the null model of all rows is put right by one projection."""
    wide, z = rng.standard_normal((4000, 60)), rng.standard_normal(4000)
    y, options = rng.random(4000) < special.expit(wide[:, 7] + z), {"statistic": "logistic", "covariates": z}
    assert screen(wide, y, Plan.paper(4000, 60, 3), random_state=0, **options).selected[0] == 7
    part = screen(wide, y, Plan.subsample(4000, 60, 3, 900), row_order="stored", **options)
    alone = exact(y[:900], "logistic", z[:900], x=wide[:900])
    np.testing.assert_allclose(part.scores, alone.scores, rtol=0.05, atol=1e-3)
    times = np.column_stack([rng.exponential(np.exp(-wide[:, 7])), np.ones(4000)])
    assert BanditSIS(3, statistic="cox", random_state=0).fit(wide, times).result_.selected[0] == 7


SEPARATED = BINARY + 0.0
LEVEL = np.where(COUNTS == 0, np.arange(N) % 2, 0)  # only zeros in one level
BAD = {
    "three classes": (np.arange(N) % 3, "logistic", None, "'logistic' needs two classes, got 3: 0, 1, 2"),
    "separation": (BINARY, "logistic", SEPARATED, "separate the two classes perfectly"),
    "nearly": (BINARY, "logistic", BINARY * rng.random(N), "separate the two classes perfectly"),
    "negative": (COUNTS - 1, "poisson", None, "needs counts, 0, 1, 2, …, got -1 in row"),
    "fractions": (COUNTS / 2, "poisson", None, "needs counts, 0, 1, 2, …, got 0.5 in row"),
    "words": (np.where(BINARY, "a", "b"), "poisson", None, "needs counts, got labels"),
    "only zeros": (COUNTS, "poisson", LEVEL, "all counts are 0"),
    "one column": (TIMES, "cox", None, r"needs two columns, time and event \(0 or 1\)"),
    "events": (np.column_stack([EVENTS, TIMES]), "cox", None, "events that are 0 .* in the second column"),
    "times": (np.column_stack([-TIMES, EVENTS]), "cox", None, "needs times of 0 or more, got -"),
    "no events": (np.column_stack([TIMES, 0 * TIMES]), "cox", None, "have no events"),
    "all censored": (np.column_stack([TIMES, 0 * TIMES]), "cox", None, r"^all 300 rows .* event\)\.$"),
    "no time": (np.column_stack([np.where(TIMES > 9, np.nan, TIMES), EVENTS]), "cox", None, "replace it.$"),
    "constant": (np.ones(N), "pearson", None, r"constant, 1\.0, in all 300 rows, .* the response\.$"),
    "ranks": (np.ones(N), "kendall", None, r"constant, 1.0, in all 300 rows, .* the response\.$"),
    "constant counts": (np.full(N, 3), "poisson", Z, "the response is constant, 3, in all 300 rows"),
    "many": (COUNTS, "pearson", np.eye(N), r"300 rows are known, .* 299 .*: use fewer covariates\.$"),
    "monotone": (SURVIVAL[:, ::1] * [1, 1], "cox", -TIMES * 50, "does not converge on 300 rows"),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_responses(case):
    y, statistic, given, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        exact(y, statistic, given)
    if statistic == "cox" and given is None:
        with pytest.raises(ValueError, match=message):
            SIS(statistic="cox", missing="pairwise").fit(X, y)


def test_cox_needs_numbers():
    words = np.where(EVENTS, "dead", "alive")
    mixed = np.column_stack([TIMES.astype(object), words])
    fields = np.rec.fromarrays([TIMES, words], names="time, event").view(np.ndarray)
    for y in (mixed, mixed.astype(str), fields, pd.DataFrame(mixed)):
        with pytest.raises(TypeError, match=r"'cox' needs times and events as numbers, got '(alive|dead)'"):
            exact(y, "cox")


def test_cox_of_a_feature_that_is_present_without_events_scores_zero():
    x = X.copy()
    x[EVENTS, 3] = np.nan
    result = exact(SURVIVAL, "cox", x=x, missing="pairwise")
    assert (result.scores[3], result.pvalues[3]) == (0, 1)
    np.testing.assert_array_equal(np.delete(result.scores, 3), np.delete(exact(SURVIVAL, "cox").scores, 3))


@pytest.mark.parametrize("given", GIVEN)
def test_cox_at_any_magnitude(given):
    expected = exact(SURVIVAL, "cox", GIVEN[given]).scores
    for scale in (2.0**540, 2.0**-560, 2.0**1015):
        np.testing.assert_array_equal(exact(SURVIVAL, "cox", GIVEN[given], x=X * scale).scores, expected)
