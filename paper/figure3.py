"""Figure 3: CPU time and cells read against n (p = 2000) and p (n = 2000), d = 30.

There is one row-major float32 data set of M1 for each size; replications differ in the seed of the run. Runs
are measured one at a time, in one thread, by the CPU time of the process. The full version takes 8 GB.
"""

from __future__ import annotations

import math
import time
from typing import Any, TypeAlias

import numpy as np
from matplotlib.figure import Figure

from banditsis.core.arrays import Array, Floats
from banditsis.datasets import make_m1
from banditsis.plans import Plan
from banditsis.show.plots import BLUE, GREEN, ORANGE, PURPLE, RED, tidy
from paper import output
from paper.published import ALPHAS, method_name
from paper.replications import Options, Row, Task, run_replications
from paper.simulations import run_plan

Sizes: TypeAlias = list[tuple[int, int]]
#: For each method, arrays over the sizes: size, mean seconds, their standard error, cells.
Points: TypeAlias = dict[str, dict[str, Floats]]

N_KEEP = 30
FIXED_ROWS = FIXED_FEATURES = 2000
ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FEATURES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
QUICK_ROWS, QUICK_FEATURES = ROWS[:5], FEATURES[:4]
#: Slopes are fitted to times above this; shorter ones are mostly fixed costs.
MIN_SECONDS = 1e-3
#: Slopes of cells in n are fitted from here on, where √n is much smaller than n.
MIN_ROWS = 10_000
METHODS = ("SIS", *(f"{alpha}" for alpha in ALPHAS))
TITLES = dict(zip(METHODS, map(method_name, (None, *ALPHAS)), strict=True))
COLOURS = (BLUE, ORANGE, RED, PURPLE, GREEN)


def reproduce(options: Options) -> output.Reproduction:
    """Time all methods for each size, and fit slopes."""
    n = options.count(100, quick=20)
    by_rows = [(m, FIXED_FEATURES) for m in (QUICK_ROWS if options.quick else ROWS)]
    by_features = [(FIXED_ROWS, p) for p in (QUICK_FEATURES if options.quick else FEATURES)]
    return measure(by_rows, by_features, n, options)


def measure(by_rows: Sizes, by_features: Sizes, n: int, options: Options) -> output.Reproduction:
    """Time all methods n times for each size, and report."""
    tasks = [(*size, k) for size in by_rows + by_features for k in range(n)]
    try:
        rows = run_replications("figure3", replicate, tasks, seed=options.seed, out=options.out, jobs=1)
    finally:
        _data.clear()
    summary = {"n": summarise(rows, by_rows), "p": summarise(rows, by_features)}
    return output.write_outputs("figure3", options.out, rows, summary, _report(summary, n), draw(summary))


def replicate(task: Task, seed: int) -> Row:
    """Measure CPU seconds and cells of every method on one data set."""
    n, p, replication = task
    X, y = _load_data(n, p, seed)
    rng = np.random.default_rng(np.random.SeedSequence([seed, n, p, replication]))
    row: Row = {"n": n, "p": p, "replication": replication}
    for method in METHODS:
        row[f"{method}_seconds"], row[f"{method}_cells"] = _time(X, y, method, int(rng.integers(2**53)))
    return row


def _time(X: Array, y: Floats, method: str, seed: int) -> tuple[float, int]:
    plan = make_plan(method, *X.shape)
    started = time.process_time()
    result = run_plan(X, y, plan, seed)
    return time.process_time() - started, result.cells_read


def make_plan(method: str, n: int, p: int) -> Plan:
    """Return the plan of SIS, or of BanditSIS as printed with the given α."""
    return Plan.exact(n, p, N_KEEP) if method == "SIS" else Plan.paper(n, p, N_KEEP, alpha=float(method))


#: The current data set only: the largest takes 8 GB.
_data: dict[tuple[int, int, int], tuple[Array, Floats]] = {}


def _load_data(n: int, p: int, seed: int) -> tuple[Array, Floats]:
    if (n, p, seed) not in _data:
        _data.clear()
        X, y, _ = make_m1(n, p, np.random.SeedSequence([seed, n, p]), dtype=np.float32)
        for method in METHODS:  # warm up: compile kernels and touch memory
            _time(X, y, method, seed)
        _data[n, p, seed] = X, y
    return _data[n, p, seed]


