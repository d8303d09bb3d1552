"""``banditsis plan``: the cost and the detection floor of a plan, compared with other plans."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from banditsis.cli.terminal import print_output, table_of_columns, usage_errors
from banditsis.core.formatting import LINE_WIDTH, format_bytes, format_share, wrap
from banditsis.plans import Plan, make_plan

#: Limits of α when a plan of the paper is compared, and steps of the search between them.
ALPHAS, BISECTIONS = (0.01, 10.0), 30


def _format_floor(floor: float | None) -> str:
    return "unknown" if floor is None else f"{floor:.3g}"


#: Headings and formats of what is known about the cost of a plan.
COSTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "row_order": ("row order", str),
    "cells": ("cells", lambda cells: f"{cells:,}" if cells < 1e9 else f"{cells:.3g}"),
    "fraction": ("fraction", format_share),
    "bytes": ("bytes", format_bytes),
    "detection_floor": ("floor", _format_floor),
    "simultaneous_floor": ("simultaneous", _format_floor),
}


def run(
    rows: int, features: int, keep: int, dtype: str, compare: bool, as_json: bool, **options: Any
) -> None:
    """Print a plan, and with ``compare`` others of the same cost, or their records as JSON."""
    itemsize = np.dtype(dtype).itemsize
    with usage_errors():
        plan = make_plan(rows, features, keep, **options)
        plans = compared_plans(plan) if compare else {"this plan": plan}
    records = {name: to_record(other, itemsize) for name, other in plans.items()}
    if as_json:
        print_output(json.dumps(records if compare else records["this plan"], indent=2))
        return
    condition = f" if fewer than {plan.n_keep:,} others are about as strong" if plan.n_keep else ""
    explanation = (
        f"\nDetection floor: {plan.detection_floor():.3g}. In approximately normal data, a feature with |r| "
        f"at or above it is kept with probability 95%{condition}.\n\n"
        f"The last column is the detection floor for all features simultaneously; sizes as {dtype}.\n"
    )
    print_output(f"{plan}\n{wrap(explanation, LINE_WIDTH, 0)}\n{costs_table(records)}")


def to_record(plan: Plan, itemsize: int) -> dict[str, Any]:
    return {
        "name": plan.name,
        "n_rows": plan.n_rows,
        "n_features": plan.n_features,
        "n_keep": plan.n_keep or None,
        "steps": [step._asdict() for step in plan.steps],
        "cells": plan.cells,
        "most_cells": plan.n_rows * plan.n_features if plan.by_evidence else plan.cells,
        "fraction": plan.fraction,
        "bytes": plan.cells * itemsize,
        "detection_floor": plan.detection_floor(),
        "simultaneous_floor": plan.detection_floor(simultaneous=True),
    }


def costs_table(records: Mapping[str, Mapping[str, Any]]) -> str:
    """A table with a row for each plan and the columns of :data:`COSTS` that are known."""
    columns = {"plan": list(records)}
    for key, (heading, show) in COSTS.items():
        if all(key in record for record in records.values()):
            columns[heading] = [show(record[key]) for record in records.values()]
    return table_of_columns(columns, left=("plan", "row order"))


def compared_plans(plan: Plan) -> dict[str, Plan]:
    """The plan, others that read at most as many cells, and the exact one."""
    n, p, d, cells = plan.n_rows, plan.n_features, plan.n_keep or 1, plan.cells
    plans = {"this plan": plan}
    if not plan.by_evidence:  # else it reads until its promise is kept, and others promise something else
        plans["optimal"] = Plan.optimal(n, p, d, cells)
        if (paper := _paper_plan(n, p, d, cells)) is not None:
            plans[f"paper (α = {dict(paper.parameters)['alpha']:.2g})"] = paper
        plans["subsample"] = Plan.subsample(n, p, d, cells // p)
    return plans | {"all rows (SIS)": Plan.exact(n, p, d)}


def _paper_plan(n: int, p: int, d: int, cells: int) -> Plan | None:
    """The paper's plan that reads the most cells within a limit; None if even a large α reads more."""
    low, high = ALPHAS
    if Plan.paper(n, p, d, high).cells > cells:
        return None
    for _ in range(BISECTIONS):  # a larger α reads fewer cells
        middle = math.sqrt(low * high)
        low, high = (low, middle) if Plan.paper(n, p, d, middle).cells <= cells else (middle, high)
    return Plan.paper(n, p, d, high)
