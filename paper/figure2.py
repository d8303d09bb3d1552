"""Figure 2: P at d = 144 against the cells read, for BanditSIS and for SIS on a random subsample.

The subsample has round(c / p) rows, where c is the number of cells that BanditSIS reads. The data sets are
those of Table 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from banditsis.plans import Plan
from banditsis.show.plots import BLUE, GREEN, tidy
from paper import output, simulations
from paper.published import ALPHAS, N_FEATURES, N_ROWS, REPLICATIONS, SIZES, TABLE1
from paper.replications import Options, Row, Task
from paper.simulations import VARIANT_TITLES, VARIANTS, variant_plan

MODELS = ("M2", "M3", "M4")
SIZE = SIZES[0]


def reproduce(options: Options) -> output.Reproduction:
    """Run both methods on the same data sets, and draw P of each."""
    n = options.count(REPLICATIONS, quick=100)
    rows = simulations.run_simulations("figure2", replicate, MODELS, n, options)
    summary = {model: summarise([row for row in rows if row["model"] == model]) for model in MODELS}
    return output.write_outputs("figure2", options.out, rows, summary, _report(summary, n), draw(summary, n))


def replicate(task: Task, seed: int) -> Row:
    """Run all methods on one data set. A row says which runs selected all active features."""
    model, replication = task
    X, y, active, seeds = simulations.make_data(model, replication, seed)

    def succeeds(plan: Plan) -> int:
        result = simulations.run_plan(X, y, plan, next(seeds))
        return int(simulations.selects_all(result, active))

    row: Row = {"model": model, "replication": replication}
    row["SIS"] = succeeds(Plan.exact(N_ROWS, N_FEATURES, SIZE))
    for variant in VARIANTS:
        for alpha in ALPHAS:
            plan = variant_plan(variant, alpha, SIZE)
            row[f"{variant}_{alpha}"] = succeeds(plan)
            row[f"{variant}_{alpha}_subsample"] = succeeds(matching_subsample(plan))
    return row


def matching_subsample(plan: Plan) -> Plan:
    """Return a plan for SIS on a subsample that reads as many cells as the given plan.

    >>> matching_subsample(Plan.paper(1000, 2000, 144, 1.5)).steps
    (Step(n_rows=54, n_keep=144),)
    """
    n_rows = round(plan.cells / plan.n_features)
    return Plan.subsample(plan.n_rows, plan.n_features, plan.n_keep, n_rows)


def summarise(rows: list[Row]) -> dict[str, Any]:
    """Return P of SIS and the points of each variant, in percent."""

    def percent(column: str) -> float:
        return 100 * float(np.mean([row[column] for row in rows]))

    points: dict[str, Any] = {"SIS": percent("SIS")}
    for variant in VARIANTS:
        points[variant] = [
            (
                variant_plan(variant, alpha, SIZE).fraction,
                percent(f"{variant}_{alpha}"),
                percent(f"{variant}_{alpha}_subsample"),
            )
            for alpha in ALPHAS
        ]
    return points


def draw(summary: dict[str, Any], n: int) -> Figure:
    """Draw a panel for each model."""
    figure, axes = output.new_figure(10, 3.6, ncols=len(MODELS), sharey=True)
    for axis, model in zip(axes, MODELS, strict=True):
        _draw_model(axis, summary[model], n)
        axis.set_title(model)
        axis.set_xlabel("sampling ratio: cells read of n × p (%)")
        tidy(axis)
    axes[0].set_ylabel(f"P at d = {SIZE} (%)")
    output.add_shared_legend(figure, axes[0])
    return figure


def _draw_model(axis: Any, points: dict[str, Any], n: int) -> None:
    def plot(fractions: Any, percentages: Any, **style: Any) -> None:
        error = np.sqrt(percentages * (100 - percentages) / n)
        axis.errorbar(100 * fractions, percentages, error, capsize=2, linewidth=1.4, **style)

    axis.axhline(points["SIS"], color=BLUE, linewidth=1.5, label="SIS, all rows")
    for variant, style in output.VARIANT_STYLES.items():
        fractions, bandit, _ = np.array(points[variant]).T
        plot(fractions, bandit, **style)
    fractions, _, subsample = np.array(sorted(points["printed"] + points["published"])).T
    style = {"color": GREEN, "marker": "^", "markersize": 5, "linestyle": "--"}
    plot(fractions, subsample, label="SIS, random subsample", **style)


def _report(summary: dict[str, Any], n: int) -> list[str]:
    published = {(line.model, line.alpha): line.percentages[0] for line in TABLE1}
    measures = ["cells read", "P, BanditSIS", "P, subsample", "P, the paper's BanditSIS"]
    body = []
    for model in MODELS:
        body.append([model, "SIS, all rows", "", "100%", f"{summary[model]['SIS']:.1f}", "", ""])
        for variant, title in VARIANT_TITLES.items():
            for alpha, (fraction, *percentages) in zip(ALPHAS, summary[model][variant], strict=True):
                values = [f"{p:.1f}" for p in (*percentages, published[model, alpha])]
                body.append([model, title, f"{alpha}", f"{100 * fraction:.1f}%", *values])
    return [
        "# Figure 2, reproduced",
        f"P at d = {SIZE} in percent, n = {N_ROWS:,}, p = {N_FEATURES:,}, {n} replications. The subsample "
        "has as many cells as BanditSIS reads. The paper's values are from its Table 1.",
        output.markdown_table(["model", "BanditSIS", "α", *measures], body),
    ]
