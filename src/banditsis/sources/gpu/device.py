"""CuPy and its kernels, and what is copied to a GPU and back."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, chunks
from banditsis.core.parallel import map_in_threads
from banditsis.statistics.weights import Weights

#: Rows and cells of a matrix product, whose sums are in the dtype of the data.
PRODUCT_ROWS, PRODUCT_CELLS = 1 << 13, 1 << 27
#: Cells that are copied to the host at once, and weights that a thread computes at once.
PINNED_CELLS, WEIGHTS_OF_THREAD = 1 << 22, 1 << 17


def import_cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            "screening arrays on a GPU needs CuPy: pip install 'banditsis[gpu]' (for CUDA 12; otherwise the "
            "package of CuPy for your version)."
        ) from error
    _check_devices(cupy)
    return cupy


@cache
def _check_devices(cupy: Any) -> None:
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"CuPy finds no CUDA device ({error}): check the driver with nvidia-smi, or pass NumPy arrays."
        ) from error


def from_device(data: Any) -> Any:
    """A CuPy array that shares the memory of an array on a GPU."""
    cupy = import_cupy()
    if isinstance(data, cupy.ndarray):
        return data
    data = data.detach() if hasattr(data, "detach") else data  # PyTorch exports no tensor with a gradient
    try:
        return cupy.from_dlpack(data)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = f"{type(data).__module__.split('.')[0]} array of dtype {getattr(data, 'dtype', 'unknown')}"
        raise TypeError(f"a {kind} cannot be read in place ({error}): convert it to float32.") from error


def take_columns(X: Any, columns: Indices, *, check_finite: bool) -> Any:
    """Some columns of an array on a GPU, as an array of the same library."""
    cupy = import_cupy()
    kept = X[:, cupy.asarray(columns) if isinstance(X, cupy.ndarray) else columns]
    if check_finite and not bool(cupy.isfinite(from_device(kept)).all()):
        raise ValueError("the selected columns contain NaN or infinite values: drop or replace them.")
    return kept


def place_weights(weights: Weights, n: int, dtype: np.dtype) -> tuple[Any, Any, Any]:
    """The arrays ``linear``, ``v`` and ``presence`` of n rows, which threads compute, on the GPU."""
    linear = np.empty((n, weights.n_linear), dtype)
    v = np.empty(n, dtype) if weights.weighted else None
    presence = np.empty((n, weights.n_presence), dtype) if weights.n_presence else None

    def fill(rows: slice) -> None:
        part = weights.part(rows)
        linear[rows] = part.linear
        if v is not None:
            v[rows] = part.v
        if presence is not None:
            presence[rows] = part.presence

    map_in_threads(fill, chunks(slice(0, n), max(1, WEIGHTS_OF_THREAD // weights.n_linear)))
    placed = [None if array is None else import_cupy().asarray(array) for array in (linear, v, presence)]
    return placed[0], placed[1], placed[2]


def add_to_host(total: Any, out: Floats) -> None:
    """Add sums on the GPU, groups × lines × columns, to those on the host."""
    n_lines = max(1, PINNED_CELLS // total.shape[2])
    for sums, host in zip(total, out, strict=True):
        for lines in chunks(slice(0, len(host)), n_lines):
            host[lines] += to_pinned(sums[lines])


def to_pinned(array: Any) -> Array:
    """Copy an array on the GPU to pinned memory of the host, several times as fast as to ordinary memory.

    CuPy does not return pinned memory to the system, so the copy should be small and used at once.
    """
    import cupyx

    return np.asarray(array.get(out=cupyx.empty_pinned(array.shape, array.dtype)))


@cache
def find_kernel(name: str) -> Any:
    """A kernel of kernels/moments.cu, compiled at its first use; CuPy keeps the machine code on disk."""
    code = resources.files("banditsis.kernels").joinpath("moments.cu").read_text()
    module = import_cupy().RawModule(code=code, options=("-std=c++17",), name_expressions=[name])
    return module.get_function(name)


def launch(kernel: Any, grid: tuple[int, ...], block: tuple[int, ...], *arguments: Any) -> None:
    """Start a kernel; None is a null pointer, and integers have 64 bits."""
    converted = []
    for a in arguments:
        if a is None:
            a = np.uint64(0)
        elif isinstance(a, bool | int):
            a = np.bool_(a) if isinstance(a, bool) else np.int64(a)
        converted.append(a)
    kernel(grid, block, tuple(converted))
