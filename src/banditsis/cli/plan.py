"""``banditsis plan``: the cost and the detection floor of a plan, compared with other plans."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from banditsis.cli.terminal import print_output
from banditsis.core.formatting import LINE_WIDTH, format_bytes, format_share, text_table, wrap
from banditsis.plans.plan import Plan


def run_plan(plan: Plan, dtype: str, *, compare: bool, as_json: bool) -> None:
    """Print a plan and a comparison with other plans; ``compare`` adds more of them."""
    itemsize = _item_size(dtype)
    if as_json:
        plans = compared_plans(plan, more=True) if compare else {"plan": plan}
        records = {name: to_record(other, itemsize) for name, other in plans.items()}
        print_output(json.dumps(records if compare else records["plan"], indent=2))
        return
    floor = plan.detection_floor()
    condition = f" if fewer than {plan.n_keep:,} others are about as strong" if plan.n_keep else ""
    explanation = (
        f"\nDetection floor: {floor:.3g}. In approximately normal data, a feature with |r| at or above it is "
        f"kept with probability 95%{condition}.\n\n"
        f"Comparison (sizes as {dtype}; the last column is the detection floor for all features "
        "simultaneously):\n"
    )
    print_output(f"{plan}\n{wrap(explanation, LINE_WIDTH, 0)}")
    print_output(_comparison_table(compared_plans(plan, more=compare), itemsize))


def _item_size(dtype: str) -> int:
    try:
        parsed = np.dtype(dtype)
    except TypeError:
        parsed = np.dtype(object)
    if parsed.kind not in "fiub":
        raise ValueError(f"--dtype must be a type of numbers such as float32 or int8, got {dtype!r}.")
    return parsed.itemsize


def to_record(plan: Plan, itemsize: int) -> dict[str, Any]:
    """Return a plan as plain data, for JSON."""
    return {
        "name": plan.name,
        "n_rows": plan.n_rows,
        "n_features": plan.n_features,
        "n_keep": plan.n_keep or None,
        "steps": [step._asdict() for step in plan.steps],
        "cells": plan.cells,
        "most_cells": plan.max_cells,
        "fraction": plan.fraction,
        "bytes": plan.cells * itemsize,
        "detection_floor": plan.detection_floor(),
    }


def compared_plans(plan: Plan, *, more: bool) -> dict[str, Plan]:
    """Return the plan, the paper's plan of the same cost and the exact plan, and more on request.

    A guaranteed plan reads until its promise is kept, so a plan of the same cost promises something else.
    """
    n, p, d = plan.n_rows, plan.n_features, plan.n_keep or 1
    plans = {"this plan": plan}
    if not plan.by_evidence:
        plans["paper, same cost"] = paper_plan_within(n, p, d, plan.cells)
    if more:
        plans |= {f"paper, α = {alpha:g}": Plan.paper(n, p, d, alpha) for alpha in (0.5, 0.8, 1.1)}
        for fraction in (0.001, 0.01, 0.1):
            if fraction * n >= 4:
                plans[f"optimal, {fraction:.1%}"] = Plan.optimal(n, p, d, fraction)
    return plans | {"full SIS (exact)": Plan.exact(n, p, d)}


def paper_plan_within(n: int, p: int, d: int, cells: int) -> Plan:
    """Return the most expensive plan of the paper that reads at most this many cells.

    Examples
    --------
    >>> paper_plan_within(10**6, 10**4, 50, 36_771_808) == Plan.paper(10**6, 10**4, 50, 0.7)
    True
    """
    low, high = -20.0, 20.0  # log α; a larger α reads less
    for _ in range(60):
        middle = (low + high) / 2
        if Plan.paper(n, p, d, math.exp(middle)).cells <= cells:
            high = middle
        else:
            low = middle
    return Plan.paper(n, p, d, math.exp(high))


def _comparison_table(plans: dict[str, Plan], itemsize: int) -> str:
    headings = ["plan", "cells", "fraction", "size", "floor", "simultaneous"]
    rows = [
        [
            name,
            f"{plan.cells:.3g}",
            format_share(plan.fraction),
            format_bytes(plan.cells * itemsize),
            f"{plan.detection_floor():.3g}",
            f"{plan.detection_floor(simultaneous=True):.3g}",
        ]
        for name, plan in plans.items()
    ]
    return text_table(headings, rows, align="<")
