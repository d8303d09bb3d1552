"""The second stage: what it chooses, from which correlations, and what the result says about it."""

import numpy as np
import pandas as pd
import pytest

from banditsis import SIS, BanditSIS, IterativeSIS, Plan, open_source, screen
from banditsis.engine.redundancy import choose, correlation_among, find_sizes
from banditsis.results import keep_significant


def simulate(seed=0, n=600, p=60):
    """Features in correlated groups of five, and a response."""
    rng = np.random.default_rng(seed)
    shared = np.repeat(rng.standard_normal((n, p // 5)), 5, axis=1)
    X = shared * rng.uniform(0.3, 2, p) + rng.standard_normal((n, p)) + rng.uniform(-5, 5, p)
    return X, X[:, ::7] @ rng.standard_normal(len(X[0, ::7])) + 3 * rng.standard_normal(n)


def choose_slowly(X, relevance, size):
    """Regress every feature on the chosen ones in every step."""
    chosen = []
    for _ in range(size):
        gains = np.full(X.shape[1], -1.0)
        for j in set(range(X.shape[1])) - set(chosen):
            x = X[:, j] - X[:, j].mean()
            design = np.column_stack([np.ones(len(X)), X[:, chosen]])
            rest = X[:, j] - design @ np.linalg.lstsq(design, X[:, j], rcond=None)[0]
            gains[j] = relevance[j] * (rest @ rest) / (x @ x)
        chosen.append(int(gains.argmax()))
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_choice_equals_explicit_regressions(seed):
    X, y = simulate(seed)
    result = SIS(20, avoid_redundancy=True).fit(X, y).result_
    assert result.selected.tolist() == choose_slowly(X, result.scores**2, 20)
    np.testing.assert_allclose(result.evidence.correlation, np.corrcoef(X[:, result.selected].T), atol=1e-12)


def test_copies_are_not_chosen_twice_and_are_listed():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 40))
    y = X[:, :4] @ [4, 3, 2, 1] + rng.standard_normal(1000)
    X[:, 10:18] = X[:, :1] + 0.05 * rng.standard_normal((1000, 8))
    X[:, 20], X[:, 21] = -X[:, 1], 1e6 - 3 * X[:, 1]
    result = SIS(4, avoid_redundancy=True).fit(X, y).result_
    families = [{0, *range(10, 18)}, {1, 20, 21}, {2}, {3}]
    assert all(k in family for k, family in zip(result.selected, families, strict=True))
    first, second = (int(k) for k in result.selected[:2])
    groups = {k: set(group) for k, group in result.evidence.near_duplicates.items()}
    assert groups == {first: families[0] - {first}, second: families[1] - {second}}
    assert f"x{first} stands for 8 features with |r| > 0.95." in result.notes
    assert set(SIS(4).fit(X, y).get_support(indices=True)) <= families[0]


def test_significant_features_keep_their_correlations():
    X, y = simulate()
    X[:, 1], X[:, 59] = X[:, 0], X[:, 58]
    result = SIS(40, avoid_redundancy=True).fit(X, y).result_
    fewer = keep_significant(result, 1e-9)
    assert 1 < len(fewer.selected) < 40
    np.testing.assert_allclose(fewer.evidence.correlation, np.corrcoef(X[:, fewer.selected].T), atol=1e-12)
    assert 0 < len(fewer.evidence.near_duplicates) < len(result.evidence.near_duplicates)
    assert set(fewer.evidence.near_duplicates) <= set(fewer.selected)


def test_copies_fill_up_by_score_if_nothing_else_is_left():
    x = np.random.default_rng(0).standard_normal((100, 2))
    X = np.column_stack([x[:, 0], x[:, 0], x[:, 1], x[:, 1], np.full(100, 0.1)])
    y = x @ [1, 2]
    for size in (2, 3, 4, 5, 9):
        selected = SIS(size, avoid_redundancy=True).fit(X, y).result_.selected.tolist()
        assert selected == [2, 0, 3, 1, 4][:size]
    assert choose(np.ones(5), np.eye(5), 3).tolist() == [0, 1, 2]


def test_adaptive_runs_use_the_rows_they_read():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 1000))
    X[:, 500:520] = X[:, :1] + 0.1 * rng.standard_normal((20_000, 20))
    y = X[:, :3] @ [2, 1, 0.8] + rng.standard_normal(20_000)
    selector = BanditSIS(3, avoid_redundancy=True, random_state=0).fit(X, y)
    result = selector.result_
    assert result.selected[0] in {0, *range(500, 520)}
    assert result.selected[1:].tolist() == [1, 2]
    assert result.rounds[-1].n_kept == result.evidence.n_candidates == 200
    assert 200 * result.rounds[-1].n_rows < result.evidence.cells_reread < 200 * len(X)
    assert len(result.evidence.informative) == 3
    assert "was one of the 200 candidates with probability 95%" in " ".join(str(result).split())
    np.testing.assert_allclose(result.evidence.correlation, np.corrcoef(X[:, result.selected].T), atol=0.05)
    np.testing.assert_array_equal(selector.ranking_[result.selected], [1, 2, 3])


