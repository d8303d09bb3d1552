"""Strata of rows: made from the response, sampled without replacement, undone by weights."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from banditsis.engine.sampling import N_STRATA, Strata
from banditsis.statistics.base import RowSizes


def by_distance(y):
    """Strata by the distance from the mean."""
    sizes = np.abs(np.asarray(y, float) - np.mean(y))
    return Strata.by_size(len(sizes), RowSizes(lambda rows: sizes[rows])), sizes


RESPONSES = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "rare": lambda rng, n: (rng.random(n) < 0.01).astype(float),
    "counts": lambda rng, n: rng.poisson(1.5, n).astype(float),
    "tiny": lambda rng, n: 1e-300 * rng.standard_normal(n),
    "mostly zero": lambda rng, n: np.where(rng.random(n) < 0.9, 0.0, rng.standard_normal(n)),
}


@pytest.mark.parametrize("kind", RESPONSES)
def test_strata_divide_rows_by_size(kind):
    y = RESPONSES[kind](np.random.default_rng(0), 20_000)
    strata, sizes = by_distance(y)
    assert strata.n_strata >= 2
    assert strata.design.sizes == tuple(np.bincount(strata.codes))
    groups = [sizes[strata.codes == h] for h in range(strata.n_strata)]
    for smaller, larger in pairwise(groups):
        assert smaller.max() <= larger.min()
    expected = [np.sqrt(np.mean(np.square(group))) for group in groups]
    np.testing.assert_allclose(strata.design.spreads, expected)
    largest = np.array([group.max() for group in groups])
    assert (largest <= strata.design.largest).all()
    assert (strata.design.largest <= largest * (1 + 1 / 16) + 1e-300).all()


@pytest.mark.parametrize("kind", RESPONSES)
@pytest.mark.parametrize("n_strata", [1, N_STRATA])
def test_outliers_are_divided_by_factors_of_two(kind, n_strata):
    y = RESPONSES[kind](np.random.default_rng(0), 20_000)
    sizes = np.abs(y - y.mean())
    strata = Strata.by_size(len(y), RowSizes(lambda rows: sizes[rows]), n_strata)
    deviation = sizes.max() * np.sqrt(np.mean(np.square(sizes / sizes.max())))
    ordinary = strata.codes[sizes <= 5.8 * deviation]  # sizes are grouped to within 1/32
    assert len(np.unique(ordinary)) <= n_strata
    for h in set(strata.codes.tolist()) - set(ordinary.tolist()):
        inside = sizes[strata.codes == h]
        assert 5.8 * deviation < inside.min()
        assert inside.max() <= 2.1 * inside.min()


def test_equal_values_share_a_stratum_and_an_outlier_has_its_own():
    y = np.r_[np.zeros(500), np.ones(400), 1e6]
    strata, _ = by_distance(y)
    assert strata.design.sizes == (900, 1)
    assert (strata.design.allocate(10) == [9, 1]).all()


def test_rows_of_equal_size_form_one_stratum():
    assert by_distance(np.tile([-1.0, 1.0], 50))[0].n_strata == 1
    assert Strata.by_size(10, RowSizes(lambda rows: np.zeros(10)[rows])).n_strata == 1


@given(n=st.integers(20, 3000), data=st.data(), seed=st.integers(0, 2**32), lazy=st.booleans())
def test_steps_add_disjoint_rows_as_allocated(n, data, seed, lazy):
    y = np.random.default_rng(seed).standard_t(2, n)
    strata, _ = by_distance(y)
    totals = sorted(data.draw(st.lists(st.integers(strata.n_strata, n - 1), min_size=1, max_size=4)))
    seen = np.empty(0, int)
    steps = strata.draw(totals, "random", np.random.default_rng(seed), lazy=lazy)
    for total, rows in zip(totals, steps, strict=True):
        assert (np.diff(rows) > 0).all()
        seen = np.concatenate([seen, rows])
        assert len(np.unique(seen)) == len(seen) == total
        counts = np.bincount(strata.codes[seen], minlength=strata.n_strata)
        assert (counts == strata.design.allocate(total)).all()


@pytest.mark.parametrize("lazy", [False, True])
def test_rows_of_a_stratum_are_as_likely(lazy):
    y = np.random.default_rng(1).standard_normal(20_000)
    strata, _ = by_distance(y)
    drawn = np.zeros(len(y))
    for seed in range(200):
        for rows in strata.draw([200, 400], "random", np.random.default_rng(seed), lazy=lazy):
            drawn[rows] += 1
    for h in range(strata.n_strata):
        inside = drawn[strata.codes == h]
        bins = np.array([part.sum() for part in np.array_split(inside, 20)])
        assert chisquare(bins, np.full(20, 1) * bins.sum() / 20).pvalue > 1e-4


def test_weights_recover_population_totals():
    """The weighted mean of a sample is an unbiased estimate of that over all rows."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal(2000)
    strata, _ = by_distance(y)
    x = y**2 + rng.standard_normal(2000)
    means = []
    for seed in range(400):
        rows = next(strata.draw([60], "random", np.random.default_rng(seed), lazy=False))
        weights = strata.row_weights(rows)
        assert weights.mean() == pytest.approx(1)
        means.append(np.mean(weights * x[rows]))
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - x.mean()) < 3 * error


def test_stored_strata_are_read_from_their_first_rows():
    sizes = np.repeat([1.0, 5.0], [600, 400])
    strata = Strata.stored((600, 400), lambda rows: sizes[rows])
    first, second = strata.draw([20, 50], "stored", np.random.default_rng(0), lazy=False)
    counts = strata.design.allocate(20)
    assert first.tolist() == [*range(counts[0]), *range(600, 600 + counts[1])]
    assert len(np.intersect1d(first, second)) == 0
    assert len(second) == 30


def test_the_first_rows_of_each_stratum_are_read_in_stored_order():
    y = np.random.default_rng(0).standard_normal(1000)
    y[[700, 20, 900]] = 50.0
    sizes = np.abs(y - y.mean())
    strata = Strata.by_size(1000, RowSizes(lambda rows: sizes[rows]), 1).for_guarantee()
    first, second = strata.draw([30, 60], "stored", np.random.default_rng(0), lazy=False)
    assert first.tolist() == [*range(28), 700, 900]  # with row 20, which comes early
    assert second.tolist() == list(range(28, 58))


def test_a_uniform_sample_of_stored_strata_has_hypergeometric_counts():
    counts = [
        np.bincount(
            np.concatenate(list(Strata.uniform(100).draw([5, 10], "stored", seed, stored=(70, 30)))) >= 70
        )
        for seed in range(2000)
    ]
    second = np.array([count[1] if len(count) > 1 else 0 for count in counts])
    assert second.mean() == pytest.approx(3, abs=0.1)
    assert second.var() == pytest.approx(10 * 0.3 * 0.7 * 90 / 99, rel=0.15)


def test_a_uniform_sample_of_ten_billion_rows_has_hypergeometric_counts():
    sizes = (7 * 10**9, 2 * 10**9, 10**9)
    samples = (
        Strata.uniform(sum(sizes)).draw([100, 200], "stored", seed, stored=sizes) for seed in range(500)
    )
    edges = np.cumsum([0, *sizes])
    counts = np.array([np.histogram(np.concatenate(list(steps)), edges)[0] for steps in samples])
    assert (counts.sum(axis=1) == 200).all()
    shares = np.array(sizes) / sum(sizes)
    np.testing.assert_allclose(counts.mean(axis=0), 200 * shares, atol=1)
    np.testing.assert_allclose(counts.var(axis=0), 200 * shares * (1 - shares), rtol=0.2)
