"""Rows are a uniform sample without replacement, and few of them cost little memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from banditsis.core.arrays import count_rows, spread, take
from banditsis.engine.sampling import Strata


@given(n=st.integers(1, 500), data=st.data(), seed=st.integers(0, 2**32))
def test_pieces_are_sorted_disjoint_and_complete(n, data, seed):
    totals = sorted(data.draw(st.lists(st.integers(1, n), min_size=1, max_size=5)))
    for order in ("random", "stored"):
        seen = []
        for total, rows in zip(
            totals, Strata.uniform(n).draw(totals, order, np.random.default_rng(seed)), strict=True
        ):
            listed = np.arange(n)[rows]
            assert count_rows(rows) == len(listed)
            assert (np.diff(listed) > 0).all()
            seen.extend(listed)
            assert len(set(seen)) == len(seen) == total
        if order == "stored":
            assert seen == list(range(totals[-1]))


@pytest.mark.parametrize(("n", "size"), [(40, 10), (20_000, 10)])  # shuffled, and drawn one by one
def test_every_row_is_as_likely(n, size):
    """Each piece by itself is uniform, for both ways in which samples are drawn."""
    counts = np.zeros((2, n))
    for seed in range(4000):
        for k, rows in enumerate(
            Strata.uniform(n).draw([size // 2, size], "random", np.random.default_rng(seed))
        ):
            counts[k, rows] += 1
    for piece in counts:
        bins = piece.reshape(20, -1).sum(axis=1)
        assert chisquare(bins).pvalue > 1e-3


def test_pairs_of_rows_are_as_likely():
    """Without replacement, a pair of rows is together with probability k(k-1) / n(n-1)."""
    n, k, times = 12, 4, 20_000
    together = np.zeros((n, n))
    for seed in range(times):
        rows = next(Strata.uniform(n).draw([k], "random", np.random.default_rng(seed)))
        together[np.ix_(rows, rows)] += 1
    pairs = together[np.triu_indices(n, 1)]
    expected = times * k * (k - 1) / (n * (n - 1))
    z = (pairs - expected) / np.sqrt(expected * (1 - expected / times))
    assert np.abs(z).max() < 4.5
    assert kstest(z, "norm").pvalue > 1e-3


def test_few_rows_of_many_take_little_memory():
    tracemalloc.start()
    rows = list(Strata.uniform(10**12).draw([1000, 20_000], "random", np.random.default_rng(0)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(map(count_rows, rows)) == 20_000
    assert peak < 10e6


def test_take_and_spread():
    assert take(slice(5, 20), 3, 8) == slice(8, 13)
    assert take(slice(5, 9), 3, 8) == slice(8, 9)
    np.testing.assert_array_equal(take(np.arange(5) * 2, 1, 3), [2, 4])
    np.testing.assert_array_equal(spread(slice(10, 15), 32), np.arange(10, 15))
    picks = spread(slice(0, 1000), 32)
    assert (picks[0], picks[-1], len(picks)) == (0, 999, 32)
