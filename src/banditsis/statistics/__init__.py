"""How the association of a feature with the response is measured; one statistic a file."""

from __future__ import annotations

from banditsis._checks import check_choice
from banditsis.statistics.anova import Anova
from banditsis.statistics.base import Statistic, Weights
from banditsis.statistics.pearson import Pearson

STATISTICS: dict[str, type[Statistic]] = {"pearson": Pearson, "anova": Anova}

__all__ = ["STATISTICS", "Anova", "Pearson", "Statistic", "Weights", "find_statistic"]


def find_statistic(statistic: str | type[Statistic]) -> type[Statistic]:
    """The class of that name; a class is passed through."""
    if isinstance(statistic, type) and issubclass(statistic, Statistic):
        return statistic
    return STATISTICS[check_choice("statistic", statistic, tuple(STATISTICS))]
