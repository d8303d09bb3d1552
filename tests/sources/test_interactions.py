"""Interactions score as if the products had been built, whatever the data look like."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import PolynomialFeatures

from banditsis import SIS, BanditSIS, Interactions, Plan, open_source, screen
from banditsis.sources.views import Subset

N, M = 400, 70
rng = np.random.default_rng(0)
X = rng.standard_normal((N, M)) * rng.uniform(0.5, 3, M) + rng.uniform(-2, 2, M)
Y = np.column_stack([X[:, 3] * X[:, 9], X[:, 5] + X[:, 6] * X[:, 7], X[:, 1]]) + rng.standard_normal((N, 3))
CLASSES = rng.choice(["a", "b", "c"], N, p=[0.5, 0.45, 0.05])


def build(X, squares=False, main_effects=True):
    """All products, by scikit-learn."""
    everything = PolynomialFeatures(2, interaction_only=not squares, include_bias=False).fit_transform(X)
    return everything if main_effects else everything[:, X.shape[1] :]


def compare(source, built, y, tolerance, **options):
    plan = Plan.exact(*built.shape, 10)
    ours, theirs = screen(source, y, plan, **options), screen(built, y, plan, **options)
    for a, b in zip(ours, theirs, strict=True) if np.ndim(y) == 2 else [(ours, theirs)]:
        np.testing.assert_allclose(a.scores, b.scores, rtol=0, atol=tolerance)
    return ours


@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize("main_effects", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [("f8", 1e-9), ("f4", 1e-4)])
def test_scores_are_those_of_the_built_products(squares, main_effects, dtype, tolerance):
    x = X.astype(dtype)
    source = Interactions(x, main_effects=main_effects, squares=squares)
    built = build(x, squares, main_effects)
    assert source.shape == built.shape
    np.testing.assert_allclose(source.read(slice(0, N), None), built, rtol=1e-5)
    compare(source, built, Y, tolerance)
    compare(source, built, CLASSES, tolerance, statistic="anova")


@pytest.mark.parametrize("statistic", ["logistic", "poisson", "pearson", "spearman"])
def test_other_statistics(statistic):
    x = X[:, :25] + 20 * (np.arange(25) == 3)
    y = (Y[:, 0] > 0).astype(float) if statistic == "logistic" else np.round(np.exp(0.1 * Y[:, 1]))
    given = {} if statistic == "spearman" else {"covariates": X[:, 40:42]}
    compare(Interactions(x), build(x), y, 1e-9, statistic=statistic, **given)


@pytest.mark.parametrize("offset", [50.0, 1e4, 1e8])
@pytest.mark.parametrize(("dtype", "tolerance"), [("f8", 1e-9), ("f4", 1e-4)])
def test_columns_far_from_zero(offset, dtype, tolerance):
    x = (rng.standard_normal((N, 20)) + offset).astype(dtype)
    y = x[:, 3] - offset + rng.standard_normal(N)
    compare(Interactions(x), build(x), np.column_stack([y, -(y**2)]), tolerance)
    compare(Interactions(x), build(x), CLASSES, tolerance, statistic="anova")


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_products_without_variance_score_zero(dtype):
    x = X[:, :8].astype(dtype)
    x[:, 1], x[:, 2] = 0.1, -0.7  # constants
    x[:, 3] = 0.1 * np.sign(x[:, 0])
    x[:, 4] = -x[:, 3]  # their product is constant
    x[:, 5] = 0
    source = Interactions(x, squares=True)
    result = compare(source, build(x, squares=True), Y[:, 0], 1e-9 if dtype == "f8" else 1e-4)
    by_name = dict(zip(source.names, result.scores, strict=True))
    for name in ("x1", "x2", "x1 × x2", "x1²", "x3 × x4", "x3²", "x5", "x0 × x5", "x5²"):
        assert by_name[name] == 0, name
    assert by_name["x1 × x6"] == pytest.approx(by_name["x6"], abs=1e-6)


@pytest.mark.parametrize("alpha", [0.3, 1.5])
@pytest.mark.parametrize("statistic", ["pearson", "anova"])
def test_rounds_over_few_pairs_agree(alpha, statistic):
    built, y = build(X), Y[:, 0] if statistic == "pearson" else CLASSES
    plan, options = Plan.paper(*built.shape, 5, alpha=alpha), {"statistic": statistic, "random_state": 0}
    ours, theirs = (screen(data, y, plan, **options) for data in (Interactions(X), built))
    np.testing.assert_array_equal(ours.last_round, theirs.last_round)
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-9)


@pytest.mark.parametrize(("offset", "share"), [(0.0, 0.1), (1e7, 0.3)])
def test_missing_values_pairwise(offset, share):
    gaps = np.where(rng.random((N, 15)) < share, np.nan, X[:, :15] + offset)
    built = np.column_stack([gaps, *(gaps[:, i] * gaps[:, j] for i in range(15) for j in range(i + 1, 15))])
    compare(Interactions(gaps), built, Y[:, 0], 1e-9, missing="pairwise")
    compare(Interactions(gaps), built, CLASSES, 1e-9, missing="pairwise", statistic="anova")


def test_result_does_not_depend_on_threads():
    big = np.random.default_rng(1).random((2500, 210), dtype=np.float32)
    y = big[:, 0] * big[:, 1] + 0.1 * np.random.default_rng(2).random(2500)
    source = Interactions(big)
    plan = Plan(2500, source.shape[1], ((300, 9000), (2000, 50), (2500, 10)))
    one, three = (screen(source, y, plan, n_jobs=k, random_state=0) for k in (1, 3))
    np.testing.assert_array_equal(one.scores, three.scores)


TAGS = (rng.random((N, 40)) < 0.1).astype(float)


@pytest.mark.parametrize("form", [np.asfortranarray, sp.csr_array, sp.csc_matrix, sp.coo_array])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "?"])
def test_forms_and_dtypes_of_the_columns(form, dtype):
    y = TAGS[:, 2] * TAGS[:, 3] + 0.1 * Y[:, 2]
    source, built = Interactions(form(TAGS.astype(dtype))), build(TAGS)
    tolerance = 1e-4 if source.dtype == np.float32 else 1e-9
    compare(source, built, y, tolerance)
    plan = Plan.paper(*built.shape, 3, alpha=0.5)
    ours, theirs = (screen(data, y, plan, random_state=1) for data in (source, built))
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=tolerance)


def test_any_source_can_be_the_base():
    frame = pd.DataFrame(X[:, :10], columns=[f"gene {j}" for j in range(10)])
    for base in (frame, open_source(frame), Subset(open_source(frame), np.arange(N))):
        source = Interactions(base)
        assert source.names[10] == "gene 0 × gene 1"
        compare(source, build(X[:, :10]), Y[:, 0], 1e-9)
    renamed = Interactions(open_source(frame), names=list("abcdefghij"))
    assert renamed.name(54) == "i × j"
    assert open_source(frame).name(0) == "gene 0"


def test_names_are_made_on_demand():
    source = Interactions(np.zeros((3, 10_000), np.float32), squares=True)
    assert len(source.names) == source.shape[1] == 10_000 + 10_000 * 10_001 // 2
    assert source.names[0], source.names[9999] == ("x0", "x9999")
    assert source.names[10_000:10_003] == ["x0²", "x0 × x1", "x0 × x2"]
    assert source.names[-1] == "x9999²"
    with pytest.raises(IndexError):
        source.names[source.shape[1]]
    letters = "abcdefghi"
    source = Interactions(X[:, :9], names=(letter for letter in letters))
    products = [f"{a} × {b}" for i, a in enumerate(letters) for b in letters[i + 1 :]]
    assert list(source.names) == [*letters, *products]


@pytest.mark.parametrize("estimator", [SIS(3), BanditSIS(3, random_state=0)])
def test_estimators_select_transform_and_name(estimator):
    source = Interactions(X, names=[f"t{j}" for j in range(M)])
    fitted = estimator.fit(source, Y[:, 0])
    kept = fitted.transform(source)
    assert kept.shape == (N, 3)
    assert "t3 × t9" in fitted.get_feature_names_out()
    result = pickle.dumps(fitted.result_)
    assert len(result) < X.nbytes / 2  # without the data
    assert "t3 × t9" in pickle.loads(result).selected_names
    place = fitted.get_feature_names_out().tolist().index("t3 × t9")
    np.testing.assert_array_equal(kept[:, place], X[:, 3] * X[:, 9])
    with pytest.raises(ValueError, match="is not among the 15 features here"):
        fitted.transform(Interactions(X[:, :5]))


def test_nan_and_arguments_that_do_not_fit_raise():
    gap, names = X.copy(), [f"t{j}" for j in range(M)]
    gap[17, 5] = np.nan
    source = Interactions(gap, names=names)
    for use, message in (
        (lambda: screen(source, Y[:, 0], Plan.exact(*source.shape, 5)), r"NaN.*'t5'.* 17\b.*pairwise"),
        (lambda: Interactions(X[:, :1], main_effects=False), "no pairs"),
        (lambda: Interactions(X, names=iter("ab")), r"2 names.* 70 columns"),
        (lambda: Interactions(open_source(X), names="ab"), r"2 names.* 70 columns"),
    ):
        with pytest.raises(ValueError, match=message):
            use()


@pytest.mark.parametrize("missing", ["raise", "pairwise"])
@pytest.mark.parametrize(("dtype", "size"), [("f4", 1e25), ("f8", 1e200)])
def test_products_that_overflow_raise(dtype, size, missing):
    """In any row, and in new rows; the columns themselves may be as large."""
    x = X[:, :5].astype(dtype)
    x[7, 0] = size
    assert np.isfinite(Interactions(x).read(slice(0, 10), None)).all()
    with pytest.raises(ValueError, match=r"column 'x0².* rescale"):
        screen(Interactions(x, squares=True), Y[:, 0], Plan.exact(N, 20, 2), missing=missing)
    x[7, 1] = -size
    with pytest.raises(ValueError, match=r"column 'x0 × x1'.* rescale"):
        screen(Interactions(x), Y[:, 0], Plan.exact(N, 15, 2), missing=missing)
