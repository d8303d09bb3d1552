"""Plans are plain data, and cost what they say."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banditsis import Plan
from banditsis.plans.keeping import EvidenceStep, strongest
from banditsis.plans.plan import Step, change_rows, merge_steps


def test_paper_as_printed():
    steps, left, alpha = [], 2000, 1.5
    while left > 144:
        left = math.floor((left + 144) / 2)
        steps.append((math.ceil(1000 * (alpha**2 + 1) / (alpha**2 * math.sqrt(1000) + 1)), left))
        alpha /= 1.1
    assert Plan.paper(1000, 2000, 144, alpha=1.5).steps == tuple(steps)
    published = Plan.paper(1000, 2000, 10, discard=1 / 3)
    assert [s.n_keep for s in published.steps[:9]] == [1336, 894, 599, 402, 271, 184, 126, 87, 61]
    assert Plan.paper(1000, 110, 10, discard=0.07).steps[0].n_keep == 103  # no rounding noise
    assert Plan.paper(4, 10, 2, alpha=1e9).steps[0].n_rows == 3


@given(
    n=st.integers(3, 10**12),
    p=st.integers(1, 10**6),
    d=st.integers(1, 10**6),
    alpha=st.floats(1e-300, 1e300),
    discard=st.floats(0.01, 1),
)
def test_paper_for_any_size(n, p, d, alpha, discard):
    plan = Plan.paper(n, p, d, alpha, discard)
    assert plan.n_keep == min(d, p)
    rows, left, cells = 0, p, 0
    for step in plan.steps:
        assert rows <= step.n_rows <= n
        assert step.n_keep < left or d >= p
        cells += (step.n_rows - rows) * left
        rows, left = step
    assert cells == plan.cells <= n * p
    assert plan.fraction == cells / (n * p)
    assert d < p or plan == Plan.exact(n, p, d)


@given(
    n=st.integers(3, 10**9),
    p=st.integers(1, 10**6),
    d=st.integers(1, 10**4),
    alpha=st.floats(0.3, 2),
    discard=st.floats(0.2, 1),
)
def test_few_steps(n, p, d, alpha, discard):
    """They are steps of the plan, with the last one, and one less would read too many cells."""
    plan = Plan.paper(n, p, d, alpha, discard)
    few = merge_steps(plan)
    assert few.steps[-1] == plan.steps[-1]
    assert set(few.steps) <= set(plan.steps)
    assert plan.cells <= few.cells <= 1.1 * plan.cells
    if len(plan.steps) <= 10 and len(few.steps) > 1:
        shorter = itertools.combinations(plan.steps[:-1], len(few.steps) - 2)
        cells = [Plan(n, p, (*chosen, plan.steps[-1])).cells for chosen in shorter]
        assert min(cells) > 1.1 * plan.cells


def test_plans_are_values():
    assert Plan.paper(100, 20, 5) == Plan.paper(100, 20, 5)
    assert len({Plan.paper(100, 20, 5), Plan.paper(100, 20, 5), Plan.exact(100, 20, 5)}) == 2
    assert Plan.exact(100, 20, 50).steps == ((100, 20),)
    assert Plan.subsample(100, 20, 5, 30).cells == 600
    assert Plan(100, 20, ((10, 8), (50, 5))).steps == (Step(10, 8), Step(50, 5))
    plan = Plan.paper(10_000, 500, 50)
    lines = str(plan).splitlines()
    assert lines[0].startswith("paper: 10,000 rows × 500 features → 50")
    assert len(lines) == 2 + len(plan.steps)
    few = change_rows(plan, lambda rows: min(rows, 500), 500)
    assert few.n_rows == max(step.n_rows for step in few.steps) == 500


def test_cost_grows_like_the_root_of_n():
    cells = [Plan.paper(n, 2000, 30).cells for n in (10**4, 10**6, 10**8)]
    slopes = [math.log10(b / a) / 2 for a, b in itertools.pairwise(cells)]
    assert all(0.45 < slope < 0.6 for slope in slopes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Plan(10, 5, ()), "at least one step"),
        (lambda: Plan(10, 5, ((5, 5), EvidenceStep(10, 5, 0.1, 3.0))), "all Step or all EvidenceStep"),
        (lambda: Plan(10, 5, ((8, 3), (6, 2))), "n_rows of a step must be from 8 to 10, got 6"),
        (lambda: Plan(10, 5, ((11, 3),)), "n_rows of a step must be from 3 to 10, got 11"),
        (lambda: Plan(10, 5, ((8, 3), (9, 4))), "n_keep of a step must be from 1 to 3, got 4"),
        (lambda: Plan.exact(10, 5, 0), "d must be at least 1, got 0"),
        (lambda: Plan.exact(10, 0, 1), "p must be at least 1, got 0"),
        (lambda: Plan.subsample(10, 5, 2, 11), "m must be from 3 to 10, got 11"),
        (lambda: Plan.paper(10, 5, 2, discard=0), r"discard must be in \(0, 1\], got 0"),
        (lambda: Plan.paper(10, 5, 2, alpha=-1), "alpha must be a finite number greater than 0, got -1"),
        (lambda: Plan.paper(10, 5, 2, discard=1.5), r"discard must be in \(0, 1\], got 1.5"),
    ],
)
def test_impossible_plans(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("kind", ["normal", "ties", "sorted", "reversed", "equal", "few large"])
def test_the_strongest_of_many(kind):
    """Most are ruled out by a sample; the result must be that of a full search."""
    rng = np.random.default_rng(0)
    for size, n_keep in [(10_000, 3), (30_000, 100), (70_000, 1), (5000, 400)]:
        normal = np.abs(rng.standard_normal(size))
        strength = {
            "normal": normal,
            "ties": np.round(normal, 2),
            "sorted": np.sort(normal),
            "reversed": np.sort(normal)[::-1],
            "equal": np.full(size, 0.5),
            "few large": np.where(rng.permutation(size) < n_keep // 2, normal, 0.0),
        }[kind]
        order = np.lexsort((np.arange(size), -strength))[:n_keep]
        kept, cutoff = strongest(strength, n_keep)
        assert kept.tolist() == sorted(order.tolist())
        assert cutoff == strength[order[-1]]
