"""What can be promised about arrays on a GPU without one: all but the kernels, with NumPy in CuPy's place."""

import sys
import types
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banditsis import SIS, BanditSIS, Interactions, Plan, open_source, screen
from banditsis.core.validation import is_on_gpu, to_memory
from banditsis.sources import gpu
from source_promises import (  # noqa: F401 - the tests of sources are run here
    GAPS,
    NAMES,
    P,
    X,
    test_cost_grows_with_what_is_read,
    test_fourth_powers,
    test_groups_of_rows_have_their_own_sums,
    test_read,
    test_same_selection_from_every_source,
    test_shape_and_names,
    test_sums,
)

y = np.random.default_rng(0).standard_normal(100)


class Tensor:
    """What DLPack says of an array on a device; reading it fails."""

    shape, ndim, dtype = (100, 5), 2, np.dtype("float32")

    def __init__(self, kind=2):
        self.kind = kind

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, **options):
        raise AssertionError("read")


class Placed(np.ndarray):
    """An array as if it were on a device."""

    device = nullcontext()

    def get(self, out=None):
        if out is None:
            return np.array(self)
        out[...] = self
        return out

    def __dlpack_device__(self):
        return 2, 0


def _placed(function):
    return lambda *args, **options: function(*args, **options).view(Placed)


def _launch(kernel, grid, block, array, row_stride, column_stride, rows, first, columns, *rest):
    """What the kernels of moments.cu compute, from the same arguments."""
    is_copy = kernel.startswith("copy")
    p, scale, shift = rest[1:4] if is_copy else rest[:3]
    n = rest[0] if is_copy else rest[6][-1]
    rows = np.arange(first, first + n) if rows is None else rows
    columns = np.arange(p) if columns is None else columns
    z = np.asarray(array)[np.ix_(rows, columns)].astype(float) * scale[columns] - shift[columns]
    if is_copy:
        _, filled, present = rest[4:]
        filled[:] = z if present is None else np.nan_to_num(z)
        if present is not None:
            present[:] = np.isfinite(z)
        return
    w, v, skip, edges, _, parts = rest[3:]
    z = np.nan_to_num(z) if skip else z
    w, v = (np.full(n, fill) if a is None else np.ravel(a) for a, fill in ((w, 0.0), (v, 1.0)))
    for piece in range(len(parts)):
        k = slice(edges[piece], edges[piece + 1])
        lines = [z[k].sum(axis=0), w[k] @ z[k], v[k] @ z[k] ** 2, (z[k] ** 4).sum(axis=0)]
        parts[piece] = lines[: parts.shape[1]]


@pytest.fixture
def cupy(monkeypatch):
    """NumPy in CuPy's place."""
    names = ("asarray", "zeros", "empty", "empty_like", "arange", "stack", "ascontiguousarray")
    module = types.SimpleNamespace(ndarray=Placed, **{name: _placed(getattr(np, name)) for name in names})
    runtime = types.SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=OSError)
    module.cuda = types.SimpleNamespace(runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupyx", types.SimpleNamespace(empty_pinned=np.empty))
    monkeypatch.setattr("banditsis.sources.gpu._check_devices", lambda cupy: None)
    monkeypatch.setattr(gpu, "find_kernel", lambda name: name)
    monkeypatch.setattr(gpu, "launch", _launch)
    return module


@pytest.fixture(params=[("C", None), ("F", None), ("C", 50)], ids=["by row", "by column", "in parts"])
def build(request, cupy, monkeypatch):
    order, size = request.param
    if size is not None:
        monkeypatch.setattr(gpu, "MAX_WEIGHTS", 1)
        monkeypatch.setattr(gpu, "PRODUCT_ROWS", size)
        monkeypatch.setattr(gpu, "PRODUCT_CELLS", 7 * size)
    return lambda X: open_source(cupy.asarray(X, order=order), NAMES)


def test_products_of_columns_are_screened_in_memory(cupy):
    on_gpu, in_memory = Interactions(cupy.asarray(X)), Interactions(X)
    np.testing.assert_array_equal(on_gpu.read(slice(0, 9), None), in_memory.read(slice(0, 9), None))


def test_where_an_array_is():
    assert is_on_gpu(Tensor(2))
    assert is_on_gpu(Tensor(13))
    assert not is_on_gpu(Tensor(1))  # of the CPU
    assert not is_on_gpu(y)
    assert to_memory(y) is y


@pytest.mark.parametrize(
    "use",
    [
        lambda X: SIS(2).fit(X, y),
        lambda X: BanditSIS(2).fit(X, y),
        lambda X: screen(X, y, Plan.exact(100, 5, 2)),
        lambda X: open_source(X),
        lambda X: SIS(2).fit(np.zeros((100, 5)), X),
        lambda X: SIS(2).fit(np.zeros((100, 5)), y, covariates=X),
    ],
)
def test_cupy_is_asked_for(monkeypatch, use):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"needs CuPy: pip install 'banditsis\[gpu\]'"):
        use(Tensor())


def test_a_machine_without_a_device_is_explained(monkeypatch):
    def count():
        raise OSError("no CUDA-capable device is detected")

    cupy = types.ModuleType("cupy")
    runtime = types.SimpleNamespace(getDeviceCount=count, CUDARuntimeError=OSError)
    cupy.cuda = types.SimpleNamespace(runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(RuntimeError, match=r"finds no CUDA device.*pass NumPy arrays"):
        open_source(Tensor())


@given(
    st.lists(st.integers(0, 200_000), min_size=1, max_size=9).filter(any),
    st.sampled_from([4, 32, 128]),
    st.integers(1, 300_000),
)
def test_pieces_cover_the_rows_and_do_not_cross_groups(sizes, width, p):
    groups = np.cumsum([0, *sizes]).tolist()
    pieces = gpu.Pieces.cut(groups, width, p)
    assert pieces.edges[0] == 0
    assert pieces.edges[-1] == groups[-1]
    heights = np.diff(pieces.edges)
    assert (heights > 0).all()
    assert heights.max() <= gpu.MAX_PIECE
    np.testing.assert_array_equal(pieces.edges[pieces.groups], groups)
    # Enough for all multiprocessors, but the partial sums stay small.
    n_blocks = len(heights) * -(-p // width)
    assert n_blocks <= 4 * gpu.N_BLOCKS + (len(sizes) + groups[-1] // gpu.MAX_PIECE + 1) * -(-p // width)
