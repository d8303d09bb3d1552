"""The scikit-learn shell."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.feature_selection import SelectKBest, r_regression
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from banditsis import SIS, BanditSIS, IterativeSIS, TableEncoder, build_index, open_source
from banditsis.plans import ALL_ROWS_READ
from banditsis.results import has_pvalues

WEIGHTS = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
REPEATED = "the default number of features depends on the number of rows, not on their weights"
SELECTORS = [SIS(), SIS(max_samples=0.5), SIS(statistic="anova"), BanditSIS(), SIS(missing="pairwise")]


@parametrize_with_checks(
    [*SELECTORS, IterativeSIS(), TableEncoder()],
    expected_failed_checks=lambda selector: dict.fromkeys(WEIGHTS, REPEATED) if selector in SELECTORS else {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 120))
    return X, 2 * X[:, 5] - X[:, 17] + X[:, 80] + rng.standard_normal(4000)


def test_sis_selects_what_select_k_best_selects(data):
    X, y = data
    theirs = SelectKBest(lambda X, y: np.abs(r_regression(X, y)), k=10).fit(X, y)
    np.testing.assert_array_equal(SIS(10).fit(X, y).get_support(), theirs.get_support())


def test_default_size_is_the_papers_but_selects_something_away(data):
    X, y = data
    assert SIS().fit(X, y).get_support().sum() == 60  # ceil(p / 2)
    assert SIS().fit(X[:200], y[:200]).get_support().sum() == 37  # floor(200 / log 200)


def test_ranking_puts_dropped_features_behind(data):
    selector = BanditSIS(5, alpha=0.5, random_state=1).fit(*data)
    result, by_rank = selector.result_, np.argsort(selector.ranking_)
    assert set(selector.get_support(indices=True)) > {5, 17, 80}
    assert result.fraction_read < 0.2
    assert sorted(selector.ranking_) == list(range(1, 121))
    np.testing.assert_array_equal(by_rank[:5], result.selected)
    dropped = by_rank[5:]
    for features in (by_rank[:5], dropped):  # by round, and within a round by size
        order = np.lexsort((-np.abs(result.scores[features]), -result.last_round[features]))
        np.testing.assert_array_equal(order, np.arange(len(features)))
    assert result.last_round[dropped].max() <= result.last_round[by_rank[:5]].min()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_in_names_out(data, frame):
    X, y = data
    table = frame({f"gene{j}": X[:, j] for j in range(120)})
    selector = SIS(3).fit(table, y)
    assert list(selector.get_feature_names_out()) == ["gene5", "gene17", "gene80"]
    assert selector.result_.selected_names[0] == "gene5"
    np.testing.assert_array_equal(selector.transform(table), X[:, [5, 17, 80]])
    for library in ("pandas", "polars"):
        out = selector.set_output(transform=library).transform(table)
        assert type(out).__module__.startswith(library)
        assert list(out.columns) == ["gene5", "gene17", "gene80"]


def test_pipeline_and_grid_search(data):
    X, y = data
    pipeline = make_pipeline(BanditSIS(random_state=0), LinearRegression())
    search = GridSearchCV(pipeline, {"banditsis__n_features_to_select": [1, 3]}, cv=3).fit(X, y)
    assert search.best_params_ == {"banditsis__n_features_to_select": 3}


def test_transform_checks_only_the_selected_columns(data):
    X, y = data
    selector = SIS(3).fit(X, y)
    large = np.tile(X, (3, 1))
    large[3, 0] = np.nan
    selector.transform(large)
    selector.transform(pd.DataFrame(large))
    selected = large.copy()
    selected[3, 17] = np.nan
    for wrong in (selected, large[:50]):  # which has fewer than a million cells
        with pytest.raises(ValueError, match="NaN"):
            selector.transform(wrong)


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (SIS(0), ValueError, "n_features_to_select must be at least 1, got 0"),
        (SIS(2.5), TypeError, "n_features_to_select must be an integer"),
        (SIS(max_samples=0), ValueError, "max_samples must be from 3 to 4,000, got 0"),
        (SIS(max_samples=1.5), ValueError, r"max_samples must be in \(0, 1\], got 1.5"),
        (SIS(statistic="spearmint"), ValueError, "statistic must be one of 'auto', 'pearson', 'anova'"),
        (SIS(pvalues=2), ValueError, "pvalues must be True or False, got 2"),
        (BanditSIS(alpha=0), ValueError, "alpha must be a finite number greater than 0, got 0"),
        (BanditSIS(confidence=0.9), ValueError, r"confidence=0\.9 needs min_correlation"),
        (BanditSIS(progress="yes"), TypeError, "progress must be True, False, None or a function"),
        (BanditSIS(row_order="sorted"), ValueError, "row_order must be one of"),
    ],
)
def test_bad_parameters(data, estimator, error, message):
    with pytest.raises(error, match=message):
        estimator.fit(*data)


@pytest.mark.parametrize("selector", [SIS(2), BanditSIS(2), IterativeSIS(2)])
def test_only_data_and_response_are_positional(data, selector):
    """A third argument could be meant as weights, as in scikit-learn, or as covariates."""
    with pytest.raises(TypeError, match="positional"):
        selector.fit(*data, data[1])


def test_repeated_column_names_are_reported(data):
    X, y, names = data[0][:300, :4], data[1][:300], ["a", "b", "c", "a"]
    pandas, arrow = pd.DataFrame(X, columns=names), pa.table(list(X.T.copy()), names=names)
    for frame in (pandas, pandas.assign(b=1), arrow):  # the second has mixed types
        for selector in (SIS(2), BanditSIS(2), IterativeSIS(2)):
            transform = clone(selector).fit(X, y).transform
            for use, *given in ((selector.fit, frame, y), (transform, frame)):
                with pytest.raises(ValueError, match="the frame has several columns called 'a'"):
                    use(*given)
        scores = [SIS(2).fit(X, y, covariates=given).scores_ for given in (frame, np.asarray(frame))]
        np.testing.assert_array_equal(*scores)  # covariates need no names


def test_all_rows_are_read_by_default_where_that_is_as_fast():
    """Small data have p-values and marks, whatever the number of threads; alpha asks for a sample."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((38, 500))
    y = X[:, 3] - X[:, 8] + 0.3 * rng.standard_normal(38)
    for n_jobs in (1, 4):
        small = BanditSIS(5, random_state=0, n_jobs=n_jobs).fit(X, y).result_
        assert (ALL_ROWS_READ in small.notes, has_pvalues(small), {*small.associated}) == (True, True, {3, 8})
        np.testing.assert_array_equal(small.scores, SIS(5).fit(X, y).scores_)
    found = BanditSIS(fdr=0.05, random_state=0).fit(X, y).result_
    np.testing.assert_array_equal(found.selected, SIS(fdr=0.05).fit(X, y).result_.selected)
    sampled = BanditSIS(5, alpha=1.0, random_state=0).fit(X, y).result_
    large = BanditSIS(5, random_state=0).fit(np.tile(X, (400, 4)).astype("f4"), np.tile(y, 400)).result_
    assert max(sampled.fraction_read, 5 * large.fraction_read) < 1
    assert any("exact screening, which reads every row, would be" in note for note in sampled.notes)
    assert not [note for note in large.notes if "as fast" in note]


def test_cross_validation_of_sources(tmp_path):
    """Folds of a file and of an index are those of the array, also in random order."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 40))
    y = X[:, 3] - X[:, 8] + rng.standard_normal(600)
    np.save(tmp_path / "x.npy", X)
    build_index(tmp_path / "x.npy", tmp_path / "x.index", random_state=1)
    pipeline = make_pipeline(SIS(4), LinearRegression())
    folds = ShuffleSplit(3, random_state=0)
    expected = cross_val_score(pipeline, X, y, cv=folds)
    for path in (tmp_path / "x.npy", tmp_path / "x.index"):
        np.testing.assert_allclose(cross_val_score(pipeline, open_source(path), y, cv=folds), expected)
    rows = rng.permutation(600)[:50]
    picked = open_source(tmp_path / "x.index")[rows][20:]
    np.testing.assert_array_equal(picked.to_original(picked.read(slice(0, 30), None)), X[rows[20:]])
    for wrong, error in ((3, TypeError), (np.array([1, 1]), ValueError)):
        with pytest.raises(error, match="of a source"):
            open_source(X)[wrong]
