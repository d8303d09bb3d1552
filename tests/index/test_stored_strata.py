"""Stores in strata of a target: few rows are enough for it, and every other target is screened correctly."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from banditsis import BanditSIS, Plan, ScreeningResult, open_data, open_source, screen
from banditsis.index.folder import Folder, read_record, verify
from banditsis.index.order import count_head_rows, order_rows
from banditsis.index.reader import IndexSource
from banditsis.index.writer import build_index
from banditsis.sources.array import ArraySource

LEAST = 1 << 24  # the smallest memory limit


def rare(n, n_cases, rng):
    y = np.zeros(n)
    y[rng.choice(n, n_cases, replace=False)] = 1
    return y


def write(folder, X, y, name="x", **options):
    """A store in strata of y."""
    np.save(folder / f"{name}_y.npy", y)
    return IndexSource(
        build_index(
            X, folder / f"{name}.index", target=str(folder / f"{name}_y.npy"), random_state=1, **options
        )
    )


TARGETS = {
    "rare class": lambda rng: rare(3000, 30, rng),
    "normal": lambda rng: rng.standard_normal(3000),
    "heavy tails": lambda rng: rng.standard_t(1.5, 3000),
    "one outlier": lambda rng: np.where(np.arange(3000) == 7, 1e6, rng.standard_normal(3000)),
}


@pytest.fixture(scope="module", params=TARGETS)
def stored(request, tmp_path_factory):
    """An array, its target, and the store in strata of it."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 40)), TARGETS[request.param](rng)
    return X, y, write(tmp_path_factory.mktemp("store"), X, y)


def test_rows_are_stored_by_distance_from_the_mean(stored):
    X, y, source = stored
    rows, sizes = source.original_rows, source.stratum_sizes
    np.testing.assert_array_equal(np.sort(rows), np.arange(3000))
    np.testing.assert_array_equal(source.read(slice(0, 3000), None), X[rows])
    np.testing.assert_array_equal(source.read_vector("target"), y[rows])
    assert len(sizes) >= 2
    assert sum(sizes) == 3000
    distances = np.split(np.abs((y - y.mean())[rows]), np.cumsum(sizes)[:-1])
    for near, far in itertools.pairwise(distances):
        assert near.max() <= far.min() * (1 + 1 / 16)
    for part in np.split(rows, np.cumsum(sizes)[:-1]):  # random in each stratum
        if len(part) > 30:
            assert abs(np.corrcoef(part, np.arange(len(part)))[0, 1]) < 4 / np.sqrt(len(part))
    assert verify(source.parts[0].folder.where) == []


def test_blocks_of_several_strata_are_those_of_the_array(stored):
    X, _, source = stored
    shuffled, rng = X[source.original_rows], np.random.default_rng(1)
    starts = np.cumsum([0, *source.stratum_sizes[:-1]])
    for _ in range(5):
        counts = rng.integers(0, np.array(source.stratum_sizes) + 1)
        rows = np.concatenate([np.arange(a, a + m) for a, m in zip(starts, counts, strict=True)])
        columns = np.sort(rng.choice(40, 7, replace=False))
        np.testing.assert_array_equal(source.read(rows, columns), shuffled[rows][:, columns])


@pytest.mark.parametrize(
    "y",
    [
        None,
        np.full(1000, 3.0),
        np.arange(1000) % 2,
        np.arange(1000) % 2 == 0,
        np.array(["a", "b"] * 500, dtype=object),
        np.array([f"id{k}" for k in range(1000)], dtype=object),
        np.array(["a"] * 999 + [None], dtype=object),
        np.where(np.arange(1000) == 3, np.inf, 0.0),
        np.full(1000, np.nan),
    ],
    ids=["none", "constant", "balanced", "flags", "labels", "ids", "one label", "infinite", "empty"],
)
def test_the_order_of_all_rows_is_random_if_strata_do_not_pay(y):
    order, sizes = order_rows(1000, y, np.random.default_rng(3))
    assert sizes == []
    np.testing.assert_array_equal(order, np.random.default_rng(3).permutation(1000))


