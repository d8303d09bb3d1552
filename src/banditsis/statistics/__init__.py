"""Statistics: measures of the association between a feature and the response."""

from __future__ import annotations

from typing import TypeAlias, cast

from banditsis.core.validation import check_choice
from banditsis.statistics.base import (
    MIN_PRESENT,
    Effects,
    SampleStatistic,
    Statistic,
    find_effects,
    is_mostly_missing,
    show,
    unsupported,
)
from banditsis.statistics.binned import (
    BinnedStatistic,
    Chi2,
    InformationValue,
    MutualInformation,
    weights_of_evidence,
)
from banditsis.statistics.covariates import encode_covariates, find_basis
from banditsis.statistics.cox import Cox
from banditsis.statistics.dependence import Chatterjee, Distance, Kendall, Spearman
from banditsis.statistics.families import Anova, Logistic, Pearson, Poisson
from banditsis.statistics.linear import LinearStatistic, normal_responses, rescale
from banditsis.statistics.moments import Gram
from banditsis.statistics.null_distributions import (
    CorrectedNull,
    KnownPvalues,
    NormalNull,
    NullDistribution,
    reject_nulls,
)
from banditsis.statistics.saddlepoint import TailTest
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
# What the engine and results need besides.
__all__ += [
    "MIN_PRESENT",
    "CorrectedNull",
    "Effects",
    "Gram",
    "KnownPvalues",
    "NormalNull",
    "NullDistribution",
]
__all__ += ["TailTest", "encode_covariates", "find_basis", "find_effects", "is_mostly_missing"]
__all__ += ["normal_responses", "reject_nulls", "rescale", "show", "unsupported", "weights_of_evidence"]


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
