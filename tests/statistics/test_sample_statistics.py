"""Sample statistics against direct implementations of their formulas, and runs with them."""

import math
from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sklearn.base import clone

from banditsis import SIS, BanditSIS, Plan, screen
from banditsis.engine.sampling import Strata
from banditsis.kernels.sorting import argsort, make_scratch
from banditsis.plans import change_rows
from banditsis.results import rank_features, selection_mask
from banditsis.sources.array import ArraySource
from banditsis.statistics import SampleStatistic
from banditsis.statistics.null_distributions import permutation_null
from sample_references import REFERENCES, chatterjee, scores

reread = partial(replace, rereads=True)


@pytest.fixture(params=REFERENCES)
def name(request):
    return request.param


def features(n, rng):
    """Columns that are normal, tied, lopsided, constant, far from 0, heavy-tailed."""
    z = rng.standard_normal((n, 8))
    z[:, 1] = np.round(z[:, 1])
    z[:, 2] = z[:, 2] > 0.3
    z[:, 3] = 0.1
    z[:, 4] += 1e6
    z[:, 5] = rng.standard_cauchy(n)
    z[:, 6] = np.round(z[:, 6], 1) * 1e-8
    z[:, 7] = np.arange(n)
    return z


@pytest.mark.parametrize("n", [3, 4, 10, 64, 65, 200])
def test_equals_the_reference(name, n):
    """For a continuous response, a tied one and a binary one."""
    rng = np.random.default_rng(n)
    n = 2000 if name == "distance" and n == 200 else n  # all levels of its recursion
    for _ in range(2 if n < 20 else 1):
        X = features(n, rng)
        y = X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.standard_normal(n)
        for response in (y, np.round(y), (y > y.mean()) * 1.0):
            if np.ptp(response) > 0:
                found = screen(X, response, Plan.exact(n, 8, 8), statistic=name).scores
                # dCor is a root: where it is 0, rounding shows up magnified in both.
                power = 2 if name == "distance" else 1
                np.testing.assert_allclose(
                    found**power, scores(name, X, response) ** power, rtol=0, atol=1e-9
                )


def test_chatterjee_is_scipys_without_ties_and_its_mean_over_orders_with_them():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(300), np.round(rng.standard_normal(300), 1)
    assert abs(chatterjee(x, y) - stats.chatterjeexi(x, y).statistic) < 1e-12
    x, y = np.array([1, 1, 2, 2, 2, 3.0]), np.array([4, 1, 1, 5, 2, 3.0])
    orders = [list(k) for k in permutations(range(6)) if (np.diff(x[list(k)]) >= 0).all()]
    every = [stats.chatterjeexi(np.arange(6), y[k]).statistic for k in orders]
    found = screen(np.column_stack([x, x]), y, Plan.exact(6, 2, 1), statistic="chatterjee").scores[0]
    assert abs(found - np.mean(every)) < 1e-12


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i1", "?"])
def test_dtypes_and_values_of_any_size(name, dtype):
    rng = np.random.default_rng(1)
    X, y = (rng.standard_normal((90, 5)) * 3).astype(dtype), rng.integers(0, 3, 90)
    found = screen(X, y, Plan.exact(90, 5, 5), statistic=name).scores
    np.testing.assert_allclose(found, scores(name, X, y.astype(float)), atol=1e-9)
    for size in (1e-300, 1e-150, 1e150, 1e300) if dtype == "f8" else ():
        scaled = screen(X * size, y * size, Plan.exact(90, 5, 5), statistic=name).scores
        np.testing.assert_allclose(scaled, found, atol=1e-12)


