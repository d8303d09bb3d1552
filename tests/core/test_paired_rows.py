"""Rows of pandas objects are paired by position, if their labels do not contradict that."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import train_test_split

from banditsis import SIS, BanditSIS, IterativeSIS, Plan, screen

N = 60
rng = np.random.default_rng(0)
X = pd.DataFrame(rng.standard_normal((N, 4)), columns=list("abcd"), index=[f"row {i}" for i in range(N)])
Y = 2 * X["c"] + 0.1 * rng.standard_normal(N)
SHUFFLED = Y.sample(frac=1, random_state=1)
SCORES = screen(X, Y, Plan.exact(N, 4, 2)).scores


RESPONSES = {
    "order": SHUFFLED,
    "others": Y.set_axis([f"person {i}" for i in range(N)]),
    "one other": Y.rename({"row 3": "row x"}),
    "several": pd.DataFrame({"y": SHUFFLED, "z": -SHUFFLED}),
}


@pytest.mark.parametrize("use", [SIS(2).fit, BanditSIS(2).fit, IterativeSIS(2).fit, screen])
@pytest.mark.parametrize("kind", RESPONSES)
def test_other_labels_raise(use, kind):
    message = r"have different row labels.*\.loc\[X\.index\].*\.to_numpy\(\)"
    with pytest.raises(ValueError, match=message):
        use(X, RESPONSES[kind])
    with pytest.raises(ValueError, match=message):
        use(X, Y, covariates=RESPONSES[kind])


def test_default_labels_are_labels_once_they_are_shuffled():
    plain = X.reset_index(drop=True), Y.reset_index(drop=True)
    for x, y in ((plain[0], plain[1].sample(frac=1, random_state=1)), (plain[0][10:40], plain[1][30:])):
        with pytest.raises(ValueError, match="y and X have different row labels"):
            SIS(2).fit(x, y)
    train = train_test_split(*plain, random_state=0)
    expected = SIS(2).fit(train[0].to_numpy(), train[2].to_numpy()).scores_
    np.testing.assert_array_equal(SIS(2).fit(train[0], train[2]).scores_, expected)


@pytest.mark.parametrize("y", [Y, Y.to_numpy(), Y.reset_index(drop=True), pl.Series(Y), Y.to_list()])
def test_the_same_labels_or_none_are_paired_by_position(y):
    for x in (X, X.reset_index(drop=True)):
        np.testing.assert_allclose(SIS(2).fit(x, y).scores_, SCORES, rtol=1e-12)


def test_equal_labels_may_be_repeated():
    labels = ["a", "b"] * (N // 2)
    found = SIS(2).fit(X.set_axis(labels), Y.set_axis(labels)).scores_
    np.testing.assert_allclose(found, SCORES, rtol=1e-12)
    with pytest.raises(ValueError, match="different row labels"):
        SIS(2).fit(X.set_axis(labels), Y.set_axis(labels[::-1]))
