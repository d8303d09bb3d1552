"""Effect sizes and standard errors: those of statsmodels, in the units of the data."""

import numpy as np
import pytest
import scipy.sparse
import statsmodels.api as sm
from scipy.special import expit
from scipy.stats import norm
from statsmodels.duration.hazard_regression import PHReg

from banditsis import SIS, Plan, screen

rng = np.random.default_rng(0)
N, P = 600, 6
X = 3.0 * rng.standard_normal((N, P)) + 10
Z = rng.standard_normal((N, 2)) + 0.1 * X[:, :2]
W = rng.uniform(0.2, 3.0, N)
GAPS = np.where(rng.random(X.shape) < 0.2, np.nan, X)
Y = 1000 + 5 * X[:, 2] + 3 * Z[:, 0] + 20 * rng.standard_normal(N)
EVENTS = np.column_stack([rng.exponential(np.exp(-0.1 * X[:, 2] + 0.2 * Z[:, 0])), rng.random(N) < 0.7])
CASE = rng.random(N) < 1 / (1 + np.exp(2 - 0.1 * X[:, 2] - 0.3 * Z[:, 0]))
COUNTS = rng.poisson(np.exp(0.05 * X[:, 2] + 0.2 * Z[:, 0]))
EXACT = Plan.exact(N, P, P)
CASES = {"plain": (X, None, None), "covariates": (X, Z, None), "weights": (X, None, W), "both": (X, Z, W)}
CASES |= {f"{name}, missing cells": (GAPS, *others) for name, (_, *others) in CASES.items()}
any_case = pytest.mark.parametrize(("cells", "covariates", "weights"), CASES.values(), ids=CASES)


def run(cells, y, covariates=None, weights=None, plan=EXACT, **options):
    missing = "pairwise" if np.isnan(cells).any() else "raise"
    return screen(cells, y, plan, covariates=covariates, sample_weight=weights, missing=missing, **options)


def designs(result, cells, covariates):
    """For each selected feature: its beta and se, the rows in which it is present, and the design there."""
    for k, beta, se in zip(result.selected, *result.effects, strict=True):
        rows = np.isfinite(cells[:, k])
        columns = [np.ones(rows.sum()), *([] if covariates is None else covariates[rows].T)]
        yield beta, se, rows, np.column_stack([cells[rows, k], *columns])


@any_case
def test_differences_of_two_classes(cells, covariates, weights):
    """The slope of the feature on the indicator of the second class."""
    labels = np.where(CASE, "yes", "no")
    result = run(cells, labels, covariates, weights, statistic="anova")
    both = np.column_stack([labels, rng.integers(0, 3, N).astype("U3")])
    several = run(cells, both, covariates, weights, statistic="anova")
    np.testing.assert_allclose(several[0].effects, result.effects, rtol=1e-9)
    assert several[1].effects is None  # three classes
    for beta, se, rows, design in designs(result, cells, covariates):
        x, others = design[:, 0], np.column_stack([CASE[rows], design[:, 1:]]).astype(float)
        fit = sm.WLS(x, others, weights=1.0 if weights is None else weights[rows]).fit()
        np.testing.assert_allclose([beta, se], [fit.params[0], fit.bse[0]], rtol=1e-8)


@any_case
@pytest.mark.parametrize("statistic", ["logistic", "poisson", "cox"])
def test_log_ratios_are_one_newton_step(statistic, cells, covariates, weights):
    """β / se is the z of the test, and β is close to that of the fitted model if the effect is small."""
    y = {"logistic": CASE, "poisson": COUNTS, "cox": EVENTS}[statistic]
    result = run(cells, y, covariates, weights, statistic=statistic)
    beta, se = result.effects
    np.testing.assert_allclose(2 * norm.sf(np.abs(beta / se)), usual_pvalues(result), rtol=1e-9)
    for beta, se, rows, design in designs(result, cells, covariates):
        if statistic == "cox":
            if weights is not None:  # which statsmodels does not have
                continue
            fit = PHReg(y[rows, 0], np.delete(design, 1, axis=1), status=y[rows, 1]).fit()
        else:
            w = None if weights is None else weights[rows] / weights[rows].mean()
            family = sm.families.Binomial() if statistic == "logistic" else sm.families.Poisson()
            fit = sm.GLM(y[rows].astype(float), design, family=family, var_weights=w)
            fit = fit.fit(scale="X2" if statistic == "poisson" else None)
        np.testing.assert_allclose(beta, fit.params[0], atol=0.15 * fit.bse[0], rtol=0.1)
        np.testing.assert_allclose(se, fit.bse[0], rtol=0.15)


def usual_pvalues(result):
    """P-values of the selected features before they are corrected for skewed data."""
    null = result.evidence.null_distribution
    return 10 ** getattr(null, "usual", null).log10_pvalues(result.scores)[result.selected]