def test_missing_cells_are_left_out_column_by_column(name):
    rng = np.random.default_rng(3)
    X = features(120, rng)
    y = np.round(X[:, 0] + rng.standard_normal(120))
    X[rng.random(X.shape) < np.linspace(0, 0.95, 8)] = np.nan
    X[:, 0] = X[:, 7]
    result = screen(X, y, Plan.exact(120, 8, 8), statistic=name, missing="pairwise")
    known = ~np.isnan(X)
    present = known.sum(axis=0)
    for j, (x, here) in enumerate(zip(X.T, known.T, strict=True)):
        (expected,) = scores(name, x[here, None], y[here]) if present[j] >= 10 else [0.0]
        assert abs(result.scores[j] - expected * np.sqrt(here.mean())) < 1e-9
    np.testing.assert_array_equal(result.evidence.present, present[result.selected])
    assert f"{(present < 10).sum()} features were present in fewer than 10" in str(result)


rng = np.random.default_rng(6)


@given(arrays(np.float64, st.integers(1, 60), elements=st.floats(allow_nan=False, allow_infinity=False)))
@example(rng.choice([-1e8, 1e8], 3000) + rng.standard_normal(3000))  # 32 bits do not tell these apart
@example(rng.choice([-1.0, 1.0], 3000) * (1 + rng.integers(0, 50, 3000) * 2.0**-52))
@example(rng.choice([1e308, -1e308, 5e-324, 0.0, -0.0], 3000))
def test_sorting_is_stable(x):
    scratch = make_scratch(len(x))
    argsort(x.copy(), scratch)
    np.testing.assert_array_equal(scratch[0], np.argsort(x, kind="stable"))


def make(n=3000, p=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, 3] - X[:, min(8, p - 1)] + 0.5 * rng.standard_normal(n)


def test_each_round_scores_all_rows_so_far(name):
    X, y = make(600, 12)
    y = np.digitize(y, [-1, 1]).astype(float)
    plan = Plan(600, 12, ((60, 8), (61, 5), (61, 4), (150, 2)))
    result = screen(X, y, plan, statistic=name, random_state=7)
    pieces = list(Strata.uniform(600).draw([60, 61, 61, 150], "random", np.random.default_rng(7)))
    left, expected = np.arange(12), np.zeros(12)
    for k, step in enumerate(plan.steps):
        rows = np.sort(np.concatenate(pieces[: k + 1]))
        expected[left] = scores(name, X[np.ix_(rows, left)], y[rows])
        size = expected[left] if name == "chatterjee" else np.abs(expected[left])
        left = np.sort(left[np.argsort(-size, kind="stable")[: step.n_keep]])
    np.testing.assert_allclose(result.scores, expected, atol=1e-9)
    np.testing.assert_array_equal(np.sort(result.selected), left)
    assert [r.cells for r in result.rounds] == [60 * 12, 61 * 8, 0, 150 * 4]
    assert result.cells_read == reread(plan).cells


def test_chunks_are_read_once_in_each_round():
    class Chunked(ArraySource):
        chunk = (100, 40)

        def read(self, rows, columns):
            block = super().read(rows, columns)
            shapes.append(block.shape)
            return block

    X, y = make(1200, 90)
    shapes, plan = [], Plan(1200, 90, ((300, 50), (1200, 5)))
    found, expected = (
        screen(x, y, plan, statistic="spearman", random_state=0, n_jobs=1) for x in (Chunked(X), X)
    )
    np.testing.assert_array_equal(found.scores, expected.scores)
    rounds = [(300, 40), (300, 40), (300, 10), (1200, 40), (1200, 10)]
    assert [shape for shape in shapes if shape[0] in (300, 1200)][-5:] == rounds


def test_several_responses_and_threads(name):
    X, y = make(400, 80)
    Y = np.column_stack([np.round(y), np.round(X[:, 1]), np.round(X[:, 2] ** 2)])
    plan, told = Plan.paper(400, 80, 3), []
    options = {"statistic": name, "random_state": 0}
    together = screen(np.asfortranarray(X), Y, plan, n_jobs=3, progress=lambda *n: told.append(n), **options)
    for k, result in enumerate(together):
        alone = screen(X, Y[:, k], plan, n_jobs=1, **options)
        np.testing.assert_array_equal(result.scores, alone.scores)
        np.testing.assert_array_equal(result.selected, alone.selected)
    assert told[-1] == (3 * reread(plan).cells,) * 2


