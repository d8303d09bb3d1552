"""Statistics: measures of the association between a feature and the response."""

from __future__ import annotations

from typing import TypeAlias, cast

from banditsis.core.validation import check_choice
from banditsis.statistics.base import SampleStatistic, Statistic
from banditsis.statistics.binned import BinnedStatistic, Chi2, InformationValue, MutualInformation
from banditsis.statistics.cox import Cox
from banditsis.statistics.dependence import Chatterjee, Distance, Kendall, Spearman
from banditsis.statistics.families import Anova, Logistic, Pearson, Poisson
from banditsis.statistics.linear import LinearStatistic
from banditsis.statistics.wilcoxon import Wilcoxon

Kind: TypeAlias = "type[LinearStatistic] | type[SampleStatistic] | type[BinnedStatistic]"
LINEAR: tuple[Kind, ...] = (Pearson, Anova, Logistic, Poisson)
SAMPLE: tuple[Kind, ...] = (Cox, Spearman, Kendall, Chatterjee, Distance, Wilcoxon)
BINNED: tuple[Kind, ...] = (Chi2, InformationValue, MutualInformation)
STATISTICS: dict[str, Kind] = {kind.name: kind for kind in (*LINEAR, *SAMPLE, *BINNED)}

#: A statistic that was created with settings.
WithSettings: TypeAlias = "SampleStatistic | BinnedStatistic"
#: A name, a class, or a statistic that was created with settings.
StatisticLike: TypeAlias = "str | type[Statistic] | WithSettings"

__all__ = [
    "STATISTICS",
    "Anova",
    "BinnedStatistic",
    "Chatterjee",
    "Chi2",
    "Cox",
    "Distance",
    "InformationValue",
    "Kendall",
    "LinearStatistic",
    "Logistic",
    "MutualInformation",
    "Pearson",
    "Poisson",
    "SampleStatistic",
    "Spearman",
    "Statistic",
    "StatisticLike",
    "Wilcoxon",
    "find_statistic",
]


def find_statistic(statistic: StatisticLike, n_classes: int = 0) -> type[LinearStatistic] | WithSettings:
    """Look up a statistic: the class of a linear statistic, or another statistic with its settings.

    "auto" depends on the number of classes of the response, 0 for numbers; it never rereads rows. Two classes
    have a signed score, the correlation with the indicator of one of them.
    """
    if isinstance(statistic, (SampleStatistic, BinnedStatistic)):
        return statistic
    if not (isinstance(statistic, type) and issubclass(statistic, Statistic)):
        name = check_choice("statistic", statistic, ("auto", *STATISTICS))
        statistic = STATISTICS[name if name != "auto" else "pearson" if n_classes in (0, 2) else "anova"]
    if issubclass(statistic, LinearStatistic):
        return statistic
    return cast(WithSettings, statistic())
