"""Which selected features are clearly associated, selection by error rate, and several responses."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from banditsis import SIS, BanditSIS, Plan, ScreeningResults, screen
from banditsis.results.sentences import describe_answer

N, P, SIGNALS = 2000, 5000, 10
SEEDS = 100


def respond(X, signals, rng):
    """A response that has correlations of 0.2 with some features."""
    errors = rng.standard_normal(len(X))
    return 0.2 * X[:, signals].sum(axis=1) + math.sqrt(1 - 0.04 * len(signals)) * errors


def draw(seed, n, p):
    """Normal features, and a response that depends on the first ten."""
    rng = np.random.default_rng([seed, 18])
    X = rng.standard_normal((n, p), dtype=np.float32)
    return X, respond(X, np.arange(SIGNALS), rng)


@pytest.mark.parametrize("method", ["exact", "adaptive"])
def test_signals_are_told_from_noise(method):
    """All ten signals are marked in 95% of the runs, and noise is marked in at most 5%."""
    X, _ = draw(0, N, P)
    plan = Plan.exact(N, P, 30) if method == "exact" else Plan.optimal(N, P, 30, 0.6)
    complete = false = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 19])
        signals = rng.choice(P, SIGNALS, replace=False)
        marked = screen(X, respond(X, signals, rng), plan, random_state=seed).associated
        complete += np.isin(signals, marked).all()
        false += not np.isin(marked, signals).all()
    assert complete >= 0.95 * SEEDS
    assert false <= 0.05 * SEEDS + 2 * math.sqrt(0.05 * 0.95 * SEEDS)


@pytest.mark.parametrize("selector", [SIS(fdr=0.05), BanditSIS(fdr=0.05, budget=0.5)])
def test_the_false_discovery_rate_of_a_pipeline(selector):
    rates = []
    for seed in range(SEEDS):
        X, y = draw(seed, 500, 300)
        selector.set_params(random_state=seed)
        pipeline = make_pipeline(selector, LinearRegression()).fit(X, y)
        chosen = pipeline[0].get_support(indices=True)
        rates.append(np.mean(chosen >= SIGNALS) if len(chosen) else 0.0)
    assert np.mean(rates) <= 0.05 + 2 * np.std(rates) / math.sqrt(SEEDS)


def test_selection_by_error_rate():
    X, y = draw(0, 1000, 200)
    everything = SIS(200).fit(X, y).result_
    for fdr in (0.01, 0.2):
        chosen, expected = SIS(fdr=fdr).fit(X, y), everything.select(fdr)
        assert set(chosen.result_.selected) == set(expected)
        assert chosen.transform(X).shape == (1000, len(expected))
        assert chosen.result_.rounds[-1].n_kept == len(chosen.result_.to_frame()) == len(expected)
    for selector, error, message in (
        (SIS("all"), TypeError, "n_features_to_select must be an integer, got 'all'"),
        (SIS(5, fdr=0.05), ValueError, "n_features_to_select and fdr are mutually exclusive"),
        (SIS(fdr=2.0), ValueError, r"fdr must be in \(0, 1\), got 2"),
        (SIS(fdr=0.05, statistic="distance"), ValueError, "of the statistic 'distance' is not known"),
    ):
        with pytest.raises(error, match=message):
            selector.fit(X, y)


@pytest.mark.parametrize("shape", [(4000, 200), (2000, 3)])
def test_selection_by_error_rate_finds_what_exact_screening_finds(shape):
    """A feature that was dropped has no p-value, so BanditSIS drops none unless it is told what to read."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape)
    y = 0.08 * X.sum(axis=1) + rng.standard_normal(shape[0])
    expected = SIS(fdr=0.05).fit(X, y).result_
    found = BanditSIS(fdr=0.05, random_state=0).fit(X, y).result_
    assert len(expected.selected) > shape[1] / 2
    np.testing.assert_array_equal(found.selected, expected.selected)
    assert sum("needs the p-value of every feature" in note for note in found.notes) == 1