def test_plans_that_read_again():
    plan = Plan.paper(10_000, 500, 20)
    again, (rows, kept) = reread(plan), np.transpose(plan.steps)
    assert again.cells_by_step == tuple(rows * [500, *kept[:-1]])
    assert again.cells == sum(again.cells_by_step) > plan.cells
    assert "each step reads all rows so far again" in str(again)
    assert "again" not in str(plan) + str(reread(Plan.exact(100, 5, 2)))
    limited = change_rows(again, lambda rows: min(rows, 1000), 1000)
    assert limited.rereads
    assert sum(c > 0 for c in limited.cells_by_step) < len(again.steps)  # nothing new, nothing read


@pytest.mark.parametrize("budget", [0.01, 40_000])
def test_estimators_stay_within_the_budget(name, budget):
    X, y = make(20_000, 60)
    selector = BanditSIS(4, budget=budget, statistic=name, random_state=0).fit(X, y)
    assert selector.result_.cells_read <= (budget if isinstance(budget, int) else budget * X.size)
    assert set(selector.get_support(indices=True)) >= {3, 8}


def test_estimators_by_default_and_by_alpha():
    X, y = make(20_000, 60)
    paper = Plan.paper(20_000, 60, 4)
    by_default, by_alpha, costly = (
        BanditSIS(4, statistic=statistic, alpha=alpha, random_state=0).fit(X, y).result_
        for statistic, alpha in (("distance", None), ("distance", 0.5), ("spearman", 0.01))
    )
    assert 0.9 * paper.cells < by_default.cells_read <= paper.cells
    assert by_alpha.cells_read == reread(paper).cells
    assert [r.n_rows for r in by_alpha.rounds] == [s.n_rows for s in paper.steps]
    assert any("exact screening" in note for note in costly.notes)


def test_tiny_data(name):
    for n in (3, 4, 5, 6, 9):
        X = np.random.default_rng(n).standard_normal((n, 4))
        for selector in (SIS(1, statistic=name), BanditSIS(1, statistic=name, random_state=0)):
            assert selector.fit(X, np.arange(n) % 2).get_support().sum() == 1


class Mean(SampleStatistic):
    name = "mean"

    def __init__(self, factor=1.0):
        self.factor, self.settings = factor, {"factor": factor}

    def prepare(self, y):
        return self.factor * (y - y.mean())

    def score_block(self, block, side):
        return side @ block / len(side)


def test_a_class_or_an_object_with_settings_is_taken_as_it_is():
    X, y = make(50, 4)
    for statistic, factor in ((Mean, 1.0), (Mean(-2.0), -2.0)):
        result = screen(X, y, Plan.exact(50, 4, 2), statistic=statistic)
        np.testing.assert_allclose(result.scores, factor * (y - y.mean()) @ X / 50, atol=1e-12)
        assert (result.parameters["statistic"], result.parameters["factor"]) == ("mean", factor)
        selector = clone(SIS(2, statistic=statistic)).fit(X, y)
        np.testing.assert_array_equal(selector.scores_, result.scores)
    assert not hasattr(statistic, "y")  # binding leaves the object as it was
    with pytest.raises(ValueError, match="statistic"):
        screen(X, y, Plan.exact(50, 4, 2), statistic=int)


def test_invalid_input(name):
    X, y = make(200, 5)
    labels = np.where(y > 0, "yes", "no")
    with pytest.raises(ValueError, match="guaranteed with 'pearson', or for two classes"):
        BanditSIS(2, min_correlation=0.3, statistic=name).fit(X, y)
    for response, message in ((labels, "'anova' or 'chi2'"), (np.ones(200), "the response is constant, 1")):
        with pytest.raises(ValueError, match=message):
            screen(X, response, 2, statistic=name)
    for bad, missing, what in ((np.nan, "raise", "NaN"), (-np.inf, "pairwise", "inf")):
        Z = np.repeat(X, 1100, axis=1)
        Z[17, 4321] = bad
        with pytest.raises(ValueError, match=rf"{what}.* in column 'x4321', row 17"):
            screen(Z, np.round(y > 0), Plan.exact(*Z.shape, 2), statistic=name, missing=missing)


