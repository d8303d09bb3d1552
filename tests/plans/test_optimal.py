"""Plans for a budget: within it, better than the paper's, the same every time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banditsis import Plan, screen
from banditsis.results import selection_mask


@settings(max_examples=25, deadline=None)
@given(n=st.integers(3, 10**12), p=st.integers(1, 10**6), d=st.integers(1, 10**6), budget=st.floats(1e-9, 1))
def test_never_above_the_budget(n, p, d, budget):
    budget = max(budget, min(1.0, 4.0001 / n))
    for rereads in (False, True):
        plan = Plan.optimal(n, p, d, budget, rereads=rereads)
        assert (plan.n_keep, plan.rereads) == (min(d, p), rereads)
        assert plan.cells <= budget * n * p
        if plan.name == "optimal":
            assert plan.steps[0].n_rows >= min(n, 4)
            one = Plan.subsample(n, p, d, int(budget * n))
            assert plan.detection_floor() <= 1.001 * one.detection_floor()
        assert plan == Plan.optimal(n, p, d, budget, rereads=rereads)


@pytest.mark.parametrize("n", [10**3, 10**7])
def test_lower_floor_than_the_paper_at_its_cost(n):
    p = 10**5
    for ratio, printed, published in ((10, 0.94, 0.88), (100, 0.92, 0.95), (10**4, 0.90, 1)):
        for discard, alpha, bound in ((1 / 2, 1.1, printed), (1 / 3, 1.0, published)):
            paper = Plan.paper(n, p, p // ratio, alpha, discard)
            plan = Plan.optimal(n, p, p // ratio, paper.cells)
            assert plan.cells <= paper.cells
            assert plan.detection_floor() <= bound * paper.detection_floor()


def test_keeps_what_matters_more_often_than_the_paper():
    """Twenty features at a correlation that the paper's plan loses now and then."""
    rng = np.random.default_rng(0)
    n, p, d = 2000, 1000, 80
    paper = Plan.paper(n, p, d, 1.0, 1 / 3)
    plan = Plan.optimal(n, p, d, paper.cells)
    kept = np.zeros(2)
    for seed in range(20):
        X = rng.standard_normal((n, p))
        y = X[:, :12].sum(axis=1) * 0.25 + 0.5 * rng.standard_normal(n)
        for k, candidate in enumerate((paper, plan)):
            kept[k] += selection_mask(screen(X, y, candidate, random_state=seed))[:12].mean()
    assert kept[1] > kept[0] + 0.2


def test_budgets_of_cells_and_of_everything_and_impossible_ones():
    exact = Plan.exact(10_000, 500, 50)
    assert Plan.optimal(10_000, 500, 50, 0.05) == Plan.optimal(10_000, 500, 50, 250_000)
    assert Plan.optimal(10_000, 500, 50, 1.0) == Plan.optimal(10_000, 500, 50, 10**9) == exact
    assert Plan.optimal(10_000, 500, 50, 1.0, rereads=True) == replace(exact, rereads=True)
    for budget, message in (
        (0.00001, r"0.1 rows .* at least 0.0004"),
        (1000, r"2 rows .* at least 2,000 cells"),
        (0, r"budget must be at least 1, got 0"),
        (1.5, r"budget must be in \(0, 1\], got 1.5"),
        (-0.5, r"budget must be in \(0, 1\], got -0.5"),
    ):
        with pytest.raises(ValueError, match=message):
            Plan.optimal(10_000, 500, 50, budget)


def test_a_budget_is_kept_if_nothing_is_dropped():
    for d in (500, 600):
        assert Plan.optimal(10_000, 500, d, 0.05) == Plan(10_000, 500, ((500, 500),), "optimal")
        assert Plan.optimal(10_000, 500, d, 0.05, rereads=True).cells == 250_000
        with pytest.raises(ValueError, match="with p-values at least 5,000,000 are read"):
            Plan.optimal(10_000, 500, d, 0.05, pvalues=True)
    assert Plan.optimal(10**6, 10, 10, 0.01).fraction == 0.01
    assert Plan.optimal(10**6, 10, 10, 0.01).detection_floor() == 0
    X = np.random.default_rng(0).standard_normal((100_000, 400), dtype=np.float32)
    result = screen(X, X[:, 3] + X[:, 5], 400, budget=0.02, random_state=0)
    assert result.cells_read == 0.02 * X.size
    assert set(result.selected[:2]) == {3, 5}
