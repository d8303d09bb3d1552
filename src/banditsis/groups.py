"""Which responses share a pass over the data."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from banditsis._typing import Rows
from banditsis.rereading import SampleGroup
from banditsis.sources.base import Source
from banditsis.statistics.base import MomentStatistic, Statistic
from banditsis.statistics.sample import SampleStatistic
from banditsis.tracking import Group

#: Both have the same methods.
AnyGroup: TypeAlias = "Group | SampleGroup"


def start_groups(source: Source, statistic: Statistic, rows: Rows) -> list[AnyGroup]:
    """All features for all responses: together if the statistic allows it; ``rows`` are those read first."""
    everyone = list(range(statistic.n_responses))
    n_features = source.shape[1]
    if isinstance(statistic, SampleStatistic):
        return [
            SampleGroup(
                [k],
                statistic.subset([k]),
                source,
                None,
                np.zeros((2 if statistic.tells_stretch else 1, n_features)),
                np.zeros(n_features) if statistic.pairwise else None,
            )
            for k in everyone
        ]
    assert isinstance(statistic, MomentStatistic)
    calibration = source.calibrate(rows)
    shares = [everyone] if statistic.shares_pass else [[k] for k in everyone]
    groups: list[AnyGroup] = []
    for members in shares:
        bound = statistic if len(members) == len(everyone) else statistic.subset(members)
        sums = np.zeros((bound.n_sums, n_features))
        left: list[Any] = [slice(None)] * len(members)
        groups.append(Group(members, bound, source, calibration, None, sums, left, np.zeros(())))
    return groups