def spearman_pvalue(x, y):
    """With the variance and kurtosis of ρ over all orders (Kendall and Gibbons 1990), for few ties."""
    n = len(x)
    kurtosis = -114 / (25 * n) * (1 + 5 / (19 * n) - 36 / (19 * n**2)) / (1 - 1 / n**2)
    b = -3 / kurtosis - 1.5
    bound = np.sqrt((2 * b + 1) / (n - 1))
    return 2 * stats.beta(b, b).sf((1 + abs(stats.spearmanr(x, y).statistic) / bound) / 2)


PVALUES = {
    "spearman": spearman_pvalue,
    "kendall": lambda x, y: stats.kendalltau(x, y, method="asymptotic").pvalue,
    "chatterjee": lambda x, y: stats.chatterjeexi(x, y).pvalue,
}


@pytest.mark.parametrize("name", PVALUES)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n", [30, 400])
def test_pvalues_are_scipys(name, tied, n):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 6))
    y = 0.3 * X[:, 0] ** 3 + rng.standard_normal(n)
    if tied:
        X, y = X if name == "chatterjee" else np.round(5 * X), np.round(2 * y)
    result = screen(X, y, Plan.exact(n, 6, 2), statistic=name, pvalues=True)
    expected = [PVALUES[name](x, y) for x in X.T]
    np.testing.assert_allclose(result.pvalues, expected, 1e-9 + 0.05 * (tied and name == "spearman"), 1e-20)
    if name == "spearman" and n == 400:
        common = np.array(expected) > 0.01
        theirs = np.array([stats.spearmanr(x, y).pvalue for x in X.T])
        np.testing.assert_allclose(result.pvalues[common], theirs[common], rtol=0.05)


@pytest.mark.parametrize("n", [3, 4, 5, 8, 10, 12])
def test_spearmans_pvalues_are_those_of_all_orders_or_larger(n):
    """Over all orders, each row takes one of the ranks that the rows before it left."""
    x = np.arange(1.0 * n)[:, None]
    if n <= 5:  # only two orders have the score of a perfect association
        found = screen(x, x[:, 0], Plan.exact(n, 1, 1), statistic="spearman").pvalues
        assert found == pytest.approx([2 / math.factorial(n)])
        return
    size = (n**3 - n) // 3 + 1
    counts = np.zeros((2**n, size))  # of orders, by the ranks taken and the sum of squared differences
    counts[0, 0] = 1
    for taken in range(2**n):
        for rank in range(n):
            if not taken >> rank & 1:
                square = (rank - taken.bit_count()) ** 2
                counts[taken | 1 << rank, square:] += counts[taken, : size - square]
    squares = np.flatnonzero(counts[-1])
    rho, p = 1 - 6 * squares / (n**3 - n), 2 * np.cumsum(counts[-1, squares]) / math.factorial(n)
    found = 10 ** permutation_null(n).log10_pvalues(rho)
    small = p < 0.05
    assert (found[small] > 0.85 * p[small]).all()
    near = (p > 0.002) & small
    np.testing.assert_allclose(found[near], p[near], rtol=0.3)


def test_kendalls_pvalues_are_exact_or_larger():
    """The exact ones are SciPy's."""
    for n in (10, 20, 40):
        y = np.arange(n * 1.0)
        X = np.column_stack([np.append(y[k:][::-1], y[:k]) for k in range(n)])
        exact = np.array([stats.kendalltau(x, y, method="exact").pvalue for x in X.T])
        found = screen(X, y, Plan.exact(n, n, n), statistic="kendall").pvalues
        assert (found > exact)[exact < 1e-3].all()
        assert (exact < 1e-3).any()


