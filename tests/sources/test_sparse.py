"""Sparse matrices: the same numbers as dense ones, without ever being dense."""

import tracemalloc
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import sparse

from banditsis import SIS, BanditSIS, Plan, open_source, screen
from banditsis.engine.sampling import slower_than_exact
from banditsis.plans import make_plan
from banditsis.sources.sparse import SparseSource
from banditsis.statistics.moments import Weights
from reference import correlations
from source_promises import check_sums

rng = np.random.default_rng(0)
N, P = 211, 37
X = np.where(rng.random((N, P)) < 0.15, rng.standard_normal((N, P)) + 1, 0.0)
X[:, 4] = 7.5 + rng.standard_normal(N)  # full
X[:, 5] = 0.1  # full and constant
X[:, 6] = 0.0  # without a stored cell
Y = X[:, 1] - 2 * X[:, 9] + 0.2 * X[:, 4] + 0.3 * rng.standard_normal(N)
GAPS = np.where((X != 0) & (rng.random(X.shape) < 0.2), np.nan, X)
LINEAR = np.column_stack([np.linspace(-1, 2, N), np.cos(np.arange(N))])
KINDS = {
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "coo": sparse.coo_matrix,
    "lil": sparse.lil_array,
    "csr, wide indices": lambda X: _wide(sparse.csr_array(X)),
    "csc, wide indices": lambda X: _wide(sparse.csc_array(X)),
    "csr, duplicates": lambda X: _twice(X),
    "csc, unsorted": lambda X: _unsorted(sparse.csc_array(X)),
}


def _wide(matrix):
    matrix.indptr, matrix.indices = (part.astype(np.int64) for part in (matrix.indptr, matrix.indices))
    return matrix


def _twice(X):
    """Each cell as the sum of two that are stored one by one."""
    half = sparse.csr_array(X / 2)
    rows = list(pairwise(half.indptr))
    data, indices = (np.concatenate([np.tile(a[i:j], 2) for i, j in rows]) for a in (half.data, half.indices))
    return sparse.csr_array((data, indices, 2 * half.indptr), X.shape)


def _unsorted(matrix):
    for j in range(matrix.shape[1]):
        run = slice(matrix.indptr[j], matrix.indptr[j + 1])
        for array in (matrix.indices, matrix.data):
            array[run] = array[run][::-1].copy()
    matrix.has_sorted_indices = False
    return matrix


@pytest.mark.parametrize("build", KINDS.values(), ids=KINDS)
def test_matrices_of_every_kind(build):
    rows, columns = np.array([0, 3, 4, 99, 210]), np.array([0, 1, 4, 6, 36])
    source = SparseSource(build(GAPS))
    assert 0 < np.count_nonzero(source.calibrate(slice(0, N)).shift) < 4  # full columns alone are shifted
    np.testing.assert_array_equal(source.read(rows, columns), GAPS[np.ix_(rows, columns)])
    np.testing.assert_array_equal(source.read(slice(5, 190), None), GAPS[5:190])
    found, expected = (screen(x, Y, Plan.exact(N, P, 5), missing="pairwise") for x in (source, GAPS))
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12)
    np.testing.assert_array_equal(found.evidence.present, expected.evidence.present)


@pytest.mark.parametrize("build", ["csr", "csc"])
def test_cells_far_from_zero_or_of_any_size_keep_their_digits(build):
    for size in (1e25, 1e-25):
        x = (X * size).astype("f4")
        scores = screen(KINDS[build](x), Y, Plan.exact(N, P, 5)).scores
        np.testing.assert_allclose(scores, correlations(x.astype("f8") / size, Y), atol=1e-6)
    x = X.copy()
    x[:, 4] = 1e8 + rng.standard_normal(N)
    x[:, 7] = np.where(np.arange(N) % 50, 1e8 + rng.standard_normal(N), 0)
    x[:, 8] = X[:, 9] * 1e-160
    x[:, 10] = X[:, 9] * 1e160
    scores = screen(KINDS[build](x), Y, Plan.exact(N, P, 5)).scores
    np.testing.assert_allclose(scores, correlations(x, Y), atol=1e-7)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i2", "?"])
@pytest.mark.parametrize("build", ["csr", "csc", "coo"])
def test_scores_of_every_dtype(build, dtype):
    """Full columns become dense tiles, which several responses and covariates sum by other kernels."""
    x, responses, plan = (10 * X).astype(dtype), np.column_stack([Y, X[:, 4]]), Plan.exact(N, P, 5)
    matrix, tolerance = KINDS[build](x), 1e-6 if dtype == "f4" else 1e-12
    scores = screen(matrix, Y, plan).scores
    np.testing.assert_allclose(scores, correlations(x, Y), atol=tolerance)
    assert scores[5] == scores[6] == 0
    for covariates in (None, LINEAR):
        found, expected = (screen(data, responses, plan, covariates=covariates) for data in (matrix, x))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)


