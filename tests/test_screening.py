"""The loop: what it selects, what it records, what it refuses."""

import threading

import numpy as np
import pytest

from banditsis import SIS, Plan, open_source, screen
from banditsis.engine.sampling import Strata
from banditsis.results import selection_mask
from reference import correlations, paper_algorithm

rng = np.random.default_rng(7)
N, P, D = 3000, 300, 8
X = rng.standard_normal((N, P))
Y = X[:, [3, 50, 200]].sum(axis=1) + rng.standard_normal(N)


@pytest.mark.parametrize(("alpha", "discard"), [(0.5, 0.5), (1.5, 1 / 3), (1.0, 1.0), (0.8, 0.9)])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_algorithm_written_plainly(alpha, discard, seed):
    plan = Plan.paper(N, P, D, alpha, discard)
    totals = [step.n_rows for step in plan.steps]
    rows = np.concatenate(list(Strata.uniform(N).draw(totals, "random", np.random.default_rng(seed))))
    expected = paper_algorithm(X, Y, D, [rows[:total] for total in totals], discard)
    result = screen(X, Y, plan, random_state=seed)
    np.testing.assert_array_equal(np.sort(result.selected), expected)
    scores = correlations(X[np.ix_(rows, expected)], Y[rows])
    np.testing.assert_allclose(result.scores[expected], scores, atol=1e-12)


def test_a_first_round_of_all_rows_is_sis():
    adaptive = screen(X, Y, Plan(N, P, ((N, 100), (N, D))))
    np.testing.assert_array_equal(adaptive.selected, screen(X, Y, Plan.exact(N, P, D)).selected)
    tiny = screen(X, Y, Plan.paper(N, P, D, alpha=1e-6), random_state=0)
    assert tiny.rounds[0].n_rows == N
    np.testing.assert_array_equal(tiny.selected, adaptive.selected)
    assert tiny.cells_read == N * P


def test_the_trace():
    plan = Plan.paper(N, P, D)
    result = screen(X, Y, plan, random_state=0)
    assert [(r.n_rows, r.n_kept) for r in result.rounds] == list(plan.steps)
    assert tuple(r.cells for r in result.rounds) == plan.cells_by_step
    assert result.cells_read == plan.cells
    for k, r in enumerate(result.rounds):
        dropped = np.abs(result.scores[(result.last_round == k) & ~selection_mask(result)])
        assert len(dropped) == r.n_features - r.n_kept
        assert dropped.max() <= r.cutoff
    assert np.abs(result.scores[result.selected]).min() == result.rounds[-1].cutoff


def test_seeds():
    plan = Plan.paper(N, P, D)
    first = screen(X, Y, plan, random_state=11)
    np.testing.assert_array_equal(first.scores, screen(X, Y, plan, random_state=11).scores)
    assert (first.scores != screen(X, Y, plan, random_state=12).scores).any()
    for generator in (np.random.default_rng(5), np.random.RandomState(5)):
        result = screen(X, Y, plan, random_state=generator)
        again = screen(X, Y, plan, random_state=result.parameters["seed"])
        np.testing.assert_array_equal(result.scores, again.scores)


def test_responses_with_different_features_and_gaps_are_as_if_single():
    complete = np.column_stack([Y, X[:, 9] - Y, Y, -Y, rng.standard_normal(N)])
    Ys, plan = complete.copy(), Plan.paper(N, P, D)
    Ys[:500, 2:4] = np.nan
    Ys[1000:1010, 4] = np.nan
    for responses, missing in ((complete, "raise"), (Ys, "pairwise")):
        together = screen(X, responses, plan, missing=missing, random_state=2)
        assert len({tuple(result.selected) for result in together}) > 2
        for k, result in enumerate(together):
            alone = screen(X, responses[:, k], plan, missing=missing, random_state=2)
            np.testing.assert_array_equal(result.selected, alone.selected)
            np.testing.assert_allclose(result.scores, alone.scores, atol=1e-12)
    assert [r.n_rows for r in together] == [N, N, N - 500, N - 500, N - 10]
    known = ~np.isnan(Ys[:, 2])
    exact = screen(X, Ys[:, 2], Plan.exact(N, P, D), missing="pairwise")
    np.testing.assert_allclose(exact.scores, correlations(X[known], Ys[known, 2]), atol=1e-12)


def test_where_exact_is_faster_a_note_says_so():
    small = screen(X, Y, Plan.paper(N, P, D), random_state=0)
    assert any("exact screening" in note for note in small.notes)
    assert len(small.rounds) > 1  # it obeys all the same
    assert not screen(X, Y, Plan.exact(N, P, D)).notes
    tall = rng.standard_normal((200_000, 300), dtype=np.float32)
    saves = screen(tall, tall[:, 0] + tall[:, 1], Plan.paper(200_000, 300, D), n_jobs=1, random_state=0)
    assert not saves.notes


