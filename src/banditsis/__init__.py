"""Feature screening: keep the features most associated with a response, reading few of the cells.

>>> from banditsis import SIS, BanditSIS, screen, Plan
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from banditsis.estimators import SIS, BanditSIS
    from banditsis.interruptions import Interrupted
    from banditsis.iterative import IterativeSIS
    from banditsis.plans import EvidenceStep, Plan, Step
    from banditsis.results import Round, ScreeningResult
    from banditsis.screening import screen
    from banditsis.shuffling import shuffle
    from banditsis.sources import open_source
    from banditsis.sources.interactions import Interactions

__version__ = "0.1.0"

__all__ = [
    "SIS",
    "BanditSIS",
    "EvidenceStep",
    "Interactions",
    "Interrupted",
    "IterativeSIS",
    "Plan",
    "Round",
    "ScreeningResult",
    "Step",
    "open_source",
    "screen",
    "shuffle",
]

# Names load on first use, so that importing the package costs next to nothing.
_HOME = {
    "SIS": "estimators",
    "BanditSIS": "estimators",
    "IterativeSIS": "iterative",
    "Interrupted": "interruptions",
    "Plan": "plans",
    "Step": "plans",
    "EvidenceStep": "plans",
    "Round": "results",
    "ScreeningResult": "results",
    "Interactions": "sources.interactions",
    "open_source": "sources",
    "screen": "screening",
    "shuffle": "shuffling",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'banditsis' has no attribute {name!r}")
    value = getattr(import_module(f"banditsis.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
