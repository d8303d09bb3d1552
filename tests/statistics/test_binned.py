"""Binned statistics against SciPy, scikit-learn and direct formulas on the bins that results report."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.metrics import mutual_info_score

from banditsis import BanditSIS, Plan, screen
from banditsis.statistics import Chi2, InformationValue, MutualInformation
from banditsis.statistics.null_distributions import log10_chi2_tail

NAMES = ["chi2", "information_value", "mutual_information"]


def make(n=3000, seed=0):
    """Normal, mostly zero, integer, rounded, skewed, constant, incomplete, binary features; two classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8))
    y = X[:, 0] + np.abs(X[:, 1]) + rng.standard_normal(n) > 1.3
    X[:, 1] = np.where(rng.random(n) < 0.6, 0.0, X[:, 1])
    X[:, 2] = rng.integers(0, 5, n)
    X[:, 3] = np.round(X[:, 3], 1)
    X[:, 4] = np.exp(5 * X[:, 4])
    X[:, 5] = 1.5
    X[:, 6] = np.where(rng.random(n) < 0.2 + 0.2 * y, np.nan, X[:, 6])
    X[:, 7] = X[:, 7] > 0
    return X, y


def everything(X, y, **options):
    """The exact result for all features, and the bins of each as numbers of the rows."""
    result = screen(X, y, Plan.exact(*X.shape, X.shape[1]), missing="pairwise", **options)
    table = pd.DataFrame(result.evidence.bins)
    codes = np.empty(X.shape, int)
    for j, x in enumerate(np.asarray(X, float).T):
        bins = table[(table.feature == j) & ~table.missing]
        assert np.array_equal(bins.low[1:], bins.high[:-1])
        codes[:, j] = np.where(np.isnan(x), -1, np.searchsorted(bins.low[1:], x, "right"))
    return result, codes


def information(x, y):
    """Weights of evidence of each bin, and the sum of their products with the differences of shares."""
    table = pd.crosstab(x, y).to_numpy() * 1.0
    shares = np.where((table == 0).any(axis=1, keepdims=True), table + 0.5, table) / table.sum(axis=0)
    evidence = np.log(shares[:, 0] / shares[:, 1])
    return evidence, ((shares[:, 0] - shares[:, 1]) * evidence).sum()


def miller_madow(x, y):
    table = pd.crosstab(x, y).to_numpy()
    excess = (table > 0).sum() - table.shape[0] - table.shape[1] + 1
    return mutual_info_score(x, y) - excess / (2 * table.sum())


def cramer(x, y):
    table = pd.crosstab(x, y).to_numpy()
    n, (r, k) = table.sum(), table.shape
    v2 = (stats.chi2_contingency(table, correction=False).statistic / n / (k - 1)) - (r - 1) / (n - 1)
    return np.sign(v2) * np.sqrt(abs(v2))


REFERENCES = {
    "chi2": cramer,
    "information_value": lambda x, y: information(x, y)[1],
    "mutual_information": miller_madow,
}


@pytest.mark.parametrize(("name", "n_classes"), [*((name, 2) for name in NAMES), ("chi2", 4), (NAMES[2], 4)])
def test_scores_and_pvalues_are_those_of_the_reference(name, n_classes):
    X, y = make()
    y = y if n_classes == 2 else np.digitize(X[:, 0] + 0.1 * X[:, 2], [0, 0.5, 1])
    result, codes = everything(X, y, statistic=name)
    expected = [REFERENCES[name](x, y) for x in codes.T]
    np.testing.assert_allclose(result.scores, expected, rtol=0, atol=1e-12)
    assert result.scores[5] == 0
    for j in (1, 2, 4, 6, 7) if name == "chi2" else ():
        expected = stats.chi2_contingency(pd.crosstab(codes[:, j], y))
        assert expected.expected_freq.min() > 5
        np.testing.assert_allclose(result.log10_pvalues[j], np.log10(expected.pvalue), rtol=1e-10)
    assert name != "chi2" or result.pvalues[5] == 1


