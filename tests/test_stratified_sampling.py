"""Stratified sampling: right for every statistic and source, better for rare classes, and stated honestly."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from banditsis import BanditSIS, Plan, ScreeningResult, screen
from banditsis.statistics import STATISTICS
from banditsis.statistics.base import SampleStatistic

N, P = 3000, 12
MOMENTS = ("pearson", "anova", "logistic", "poisson", "cox")


def make(statistic, seed=0, n=N):
    """Features and a response for a statistic: rare classes, counts, censored times."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, P)) + 3.0
    signal = 0.5 * (X[:, 0] - 3) - 0.3 * (X[:, 1] - 3)
    if statistic == "pearson":
        return X, np.exp(signal + rng.standard_normal(n))
    if statistic == "anova":
        return X, np.digitize(signal + rng.logistic(size=n), [2.0, 4.0])
    if statistic == "logistic":
        return X, np.where(signal + rng.logistic(size=n) > 3.5, "yes", "no")
    if statistic == "poisson":
        return X, rng.poisson(np.exp(signal - 2))
    time, censored = rng.exponential(np.exp(-signal)), rng.exponential(0.1, n)
    return X, np.column_stack([np.minimum(time, censored), time < censored])


def sampled(X, y, rows, seed, **options):
    plan = Plan(*X.shape, ((rows, X.shape[1]),))
    return screen(X, y, plan, sampling="stratified", random_state=seed, progress=False, **options)


@pytest.mark.parametrize("covariates", [False, True])
@pytest.mark.parametrize("statistic", MOMENTS)
def test_scores_estimate_those_over_all_rows(statistic, covariates):
    """Weights undo the design: the mean error over many samples is far below that of one sample."""
    X, y = make(statistic)
    given = {"covariates": X[:, 2] + np.random.default_rng(9).standard_normal(N)} if covariates else {}
    exact = screen(X, y, Plan.exact(N, P, P), statistic=statistic, **given).scores
    results = [sampled(X, y, 400, seed, statistic=statistic, **given) for seed in range(60)]
    assert all(result.parameters["sampling"] == "stratified" for result in results)
    scores = np.array([result.scores for result in results])
    error = scores.std(axis=0) / np.sqrt(len(scores))
    bias = np.abs(scores.mean(axis=0) - exact)
    compared = slice(0, 2 if statistic == "anova" else P)  # η is never negative, so noise biases it
    assert (bias < 4 * error + 0.02 * exact.max())[compared].all()  # a ratio has a bias of order 1 / rows


@pytest.mark.parametrize("covariates", [False, True])
@pytest.mark.parametrize("statistic", MOMENTS)
def test_all_rows_give_the_scores_of_sis(statistic, covariates):
    X, y = make(statistic)
    given = {"covariates": X[:, 2] ** 2} if covariates else {}
    exact = screen(X, y, Plan.exact(N, P, P), statistic=statistic, **given)
    plan, given = Plan(N, P, ((300, P), (N, P))), {**given, "sampling": "stratified", "random_state": 0}
    result = screen(X, y, plan, statistic=statistic, **given)
    assert result.parameters["sampling"] == "stratified"
    np.testing.assert_allclose(result.scores, exact.scores, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.log10_pvalues, exact.log10_pvalues, rtol=1e-9, atol=1e-12)
    one_thread = screen(X, y, plan, statistic=statistic, n_jobs=1, **given)
    np.testing.assert_array_equal(one_thread.scores, result.scores)


@pytest.mark.parametrize("statistic", ["pearson", "anova", "logistic", "cox"])
def test_a_rare_class_is_found_with_few_rows(statistic):
    """100 ones in 200,000 rows: uniform samples of the same size hold one of them, or none."""
    n, rng = 200_000, np.random.default_rng(0)
    X, y = rng.standard_normal((n, 40), dtype=np.float32), (rng.permutation(n) < 100) * 1.0
    X[y == 1, 7] += 1
    response = np.column_stack([np.where(y == 1, 0.5, 1 + rng.random(n)), y]) if statistic == "cox" else y
    for seed in range(10):
        # The default of a statistic that rereads its rows is a sample, also of data as small as these.
        options = {} if statistic == "cox" else {"alpha": 0.5, "sampling": "stratified"}
        selector = BanditSIS(3, statistic=statistic, random_state=seed, **options).fit(X, response)
        assert 7 in selector.get_support(indices=True)
        assert selector.result_.fraction_read < 0.04
        assert all("exact screening" in note for note in selector.result_.notes)  # about speed alone


