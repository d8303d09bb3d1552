"""Features that look like a mistake, and ordinary data that have none."""

import numpy as np
import pytest
from sklearn import datasets
from sklearn.metrics import roc_auc_score

from banditsis import SIS, BanditSIS
from banditsis.results.sentences import describe_answer

LEAKAGE = "possible leakage"
N = 4000
rng = np.random.default_rng(5)
CASES = rng.random(N) < 0.24
#: One honest feature, and noise.
X = rng.standard_normal((N, 30))
X[:, 3] += 0.9 * CASES
SELECTORS = [SIS(8), BanditSIS(8, random_state=0), BanditSIS(8, alpha=0.5, random_state=0)]


def with_column(values):
    """The features with one that leaks, as the first."""
    return np.column_stack([values, X])


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("labels", [(0.0, 1.0), ("No", "Yes")])
def test_a_feature_that_separates_two_classes(selector, labels):
    """However skewed it is: its correlation is that of an ordinary feature."""
    skewed = np.where(CASES, 1 + rng.lognormal(0, 2, N), rng.random(N))
    assert np.corrcoef(skewed, CASES)[0, 1] < 0.5
    y = np.where(CASES, labels[1], labels[0])
    result = selector.fit(with_column(skewed), y).result_
    assert result.flags == {0: LEAKAGE}
    assert any("'x0' (separates the two classes)" in note for note in result.notes)
    assert selector.fit(with_column(-skewed), y).result_.flags == {0: LEAKAGE}


def test_rows_that_are_sorted_by_class_or_have_rare_cases():
    order = np.argsort(CASES, kind="stable")
    copy = with_column(CASES + rng.normal(0, 0.05, N))
    assert SIS(8).fit(copy[order], CASES[order] * 1.0).result_.flags == {0: LEAKAGE}
    rare = np.zeros(N)
    rare[-15:] = 1
    leak = np.where(rare, rng.lognormal(0, 2, N) + 0.1, 0.1 * rng.random(N))
    assert SIS(8).fit(with_column(leak), rare).result_.flags == {0: LEAKAGE}


def test_a_class_that_is_nearly_separated_is_not_flagged():
    """An AUC of 0.99 is that of a strong feature."""
    x = CASES + rng.normal(0, 0.3, N)
    for n_missing in (0, 500):
        x[:n_missing] = np.nan
        assert 0.98 < roc_auc_score(CASES[n_missing:], x[n_missing:]) < 0.998
        assert SIS(8, missing="pairwise").fit(with_column(x), CASES * 1.0).result_.flags == {}


@pytest.mark.parametrize("selector", SELECTORS)
def test_nearly_a_copy_of_the_response(selector):
    y = X[:, 4] + rng.standard_normal(N)
    assert list(selector.fit(X, y).result_.to_frame()["flag"]) == [""] * 8
    copy = -y + 0.001 * rng.standard_normal(N)
    result = selector.fit(with_column(copy), y).result_
    assert result.flags == {0: LEAKAGE}
    assert list(result.to_frame()["flag"]) == [LEAKAGE] + [""] * 7
    assert any("'x0' (nearly a copy of the response)" in note for note in result.notes)


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_score_far_above_all_others(selector):
    noise = 0.41 * rng.standard_normal((2, N))
    y = X[:, 4] + rng.standard_normal(N)
    leak = y + y.std() * noise[0]  # |r| = 0.925, and 0.7 is the next
    assert selector.fit(with_column(leak), y).result_.flags == {}
    y = 0.5 * X[:, 4] + rng.standard_normal(N)  # 0.45
    leak = y + y.std() * noise[1]
    result = selector.fit(with_column(leak), y).result_
    assert result.flags == {0: LEAKAGE}
    assert any("'x0' (|r| far above all others)" in note for note in result.notes)
    twice = np.column_stack([leak, with_column(-leak)])
    assert selector.fit(twice, y).result_.flags == {0: LEAKAGE, 1: LEAKAGE}


def test_flagged_features_are_not_findings():
    leak = with_column(CASES + rng.normal(0, 0.05, N))
    result = SIS(8).fit(leak, CASES * 1.0).result_
    assert set(result.associated) == {0, 4}  # x3 before the column was added
    sentence = "1 of 8 clearly associated; 1 possible leakage; the other 6 are unclear."
    assert describe_answer(result) == sentence
    assert sentence in result.to_html()
    for d in (1, 2):
        answer = describe_answer(SIS(d).fit(leak, CASES * 1.0).result_)
        assert answer == f"{d - 1} of {d} clearly associated; 1 possible leakage."
    both = SIS(8).fit(leak, np.column_stack([CASES, X[:, 0]]) * 1.0).result_
    assert [line.split()[:3] for line in str(both).splitlines()[2:]] == [["y0", "8", "1"], ["y1", "8", "0"]]
    found = SIS(fdr=0.05).fit(leak, CASES * 1.0).result_
    n = len(found.selected) - 1
    noun = "discovery" if n == 1 else "discoveries"
    assert describe_answer(found) == f"{n} {noun} at a false discovery rate of 5%; 1 possible leakage."


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits", "diabetes"])
def test_real_data_are_not_flagged(name):
    """Also classes that several features separate, such as the first species of iris."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    responses = [y] if name == "diabetes" else [1.0 * (y == label) for label in np.unique(y)]
    for response in responses:
        for selector in (SIS(1), SIS(X.shape[1]), BanditSIS(random_state=0)):
            assert selector.fit(X, response).result_.flags == {}


def test_many_features_that_separate_few_rows_are_not_flagged():
    """As genes do that differ between two tissues."""
    y = np.repeat([0.0, 1.0], [27, 11])
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((38, 2000))
        X[:, :100] += np.outer(y, rng.uniform(2, 6, 100))
        assert all(SIS(d).fit(X, y).result_.flags == {} for d in (1, 5, 50))