def test_stored_order_reads_a_prefix_and_warns_of_sorted_rows():
    plan = Plan.subsample(N, P, D, 300)
    result = screen(X, Y, plan, row_order="stored")
    np.testing.assert_allclose(result.scores, correlations(X[:300], Y[:300]), atol=1e-12)
    order = np.argsort(Y)
    with pytest.warns(UserWarning, match=r"not in random order.*random row order"):
        screen(X[order], Y[order], plan, row_order="stored")
    labels = np.where(np.arange(N) < 250, 0, rng.integers(0, 2, N))
    with pytest.warns(UserWarning, match="not in random order"):
        screen(X, labels, plan, row_order="stored", statistic="anova")


def test_a_large_matrix_is_checked_where_it_is_read():
    big, y = rng.standard_normal((4000, 300)), rng.standard_normal(4000)
    plan = Plan.subsample(4000, 300, 5, 100)
    rows = next(Strata.uniform(4000).draw([100], "random", np.random.default_rng(0)))
    unread = np.setdiff1d(np.arange(4000), rows)[7]
    big[unread, 3] = np.nan
    screen(big, y, plan, random_state=0)
    big[rows[9], 250] = np.inf
    for missing in ("raise", "pairwise"):
        with pytest.raises(ValueError, match=f"infinity in column 'x250', row {rows[9]:,}"):
            screen(big, y, plan, random_state=0, missing=missing)
    with pytest.raises(ValueError, match=r"NaN in column 'x3', row 7: .*'pairwise'"):
        screen(big, y, Plan.exact(4000, 300, 5))


def test_a_range_that_float32_cannot_hold():
    big = np.zeros((4000, 300), np.float32)
    big[:] = rng.standard_normal(300)
    big[1::2] += 1
    big[7, 5] = 1e30
    with pytest.raises(ValueError, match=r"column 'x5' span too many orders .*float64"):
        screen(big, np.arange(4000.0), Plan.exact(4000, 300, 5))
    assert screen(big.astype(float), np.arange(4000.0), Plan.exact(4000, 300, 5)).scores[5] != 0


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (X[:, 0], Y, ValueError, r"two dimensions.*reshape\(-1, 1\)"),
        (X[:2], Y[:2], ValueError, "at least 3"),
        (X[:, :0], Y, ValueError, "0 feature"),
        (X, Y[:-1], ValueError, "X has 3,000 rows and y has 2,999 values"),
        (X, np.zeros((N, 0)), ValueError, "no columns"),
        (X, np.ones(N), ValueError, r"the response is constant, 1.0, in all 3,000 rows.* the right column"),
        (X, np.ones((N, 2)), ValueError, r"the response \(column 0\) is constant"),
        (X, np.where(np.arange(N) == 5, np.nan, Y), ValueError, "the response contains NaN in row 5"),
        (X, np.where(np.arange(N) == 5, np.inf, Y), ValueError, "the response contains infinity in row 5"),
        (X + 0j, Y, ValueError, "Complex data not supported"),
        (X, Y + 0j, ValueError, "Complex data not supported"),
        (X.astype(str), Y, TypeError, "X must hold numbers"),
        (np.where(X > 2, "high", X.astype(object)), Y, TypeError, "'high'"),
        (X, np.repeat("a", N), ValueError, "at least two classes, got one class: 'a'"),
        (X, np.array([1, None] * (N // 2)), ValueError, "NaN"),
        (X, np.array([object()] * N), TypeError, "neither all numbers nor all strings"),
        (np.ma.masked_array(X), Y, TypeError, "masked arrays"),
        (np.where(np.eye(N, P) > 0, np.nan, X), Y, ValueError, "'x0', row 0: set missing=.*SimpleImputer"),
    ],
)
def test_bad_data(x, y, error, message):
    plan = Plan.exact(max(np.shape(x)[0], 1), max(np.shape(x)[-1], 1), 3)
    with pytest.raises(error, match=message):
        screen(x, y, plan)


def test_bad_labels_and_plans():
    several = "classes of several rows"
    for labels, message in ((0 * Y, "at least two classes"), (Y, "continuous"), (np.arange(N), several)):
        with pytest.raises(ValueError, match=message):
            screen(X, labels, Plan.exact(N, P, 3), statistic="anova")
    for plan in (Plan.exact(10, 5, 2), lambda design: Plan.exact(10, 5, 2)):
        with pytest.raises(ValueError, match="the plan is for 10 rows × 5 features, but X has"):
            screen(X, Y, plan)
    for plan in ("10", lambda design: "10"):
        with pytest.raises(TypeError, match="keep must be a number of features, or a Plan"):
            screen(X, Y, plan)
    with pytest.raises(ValueError, match="names"):
        open_source(X, names=["a"])
    with pytest.raises(TypeError, match="n_jobs must be an integer"):
        screen(X, Y, Plan.exact(N, P, 3), n_jobs="all")


def test_progress_counts_the_cells(capsys):
    for progress in (True, None):
        SIS(3, progress=progress).fit(X, Y)
        assert ("900,000 cells" in capsys.readouterr().err) == bool(progress)
    plan = Plan.paper(N, P, D)
    for y, n_responses in ((Y, 1), (np.column_stack([Y, -Y, X[:, 1]]), 3)):
        seen = []
        screen(X, y, plan, progress=lambda *cells, seen=seen: seen.append(cells))
        done, totals = np.transpose(seen)
        assert set(totals) == {n_responses * plan.cells}
        assert (np.diff(done) >= 0).all()
        assert done[-1] == pytest.approx(totals[0], rel=0.01)


def test_an_error_midway_leaves_no_threads():
    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError):
        screen(X, Y, Plan.exact(N, P, D), n_jobs=3, progress=lambda done, total: 1 // 0)
    assert set(threading.enumerate()) <= before  # those of earlier tests may end meanwhile


@pytest.mark.parametrize("statistic", ["pearson", "anova", "logistic", "spearman", "distance"])
def test_features_that_are_complete_are_scored_in_few_rows(statistic):
    few = np.random.default_rng(0).standard_normal((8, 5))
    y = (np.arange(8) % 2).astype(float)
    few[:, 3] = y + 0.01 * few[:, 3]
    plan = Plan.exact(8, 5, 1)
    expected = screen(few, y, plan, statistic=statistic)
    found = screen(few, y, plan, statistic=statistic, missing="pairwise")
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12)
    assert found.selected == expected.selected == [3]
    assert not any("scored 0" in note for note in found.notes)
    few[5, 3] = np.nan
    found = screen(few, y, plan, statistic=statistic, missing="pairwise")
    assert found.scores[3] == 0
    assert any("1 feature was present in fewer than 10" in note for note in found.notes)


