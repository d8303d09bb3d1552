"""P-values: equal to SciPy's, accurate in the far tail, valid after selection, uniform under the null."""

import json

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import betaln
from statsmodels.stats.multitest import multipletests

from banditsis import SIS, BanditSIS, Plan, screen
from banditsis.plans import make_plan
from banditsis.statistics.null_distributions import BetaNull, NormalNull

rng = np.random.default_rng(5)
N, P = 150, 40
X = rng.standard_normal((N, P))
X[:, 9] = 3.0
Y = X[:, 3] - 0.4 * X[:, 7] + rng.standard_normal(N)


def exact(x=X, y=Y, **options):
    return screen(x, y, Plan.exact(*x.shape, 8), **options)


def adjusted_pvalues(result):
    """In the order of the features."""
    return result.to_frame(all_features=True).sort_values("index")["adjusted_pvalue"].to_numpy()


def test_a_class_in_which_a_feature_was_not_seen_does_not_count():
    labels = np.digitize(Y, [-1.0, 1.0])
    without = np.where((labels == 2)[:, None], np.nan, X)
    result = exact(without, labels, statistic="anova", missing="pairwise")
    two = [X[c == labels, 7] for c in range(2)]
    assert result.pvalues[7] == pytest.approx(stats.f_oneway(*two).pvalue, rel=1e-9)
    assert result.pvalues[9] == exact().pvalues[9] == 1  # constant


def log10_tail(share, a, b):
    """The incomplete beta function as a power times an integral of moderate size."""
    x = 1 - share
    rest, _ = quad(lambda t: np.exp(-t) * (1 - x * np.exp(-t / a)) ** (b - 1) / a, 0, np.inf, epsabs=0)
    return (a * np.log1p(-share) - betaln(a, b) + np.log(rest)) / np.log(10)


@pytest.mark.parametrize("between", [1.0, 2.0, 7.0])
@pytest.mark.parametrize("residual", [50.0, 1e3, 1e6])
def test_beta_null_in_the_far_tail(residual, between):
    scores = np.array([0.3, 0.7, 0.9, 0.99, 0.999999])
    found = BetaNull(residual, between).log10_pvalues(scores)
    expected = [log10_tail(s * s, residual / 2, between / 2) for s in scores]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert residual < 1e6 or found[-1] < -2e6


@pytest.mark.parametrize("residual", [20.0, 1e3, 1e6])
def test_beta_null_at_every_level(residual):
    """From p = 1 - 1e-10 to far below the smallest number; with b = 2 and 4 there are closed forms."""
    share, a = -np.expm1(-np.geomspace(1e-10, 1e4, 500) * 2 / residual), residual / 2
    share = np.sqrt(share[share < 1]) ** 2  # as rounded
    forms = {2.0: a * np.log1p(-share), 4.0: a * np.log1p(-share) + np.log1p(a * share)}
    found = {b: BetaNull(residual, b).log10_pvalues(np.sqrt(share)) * np.log(10) for b in forms}
    np.testing.assert_allclose(found[2.0], forms[2.0], rtol=1e-9)
    moderate = a * share > 1e-3  # the terms of the other form cancel for smaller ones
    np.testing.assert_allclose(found[4.0][moderate], forms[4.0][moderate], rtol=1e-9)


def test_null_distributions_at_extreme_scores():
    assert BetaNull(10.0).log10_pvalues(np.array([0.0, 1.0, np.nan]))[:2].tolist() == [0, -np.inf]
    assert BetaNull(0.0).log10_pvalues(np.array([1.0]))[0] == 0
    assert NormalNull(1.0).log10_pvalues(np.array([0.0]))[0] == 0
    z = 150.0
    log10 = (np.log(2 / (z * np.sqrt(2 * np.pi))) - z * z / 2 + np.log1p(-1 / z**2 + 3 / z**4)) / np.log(10)
    assert NormalNull(z).log10_pvalues(np.array([-1.0]))[0] == pytest.approx(log10, rel=1e-10)


@pytest.mark.parametrize("fdr", [0.01, 0.05, 0.5])
@pytest.mark.parametrize("method", ["bh", "by", "holm", "bonferroni"])
def test_multiple_testing_correction(method, fdr):
    x = rng.standard_normal((200, 500))
    y = x[:, :6] @ [1, 0.8, 0.6, 0.4, 0.3, 0.2] + rng.standard_normal(200)
    result = screen(x, y, Plan.exact(200, 500, 10))
    kept = result.select(fdr, method)
    theirs = multipletests(result.pvalues, fdr, {"bh": "fdr_bh", "by": "fdr_by"}.get(method, method))[0]
    np.testing.assert_array_equal(np.sort(kept), np.flatnonzero(theirs))
    if method == "bh":
        adjusted = stats.false_discovery_control(result.pvalues)
        np.testing.assert_allclose(adjusted_pvalues(result), adjusted, rtol=1e-9)
    assert (np.diff(result.pvalues[kept]) >= 0).all()


