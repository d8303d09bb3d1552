"""CuPy, its kernels, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import resources
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices
from banditsis.core.formatting import format_bytes
from banditsis.core.parallel import map_in_threads

#: Rows and cells of a matrix product, whose sums are in the dtype of the data.
PRODUCT_ROWS, PRODUCT_CELLS = 1 << 13, 1 << 27
#: Cells that are copied to the host at once, and added to others there.
PINNED_CELLS, ADDED_CELLS = 1 << 22, 1 << 17


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
        n_devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"CuPy finds no CUDA device ({error}): check the driver with nvidia-smi, or pass NumPy arrays."
        ) from error
    if n_devices == 0:
        raise RuntimeError("CuPy finds no CUDA device: pass NumPy arrays.")


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


def add_sums(total: Any, out: Any) -> None:
    """Add sums on the GPU to others, there or on the host."""
    if not isinstance(out, np.ndarray):
        out += total
        return
    if total.size <= ADDED_CELLS:
        out += total.get()
        return
    p = total.shape[-1]
    total, host = total.reshape(-1, p), out.reshape(-1, p)
    assert np.may_share_memory(host, out)
    n_lines, height = max(1, PINNED_CELLS // p), max(1, ADDED_CELLS // p)
    for i in range(0, len(host), n_lines):
        part, below = to_pinned(total[i : i + n_lines]), host[i : i + n_lines]
        pieces = [
            (slice(k, k + height), slice(j, j + ADDED_CELLS))
            for k in range(0, len(part), height)
            for j in range(0, p, ADDED_CELLS)
        ]
        map_in_threads(partial(_add_piece, below, part), pieces, 4)


def to_pinned(array: Any) -> Array:
    """Copy an array on the GPU to pinned memory of the host, several times as fast as to ordinary memory.

    CuPy does not return pinned memory to the system, so the copy should be small and used at once.
    """
    import cupyx

    return np.asarray(array.get(out=cupyx.empty_pinned(array.shape, array.dtype)))


def _add_piece(sums: Floats, part: Floats, piece: tuple[slice, slice]) -> None:
    np.add(sums[piece], part[piece], out=sums[piece])


@contextmanager
def explain_lack_of_memory(cupy: Any, needed: int) -> Iterator[None]:
    """Say how much memory the sums need if an allocation fails."""
    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        free, total = cupy.cuda.runtime.memGetInfo()
        raise MemoryError(
            f"screening needs about {format_bytes(3 * needed + 4 * PRODUCT_CELLS)} of GPU memory besides X, "
            f"but {format_bytes(free)} of {format_bytes(total)} are free: delete other arrays, screen fewer "
            "responses at once, or pass NumPy arrays."
        ) from error


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