@pytest.mark.parametrize("labels", [["no", "yes", None], [0.0, 1.0, np.nan]], ids=["labels", "numbers"])
def test_rows_without_a_value_are_the_last_stratum(tmp_path, labels):
    rng = np.random.default_rng(0)
    kinds = rng.permutation(np.repeat([0, 1, 2], [900, 30, 70]))
    frame = pd.DataFrame(rng.standard_normal((1000, 3)), columns=list("abc"))
    frame["y"] = np.array(labels, dtype=object)[kinds] if labels[0] == "no" else np.array(labels)[kinds]
    frame.to_parquet(tmp_path / "x.parquet")
    path = build_index(tmp_path / "x.parquet", tmp_path / "x.index", target="y", random_state=0)
    store = IndexSource(path)
    assert store.stratum_sizes == (900, 30, 70)
    np.testing.assert_array_equal(kinds[store.original_rows], np.repeat([0, 1, 2], [900, 30, 70]))
    source, y, *_ = open_data(path, target="y")
    assert source.stratum_sizes == (900, 30)
    assert set(y) == set(labels[:2])


@pytest.mark.parametrize("sizes", [[999_999, 1], [1, 1, 1], [120_000] * 8, [10**6, 500, 7], [3, 10**5]])
def test_every_stratum_has_first_rows(sizes):
    """In proportion to its size, and at least as many as the others if it has them."""
    heads = count_head_rows(sizes)
    rows = 8 * max(16, int(np.sqrt(sum(sizes))))
    for head, size in zip(heads, sizes, strict=True):
        assert head == min(size, np.ceil(rows * max(size / sum(sizes), 1 / len(sizes))))


@pytest.mark.parametrize("sizes", [[990, 9], [990, 10.0], [1000, 0], [1010, -10], ["990", 10], 1000, None])
def test_strata_that_are_not_those_of_the_rows_are_noticed(tmp_path, sizes):
    rng = np.random.default_rng(0)
    path = Path(write(tmp_path, rng.standard_normal((1000, 3)), rare(1000, 10, rng)).parts[0].folder.where)
    record = read_record(Folder.at(path))
    object.__setattr__(record, "stratum_sizes", sizes)
    record.write(path)
    with pytest.raises(ValueError, match=r"not a valid index.* build it again"):
        open_source(path)


def test_a_folder_of_another_version_is_to_be_written_again(tmp_path, monkeypatch):
    path = build_index(np.eye(50), tmp_path / "x.index", random_state=0)
    monkeypatch.setattr("banditsis.index.folder.VERSION", 6)
    with pytest.raises(ValueError, match=r"version 5 of the layout.* build it again"):
        open_source(path)


def to_the_end(n, p, d, first):
    """A plan that keeps all features until all rows are read."""
    return Plan(n, p, ((first, p), (3 * first, p), (n, d)), "to the end")