RANK_NULLS = {
    "rare": lambda g, n, p: (g.binomial(2, 0.02, (n, p)), g.random(n) < 0.05),
    "zeros": lambda g, n, p: tuple((g.random(s) < 0.1) * g.geometric(0.3, s) for s in ((n, p), n)),
    "rounded": lambda g, n, p: (np.round(g.standard_normal((n, p)), 1), np.round(g.standard_normal(n))),
    "binary": lambda g, n, p: (g.random((n, p)) < 0.5, g.standard_normal(n)),
    "few": lambda g, n, p: (g.standard_normal((20, p)), g.standard_normal(20)),
}


@pytest.mark.parametrize("name", PVALUES)
@pytest.mark.parametrize("kind", RANK_NULLS)
def test_small_pvalues_of_ranks_hold_without_association(name, kind):
    found = []
    for seed in range(20):
        X, y = RANK_NULLS[kind](np.random.default_rng(seed), 500, 1000)
        plan = Plan.exact(*X.shape, 1)
        found.append(screen(X * 1.0, y * 1.0, plan, statistic=name, pvalues=True).pvalues)
    p = np.concatenate(found)
    for level in (0.001, 0.0001):
        assert np.mean(p <= level) <= 1.2 * level + 3 * np.sqrt(level / p.size)
    unknown = name == "chatterjee" and kind != "few"
    assert np.isnan(p).all() == unknown
    assert unknown or kind in ("rare", "zeros") or np.mean(p <= 0.001) > 0.0002


@pytest.mark.parametrize("name", PVALUES)
def test_pvalues_of_the_rows_that_are_present_and_of_constants(name):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    y = np.round(X[:, 0] + rng.standard_normal(300), 1 if name == "spearman" else 0) + 0.0
    X[rng.random(X.shape) < np.linspace(0, 0.9, 5)] = np.nan
    expected = [PVALUES[name](x[~np.isnan(x)], y[~np.isnan(x)]) for x in X.T]
    X = np.column_stack([X, np.where(np.arange(300) % 3, 5.0, np.nan), np.full(300, 5.0)])
    result = screen(X, y, Plan.exact(300, 7, 2), statistic=name, missing="pairwise", pvalues=True)
    np.testing.assert_allclose(result.pvalues, [*expected, 1, 1], rtol=1e-9)


def test_chatterjees_pvalues_with_equal_values():
    """Valid if there are many values; not available if there are few, and then never selected."""
    rng, plan = np.random.default_rng(2), Plan.exact(600, 3000, 2)
    X, y = rng.integers(0, 600, (600, 3000)) * 1.0, rng.poisson(3.0, 600)
    result = screen(X, y, plan, statistic="chatterjee")
    for level in (0.5, 0.1, 0.01):
        assert level / 6 < np.mean(result.pvalues <= level) < level + 3 * np.sqrt(level * (1 - level) / 3000)
    X[:, 1] = y > 2
    result = screen(X, y, plan, statistic="chatterjee", pvalues=True)
    assert np.isnan(result.pvalues[1])
    assert "p-values of 1 feature are not available" in " ".join(result.notes)
    assert np.isnan(result.pvalues).sum() == 1
    assert result.selected[0] == 1
    assert 1 not in result.select(0.5)
    assert result.to_frame()["pvalue"].isna().sum() == 1


@pytest.mark.parametrize("adaptive", [False, True])
def test_chatterjee_keeps_the_largest_not_the_most_negative(adaptive):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((400, 200)), rng.standard_normal(400)
    plan = Plan.paper(400, 200, 20) if adaptive else Plan.exact(400, 200, 20)
    result = screen(X, y, plan, statistic="chatterjee", random_state=0)
    last, scores = result.last_round == len(result.rounds) - 1, result.scores[result.selected]
    assert scores.min() == result.rounds[-1].cutoff >= result.scores[last & ~selection_mask(result)].max()
    assert (np.diff(scores) <= 0).all()
    ranked = np.argsort(rank_features(result))
    np.testing.assert_array_equal(ranked[:20], result.selected)
    if not adaptive:
        assert (scores > 0).all()
        np.testing.assert_array_equal(ranked, np.argsort(-result.scores, kind="stable"))