N_RARE = 20_000
RARE = (rng.permutation(N_RARE) < 20) * 1.0
WIDE = rng.standard_normal((N_RARE, 40))
WIDE[:, 7] += 3 * RARE
PLANS = {
    "paper": Plan.paper(N_RARE, 40, 3),
    "optimal": Plan.optimal(N_RARE, 40, 3, 0.02),
    "subsample": Plan.subsample(N_RARE, 40, 3, 300),
}


def constant_seeds(plan, n_seeds=40):
    """Seeds with which the rows of the first step show a single value of y."""
    totals = [step.n_rows for step in plan.steps]
    draws = [next(Strata.uniform(N_RARE).draw(totals, "random", seed)) for seed in range(n_seeds)]
    return [seed for seed, rows in enumerate(draws) if np.ptp(RARE[rows]) == 0]


@pytest.mark.parametrize("name", PLANS)
def test_rows_with_a_constant_response_drop_nothing(name):
    plan = PLANS[name]
    seeds = constant_seeds(plan)
    assert seeds  # some of them
    for seed in range(40):
        result = screen(WIDE, RARE, plan, sampling="uniform", random_state=seed)
        first = result.rounds[0]
        assert any("the response is constant in the" in note for note in result.notes) == (seed in seeds)
        assert (first.n_rows > plan.steps[0].n_rows) == (seed in seeds)
        assert first.cells == first.n_rows * 40
        assert result.selected.size == 3


@pytest.mark.parametrize("statistic", ["anova", "logistic", "poisson", "spearman", "chatterjee", "cox"])
@pytest.mark.parametrize("row_order", ["random", "blocks", "stored"])
def test_a_rare_response_with_every_statistic(statistic, row_order):
    plan = PLANS["paper"]
    seed = constant_seeds(plan)[0]
    y = np.column_stack([rng.exponential(size=20_000), RARE]) if statistic == "cox" else RARE
    result = screen(WIDE, y, plan, statistic=statistic, row_order=row_order, random_state=seed)
    assert result.selected.size == 3
    assert np.isfinite(result.scores).all()


def test_rare_responses_are_as_if_single():
    Ys = np.column_stack([WIDE[:, 3] + rng.standard_normal(20_000), RARE, np.roll(RARE, 7)])
    plan = PLANS["paper"]
    seed = constant_seeds(plan)[0]
    for k, result in enumerate(screen(WIDE, Ys, plan, random_state=seed)):
        alone = screen(WIDE, Ys[:, k], plan, random_state=seed)
        assert result.rounds[0].n_rows == alone.rounds[0].n_rows
        assert result.notes == alone.notes
        np.testing.assert_allclose(result.scores, alone.scores, atol=1e-12)


@pytest.mark.parametrize("statistic", ["pearson", "anova", "logistic", "spearman", "wilcoxon"])
@pytest.mark.parametrize("missing", ["raise", "pairwise"])
def test_a_constant_response_among_several(statistic, missing):
    """It is named by its column, also if others have gaps."""
    y = (Y > 0).astype(float)
    Ys = np.column_stack([y, 1 - y, np.full(N, 3.0)])
    if missing == "pairwise":
        Ys[:5, 1] = np.nan
    for plan in (Plan.paper(N, P, D), Plan.exact(N, P, D)):
        with pytest.raises(ValueError, match=r"the response \(column 2\) is constant, 3.0"):
            screen(X, Ys, plan, statistic=statistic, missing=missing)
