"""The detection floor: its distribution in simulations, its printed form, and when it is not available."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from banditsis import Plan, screen
from banditsis.engine.sampling import Strata
from banditsis.plans.floor import detection_floor, error_level, null_cutoffs, null_shares, sampling_variance
from banditsis.results import selection_mask
from banditsis.show.report import reliability
from reference import correlations, simulate

PLAN = Plan(20_000, 400, ((150, 200), (300, 100), (500, 40)))


def test_one_round_is_fishers_interval():
    floor = detection_floor([403], [0.1], 10**9, 1.0, 0.05)
    assert math.atanh(floor) == pytest.approx(math.atanh(0.1) + norm.isf(0.05) / 20, rel=1e-4)
    less, more = (detection_floor([403], [0.1], *rest, 0.05) for rest in ((500, 1.0), (10**9, 4.0)))
    assert less < floor < more


def test_three_rounds_are_a_normal_orthant():
    rows, cutoffs, n, error = [100, 160, 300], [0.12, 0.14, 0.15], 1000, 0.05
    mean = math.atanh(detection_floor(rows, cutoffs, n, 1.7, error))
    v = [sampling_variance(m, n, 1.7) for m in rows]
    cov = [[v[max(i, j)] for j in range(3)] for i in range(3)]
    above = multivariate_normal(mean=np.zeros(3), cov=cov).cdf(mean - np.arctanh(cutoffs))
    assert above == pytest.approx(1 - error, abs=1e-4)


def test_cutoffs_without_signal_are_those_of_a_simulation():
    rng = np.random.default_rng(0)
    found = []
    plan = Plan(2000, 3000, ((60, 1000), (90, 400), (400, 30)))
    for seed in range(8):
        X, y = rng.standard_normal((2000, 3000)), rng.standard_normal(2000)
        found.append([r.cutoff for r in screen(X, y, plan, sampling="uniform", random_state=seed).rounds])
    expected = null_cutoffs([60, 90, 400], [1000, 400, 30], 3000)
    np.testing.assert_allclose(np.mean(found, axis=0), expected, rtol=0.03)
    shares = null_shares([60, 90, 400], expected)
    np.testing.assert_allclose(shares, np.array([1000, 400, 30]) / 3000, rtol=1e-3)


@pytest.mark.parametrize("kind", ["normal", "t5", "genotypes", "missing"])
def test_a_feature_at_the_floor_is_lost_at_most_one_time_in_twenty(kind):
    rng = np.random.default_rng(1)
    lost, seen, floor = 0, 0, 0.22
    for seed in range(4):
        X, y = simulate(kind, 20_000, 400, rng, floor * np.linspace(0.99, 1.05, 5))
        r, options = np.abs(correlations(X, y)), {}
        if kind == "missing":  # the score is r times the root of the share of rows that are present
            X[rng.random(X.shape) < 0.1] = np.nan
            options = {"missing": "pairwise"}
            r = np.abs(screen(X, y, Plan.exact(20_000, 400, 5), **options).scores)
        for draw in range(25):
            result = screen(X, y, PLAN, random_state=100 * seed + draw, **options)
            floor = result.detection_floor()
            near = (r >= floor) & (r < 1.08 * floor)
            lost += np.count_nonzero(near & ~selection_mask(result))
            seen += np.count_nonzero(near)
    assert seen > 100
    assert lost / seen < 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / seen)


def test_all_features_at_once():
    X, y = simulate("normal", 20_000, 400, np.random.default_rng(2), np.full(30, 0.17))
    r, lost = np.abs(correlations(X, y)), 0
    for seed in range(40):
        result = screen(X, y, PLAN, random_state=seed)
        floor = result.detection_floor(simultaneous=True)
        assert floor > result.detection_floor()
        lost += bool((r[~selection_mask(result)] >= floor).any())
    assert lost <= 6  # 2 expected at most
    e = error_level(0.95, True, 40)
    assert 40 * e / (1 - e) == pytest.approx(0.05)


def test_what_was_predicted_comes():
    X, y = simulate("normal", 20_000, 400, np.random.default_rng(3), np.array([0.5, 0.4, 0.3]))
    design = Strata.by_size(20_000, lambda rows: np.abs(y[rows] - y.mean())).design
    for plan in (PLAN, Plan.paper(20_000, 400, 40, 1.0), Plan.subsample(20_000, 400, 40, 800)):
        for sampling, known in (("uniform", None), ("stratified", design)):
            results = [screen(X, y, plan, sampling=sampling, random_state=seed) for seed in range(5)]
            floor = np.mean([result.detection_floor() for result in results])
            predicted = replace(plan, design=known).detection_floor()
            # In strata every feature has its own variance, which a small sample overestimates for some.
            assert 0.93 * predicted < floor < (1.07 if known is None else 1.15) * predicted


def test_reading_everything_leaves_nothing_to_chance():
    X, y = simulate("normal", 500, 50, np.random.default_rng(4), np.array([0.5]))
    result = screen(X, y, Plan.exact(500, 50, 5), row_order="stored")
    assert result.detection_floor(0.999) == result.rounds[-1].cutoff
    assert "every row was read" in str(result)
    assert screen(X, y, Plan.exact(500, 50, 50)).detection_floor() == 0


def test_the_floor_is_stated_with_its_condition():
    """Of more than d near-copies of a feature, some are lost, however strong they are."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 100))
    y = X[:, 0] + rng.standard_normal(5000)
    X[:, :40] = X[:, :1] + 0.01 * X[:, :40]
    result = screen(X, y, Plan.paper(5000, 100, 5), random_state=0)
    assert (np.abs(correlations(X, y))[:40] > 0.5).all()
    condition = "fewer than 5 others are about as strong."
    assert condition in " ".join(str(result).split())
    (sentence,) = [s for s in reliability(result) if s.startswith("With probability 95%, no feature")]
    assert sentence.endswith(condition)
    everything = screen(X, y, Plan.guaranteed(5000, 100, None, 0.3), random_state=0)
    assert len(everything.selected) == 40
    assert "others" not in str(everything)
    some = screen(X, y, Plan.guaranteed(5000, 100, 5, 0.3), random_state=0)
    assert condition in " ".join(str(some).split())
    assert max(map(len, str(result).splitlines())) <= 80