def assert_exact(X, y, source, own_y=None, **options):
    """All rows give the scores of SIS, whatever was read before; ``own_y`` are those of the source."""
    n, p = source.shape
    known = ~np.isnan(y) if np.ndim(y) == 1 else slice(None)
    expected = screen(X[known], y[known], Plan.exact(n, p, 3), **options)
    own_y = y if own_y is None else own_y
    result = screen(source, own_y, to_the_end(n, p, 3, n // 10), random_state=0, **options)
    pairs = (
        zip(result, expected, strict=True)
        if not isinstance(result, ScreeningResult)
        else [(result, expected)]
    )
    for found, right in pairs:
        assert found.rounds[0].n_rows == n // 10
        np.testing.assert_array_equal(found.selected, right.selected)
        np.testing.assert_allclose(found.scores, right.scores, atol=1e-12, rtol=0)


@pytest.fixture(scope="module")
def screened(tmp_path_factory):
    """Features, three targets, and a store in strata of the first."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((4000, 30))
    X[:, 7] = 1e8 + np.where(X[:, 0] > 2.3, X[:, 7], 0.0)  # nearly constant, far from 0
    y = (X[:, 0] + 0.2 * rng.standard_normal(4000) > 2.3).astype(float)
    y2 = X[:, 4] - 0.5 * X[:, 0] + rng.standard_normal(4000)
    y3 = (X[:, 9] + rng.standard_normal(4000) > 1).astype(float)
    source = write(tmp_path_factory.mktemp("screened"), X, y)
    assert len(source.stratum_sizes) == 2
    return X, np.column_stack([y, y2, y3]), source


@pytest.mark.parametrize("sampling", ["auto", "uniform", "stratified"])
@pytest.mark.parametrize("statistic", ["pearson", "anova", "logistic"])
def test_any_target_has_the_exact_scores_at_the_end(screened, statistic, sampling):
    X, targets, source = screened
    for k in (0, 2):
        y = targets[:, k]
        assert_exact(X, y, source, statistic=statistic, sampling=sampling)


def test_several_targets_have_the_exact_scores_at_the_end(screened):
    X, targets, source = screened
    assert_exact(X, targets, source)


@pytest.mark.parametrize("statistic", ["spearman", "kendall", "chatterjee"])
def test_ranks_of_stored_strata(screened, statistic):
    X, targets, source = screened
    for k in (0, 1):
        assert_exact(X, targets[:, k], source, statistic=statistic)


def test_missing_cells_of_stored_strata(tmp_path, screened):
    X, targets, _ = screened
    gaps = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    source = write(tmp_path, gaps, targets[:, 0])
    for k in (0, 1):
        assert_exact(gaps, targets[:, k], source, missing="pairwise")
    y = np.where(np.arange(4000) % 3, targets[:, 1], np.nan)
    plan = to_the_end(4000, 30, 3, 400)
    result = screen(source, y, plan, missing="pairwise", random_state=0)
    expected = screen(gaps, y, Plan.exact(4000, 30, 3), missing="pairwise")
    np.testing.assert_allclose(result.scores, expected.scores, atol=1e-12, rtol=0)


def test_covariates_of_stored_strata(screened):
    X, targets, source = screened
    for k in (0, 1):
        plan, exact = to_the_end(4000, 30, 3, 400), Plan.exact(4000, 30, 3)
        result = screen(source, targets[:, k], plan, covariates=X[:, 3], random_state=0)
        expected = screen(X, targets[:, k], exact, covariates=X[:, 3])
        np.testing.assert_allclose(result.scores, expected.scores, atol=1e-12, rtol=0)


def test_a_target_of_some_rows_is_joined_by_id(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((2000, 6)), columns=list("abcdef"))
    frame.index = [f"s{k}" for k in range(2000)]
    frame["y"] = (frame["a"] > 2.2).astype(float)
    frame.to_parquet(tmp_path / "x.parquet")
    path = build_index(tmp_path / "x.parquet", tmp_path / "x.index", target="y", random_state=0)
    z = (frame["b"] + rng.standard_normal(2000)).sample(1500, random_state=0)
    z.rename("z").to_frame().rename_axis("id").reset_index().to_csv(tmp_path / "z.csv", index=False)
    source, stored, *_ = open_data(path, target=f"{tmp_path / 'z.csv'}:z")
    assert source.shape == (1500, 6)
    assert sum(source.stratum_sizes) == 1500
    assert len(source.stratum_sizes) == 2
    assert_exact(frame.loc[z.index, list("abcdef")].to_numpy(), z.to_numpy(), source, stored)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_a_store_gives_what_its_rows_in_memory_give(screened, k):
    X, targets, source = screened
    array = ArraySource(X[source.original_rows])
    array.shuffled, array.stratum_sizes = True, source.stratum_sizes
    y, plan = targets[:, k], lambda design: Plan.optimal(4000, 30, 3, 0.2, design=design)
    result = screen(source, y, plan, random_state=0)
    expected = screen(array, y[source.original_rows], plan, random_state=0)
    assert result.parameters["sampling"] == ("stratified" if k == 0 else "uniform")
    assert result.rounds[0].n_rows == expected.rounds[0].n_rows  # not rounded to blocks
    np.testing.assert_allclose(result.scores, expected.scores, atol=1e-9)
    # The shifts of columns differ, and the sums of fourth powers a little with them.
    assert result.detection_floor() == pytest.approx(expected.detection_floor(), rel=1e-2)
    one = screen(source, y, plan, random_state=0, n_jobs=1)
    np.testing.assert_array_equal(result.scores, one.scores)


SAMPLES = {
    "pearson": ({}, 1),
    "uniform": ({"sampling": "uniform"}, 1),
    "stratified": ({"sampling": "stratified"}, 1),
    "blocks": ({"row_order": "blocks"}, 1),
    "several": ({}, 2),
    "spearman": ({"statistic": "spearman"}, 1),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_of_strata_are_unbiased_for_other_targets(name):
    """Over many stores in strata of y, the mean score for another target z is that of all rows."""
    options, n_responses = SAMPLES[name]
    rng = np.random.default_rng(8)
    X = rng.standard_normal((600, 4))
    y = (X[:, 0] > 1.5).astype(float)
    z = X[:, 1] + 2 * y + rng.standard_normal(600)  # differs between strata of y, as do features 0 and 1
    responses = z if n_responses == 1 else np.column_stack([z, -z])
    exact = screen(X, z, Plan.exact(600, 4, 4), statistic=options.get("statistic", "pearson")).scores
    plan, scores = Plan(600, 4, ((60, 4), (120, 4))), []
    for seed in range(600):
        order, sizes = order_rows(600, y, np.random.default_rng(seed))
        source = ArraySource(X[order])
        source.shuffled, source.stratum_sizes, source.block_rows = True, tuple(sizes), 40
        result = screen(source, responses[order], plan, random_state=seed, n_jobs=1, **options)
        scores.append((result if n_responses == 1 else result[0]).scores)
    error = np.std(scores, axis=0) / np.sqrt(len(scores))
    bias = np.abs(exact) * (1 - exact**2) / 240  # of a correlation of 120 rows
    assert (np.abs(np.mean(scores, axis=0) - exact) < 3 * error + bias).all()


def test_few_rows_find_the_features_of_a_rare_class(tmp_path):
    """With 0.5% cases, a plain store has about 2 cases among the first rows."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((20_000, 300)).astype("f4")
    risk = X[:, :4].sum(axis=1) + rng.logistic(size=20_000)
    y = (risk > np.quantile(risk, 0.995)).astype(float)
    in_strata, plain = (
        write(tmp_path, X, y),
        IndexSource(build_index(X, tmp_path / "plain.index", random_state=1)),
    )
    assert in_strata.stratum_sizes == (19_900, 100)
    found = []
    for source in (in_strata, plain):
        result = screen(
            source,
            y,
            lambda design: Plan.optimal(20_000, 300, 8, 0.03, design=design),
            random_state=0,
        )
        found.append(len(set(result.selected) & set(range(4))))
    assert found[0] == 4
    assert found[1] < 3


@pytest.mark.parametrize("k", [0, 1])
def test_a_guarantee_holds_for_every_target(screened, k):
    X, targets, source = screened
    y = targets[:, k]
    fitted = BanditSIS(min_correlation=0.15, random_state=0).fit(source, y)
    exact = np.abs(screen(X, y, Plan.exact(4000, 30, 30)).scores)
    assert set(np.flatnonzero(exact >= 0.15)) <= set(fitted.result_.selected)
    assert fitted.result_.parameters["row_order"] == "stored"
