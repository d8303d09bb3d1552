"""What can be promised about arrays on a GPU without one: dispatch, messages, and how work is cut."""

import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banditsis import SIS, BanditSIS, IterativeSIS, Plan, open_source, screen
from banditsis.core.validation import is_on_gpu, to_memory
from banditsis.sources.gpu.source import MAX_PIECE, N_BLOCKS, Pieces

y = np.random.default_rng(0).standard_normal(100)


class Tensor:
    """What DLPack says of an array on a device; reading it fails."""

    shape, ndim, dtype = (100, 5), 2, np.dtype("float32")

    def __init__(self, kind):
        self.kind = kind

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, **options):
        raise AssertionError("read")


def test_where_an_array_is():
    assert is_on_gpu(Tensor(2))
    assert is_on_gpu(Tensor(13))
    assert not is_on_gpu(Tensor(1))  # of the CPU
    assert not is_on_gpu(y)
    assert to_memory(y) is y


@pytest.fixture
def no_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)


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
def test_cupy_is_asked_for(no_cupy, use):
    with pytest.raises(ImportError, match=r"needs CuPy: pip install 'banditsis\[gpu\]'"):
        use(Tensor(2))


@pytest.mark.parametrize("found", [0, "no CUDA-capable device is detected"])
def test_a_machine_without_a_device_is_explained(monkeypatch, found):
    """CuPy cannot be installed everywhere, so its answer is played."""

    def count():
        if found:
            raise OSError(found)
        return 0

    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(
        runtime=types.SimpleNamespace(getDeviceCount=count, CUDARuntimeError=OSError)
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(RuntimeError, match=r"finds no CUDA device.*pass NumPy arrays"):
        open_source(Tensor(2))


def test_a_lasso_needs_memory_of_the_host():
    with pytest.raises(TypeError, match=r"X\.get\(\)"):
        IterativeSIS(2).fit(Tensor(2), y)


@given(
    st.lists(st.integers(0, 200_000), min_size=1, max_size=9).filter(any),
    st.sampled_from([4, 32, 128]),
    st.integers(1, 300_000),
)
def test_pieces_cover_the_rows_and_do_not_cross_strata(sizes, width, p):
    strata = np.cumsum([0, *sizes]).tolist()
    pieces = Pieces.cut(strata, width, p)
    assert pieces.edges[0] == 0
    assert pieces.edges[-1] == strata[-1]
    heights = np.diff(pieces.edges)
    assert (heights > 0).all()
    assert heights.max() <= MAX_PIECE
    np.testing.assert_array_equal(pieces.edges[pieces.strata], strata)
    # Enough for all multiprocessors, but the partial sums stay small.
    n_blocks = len(heights) * -(-p // width)
    assert n_blocks <= 4 * N_BLOCKS + (len(sizes) + strata[-1] // MAX_PIECE + 1) * -(-p // width)
