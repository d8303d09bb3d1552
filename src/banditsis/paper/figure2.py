"""Figure 2: the same number of cells, read adaptively or not."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis import plotting
from banditsis.formatting import write_text
from banditsis.paper import drawing
from banditsis.paper.comparison import TITLES, markdown_table
from banditsis.paper.published import ALPHAS, N_ACTIVE, N_FEATURES, N_ROWS, REPLICATIONS, SIZES, TABLE1
from banditsis.paper.replications import DEFAULT_OUT, Reproduction, Row, Task, run_replications
from banditsis.paper.trials import VARIANTS, found_all, make_data, run_plan, variant_plan
from banditsis.plans.plan import Plan
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
) -> Reproduction:
    """P at d = 144 against the fraction of cells read: BanditSIS beside SIS on a random subsample [1]_.

    The subsample has round(cells / p) rows, where cells are what BanditSIS reads.

    Parameters
    ----------
    replications : int, optional
        Data sets of each model; 500 by default, as in the paper. They are those of Table 1.
    jobs : int, optional
        Number of processes, all cores by default. The numbers do not depend on it. In a script, several
        need the call to stand under ``if __name__ == "__main__":``.
    seed : int
        Replication k of a model depends on this, the model and k alone.
    out : path
        Folder for figure2.csv (every replication), figure2.md, figure2.png and figure2.svg. If it holds
        replications with the same settings, they are kept and only the others are run.
    quick : bool
        Run 100 replications unless told otherwise: the same experiment, less precise.

    Returns
    -------
    Reproduction
        Its summary has a list of points (fraction, P of BanditSIS, P of SIS on a subsample) for each model
        and variant, and P of SIS on all rows for each model.

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
    n = QUICK_REPLICATIONS if quick and replications is None else replications or REPLICATIONS
    check_integer("replications", n, 1)
    check_integer("seed", seed, 0)
    rows = run_replications(
        "figure2",
        partial(replicate, seed=seed),
        [(model, k) for model in MODELS for k in range(n)],
        keys=("model", "replication"),
        settings={
            "seed": seed,
            "n": N_ROWS,
            "p": N_FEATURES,
            "active": N_ACTIVE,
            "alphas": ALPHAS,
            "d": SIZE,
        },
        out=out,
        jobs=jobs,
    )
    summary = {model: summarise([row for row in rows if row["model"] == model]) for model in MODELS}
    text = _report(summary, n)
    folder = Path(out)
    files = drawing.save(draw(summary, n), folder, "figure2")
    return Reproduction(
        rows, summary, text, (folder / "figure2.csv", write_text(folder / "figure2.md", text), *files)
    )


def replicate(task: Task, seed: int) -> Row:
    """Whether each run on one data set found all active features."""
    model, replication = task
    X, y, active, seeds = make_data(model, replication, seed)

    def found(plan: Plan) -> int:
        return int(found_all(run_plan(X, y, plan, next(seeds)), active))

    row: Row = {"model": model, "replication": replication}
    row["SIS"] = found(Plan.exact(N_ROWS, N_FEATURES, SIZE))
    for variant in VARIANTS:
        for alpha in ALPHAS:
            plan = variant_plan(variant, alpha, SIZE)
            row[f"{variant}_{alpha}"] = found(plan)
            row[f"{variant}_{alpha}_subsample"] = found(matching_subsample(plan))
    return row


def matching_subsample(plan: Plan) -> Plan:
    """SIS on as many rows as hold the cells that the plan reads.

    Examples
    --------
    >>> matching_subsample(Plan.paper(1000, 2000, 144, 1.5)).steps
    (Step(n_rows=54, n_keep=144),)
    """
    m = round(plan.cells / plan.n_features)
    return Plan.subsample(plan.n_rows, plan.n_features, plan.n_keep, m)


def summarise(rows: list[Row]) -> dict[str, Any]:
    """Points (fraction, P of BanditSIS, P of SIS on a subsample) of each variant, in percent."""

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
    """A panel for each model."""
    figure, axes = drawing.new_figure(10, 3.6, ncols=len(MODELS), sharey=True)
    for axis, model in zip(axes, MODELS, strict=True):
        _panel(axis, summary[model], n)
        axis.set_title(model)
        axis.set_xlabel("sampling ratio: cells read of n × p (%)")
        plotting.tidy(axis)
    axes[0].set_ylabel(f"P at d = {SIZE} (%)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _panel(axis: Any, points: dict[str, Any], n: int) -> None:
    axis.axhline(points["SIS"], color=plotting.BLUE, linewidth=1.5, label="SIS, all rows")
    for variant, style in drawing.VARIANT_STYLES.items():
        x, bandit, _ = np.array(points[variant]).T
        axis.errorbar(100 * x, bandit, _error(bandit, n), capsize=2, linewidth=1.4, markersize=5, **style)
    x, _, subsample = np.array(sorted(points["printed"] + points["published"])).T
    axis.errorbar(
        100 * x,
        subsample,
        _error(subsample, n),
        color=plotting.GREEN,
        marker="^",
        linestyle="--",
        linewidth=1.4,
        markersize=5,
        capsize=2,
        label="SIS, random subsample",
    )


def _error(percent: Any, n: int) -> Any:
    """Standard error of a percentage of n."""
    return np.sqrt(percent * (100 - percent) / n)


def _report(summary: dict[str, Any], n: int) -> str:
    published = {(line.model, line.alpha): line.percentages[0] for line in TABLE1}
    head = [
        "model",
        "BanditSIS",
        "α",
        "cells read",
        "P, BanditSIS",
        "P, subsample",
        "P, the paper's BanditSIS",
    ]
    body = []
    for model in MODELS:
        body.append([model, "SIS, all rows", "", "100%", f"{summary[model]['SIS']:.1f}", "", ""])
        for variant, title in TITLES.items():
            for alpha, (x, bandit, subsample) in zip(ALPHAS, summary[model][variant], strict=True):
                paper = f"{published[model, alpha]:.1f}"
                numbers = [f"{100 * x:.1f}%", f"{bandit:.1f}", f"{subsample:.1f}", paper]
                body.append([model, title, f"{alpha}", *numbers])
    return "\n".join(
        [
            "# Figure 2, reproduced",
            "",
            f"P at d = {SIZE} in percent, n = {N_ROWS:,}, p = {N_FEATURES:,}, {n} replications. The "
            "subsample has as many cells as BanditSIS reads. The paper's values are those of its Table 1.",
            "",
            markdown_table(head, body),
            "",
        ]
    )
