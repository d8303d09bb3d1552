"""One data set and the runs on it: what Table 1 and Figure 2 have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from banditsis import datasets
from banditsis.arrays import Array, Floats, Indices
from banditsis.paper.published import N_ACTIVE, N_FEATURES, N_ROWS
from banditsis.plans.plan import Plan
from banditsis.results import ScreeningResult
from banditsis.screening import screen

MAKERS = {
    "M1": datasets.make_m1,
    "M2": datasets.make_m2,
    "M3": datasets.make_m3,
    "M4": datasets.make_m4,
}
#: "printed" is Algorithm 1; "published" is what gives the published numbers: a third of the surplus is
#: dropped in each round, and the first round already uses α/1.1.
VARIANTS = ("printed", "published")


def variant_plan(variant: str, alpha: float, d: int, n: int = N_ROWS, p: int = N_FEATURES) -> Plan:
    """The plan of BanditSIS as printed or as published.

    Examples
    --------
    >>> [step.n_keep for step in variant_plan("published", 1.5, 10).steps[:9]]
    [1336, 894, 599, 402, 271, 184, 126, 87, 61]
    """
    if variant == "printed":
        return Plan.paper(n, p, d, alpha=alpha, discard=1 / 2)
    return Plan.paper(n, p, d, alpha=alpha / 1.1, discard=1 / 3)


def make_data(model: str, replication: int, seed: int) -> tuple[Array, Floats, Indices, Iterator[int]]:
    """The data set of a replication, and seeds for the runs on it.

    They depend on nothing but the seed, the model and the replication, so a replication gives the same
    numbers in any process.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, int(model[1:]), replication]))
    X, y, active = MAKERS[model](N_ROWS, N_FEATURES, rng, n_active=N_ACTIVE)
    return X, y, active, iter(lambda: int(rng.integers(2**53)), None)


def run_plan(X: Array, y: Floats, plan: Plan, seed: int) -> ScreeningResult:
    """Screen with one thread: processes are the parallelism here."""
    result = screen(X, y, plan, n_jobs=1, random_state=seed, progress=False)
    return cast(ScreeningResult, result)


def found_all(result: ScreeningResult, active: Indices) -> bool:
    """Whether all active features were selected."""
    return bool(result.support[active].all())


def minimum_size(result: ScreeningResult, active: Indices) -> int:
    """S of a run: the model size before the round that lost the first active feature.

    If all were kept, it is the number of features selected.
    """
    lost = active[~result.support[active]]
    if lost.size == 0:
        return len(result.selected)
    return result.rounds[int(result.last_round[lost].min())].n_features