def test_where_no_floor_is_known():
    X, y = simulate("normal", 20_000, 400, np.random.default_rng(6), np.array([0.5]))
    gaps = {"missing": "pairwise", "covariates": np.arange(20_000) % 2}
    for options, response, reason in (
        ({"row_order": "stored"}, y, "not a simple random sample; use random row order"),
        (
            {"statistic": "anova"},
            np.digitize(y, [-1, 1]),
            "only known for correlations, .* statistic 'anova'",
        ),
        (gaps, y, "covariates together with missing"),
    ):
        result = screen(X, response, PLAN, random_state=0, **options)
        with pytest.raises(ValueError, match=reason):
            result.detection_floor()
        assert "detection floor: not available" in str(result)


def test_the_floor_is_printed_and_stored_and_constant_and_perfect_features_do_no_harm():
    X, y = simulate("normal", 20_000, 400, np.random.default_rng(7), np.array([0.5]))
    X[:, 1], X[:, 2] = 3.0, y
    result = screen(X * 1e200, y, PLAN, random_state=0)
    floor = result.detection_floor()
    assert f"detection floor: {floor:.4f}; a feature with |r| at or above it" in str(result)
    assert json.loads(result.to_json())["detection_floor"] == floor
    assert result.detection_floor(0.99) > floor > result.detection_floor(0.5)
    with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\), got 1"):
        PLAN.detection_floor(1)
    assert result.evidence.variance_inflation == pytest.approx(1, abs=0.1)
    assert screen(np.ones((20_000, 400)), y, PLAN, random_state=0).evidence.variance_inflation == 1
