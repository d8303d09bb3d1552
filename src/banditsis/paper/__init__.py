"""Reproduce the tables and figures of the BanditSIS paper: one function, and one command, for each.

>>> from banditsis.paper import reproduce_table1, reproduce_figure1, reproduce_figure2, reproduce_figure3
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from banditsis.paper.figure1 import reproduce_figure1
    from banditsis.paper.figure2 import reproduce_figure2
    from banditsis.paper.figure3 import reproduce_figure3
    from banditsis.paper.table1 import reproduce_table1
    from banditsis.paper.table2 import reproduce_table2

__all__ = [
    "reproduce_figure1",
    "reproduce_figure2",
    "reproduce_figure3",
    "reproduce_table1",
    "reproduce_table2",
]


def __getattr__(name: str) -> Any:
    # Lazy: the command line shows its help without importing NumPy and Matplotlib.
    if name not in __all__:
        raise AttributeError(f"module 'banditsis.paper' has no attribute {name!r}")
    return getattr(import_module(f"banditsis.paper.{name.removeprefix('reproduce_')}"), name)
