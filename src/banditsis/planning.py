"""What ``banditsis plan`` shows: a plan, what it costs and what it will miss, next to others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from banditsis.plans import Plan


def make_plan(
    n: int,
    p: int,
    d: int,
    *,
    alpha: float | None = None,
    budget: float | None = None,
    min_correlation: float | None = None,
    confidence: float = 0.95,
    pvalues: bool = False,
) -> Plan:
    """The plan that was asked for; the paper's, α = 0.5, if nothing was.

    Examples
    --------
    >>> make_plan(10**6, 10**4, 50, budget=0.01).name
    'optimal'
    """
    given = {"--alpha": alpha, "--budget": budget, "--min-correlation": min_correlation}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"at most one of {', '.join(given)} says what to read, got {' and '.join(named)}.")
    if min_correlation is not None:
        return Plan.guaranteed(n, p, d, min_correlation, confidence)
    if budget is not None:
        whole = budget > 1 and float(budget).is_integer()
        return Plan.optimal(n, p, d, int(budget) if whole else budget, pvalues=pvalues)
    return Plan.paper(n, p, d, alpha=0.5 if alpha is None else alpha)


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
        "most_cells": plan.most_cells,
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


def format_bytes(count: float) -> str:
    """A number of bytes in words.

    Examples
    --------
    >>> format_bytes(1.5e9), format_bytes(800)
    ('1.5 GB', '800 B')
    """
    units = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
    power = min(int(math.log10(max(count, 1)) // 3), len(units) - 1)
    return f"{count / 1000**power:.3g} {units[power]}"
