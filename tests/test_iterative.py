"""Iterative screening finds what matters only together with others."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LassoCV, LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from banditsis import SIS, BanditSIS, IterativeSIS


@parametrize_with_checks([IterativeSIS()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def hidden(n, p, rho, seed):
    """Fan and Lv's example: the fourth feature has no correlation with the response, but a large effect."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(n)
    X = np.sqrt(rho) * common[:, None] + np.sqrt(1 - rho) * rng.standard_normal((n, p))
    X[:, 3] = common
    y = 5 * X[:, :3].sum(axis=1) - 15 * np.sqrt(rho) * common + rng.standard_normal(n)
    return X, y


@pytest.mark.parametrize("seed", range(3))
def test_finds_the_hidden_feature(seed):
    X, y = hidden(200, 500, 0.5, seed)
    assert not SIS(30).fit(X, y).get_support()[3]
    selector = IterativeSIS(30).fit(X, y)
    assert selector.get_support()[:4].all()
    assert selector.get_support().sum() <= 30
    assert selector.n_iter_ == len(selector.history_) > 1
    np.testing.assert_array_equal(selector.transform(X), X[:, selector.support_])


def test_base_estimator_and_covariates():
    X, y = hidden(1000, 100, 0.5, 1)
    base = BanditSIS(random_state=0)
    selector = IterativeSIS(20, base=base, estimator=LassoCV(cv=3), max_iter=4)
    again = clone(selector).fit(X, y)
    assert again.support_[:4].all()
    assert base.n_features_to_select is None
    assert isinstance(again.base_, BanditSIS)
    other = IterativeSIS(20).fit(np.delete(X, 3, axis=1), y, covariates=X[:, 3])
    assert other.support_[:3].all()
    assert other.base_.result_.parameters["covariates"] >= 1


def test_classes_with_a_sparse_model():
    X, y = hidden(600, 60, 0.5, 2)
    model = LogisticRegression(C=0.5, l1_ratio=1, solver="liblinear")
    selector = IterativeSIS(12, base=SIS(statistic="logistic"), estimator=model).fit(X, y > 0)
    assert selector.support_[:4].all()


def test_a_model_that_is_not_sparse_keeps_what_fits():
    X, y = hidden(300, 50, 0.5, 3)
    selector = IterativeSIS(8, estimator=LinearRegression()).fit(X, y)
    assert selector.support_.sum() == 8


def test_names_and_pipelines():
    X, y = hidden(200, 40, 0.5, 4)
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(40)])
    assert set(IterativeSIS(8).fit(frame, y).get_feature_names_out()) >= {"g0", "g1", "g2", "g3"}
    assert make_pipeline(IterativeSIS(8), LinearRegression()).fit(X, y).score(X, y) > 0.95


@pytest.mark.parametrize(
    ("selector", "error", "message"),
    [
        (IterativeSIS(0), ValueError, "n_features_to_select must be at least 1, got 0"),
        (IterativeSIS(max_iter=0), ValueError, "max_iter must be at least 1, got 0"),
        (IterativeSIS(base=LassoCV()), TypeError, r"base must be SIS\(\) or BanditSIS\(\), got LassoCV"),
    ],
)
def test_bad_parameters(selector, error, message):
    with pytest.raises(error, match=message):
        selector.fit(*hidden(100, 20, 0.5, 0))
