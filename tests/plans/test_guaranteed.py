"""min_correlation: nothing at or above it is lost, at a cost that does not depend on n."""

import math

import numpy as np
import pytest

from banditsis import BanditSIS, Plan, screen
from banditsis.plans.design import SamplingDesign
from banditsis.results import selection_mask
from reference import correlations, simulate


@pytest.mark.parametrize("kind", ["normal", "t5", "genotypes", "heavy noise", "equicorrelated"])
def test_nothing_at_or_above_the_minimum_is_lost(kind):
    """With confidence 0.5 half of the runs might lose something; features lie all around the minimum."""
    rng = np.random.default_rng(0)
    X, y = simulate(kind, 30_000, 120, rng, np.linspace(0.13, 0.22, 10))
    r = np.abs(correlations(X, y))
    plan = Plan.guaranteed(30_000, 120, None, 0.15, 0.5)
    lost = fraction = 0
    for seed in range(20):
        result = screen(X, y, plan, random_state=seed)
        lost += bool((r[~selection_mask(result)] >= 0.15).any())
        fraction += result.fraction_read / 20
        assert (np.abs(result.scores[result.selected]) >= 0.14).all()
    assert lost <= 10
    assert fraction < 1


def test_rows_do_not_depend_on_n():
    plans = [Plan.guaranteed(n, 10**4, 50, 0.1) for n in (10**6, 10**7, 10**12)]
    assert plans[1].cells <= 1.05 * plans[0].cells
    assert plans[2].cells <= 1.01 * plans[1].cells


def test_expected_cells_are_those_of_a_run_without_signal():
    rng = np.random.default_rng(1)
    plans, cells = [], []
    for seed in range(5):
        X, y = rng.standard_normal((20_000, 500)), rng.standard_normal(20_000)

        def make_plan(design):
            plans.append(Plan.guaranteed(20_000, 500, 5, 0.15, design=design))
            return plans[-1]

        results = [screen(X, y, make_plan, sampling=s, random_state=seed) for s in ("uniform", "stratified")]
        cells.append([result.cells_read for result in results])
    for plan, read in zip(plans, np.mean(cells, axis=0), strict=False):
        assert plan.cells < read < 1.25 * plan.cells  # the run reckons with an inflation a little above 1
    assert plans[1].cells < 0.75 * plans[0].cells


def test_the_best_are_kept_and_the_rest_reported():
    X, y = simulate("normal", 20_000, 200, np.random.default_rng(2), np.full(8, 0.3))
    for d, dropped in ((3, "5 of them were dropped"), (7, "1 of them was dropped")):
        result = screen(X, y, Plan.guaranteed(20_000, 200, d, 0.15), random_state=0)
        assert len(result.selected) == d
        assert result.cells_read < 0.5 * X.size
        (note,) = [note for note in result.notes if "were to be kept" in note]
        assert note.startswith(f"8 features have |r| ≥ 0.15, but only {d} were to be kept: {dropped}")
    everything = screen(X, y, Plan.guaranteed(20_000, 200, None, 0.15), random_state=0)
    assert sorted(everything.selected) == list(range(8))


def test_fewer_than_asked_for_are_filled_up():
    rng = np.random.default_rng(3)
    X, y = simulate("normal", 20_000, 200, rng, np.array([0.5]))
    result = screen(X, y, Plan.guaranteed(20_000, 200, 10, 0.15), random_state=0)
    assert len(result.selected) == 10
    assert result.selected[0] == 0
    assert any("because 10 were to be kept" in note for note in result.notes)
    X, y = simulate("normal", 20_000, 200, rng, np.array([0.9]))
    notes = screen(X, y, Plan.guaranteed(20_000, 200, 2, 0.5), random_state=1).notes
    assert "only 1 feature may have |r| ≥ 0.5; the others were kept because 2 were to be kept." in notes


def test_features_at_the_minimum_are_read_to_the_last_row():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((5000, 31))
    y = 0.2 * X[:, 0] + rng.standard_normal(5000)
    exactly = float(np.abs(correlations(X, y))[0])
    result = screen(X, y, Plan.guaranteed(5000, 31, None, exactly * (1 - 1e-12)), random_state=0)
    assert result.rounds[-1].n_rows == 5000
    assert result.selected.tolist() == [0]


def make_outliers(n_outliers, share, seed, n=100_000, p=20):
    """Features and a response; some rows have a share of the variance of the response.

    The correlation of the first three features, a little above 0.15, rests on these rows.
    """
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, p), dtype=np.float32), rng.standard_normal(n)
    rows = rng.choice(n, n_outliers, replace=False)
    of_feature = 0.165**2 / share
    y[rows] = math.sqrt(share / (1 - share) * n / n_outliers)
    X[rows, :3] = math.sqrt(of_feature / (1 - of_feature) * n / n_outliers)
    return X, y, np.abs(correlations(X, y))


@pytest.mark.parametrize(("n_outliers", "share"), [(1, 0.69), (1, 0.05), (60, 0.1)])
def test_outliers_of_the_response_are_read(n_outliers, share):
    """None of them is among the few hundred rows that a normal response needs."""
    X, y, r = make_outliers(n_outliers, share, 0)
    several = screen(X, np.column_stack([y, X[:, 5]]), min_correlation=0.15, random_state=0)
    others = (screen(X, y, min_correlation=0.15, sampling=s, random_state=0) for s in ("auto", "uniform"))
    for result in (several[0], *others):
        assert np.flatnonzero(r >= 0.15).tolist() == sorted(result.selected) == [0, 1, 2]
        assert result.detection_floor(simultaneous=True) <= 0.15
        assert all(result.rounds[k].n_rows < 5000 for k in result.last_round[3:])


