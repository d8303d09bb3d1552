"""Covariates of any kind: text and categories are expanded into indicator columns."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from banditsis import IterativeSIS, Plan, screen
from banditsis.statistics.covariates import encode_covariates

rng = np.random.default_rng(5)
N, P = 200, 8
X = rng.standard_normal((N, P))
AGE = rng.uniform(20, 70, N)
BATCH = np.array(["a", "b", "c", "d"])[rng.integers(0, 4, N)]
SEX = rng.random(N) < 0.5
Y = X[:, 2] + 0.05 * AGE + 2.0 * (BATCH == "c") + SEX + rng.standard_normal(N)
NUMBERS = np.column_stack([AGE, *(level == BATCH for level in "bcd"), SEX]).astype(float)
FRAME = pd.DataFrame({"age": AGE, "batch": BATCH, "sex": SEX})

KINDS = {
    "pandas": FRAME,
    "pandas categories": FRAME.astype({"batch": "category"}),
    "pandas text": FRAME.astype({"batch": "string", "sex": "boolean", "age": "Float64"}),
    "polars": pl.DataFrame({"age": AGE, "batch": BATCH, "sex": SEX}),
    "polars categories": pl.from_pandas(FRAME.astype({"batch": "category"})),
    "pyarrow": pa.table({"age": AGE, "batch": BATCH, "sex": SEX}),
    "pyarrow categories": pa.table({"age": AGE, "batch": pa.array(BATCH).dictionary_encode(), "sex": SEX}),
    "mapping": {"age": AGE, "batch": BATCH, "sex": SEX},
    "objects": np.array([[a, b, s] for a, b, s in zip(AGE, BATCH, SEX, strict=True)], dtype=object),
    "strings": np.column_stack([AGE.astype(str), BATCH, SEX.astype(int).astype(str)]),
}


def exact(x=X, y=Y, **options):
    return screen(x, y, Plan.exact(*x.shape, 3), **options)


@pytest.mark.parametrize("kind", KINDS)
def test_text_becomes_indicators(kind):
    result = exact(covariates=KINDS[kind])
    np.testing.assert_allclose(result.scores, exact(covariates=NUMBERS).scores, atol=1e-12)
    assert result.parameters["covariates"] == 5
    name = "1" if kind in ("objects", "strings") else "'batch'"
    assert f"covariate {name} was expanded into 3 indicator columns." in result.notes


def test_a_single_column_of_labels():
    expected = exact(covariates=NUMBERS[:, 1:4]).scores
    columns = BATCH, BATCH.tolist(), pd.Series(BATCH), pl.Series(BATCH), pa.array(BATCH), BATCH.astype("S")
    for column in columns:
        np.testing.assert_allclose(exact(covariates=column).scores, expected, atol=1e-12)
    single_level = exact(covariates=np.full(N, "a"))  # explains nothing
    np.testing.assert_array_equal(single_level.scores, exact().scores)
    assert single_level.parameters["covariates"] == 0


def test_missing_labels_are_missing_values():
    frame, known = FRAME.copy(), ~np.isin(np.arange(N), [3, 8, 11])
    frame.loc[[3, 8], "batch"], frame.loc[11, "age"] = None, np.nan
    expected = exact(X[known], Y[known], covariates=NUMBERS[known]).scores
    for given in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame, preserve_index=False)):
        result = exact(covariates=given, missing="pairwise")
        np.testing.assert_allclose(result.scores, expected, atol=1e-12)
        assert "3 rows with missing covariates were omitted." in result.notes
        with pytest.raises(ValueError, match=r"covariates contain NaN in row 3, column 'batch'.*'pairwise'"):
            exact(covariates=given)


def test_ids_are_not_expanded():
    ids = np.array([f"s{i}" for i in range(N)])
    with pytest.raises(ValueError, match=r"covariate 'id' is text with 200 different values.*leave it out"):
        exact(covariates=FRAME.assign(id=ids))
    ten = encode_covariates(np.array(list("abcdefghij") * 2), 20, allow_missing=False)
    assert ten.values.shape == (20, 9)


DATES = pd.date_range("2024-01-01", periods=N), [datetime.date(2024, 1, 1)] * N, [np.timedelta64(3, "D")] * N


@pytest.mark.parametrize("column", [*DATES, np.array([1.0, "a"] * (N // 2), dtype=object)])
def test_dates_and_mixed_types_are_rejected_with_a_remedy(column):
    message = r"must hold numbers or text, got values of type [\w, ]+ in 'day': convert them, such as dates"
    with pytest.raises(TypeError, match=message):
        exact(covariates=FRAME.assign(day=column))


def test_iterative_screening_expands_text():
    a = IterativeSIS(2).fit(X, Y, covariates=FRAME).get_support()
    np.testing.assert_array_equal(a, IterativeSIS(2).fit(X, Y, covariates=NUMBERS).get_support())


@pytest.mark.parametrize("column", [pd.Categorical([1, 2, 3, 1] * 5), ["1", "2", "3", "1"] * 5])
def test_categories_that_look_like_numbers_are_categories(column):
    encoded = encode_covariates(pd.DataFrame({"batch": column}), 20, allow_missing=False)
    assert encoded.values.shape == (20, 2)
    assert "'batch' was expanded into 2 indicator columns" in encoded.notes[0]
