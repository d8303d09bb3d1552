"""Feature screening: keep the features most associated with a response, reading few of the cells.

>>> from banditsis import SIS, BanditSIS, screen, Plan
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from banditsis import datasets as datasets
    from banditsis.encoder import TableEncoder as TableEncoder
    from banditsis.estimators import SIS as SIS
    from banditsis.estimators import BanditSIS as BanditSIS
    from banditsis.formats.dataset import open_data as open_data
    from banditsis.formats.opening import open_source as open_source
    from banditsis.index.writer import build_index as build_index
    from banditsis.iterative import IterativeSIS as IterativeSIS
    from banditsis.plans.plan import Plan as Plan
    from banditsis.results.result import ScreeningResult as ScreeningResult
    from banditsis.results.several import ScreeningResults as ScreeningResults
    from banditsis.screening import screen as screen
    from banditsis.show import plots as plots
    from banditsis.sources.interactions import Interactions as Interactions

__version__ = "1.0.0rc1"

#: The module of each public name. It is loaded on first use, so importing the package is cheap.
_HOME = {
    "SIS": "estimators",
    "BanditSIS": "estimators",
    "Interactions": "sources.interactions",
    "IterativeSIS": "iterative",
    "Plan": "plans.plan",
    "ScreeningResult": "results.result",
    "ScreeningResults": "results.several",
    "TableEncoder": "encoder",
    "build_index": "index.writer",
    "open_data": "formats.dataset",
    "open_source": "formats.opening",
    "screen": "screening",
}
#: Modules that are loaded on first use.
_MODULES = {"datasets": "datasets", "plots": "show.plots"}
__all__ = [*_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"banditsis.{_MODULES[name]}")
    if name not in _HOME:
        raise AttributeError(f"module 'banditsis' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"banditsis.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
