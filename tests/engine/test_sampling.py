"""Samples of rows and strata: uniform without replacement, undone by weights, and of little memory."""

import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from banditsis.core.arrays import count_rows, spread
from banditsis.engine.sampling import N_STRATA, Strata
from banditsis.sources.array import ArraySource
from banditsis.sources.base import PILOT_ROWS, calibrate


@given(n=st.integers(1, 500), data=st.data(), seed=st.integers(0, 2**32))
def test_pieces_are_sorted_disjoint_and_complete(n, data, seed):
    totals = sorted(data.draw(st.lists(st.integers(1, n), min_size=1, max_size=5)))
    for order in ("random", "stored"):
        seen = []
        for total, rows in zip(totals, Strata.uniform(n).draw(totals, order, seed), strict=True):
            listed = np.arange(n)[rows]
            assert count_rows(rows) == len(listed)
            assert (np.diff(listed) > 0).all()
            seen.extend(listed)
            assert len(set(seen)) == len(seen) == total
        if order == "stored":
            assert seen == list(range(totals[-1]))


@pytest.mark.parametrize("n", [40, 20_000])  # shuffled, and drawn one by one
def test_every_row_is_as_likely(n):
    """Each piece by itself is uniform, for both ways in which samples are drawn."""
    counts = np.zeros((2, n))
    for seed in range(4000):
        for k, rows in enumerate(Strata.uniform(n).draw([5, 10], "random", seed)):
            counts[k, rows] += 1
    assert (chisquare(counts.reshape(2, 20, -1).sum(axis=2), axis=1).pvalue > 1e-3).all()


def test_pairs_of_rows_are_as_likely():
    """Without replacement, a pair of rows is together with probability k(k-1) / n(n-1)."""
    n, k, times = 12, 4, 20_000
    together = np.zeros((n, n))
    for seed in range(times):
        rows = next(Strata.uniform(n).draw([k], "random", seed))
        together[np.ix_(rows, rows)] += 1
    pairs = together[np.triu_indices(n, 1)]
    expected = times * k * (k - 1) / (n * (n - 1))
    z = (pairs - expected) / np.sqrt(expected * (1 - expected / times))
    assert np.abs(z).max() < 4.5
    assert kstest(z, "norm").pvalue > 1e-3


