"""Loops over cells, compiled by Numba: arrays in, arrays filled. They do not validate, allocate or print.

Sums are computed over *tiles*: strips of contiguous memory inside one flat array, which are pieces of rows
(``row_moments``) or of columns (``column_moments``); other cells are packed first (``cells.gather``). Modules
are imported on first use, because importing Numba takes as long as screening a gigabyte.
"""

from importlib import import_module
from typing import Any

from banditsis.core.progress import compilation


def __getattr__(name: str) -> Any:
    compilation.start()
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    finally:
        compilation.stop()