def test_the_floor_agrees_with_the_guarantee():
    """An outlier of the response alone gives no feature a large correlation."""
    X, y, _ = make_outliers(1, 0.9, 0)
    X[:, :3] = X[:, 3:6]
    plan = Plan.guaranteed(100_000, 20, None, 0.15)
    for sampling in ("auto", "uniform"):
        result = screen(X, y, plan, sampling=sampling, random_state=0)
        assert len(result.selected) == 0
        assert "no feature has |r| ≥ 0.15." in result.notes
        assert result.detection_floor() <= 0.15
        assert result.detection_floor() <= result.detection_floor(simultaneous=True) <= 0.151
    result = screen(X, y, Plan.guaranteed(100_000, 20, 2, 0.001), random_state=0)  # more pass than are kept
    assert result.detection_floor() >= np.sort(np.abs(result.scores))[-2] > 0.001


EXTREME = {
    "outlier": lambda rng, n: np.where(np.arange(n) == 5, 1000.0, rng.standard_normal(n)),
    "sentinel": lambda rng, n: np.where(np.arange(n) == 5, 999_999.0, rng.standard_normal(n)),
    "two sentinels": lambda rng, n: np.where(np.arange(n) % 900 == 5, -999_999.0, rng.standard_normal(n)),
    "t1.5": lambda rng, n: rng.standard_t(1.5, n),
    "one case": lambda rng, n: (np.arange(n) == 5).astype(float),
}


@pytest.mark.parametrize("kind", EXTREME)
@pytest.mark.parametrize("sampling", ["auto", "uniform"])
def test_extreme_responses_have_an_answer(kind, sampling):
    rng = np.random.default_rng(9)
    X, y = rng.standard_normal((2000, 30)), EXTREME[kind](rng, 2000)
    r = np.abs(correlations(X, y))
    settings = {"sampling": sampling, "random_state": 0}
    for minimum in (0.03, 0.6):
        result = screen(X, y, min_correlation=minimum, **settings)
        np.testing.assert_array_equal(np.sort(result.selected), np.flatnonzero(r >= minimum))
    for options in ({}, {"budget": 0.05}):
        assert len(screen(X, y, 5, **options, **settings).selected) == 5


def test_the_scale_of_features_is_not_known_from_few_rows():
    """Only one row matters for the response, but a correlation is divided by the deviation of all of them."""
    n, rng = 20_000, np.random.default_rng(0)
    X, y = rng.standard_normal((n, 60), dtype=np.float32), rng.standard_normal(n)
    X[5] /= 4
    y[5], X[5, :4] = 1e6, 0.103 * math.sqrt(n)
    assert (np.abs(correlations(X[:, :4], y)) >= 0.1).all()
    plan = Plan.guaranteed(n, 60, None, 0.1, 0.9, design=SamplingDesign((n - 1, 1), (0.1, 2000.0)))
    assert plan.steps[0].n_rows < 100
    lost = sum(not selection_mask(screen(X, y, plan, random_state=seed))[:4].all() for seed in range(10))
    assert lost <= 2


def test_estimator():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60_000, 1000), dtype=np.float32)
    y = X[:, 3] - X[:, 8] + rng.standard_normal(60_000)
    adaptive = screen(X, y, Plan.guaranteed(*X.shape, None, 0.2), random_state=0)
    assert np.sort(adaptive.selected).tolist() == [3, 8]
    assert adaptive.fraction_read < 0.1
    small = BanditSIS(min_correlation=0.2, random_state=0).fit(X[:2000, :50], y[:2000])
    assert small.get_support(indices=True).tolist() == [3, 8]
    affordable = BanditSIS(5, budget=0.1, random_state=0).fit(X[:2000, :50], y[:2000]).result_
    assert 0.08 < affordable.fraction_read <= 0.1  # though reading everything would be as fast, which it says
    assert "would be about as fast here" in str(affordable)


def test_a_guaranteed_plan_prints():
    text = str(Plan.guaranteed(10**9, 10**6, 100, 0.1))
    assert "if there is no signal, at most 1,000,000,000,000,000" in text
    assert "standard errors (later more) below 0.1" in text
    assert "all that pass" in str(Plan.guaranteed(10**9, 10**6, None, 0.1))
    assert Plan.guaranteed(10**5, 100, 200, 0.1) == Plan.exact(10**5, 100, 200)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_correlation": 1.2}, r"the minimum correlation must be in \(0, 1\), got 1.2"),
        ({"min_correlation": 0}, r"the minimum correlation must be in \(0, 1\), got 0"),
        ({"min_correlation": 0.1, "confidence": 1}, r"confidence must be in \(0, 1\), got 1"),
        ({"min_correlation": 0.1, "budget": 0.5}, "budget and min_correlation are mutually exclusive"),
        ({"alpha": 0.5, "budget": 0.5}, "alpha and budget are mutually exclusive: choose one"),
        ({"min_correlation": 0.1, "row_order": "stored"}, "random row order, got 'stored'"),
        ({"min_correlation": 0.1, "missing": "pairwise"}, "complete data, got 'pairwise'"),
        ({"min_correlation": 0.1, "statistic": "chi2"}, "two classes 'anova' or 'logistic', got 'chi2'"),
        ({"budget": 1e-9}, "at least 0.04"),
    ],
)
def test_contradictions(options, message):
    X = np.random.default_rng(8).standard_normal((100, 10))
    with pytest.raises(ValueError, match=message):
        screen(X, (X[:, 0] > 0).astype(int), 3, **options)