def test_pvalues_come_from_all_rows_of_the_chosen_features():
    X, y = simulate(n=5000, p=300)
    settings = {"avoid_redundancy": True, "random_state": 0}
    result = BanditSIS(5, alpha=0.5, pvalues=True, **settings).fit(X, y).result_
    expected = [np.corrcoef(X[:, k], y)[0, 1] for k in result.selected]
    np.testing.assert_allclose(result.scores[result.selected], expected)
    assert np.flatnonzero(np.isfinite(result.log10_pvalues)).tolist() == np.sort(result.selected).tolist()
    assert result.cells_read < X.size


def test_rows_sampled_in_strata_are_weighted():
    rng = np.random.default_rng(0)
    rare = rng.random(50_000) < 0.01
    X = rng.standard_normal((50_000, 400)) + 2 * rare[:, None] * (np.arange(400) < 10)
    result = BanditSIS(5, avoid_redundancy=True, random_state=0).fit(X, rare * 1.0).result_
    assert result.parameters["sampling"] == "stratified"
    # In the rows read, which are full of the rare class, these features are strongly correlated.
    np.testing.assert_allclose(result.evidence.correlation, np.corrcoef(X[:, result.selected].T), atol=0.08)


def test_sample_weights_weight_correlations():
    X, y = simulate()
    w = np.random.default_rng(1).integers(0, 4, len(y))
    weighted = SIS(10, avoid_redundancy=True).fit(X, y, sample_weight=w).result_
    repeated = SIS(10, avoid_redundancy=True).fit(np.repeat(X, w, axis=0), np.repeat(y, w)).result_
    np.testing.assert_array_equal(weighted.selected, repeated.selected)
    np.testing.assert_allclose(weighted.evidence.correlation, repeated.evidence.correlation, atol=1e-10)


def test_missing_values_count_as_means():
    X, y = simulate()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SIS(10, avoid_redundancy=True).fit(X, y)
    result = SIS(10, avoid_redundancy=True, missing="pairwise").fit(X, y).result_
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    expected = np.corrcoef(filled[:, result.selected].T)
    np.testing.assert_allclose(result.evidence.correlation, expected, atol=1e-12)
    assert len(result.evidence.present) == 10


def test_correlations_are_accurate_for_difficult_columns():
    x = np.random.default_rng(0).standard_normal((200, 3))
    X = np.column_stack([1e8 + x[:, 0], 1e200 * x[:, 1], 1e-200 * x[:, 2], np.full(200, 0.1)])
    expected = np.pad(np.corrcoef(x.T), (0, 1))
    expected[3, 3] = 1  # of the constant
    found = correlation_among(open_source(X), np.arange(4), slice(0, 200))
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_exact_runs_do_not_depend_on_the_seed():
    X, y = simulate(n=15_000)
    first, second = (screen(X, y, 20, avoid_redundancy=True, random_state=k) for k in (0, 1))
    np.testing.assert_array_equal(first.selected, second.selected)
    np.testing.assert_array_equal(first.evidence.correlation, second.evidence.correlation)
    assert first.evidence.cells_reread == 10_000 * 60
    np.testing.assert_allclose(first.evidence.correlation, np.corrcoef(X[:, first.selected].T), atol=0.04)


def test_estimator_contract():
    X, y = simulate()
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    selector = SIS(10, avoid_redundancy=True).fit(frame, y)
    assert selector.transform(frame).shape == (len(y), 10)
    assert list(selector.get_feature_names_out()) == [f"f{k}" for k in np.sort(selector.result_.selected)]
    assert IterativeSIS(8, screener=SIS(avoid_redundancy=True)).fit(X, y).get_support().sum() <= 8


def test_invalid_settings():
    X, y = simulate()
    with pytest.raises(ValueError, match="needs the number of features to keep"):
        BanditSIS(min_correlation=0.1, avoid_redundancy=True).fit(X, y)
    with pytest.raises(ValueError, match="avoid_redundancy"):
        SIS(avoid_redundancy="mrmr").fit(X, y)
    with pytest.raises(ValueError, match="at most 1,024"):
        find_sizes(1025, 100, 5000, True)
    for size, p, n_candidates in ((1500, 2000, 2000), (10, 10**5, 200), (100, 10**5, 800), (100, 300, 300)):
        assert find_sizes(size, 100, p, True) == (n_candidates, size)
    for option in ({"avoid_redundancy": True}, {"alpha": 0.5}, {"exact": True}):
        with pytest.raises(ValueError, match=f"keep is a plan, which {next(iter(option))} would change"):
            screen(X, y, Plan.exact(*X.shape, 4), **option)
    with pytest.raises(ValueError, match="avoid_redundancy must be True or False, got 2"):
        screen(X, y, 4, avoid_redundancy=2)
