"""Sampling designs: allocations are nested and within bounds, and say how precise a sample is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banditsis import Plan
from banditsis.engine.sampling import Strata
from banditsis.plans.design import SamplingDesign

designs = st.lists(
    st.tuples(st.integers(1, 400), st.floats(0, 1e6, allow_subnormal=False)), min_size=1, max_size=6
).filter(lambda strata: any(spread > 0 for _, spread in strata))


@given(strata=designs)
def test_allocations_and_effective_rows_grow_up_to_all_rows(strata):
    design = SamplingDesign(*zip(*strata, strict=True))
    before = np.zeros(design.n_strata, int)
    for m in range(design.n_rows + 1):
        rows = design.allocate(m)
        assert rows.sum() == m
        assert (before <= rows).all()
        assert (rows <= design.sizes).all()
        assert m < design.n_strata or (rows >= 1).all()
        before = rows
    effective = [design.effective_rows(m) for m in range(design.n_strata, design.n_rows + 1)]
    assert (np.diff(effective) > -1e-9 * design.n_rows).all()
    assert effective[-1] == pytest.approx(design.n_rows)


def test_rows_of_strata_that_vary_more_are_worth_more():
    design = SamplingDesign((9000, 1000), (1.0, 9.0))  # Neyman: equally many
    assert design.allocate(1000)[1] == pytest.approx(500, abs=100)
    assert design.effective_rows(1000) > 2000
    assert SamplingDesign.uniform(1000).effective_rows(10) == 10


def test_a_design_buys_a_lower_floor_and_a_cheaper_guarantee():
    """A normal response needs about a third fewer rows for the same precision."""
    n, p, d = 100_000, 1000, 20
    normal = SamplingDesign((50_000, 30_000, 20_000), (0.35, 0.95, 1.8))
    uniform, stratified = (Plan.optimal(n, p, d, 0.02, design=design) for design in (None, normal))
    assert stratified.cells <= 0.02 * n * p
    assert stratified.detection_floor() < 0.9 * uniform.detection_floor()
    uniform, stratified = (Plan.guaranteed(n, p, d, 0.1, design=design) for design in (None, normal))
    assert stratified.cells < 0.8 * uniform.cells


def test_unread_outliers_are_as_unlikely_as_a_normal_error():
    """The probability that no row of a set is in the sample, for sets of the largest rows."""
    sizes, spreads, largest = (100_000, 300, 20, 1), (1.0, 8.0, 20.0, 150.0), (5.0, 11.0, 24.0, 150.0)
    design = SamplingDesign(sizes, spreads, largest, guaranteed=True)
    assert SamplingDesign(sizes, spreads).unread_variance(3) == np.inf  # a stratum is not read at all
    total = np.sum(np.array(sizes) * np.square(spreads))
    for m in (100, 300, 600):
        missed = 1 - design.allocate(m) / sizes
        variance = design.unread_variance(m)
        for h, size in ((1, 300), (2, 20)):
            for k in (1, 5, size):
                added = k * largest[h] ** 2 / total
                assert missed[h] ** k <= np.exp(-added / (2 * variance)) * (1 + 1e-9) if variance else True
        assert missed[3] == 0
    assert design.unread_variance(600) < design.unread_variance(300) < design.unread_variance(100)
    assert design.unread_variance(design.n_rows) == 0
    assert SamplingDesign((900, 100), (1.0, 3.0)).unread_variance(10) == 0  # no outliers
    usual = SamplingDesign(sizes, spreads, largest)
    assert usual.unread_variance(300) > 2 * design.unread_variance(300)
    assert design.effective_rows(300) > 0.6 * usual.effective_rows(300)


def test_scale_rows_are_those_of_the_variance():
    """The weighted mean of squares of a normal feature has the variance 2 (1 / scale rows - 1 / n)."""
    rng, n, m = np.random.default_rng(0), 20_000, 300
    y = rng.standard_t(3, n)
    sizes = np.abs(y - y.mean())
    strata = Strata.by_size(n, lambda rows: sizes[rows])
    X = np.square(rng.standard_normal((n, 200)))
    errors = []
    for seed in range(20):
        rows = next(strata.draw([m], "random", np.random.default_rng(seed), lazy=False))
        errors.append(strata.row_weights(rows) @ X[rows] / m - X.mean(axis=0))
    assert np.var(errors) == pytest.approx(2 * (1 / strata.design.scale_rows(m) - 1 / n), rel=0.1)


@pytest.mark.parametrize("strata", [((), ()), ((5,), (1.0, 2.0)), ((0, 5), (1.0, 1.0)), ((5,), (-1.0,))])
def test_strata_are_checked(strata):
    with pytest.raises(ValueError, match="a sampling design needs"):
        SamplingDesign(*strata)
