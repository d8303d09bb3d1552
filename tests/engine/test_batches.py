"""Exact screening of batches of rows."""

import numpy as np
import pandas as pd
import pytest

from banditsis import SIS
from banditsis.results import is_exact

rng = np.random.default_rng(0)
N, P = 4000, 60
X = rng.standard_normal((N, P)) + 1e5
Y = X[:, :5] @ [0.3, -0.2, 0.2, 0.1, 0.1] + rng.standard_normal(N)
Y -= Y.mean()
RESPONSES = {
    "pearson": Y,
    "anova": np.digitize(Y, [-0.5, 0.5]),
    "logistic": np.where(Y > 1, "yes", "no"),
    "poisson": rng.poisson(np.exp(0.3 * Y)),
}


def fit_batches(cuts, y, order=None, data=X, **options):
    selector, parts = SIS(6, **options), np.split(np.arange(N), cuts)
    has_classes = options.get("statistic") in ("anova", "logistic")
    for k in order or range(len(parts)):
        selector.partial_fit(data[parts[k]], y[parts[k]], np.unique(y) if has_classes else None)
    return selector


@pytest.mark.parametrize("missing", ["raise", "pairwise"])
@pytest.mark.parametrize("name", RESPONSES)
def test_batches_in_any_order_give_what_all_rows_give(name, missing):
    y, data = RESPONSES[name], X.copy()
    if missing == "pairwise":
        data[rng.random(X.shape) < 0.1] = np.nan
    expected = SIS(6, statistic=name, missing=missing).fit(data, y).result_
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        found = fit_batches([50, 1500, 1501], y, order, data, statistic=name, missing=missing).result_
        np.testing.assert_array_equal(found.selected, expected.selected)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-9)
        assert is_exact(found)
        assert found.n_rows == N
        if expected.effects is not None:
            np.testing.assert_allclose(found.effects.beta, expected.effects.beta, rtol=1e-6)
        if name == "pearson":
            np.testing.assert_allclose(found.pvalues, expected.pvalues, rtol=1e-5)


def test_sorted_batches_and_batches_without_some_classes():
    order, y = np.argsort(Y), RESPONSES["anova"]
    found = fit_batches(range(500, N, 500), y[order], data=X[order], statistic="anova").scores_
    np.testing.assert_allclose(found, SIS(6, statistic="anova").fit(X, y).scores_, atol=1e-9)


def test_a_new_fit_starts_again_and_a_failed_batch_changes_nothing():
    selector = fit_batches([2000], Y)
    before, bad = selector.scores_, np.where(np.arange(P) == 4, np.nan, X[:10])
    for batch, message in (
        (bad, "NaN in column"),
        (bad[:, 1:], "X has 59 features, but SIS is expecting 60"),
    ):
        with pytest.raises(ValueError, match=message):
            selector.partial_fit(batch, Y[:10])
    np.testing.assert_allclose(selector.partial_fit(X[:1], Y[:1]).scores_, before, atol=1e-3)
    selector.fit(X[:500], Y[:500]).partial_fit(X[500:900], Y[500:900])
    assert selector.result_.n_rows == 400


def test_what_batches_cannot_do():
    for options in ({"max_samples": 0.5}, {"avoid_redundancy": True}):
        assert not hasattr(SIS(3, **options), "partial_fit")
    with pytest.raises(ValueError, match="cannot be merged for the statistic 'spearman'"):
        SIS(3, statistic="spearman").partial_fit(X, Y)
    selector = SIS(3).partial_fit(X, RESPONSES["logistic"])
    with pytest.raises(ValueError, match="which earlier batches did not have: pass all"):
        selector.partial_fit(X[:1], ["maybe"])
    frame = pd.DataFrame(X[:100], columns=[f"a{j}" for j in range(P)])
    selector = SIS(3).partial_fit(frame, Y[:100])
    with pytest.raises(ValueError, match="same names, in the same order"):
        selector.partial_fit(frame[frame.columns[::-1]], Y[:100])
    assert len(SIS(fdr=0.05).partial_fit(X, Y).result_.selected) == 5
