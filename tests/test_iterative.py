"""Iterative screening finds what matters only together with others."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LassoCV, LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline

from banditsis import SIS, BanditSIS, IterativeSIS, open_source
from reference import correlations


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
    support = selector.get_support()
    assert (support[:4].all(), support.sum() <= 30) == (True, True)
    assert selector.n_iter_ == len(selector.history_) > 1
    np.testing.assert_array_equal(selector.transform(X), X[:, support])


def test_screener_estimator_and_covariates():
    X, y = hidden(1000, 100, 0.5, 1)
    screener = BanditSIS(random_state=0)
    lasso = clone(IterativeSIS(20, screener=screener, estimator=LassoCV(cv=3), max_iter=4)).fit(X, y)
    assert screener.n_features_to_select is None
    assert isinstance(lasso.screener_, BanditSIS)
    model = LogisticRegression(C=0.5, l1_ratio=1, solver="liblinear")
    classes = IterativeSIS(12, screener=SIS(statistic="logistic"), estimator=model).fit(X, y > 0)
    given = IterativeSIS(20).fit(np.delete(X, 3, axis=1), y, covariates=X[:, 3])
    assert given.screener_.result_.parameters["covariates"] >= 1
    for selector, n_found in ((lasso, 4), (classes, 4), (given, 3)):
        assert selector.get_support()[:n_found].all()


def test_the_units_of_the_response_do_not_matter():
    X, y = hidden(200, 60, 0.5, 5)
    expected = IterativeSIS(10).fit(X, y).get_support()
    for unit in (1e-12, 1e9):
        np.testing.assert_array_equal(IterativeSIS(10).fit(X, y * unit).get_support(), expected)
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
    found = selector.get_support(indices=True)
    assert (set(found), len(found)) == (set(selector.history_[0]), 2)
    note = "2 features selected, fewer than the 4 allowed: the model keeps no others."
    assert selector.result_.notes[0] == note


def test_ends_where_nothing_is_left_to_explain():
    rng = np.random.default_rng(0)
    X, noise = rng.standard_normal((60, 30)), rng.standard_normal(60)
    line, everything = X[:, 0] - 2 * X[:, 1], LinearRegression()
    exact = IterativeSIS(6, estimator=everything).fit(X, line)
    assert exact.n_iter_ == len(exact.history_) == 1
    model = LogisticRegression(C=1e4, l1_ratio=1, solver="liblinear")
    apart = IterativeSIS(6, screener=SIS(statistic="logistic"), estimator=model).fit(X, line > 0)
    assert (exact.get_support() & apart.get_support())[:2].all()
    by_class = IterativeSIS(3, screener=SIS(statistic="anova"), estimator=model)
    assert by_class.fit(np.column_stack([line > 0, X]), line > 0).get_support()[0]
    few = IterativeSIS(25, estimator=everything).fit(X[:12], noise[:12])
    assert few.get_support().sum() == 16  # two thirds of the places, and more than the rows can be given
    early = IterativeSIS(25, screener=BanditSIS(alpha=1.1, random_state=0), estimator=everything)
    assert early.fit(X, line + noise).get_support().sum() >= 16
    assert IterativeSIS(3).fit(X[:, :1], line).get_support().all()


def test_the_result_has_rounds_and_scores():
    X, y = hidden(200, 500, 0.5, 0)
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(500)])
    selector = IterativeSIS(30, statistic="pearson").fit(frame, y)
    result = selector.result_
    assert set(result.selected) == set(selector.get_support(indices=True))
    assert [step.n_kept for step in result.rounds] == [len(kept) for kept in selector.history_]
    assert result.cells_read == selector.n_iter_ * X.size
    # Those of the first iteration have their correlation, the hidden one its partial correlation given them.
    first = selector.history_[0]
    assert (3 in first, 3 in selector.history_[1]) == (False, True)
    chosen = np.intersect1d(first, result.selected)
    np.testing.assert_allclose(result.scores[chosen], correlations(X[:, chosen], y))
    given = np.column_stack([np.ones(200), X[:, first]])
    left = [v - given @ np.linalg.lstsq(given, v)[0] for v in (X[:, 3], y)]
    assert result.scores[3] == pytest.approx(np.corrcoef(*left)[0, 1])
    with pytest.raises(ValueError, match="no p-values: a model chose the features in several iterations"):
        result.select()
    assert ("not known" in str(result), "pvalues=True" in str(result)) == (True, False)
    assert "<svg" in result.to_html()


def test_features_of_a_file_are_read_by_column(tmp_path):
    X, y = hidden(300, 60, 0.5, 3)
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(60)])
    frame.to_parquet(tmp_path / "x.parquet")
    expected = IterativeSIS(12).fit(frame, y)
    assert set(expected.get_feature_names_out()) >= {"g0", "g1", "g2", "g3"}
    for source in (open_source(X), open_source(tmp_path / "x.parquet"), csr_array(X)):
        found = IterativeSIS(12).fit(source, y)
        np.testing.assert_array_equal(found.result_.selected, expected.result_.selected)
        kept = csr_array(found.transform(source)).toarray()
        np.testing.assert_array_equal(kept, X[:, expected.get_support()])
    assert make_pipeline(IterativeSIS(8), LinearRegression()).fit(X, y).score(X, y) > 0.95


@pytest.mark.parametrize("seed", range(2))
def test_a_feature_of_the_middle_class_is_kept(seed):
    """Feature 5 separates the middle class from both others, feature 9 orders all three."""
    rng = np.random.default_rng(seed)
    X, codes = rng.standard_normal((600, 60)), rng.integers(0, 3, 600)
    X[:, 5] += 1.5 * (codes == 1)
    X[:, 9] += 0.4 * codes
    kinds = codes, np.array(["b", "c", "a"])[codes], pd.Series(["x", "y", "z"], dtype="category")[codes]
    found = [IterativeSIS(20, screener=SIS(statistic="anova")).fit(X, y).get_support() for y in kinds]
    assert found[0][[5, 9]].all()
    np.testing.assert_array_equal(found[1:], [found[0]] * 2)


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
        IterativeSIS(8, screener=SIS(statistic="cox")).fit(X, times)
    for y in (times, pd.DataFrame(times, columns=["time", "event"])):
        selector = IterativeSIS(8, screener=SIS(statistic="cox"), estimator=LogTimes()).fit(X, y)
        assert selector.get_support()[[3, 8]].all()


X, Y = hidden(100, 20, 0.5, 0)
GAPS, UNKNOWN = X.copy(), Y.copy()
GAPS[3, 4] = UNKNOWN[3] = np.nan
LETTERS = np.array(["a", "b", "c"])[np.digitize(Y, [-1, 0])]
DATA, PEARSON = (X, Y), IterativeSIS(screener=SIS(statistic="pearson"))


@pytest.mark.parametrize(
    ("selector", "data", "message"),
    [
        (IterativeSIS(0), DATA, "n_features_to_select must be at least 1, got 0"),
        (IterativeSIS(max_iter=0), DATA, "max_iter must be at least 1, got 0"),
        (IterativeSIS(screener=LassoCV()), DATA, r"screener must be SIS\(\) or BanditSIS\(\), got LassoCV"),
        (IterativeSIS(screener=SIS(missing="pairwise")), DATA, "missing='pairwise'.*use missing='raise'"),
        (IterativeSIS(screener=SIS(statistic="spearman")), DATA, "'spearman', which does not support"),
        (IterativeSIS(screener=BanditSIS(min_correlation=0.2)), DATA, "correlation=0.2.* alpha or budget"),
        (IterativeSIS(estimator=KNeighborsRegressor()), DATA, "must have coef_ or feature_importances_"),
        (PEARSON, (X, LETTERS), "two classes.*use 'anova'"),
        (PEARSON, (GAPS, Y), r"NaN in column 'x4', row 3.*must be complete: impute.*leave such columns out"),
        (PEARSON, (X, UNKNOWN), r"the response contains NaN in row 3: drop or replace it\.$"),
        (
            PEARSON,
            (X, np.column_stack([Y, -Y])),
            r"y should be a 1d array.* IterativeSIS screens one response",
        ),
        (PEARSON, (X, Y, Y), "the response is a linear combination of the covariates"),
    ],
)
def test_bad_parameters_and_data(selector, data, message):
    x, y, *covariates = data
    with pytest.raises((ValueError, TypeError), match=message):
        selector.fit(x, y, **({"covariates": covariates[0]} if covariates else {}))
