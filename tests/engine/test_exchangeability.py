"""Rows in blocks or as stored: the same answers, cheap, and never silently wrong."""

import signal
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banditsis import BanditSIS, Plan, screen
from banditsis.engine.exchangeability import (
    add_up_groups,
    differs_between_blocks,
    differs_in_rows,
    find_variation,
    response_views,
    variation_bound,
)
from banditsis.engine.sampling import Strata, resolve_row_order
from banditsis.plans import round_to_blocks
from banditsis.results import Interrupted, rank_features
from banditsis.sources.array import ArraySource
from banditsis.sources.blocks import BlockSource


class Chunked(BlockSource):
    """An array as a chunked store would give it, which counts the rows of each read."""

    def __init__(self, array, chunk=(50, 8), shuffled=False):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.chunk, self.shuffled, self.reads = chunk, shuffled, []

    def read(self, rows, columns):
        self.reads.append(rows)
        some = self.array[rows]
        return some if columns is None else some[:, columns]


def data(n=4000, p=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, 3] - 0.5 * X[:, 8] + rng.standard_normal(n)


@given(n=st.integers(1, 300), size=st.integers(1, 60), seed=st.integers(0, 99), data=st.data())
def test_blocks_are_whole_disjoint_and_complete(n, size, seed, data):
    edges = np.append(np.arange(0, n, size), n)
    totals = [*sorted(data.draw(st.lists(st.integers(1, n), max_size=4))), n]
    seen = []
    pieces = Strata.uniform(n).draw(totals, "blocks", np.random.default_rng(seed), edges=edges)
    for total, rows in zip(totals, pieces, strict=True):
        listed = np.arange(n)[rows]
        assert (np.diff(listed) > 0).all()
        seen.extend(listed)
        assert total - size < len(seen) or len(seen) == n
        blocks, counts = np.unique(np.array(listed) // size, return_counts=True)
        np.testing.assert_array_equal(counts, np.diff(edges)[blocks])
    assert sorted(seen) == list(range(n))


def test_every_block_is_as_likely_first():
    edges = np.append(np.arange(0, 95, 10), 95)
    firsts = [next(Strata.uniform(95).draw([10], "blocks", seed, edges=edges))[0] for seed in range(3000)]
    assert np.abs(np.bincount(np.array(firsts) // 10, minlength=10) - 300).max() < 5 * np.sqrt(270)


def test_plans_are_rounded_up_to_whole_blocks():
    plan = Plan(1000, 50, ((30, 20), (90, 10), (130, 5), (980, 2)))
    assert round_to_blocks(plan, 1) == plan
    rounded = round_to_blocks(plan, 100)
    assert [tuple(step) for step in rounded.steps] == [(100, 10), (200, 5), (1000, 2)]
    assert [step.n_rows for step in round_to_blocks(plan, 100, min_blocks=4).steps] == [400, 1000]
    assert round_to_blocks(plan, 1000) == Plan.exact(1000, 50, 2)
    assert round_to_blocks(Plan.exact(1000, 50, 2), 300) == Plan.exact(1000, 50, 2)


def test_auto_takes_what_is_cheap():
    X, _ = data(40_000, 20)
    plan, guaranteed = Plan.paper(40_000, 20, 2, alpha=1.1), Plan.guaranteed(40_000, 20, 2, 0.5)
    chunked, shuffled = Chunked(X, (1000, 10)), Chunked(X, (1000, 10), shuffled=True)
    assert resolve_row_order(ArraySource(X), plan, "auto")[0] == "random"
    assert resolve_row_order(ArraySource(X), plan, "blocks") == ("random", plan, [])
    assert resolve_row_order(Chunked(X, (1, 20)), plan, "auto")[0] == "random"
    assert resolve_row_order(chunked, guaranteed, "auto") == ("random", guaranteed, [])
    for source, expected in ((chunked, ("blocks", 8000)), (shuffled, ("stored", 1000))):
        order, rounded, _ = resolve_row_order(source, plan, "auto")
        assert (order, rounded.steps[0].n_rows) == expected
    order, rounded, notes = resolve_row_order(Chunked(X, (30_000, 10)), plan, "auto")
    assert (order, rounded.name) == ("blocks", "exact")
    assert "blocks of 30,000 rows" in notes[0]


@pytest.mark.parametrize("chunk", [(50, 8), (7, 3), (333, 5)])
def test_blocks_find_what_random_rows_find(chunk):
    X, y = data()
    options = {"alpha": 0.5, "row_order": "blocks", "random_state": 1}
    for source, row_order in ((Chunked(X, chunk), "blocks"), (ArraySource(X), "random")):
        result = screen(source, y, 2, **options)
        assert set(result.selected) == {3, 8}
        assert result.parameters["row_order"] == row_order
        assert result.cells_read < X.size


def test_rounds_tell_the_rows_that_were_read():
    X, y = data(1030)
    exact, plan = screen(X, y, Plan.exact(1030, 40, 2)), Plan(1030, 40, ((800, 10), (900, 5), (1030, 2)))
    for seed in range(6):  # the short block comes early in some
        result = screen(Chunked(X, (100, 8)), y, plan, row_order="blocks", random_state=seed)
        rows = [r.n_rows for r in result.rounds]
        assert rows[0] in (800, 730)
        assert rows[-1] == 1030
        assert [r.cells for r in result.rounds] == (np.diff(rows, prepend=0) * [40, 10, 5]).tolist()
        np.testing.assert_allclose(result.scores[result.selected], exact.scores[result.selected], atol=1e-12)


def test_a_small_chunked_source_becomes_exact_and_says_so():
    X, y = data(300)
    result = screen(Chunked(X, (100, 8)), y, Plan.paper(300, 40, 2, alpha=1.1))
    assert result.fraction_read == 1
    assert any("all rows were read" in note for note in result.notes)
    np.testing.assert_allclose(result.scores, screen(X, y, Plan.exact(300, 40, 2)).scores, atol=1e-12)


def test_blocks_of_the_rows_whose_response_is_known():
    X, y = data(30_000)
    y[::3] = np.nan
    source = Chunked(X, (50, 8))
    result = screen(source, y, 2, alpha=0.5, row_order="blocks", missing="pairwise", random_state=0)
    assert set(result.selected) == {3, 8}
    touched = {int(row) // 50 for rows in source.reads for row in np.arange(30_000)[rows]}
    # Whole blocks of the file, not of the rows that are left; and one that is checked for ids.
    assert len(touched) == pytest.approx(600 * result.rounds[-1].n_rows / 20_000, abs=3)


def sort(X, y, by):
    return X[np.argsort(by)], y[np.argsort(by)]


BATCHES = np.repeat(np.random.default_rng(5).standard_normal((10, 20)), 2000, axis=0)
UNSUITABLE = {
    "sorted by y": lambda X, y: sort(X, y, y),
    "sorted by the size of y": lambda X, y: sort(X, y, np.abs(y)),
    "largest first": lambda X, y: sort(X, y, -np.abs(y)),
    "sorted by a feature": lambda X, y: sort(X, y, X[:, 21]),
    "batches": lambda X, y: (X + np.kron(BATCHES, [1, 0]), y),
    "time trend": lambda X, y: (X + np.linspace(-1.5, 1.5, len(X))[:, None] * (np.arange(40) < 10), y),
    "response in batches": lambda X, y: (X, y + np.repeat(np.arange(10) % 5, len(y) // 10)),
}


@pytest.mark.parametrize("row_order", ["blocks", "stored"])
@pytest.mark.parametrize("kind", UNSUITABLE)
def test_unsuitable_orders_are_never_silent(kind, row_order):
    for seed in range(3):
        X, y = UNSUITABLE[kind](*data(20_000, seed=seed))
        with pytest.warns(UserWarning, match="not in random order") as caught:
            result = screen(Chunked(X), y, 2, alpha=1.1, row_order=row_order, random_state=seed)
        (message,) = (str(warning.message) for warning in caught)
        assert message in result.notes
        assert message in " ".join(str(result).split())
        assert all(remedy in message for remedy in ("banditsis index", "random row order"))


def test_first_rows_that_differ_in_features_alone_and_classes_that_come_in_batches():
    (X, y), batches = data(20_000), np.repeat(["a", "b", "c", "d"], 5000)
    with pytest.warns(UserWarning, match="response differs between blocks of 50"):
        screen(Chunked(X), batches, 2, alpha=0.5, row_order="blocks", random_state=0)
    X[2000:, 5:] += 1.0  # a second batch, which the first rows do not show
    with pytest.warns(UserWarning, match="between the first 257 rows and the rest"):
        screen(X, y, 2, alpha=1.1, row_order="stored")


@pytest.mark.parametrize("statistic", ["logistic", "spearman"])  # weighted squares, and no sums at all
@pytest.mark.parametrize("row_order", ["blocks", "stored"])
def test_features_are_read_again_where_sums_do_not_show_them(statistic, row_order):
    X, y = data(20_000)
    y = (y > 0).astype(float) if statistic == "logistic" else y
    options = {"alpha": 1.1, "statistic": statistic, "row_order": row_order, "random_state": 0}
    screen(Chunked(X), y, 2, **options)
    X[:, 10:20] += np.repeat(np.random.default_rng(0).standard_normal((200, 10)), 100, axis=0)
    with pytest.warns(UserWarning, match=r"features? .*differs? between (blocks|groups)"):
        screen(Chunked(X), y, 2, **options)


@pytest.mark.parametrize("row_order", ["blocks", "stored"])
@pytest.mark.parametrize("chunk", [(50, 8), (2, 40), (400, 10)])
def test_shuffled_data_raise_no_alarm(row_order, chunk):
    """Warnings are errors here. Constant, sparse and heavy-tailed columns, gaps, classes."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = data(4000, seed=seed)
        X[:, 10] = 1e6
        X[:, 11:20] = rng.random((4000, 9)) < np.geomspace(1e-3, 0.3, 9)
        X[:, 20:30] = rng.standard_cauchy((4000, 10))
        X[:, 30:35] = X[:, [3]] + 1e-3 * X[:, 30:35]
        options = {"alpha": 0.5, "row_order": row_order, "random_state": seed}
        rare, heavy = 1.0 * (rng.random(4000) < 0.1), rng.standard_normal(4000) ** 9
        for response in (y, rare, heavy, rng.standard_cauchy(4000)):
            screen(Chunked(X, chunk), response, 5, **options)
        X[rng.random(X.shape) < 0.3] = np.nan
        for response in (y, rng.choice(["a", "b", "rare"], 4000, p=[0.5, 0.495, 0.005])):
            screen(Chunked(X, chunk), response, 5, missing="pairwise", **options)


@pytest.mark.parametrize(("m", "groups"), [(40, 4), (256, 8), (640, 16)])
def test_chance_stays_below_the_bound(m, groups):
    """Shuffled features of every kind, and not one false alarm."""
    rng = np.random.default_rng(7)
    alarm, alarm_of_mean = variation_bound(m, groups, 300), variation_bound(m, groups, 1, sparse=False)
    for _ in range(60):
        X = rng.standard_normal((m, 300))
        X[:, 50:100] = rng.standard_cauchy((m, 50))
        X[:, 100:250] = rng.random((m, 150)) < rng.integers(1, 30, 150) / m
        X[:, 250:] = X[:, [0]]
        cuts = np.linspace(0, m, groups + 1).astype(int)
        spread = find_variation(add_up_groups(X, cuts))
        assert np.nanmax(spread) < alarm
        sizes = np.column_stack([view for k in range(0, 300, 20) for view in response_views(X[:, k])])
        assert np.nanmax(find_variation(add_up_groups(sizes, cuts))) < alarm
        assert np.nanmean(spread) < alarm_of_mean


def test_the_design_effect_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(1000) + np.repeat(rng.standard_normal(20), 50)
    edges = np.append(np.arange(0, 1000, 70), 1000)
    parts = np.split(y, edges[1:-1])
    between = sum(len(part) * (part.mean() - y.mean()) ** 2 for part in parts)
    expected = between / ((y - y.mean()) ** 2).sum() * 999 / (len(parts) - 1)
    np.testing.assert_allclose(find_variation(add_up_groups(y[:, None], edges)), [expected])
    assert differs_between_blocks(y, edges, 1)
    assert not differs_between_blocks(rng.permutation(y), edges, 1)


@pytest.mark.parametrize("law", ["normal", "cauchy", "sparse"])
def test_deviations_of_the_first_rows_stay_below_their_bound(law):
    """Shuffled responses of every kind, and not one false alarm."""
    rng = np.random.default_rng(3)
    y = {
        "normal": rng.standard_normal((2000, 400)),
        "cauchy": rng.standard_cauchy((2000, 400)),
        "sparse": (rng.random((2000, 400)) < 2e-3) * 1.0,
    }[law]
    for m in (20, 200):
        views = [view for k in range(400) for view in response_views(y[:, k])]
        assert not any(differs_in_rows(view, slice(0, m), 2) for view in views)
    for ordered in (np.sort(y[:, 0]), y[np.argsort(-np.abs(y[:, 0])), 0]):  # by value, and by size
        views = list(response_views(ordered))
        assert any(differs_in_rows(view, slice(0, 200), 2) for view in views) or law == "sparse"


def test_warnings_point_at_the_line_of_the_user():
    X, y = data(20_000)
    X, y = sort(X, y, y)
    options = {"alpha": 0.5, "row_order": "blocks", "random_state": 0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        screen(Chunked(X), y, 2, **options)
        BanditSIS(2, **options).fit(Chunked(X), y)
        BanditSIS(2, alpha=0.5, row_order="stored").fit_transform(X, y)
    assert [w.filename for w in caught] == [__file__] * 3


def test_floors_and_guarantees_where_the_store_was_shuffled():
    X, y = data(20_000)
    plan = Plan.paper(20_000, 40, 2)
    result, random = screen(Chunked(X, shuffled=True), y, plan), screen(X, y, plan, random_state=0)
    assert result.parameters["row_order"] == "stored"
    assert result.parameters["shuffled"]
    assert result.detection_floor() == pytest.approx(random.detection_floor(), rel=0.5)
    blocks = screen(Chunked(X), y, plan, row_order="blocks", random_state=0)
    with pytest.raises(ValueError, match="not a simple random sample"):
        blocks.detection_floor()
    for order in ("auto", "stored"):
        result = screen(Chunked(X, shuffled=True), y, min_correlation=0.3, row_order=order)
        assert set(result.selected) == {3, 8}
    with pytest.raises(ValueError, match="random row order, got 'blocks'"):
        screen(Chunked(X), y, min_correlation=0.3, row_order="blocks")


class Failing(Chunked):
    """Fails at some read."""

    def __init__(self, array, at, fail):
        super().__init__(array, (50, 40))
        self.at, self.fail = at, fail

    def read(self, rows, columns):
        if len(self.reads) == self.at:
            self.fail()
        return super().read(rows, columns)


interrupt = partial(signal.raise_signal, signal.SIGINT)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_interrupted_run_tells_what_is_known(n_jobs):
    X, y = data(20_000, 60)
    options = {"alpha": 0.5, "row_order": "random", "random_state": 0, "n_jobs": n_jobs}
    source = Failing(X, None, None)
    whole = screen(source, y, 2, **options)
    with pytest.raises(Interrupted) as caught:
        screen(Failing(X, len(source.reads) // 2, interrupt), y, 2, **options)
    result, n_kept = caught.value.result, [r.n_kept for r in whole.rounds]
    done = len(result.rounds)
    assert 0 < done < len(whole.rounds)
    assert [r.n_kept for r in result.rounds] == n_kept[:done]
    assert len(result.selected) == n_kept[done - 1]
    assert set(whole.selected) <= set(result.selected)
    assert (np.diff(np.abs(result.scores[result.selected])) <= 0).all()
    assert any("interrupted" in note for note in result.notes)
    assert "features selected" in str(result)
    assert rank_features(result).min() == 1


def test_an_interruption_before_the_first_round_ends():
    X, y = data()
    with pytest.raises(KeyboardInterrupt, match="no round was finished") as caught:
        BanditSIS(2, alpha=0.5).fit(Failing(X, 1, interrupt), y)
    assert isinstance(caught.value, Interrupted)
    assert caught.value.result is None


def test_a_failing_read_leaves_what_is_known():
    def fail():
        raise OSError("the disk has gone")

    X, y = data(20_000, 60)
    for at in (4, 0):
        with pytest.raises(OSError, match="the disk has gone") as caught:
            screen(Failing(X, at, fail), y, 2, alpha=0.5, row_order="random", n_jobs=1)
        assert hasattr(caught.value, "partial") == (at > 0)
        if at:
            assert len(caught.value.partial.rounds) > 0
            assert "partial" in caught.value.__notes__[0]