def test_far_tails():
    df = np.array([1.0, 2.0, 9.0, 100.0, 1000.0])
    for log10 in (-5, -200, -290):
        square = stats.chi2.isf(10.0**log10, df)
        np.testing.assert_allclose(log10_chi2_tail(square, df), log10, rtol=1e-11)
    assert log10_chi2_tail(np.array([1e6]), np.array([2.0])) == pytest.approx(-5e5 / np.log(10))


def test_weights_of_evidence_of_the_selected_features():
    X, y = make()
    result, codes = everything(X, y, statistic="information_value")
    table = pd.DataFrame(result.evidence.bins).query("not missing")
    np.testing.assert_allclose(table[table.feature == 0].woe, information(codes[:, 0], y)[0], atol=1e-12)
    stored = pd.DataFrame(json.loads(result.to_json())["bins"])
    pd.testing.assert_frame_equal(stored, pd.DataFrame(result.evidence.bins), check_dtype=False)
    assert set(screen(X, y, 2, statistic="chi2", missing="pairwise").evidence.bins["feature"]) == {0, 6}


def test_bins_are_quantiles_values_and_values_with_more_than_a_share():
    X, y = make()
    result, codes = everything(X, y, statistic=Chi2(n_bins=10))
    shares = [np.unique(x, return_counts=True)[1] / len(x) for x in codes.T]
    assert len(shares[0]) == len(shares[4]) == 10
    np.testing.assert_allclose(shares[0], 0.1, atol=0.001)  # the pilot has all rows
    assert (codes[:, 1] == np.bincount(codes[:, 1]).argmax()).sum() == (X[:, 1] == 0).sum()
    np.testing.assert_array_equal(codes[:, 2], X[:, 2])
    assert len(shares[5]) == 1
    table = pd.DataFrame(result.evidence.bins)
    missing = table[(table.feature == 6) & table.missing]
    assert missing[["rows False", "rows True"]].to_numpy().sum() == np.isnan(X[:, 6]).sum()


@pytest.mark.parametrize("kind", [Chi2, InformationValue, MutualInformation])
def test_the_same_from_any_layout_dtype_and_number_of_threads(kind):
    rng = np.random.default_rng(1)
    X = rng.integers(-5, 100, (9000, 70)) * (rng.random((9000, 70)) < 0.5)
    y = X[:, 3] + rng.integers(0, 50, 9000) > 60
    plan = Plan.exact(*X.shape, 5)
    expected = screen(X, y, plan, statistic=kind(16), n_jobs=1)
    formats = [X.astype("f4"), X.astype("f8"), X.astype("i1"), X.astype("f2"), np.asfortranarray(X, "f4")]
    formats += [np.repeat(X, 2, axis=1)[:, ::2], pd.DataFrame(X), sparse.csr_array(X), sparse.csc_array(X)]
    bins = pd.DataFrame(expected.evidence.bins)
    for other in formats:
        found = screen(other, y, plan, statistic=kind(16), n_jobs=3)
        np.testing.assert_array_equal(found.scores, expected.scores)
        pd.testing.assert_frame_equal(pd.DataFrame(found.evidence.bins), bins, rtol=1e-7, atol=1e-40)


@pytest.mark.parametrize("sizes", [(200, 5, 2), (200, 30, 10), (2000, 10, 20), (2000, 300, 7)])
def test_pvalues_hold_their_level_or_are_not_given(sizes):
    """Features are independent of the response; some have a rare bin, or few bins."""
    (n, events, rare), p = sizes, 2000
    rng = np.random.default_rng(events)
    X = rng.standard_normal((n, 4 * p))
    X[:, p : 2 * p] = np.argsort(X[:, p : 2 * p], axis=0) < rare
    X[:, 2 * p : 3 * p] = np.argsort(X[:, 2 * p : 3 * p], axis=0) * 3 // n
    X[:, 3 * p :][np.argsort(X[:, 3 * p :], axis=0) < rare] = np.nan
    y = np.arange(n) < events
    result = screen(X, y, Plan.exact(n, 4 * p, 1), statistic="chi2", missing="pairwise")
    for group in np.split(result.pvalues, 4):
        known = ~np.isnan(group)
        assert known.all() or not known.any()
        assert np.sum(group <= 0.05) <= 0.05 * p + 2 * np.sqrt(0.05 * 0.95 * p)
    assert np.isnan(result.pvalues).any()
    assert "expected counts" in " ".join(result.notes)


