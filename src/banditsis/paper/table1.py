"""Table 1: how often SIS and BanditSIS find all active features."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.arrays import Floats, Indices
from banditsis.formatting import write_text
from banditsis.paper import comparison, drawing
from banditsis.paper.published import (
    ALPHAS,
    MODELS,
    N_ACTIVE,
    N_FEATURES,
    N_ROWS,
    QUANTILES,
    REPLICATIONS,
    SIZES,
    TABLE1,
    Line,
)
from banditsis.paper.replications import DEFAULT_OUT, Reproduction, Row, Task, run_replications
from banditsis.paper.trials import VARIANTS, found_all, make_data, minimum_size, run_plan, variant_plan
from banditsis.plans.plan import Plan
from banditsis.validation import check_integer

QUICK_REPLICATIONS = 50


def reproduce_table1(
    replications: int | None = None,
    jobs: int | None = None,
    seed: int = 0,
    out: str | Path = DEFAULT_OUT,
    quick: bool = False,
) -> Reproduction:
    """Make Table 1 of the paper again, as printed and as published, beside the published values [1]_.

    "As printed" is Algorithm 1. "As published" drops a third of the surplus in each round and starts at
    α/1.1, which is what gives the published numbers. S comes from runs with d = 10, P from runs with d = 144,
    288 and 432; all runs of a replication share its data set.

    Parameters
    ----------
    replications : int, optional
        Data sets of each model; 500 by default, as in the paper.
    jobs : int, optional
        Number of processes, all cores by default. The numbers do not depend on it. In a script, several
        need the call to stand under ``if __name__ == "__main__":``.
    seed : int
        Replication k of a model depends on this, the model and k alone.
    out : path
        Folder for table1.csv (every replication), table1.md, table1.png and table1.svg. If it holds
        replications with the same settings, they are kept and only the others are run.
    quick : bool
        Run 50 replications unless told otherwise: the same experiment, less precise.

    Returns
    -------
    Reproduction
        Its summary has the lines of both variants and how many cells agree with the paper.

    References
    ----------
    .. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature
       screening, Table 1.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = reproduce_table1(replications=1, jobs=1, out=folder)
    >>> len(result.rows), result.rows[0]["SIS_S"]
    (4, 10)
    """
    n = QUICK_REPLICATIONS if quick and replications is None else replications or REPLICATIONS
    check_integer("replications", n, 1)
    check_integer("seed", seed, 0)
    rows = run_replications(
        "table1",
        partial(replicate, seed=seed),
        [(model, k) for model in MODELS for k in range(n)],
        keys=("model", "replication"),
        settings={"seed": seed, "n": N_ROWS, "p": N_FEATURES, "active": N_ACTIVE, "alphas": ALPHAS},
        out=out,
        jobs=jobs,
    )
    return report(rows, n, Path(out))


def replicate(task: Task, seed: int) -> Row:
    """All runs on one data set: S and whether all active features were found."""
    model, replication = task
    X, y, active, seeds = make_data(model, replication, seed)
    size = int(run_plan(X, y, Plan.exact(N_ROWS, N_FEATURES, N_ACTIVE), next(seeds)).ranking[active].max())
    row: Row = {"model": model, "replication": replication, "SIS_S": size}
    row |= {f"SIS_P{d}": int(size <= d) for d in SIZES}
    for variant in VARIANTS:
        for alpha in ALPHAS:
            row |= _bandit(X, y, active, variant, alpha, seeds)
    return row


def _bandit(X: Floats, y: Floats, active: Indices, variant: str, alpha: float, seeds: Any) -> Row:
    """S from a run that keeps 10, and P from a run for each model size."""
    name = _name(variant, alpha)
    result = run_plan(X, y, variant_plan(variant, alpha, N_ACTIVE), next(seeds))
    row: Row = {f"{name}_S": minimum_size(result, active)}
    for d in SIZES:
        result = run_plan(X, y, variant_plan(variant, alpha, d), next(seeds))
        row[f"{name}_P{d}"] = int(found_all(result, active))
    return row


def summarise(rows: list[Row], variant: str) -> list[Line]:
    """The lines of Table 1, in the order of the paper's."""
    lines = []
    for published in TABLE1:
        mine = [row for row in rows if row["model"] == published.model]
        name = _name(variant, published.alpha)
        quantiles = np.quantile([row[f"{name}_S"] for row in mine], QUANTILES)
        found = [100 * float(np.mean([row[f"{name}_P{d}"] for row in mine])) for d in SIZES]
        rounded = tuple(round(float(q), 1) for q in quantiles)
        lines.append(Line(published.model, published.alpha, rounded, tuple(found)))
    return lines


def report(rows: list[Row], n: int, out: Path) -> Reproduction:
    """Compare with the published table, and write the report and the figure."""
    tables = {variant: summarise(rows, variant) for variant in VARIANTS}
    cells = {v: comparison.check_percentages(tables[v], n) for v in VARIANTS}
    medians = {v: comparison.check_medians(_sizes(rows, v)) for v in VARIANTS}
    text = "\n".join(
        [
            "# Table 1, reproduced",
            "",
            f"n = {N_ROWS:,}, p = {N_FEATURES:,}, {N_ACTIVE} active features; {n} replications here and "
            f"{REPLICATIONS} in the paper. ✓: the difference to the paper lies within a 99% interval "
            "(Agresti and Caffo), ✗: it does not.",
            "",
            comparison.compare(tables, n),
            "### Summary",
            "",
            *(
                f"- {comparison.TITLES[v]}: {cells[v]} cells of P within the 99% interval; {medians[v]} "
                "medians of S agree."
                for v in comparison.TITLES
            ),
            "",
        ]
    )
    figure = drawing.draw_table1(tables, n)
    files = (out / "table1.csv", write_text(out / "table1.md", text), *drawing.save(figure, out, "table1"))
    summary = {"lines": tables, "cells": cells, "medians": medians}
    return Reproduction(rows, summary, text, files)


def _sizes(rows: list[Row], variant: str) -> list[list[int]]:
    return [
        [row[f"{_name(variant, line.alpha)}_S"] for row in rows if row["model"] == line.model]
        for line in TABLE1
    ]


def _name(variant: str, alpha: float | None) -> str:
    return "SIS" if alpha is None else f"{variant}_{alpha}"
