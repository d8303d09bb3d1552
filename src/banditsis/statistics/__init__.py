"""How the association of a feature with the response is measured; one statistic a file."""

from __future__ import annotations

from typing import TypeAlias

from banditsis._checks import check_choice
from banditsis.statistics.anova import Anova
from banditsis.statistics.base import MomentStatistic, Statistic, Weights
from banditsis.statistics.pearson import Pearson
from banditsis.statistics.sample import SampleStatistic

STATISTICS: dict[str, type[MomentStatistic] | type[SampleStatistic]] = {
    "pearson": Pearson,
    "anova": Anova,
}

#: A name, a class, or an object of a class whose constructor takes settings.
StatisticLike: TypeAlias = "str | type[MomentStatistic] | type[SampleStatistic] | SampleStatistic"

__all__ = [
    "STATISTICS",
    "Anova",
    "MomentStatistic",
    "Pearson",
    "SampleStatistic",
    "Statistic",
    "StatisticLike",
    "Weights",
    "find_statistic",
]


def find_statistic(statistic: StatisticLike) -> type[MomentStatistic] | SampleStatistic:
    """What can be bound to responses: a moment statistic's class, or a sample statistic with its settings."""
    if isinstance(statistic, SampleStatistic):
        return statistic
    if not (isinstance(statistic, type) and issubclass(statistic, Statistic)):
        statistic = STATISTICS[check_choice("statistic", statistic, tuple(STATISTICS))]
    return statistic() if issubclass(statistic, SampleStatistic) else statistic