def test_few_rows_of_many_take_little_memory():
    tracemalloc.start()
    rows = list(Strata.uniform(10**12).draw([1000, 20_000], "random", 0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(map(count_rows, rows)) == 20_000
    assert peak < 10e6
    huge = Strata.uniform(10**15).draw([1000, 10**15], "random", 0, lazy=True)
    assert count_rows(next(huge)) == 1000


def by_distance(y):
    """Strata by the distance from the mean."""
    sizes = np.abs(np.asarray(y, float) - np.mean(y))
    return Strata.by_size(len(sizes), lambda rows: sizes[rows]), sizes


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
    strata, sizes = by_distance(RESPONSES[kind](np.random.default_rng(0), 20_000))
    assert strata.n_strata >= 2
    assert strata.design.sizes == tuple(np.bincount(strata.codes))
    groups = [sizes[strata.codes == h] for h in range(strata.n_strata)]
    assert all(smaller.max() <= larger.min() for smaller, larger in pairwise(groups))
    np.testing.assert_allclose(strata.design.spreads, [np.sqrt(np.mean(g**2)) for g in groups])
    largest = np.array([group.max() for group in groups])
    assert (largest <= strata.design.largest).all()
    assert (strata.design.largest <= largest * (1 + 1 / 16) + 1e-300).all()


@pytest.mark.parametrize("kind", RESPONSES)
@pytest.mark.parametrize("n_strata", [1, N_STRATA])
def test_outliers_are_divided_by_factors_of_two(kind, n_strata):
    y = RESPONSES[kind](np.random.default_rng(0), 20_000)
    sizes = np.abs(y - y.mean())
    strata = Strata.by_size(len(y), lambda rows: sizes[rows], n_strata)
    deviation = sizes.max() * np.sqrt(np.mean(np.square(sizes / sizes.max())))
    ordinary = strata.codes[sizes <= 5.8 * deviation]  # sizes are grouped to within 1/32
    assert len(np.unique(ordinary)) <= n_strata
    for h in set(strata.codes.tolist()) - set(ordinary.tolist()):
        inside = sizes[strata.codes == h]
        assert 5.8 * deviation < inside.min()
        assert inside.max() <= 2.1 * inside.min()


def test_equal_sizes_share_a_stratum_and_an_outlier_has_its_own():
    strata, _ = by_distance(np.r_[np.zeros(500), np.ones(400), 1e6])
    assert strata.design.sizes == (900, 1)
    assert (strata.design.allocate(10) == [9, 1]).all()
    assert by_distance(np.tile([-1.0, 1.0], 50))[0].n_strata == 1
    assert Strata.by_size(10, lambda rows: np.zeros(10)[rows]).n_strata == 1


@given(n=st.integers(20, 3000), data=st.data(), seed=st.integers(0, 2**32), lazy=st.booleans())
def test_steps_add_disjoint_rows_as_allocated(n, data, seed, lazy):
    strata, _ = by_distance(np.random.default_rng(seed).standard_t(2, n))
    totals = sorted(data.draw(st.lists(st.integers(strata.n_strata, n - 1), min_size=1, max_size=4)))
    seen = np.empty(0, int)
    steps = strata.draw(totals, "random", seed, lazy=lazy)
    for total, rows in zip(totals, steps, strict=True):
        assert (np.diff(rows) > 0).all()
        seen = np.concatenate([seen, rows])
        assert len(np.unique(seen)) == len(seen) == total
        counts = np.bincount(strata.codes[seen], minlength=strata.n_strata)
        assert (counts == strata.design.allocate(total)).all()


@pytest.mark.parametrize("lazy", [False, True])
def test_rows_of_a_stratum_are_as_likely(lazy):
    strata, _ = by_distance(np.random.default_rng(1).standard_normal(20_000))
    drawn = np.zeros(20_000)
    for seed in range(200):
        for rows in strata.draw([200, 400], "random", seed, lazy=lazy):
            drawn[rows] += 1
    for h in range(strata.n_strata):
        bins = [part.sum() for part in np.array_split(drawn[strata.codes == h], 20)]
        assert chisquare(bins).pvalue > 1e-4


def test_the_first_rows_of_each_stratum_are_read_in_stored_order():
    y = np.random.default_rng(0).standard_normal(1000)
    y[[700, 20, 900]] = 50.0
    sizes = np.abs(y - y.mean())
    strata = Strata.by_size(1000, lambda rows: sizes[rows], 1)
    strata = replace(strata, design=replace(strata.design, guaranteed=True))
    first, second = strata.draw([30, 60], "stored", 0)
    assert first.tolist() == [*range(28), 700, 900]  # with row 20, which comes early
    assert second.tolist() == list(range(28, 58))


@pytest.mark.parametrize("sizes", [(70, 30), (7 * 10**9, 2 * 10**9, 10**9)])
def test_a_uniform_sample_of_data_in_parts_has_hypergeometric_counts(sizes):
    counts, edges, n = [], np.cumsum([0, *sizes]), sum(sizes)
    for seed in range(1000):
        steps = list(Strata.uniform(n).draw([5, 10], "stored", seed, stored=sizes))
        counts.append(np.histogram(np.concatenate(steps), edges)[0])
    shares = np.array(sizes) / n
    assert (np.sum(counts, axis=1) == 10).all()
    np.testing.assert_allclose(np.mean(counts, axis=0), 10 * shares, atol=0.15)
    variances = 10 * shares * (1 - shares) * (n - 10) / (n - 1)
    np.testing.assert_allclose(np.var(counts, axis=0), variances, rtol=0.2)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("special", [None, np.nan, np.inf, -np.inf, "tiny", "huge", "constant", "zero"])
def test_rows_are_calibrated_where_they_are(dtype, special):
    x = np.random.default_rng(0).normal(3, 2, (300, 9000)).astype(dtype)
    limits = np.finfo(dtype)
    match special:
        case "tiny" | "huge":
            x[:, 8500] *= limits.tiny if special == "tiny" else limits.max / 100
        case "constant" | "zero":
            x[:, 8500] = 7.0 if special == "constant" else 0.0
        case float():
            x[:, 8500] = special
    for source, rows in ((ArraySource(x), slice(10, 250)), (ArraySource(x[::-1]), slice(50, 290))):
        found = source.calibrate(rows)
        expected = calibrate(source, rows, spread(rows, PILOT_ROWS), np.dtype(dtype))
        np.testing.assert_array_equal(found.scale, expected.scale)
        np.testing.assert_allclose(found.shift, expected.shift, rtol=1e-5)
