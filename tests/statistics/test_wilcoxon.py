"""Rank sums of classes against SciPy, which computes one comparison at a time."""

import numpy as np
import pytest
from scipy import sparse, stats

from banditsis import SIS, BanditSIS, Plan, ScreeningResults, screen
from banditsis.statistics.wilcoxon import Wilcoxon, _exact_log10

any_store = pytest.mark.parametrize("store", [np.asarray, sparse.csr_array, sparse.csc_array])


def features(n, rng):
    """Normal, tied, mostly 0, counts, constant, and the same far from 0."""
    z = rng.standard_normal((n, 7))
    z[:, 1] = np.round(z[:, 1])
    z[:, 2] *= rng.random(n) < 0.2
    z[:, 3] = rng.poisson(0.3, n)
    z[:, 4] = 1.0
    z[:, 5] = np.round(z[:, 5], 1) * 1e-8 - 1e-7
    z[:, 6] = np.where(rng.random(n) < 0.4, 0.0, -np.round(z[:, 6] ** 2, 1))
    return z


def compare(X, y, label, reference):
    """AUC - 1/2 and the p-value of each feature, by SciPy, of which 1.18 has none if all values are equal."""
    own, others = X[y == label], X[y != label] if reference is None else X[y == reference]
    tests = [stats.mannwhitneyu(a, b, method="auto") for a, b in zip(own.T, others.T, strict=True)]
    scores = np.array([t.statistic / (len(own) * len(others)) - 0.5 for t in tests])
    return scores, np.nan_to_num([t.pvalue for t in tests], nan=1.0)


def may_be_skewed(X, y, label, reference):
    """Where a rank sum may be far from normal: many ties, and few other values in a class."""
    pair, n_own = X[(reference is None) | (y == label) | (y == reference)], np.count_nonzero(y == label)
    ties = np.array([np.unique(x, return_counts=True)[1].max() for x in pair.T])
    expected = min(n_own, len(pair) - n_own) * (1 - ties / len(pair))
    return (ties > max(1, len(pair) / 4)) & (ties < len(pair)) & (expected < 5)


@any_store
def test_equals_scipy(store):
    rng, n_compared = np.random.default_rng(0), 0
    for n in (6, 7, 9, 14, 20, 31, 60, 100, 250, 1000):
        X = features(n, rng)
        y = rng.permutation(np.arange(n) % rng.integers(2, 5)) * 10
        for reference in (None, y[0]):
            found = screen(store(X), y, Plan.exact(n, 7, 7), statistic=Wilcoxon(reference))
            labels = [label for label in np.unique(y) if label != reference]
            results = found if isinstance(found, ScreeningResults) else [found]
            for label, result in zip(labels[-len(results) :], results, strict=True):
                scores, pvalues = compare(X, y, label, reference)
                known = ~np.isnan(result.log10_pvalues)
                np.testing.assert_allclose(result.scores, scores, atol=1e-12)
                np.testing.assert_array_equal(~known, may_be_skewed(X, y, label, reference))
                np.testing.assert_allclose(result.log10_pvalues[known], np.log10(pvalues[known]), atol=1e-10)
                assert result.parameters["positive_class"] == str(label)
                n_compared += known.sum()
    assert n_compared > 200