def test_a_budget_limits_what_can_be_discovered():
    """The result says how many features were tested, unless all of them were."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 200))
    y = 0.05 * X.sum(axis=1) + rng.standard_normal(20_000)
    few = BanditSIS(fdr=0.05, alpha=0.5, random_state=0).fit(X, y).result_
    sentence = "100 of 200 features were tested; those dropped before cannot be discovered."
    assert describe_answer(few).endswith(sentence)
    assert sentence in str(few).replace("\n  ", " ")
    every = SIS(fdr=0.05).fit(X, y).result_
    assert len(every.selected) > 100
    assert "tested" not in describe_answer(every)


def test_one_criterion_for_selected_and_for_marked_features():
    """Selection by false discovery rate: the selected features are the discoveries, and all are marked."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 400))
    y = 0.07 * X[:, :200].sum(axis=1) + rng.standard_normal(2000)
    result = SIS(fdr=0.1).fit(X, y).result_
    assert len(result.select(0.05, "holm")) < len(result.selected)
    np.testing.assert_array_equal(result.associated, result.selected)
    sentence = f"{len(result.selected)} discoveries at a false discovery rate of 10%."
    assert describe_answer(result) == sentence
    assert result.to_frame()["associated"].all()
    for text in (str(result), result.to_html(), result._repr_html_()):
        assert sentence in text
        assert not re.search("are unclear|clearly associated|after Holm's correction", text)
    adaptive = BanditSIS(fdr=0.05, alpha=0.5, random_state=0).fit(X, y).result_
    for found in (result, adaptive):  # features are selected by p-value, so no |r| tells what was kept
        with pytest.raises(ValueError, match="no detection floor: features were selected by p-value"):
            found.detection_floor()
        assert json.loads(found.to_json())["no_floor_reason"] == "features were selected by p-value"
        assert not re.search(r"was kept|detection floor \|r\|", str(found) + found.to_html())
    nothing = SIS(fdr=0.05).fit(X, rng.standard_normal(2000)).result_
    assert describe_answer(nothing) == "no discoveries at a false discovery rate of 5%."
    assert describe_answer(nothing) in str(nothing)


def test_an_empty_selection():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 20)), rng.standard_normal(300)
    selector = SIS(fdr=1e-6).fit(X, y)
    assert len(selector.result_.selected) == 0
    assert "no discoveries at a false discovery rate" in str(selector.result_)
    with pytest.warns(UserWarning, match="No features were selected"):
        assert selector.transform(X).shape == (300, 0)
    assert selector.result_.to_frame().empty
    assert json.loads(selector.result_.to_json())["features"] == []
    selector.result_.to_html()


def test_the_sentence_about_signals():
    X, y = draw(1, 1000, 200)
    result = screen(X, y, Plan.exact(1000, 200, 12))
    clear = len(result.associated)
    assert 0 < clear < 12
    others = "the other one is" if clear == 11 else f"the other {12 - clear} are"
    sentence = f"{clear} of 12 clearly associated; {others} unclear."
    assert describe_answer(result) == sentence
    assert sentence in str(result)
    assert result.to_frame()["associated"].sum() == clear
    assert describe_answer(screen(X, y, Plan.exact(1000, 200, 1))) == "1 of 1 clearly associated."
    assert screen(X, y, Plan.exact(1000, 200, 3), statistic="distance").associated is None
    X, y = draw(0, 20_000, 100)
    for statistic in ("logistic", "anova"):
        adaptive = screen(X, y > 0, Plan.optimal(20_000, 100, 20, 0.2), statistic=statistic, random_state=0)
        assert sorted(adaptive.associated) == list(range(SIGNALS))


def test_several_responses():
    X, _ = draw(2, 600, 80)
    rng = np.random.default_rng(0)
    Y = pd.DataFrame(X[:, :3] + rng.standard_normal((600, 3)), columns=["height", "weight", "age"])
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(80)])
    results = screen(frame, Y, Plan.exact(600, 80, 4))
    assert isinstance(results, ScreeningResults)
    assert results.names == SIS(4).fit(frame, Y).result_.names == ["height", "weight", "age"]
    assert [result.selected_names[0] for result in results] == ["g0", "g1", "g2"]
    np.testing.assert_array_equal(results["weight"].scores, results[1].scores)
    assert results[1:].names == ["weight", "age"]
    table = results.to_frame()
    assert list(table["response"]) == ["height"] * 4 + ["weight"] * 4 + ["age"] * 4
    assert (table.groupby("response", sort=False)["name"].first() == ["g0", "g1", "g2"]).all()
    assert list(json.loads(results.to_json())["responses"]) == results.names
    assert str(results).splitlines()[0] == "3 responses, 600 rows × 80 features"
    with pytest.raises(KeyError, match="no response is called 'size': there are height, weight, age"):
        results["size"]
    pooled = np.concatenate([result.pvalues for result in results])
    expected = np.flatnonzero(stats.false_discovery_control(pooled) <= 0.05)
    chosen = results.select(fdr=0.05)
    found = np.concatenate([chosen[name] + 80 * k for k, name in enumerate(results.names)])
    assert set(found) == set(expected)