@pytest.mark.parametrize("columns", [None, np.array([0, 1, 4, 6, 36]), np.array([9])])
@pytest.mark.parametrize(("n_linear", "v", "presence", "fourth"), list(product((1, 2), *[(False, True)] * 3)))
@pytest.mark.parametrize("build", ["csr", "csc"])
def test_sums(build, n_linear, v, presence, fourth, columns):
    x, present = (GAPS, np.column_stack([np.ones(N), LINEAR])) if presence else (X, None)
    weights = Weights.of(LINEAR[:, :n_linear], np.linspace(1, 2, N) if v else None, present, fourth)
    for rows in (slice(0, N), slice(5, 190), np.array([0, 3, 4, 99, 210])):
        check_sums(SparseSource(KINDS[build](x)), x, rows, columns, weights)


def test_columns_are_read_whole_and_rows_are_not_by_any_threads():
    x = sparse.random_array((3000, 400), density=0.1, rng=1, format="csr")
    y, plan = np.random.default_rng(0).standard_normal(3000), Plan.paper(3000, 400, 9)
    by_row = screen(x, y, plan, random_state=0)
    assert by_row.parameters["row_order"] == "random"
    np.testing.assert_array_equal(by_row.selected, screen(x.toarray(), y, plan, random_state=0).selected)
    by_column = screen(x.tocsc(), y, plan, random_state=0)
    assert by_column.fraction_read == 1
    assert "blocks of 3,000" in by_column.notes[0]
    asked = screen(x.tocsc(), y, plan, row_order="random", random_state=0)
    np.testing.assert_array_equal(asked.selected, by_row.selected)
    for (matrix, expected), n_jobs in product(((x, by_row), (x.tocsc(), by_column)), (1, 2, 5)):
        found = screen(matrix, y, plan, n_jobs=n_jobs, random_state=0)
        np.testing.assert_array_equal(found.scores, expected.scores)


def test_nothing_is_made_dense():
    x = sparse.random_array((20_000, 20_000), density=1e-3, rng=1, format="csc", dtype=np.float32)
    y = np.random.default_rng(0).standard_normal(20_000)
    screen(x[:100], y[:100], Plan.exact(100, 20_000, 9))
    for matrix in (x, x.tocsr()):
        source = open_source(matrix)
        tracemalloc.start()
        screen(source, y, Plan.exact(20_000, 20_000, 9))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20e6  # dense, it has 1.6 GB


@pytest.mark.parametrize("build", ["csr", "csc", "coo"])
def test_selectors_accept_and_return_sparse_matrices(build):
    matrix = KINDS[build](X)
    selector = SIS(3).fit(matrix, Y)
    kept = selector.transform(matrix)
    assert sparse.issparse(kept)
    np.testing.assert_array_equal(kept.toarray(), X[:, selector.get_support()])
    assert BanditSIS(3, random_state=0).fit(matrix, Y).n_features_in_ == P
    with pytest.raises(ValueError, match="Complex data not supported"):
        open_source(matrix.astype(complex))
    with pytest.raises(ValueError, match=r"2 names.* 37 columns"):
        open_source(matrix, ["a", "b"])


@pytest.mark.parametrize("missing", [0.2, 0.6, 0.98])
@pytest.mark.parametrize("offset", [1e8, 1e9])
@pytest.mark.parametrize("matrix", [sparse.csr_array, sparse.csc_array], ids=["csr", "csc"])
def test_missing_values_of_columns_far_from_zero(matrix, offset, missing):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 5)) + offset
    y = X[:, 1] - X[:, 3] + rng.standard_normal(600)
    X[rng.random(X.shape) < missing] = np.nan
    X[:100, 0] = np.nan  # in all pilot rows if these are the first
    plan = Plan.exact(600, 5, 2)
    found = screen(matrix(X), y, plan, missing="pairwise").scores
    np.testing.assert_allclose(found, screen(X, y, plan, missing="pairwise").scores, atol=1e-6)
    for j, x in enumerate(X.T):
        here = ~np.isnan(x)
        r = np.corrcoef(x[here] - offset, y[here])[0, 1] * np.sqrt(here.mean())
        assert abs(found[j] - (r if here.sum() >= 10 else 0)) < 1e-6


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
def test_an_index_out_of_range_raises(kind):
    """Also if SciPy has looked at the matrix before its arrays were changed."""
    matrix = sparse.random_array((300, 50), density=0.2, format=kind, rng=np.random.default_rng(0))
    screen(matrix, np.arange(300.0), Plan.exact(300, 50, 2))
    indices = matrix.coords[1] if kind == "coo" else matrix.indices
    for value in (10**6, -1):
        indices[len(indices) // 2] = value
        with pytest.raises(ValueError, match="damaged"):
            screen(matrix, np.arange(300.0), Plan.exact(300, 50, 2))


def test_the_time_of_sparse_matrices_is_estimated():
    """Adaptive screening of 6 million stored cells takes half the time of reading all; of few cells, more."""
    offsets = np.arange(50_000)[:, None] % 33
    indices = (33 * np.arange(120) + offsets).ravel()
    data = np.ones(indices.size, np.float32)
    matrix = sparse.csr_array((data, indices, 120 * np.arange(50_001)), shape=(50_000, 4_000))
    for rows, expected in ((50_000, False), (5_000, True)):
        source = open_source(matrix[:rows])
        plan = make_plan(*source.shape, 20)
        assert slower_than_exact(source, plan, "auto") is expected
        assert slower_than_exact(source, plan, "auto", n_reread=20)  # all rows are read for p-values
