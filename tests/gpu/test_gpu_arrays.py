"""Arrays on a GPU give what the same arrays in memory give. Needs a CUDA device: make test-gpu."""

import numpy as np
import pytest

cupy = pytest.importorskip("cupy", reason="needs CuPy and a CUDA device (make test-gpu)")
if not cupy.is_available():
    pytest.skip("needs a CUDA device (make test-gpu)", allow_module_level=True)

from banditsis import SIS, BanditSIS, IterativeSIS, Plan, open_source, screen  # noqa: E402
from banditsis.core.parallel import Workers  # noqa: E402
from banditsis.sources.base import SumContext  # noqa: E402
from banditsis.sources.gpu import GpuSource  # noqa: E402
from banditsis.statistics.moments import Weights  # noqa: E402
from source_promises import (  # noqa: E402, F401 - the tests of sources are run here
    GAPS,
    NAMES,
    NUMBERS,
    RESPONSES,
    N,
    P,
    X,
    plain_sums,
    test_correlation_among,
    test_cost_grows_with_what_is_read,
    test_fourth_powers,
    test_groups_of_rows_have_their_own_sums,
    test_read,
    test_same_selection_from_every_source,
    test_shape_and_names,
    test_sums,
)

pytestmark = pytest.mark.gpu


def _torch(X):
    torch = pytest.importorskip("torch")
    return torch.as_tensor(X, device="cuda")


def _jax(X):
    jax = pytest.importorskip("jax")
    return jax.numpy.asarray(X.astype("float32"))


ARRAYS = {
    "by row": cupy.asarray,
    "by column": lambda X: cupy.asarray(X, order="F"),
    "float32": lambda X: cupy.asarray(X, "float32"),
    "every other column": lambda X: cupy.repeat(cupy.asarray(X), 2, axis=1)[:, ::2],
    "rows reversed": lambda X: cupy.asarray(X[::-1].copy())[::-1],
    "PyTorch": _torch,
    "JAX": _jax,
}


@pytest.fixture(params=ARRAYS)
def build(request):
    return lambda X: open_source(ARRAYS[request.param](X), NAMES)


DTYPES = ["float64", "float32", "float16", "int64", "uint64", "int32", "uint32", "int16", "uint16"]
DTYPES += ["int8", "uint8", "bool"]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_gives_the_scores_of_the_cpu(dtype, order):
    rng = np.random.default_rng(0)
    cells = rng.random((3000, 64))
    x = np.asarray(cells < 0.5 if dtype == "bool" else 100 * cells, dtype)
    y = x[:, 3].astype(float) + rng.standard_normal(3000)
    on_host = screen(x, y, Plan.exact(*x.shape, 5))
    on_gpu = screen(cupy.asarray(x, order=order), y, Plan.exact(*x.shape, 5))
    np.testing.assert_array_equal(on_gpu.selected, on_host.selected)
    tolerance = 1e-5 if dtype in ("float32", "float16") else 1e-10
    np.testing.assert_allclose(on_gpu.scores, on_host.scores, atol=tolerance)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("seed", range(12))
