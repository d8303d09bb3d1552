"""The plans and measures of Table 1 and Figure 2."""

import numpy as np
import pytest
from paper.figure2 import matching_subsample
from paper.published import TABLE1
from paper.simulations import make_data, minimum_size, selects_all, variant_plan

from banditsis import Plan, screen


def test_published_sizes_are_those_of_discarding_a_third():
    plan = Plan.paper(1000, 2000, 10, alpha=1.5, discard=1 / 3)
    sizes = [2000, *(step.n_keep for step in plan.steps)]
    assert sizes[:10] == [2000, 1336, 894, 599, 402, 271, 184, 126, 87, 61]
    whole = {q for line in TABLE1 for q in line.quantiles if line.alpha is not None and q == int(q)}
    assert whole <= set(sizes)
    assert not set(sizes[1:10]) & {step.n_keep for step in variant_plan("printed", 1.5, 10).steps}
    printed, published = variant_plan("printed", 1.1, 144), variant_plan("published", 1.1, 144)
    assert published.steps[0].n_rows == printed.steps[1].n_rows  # it starts with the second step


def test_minimum_size_is_the_model_size_before_the_first_loss():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 40))
    y = X[:, 0] + 0.1 * rng.standard_normal(400)
    result = screen(X, y, Plan.paper(400, 40, 2, alpha=1.0), random_state=0)
    earlier, lost = (np.flatnonzero(result.last_round == k) for k in (0, 1))
    assert result.rounds[1].n_features == 21
    best = result.selected
    for active, size in (([lost[0]], 21), ([lost[0], best[0]], 21), ([lost[0], earlier[0]], 40), (best, 2)):
        assert minimum_size(result, np.array(active)) == size
        assert selects_all(result, np.array(active)) == (size == 2)  # nothing is lost


@pytest.mark.parametrize("variant", ["printed", "published"])
@pytest.mark.parametrize("alpha", [1.5, 0.5])
def test_subsample_has_as_many_cells_as_the_plan(variant, alpha):
    plan = variant_plan(variant, alpha, 144)
    subsample = matching_subsample(plan)
    assert abs(subsample.cells - plan.cells) <= plan.n_features / 2
    assert subsample.n_keep == 144


def test_replications_have_different_data():
    X, y, _, seeds = make_data("M1", 0, seed=0)
    same, _, _, same_seeds = make_data("M1", 0, seed=0)
    assert np.array_equal(X, same)
    assert [next(seeds) for _ in range(3)] == [next(same_seeds) for _ in range(3)]
    for model, replication, seed in [("M2", 0, 0), ("M1", 1, 0), ("M1", 0, 1)]:
        other, z, _, _ = make_data(model, replication, seed)
        assert not np.array_equal(X, other)
        assert abs(np.corrcoef(y, z)[0, 1]) < 0.2
