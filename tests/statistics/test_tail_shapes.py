"""Moments and distributions of features whose p-values are checked, against plain computations."""

import numpy as np
import pytest
from scipy import stats

from banditsis import Plan, screen
from banditsis.sources.array import ArraySource
from banditsis.statistics.saddlepoint import Atoms, DrawnSum, Sample, ScoreParts, find_atoms
from banditsis.statistics.tail_test import TailTest

N = 3000
rng = np.random.default_rng(0)
NORMAL, LOGNORMAL = rng.standard_normal(N), np.exp(rng.standard_normal(N))


@pytest.mark.parametrize("x", [NORMAL, LOGNORMAL, LOGNORMAL[:33], (NORMAL > 2) * 1.0])
def test_shape_of_a_sample(x):
    sample = Sample((x - x.mean()) / x.std())
    assert sample.skewness == pytest.approx(stats.skew(x), rel=1e-9, abs=1e-9)
    assert sample.kurtosis == pytest.approx(stats.kurtosis(x), rel=1e-9, abs=1e-9)
    assert sample.is_like_normal == (x is NORMAL)


RESIDUALS = {
    "lognormal": LOGNORMAL[:, None],
    "rare": (np.arange(N) < 20)[:, None] * 1.0,
}
FEATURES = {
    "normal": NORMAL,
    "associated": NORMAL + (np.arange(N) < 20),
    "lognormal": LOGNORMAL[::-1],
    "rare": (rng.random(N) < 0.01) * 1.0,
    "genotype": rng.binomial(2, 0.02, N) * 1.0,
    "heavy": rng.standard_t(2, N),
    "copy": (np.arange(N) < 20) * 1.0,
}


@pytest.mark.parametrize("residuals", RESIDUALS)
def test_an_intercept_as_a_design_and_units_change_nothing(residuals):
    parts, kept = ScoreParts(RESIDUALS[residuals]), []
    alone, given = TailTest(parts), TailTest(parts._replace(design=np.ones((N, 1))))
    for x in FEATURES.values():
        expected = alone.log_pvalue(x, -12.0)
        kept.append(expected == -12.0)
        assert given.log_pvalue(x, -12.0) == pytest.approx(expected, rel=1e-6)
        largest = np.abs(x).max()
        for other in (1e300 / 8 * x / largest, 1e-300 * x, x.astype(np.float32), x[::-1].copy()[::-1]):
            assert alone.log_pvalue(other, -12.0) == pytest.approx(expected, rel=1e-5)
    assert any(kept)  # otherwise this would prove little
    assert not all(kept)


@pytest.mark.parametrize(
    "sample",
    [
        [0.0, -0.0, 1.0, 0.0],
        [5.0, 5.0],
        [1e300, -1e300, 1e-300],
        np.arange(1024) / 7,
        np.log1p(rng.integers(0, 900, N)),
    ],
    ids=["signed zeros", "constant", "extreme", "1,024 values", "irregular"],
)
def test_few_values_are_counted(sample):
    values, counts = np.unique(sample, return_counts=True)
    atoms = find_atoms(np.asarray(sample))
    np.testing.assert_array_equal(atoms.values, values)
    np.testing.assert_array_equal(atoms.counts, counts)


def test_spans_of_lattices():
    assert find_atoms(np.array([0.0, 0.3, 0.9, 1.2])).span == pytest.approx(0.3)
    assert find_atoms(np.array([0.0, 0.3, 1.0])).span == 0
    assert find_atoms(np.array([7.0, 7.0])).span == 0


MANY = {
    "normal": rng.standard_normal(20_000),
    "increasing": np.sort(rng.standard_normal(20_000)),
    "decreasing": -np.sort(rng.standard_exponential(20_000)),
    "cauchy": rng.standard_cauchy(20_000),
    "mostly zeros": np.where(rng.random(20_000) < 0.8, 0.0, rng.standard_normal(20_000)),
    "zeros are smallest": np.where(rng.random(20_000) < 0.8, 0.0, rng.standard_exponential(20_000)),
    "1,025 values": np.arange(20_000) % 1025 * 1.0,
    "narrow": np.append(1e-9 * rng.standard_normal(20_000), np.repeat([-1e9, 1e9], 127)),
    "float32": rng.standard_t(3, 20_000).astype(np.float32),
}


@pytest.mark.parametrize("name", MANY)
def test_many_values_are_grouped(name):
    exact = MANY[name].astype(np.float64)
    sample, atoms = exact, find_atoms(exact)
    ordered = np.sort(exact)
    assert (np.diff(atoms.values) >= 0).all()
    assert atoms.counts.sum() == len(sample)
    assert atoms.span == 0
    np.testing.assert_array_equal(np.repeat(atoms.values, atoms.counts.astype(int))[:128], ordered[:128])
    np.testing.assert_array_equal(np.repeat(atoms.values, atoms.counts.astype(int))[-128:], ordered[-128:])
    assert atoms.counts @ atoms.values == pytest.approx(exact.sum(), abs=1e-9 * np.abs(exact).sum())
    mean = exact.mean()
    squares = atoms.counts @ np.square(atoms.values - mean)
    assert squares == pytest.approx(np.square(exact - mean).sum(), rel=2e-4)
    ends = np.cumsum(atoms.counts).astype(int)  # each atom is a run of the sorted sample
    assert (ordered[ends - 1] >= atoms.values - 1e-9 * np.abs(ordered).max()).all()


@pytest.mark.parametrize("name", ["normal", "cauchy", "float32"])
def test_groups_hardly_change_pvalues(name):
    sample = MANY[name].astype(np.float64)
    n = len(sample)
    g = (sample - sample.mean()) / sample.std() / np.sqrt(n)
    y = np.exp(rng.standard_normal(n))
    drawn = DrawnSum(find_atoms((y - y.mean()) / y.std()))
    for z in (2.0, 5.0, 12.0):
        expected = drawn.log_pvalue(Atoms(np.sort(g), np.ones(n), 0.0), z)
        assert drawn.log_pvalue(find_atoms(g), z) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_of_an_array_are_read_in_place(order):
    x = np.asarray(rng.standard_normal((5000, 9)), order=order)
    columns = ArraySource(x).read_columns(slice(10, 5000), np.array([1, 7]))
    np.testing.assert_array_equal(columns, x[10:, [1, 7]].T)
    assert all(column.flags.c_contiguous for column in columns)
    assert np.shares_memory(columns[0], x) == (order == "F")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int16, bool])
def test_every_dtype_gives_the_same(dtype):
    generator = np.random.default_rng(1)
    x = generator.binomial(1 if dtype is bool else 2, 0.02, (800, 40))
    y = np.exp(generator.standard_normal(800)) + 3 * x[:, 0]
    expected = screen(x * 1.0, y, Plan.exact(800, 40, 5), pvalues=True)
    assert "raised" in str(expected)
    for array in (x.astype(dtype), np.asfortranarray(x.astype(dtype))):
        array.flags.writeable = False
        found = screen(array, y, Plan.exact(800, 40, 5), pvalues=True)
        np.testing.assert_allclose(found.log10_pvalues, expected.log10_pvalues, rtol=1e-5, atol=1e-6)
