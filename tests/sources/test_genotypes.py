"""Genotypes packed in bytes: every sum is that of the decoded matrix."""

import os

import numpy as np
import pytest
from bed_reader import to_bed

from banditsis import Plan, open_source, screen
from banditsis.sources.genotypes import BLOCK_SAMPLES, GenotypeSource

rng = np.random.default_rng(0)


def genotypes(n, p, missing=0.0, random_state=1):
    draw = np.random.default_rng(random_state)
    X = draw.binomial(2, draw.uniform(0.02, 0.98, p), (n, p)).astype("f8")
    X[:, p // 2] = 2.0  # constant
    X[draw.random(X.shape) < missing] = np.nan
    return X


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    folder = tmp_path_factory.mktemp("genotypes")

    def write(X):
        path = folder / f"{len(list(folder.iterdir()))}.bed"
        to_bed(path, X)
        return open_source(path)

    return write


def compare(source, X, y, plan, tolerance=1e-13, **settings):
    found, expected = (screen(data, y, plan, random_state=0, **settings) for data in (source, X))
    if y.ndim == 1:
        found, expected = [found], [expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.selected, other.selected)
        np.testing.assert_allclose(one.scores, other.scores, atol=tolerance)
        np.testing.assert_allclose(one.log10_pvalues, other.log10_pvalues, atol=1e3 * tolerance)
        np.testing.assert_allclose(one.effects.beta, other.effects.beta, rtol=1e3 * tolerance)
        if one.evidence.present is not None:
            np.testing.assert_array_equal(one.evidence.present, other.evidence.present)


@pytest.mark.parametrize("n", [203, BLOCK_SAMPLES + 38])
@pytest.mark.parametrize("missing", [0.0, 0.03])
@pytest.mark.parametrize("n_responses", [1, 3])
@pytest.mark.parametrize("n_covariates", [0, 2])
def test_sums_are_those_of_the_matrix(write, n, missing, n_responses, n_covariates):
    X = genotypes(n, 50, missing)
    covariates = rng.standard_normal((n, n_covariates)) if n_covariates else None
    y = (np.nan_to_num(X[:, :n_responses]) + rng.standard_normal((n, n_responses))).squeeze()
    source = write(X)
    assert isinstance(source, GenotypeSource)
    for kind in ("pairwise", "raise")[: 2 if missing == 0 else 1]:
        compare(source, X, y, Plan.exact(n, 50, 12), covariates=covariates, missing=kind)


@pytest.mark.parametrize(("keep", "tolerance"), [(0.9, 1e-13), (0.05, 1e-6)])
def test_rows_without_a_response_are_left_out(write, keep, tolerance):
    """The weights of other rows are 0; few rows are read one by one, and summed in float32."""
    X = genotypes(901, 40, 0.02)
    y = np.where(rng.random(901) < keep, rng.standard_normal(901), np.nan)
    compare(write(X), X, y, Plan.exact(901, 40, 9), tolerance, missing="pairwise")


@pytest.mark.parametrize("statistic", ["anova", "logistic", "poisson"])
def test_other_statistics(write, statistic):
    X, y = genotypes(400, 30, 0.02), rng.integers(0, 2, 400)
    covariates = rng.standard_normal((400, 2))
    for given in (None, covariates):
        settings = {"statistic": statistic, "missing": "pairwise", "covariates": given}
        found, expected = (screen(data, y, Plan.exact(400, 30, 5), **settings) for data in (write(X), X))
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)


def test_an_adaptive_run_reads_the_same_sums(write):
    X = genotypes(3000, 60)
    y = X[:, 3] - X[:, 7] + rng.standard_normal(3000)
    plan = Plan.optimal(3000, 60, 5, 0.5)
    found, expected = (
        screen(data, y, plan, row_order="random", sampling="uniform", random_state=0)
        for data in (write(X), X)
    )
    np.testing.assert_array_equal(found.selected, expected.selected)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
    np.testing.assert_allclose(found.evidence.informative, expected.evidence.informative, rtol=1e-4)


def test_the_result_does_not_depend_on_the_threads(write):
    X, Y = genotypes(500, 700, 0.01), rng.standard_normal((500, 2))
    source, options = write(X), {"missing": "pairwise", "covariates": Y[:, :1] ** 2}
    plan = Plan.exact(500, 700, 9)
    results = [
        np.array([one.scores for one in screen(source, Y, plan, n_jobs=k, **options)]) for k in (1, 2, 5)
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_missing_genotypes_raise_an_error(write):
    X = genotypes(1001, 1200)
    X[17, 5] = np.nan
    with pytest.raises(ValueError, match=r"missing|NaN"):
        screen(write(X), rng.standard_normal(1001), Plan.exact(1001, 1200, 3))


def test_a_file_that_becomes_shorter_raises_an_error(tmp_path):
    path = tmp_path / "cut.bed"
    to_bed(path, genotypes(2000, 600))
    source = open_source(path)
    os.truncate(path, path.stat().st_size // 2)
    for use in (
        lambda: screen(source, rng.standard_normal(2000), Plan.exact(2000, 600, 3)),
        lambda: source.read(slice(0, 5), np.array([599])),
    ):
        with pytest.raises(ValueError, match="became shorter"):
            use()