def summarise(rows: list[Row], sizes: Sizes) -> Points:
    """Return mean CPU seconds, their standard errors, and cells, for each method and size."""
    groups = [[row for row in rows if (row["n"], row["p"]) == size] for size in sizes]
    varying = 0 if sizes[0][0] != sizes[1][0] else 1
    points: Points = {}
    for method in METHODS:
        seconds = np.array([[row[f"{method}_seconds"] for row in group] for group in groups])
        spread = seconds.std(axis=1, ddof=1) if seconds.shape[1] > 1 else np.zeros(len(seconds))
        points[method] = {
            "size": np.array([size[varying] for size in sizes], dtype=np.float64),
            "seconds": seconds.mean(axis=1),
            "error": spread / np.sqrt(seconds.shape[1]),
            "cells": np.array([group[0][f"{method}_cells"] for group in groups], dtype=np.float64),
        }
    return points


def fit_slope(x: Floats, y: Floats, use: Any) -> float:
    """The slope of log y against log x by least squares, where ``use`` is true; NaN for under two points."""
    if np.count_nonzero(use) < 2:
        return math.nan
    return float(np.polyfit(np.log(x[use]), np.log(y[use]), 1)[0])


def fit_slopes(points: dict[str, Floats], axis: str) -> tuple[float, float]:
    """Fit the slopes of a method's time and cells against n or p."""
    size, seconds = points["size"], points["seconds"]
    return (
        fit_slope(size, seconds, seconds > MIN_SECONDS),
        fit_slope(size, points["cells"], size >= (MIN_ROWS if axis == "n" else 0)),
    )


def _format_slopes(points: dict[str, Floats], axis: str) -> list[str]:
    return ["not fitted" if math.isnan(slope) else f"{slope:.2f}" for slope in fit_slopes(points, axis)]


def draw(summary: dict[str, Points]) -> Figure:
    """Plot time (top) and cells (bottom), against n (left) and p (right)."""
    figure, axes = output.new_figure(10, 7, nrows=2, ncols=2, sharex="col")
    panels = [("n", "(a) ", "sample size n", "p = 2000"), ("p", "(b) ", "number of features p", "n = 2000")]
    for column, (axis, letter, name, fixed) in zip(axes.T, panels, strict=True):
        for (method, points), colour, marker in zip(summary[axis].items(), COLOURS, "Dos^v", strict=True):
            style = {"color": colour, "marker": marker, "markersize": 5, "linewidth": 1.3}
            time_slope, cells_slope = _format_slopes(points, axis)
            label = f"{TITLES[method]}: slope {time_slope}"
            column[0].errorbar(
                points["size"], points["seconds"], points["error"], capsize=2, label=label, **style
            )
            label = f"{TITLES[method]}: slope {cells_slope}"
            column[1].plot(points["size"], points["cells"], label=label, **style)
        column[0].set_title(f"{letter}{name}, {fixed}, d = {N_KEEP}", fontsize=11)
        column[1].set_xlabel(name)
    for panel in axes.flat:
        panel.set(xscale="log", yscale="log")
        low, high = panel.get_ylim()
        panel.set_ylim(low, high * (high / low) ** 0.4)  # room for the legend
        panel.legend(frameon=False, fontsize=8, loc="upper left")
        tidy(panel)
    axes[0, 0].set_ylabel("CPU time (seconds)")
    axes[1, 0].set_ylabel("cells read")
    return figure


def _report(summary: dict[str, Points], n: int) -> list[str]:
    head = ["method", "time in n", "cells in n", "the paper, n", "time in p", "cells in p", "the paper, p"]
    body = []
    for method in METHODS:
        in_n, in_p = (_format_slopes(summary[axis][method], axis) for axis in ("n", "p"))
        body.append([TITLES[method], *in_n, "1" if method == "SIS" else "1/2", *in_p, "1"])
    return [
        "# Figure 3, reproduced",
        f"CPU time of one process and cells read, d = {N_KEEP}, row-major float32, {n} replications. Slopes "
        "are fitted on log-log scales: for time where it exceeds 1 ms, and for cells in n from n = 10,000.",
        output.markdown_table(head, body),
        *_size_tables(summary["n"], "n, p = 2,000"),
        *_size_tables(summary["p"], "p, n = 2,000"),
    ]


def _size_tables(points: Points, title: str) -> list[str]:
    """Return tables of mean milliseconds ± standard error, and of cells, at each size."""
    head = [title[0], *TITLES.values()]
    times, cells = [], []
    for k, size in enumerate(points["SIS"]["size"]):
        at_size = [{key: values[k] for key, values in method.items()} for method in points.values()]
        row = [f"{1e3 * point['seconds']:.2f} ± {1e3 * point['error']:.2f}" for point in at_size]
        times.append([f"{size:,.0f}", *row])
        cells.append([f"{size:,.0f}", *(f"{point['cells'] / 1e6:,.2f}" for point in at_size)])
    return [
        f"## CPU time in milliseconds against {title}",
        output.markdown_table(head, times),
        f"## Millions of cells read against {title}",
        output.markdown_table(head, cells),
    ]
