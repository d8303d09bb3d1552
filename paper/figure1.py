"""Figure 1: the algorithm, drawn from a real run: cells read and features dropped in each round.

The simulated rows are exchangeable, so the run reads them in stored order, which is easier to show.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from banditsis.core.arrays import Floats, Indices
from banditsis.datasets import make_m1
from banditsis.plans import Plan
from banditsis.results import ScreeningResult, selection_mask
from banditsis.show.plots import BLUE
from paper import output
from paper.replications import Options, Row, write_rows
from paper.simulations import run_plan

N_ROWS, N_FEATURES, N_ACTIVE, ALPHA = 50, 20, 3, 0.5
READ_BEFORE, READ_NOW, UNREAD = "#dbe4ea", "#a6d3ef", "#f4f4f4"
DROPPED: dict[str, Any] = {"facecolor": "#b5b5b5e0"}
DROPPED_NOW: dict[str, Any] = {"facecolor": "#b5b5b599", "edgecolor": "#6f6f6f", "hatch": "////"}


def reproduce(options: Options) -> output.Reproduction:
    """Draw the rounds of one run; figure1.csv has all correlations that were computed."""
    options.count(1, quick=1)
    options.out.mkdir(parents=True, exist_ok=True)
    plan = Plan.paper(N_ROWS, N_FEATURES, N_ACTIVE, alpha=ALPHA)
    X, y, active = make_m1(N_ROWS, N_FEATURES, options.seed, n_active=N_ACTIVE)
    results = run_prefixes(X, y, plan)
    rows = tabulate(results, active)
    write_rows(options.out / "figure1.csv", rows)
    summary = {"plan": plan, "result": results[-1]}
    report = _report(results[-1], active)
    return output.write_outputs("figure1", options.out, rows, summary, report, draw(results))


def run_prefixes(X: Floats, y: Floats, plan: Plan) -> list[ScreeningResult]:
    """Return the result after each round, from plans that end there and read the same rows."""
    n, p = X.shape
    prefixes = [Plan(n, p, plan.steps[:k]) for k in range(1, len(plan.steps) + 1)]
    return [run_plan(X, y, prefix, None, row_order="stored") for prefix in prefixes]


def tabulate(results: list[ScreeningResult], active: Indices) -> list[Row]:
    """Return a row for each round and each feature read in it."""
    return [
        {
            "round": k + 1,
            "rows": result.rounds[-1].n_rows,
            "feature": int(j) + 1,
            "active": int(j in active),
            "correlation": round(float(result.scores[j]), 6),
            "kept": int(selection_mask(result)[j]),
        }
        for k, result in enumerate(results)
        for j in np.flatnonzero(result.last_round == k)
    ]


def draw(results: list[ScreeningResult]) -> Figure:
    """Draw a panel of rows × features for each round."""
    figure, axes = output.new_figure(2.25 * len(results) + 0.9, 4.7, ncols=len(results), sharey=True)
    largest = max(np.abs(result.scores).max() for result in results)
    for k, (axis, result) in enumerate(zip(axes, results, strict=True)):
        _draw_round(axis, result, k, largest)
    axes[0].set_ylabel("rows, in random order")
    bar = figure.colorbar(axes[0].collections[0], ax=list(axes), shrink=0.6, aspect=25, pad=0.01)
    bar.set_label("|correlation| of entries read so far")
    bar.outline.set_visible(False)
    _add_legend(figure)
    return figure


def _draw_round(axis: Any, result: ScreeningResult, k: int, largest: float) -> None:
    """Draw the response on the left, the entries read on the right, and dropped features on top of them."""
    n, p = result.n_rows, result.n_features
    now = result.rounds[k]
    start = result.rounds[k - 1].n_rows if k else 0
    rows_read = np.array([done.n_rows for done in result.rounds])[result.last_round]
    entries = np.where(np.arange(n)[:, None] < rows_read, np.abs(result.scores), np.nan)
    # The scale begins below 0 to skip the palest reds, which look like entries that were not read.
    axis.pcolormesh(entries, cmap="Reds", vmin=-0.14 * largest, vmax=largest, rasterized=True)
    axis.vlines(range(p + 1), 0, n, color="white", linewidth=0.4)
    axis.hlines(range(n + 1), -2, p, color="white", linewidth=0.4)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    response = [(0, start, READ_BEFORE), (start, now.n_rows, READ_NOW), (now.n_rows, n, UNREAD)]
    for top, bottom, colour in response:
        axis.fill_between([-2, -1], top, bottom, linewidth=0, facecolor=colour)
    read_now = result.last_round == k
    for dropped, style in ((~read_now, DROPPED), (read_now & ~selection_mask(result), DROPPED_NOW)):
        for j in np.flatnonzero(dropped):
            axis.fill_between([j, j + 1], 0, n, linewidth=0, **style)
    for left, right in ((-2, -1), (0, p)):
        box = [left, right, right, left, left], [start, start, now.n_rows, now.n_rows, start]
        axis.plot(*box, color=BLUE, lw=1.6)
    axis.set_title(
        f"round {k + 1}\n$n_{k + 1}$ = {now.n_rows} rows\n{now.n_features} → {now.n_kept} features",
        fontsize=10,
    )
    axis.set(xlim=(-2, p), ylim=(n, 0), facecolor="none")
    axis.fill_between([0, p], now.n_rows, n, linewidth=0, facecolor=UNREAD, zorder=0)
    axis.set_xticks([-1.5, 0.5, p - 0.5], ["y", "$X_1$", f"$X_{{{p}}}$"])
    axis.set_yticks([1, n // 2, n])


def _add_legend(figure: Figure) -> None:
    patches = [
        Patch(facecolor=READ_NOW, edgecolor=BLUE, label="rows selected in this round"),
        Patch(color=READ_BEFORE, label="rows selected before"),
        Patch(color=UNREAD, label="not read"),
        Patch(**DROPPED_NOW, linewidth=0, label="features dropped in this round"),
        Patch(**DROPPED, linewidth=0, label="features dropped before"),
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=5, frameon=False, fontsize=9)


def _report(result: ScreeningResult, active: Indices) -> list[str]:
    head = ["round", "total rows", "features before", "features kept", "cutoff", "cells read"]
    body = [
        [f"{k}", f"{r.n_rows}", f"{r.n_features}", f"{r.n_kept}", f"{r.cutoff:.3f}", f"{r.cells}"]
        for k, r in enumerate(result.rounds, 1)
    ]
    selected = ", ".join(f"X{j + 1}" for j in sorted(result.selected))
    return [
        "# Figure 1, from a real run",
        f"M1 with n = {N_ROWS}, p = {N_FEATURES}, d = {N_ACTIVE}, α = {ALPHA}, discard = 1/2. Selected: "
        f"{selected}; active: {', '.join(f'X{j + 1}' for j in active)}. Read {result.cells_read} of "
        f"{N_ROWS * N_FEATURES} cells.",
        output.markdown_table(head, body),
    ]
