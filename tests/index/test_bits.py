"""Runs on the bits of an index: estimates, certificates, several indexes, and what exact screening gives."""

import numpy as np
import pandas as pd
import pytest

from banditsis import SIS, BanditSIS, Plan, build_index, open_source, screen
from banditsis.core.parallel import Workers
from banditsis.index.folder import verify
from banditsis.index.sketch import draw_signs, make_blocks

N, P = 12_000, 800


def draw(kind, n=N, p=P, seed=0):
    rng = np.random.default_rng(seed)
    make = {
        "normal": lambda: rng.standard_normal((n, p)),
        "lognormal": lambda: np.exp(2 * rng.standard_normal((n, p))),
        "Cauchy": lambda: rng.standard_cauchy((n, p)),
        "rare": lambda: rng.random((n, p)) < 0.002,
        "one row": lambda: np.arange(n)[:, None] == rng.integers(0, n, p),
        "offset": lambda: 1e8 + rng.standard_normal((n, p)),
        "genotypes": lambda: rng.binomial(2, 0.2, (n, p)).astype("i1"),
        "half": lambda: rng.standard_normal((n, p)).astype("f2"),
        "sorted": lambda: np.sort(rng.standard_normal((n, p)), axis=0),
        "repeated rows": lambda: np.repeat(rng.standard_normal((n // 100, p)), 100, axis=0),
    }
    return make[kind]()


KINDS = "normal", "lognormal", "Cauchy", "rare", "one row", "offset", "genotypes", "half", "sorted"


def standardised(X):
    scale = np.abs(X).max(axis=0, keepdims=True).astype(float)
    Z = X / np.where(scale > 0, scale, 1.0)
    Z = Z - Z.mean(axis=0)
    size = np.linalg.norm(Z, axis=0)
    return Z / np.where(size > 0, size, 1.0)


def write(folder, X, name="x", **options):
    return open_source(build_index(X, folder / f"{name}.index", random_state=1, **options))


@pytest.mark.parametrize("kind", [*KINDS, "repeated rows"])
def test_errors_of_estimates_are_as_stated_whatever_the_data(tmp_path, kind):
    X = draw(kind)
    source = write(tmp_path, X)
    Z = standardised(X[source.original_rows])
    squares = np.square(X - X.mean(axis=0, dtype=float)).sum(axis=0)
    for response in ("normal", "rare", "Cauchy"):
        q = standardised(draw(response, p=1, seed=5).astype(float)[source.original_rows])
        with Workers(2) as workers:
            found = source.sketch.estimate(lambda rows, q=q: q[rows], workers, lambda rows: None)
        scale = np.sqrt(np.where(found.squares > 0, found.squares, 1.0))
        errors = found.products[0] / scale - q[:, 0] @ Z
        sigma = np.sqrt(found.variances[0]) / scale
        varies = (found.squares > 0) & (sigma > 1e-9)
        assert np.abs(errors[~varies]).max(initial=0) < 1e-6
        assert varies.mean() > 0.3
        z = errors[varies] / sigma[varies]
        assert np.abs(z).max() < 4.8
        if kind != "sorted":  # where all features are about the same, and so are their errors
            assert 0.88 < np.sqrt(np.mean(z**2)) < 1.12
            np.testing.assert_allclose(found.squares, squares, rtol=1e-6)
            if response == "normal":
                assert 0.72 < np.sqrt(np.mean(errors[varies] ** 2) * N) < 0.80


def test_blocks_hold_every_row_once():
    for n in (1, 63, 64, 1000, 1024, 8191, 8192, 20_000, 100_001):
        blocks = make_blocks(n)
        assert [b.start for b in blocks[1:]] == [b.stop for b in blocks[:-1]]
        assert (blocks[0].start, blocks[-1].stop) == (0, n)
        sizes = [b.size for b in blocks]
        assert all(size & (size - 1) == 0 and size >= 64 for size in sizes)
        assert sum(sizes) < n + max(64, min(n, 1024))


def test_signs_never_change():
    block = make_blocks(20_000)[1]
    signs = draw_signs(7, block)
    assert signs.shape == (2, 8192)
    assert abs(signs.mean()) < 0.03
    assert "".join("+-"[int(s < 0)] for s in signs[0, :24]) == "++--++-+-+-+++--++--+--+"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    rng = np.random.default_rng(2)
    X = draw("normal", 20_000, 900).astype("f4")
    X[:, 3:6] = np.exp(2 * X[:, 3:6])
    X[:, 6] = X[:, 6] > 3
    y = standardised(X[:, :12]) * np.sqrt(20_000) @ np.linspace(0.05, 0.2, 12) + rng.standard_normal(20_000)
    source = write(tmp_path_factory.mktemp("stored"), X)
    return X, y, source


def responses(y):
    rng = np.random.default_rng(3)
    return {
        "pearson": y,
        "anova": np.digitize(y, [-1, 0, 1]),
        "two classes": np.where(y > 1, "yes", "no"),
        "logistic": (y > 1).astype(int),
        "poisson": rng.poisson(np.exp(0.3 * y)),
    }


@pytest.mark.parametrize("covariates", [False, True])
@pytest.mark.parametrize("name", ["pearson", "anova", "two classes", "logistic", "poisson"])
def test_the_selection_is_that_of_exact_screening(stored, name, covariates):
    X, y, source = stored
    given = {"covariates": X[:, 20:22] + y[:, None] / 3 * [1, 0]} if covariates else {}
    statistic = "anova" if name == "two classes" else name
    response = responses(y)[name]
    selectors = BanditSIS(8, statistic=statistic), SIS(8, statistic=statistic)
    result, exact = (selector.fit(source, response, **given).result_ for selector in selectors)
    if covariates and name in ("logistic", "poisson"):
        assert any("with covariates: its rows were sampled" in note for note in result.notes)
        return
    assert result.parameters["plan"] == "index"
    chosen = result.selected
    np.testing.assert_array_equal(chosen, exact.selected)
    np.testing.assert_allclose(result.scores[chosen], exact.scores[chosen], rtol=1e-9)
    np.testing.assert_allclose(result.log10_pvalues[chosen], exact.log10_pvalues[chosen], rtol=1e-6)
    assert "these are the 8 features that exact screening selects, with probability 95%" in str(result)
    assert result.detection_floor() == result.rounds[-1].cutoff
    largest = (2 if covariates else 1.5) * 5 * 0.76 / np.sqrt(len(y))
    assert np.abs(result.scores - exact.scores).max() < largest
    if exact.effects is not None:
        np.testing.assert_allclose(result.effects.beta, exact.effects.beta)
    if name == "pearson":
        np.testing.assert_allclose(result.interval(), exact.interval())


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_features_whose_squares_are_out_of_range(tmp_path, size):
    X = draw("normal", 5000, 400)
    y = X[:, :3].sum(axis=1) + np.random.default_rng(0).standard_normal(5000)
    X[:, 1:40] *= size
    result = BanditSIS(3).fit(write(tmp_path, X), y).result_
    assert (result.parameters["plan"], sorted(result.selected)) == ("index", [0, 1, 2])


def test_noise_has_a_floor_and_no_certificate(stored):
    _, y, source = stored
    noise = np.random.default_rng(0).standard_normal(len(y))
    result = BanditSIS(20).fit(source, noise).result_
    exact = np.abs(SIS(20).fit(source, noise).scores_)
    floor = result.detection_floor()
    assert max(0.02, result.rounds[-1].cutoff) < floor < 0.06
    assert set(np.flatnonzero(exact >= floor)) <= set(result.selected)
    assert f"detection floor: {floor:.4f}; every feature at or above it that exact" in str(result)
    with pytest.raises(ValueError, match=r"confidence 0\.95 only"):
        result.detection_floor(0.99)


def test_a_larger_confidence_reads_more(stored):
    X, y, source = stored
    read, given = [], (*source.shape, 12, 400)
    for confidence in (0.5, 0.95, 0.9999):
        result = screen(source, y, Plan.index(*given, confidence=confidence))
        np.testing.assert_array_equal(result.selected, SIS(12).fit(X, y).result_.selected)
        assert f"with probability {100 * confidence:.4g}%" in str(result)
        assert result.detection_floor(confidence) > 0
        read.append(result.rounds[-1].n_features)
    assert read[0] < read[1] < read[2] < 400
    for data, options in ((X, {}), (source, {"statistic": "spearman"})):
        with pytest.raises(ValueError, match=r"use another plan than Plan\.index"):
            screen(data, y, Plan.index(*given), **options)


def test_several_responses_are_those_one_by_one(stored):
    X, y, source = stored
    Y = np.column_stack([y, X[:, 30] + y, -y])
    together = BanditSIS(6).fit(source, Y).result_
    for k, result in enumerate(together):
        alone = BanditSIS(6).fit(source, Y[:, k]).result_
        np.testing.assert_array_equal(result.selected, alone.selected)
        np.testing.assert_allclose(result.scores, alone.scores, atol=1e-7)
    one = BanditSIS(6, n_jobs=1).fit(source, Y).result_
    np.testing.assert_array_equal(one[1].scores, together[1].scores)


def test_some_columns_or_other_plans(stored):
    _, y, source = stored
    path = source.parts[0].where
    some = open_source(path, columns=["x0", "x4", "x1*", "x2*", "x3*", "x5*", "x8*"])
    result = BanditSIS(4).fit(some, y).result_
    assert result.parameters["plan"] == "index"
    np.testing.assert_array_equal(result.selected, SIS(4).fit(some, y).result_.selected)
    for options in ({"alpha": 0.5}, {"budget": 0.2}, {"row_order": "stored"}):
        assert BanditSIS(4, **options).fit(source, y).result_.parameters["plan"] != "index"
    unknown = np.where(np.arange(len(y)) % 50 == 0, np.nan, y)
    result = BanditSIS(4, missing="pairwise").fit(source, unknown).result_
    assert any("rows were sampled instead" in note for note in result.notes)
    result = BanditSIS(4, statistic="spearman").fit(source, y).result_
    assert any("the bits of the index do not support 'spearman'" in note for note in result.notes)
    result = BanditSIS(4, avoid_redundancy=True).fit(source, y).result_
    assert "are the 200 features that exact screening selects" in str(result) or result.detection_floor() > 0
    exact = screen(source, y, Plan.exact(*source.shape, 4), pvalues=True)
    pvalues = BanditSIS(4, pvalues=True).fit(source, y).result_.pvalues
    np.testing.assert_allclose(pvalues[exact.selected], exact.pvalues[exact.selected])


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_missing_cells(tmp_path, share):
    rng = np.random.default_rng(0)
    X = draw("normal", 10_000, 500)
    y = X[:, :4] @ [0.3, 0.2, 0.15, 0.1] + rng.standard_normal(10_000)
    X[rng.random(X.shape) < share] = np.nan
    X[np.argsort(-np.abs(y))[:300], 2] = np.nan  # the response is largest where the feature is missing
    source = write(tmp_path, X)
    with pytest.raises(ValueError, match="missing values"):
        BanditSIS(4).fit(source, y)
    result, exact = (kind(4, missing="pairwise").fit(source, y).result_ for kind in (BanditSIS, SIS))
    np.testing.assert_array_equal(result.selected, exact.selected)
    np.testing.assert_allclose(result.scores[exact.selected], exact.scores[exact.selected])
    result = BanditSIS(4, missing="pairwise").fit(source, y, covariates=rng.standard_normal(10_000)).result_
    assert "not available, because it is only known for correlations\n  without covariates" in str(result)
    X[5, 7] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        BanditSIS(4, missing="pairwise").fit(write(tmp_path, X, "infinite"), y)


def test_rows_that_are_appended_or_joined_are_as_one_index(tmp_path):
    rng = np.random.default_rng(0)
    X = draw("lognormal", 15_000, 300)
    y = standardised(X[:, :5]).sum(axis=1) * 20 + rng.standard_normal(15_000)
    whole = write(tmp_path, X)
    path = build_index(X[:9000], tmp_path / "grown.index", random_state=0)
    before = {file: file.stat().st_mtime_ns for file in path.iterdir()}
    build_index(X[9000:13_000], path, append=True, random_state=1)
    build_index(X[13_000:], path, append=True, random_state=2)
    assert before.items() <= {file: file.stat().st_mtime_ns for file in path.iterdir()}.items()
    rest = build_index(X[9000:], tmp_path / "rest.index", random_state=3)
    first = build_index(X[:9000], tmp_path / "first.index", random_state=0)
    expected = SIS(5).fit(whole, y).result_
    for source in (open_source(path), open_source([first, rest])):
        rows = source.original_rows
        np.testing.assert_array_equal(np.sort(rows), np.arange(15_000))
        np.testing.assert_array_equal(source.read(slice(5, 14_000), np.array([3])), X[rows[5:14_000], 3:4])
        for kind in (SIS, BanditSIS):
            result = kind(5).fit(source, y).result_
            np.testing.assert_array_equal(result.selected, expected.selected)
            np.testing.assert_allclose(result.scores[result.selected], expected.scores[expected.selected])
        assert result.parameters["plan"] == "index"
        ranks = SIS(5, statistic="spearman").fit(source, y).scores_
        np.testing.assert_allclose(ranks, SIS(5, statistic="spearman").fit(X, y).scores_, atol=1e-12)
        sampled = BanditSIS(5, statistic="spearman", budget=0.3, random_state=0).fit(source, y)
        assert np.abs(sampled.scores_ - ranks).max() < 0.2
    assert verify(path) == []
    bits = path / "part_1" / "bits.npy"
    content = bytearray(bits.read_bytes())
    content[-1] ^= 1
    bits.write_bytes(content)
    assert verify(path) == ["part_1/bits.npy"]


def test_only_rows_of_the_same_features_are_appended(tmp_path):
    frame = pd.DataFrame(draw("normal", 500, 3).astype("f4"), columns=["a", "b", "c"])
    path = build_index(frame, tmp_path / "x.index", target="c")
    before = sorted(path.rglob("*"))
    for data, place, force, message in (
        (frame[["b", "a", "c"]], path, False, "in the same order, but have 'b' instead of 'a'"),
        (frame.astype(float), path, False, "float64: convert them to float32"),
        (frame, path, True, "force or append"),
        (frame, tmp_path / "none.index", False, r"none\.index"),
    ):
        with pytest.raises((FileNotFoundError, ValueError), match=message):
            build_index(data, place, append=True, force=force)
    assert sorted(tmp_path.rglob("*")) == [path, *before]
    build_index(frame, path, append=True)
    assert (open_source(path).shape, open_source(path).target) == ((1000, 2), "c")
    build_index(frame, path, force=True)
    assert open_source(path).shape == (500, 3)
    with pytest.raises(ValueError, match="have different features"):
        open_source([path, build_index(frame[["a"]], tmp_path / "a.index")])
