"""The simulations of Table 1 and Figure 2: data sets, the two variants of BanditSIS and their plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from banditsis import datasets
from banditsis.core.arrays import Array, Floats, Indices
from banditsis.plans import Plan
from banditsis.results import ScreeningResult, selection_mask
from banditsis.screening import screen
from paper.published import N_ACTIVE, N_FEATURES, N_ROWS
from paper.replications import Options, Row, run_replications

MAKERS = {"M1": datasets.make_m1, "M2": datasets.make_m2, "M3": datasets.make_m3, "M4": datasets.make_m4}
#: "printed" is Algorithm 1 of the paper. "published" reproduces the published numbers: each round drops a
#: third of the surplus instead of half, and the first round uses α/1.1. Replications run them in this order.
VARIANTS = ("printed", "published")
#: Titles in reports and figures, in the order shown.
VARIANT_TITLES = {"published": "as published", "printed": "as printed"}


def variant_plan(variant: str, alpha: float, d: int) -> Plan:
    """Return the plan of BanditSIS as printed or as published.

    >>> [step.n_keep for step in variant_plan("published", 1.5, 10).steps[:9]]
    [1336, 894, 599, 402, 271, 184, 126, 87, 61]
    """
    if variant == "printed":
        return Plan.paper(N_ROWS, N_FEATURES, d, alpha=alpha, discard=1 / 2)
    return Plan.paper(N_ROWS, N_FEATURES, d, alpha=alpha / 1.1, discard=1 / 3)


def run_simulations(
    name: str, replicate: Callable[..., Row], models: tuple[str, ...], n: int, options: Options
) -> list[Row]:
    """Run ``replicate((model, k), seed)`` for each model and k < n."""
    tasks = [(model, k) for model in models for k in range(n)]
    return run_replications(name, replicate, tasks, seed=options.seed, out=options.out, jobs=options.jobs)


def make_data(model: str, replication: int, seed: int) -> tuple[Array, Floats, Indices, Iterator[int]]:
    """Return the data set of a replication (X, y, active) and an iterator of seeds for the runs on it.

    They depend only on the seed, the model and the replication, not on the process or the order of work.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, int(model[1:]), replication]))
    X, y, active = MAKERS[model](N_ROWS, N_FEATURES, rng, n_active=N_ACTIVE)
    return X, y, active, iter(lambda: int(rng.integers(2**53)), None)


def run_plan(
    X: Any, y: Floats, plan: Plan, seed: int | None, n_jobs: int | None = 1, row_order: str = "auto"
) -> ScreeningResult:
    """Screen for one response, by default in one thread because replications run in parallel."""
    result = screen(X, y, plan, n_jobs=n_jobs, random_state=seed, row_order=row_order, progress=False)
    return cast(ScreeningResult, result)


def selects_all(result: ScreeningResult, active: Indices) -> bool:
    """Whether all active features were selected."""
    return bool(selection_mask(result)[active].all())


def minimum_size(result: ScreeningResult, active: Indices) -> int:
    """Return S: the number of features before the round that dropped the first active feature.

    If no active feature was dropped, S is the number of selected features.
    """
    dropped = active[~selection_mask(result)[active]]
    if dropped.size == 0:
        return len(result.selected)
    return result.rounds[int(result.last_round[dropped].min())].n_features
