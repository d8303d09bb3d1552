"""Sampling designs: allocations are nested and within bounds, and say how precise a sample is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banditsis import Plan
from banditsis.plans.design import SamplingDesign

designs = st.lists(
    st.tuples(st.integers(1, 400), st.floats(0, 1e6, allow_subnormal=False)), min_size=1, max_size=6
).filter(lambda strata: any(spread > 0 for _, spread in strata))


@given(strata=designs)
def test_allocations_have_the_right_size_and_only_grow(strata):
    design = SamplingDesign(*zip(*strata, strict=True))
    before = np.zeros(design.n_strata, int)
    for m in range(design.n_rows + 1):
        rows = design.allocate(m)
        assert rows.sum() == m
        assert (before <= rows).all()
        assert (rows <= design.sizes).all()
        if m >= design.n_strata:
            assert (rows >= 1).all()
        before = rows


def test_more_rows_come_from_strata_that_vary_more():
    design = SamplingDesign((9000, 1000), (1.0, 9.0))  # Neyman: equally many
    rows = design.allocate(1000)
    assert rows[1] == pytest.approx(500, abs=100)
    assert design.effective_rows(1000) > 2000


@given(strata=designs)
def test_effective_rows_grow_up_to_all_rows(strata):
    design = SamplingDesign(*zip(*strata, strict=True))
    n = design.n_rows
    effective = [design.effective_rows(m) for m in range(design.n_strata, n + 1)]
    assert (np.diff(effective) > -1e-9 * n).all()
    assert effective[-1] == pytest.approx(n)


def test_a_uniform_design_is_worth_its_rows():
    design = SamplingDesign.uniform(1000)
    assert [design.effective_rows(m) for m in (1, 10, 1000)] == [1, 10, 1000]
    assert design.allocate(17).tolist() == [17]
    assert design.rows_for(500) == 500


def test_rows_for_inverts_the_effective_rows():
    design = SamplingDesign((998_000, 2000), (0.002, 0.998))
    for m in (100, 1000, 4000, 100_000):
        assert design.rows_for(design.effective_rows(m)) == m


def test_a_design_buys_a_lower_floor_and_a_cheaper_guarantee():
    """A normal response needs about a third fewer rows for the same precision."""
    n, p, d = 100_000, 1000, 20
    normal = SamplingDesign((50_000, 30_000, 20_000), (0.35, 0.95, 1.8))
    uniform = Plan.optimal(n, p, d, 0.02)
    stratified = Plan.optimal(n, p, d, 0.02, design=normal)
    assert stratified.cells <= 0.02 * n * p
    assert stratified.detection_floor() < 0.9 * uniform.detection_floor()
    guaranteed = [Plan.guaranteed(n, p, d, 0.1, design=design).cells for design in (None, normal)]
    assert guaranteed[1] < 0.8 * guaranteed[0]


@pytest.mark.parametrize("strata", [((), ()), ((5,), (1.0, 2.0)), ((0, 5), (1.0, 1.0)), ((5,), (-1.0,))])
def test_strata_are_checked(strata):
    with pytest.raises(ValueError, match="a sampling design needs"):
        SamplingDesign(*strata)