def test_what_auto_means():
    X, y = make("pearson")
    plan = Plan(N, P, ((200, 8), (400, 4)))

    def sampling(y=y, plan=plan, X=X, **options):
        result = screen(X, y, plan, random_state=0, **options)
        return (result if isinstance(result, ScreeningResult) else result[0]).parameters["sampling"]

    paper = Plan.paper(N, P, 3)
    assert sampling() == "stratified"
    assert sampling(plan=Plan.optimal(N, P, 3, 0.1)) == "stratified"
    assert sampling(plan=paper) == "uniform"  # stays the paper's method
    assert sampling(plan=Plan.subsample(N, P, 3, 300)) == sampling(plan=Plan.exact(N, P, 3)) == "uniform"
    assert sampling(y=np.column_stack([y, y**2])) == "uniform"  # they share the rows
    assert sampling(statistic="spearman") == sampling(row_order="stored") == "uniform"
    assert sampling(X=sp.csc_array(X)) == "uniform"  # reads all rows in any case
    assert sampling(y=np.tile([0.0, 1.0], N // 2)) == "uniform"  # strata gain nothing
    assert sampling(sampling="uniform") == "uniform"
    assert sampling(plan=paper, sampling="stratified") == "stratified"
    for options in ({}, {"alpha": 0.8}, {"alpha": 0.8, "sampling": "stratified"}):  # first: all rows
        result = BanditSIS(3, random_state=0, **options).fit(X, y).result_
        assert result.parameters["sampling"] == options.get("sampling", "uniform")


UNIFORM = {name for name, kind in STATISTICS.items() if issubclass(kind, SampleStatistic)}
INVALID = [({"row_order": "stored"}, "the row order is 'stored', not random")]
INVALID += [({"sampling": "cluster"}, "sampling must be one of 'auto', 'uniform', 'stratified'")]
for name in sorted(UNIFORM - {"cox", "wilcoxon"}):
    INVALID += [({"statistic": name}, f"{name!r} needs a uniform sample.*'uniform' or 'auto'")]


@pytest.mark.parametrize(("options", "message"), INVALID)
def test_what_cannot_be_stratified(options, message):
    X, y = make("anova")
    with pytest.raises(ValueError, match=message):
        screen(X, y, Plan(N, P, ((200, 4),)), **{"sampling": "stratified", **options})


NULL_RESPONSES = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "lognormal": lambda rng, n: np.exp(rng.standard_normal(n)),
    "rare": lambda rng, n: (rng.random(n) < 0.02).astype(float),
    "outlier": lambda rng, n: np.r_[rng.standard_normal(n - 1), 1e6],
}


@pytest.mark.parametrize("kind", NULL_RESPONSES)
def test_effective_rows_are_those_of_the_variance(kind):
    """Around the score over all rows, that of a feature varies by 1 / effective rows - 1 / n."""
    rng = np.random.default_rng(0)
    n, p, m = 5000, 400, 300
    X, y = rng.standard_normal((n, p)), NULL_RESPONSES[kind](rng, n)
    exact = screen(X, y, Plan.exact(n, p, 5)).scores
    results = [sampled(X, y, m, seed) for seed in range(12)]
    squares = [np.square(result.scores - exact).mean() for result in results]
    effective = results[-1].rounds[0].effective_rows
    # Close to n effective rows, the scale of the features is estimated less precisely than their products.
    tolerance = {"abs": 0.1 / n} if kind == "outlier" else {"rel": 0.12}
    assert np.mean(squares) == pytest.approx(1 / effective - 1 / n, **tolerance)
    assert effective > m


def test_intervals_cover_the_correlation():
    """Without selection, 95% intervals contain the population correlation in about 95% of samples."""
    rng = np.random.default_rng(1)
    n, rho = 20_000, np.array([0.0, 0.2, 0.5, 0.8])
    covered = []
    for seed in range(250):
        y = rng.standard_normal(n)
        X = rho * y[:, None] + np.sqrt(1 - rho**2) * rng.standard_normal((n, 4))
        result = sampled(X, y, 150, seed)
        low, high = result.interval()[np.argsort(result.selected)].T
        covered.append((low <= rho) & (rho <= high))
    assert (np.mean(covered, axis=0) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 250)).all()


def test_the_result_says_what_the_rows_are_worth():
    X, y = make("pearson")
    result = sampled(X, y, 400, 0)
    worth = result.rounds[0].effective_rows
    assert f"400 of them are worth {worth:,.0f} uniform rows" in " ".join(str(result).split())
    assert f"{worth:,.0f} uniform rows" in result.to_html()
    uniform = screen(X, y, Plan(N, P, ((400, P),)), sampling="uniform", random_state=0)
    assert "uniform rows" not in str(uniform)
    z = norm.ppf(0.975)
    half = np.ptp(np.arctanh(uniform.interval()), axis=1) / 2
    assert half.min() == pytest.approx(z / np.sqrt(397), rel=1e-3)  # wider for larger r: y is heavy-tailed
