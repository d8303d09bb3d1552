"""What ``banditsis plan`` shows: a plan, what it costs and what it will miss, next to others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from banditsis.formatting import format_bytes
from banditsis.plans.plan import Plan


def paper_of_cost(n: int, p: int, d: int, cells: int) -> Plan:
    """The paper's plan of the largest cost within a number of cells.

    Examples
    --------
    >>> paper_of_cost(10**6, 10**4, 50, 36_771_808) == Plan.paper(10**6, 10**4, 50, 0.7)
    True
    """
    low, high = -20.0, 20.0  # logs of alpha; a larger alpha reads less
    for _ in range(60):
        middle = (low + high) / 2
        if Plan.paper(n, p, d, math.exp(middle)).cells <= cells:
            high = middle
        else:
            low = middle
    return Plan.paper(n, p, d, math.exp(high))


def compared(plan: Plan, wide: bool) -> dict[str, Plan]:
    """The plan next to full screening and the paper's plan of the same cost; ``wide`` adds more."""
    n, p, d = plan.n_rows, plan.n_features, plan.n_keep or 1
    plans = {
        "this plan": plan,
        "paper, same cost": paper_of_cost(n, p, d, plan.cells),
    }
    if wide:
        plans |= {f"paper, α = {alpha:g}": Plan.paper(n, p, d, alpha) for alpha in (0.5, 0.8, 1.1)}
        for share in (0.001, 0.01, 0.1):
            if share * n >= 4:
                plans[f"optimal, {share:.1%}"] = Plan.optimal(n, p, d, share)
    return plans | {"full SIS (exact)": Plan.exact(n, p, d)}


def as_record(plan: Plan, dtype: str) -> dict[str, Any]:
    """A plan as plain data, for JSON."""
    return {
        "name": plan.name,
        "n_rows": plan.n_rows,
        "n_features": plan.n_features,
        "n_keep": plan.n_keep or None,
        "steps": [step._asdict() for step in plan.steps],
        "cells": plan.cells,
        "most_cells": plan.max_cells,
        "fraction": plan.fraction,
        "bytes": plan.cells * np.dtype(dtype).itemsize,
        "detection_floor": plan.detection_floor(),
    }


def show_plan(plan: Plan, dtype: str, wide: bool, console: Console) -> None:
    """Print the rounds, a sentence on the cost, and the comparison."""
    console.print(Group(_rounds(plan), _sentence(plan, dtype), Text(), _comparison(plan, dtype, wide)))


def _rounds(plan: Plan) -> RenderableType:
    title = f"{plan.name}: {plan.n_rows:,} rows × {plan.n_features:,} features"
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("round", "rows in all", "features", "kept", "cells"):
        table.add_column(heading, justify="right")
    left = plan.n_features
    for k, (step, after, cells) in enumerate(
        zip(plan.steps, plan.n_left, plan.cells_by_step, strict=True), 1
    ):
        if cells or not plan.by_evidence:
            table.add_row(str(k), f"{step.n_rows:,}", f"{left:,}", f"{after:,}", f"{cells:,}")
        left = after
    return table


def _sentence(plan: Plan, dtype: str) -> RenderableType:
    size = format_bytes(plan.cells * np.dtype(dtype).itemsize)
    text = f"Reads {plan.cells:,} of {plan.n_rows * plan.n_features:,} cells, {size} as {dtype}"
    if plan.by_evidence:
        text += " if there is no signal; more where features lie close to the minimum"
    return Text(
        f"{text}.\nDetection floor {plan.detection_floor():.3g}: a feature with |r| at or above it is kept "
        "with probability 95%, if the data are about normal."
    )


def _comparison(plan: Plan, dtype: str, wide: bool) -> RenderableType:
    table = Table(title="Side by side", title_justify="left", title_style="bold")
    table.add_column("plan", no_wrap=True)
    for heading in ("cells", "of all", dtype, "floor", "all at once"):
        table.add_column(heading, justify="right")
    for name, other in compared(plan, wide).items():
        table.add_row(
            name,
            f"{other.cells:.3g}",
            f"{other.fraction:.2%}" if other.fraction >= 1e-4 else f"{other.fraction:.1e}",
            format_bytes(other.cells * np.dtype(dtype).itemsize),
            f"{other.detection_floor():.3g}",
            f"{other.detection_floor(simultaneous=True):.3g}",
        )
    return table