@pytest.mark.parametrize("few", [1, 2, 5, 8])
@pytest.mark.parametrize("many", [8, 9, 30])
def test_exact_pvalues(few, many):
    """Of every rank sum: the rows of the smaller class move up one by one."""
    found = 10 ** _exact_log10(few, many)
    for u in range(few * many // 2 + 1):
        last = np.arange(few) + np.array([u // few + (k >= few - u % few) for k in range(few)])
        rest = np.setdiff1d(np.arange(few + many), last)
        expected = stats.mannwhitneyu(last, rest, method="exact")
        assert expected.statistic == u
        assert found[u] == pytest.approx(expected.pvalue, rel=1e-11)


def test_pvalues_far_below_the_smallest_number():
    x, y = np.arange(10_000.0)[:, None], np.repeat([0, 1], 5000)
    found = screen(x, y, Plan.exact(10_000, 1, 1), statistic="wilcoxon").log10_pvalues[0]
    z = (0.5 * 5000**2 - 0.5) / np.sqrt(5000**2 * 10_001 / 12)
    assert found == pytest.approx((np.log(2) + stats.norm.logsf(z)) / np.log(10), rel=1e-12)
    assert found < -1000


NULLS = {
    "tiny": lambda g, n: g.standard_normal(n),
    "rounded": lambda g, n: np.round(g.standard_normal(n)),
    "thirds": lambda g, n: g.integers(0, 3, n) * 1.0,
    "binary": lambda g, n: (g.random(n) < 0.5) * 1.0,
    "rare": lambda g, n: (g.random(n) < 0.03) * 1.0,
    "counts": lambda g, n: g.poisson(0.2, n) * 1.0,
    "zeros": lambda g, n: (g.random(n) < 0.1) * g.gamma(1.0, 1.0, n),
}


@pytest.mark.parametrize("kind", NULLS)
@pytest.mark.parametrize("sizes", [(2, 3, 8), (4, 9, 60), (10, 30, 400), (60, 200, 3000)])
def test_pvalues_hold_without_association(kind, sizes):
    rng, n_runs = np.random.default_rng(0), 1000
    y = np.repeat(np.arange(3), sizes)
    X = np.column_stack([NULLS[kind](rng, len(y)) for _ in range(n_runs)])
    for reference in (None, 2):
        for result in screen(X, y, Plan.exact(*X.shape, 1), statistic=Wilcoxon(reference)):
            p = result.pvalues[~np.isnan(result.pvalues)]
            assert np.sum(p <= 0.05) <= 0.05 * p.size + 2 * np.sqrt(0.05 * 0.95 * p.size)
    assert p.size > 0.9 * n_runs or sizes[1] < 200  # of the larger class, where there are enough rows


def test_every_class_is_a_response():
    rng, plan = np.random.default_rng(1), Plan.exact(300, 7, 2)
    X, y = features(300, rng), rng.choice(["B", "NK", "T"], 300)
    X[y == "NK", 3] += 2
    results = screen(X, y, plan, statistic="wilcoxon", pvalues=True)
    killers = results["NK"]
    assert results.names == ["B", "NK", "T"]
    assert killers.selected[0] == 3
    assert 3 in results.select(0.01)["NK"]
    assert (killers.scores[4], killers.pvalues[4]) == (0, 1)
    assert "a positive score goes with NK" in str(killers)
    two = screen(X, y == "NK", plan, statistic="wilcoxon")
    np.testing.assert_array_equal(two.scores, killers.scores)
    selector = SIS(2, statistic=Wilcoxon(reference="B")).fit(X, y)
    assert selector.result_.names == ["NK", "T"]
    assert selector.scores_.shape == (7, 2)
    assert selector.result_["NK"].parameters["reference"] == "B"


@any_store
def test_missing_cells_and_labels_are_left_out(store):
    rng = np.random.default_rng(2)
    X, y = features(200, rng), rng.choice(["B", "NK", "T", None], 200)
    X[rng.random(X.shape) < np.linspace(0, 0.5, 7)] = np.nan
    labelled = np.array([label is not None for label in y])
    results = screen(store(X), y, Plan.exact(200, 7, 7), statistic="wilcoxon", missing="pairwise")
    for label, result in zip(results.names, results, strict=True):
        for j, x in enumerate(X.T):
            here = labelled & ~np.isnan(x)
            (score,), (pvalue,) = compare(x[here, None], y[here], label, None)
            share = here.sum() / labelled.sum()
            assert result.scores[j] == pytest.approx(score * np.sqrt(share), abs=1e-12)
            assert result.pvalues[j] == pytest.approx(pvalue, rel=1e-9) or np.isnan(result.pvalues[j])


@pytest.mark.parametrize("reference", [None, 1])
def test_sampling_weights_stand_for_repeated_rows(reference):
    rng = np.random.default_rng(4)
    X, y, times = features(100, rng), rng.integers(0, 3, 100) * 1.0, rng.integers(1, 4, 100)
    bound = Wilcoxon(reference).bind(y[:, None], False)
    found = bound.score_block(np.asfortranarray(X), bound.prepare_weighted(y, times / 2))
    again = np.repeat(np.arange(100), times)
    expected = bound.score_block(np.asfortranarray(X[again]), bound.prepare(y[again]))
    np.testing.assert_allclose(found[0], expected[0], atol=1e-12)


@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
@pytest.mark.parametrize("by_row", [True, False])
def test_markers_from_a_sample_of_cells(sampling, by_row):
    """Of a class that is common and of one that is rare."""
    rng, n, p = np.random.default_rng(5), 20_000, 400
    y = rng.choice(["common", "other", "rare"], n, p=[0.5, 0.48, 0.02])
    X = rng.poisson(0.5, (n, p)).astype("f4")
    X[y == "common", :10] += rng.random((np.sum(y == "common"), 10)) < 0.6
    X[y == "rare", 10:20] += 1
    cells = sparse.csr_array(X) if by_row else X
    found = BanditSIS(10, statistic="wilcoxon", sampling=sampling, random_state=0).fit(cells, y).result_
    assert set(found["common"].selected) == set(range(10))
    assert set(found["rare"].selected) == set(range(10, 20))
    assert all(result.fraction_read < 0.5 for result in found)


@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
def test_a_sample_says_what_it_may_have_missed(sampling):
    """Features with the AUC it names, or a larger one, are kept with about the probability it names."""
    rng, n, p = np.random.default_rng(6), 6000, 300
    y = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    X = (rng.random((n, p)) < 0.4) * rng.gamma(1.0, 1.0, (n, p))
    X[y == "a"] += rng.random(p) < 0.1
    X[y == "c"] += (rng.random(p) < 0.3) * rng.random(p)
    exact = SIS(40, statistic="wilcoxon").fit(X, y).scores_
    n_kept = n_expected = 0
    for seed in range(40):
        selector = BanditSIS(40, statistic="wilcoxon", sampling=sampling, budget=0.05, random_state=seed)
        for result, scores in zip(selector.fit(X, y).result_, exact.T, strict=True):
            (note,) = [note for note in result.notes if "rows of this class were read" in note]
            auc = float(note.split("AUC of ")[1].split()[0])
            strong = np.flatnonzero(np.abs(scores) >= auc - 0.5)
            n_expected += len(strong)
            n_kept += len(set(strong) & set(result.selected))
    assert n_expected > 300
    assert n_kept >= 0.95 * n_expected


def test_what_is_not_supported_raises():
    X = np.random.default_rng(0).standard_normal((100, 3))
    for settings, message in (
        ({"statistic": Wilcoxon("X")}, r"reference must be a class, got 'X'; classes are 'B', 'T'"),
        ({"sample_weight": np.arange(100)}, "'wilcoxon' does not support sample weights"),
        ({"covariates": np.arange(100.0)}, "'wilcoxon' does not support covariates"),
        ({"y": np.repeat([["B", "T"], ["T", "B"]], 50, axis=0)}, "one column of class labels, got 2"),
        ({"y": np.arange(100) / 7}, "needs class labels, got a continuous response"),
    ):
        given = {"y": np.repeat(["B", "T"], 50), "statistic": "wilcoxon", **settings}
        with pytest.raises(ValueError, match=message):
            screen(X, keep=Plan.exact(100, 3, 1), **given)
