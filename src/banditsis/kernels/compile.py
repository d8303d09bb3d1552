"""Numba decorators of the kernels: cached on disk if possible, without the GIL, NaN-safe."""

from __future__ import annotations

import logging
import math
import pickle
import warnings
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils, event
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.runtime import rtsys
from numba.extending import intrinsic

from banditsis.core.arrays import SMALLEST, Array
from banditsis.core.progress import compilation

NO_FOLDER = (
    "banditsis cannot store its compiled kernels, so every process compiles them again, which takes a few "
    "seconds: set NUMBA_CACHE_DIR to a folder that is writable."
)
#: Arrays that belong together.
Arrays: TypeAlias = tuple[Array, ...]

# Numba logs every step of its compiler; with debug logging those are thousands of lines.
if logging.getLogger("numba").level == logging.NOTSET:
    logging.getLogger("numba").setLevel(logging.WARNING)


def _kernel(*fastmath: str, inline: str = "never") -> Any:
    """A decorator that compiles a loop."""
    others = {"inline": inline, "no_cfunc_wrapper": True}  # the wrapper is for C
    compiled = njit(nogil=True, fastmath=set(fastmath), error_model="numpy", **others)

    def compile_later(function: Any) -> Any:
        kernel = compiled(function)
        if config.DISABLE_JIT:
            return kernel
        try:
            kernel._cache = _Cache(function)
        except RuntimeError as error:
            if "cannot cache function" not in str(error):
                raise
            _warn_once(NO_FOLDER)
        return kernel

    return compile_later


class _Cache(FunctionCache):
    """Machine code on disk, loaded without what only the compiler needs.

    Numba imports its implementations of Python and NumPy functions before it loads machine code, which takes
    longer than all that ``banditsis screen`` does with a small file. The compiler imports them itself.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file.__class__ = _CheckedFiles
        self._cache_file._version += " with checksums"  # files of other versions are written again

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        compilation.start()
        try:
            rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        finally:
            compilation.stop()

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:  # a full disk, for example
            _warn_once()


class _CheckedFiles(IndexDataCacheFile):
    """The files of the machine code of a kernel. They end with a checksum; a damaged one is not loaded."""

    def _dump(self, obj: Any) -> bytes:
        data: bytes = super()._dump(obj)
        return data + crc32(data).to_bytes(4, "little")  # pickle reads up to the end of the object

    def _load_index(self) -> Any:
        return self._load(super()._load_index, self._index_path, len(pickle.dumps(self._version, -1)), {})

    def _load_data(self, name: str) -> Any:
        return self._load(lambda: super(_CheckedFiles, self)._load_data(name), self._data_path(name), 0, None)

    def _load(self, load: Any, path: str, start: int, otherwise: Any) -> Any:
        """What a file has; if it is damaged, a value that makes Numba compile the kernel again."""
        try:
            if not (loaded := load()):  # there is no file, or it was written for other code
                return loaded
            data = Path(path).read_bytes()[start:]
            if crc32(data[:-4]) == int.from_bytes(data[-4:], "little"):
                return loaded
        except OSError:
            raise
        except Exception:  # unpickling other bytes may raise anything
            pass
        _warn_once(f"compiled kernels in {Path(path).parent} were damaged: they are compiled again.")
        return otherwise


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=2)


#: Smaller sums of fourth powers in float32 and float64 lost digits by underflow, unless all values are 0.
#: Kernels compare with constants, because compiling ``np.finfo`` takes a quarter of a second.
LEAST_FOURTH = tuple(float(np.finfo(dtype).tiny / np.finfo(dtype).eps) for dtype in (np.float32, np.float64))

# "contract" lets x*y + z become one instruction. Neither flag assumes that values are finite.
elementwise = _kernel("contract")
# Reductions along a strip also need "reassoc", or they stay scalar.
reduction = _kernel("contract", "reassoc")
# Parts of other kernels that cost no call.
inlined_elementwise = _kernel("contract", inline="always")
inlined_reduction = _kernel("contract", "reassoc", inline="always")


@elementwise
def range_scale(low: float, high: float) -> float:
    """Power of two that scales a range of values to about 1, so their squares stay in range."""
    if low == high:
        return 1.0
    half = max(0.5 * high - 0.5 * low, SMALLEST)  # the whole range could overflow
    return math.ldexp(1.0, -min(max(math.frexp(half)[1] + 1, -1000), 1000))


def prefetch_address(builder: Any, pointer: Any) -> None:
    """Generate the instruction that loads a cache line before it is used."""
    byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32]),
        "llvm.prefetch.p0",
    )
    read, into_second_level_cache, data = (ir.Constant(int32, k) for k in (0, 2, 1))
    builder.call(function, [builder.bitcast(pointer, byte_pointer), read, into_second_level_cache, data])


@intrinsic
def _prefetch(typing_context: Any, flat: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        prefetch_address(builder, builder.gep(array.data, [args[1]]))
        return context.get_dummy_value()

    return types.void(flat, index), generate


#: Load the cache line of ``flat[index]`` before it is used. Scattered reads are 1.7 times faster with it.
prefetch = (lambda flat, index: None) if config.DISABLE_JIT else _prefetch


class _Listener(event.Listener):
    """Tells when a kernel is compiled."""

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"].py_func.__module__.startswith("banditsis."):
            compilation.start()
            compilation.announce()

    def on_end(self, event: Any) -> None:
        if event.data["dispatcher"].py_func.__module__.startswith("banditsis."):
            compilation.stop()


event.register("numba:compile", _Listener())