@pytest.mark.parametrize(("effect", "tolerance"), [(0.25, 0.1), (0.5, 0.2), (1.0, 0.35)])
def test_accuracy_of_one_step_for_genotypes(effect, tolerance):
    """As docs/statistics.md states it."""
    rng, n = np.random.default_rng(0), 20_000
    x = rng.binomial(2, 0.2, (n, 1)) * 1.0
    predictor, design = effect * x[:, 0], sm.add_constant(x)
    common, rare = ((rng.random(n) < expit(a + predictor)) * 1.0 for a in (-effect * 0.4, -3.0))
    counts = rng.poisson(np.exp(predictor))
    times, censored = rng.exponential(np.exp(-predictor)), rng.exponential(2.0, n)
    survival = np.column_stack([np.minimum(times, censored), times <= censored])
    for y, statistic, model in (
        (common, "logistic", sm.Logit(common, design)),
        (rare, "logistic", sm.Logit(rare, design)),
        (counts, "poisson", sm.GLM(counts, design, family=sm.families.Poisson())),
        (survival, "cox", PHReg(survival[:, 0], x, status=survival[:, 1])),
    ):
        fitted = model.fit(disp=False).params[-1]
        (beta,), _ = screen(x, y, Plan.exact(n, 1, 1), statistic=statistic).effects
        assert abs(beta - fitted) <= tolerance * max(abs(fitted), effect)


@pytest.mark.parametrize("source", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_array])
@pytest.mark.parametrize("power", [-30, 30])
def test_units_of_very_large_and_small_features(source, power):
    """Columns beyond 2⁴⁰ are scaled before they are summed, in float32."""
    cells = source((X * 10.0**power).astype("f4"))
    effects = np.array(screen(cells, Y, EXACT, random_state=0).effects)
    np.testing.assert_allclose(effects * 10.0**power, screen(X, Y, EXACT).effects, rtol=1e-3)
    time = screen(cells.toarray() if scipy.sparse.issparse(cells) else cells, EVENTS, EXACT, statistic="cox")
    expected = screen(X, EVENTS, EXACT, statistic="cox").effects
    np.testing.assert_allclose(time.effects.beta * 10.0**power, expected.beta, rtol=1e-3)


def test_features_without_an_effect_size():
    cells = X.copy()
    cells[:, 0], cells[:, 1] = 7.0, np.where(np.arange(N) < 5, X[:, 1], np.nan)
    for y, statistic in ((Y, "pearson"), (CASE, "anova"), (CASE, "logistic"), (EVENTS, "cox")):
        result = run(cells, y, statistic=statistic)
        unknown = np.isin(result.selected, [0, 1])
        for values in result.effects:
            np.testing.assert_array_equal(np.isnan(values), unknown)


@pytest.mark.parametrize(("statistic", "y"), [("pearson", Y), ("logistic", CASE), ("cox", EVENTS)])
@pytest.mark.parametrize("covariates", [None, Z], ids=["plain", "covariates"])
def test_adaptive_runs_have_the_effects_of_the_rows_read(statistic, y, covariates):
    plan = Plan(N, P, ((200, 4), (300, 2)))
    options = {"covariates": covariates, "statistic": statistic, "random_state": 0}
    adaptive, exact = screen(X, y, plan, pvalues=True, **options), screen(X, y, EXACT, **options)
    places = [exact.selected.tolist().index(k) for k in adaptive.selected]
    np.testing.assert_allclose(adaptive.effects, exact.effects.take(places), rtol=1e-9)
    if statistic == "pearson" and covariates is None:
        result = screen(X, Y, plan, random_state=0, sampling="uniform")
        r, (beta, se) = result.scores[result.selected], result.effects
        np.testing.assert_allclose(beta / se, r * np.sqrt(298 / (1 - r**2)), rtol=1e-9)


def test_stratified_samples_have_no_standard_error():
    """Their slopes are close to those of all rows: they are weighted by the strata."""
    rare = (rng.random(20_000) < 0.02) * 1.0
    cells = rng.standard_normal((20_000, 20)) + 2 * rare[:, None] * (np.arange(20) < 2)
    result = screen(cells, rare, 2, alpha=0.5, sampling="stratified", random_state=0)
    exact = screen(cells, rare, Plan.exact(20_000, 20, 20))
    places = [exact.selected.tolist().index(k) for k in result.selected]
    np.testing.assert_allclose(result.effects.beta, exact.effects.beta[places], rtol=0.3)
    assert np.isnan(result.effects.se).all()
    assert not np.isnan(exact.effects.se).any()


def test_tables_and_json():
    result = screen(np.where(np.arange(P) == 0, 7.0, X), Y, EXACT)  # the first has no slope
    np.testing.assert_array_equal(result.to_frame()[["beta", "se"]].to_numpy().T, result.effects)
    everything = screen(X, Y, Plan.exact(N, P, 2)).to_frame(all_features=True)
    assert everything["beta"].notna().tolist() == [True] * 2 + [False] * 4
    assert "NaN" not in result.to_json()
    assert "beta" not in screen(X, Y, EXACT, statistic="spearman").to_frame()


def test_effects_of_features_that_are_chosen_in_a_second_stage():
    """They are those of the chosen features, in the order chosen."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 250))
    X[:, 10:14] = X[:, :1] + 0.3 * rng.standard_normal((800, 4))
    y = 2 * X[:, 0] + X[:, 1] + rng.standard_normal(800)
    result = SIS(4, avoid_redundancy=True).fit(X, y).result_
    slopes = [np.polyfit(X[:, k], y, 1)[0] for k in result.selected]
    np.testing.assert_allclose(result.effects.beta, slopes, rtol=1e-9)