def test_an_estimator_with_several_responses():
    X, _ = draw(3, 600, 80)
    Y = X[:, [4, 9]] + np.random.default_rng(0).standard_normal((600, 2))
    selector, one, other = SIS(2).fit(X, Y), SIS(2).fit(X, Y[:, 0]), SIS(2).fit(X, Y[:, 1])
    np.testing.assert_array_equal(selector.get_support(), one.get_support() | other.get_support())
    np.testing.assert_allclose(selector.scores_, np.column_stack([one.scores_, other.scores_]), atol=1e-7)
    assert selector.transform(X).shape == (600, selector.get_support().sum())
    assert selector.result_.names == ["y0", "y1"]


def test_p_values_of_many_selected_features_are_checked_only_on_request(monkeypatch):
    """Checking them would take longer than screening, so it is not known which of them are associated."""
    monkeypatch.setattr("banditsis.engine.follow_up.MAX_CHECKED", 5)
    rng = np.random.default_rng(0)
    y = rng.standard_exponential(2000)
    X = y[:, None] + rng.standard_exponential((2000, 30))
    few, many, asked = (s.fit(X, y).result_ for s in (SIS(5), SIS(6), SIS(6, pvalues=True)))
    assert len(few.associated) == 5
    assert many.associated is None
    assert np.isnan(many.pvalues).all()
    assert any("small p-values of 30 features are not available" in note for note in many.notes)
    assert "which of them are clearly associated is not known: set pvalues=True" in describe_answer(many)
    assert "unclear" not in str(many)
    assert len(asked.associated) == 6
    many.to_html(), many.to_frame()


@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
@pytest.mark.parametrize("rate", [0.001, 0.01])
def test_rare_features_without_association_are_noise(rate, sampling):
    """A few ones that meet a rare response by chance have large correlations, far from normal ones."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = (rng.random((60_000, 500), dtype=np.float32) < rate).astype(np.float32)
        y, plan = (rng.random(60_000) < 0.005) * 1.0, Plan.paper(60_000, 500, 20, alpha=0.4)
        assert len(screen(X, y, plan, sampling=sampling, random_state=seed).associated) == 0


@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
@pytest.mark.parametrize("design", ["three times the sd among 2% of cases", "proportional to |y|"])
def test_an_unequal_spread_is_no_association(design, sampling):
    """At most 5% of the runs mark a feature whose mean is the same for all values of the response."""
    n_false, plan = 0, Plan.paper(20_000, 80, 20, alpha=0.5)
    for seed in range(12):
        rng = np.random.default_rng([seed, 29])
        if design == "proportional to |y|":
            y = rng.standard_normal(20_000)
            sd = np.abs(y)
        else:
            y = (rng.random(20_000) < 0.02) * 1.0
            sd = 0.5 + y
        X = sd[:, None] * rng.standard_normal((20_000, 80))
        n_false += len(screen(X, y, plan, sampling=sampling, random_state=seed).associated) > 0
    assert n_false <= 3


@pytest.mark.parametrize(
    ("design", "sampling"),
    [("lognormal", "stratified"), ("1% cases", "stratified"), ("e·|y|", "stratified"), ("e·|y|", "uniform")],
)
def test_intervals_cover_the_correlation(design, sampling):
    """Of 95% intervals, about 95% cover the correlation in the population."""
    n_covered = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 31])
        y, r = rng.standard_normal(20_000), 0.3
        if design == "1% cases":
            y, r = (rng.random(20_000) < 0.01) / math.sqrt(0.0099), 0.9
        elif design == "lognormal":
            y, r = np.exp(y) / math.sqrt(math.e * (math.e - 1)), 0.9
        X = rng.standard_normal((20_000, 20))
        X[:, 0] *= math.sqrt(1 - r * r) * (np.abs(y) if design == "e·|y|" else 1)
        X[:, 0] += r * y
        result = screen(X, y, Plan.paper(*X.shape, 5, alpha=0.3), sampling=sampling, random_state=seed)
        low, high = result.interval()[0]
        n_covered += low <= r <= high
    assert n_covered >= 53  # 57 expected


@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
def test_signals_are_told_from_noise_with_missing_values(sampling):
    """With 30% of the values missing, signals are marked, and noise in at most 5% of the runs."""
    n_marked, n_false, plan = 0, 0, Plan.paper(10_000, 100, 20, alpha=0.5)
    for seed in range(20):
        X, y = draw(seed, 10_000, 100)
        X[np.random.default_rng(seed).random(X.shape) < 0.3] = np.nan
        found = screen(X, y, plan, sampling=sampling, missing="pairwise", random_state=seed).associated
        n_marked += np.count_nonzero(found < SIGNALS)
        n_false += (found >= SIGNALS).any()
    assert n_marked >= 0.9 * 20 * SIGNALS
    assert n_false <= 4
