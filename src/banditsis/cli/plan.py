"""``banditsis plan`` and ``banditsis demo``, which need no data: what plans cost, and what they find."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from banditsis.cli.terminal import UsageError, print_output, table_of_columns, usage_errors
from banditsis.core.formatting import (
    LINE_WIDTH,
    format_bytes,
    format_duration,
    format_share,
    text_table,
    wrap,
)
from banditsis.core.progress import ProgressBar
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


def run_plan(
    rows: int, features: int, keep: int | None, dtype: str, compare: bool, as_json: bool, **options: Any
) -> None:
    """Print a plan, and with ``compare`` others of the same cost, or their records as JSON."""
    with usage_errors():
        plan = make_plan(rows, features, keep, **options)
        plans = compared_plans(plan) if compare else {"this plan": plan}
    records = {name: _to_record(other, np.dtype(dtype).itemsize) for name, other in plans.items()}
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


def _to_record(plan: Plan, itemsize: int) -> dict[str, Any]:
    return {
        **{name: getattr(plan, name) for name in ("name", "n_rows", "n_features", "cells", "fraction")},
        "n_keep": plan.n_keep or None,
        "steps": [step._asdict() for step in plan.steps],
        "most_cells": plan.n_rows * plan.n_features if plan.by_evidence else plan.cells,
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
        low, high = ALPHAS
        if Plan.paper(n, p, d, high).cells <= cells:
            for _ in range(BISECTIONS):  # the smallest α, because a larger one reads fewer cells
                middle = math.sqrt(low * high)
                low, high = (low, middle) if Plan.paper(n, p, d, middle).cells <= cells else (middle, high)
            plans[f"paper (α = {high:.2g})"] = Plan.paper(n, p, d, high)
        plans["subsample"] = Plan.subsample(n, p, d, cells // p)
    return plans | {"all rows (SIS)": Plan.exact(n, p, d)}


#: Features of the model of the demonstration, and those that distance correlation is measured on.
N_LINEAR, N_SQUARED, N_TIMED = 10, 5, 4


def run_demo(rows: int, features: int, keep: int, seed: int) -> None:
    """Simulate data, screen them by two statistics and print a comparison."""
    from banditsis.screening import screen  # needs the compiler, which plans do not

    if rows < 1000 or features < 20:
        raise UsageError("the demonstration needs at least 1,000 --rows and 20 --features.")
    size = format_bytes(4 * rows * features)
    print_output(
        f"Simulating {rows:,} rows × {features:,} features, {size} as float32. The response\n"
        f"depends on {N_LINEAR} features linearly, on the squares of {N_SQUARED} others, and on noise.\n"
        f"Each method keeps {keep} features. How many of these {N_LINEAR + N_SQUARED} are among them?\n"
    )
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features), dtype=np.float32)
    squares = X[:, N_LINEAR : N_LINEAR + N_SQUARED] ** 2
    y = X[:, :N_LINEAR].sum(axis=1) + squares.sum(axis=1) + rng.standard_normal(rows, dtype=np.float32)

    def timed(run: Callable[[], Any]) -> tuple[Any, float]:
        run()  # compiles kernels
        started = time.perf_counter()
        return run(), time.perf_counter() - started

    def measure(plan: Plan, statistic: str) -> tuple[Any, float]:
        part = X[:, : plan.n_features]
        with ProgressBar(statistic) as bar:
            return timed(lambda: screen(part, y, plan, statistic=statistic, random_state=seed, progress=bar))

    def describe(method: str, plan: Plan, statistic: str = "pearson") -> tuple[str, ...]:
        result, seconds = measure(plan, statistic)
        n_linear = np.count_nonzero(result.selected < N_LINEAR)
        n_squared = np.count_nonzero(result.selected < N_LINEAR + N_SQUARED) - n_linear
        found = f"{n_linear} of {N_LINEAR}", f"{n_squared} of {N_SQUARED}"
        return method, format_share(result.fraction_read), format_duration(seconds), *found

    seconds = measure(Plan.exact(rows, N_TIMED, 1), "distance")[1] * features / N_TIMED
    lines = [
        ("method", "cells read", "time", "linear", "squared"),
        ("matrix product y @ X", "100%", format_duration(timed(lambda: y @ X)[1]), "", ""),
        describe("SIS", Plan.exact(rows, features, keep)),
        describe("BanditSIS", Plan.paper(rows, features, keep)),
        ("SIS, distance", "100%", f"{format_duration(seconds)}*", "", ""),
        describe("BanditSIS, distance", make_plan(rows, features, keep, rereads=True), "distance"),
    ]
    print_output(
        f"{text_table(lines[0], lines[1:], '<')}\n* estimated from {N_TIMED} features\n\n"
        "Distance correlation detects any dependence, Pearson's correlation a linear one.\n\n"
        "The same in Python:\n"
        "  from banditsis import BanditSIS\n"
        f'  print(BanditSIS({keep}, statistic="distance").fit(X, y).result_)\n\n'
        "Next, with a file of yours:\n"
        "  banditsis screen data.csv --target price --keep 20 --report report.html"
    )
