"""Class labels as the response: the default statistic, and the kinds of columns that hold labels."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.feature_selection import f_classif

from banditsis import SIS, BanditSIS, IterativeSIS, Plan, screen

N = 90
RNG = np.random.default_rng(3)
CODES = np.arange(N) % 3
X = RNG.standard_normal((N, 5)) + np.outer(CODES == 1, [0, 0, 2, 0, 0])
LABELS = np.array(["low", "mid", "high"])[CODES]
NOTE = "the response has class labels, so the statistic is 'anova'."


def label_kinds(labels, codes):
    """The same labels in every kind of column."""
    return {
        "strings": labels,
        "list": labels.tolist(),
        "bytes": labels.astype("S"),
        "objects": labels.astype(object),
        "pandas str": pd.Series(labels),
        "pandas category": pd.Series(labels, dtype="category"),
        "pandas integer category": pd.Series(codes, dtype="category"),
        "pandas interval": pd.cut(pd.Series(codes), 3),
        "pandas Categorical": pd.Categorical(labels),
        "arrow dictionary": pa.array(labels).dictionary_encode(),
        "polars string": pl.Series(labels.tolist()),
        "polars category": pl.Series(labels.tolist(), dtype=pl.Categorical),
        "polars enum": pl.Series(labels.tolist(), dtype=pl.Enum(["low", "mid", "high"])),
    }


KINDS = label_kinds(LABELS, CODES)


def eta(X, y):
    """The correlation ratio by scikit-learn's F test."""
    F = f_classif(X, y)[0]
    k = len(np.unique(y))
    return np.sqrt(F * (k - 1) / (F * (k - 1) + len(y) - k))


@pytest.mark.parametrize("kind", KINDS)
def test_labels_choose_anova(kind):
    y = KINDS[kind]
    for result in (SIS(2).fit(X, y).result_, screen(X, y, Plan.exact(N, 5, 2))):
        np.testing.assert_allclose(result.scores, eta(X, CODES))
        assert result.parameters["statistic"] == "anova"
        assert NOTE in result.notes


NUMBERS = [CODES, CODES / 2, np.arange(N) % 11, CODES == 1, (CODES == 1).astype(object), pl.Series(CODES)]
NUMBERS += [pd.Series(CODES, dtype=dtype) for dtype in ("Int64", "Float64", pd.ArrowDtype(pa.int64()))]


@pytest.mark.parametrize("y", [*NUMBERS, pd.Series(CODES == 1, dtype="boolean")])
def test_numbers_choose_pearson(y):
    result = SIS(2).fit(X, y).result_
    numbers = np.asarray(y, float)
    np.testing.assert_allclose(result.scores, [np.corrcoef(x, numbers)[0, 1] for x in X.T])
    assert result.parameters["statistic"] == "pearson"
    assert NOTE not in result.notes
    if numbers.max() != 2:
        assert not any("treated as numbers" in note for note in result.notes)