@pytest.mark.parametrize("statistic", ["pearson", "logistic", "cox", "spearman", "kendall", "chatterjee"])
def test_adaptive_runs_read_the_survivors_in_full(statistic):
    x = rng.standard_normal((3000, 80))
    y = x[:, 11] + rng.standard_normal(3000)
    y = {"logistic": y > 0, "cox": np.column_stack([np.exp(-y), y > -1])}.get(statistic, y)
    plan = Plan.paper(3000, 80, 4)
    plain = screen(x, y, plan, statistic=statistic, random_state=3)
    with pytest.raises(ValueError, match=r"p-values were not computed: .* selected by 604 of 3,000 rows"):
        _ = plain.pvalues
    result = screen(x, y, plan, statistic=statistic, pvalues=True, random_state=3)
    chosen = result.selected
    assert set(chosen) == set(plain.selected)
    full = screen(x, y, Plan.exact(3000, 80, 4), statistic=statistic, pvalues=True)
    np.testing.assert_allclose(result.scores[chosen], full.scores[chosen], atol=1e-12)
    np.testing.assert_allclose(result.pvalues[chosen], full.pvalues[chosen], rtol=1e-6)
    assert np.isnan(np.delete(result.pvalues, chosen)).all()
    expected = stats.false_discovery_control(np.nan_to_num(result.pvalues, nan=1.0))  # dropped ones count
    expected[np.isnan(result.pvalues)] = np.nan
    np.testing.assert_allclose(adjusted_pvalues(result), expected, rtol=1e-9)
    assert result.rounds[-1].cells == 3000 * 4
    assert "selected from 80" in str(result)
    bonferroni = result.select(0.05, "bonferroni")  # all features count
    assert {11} <= set(bonferroni) == {k for k in chosen if full.log10_pvalues[k] <= np.log10(0.05 / 80)}


def test_a_budget_pays_for_the_last_pass():
    x = rng.standard_normal((2000, 100))
    y = x[:, 4] + rng.standard_normal(2000)
    for budget, statistic in ((0.1, "pearson"), (20_000, "kendall")):
        options = {"rereads": statistic == "kendall", "pvalues": True}
        plan = Plan.optimal(2000, 100, 4, budget, **options)
        result = screen(x, y, plan, statistic=statistic, pvalues=True, random_state=0)
        assert result.cells_read <= 20_000
        assert result.rounds[-1].cells == 8000
        assert result.select()[0] == 4
        assert make_plan(2000, 100, 4, budget=budget, **options) == plan
    with pytest.raises(ValueError, match=r"0.04 allows 8,000 cells, .* 8,400"):
        BanditSIS(4, budget=0.04, pvalues=True).fit(x, y)
    assert Plan.optimal(2000, 100, 60, 1.0, pvalues=True) == Plan.exact(2000, 100, 60)


def test_unknown_null_distribution_and_bad_arguments():
    for estimator in (SIS, BanditSIS):
        with pytest.raises(ValueError, match=r"null .*'distance' is not known"):
            estimator(3, statistic="distance", pvalues=True).fit(X, Y)
    told = []  # raised before any work
    with pytest.raises(ValueError, match="omit the p-values"):
        exact(statistic="information_value", pvalues=True, progress=lambda *cells: told.append(cells))
    assert not told
    with pytest.raises(ValueError, match=r"no p-values: the null .*'distance' is not known"):
        _ = exact(statistic="distance").pvalues
    for bad, message in (
        ({"method": "sidak"}, "'bonferroni', got 'sidak'"),
        ({"fdr": 1}, r"in \(0, 1\), got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            exact().select(**bad)


@pytest.mark.parametrize("adaptive", [False, True])
def test_frames_and_json_carry_pvalues(adaptive):
    y = np.where(np.arange(N) < 3, 1e-9, 0) + X[:, 3]  # one p-value that is 0
    plan = Plan.paper(N, P, 5) if adaptive else Plan.exact(N, P, 5)
    result = screen(X, y, plan, pvalues=True, random_state=0)
    frame = result.to_frame(all_features=True)
    np.testing.assert_array_equal(frame["pvalue"], result.pvalues[frame["index"]])
    json.loads(result.to_json(), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert "pvalue" not in screen(X, y, Plan.paper(N, P, 5), random_state=0).to_frame()


@pytest.mark.parametrize("statistic", ["pearson", "kendall"])
def test_rounds_that_read_every_row_before_the_last(statistic):
    """P-values are those of the features of the last round; others have none."""
    x = np.random.default_rng(0).standard_normal((20, 300))
    x[3, 5] = np.nan
    selector = BanditSIS(3, alpha=0.1, missing="pairwise", statistic=statistic, random_state=0)
    result = selector.fit(x, x[:, 0]).result_
    assert sum(r.n_rows == 20 for r in result.rounds) > 1
    known = ~np.isnan(result.pvalues)
    np.testing.assert_array_equal(known, result.last_round == len(result.rounds) - 1)
    full = screen(x, x[:, 0], Plan.exact(20, 300, 3), missing="pairwise", statistic=statistic)
    np.testing.assert_allclose(result.pvalues[known], full.pvalues[known], rtol=1e-9)
    assert "pvalue" in result.to_frame(all_features=True)
    assert "log10_pvalue" in result.to_json()
    assert result.to_html()


RANKS = ["spearman", "kendall", "chatterjee"]


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("statistic", ["pearson", "anova", "logistic", "poisson", "cox", *RANKS])
def test_uniform_under_the_null(statistic, given):
    generator = np.random.default_rng(17)
    n, p = 1500, 1000
    x, z = generator.standard_normal((n, p)), generator.standard_normal((n, 2))
    predictor = 0.5 * z[:, 0]
    y = {
        "pearson": predictor + generator.standard_normal(n),
        "anova": np.digitize(predictor + generator.standard_normal(n), [-0.5, 0.5]),
        "logistic": generator.random(n) < 1 / (1 + np.exp(-predictor)),
        "poisson": generator.poisson(np.exp(predictor)) if given else generator.poisson(1.0, n),
        "cox": np.column_stack([generator.exponential(np.exp(-predictor)), generator.random(n) < 0.7]),
    }.get(statistic, generator.standard_normal(n))
    covariates = z if given and statistic not in RANKS else None
    result = screen(x, y, Plan.exact(n, p, 5), statistic=statistic, covariates=covariates, pvalues=True)
    assert stats.kstest(result.pvalues, "uniform").pvalue > 0.01 / 16  # there are so many such tests
