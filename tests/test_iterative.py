"""Iterative screening finds what matters only together with others."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LassoCV, LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from banditsis import SIS, BanditSIS, IterativeSIS, open_source


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


def test_the_units_of_the_response_do_not_matter():
    X, y = hidden(200, 60, 0.5, 5)
    expected = IterativeSIS(10).fit(X, y).support_
    for unit in (1e-6, 1e-12, 1e9):
        np.testing.assert_array_equal(IterativeSIS(10).fit(X, y * unit).support_, expected)
    assert 4 <= expected.sum() <= 10


class Forgetful(LinearRegression):
    """Keeps everything at first, and nothing once there is more to choose from than two features."""

    def fit(self, X, y):
        super().fit(X, y)
        self.coef_ = self.coef_ * (X.shape[1] <= 2)
        return self


def test_a_model_that_finds_nothing_more_leaves_what_it_found():
    X, y = hidden(200, 40, 0.5, 6)
    selector = IterativeSIS(4, estimator=Forgetful()).fit(X, y)
    np.testing.assert_array_equal(selector.support_.nonzero()[0], selector.history_[0])
    assert selector.support_.sum() == 2


def test_ends_where_nothing_is_left_to_explain():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 30))
    line = X[:, 0] - 2 * X[:, 1]
    exact = IterativeSIS(6, estimator=LinearRegression()).fit(X, line)
    assert exact.support_[:2].all()
    assert exact.n_iter_ == len(exact.history_) == 1
    model = LogisticRegression(C=1e4, l1_ratio=1, solver="liblinear")
    apart = IterativeSIS(6, base=SIS(statistic="logistic"), estimator=model).fit(X, line > 0)
    assert apart.support_[:2].all()
    by_class = IterativeSIS(3, base=SIS(statistic="anova"), estimator=model)
    assert by_class.fit(np.column_stack([line > 0, X]), line > 0).support_[0]
    few = IterativeSIS(25, estimator=LinearRegression()).fit(X[:12], rng.standard_normal(12))
    assert few.support_.sum() == 16  # two thirds of the places, and more than the rows can be given
    base = BanditSIS(alpha=1.1, random_state=0)
    early = IterativeSIS(25, base=base, estimator=LinearRegression()).fit(X, line + rng.standard_normal(60))
    assert early.support_.sum() >= 16
    one = IterativeSIS(3).fit(X[:, :1], line)
    assert one.support_.all()


def test_names_and_pipelines():
    X, y = hidden(200, 40, 0.5, 4)
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(40)])
    assert set(IterativeSIS(8).fit(frame, y).get_feature_names_out()) >= {"g0", "g1", "g2", "g3"}
    assert make_pipeline(IterativeSIS(8), LinearRegression()).fit(X, y).score(X, y) > 0.95


def three_classes(seed):
    """Feature 5 separates the middle class from both others, feature 9 orders all three."""
    rng = np.random.default_rng(seed)
    X, codes = rng.standard_normal((600, 60)), rng.integers(0, 3, 600)
    X[:, 5] += 1.5 * (codes == 1)
    X[:, 9] += 0.4 * codes
    return X, codes


@pytest.mark.parametrize("seed", range(4))
def test_a_feature_of_the_middle_class_is_kept(seed):
    X, codes = three_classes(seed)
    selector = IterativeSIS(20, base=SIS(statistic="anova")).fit(X, codes)
    assert selector.support_[[5, 9]].all()
    for labels in (np.array(["b", "c", "a"])[codes], pd.Series(["x", "y", "z"], dtype="category")[codes]):
        other = IterativeSIS(20, base=SIS(statistic="anova")).fit(X, labels)
        np.testing.assert_array_equal(other.support_, selector.support_)


class LogTimes(LassoCV):
    """A model of (time, event) with one column of coefficients for each of two penalties."""

    def fit(self, X, y):
        super().fit(X[y[:, 1] == 1], np.log(y[y[:, 1] == 1, 0]))
        self.coef_ = np.column_stack([self.coef_, self.coef_ / 2])
        return self


def test_survival_times_need_a_model():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 40))
    times = np.column_stack([rng.exponential(np.exp(X[:, 3] - X[:, 8])), rng.random(400) < 0.8])
    with pytest.raises(ValueError, match=r"statistic='cox'.* pass an estimator .* CoxnetSurvivalAnalysis"):
        IterativeSIS(8, base=SIS(statistic="cox")).fit(X, times)
    for y in (times, pd.DataFrame(times, columns=["time", "event"])):
        selector = IterativeSIS(8, base=SIS(statistic="cox"), estimator=LogTimes()).fit(X, y)
        assert selector.support_[[3, 8]].all()


X, Y = hidden(100, 20, 0.5, 0)
GAPS, UNKNOWN = X.copy(), Y.copy()
GAPS[3, 4] = UNKNOWN[3] = np.nan


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (IterativeSIS(0), "n_features_to_select must be at least 1, got 0"),
        (IterativeSIS(max_iter=0), "max_iter must be at least 1, got 0"),
        (IterativeSIS(base=LassoCV()), r"base must be SIS\(\) or BanditSIS\(\), got LassoCV"),
        (IterativeSIS(base=SIS(missing="pairwise")), "missing='pairwise'.*use missing='raise'"),
        (IterativeSIS(base=SIS(statistic="spearman")), "'spearman', which does not support"),
        (IterativeSIS(base=BanditSIS(min_correlation=0.2)), "min_correlation=0.2.* use alpha or budget"),
        (IterativeSIS(estimator=KNeighborsRegressor()), "must have coef_ or feature_importances_"),
    ],
)
def test_bad_parameters(selector, message):
    with pytest.raises((ValueError, TypeError), match=message):
        selector.fit(X, Y)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, np.where(Y > 0, "a", np.where(Y > -1, "b", "c")), "needs numbers or two classes.*use 'anova'"),
        (open_source(X), Y, "IterativeSIS needs X in memory"),
        (GAPS, Y, "X contains NaN"),
        (X, UNKNOWN, r"the response contains NaN in row 3: drop or replace it\.$"),
        (X, np.column_stack([Y, -Y]), r"y should be a 1d array.* IterativeSIS screens one response"),
    ],
)
def test_bad_data(x, y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        IterativeSIS(base=SIS(statistic="pearson")).fit(x, y)


def test_covariates_that_explain_the_response():
    with pytest.raises(ValueError, match="the response is a linear combination of the covariates"):
        IterativeSIS().fit(X, Y, covariates=Y)
