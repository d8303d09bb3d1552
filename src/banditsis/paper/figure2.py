"""Figure 2: BanditSIS and SIS on a random subsample, for the same number of cells read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis.paper import output, simulations
from banditsis.paper.published import ALPHAS, N_FEATURES, N_ROWS, REPLICATIONS, SIZES, TABLE1
from banditsis.paper.replications import DEFAULT_OUT, Row, Task
from banditsis.paper.simulations import VARIANT_TITLES, VARIANTS, variant_plan
from banditsis.plans.plan import Plan
from banditsis.plotting.style import BLUE, GREEN, tidy
from banditsis.validation import check_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS = ("M2", "M3", "M4")
SIZE = SIZES[0]
QUICK_REPLICATIONS = 100


def reproduce_figure2(
    replications: int | None = None,
    jobs: int | None = None,
    seed: int = 0,
    out: str | Path = DEFAULT_OUT,
    quick: bool = False,
) -> output.Reproduction:
    """Plot P at d = 144 against the fraction of cells read, for BanditSIS and SIS on a random subsample [1]_.

    The subsample has round(c / p) rows, where c is the number of cells that BanditSIS reads.

    Parameters
    ----------
    replications : int, optional
        Data sets per model; 500 by default, as in the paper. They are the data sets of Table 1.
    jobs, seed, out
        As in :func:`reproduce_table1`; the files are named figure2.
    quick : bool
        Run 100 replications by default.

    Returns
    -------
    Reproduction
        For each model, the summary has P of SIS on all rows, and for each variant a list of points
        (fraction of cells read, P of BanditSIS, P of SIS on a subsample).

    References
    ----------
    .. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature
       screening, Figure 2.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = reproduce_figure2(replications=2, jobs=1, out=folder)
    >>> [round(point[0], 3) for point in result.summary["M3"]["printed"]]
    [0.054, 0.071, 0.102, 0.186]
    """
    default = QUICK_REPLICATIONS if quick else REPLICATIONS
    n = check_integer("replications", default if replications is None else replications, 1)
    rows = simulations.run_simulations("figure2", replicate, MODELS, n, seed=seed, out=out, jobs=jobs, d=SIZE)
    summary = {model: summarise([row for row in rows if row["model"] == model]) for model in MODELS}
    return output.write_outputs("figure2", out, rows, summary, _report(summary, n), draw(summary, n))


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

    Examples
    --------
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
