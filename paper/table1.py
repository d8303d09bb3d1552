"""Table 1: how often SIS and BanditSIS select all active features.

"As printed" is Algorithm 1. "As published" drops a third of the surplus in each round and starts at α/1.1,
which reproduces the published numbers. S is computed from runs with d = 10, and P from runs with d = 144, 288
and 432. All runs of a replication use one data set, which depends only on the seed, the model and its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from banditsis.core.arrays import Floats, Indices
from banditsis.plans import Plan
from banditsis.results import rank_features
from banditsis.show.plots import BLACK, tidy
from paper import output, simulations
from paper.published import (
    ALPHAS,
    MODELS,
    N_ACTIVE,
    N_FEATURES,
    N_ROWS,
    QUANTILES,
    REPLICATIONS,
    SIZES,
    TABLE1,
    Table1Line,
    median_agrees,
    method_name,
    percentage_agrees,
)
from paper.replications import Options, Row, Task
from paper.simulations import VARIANT_TITLES, VARIANTS, run_plan, variant_plan


def reproduce(options: Options) -> output.Reproduction:
    """Reproduce Table 1 in both variants, next to the published values."""
    n = options.count(REPLICATIONS, quick=50)
    rows = simulations.run_simulations("table1", replicate, MODELS, n, options)
    lines = {variant: summarise(rows, variant) for variant in VARIANTS}
    summary = {
        "lines": lines,
        "cells": {variant: check_percentages(lines[variant], n) for variant in VARIANTS},
        "medians": {variant: check_medians(rows, variant) for variant in VARIANTS},
    }
    return output.write_outputs("table1", options.out, rows, summary, _report(summary, n), draw(lines, n))


def replicate(task: Task, seed: int) -> Row:
    """Run all methods on one data set. A row holds S and, for each d, whether all active were kept."""
    model, replication = task
    X, y, active, seeds = simulations.make_data(model, replication, seed)
    sis = run_plan(X, y, Plan.exact(N_ROWS, N_FEATURES, N_ACTIVE), next(seeds))
    size = int(rank_features(sis)[active].max())
    row: Row = {"model": model, "replication": replication, "SIS_S": size}
    row |= {f"SIS_P{d}": int(size <= d) for d in SIZES}
    for variant in VARIANTS:
        for alpha in ALPHAS:
            row |= _run_bandit(X, y, active, variant, alpha, seeds)
    return row


def _run_bandit(
    X: Floats, y: Floats, active: Indices, variant: str, alpha: float, seeds: Iterator[int]
) -> Row:
    key = f"{variant}_{alpha}"
    result = run_plan(X, y, variant_plan(variant, alpha, N_ACTIVE), next(seeds))
    row: Row = {f"{key}_S": simulations.minimum_size(result, active)}
    for d in SIZES:
        result = run_plan(X, y, variant_plan(variant, alpha, d), next(seeds))
        row[f"{key}_P{d}"] = int(simulations.selects_all(result, active))
    return row


def _column(rows: Sequence[Row], line: Table1Line, variant: str, measure: str) -> list[int]:
    method = "SIS" if line.alpha is None else f"{variant}_{line.alpha}"
    return [row[f"{method}_{measure}"] for row in rows if row["model"] == line.model]


def summarise(rows: Sequence[Row], variant: str) -> list[Table1Line]:
    """Return the lines of Table 1, in the order of the paper."""
    lines = []
    for line in TABLE1:
        quantiles = np.quantile(_column(rows, line, variant, "S"), QUANTILES)
        percentages = [100 * float(np.mean(_column(rows, line, variant, f"P{d}"))) for d in SIZES]
        rounded = tuple(round(float(q), 1) for q in quantiles)
        lines.append(Table1Line(line.model, line.alpha, rounded, tuple(percentages)))
    return lines


def check_percentages(lines: Sequence[Table1Line], n: int) -> list[bool]:
    """For each cell of P, whether it agrees with the published one."""
    return [
        percentage_agrees(p, n, published_p)
        for line, published in zip(lines, TABLE1, strict=True)
        for p, published_p in zip(line.percentages, published.percentages, strict=True)
    ]


def check_medians(rows: Sequence[Row], variant: str) -> list[bool]:
    """For each line, whether the median of S agrees with the published one."""
    return [median_agrees(_column(rows, line, variant, "S"), line.quantiles[2]) for line in TABLE1]


def _report(summary: dict[str, Any], n: int) -> list[str]:
    counts = [
        f"- {title}: {sum(summary['cells'][variant])} of 60 cells of P within the 99% interval; "
        f"{sum(summary['medians'][variant])} of 20 medians of S agree."
        for variant, title in VARIANT_TITLES.items()
    ]
    return [
        "# Table 1, reproduced",
        f"n = {N_ROWS:,}, p = {N_FEATURES:,}, {N_ACTIVE} active features; {n} replications here and "
        f"{REPLICATIONS} in the paper. ✓: the 99% confidence interval (Agresti and Caffo) of the difference "
        "from the paper contains 0, ✗: it does not.",
        *compare(summary["lines"], n),
        "### Summary",
        "\n".join(counts),
    ]


def compare(lines: dict[str, list[Table1Line]], n: int) -> list[str]:
    """Return a heading and a Markdown table for each model, with the published values above ours."""
    head = ["method", "", "S 5%", "25%", "50%", "75%", "95%", *(f"P at {d}" for d in SIZES)]
    parts = []

    def sizes(line: Table1Line) -> list[str]:
        return [f"{q:g}" for q in line.quantiles]

    for model in MODELS:
        body = []
        for k, published in enumerate(TABLE1):
            if published.model != model:
                continue
            percentages = [f"{p:.1f}" for p in published.percentages]
            body.append([method_name(published.alpha), "**the paper**", *sizes(published), *percentages])
            # SIS has no rounds, so it is the same in both variants.
            titles = {"published": "here"} if published.alpha is None else VARIANT_TITLES
            for variant, title in titles.items():
                line = lines[variant][k]
                body.append(["", title, *sizes(line), *_marked_percentages(line, published, n)])
        parts += [f"### {model}", output.markdown_table(head, body)]
    return parts


def _marked_percentages(line: Table1Line, published: Table1Line, n: int) -> list[str]:
    pairs = zip(line.percentages, published.percentages, strict=True)
    return [f"{p:.1f} {'✓' if percentage_agrees(p, n, other) else '✗'}" for p, other in pairs]


def draw(lines: dict[str, list[Table1Line]], n: int) -> Figure:
    """Plot P at d = 144 against α for each model: both variants and the published values."""
    figure, axes = output.new_figure(10, 3.6, ncols=4, sharey=True)
    x = range(len(ALPHAS) + 1)
    for axis, model in zip(axes, MODELS, strict=True):
        for variant, style in output.VARIANT_STYLES.items():
            axis.plot(x, _first_percentages(lines[variant], model), linewidth=1.2, **style)
        published = _first_percentages(TABLE1, model)
        axis.plot(
            x, published, "o", color=BLACK, markersize=10, markerfacecolor="none", label="the paper's Table 1"
        )
        axis.set_xticks(x, [*(f"{alpha:g}" for alpha in ALPHAS), "SIS"])
        axis.set_title(model)
        axis.set_xlabel("α of BanditSIS")
        tidy(axis)
    axes[0].set_ylabel("P at d = 144 (%)")
    output.add_shared_legend(figure, axes[0])
    figure.suptitle(f"Data sets in which all active features are selected ({n} replications)", fontsize=11)
    return figure


def _first_percentages(lines: Sequence[Table1Line], model: str) -> list[float]:
    """P at d = 144 for each α, then for SIS, which is the limit as α decreases."""
    sis, *bandit = (line.percentages[0] for line in lines if line.model == model)
    return [*bandit, sis]