MISSING = {
    "None": lambda y: np.where(np.arange(N) < 4, None, y.astype(object)),
    "NaN": lambda y: np.where(np.arange(N) < 4, np.nan, y.astype(object)),
    "pandas string": lambda y: pd.Series(MISSING["None"](y), dtype="string"),
    "pandas category": lambda y: pd.Series(MISSING["None"](y), dtype="category"),
    "arrow string": lambda y: pd.Series(MISSING["None"](y), dtype=pd.ArrowDtype(pa.string())),
    "polars category": lambda y: pl.Series(MISSING["None"](y).tolist(), dtype=pl.Categorical),
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_labels_are_left_out_or_raise(kind):
    y = MISSING[kind](LABELS)
    result = SIS(2, missing="pairwise").fit(X, y).result_
    np.testing.assert_allclose(result.scores, eta(X[4:], CODES[4:]))
    assert "4 rows were left out, because their response is missing." in result.notes
    with pytest.raises(ValueError, match="the response contains no label in row 0"):
        SIS(2).fit(X, y)


def test_explicit_pearson_needs_numbers_or_two_classes():
    for y, got in ((LABELS, "3: .*; use 'anova' for more"), (["a"] * N, "1: ")):
        with pytest.raises(ValueError, match=f"needs numbers or two classes, got {got}"):
            SIS(2, statistic="pearson").fit(X, y)


@pytest.mark.parametrize("kind", KINDS)
def test_two_classes_have_signed_scores(kind):
    """The score is the correlation with the indicator of the label that sorts last, which is named."""
    rows = np.flatnonzero(CODES != 1)
    y, indicator = label_kinds(LABELS[rows], CODES[rows])[kind], LABELS[rows] == "low"
    if kind in ("pandas integer category", "pandas interval"):
        indicator = CODES[rows] == 2
    expected = [np.corrcoef(x, indicator)[0, 1] for x in X[rows].T]
    assert min(expected) < 0 < max(expected)
    result = SIS(2).fit(X[rows], y).result_
    np.testing.assert_allclose(result.scores, expected)
    np.testing.assert_allclose(np.abs(result.scores), eta(X[rows], indicator))  # the ranking of anova
    assert result.parameters["statistic"] == "pearson"
    named = {"pandas integer category": None, "pandas interval": "(1.333, 2.0]", "bytes": "b'low'"}
    assert result.parameters.get("positive_class") == named.get(kind, "low")


def test_the_positive_class_is_named():
    for y, label in ((CODES > 0, "True"), (np.where(CODES, "Yes", "No"), "Yes"), (CODES + 0.5, None)):
        assert SIS(2).fit(X, y).result_.parameters.get("positive_class") == label
    for statistic, label in (("logistic", "7"), ("anova", None)):
        result = SIS(2, statistic=statistic).fit(X, np.where(CODES, 7, 3)).result_
        assert result.parameters.get("positive_class") == label
    partial = SIS(2).fit(X, np.where(CODES, "Yes", "No"), covariates=X[:, 0]).result_
    assert partial.parameters["positive_class"] == "Yes"
    frame = pd.DataFrame({"a": CODES > 0, "b": CODES > 1})
    several = screen(X, frame.replace({True: "y", False: "n"}), Plan.exact(N, 5, 2))
    assert [result.parameters["positive_class"] for result in several] == ["y", "y"]
    np.testing.assert_allclose(several[1].scores, SIS(2).fit(X, frame["b"]).result_.scores)


@pytest.mark.parametrize("y", [CODES, CODES.astype(float), np.where(np.arange(N) < 5, np.nan, CODES)])
def test_integers_that_may_be_classes_are_noted(y):
    """Features that differ between such classes may have no correlation with their numbers."""
    result = SIS(2, missing="pairwise").fit(X, y).result_
    (note,) = (note for note in result.notes if "treated as numbers" in note)
    assert "the response has the values 0, 1, 2, which are treated as numbers: if they are classes" in note
    assert note not in SIS(2, missing="pairwise", statistic="pearson").fit(X, y).result_.notes
    assert SIS(1, missing="pairwise", statistic="anova").fit(X, y).result_.selected == [2]


def test_all_estimators_choose_by_the_labels():
    for y, statistic in ((LABELS, "anova"), (np.where(X[:, 2] > 0.7, "b", "a"), "pearson")):
        for fitted in (BanditSIS(2, random_state=0).fit(X, y), IterativeSIS(2).fit(X, y)):
            result = getattr(fitted, "base_", fitted).result_
            assert result.parameters["statistic"] == statistic
            assert fitted.get_support()[2]


def test_several_responses_have_one_kind():
    frame = pd.DataFrame({"a": LABELS, "b": LABELS[::-1]})
    results = screen(X, frame, Plan.exact(N, 5, 2))
    for result, column in zip(results, frame, strict=True):
        np.testing.assert_allclose(result.scores, eta(X, frame[column]))
    with pytest.raises(TypeError, match="screen columns of different kinds one by one"):
        screen(X, pd.DataFrame({"a": LABELS, "b": CODES}), Plan.exact(N, 5, 2))


def test_text_with_too_many_values_is_not_taken_for_classes():
    """Numbers with some text in them, or ids, would be thousands of classes."""
    n, Z = 600, RNG.standard_normal((600, 4))
    numbers = np.array([f"{k / 7:.2f}" for k in range(n - 1)] + ["unknown"])
    classes = pd.Series([f"c{k % 51:02}" for k in range(n)])
    for y, what in (
        (numbers, "600 classes in 600 rows.*'unknown'"),
        (classes, "51 classes in 600 rows.*'c50'"),
    ):
        for selector in (SIS(2), BanditSIS(2), SIS(2, statistic="wilcoxon")):
            with pytest.raises(ValueError, match=f"text with {what}.*at most 50 classes.*combine classes"):
                selector.fit(Z, y)
    with pytest.raises(ValueError, match=r"text with 7 classes in 34 rows.*with 5 rows each on average"):
        SIS(2).fit(Z[:34], [f"c{k % 7}" for k in range(34)])
    SIS(2).fit(Z[:35], [f"c{k % 7}" for k in range(35)])
    SIS(2).fit(Z, [f"c{k % 50}" for k in range(n)])
    SIS(2).fit(Z[:5], list("abaab"))  # two values are classes, however few rows there are
    SIS(2, statistic="anova").fit(Z, np.arange(n) % 60)  # numbers are classes if the user says so
