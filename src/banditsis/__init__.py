"""Feature screening: keep the features most associated with a response, reading few of the cells.

>>> from banditsis import SIS, BanditSIS, screen, Plan
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from banditsis.estimators import SIS, BanditSIS
    from banditsis.formats.opening import open_source
    from banditsis.formats.targets import Dataset, open_data
    from banditsis.index.writer import shuffle
    from banditsis.iterative import IterativeSIS
    from banditsis.plans.design import SamplingDesign
    from banditsis.plans.guaranteed import EvidenceStep
    from banditsis.plans.plan import Plan, Step
    from banditsis.results.result import Interrupted, Round, ScreeningResult
    from banditsis.results.several import ScreeningResults
    from banditsis.screening import screen
    from banditsis.sources.interactions.source import Interactions

__version__ = "1.0.0rc1"

__all__ = [
    "SIS",
    "BanditSIS",
    "Dataset",
    "EvidenceStep",
    "Interactions",
    "Interrupted",
    "IterativeSIS",
    "Plan",
    "Round",
    "SamplingDesign",
    "ScreeningResult",
    "ScreeningResults",
    "Step",
    "open_data",
    "open_source",
    "screen",
    "shuffle",
]

# Names are loaded on first use, so importing the package is cheap.
_HOME = {
    "SIS": "estimators",
    "BanditSIS": "estimators",
    "IterativeSIS": "iterative",
    "Interrupted": "results.result",
    "Plan": "plans.plan",
    "Step": "plans.plan",
    "EvidenceStep": "plans.guaranteed",
    "SamplingDesign": "plans.design",
    "Round": "results.result",
    "ScreeningResult": "results.result",
    "ScreeningResults": "results.several",
    "Interactions": "sources.interactions.source",
    "Dataset": "formats.targets",
    "open_data": "formats.targets",
    "open_source": "formats.opening",
    "screen": "screening",
    "shuffle": "index.writer",
}


#: Modules that are also loaded on first use.
_MODULES = {"datasets": "datasets", "plots": "show.plots"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"banditsis.{_MODULES[name]}")
    if name not in _HOME:
        raise AttributeError(f"module 'banditsis' has no attribute {name!r}")
    value = getattr(import_module(f"banditsis.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