def test_numeric_responses_are_cut_into_classes():
    X = make()[0]
    result = screen(X, X[:, 0], 2, statistic="mutual_information", missing="pairwise")
    assert result.selected[0] == 0
    assert "has 3,000 values, and was cut at quantiles into classes at" in result.notes[0]
    cuts = np.sort(X[:, 0])[[600, 1200, 1800, 2400]]
    classes = np.searchsorted(cuts, X[:, 0], "right")
    same = screen(X, classes, 2, statistic="mutual_information", missing="pairwise")
    np.testing.assert_allclose(result.scores, same.scores, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_scores_and_stability_by_period(name):
    X, y = make()
    X[2000:, 3] += 1
    month = np.array(["2024-01", "2024-02", "2024-03"])[np.arange(3000) // 1000]
    result, codes = everything(X, y, statistic=name, by=month)
    np.testing.assert_array_equal(result.scores, everything(X, y, statistic=name)[0].scores)
    table = result.to_frame().set_index("index").sort_index()
    for label in np.unique(month):
        here, both = month == label, (month == label) | (month == "2024-01")
        for j, x in enumerate(codes.T):
            if len(np.unique(x[here])) > 1:
                assert abs(table[f"score {label}"][j] - REFERENCES[name](x[here], y[here])) < 1e-12
            if label != "2024-01":  # information about the period
                assert abs(table[f"psi {label}"][j] - information(x[both], here[both])[1]) < 1e-12
    assert table["psi 2024-03"].idxmax() == 3


def test_periods_follow_their_rows():
    X, y = make()
    month, known = np.arange(3000) % 3, np.random.default_rng(0).random(3000) < 0.8
    options = {"statistic": "chi2", "missing": "pairwise"}
    expected = screen(X[known], y[known], 8, by=month[known], **options)
    found = screen(X, np.where(known, y, np.nan), 8, by=month, **options)
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame())


def test_features_dropped_early_have_no_scores_by_period():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((4000, 50))
    y = X[:, 7] + rng.standard_normal(4000) > 1
    plan = Plan(4000, 50, ((500, 10), (4000, 3)))
    result = screen(X, y, plan, statistic="chi2", by=np.arange(4000) // 2000, random_state=0)
    assert result.selected[0] == 7
    assert np.isnan(result.annotations["psi 1"]).sum() == 40
    assert result.cells_read == 500 * 50 + 3500 * 10
    picked = BanditSIS(1, statistic="chi2", random_state=0, pvalues=True).fit(X, y).result_
    assert picked.selected.tolist() == [7]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("value", "message"), [(np.nan, "NaN"), (np.inf, "infinit"), (-np.inf, "infinit")])
def test_invalid_cells(name, value, message):
    X, y = make()
    bad = np.vstack([np.nan_to_num(X)] * 60)  # not checked as a whole
    bad[-1, 2] = value
    for x in (bad, np.asfortranarray(bad)):
        with pytest.raises(ValueError, match=message):
            screen(x, np.tile(y, 60), 2, statistic=name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": np.ones(3000)}, "one class"),
        ({"y": np.arange(3000) % 4, "statistic": "information_value"}, "needs .* two classes, got 4 values"),
        ({"by": np.arange(3000)}, "by has 3,000 different values"),
        ({"by": np.where(np.arange(3000) % 2, np.nan, 1.0)}, "by has missing values"),
        ({"by": np.arange(5)}, "a value for each of the 3,000 rows"),
        ({"by": np.arange(3000) % 2, "statistic": "pearson"}, "'pearson' has no scores by period"),
        ({"covariates": np.arange(3000.0)}, "does not support covariates"),
    ],
)
def test_invalid_options(options, message):
    X, y = make()
    with pytest.raises(ValueError, match=message):
        screen(np.nan_to_num(X), **{"y": y, "keep": 2, "statistic": "chi2", **options})
    with pytest.raises(ValueError, match="n_bins"):
        Chi2(n_bins=1)