def test_sums_of_any_shape(dtype, order, seed):
    """Aligned or not, all rows or some, in groups that may be empty, to float64 precision."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(3, 40_000)), int(rng.integers(1, 300))
    x = (rng.standard_normal((n, p)) + 2).astype(dtype)
    some = np.sort(rng.choice(n, rng.integers(1, n), replace=False))
    rows = slice(0, n) if seed % 3 == 0 else some
    listed = np.arange(n)[rows]
    edges = np.sort(np.r_[0, rng.integers(0, len(listed) + 1, 3), len(listed)])
    columns = None if seed % 2 else np.sort(rng.choice(p, rng.integers(1, p + 1), replace=False))
    weights = Weights.of(rng.standard_normal((len(listed), 1)), fourth=seed % 4 == 0)
    source = GpuSource(cupy.asarray(x, order=order))
    calibration = source.calibrate(slice(0, n))
    chosen = np.arange(p) if columns is None else columns
    out = np.zeros((len(edges) - 1, weights.n_lines, len(chosen)))
    with Workers(2) as workers:
        source.add_sums(rows, edges, columns, weights, SumContext(calibration, out, workers))
    for sums, start, stop in zip(out, edges[:-1], edges[1:], strict=True):
        part = weights.part(slice(start, stop))
        z = x[np.ix_(listed[start:stop], chosen)].astype(float) - calibration.shift[chosen]
        size = plain_sums(np.abs(z), Weights.of(np.abs(part.linear), fourth=weights.fourth)) + 1
        tolerance = 1e-13 if dtype == "float64" else 2e-6
        assert (np.abs(sums - plain_sums(z, part)) <= tolerance * size).all()


NAMES_OF_STATISTICS = ["pearson", "anova", "logistic", "poisson", "cox", "spearman", "distance"]


@pytest.mark.parametrize("name", NAMES_OF_STATISTICS)
@pytest.mark.parametrize("missing", ["raise", "pairwise"])
def test_statistics_covariates_and_missing_values(name, missing):
    x = GAPS if missing == "pairwise" else X
    takes_covariates = name not in ("spearman", "distance")
    covariates = np.random.default_rng(1).standard_normal((N, 3)) if takes_covariates else None
    options = {"statistic": name, "missing": missing, "covariates": covariates}
    results = [screen(data, RESPONSES[name], Plan.exact(N, P, 4), **options) for data in (x, cupy.asarray(x))]
    np.testing.assert_array_equal(results[1].selected, results[0].selected)
    np.testing.assert_allclose(results[1].scores, results[0].scores, atol=1e-10)
    if name != "distance":
        np.testing.assert_allclose(results[1].pvalues, results[0].pvalues, rtol=1e-6)


def test_many_responses_and_weights():
    Y, w = np.random.default_rng(0).standard_normal((N, 40)), np.random.default_rng(1).random(N)
    for options in ({}, {"sample_weight": w}):
        results = [screen(x, Y, Plan.exact(N, P, 3), **options) for x in (X, cupy.asarray(X))]
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(other.scores, one.scores, atol=1e-10)


@pytest.mark.parametrize("options", [{"alpha": 0.5, "pvalues": True}, {"budget": 0.2}])
@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
def test_adaptive_runs_read_the_same_rows(options, sampling):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20_000, 150))
    y = x[:, :5].sum(axis=1) + rng.standard_exponential(20_000)
    selectors = [BanditSIS(5, random_state=0, sampling=sampling, **options) for _ in range(2)]
    on_host, on_gpu = (
        s.fit(data, y).result_ for s, data in zip(selectors, (x, cupy.asarray(x)), strict=True)
    )
    np.testing.assert_array_equal(on_gpu.selected, on_host.selected)
    if "budget" in options:  # everything is read where that is faster
        assert on_gpu.cells_read == x.size
        return
    np.testing.assert_allclose(on_gpu.scores, on_host.scores, atol=1e-9)
    assert on_gpu.cells_read == on_host.cells_read
    assert any("exact screening" in note for note in on_gpu.notes)


def test_the_response_may_be_on_either_side_and_the_result_is_on_the_host():
    on_gpu = cupy.asarray(X)
    for y in (NUMBERS, cupy.asarray(NUMBERS), _torch(NUMBERS)):
        selector = SIS(4).fit(on_gpu, y, covariates=cupy.asarray(X[:, :1]))
        assert type(selector.scores_) is np.ndarray
        np.testing.assert_allclose(
            selector.scores_, SIS(4).fit(X, NUMBERS, covariates=X[:, :1]).scores_, atol=1e-10
        )


@pytest.mark.parametrize("kind", ["by row", "PyTorch", "JAX"])
def test_transform_returns_an_array_of_the_same_library(kind):
    x = ARRAYS[kind](X)
    kept = SIS(4).fit(x, NUMBERS).transform(x)
    assert type(kept) is type(x)
    assert kept.shape == (N, 4)
    x = ARRAYS[kind](GAPS)
    selector = SIS(4, missing="pairwise").fit(x, NUMBERS)
    assert selector.transform(x).shape == (N, 4)
    with pytest.raises(ValueError, match="NaN"):
        selector.set_params(missing="raise").transform(x)
    with pytest.raises(ValueError, match="NaN"):
        SIS(4).fit(x, NUMBERS)


def test_iterative_screening_reads_what_the_model_needs():
    on_host, on_gpu = (IterativeSIS(4).fit(data, NUMBERS).result_ for data in (X, cupy.asarray(X)))
    np.testing.assert_array_equal(on_host.selected, on_gpu.selected)


def test_repeated_runs_are_the_same_bit_for_bit():
    rng = cupy.random.default_rng(0)
    x = rng.standard_normal((50_000, 700), dtype=cupy.float32)
    y = x[:, 0] + rng.standard_normal(50_000)
    Y = cupy.column_stack([y, -y])
    for response in (y, Y):
        first, second = (SIS(5).fit(x, response).scores_ for _ in range(2))
        np.testing.assert_array_equal(first, second)


def test_data_that_cannot_be_read_are_named():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"bfloat16.*convert it to float32"):
        open_source(torch.zeros((5, 3), dtype=torch.bfloat16, device="cuda"))
    with pytest.raises(ValueError, match="Complex data"):
        open_source(cupy.zeros((5, 3), "complex64"))
    with pytest.raises(ValueError, match="two dimensions"):
        open_source(cupy.zeros(5))
    gradient = torch.as_tensor(X, device="cuda").requires_grad_()
    assert open_source(gradient).shape == (N, P)
