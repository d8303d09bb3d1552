"""Cases that once went wrong, each with what must hold."""

import threading

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info

from banditsis import SIS, BanditSIS, Plan, screen
from banditsis.engine.sampling import Strata
from reference import correlations

rng = np.random.default_rng(0)


@pytest.mark.parametrize("statistic", ["pearson", "anova"])
def test_a_response_that_varies_in_three_rows_is_screened(statistic):
    X, y = rng.standard_normal((20_000, 60)), (np.arange(20_000) < 3) * 1.0
    n_rows = Plan.paper(20_000, 60, 3).steps[0].n_rows
    for sampling, is_constant in (("uniform", True), ("stratified", False)):
        selector = BanditSIS(3, alpha=0.5, statistic=statistic, sampling=sampling, random_state=0)
        result = selector.fit(X, y).result_
        assert (result.rounds[0].n_rows > n_rows) == is_constant
        assert any("the response is constant in the" in note for note in result.notes) == is_constant


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("outlier", [1e6, 1e9, 1e12, 1e15])
def test_an_outlier_in_y_that_is_not_read_costs_no_digits(dtype, outlier):
    n, p = 50_000, 20
    y = rng.standard_normal(n)
    X = rng.standard_normal((n, p)).astype(dtype)
    X[:, 3] += y
    rows = next(Strata.uniform(n).draw([1000], "random", np.random.default_rng(1)))
    y[np.setdiff1d(np.arange(n), rows)[5]] = outlier
    result = screen(X, y, Plan.subsample(n, p, 3, 1000), random_state=1)
    tolerance = 1e-10 if dtype == "f8" else 1e-6
    np.testing.assert_allclose(result.scores, correlations(X[rows], y[rows]), rtol=0, atol=tolerance)


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_that_the_pilot_rows_do_not_show(order):
    X = rng.standard_normal((5000, 50))
    X[rng.random(X.shape) < 0.97] = np.nan
    y = rng.standard_normal(5000)
    plan = Plan.exact(5000, 50, 5)
    near = screen(np.asarray(X, order=order), y, plan, missing="pairwise").scores
    far = screen(np.asarray(X + 1e8, order=order), y, plan, missing="pairwise").scores
    np.testing.assert_allclose(far, near, atol=1e-6)  # 1e8 leaves eight digits after the point
    constant = np.where(np.isnan(X), np.nan, 0.1)
    assert (screen(constant, y, plan, missing="pairwise").scores == 0).all()


def test_masks_are_not_lost():
    X, y = rng.standard_normal((100, 4)), rng.standard_normal(100)
    selector, masked = SIS(2).fit(X, y), np.ma.masked_array(X, X > 1)
    with pytest.raises(TypeError, match="masked"):
        selector.transform(masked)
    for given in ((masked, y), (X, masked[:, 0])):
        with pytest.raises(TypeError, match="masked"):
            selector.fit(*given)


def test_unaligned_floats(tmp_path):
    X, path = rng.standard_normal((1000, 5)), tmp_path / "odd"
    path.write_bytes(b"header...." + X.tobytes())
    mapped = np.memmap(path, "f8", "r", offset=10, shape=(1000, 5))
    scores = SIS(2).fit(mapped, X[:, 1]).scores_
    np.testing.assert_allclose(scores, correlations(X, X[:, 1]), atol=1e-12)


def test_threads_of_blas_are_given_back():
    X, Y = rng.standard_normal((2000, 200)), rng.standard_normal((2000, 10))

    def blas_threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before, given = blas_threads(), (X, Y, Plan.paper(2000, 200, 5))
    runs = [threading.Thread(target=screen, args=given, kwargs={"n_jobs": 1}) for _ in range(4)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert blas_threads() == before


def test_hardly_any_known_response():
    X, y = rng.standard_normal((100, 4)), np.full(100, np.nan)
    for known in (0, 2):
        y[:known] = np.arange(known)
        with pytest.raises(ValueError, match=f"the response is known in {known} rows"):
            SIS(missing="pairwise").fit(X, y)
    with pytest.raises(ValueError, match=r"the response \(column 1\) is known in 2 rows, but .* at least 3"):
        screen(X, np.column_stack([X[:, 0], y]), Plan.exact(100, 4, 2), missing="pairwise")


def test_messages_count_rows_as_the_user_does():
    X, y = rng.standard_normal((5000, 300)), rng.standard_normal(5000)
    y[:10] = np.nan
    X[500, 2] = np.inf
    with pytest.raises(ValueError, match="column 'x2', row 500"):
        SIS(2, missing="pairwise").fit(X, y)


def test_frames_with_nullable_and_mixed_columns():
    X = rng.standard_normal((200, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(flag=X[:, 0] > 0)
    frame["a"] = frame["a"].astype("Float64").mask(frame["a"] > 1)
    y = rng.standard_normal(200)
    by_screen = screen(frame, y, Plan.exact(200, 4, 2), missing="pairwise").scores
    np.testing.assert_array_equal(by_screen, SIS(2, missing="pairwise").fit(frame, y).scores_)


def test_set_output_keeps_the_types_of_columns():
    y = rng.standard_normal(300)
    frame = pd.DataFrame({"up": y > 0, "n": (10 * y).astype(int), "noise": rng.standard_normal(300)})
    out = SIS(2).set_output(transform="pandas").fit(frame, y).transform(frame)
    assert out.dtypes.to_dict() == {"up": np.dtype(bool), "n": np.dtype("int64")}


def test_bad_seeds_are_named_and_results_cannot_be_changed_through_the_estimator():
    X = rng.standard_normal((300, 5))
    for state in ("a", 1.5, True):
        with pytest.raises(TypeError, match="random_state must be an integer"):
            SIS(2, random_state=state).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="read-only"):
        SIS(2).fit(X, X[:, 0]).scores_[0] = 1
