"""Rows of pandas objects are paired by labels."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import train_test_split

from banditsis import SIS, BanditSIS, IterativeSIS, Plan, screen

N = 60


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((N, 4)), columns=list("abcd"), index=[f"row {i}" for i in range(N)])
    y = 2 * X["c"] + 0.1 * rng.standard_normal(N)
    return X, y


def fit_scores(X, y, covariates=None):
    return SIS(2).fit(X, y, covariates=covariates).result_


def assert_close(found, expected):
    """Pandas 2 copies a frame with other labels into another memory order."""
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def screen_scores(X, y, covariates=None):
    return screen(X, y, Plan.exact(N, 4, 2), covariates=covariates)


@pytest.mark.parametrize("run", [fit_scores, screen_scores])
def test_same_labels_in_another_order_are_aligned(data, run):
    X, y = data
    age = pd.DataFrame({"age": np.arange(N) % 7}, index=X.index)
    expected = run(X, y, age)
    result = run(X, y.sample(frac=1, random_state=1), age.sample(frac=1, random_state=2))
    np.testing.assert_array_equal(result.scores, expected.scores)
    assert [note for note in result.notes if note not in expected.notes] == [
        "y was aligned with X by row labels.",
        "covariates were aligned with X by row labels.",
    ]


def test_default_labels_are_labels_once_they_are_shuffled(data):
    X, y = data[0].reset_index(drop=True), data[1].reset_index(drop=True)
    expected = fit_scores(*data)
    assert_close(fit_scores(X, data[1]).scores, expected.scores)  # by position, since X has no labels
    assert_close(fit_scores(X, y.sample(frac=1, random_state=1)).scores, expected.scores)
    train = train_test_split(X, y, random_state=0)
    result = fit_scores(train[0], train[2])
    np.testing.assert_array_equal(result.scores, fit_scores(train[0].to_numpy(), train[2].to_numpy()).scores)
    assert not any("aligned" in note for note in result.notes)


def test_several_responses_are_aligned(data):
    X, y = data
    responses = pd.DataFrame({"y": y, "z": -y})
    shuffled = screen_scores(X, responses.sample(frac=1, random_state=1))
    for result, expected in zip(shuffled, screen_scores(X, responses), strict=True):
        np.testing.assert_array_equal(result.scores, expected.scores)


@pytest.mark.parametrize(
    "convert", [lambda y: y.to_numpy(), lambda y: pd.Series(y.to_numpy()), pl.Series, list]
)
def test_values_without_labels_are_paired_by_position(data, convert):
    X, y = data
    result = fit_scores(X, convert(y))
    np.testing.assert_allclose(result.scores, fit_scores(X, y).scores, rtol=1e-13)
    assert not any("aligned" in note for note in result.notes)


def test_equal_labels_may_be_repeated(data):
    X, y = data
    labels = ["a", "b"] * (N // 2)
    result = fit_scores(X.set_axis(labels), y.set_axis(labels))
    assert_close(result.scores, fit_scores(X, y).scores)


@pytest.mark.parametrize("run", [fit_scores, screen_scores])
def test_other_labels_raise(data, run):
    X, y = data
    with pytest.raises(ValueError, match=r"X and y cannot be .*'row 0' of X: .*y.to_numpy\(\)"):
        run(X, y.set_axis([f"person {i}" for i in range(N)]))
    with pytest.raises(ValueError, match=r"X and covariates cannot be .* 'row 3' of X"):
        run(X, y, y.rename({"row 3": "row x"}))


def test_repeated_labels_in_another_order_raise(data):
    X, y = data
    labels = ["a", "b"] * (N // 2)
    with pytest.raises(ValueError, match=r"cannot be matched one to one, such as '[ab]'"):
        fit_scores(X.set_axis(labels), y.set_axis(labels[::-1]))


def test_reports_align(data):
    """The plots of a report pair rows as the run did."""
    X, y = data
    result, results = screen_scores(X, y), screen_scores(X, pd.DataFrame({"y": y, "z": -y}))
    shuffled = pd.DataFrame({"y": y, "z": -y}).sample(frac=1, random_state=1)
    assert result.to_html(X=X, y=shuffled["y"]) == result.to_html(X=X, y=y)
    assert result.to_html(X=X, y=shuffled["y"].to_numpy()) != result.to_html(X=X, y=y)
    assert results.to_html(X=X, y=shuffled) == results.to_html(X=X, y=np.column_stack([y, -y]))
    with pytest.raises(ValueError, match="row labels of X and y cannot be matched"):
        result.to_html(X=X, y=y.rename({"row 0": "other"}))


def test_bandit_and_iterative_screening_align(data):
    X, y = data
    shuffled = y.sample(frac=1, random_state=1)
    for selector in (BanditSIS(2, random_state=0), IterativeSIS(2)):
        np.testing.assert_array_equal(
            selector.fit(X, shuffled).get_support(), selector.fit(X, y).get_support(), strict=True
        )
    assert "y was aligned with X by row labels." in IterativeSIS(2).fit(X, shuffled).base_.result_.notes
