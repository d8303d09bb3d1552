"""NumPy's files: ``.npy`` as a memory map, ``.npz`` with one dense or one sparse matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from banditsis._typing import Array
from banditsis.sources.array import ArraySource
from banditsis.sources.columns import take_out
from banditsis.sources.files import Opened


def open_npy(path: Path, target: str | None = None, **options: Any) -> Opened:
    """Map a ``.npy`` file into memory."""
    try:
        array = np.load(path, mmap_mode="r")
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} cannot be read as a NumPy array: {error}.") from error
    return _opened(array, target)


def _opened(array: Array, target: str | None) -> Opened:
    source = ArraySource(array)
    if target is None:
        return Opened(source)
    return take_out(source, target, "the array")
