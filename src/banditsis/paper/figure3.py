"""Figure 3: CPU time and cells read against the number of rows and of features."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.arrays import Array, Floats
from banditsis.datasets import make_m1
from banditsis.formatting import write_text
from banditsis.paper import drawing
from banditsis.paper.figure3_report import draw, write_report
from banditsis.paper.published import ALPHAS
from banditsis.paper.replications import DEFAULT_OUT, Reproduction, Row, Task, run_replications
from banditsis.paper.trials import run_plan
from banditsis.plans.plan import Plan
from banditsis.validation import check_integer

SIZE = 30
FIXED_ROWS = FIXED_FEATURES = 2000
ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FEATURES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
QUICK_ROWS, QUICK_FEATURES = ROWS[:5], FEATURES[:4]
REPLICATIONS, QUICK_REPLICATIONS = 100, 20
METHODS = ("SIS", *(f"{alpha}" for alpha in ALPHAS))


def reproduce_figure3(
    replications: int | None = None,
    seed: int = 0,
    out: str | Path = DEFAULT_OUT,
    quick: bool = False,
) -> Reproduction:
    """CPU time and cells of SIS and BanditSIS against n (p = 2000) and p (n = 2000), with d = 30 [1]_.

    One row-major float32 data set of M1 for each size; replications differ by the seed of the run. Runs are
    measured one at a time, in one thread, by the CPU time of the process.

    Parameters
    ----------
    replications : int, optional
        Runs of each method for each size; 100 by default, as in the paper.
    seed : int
        Of data and runs.
    out : path
        Folder for figure3.csv (every replication), figure3.md, figure3.png and figure3.svg. If it holds
        replications with the same settings, they are kept and only the others are run.
    quick : bool
        Stop at n = 100,000 and p = 10,000, with 20 replications unless told otherwise. The whole takes 8 GB
        of memory.

    Returns
    -------
    Reproduction
        Its summary has mean times, standard errors and cells for each size, and the fitted slopes.

    References
    ----------
    .. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature
       screening, Figure 3.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     print(reproduce_figure3(quick=True, out=folder))
    """
    n = QUICK_REPLICATIONS if quick and replications is None else replications or REPLICATIONS
    check_integer("replications", n, 1)
    check_integer("seed", seed, 0)
    by_rows = [(m, FIXED_FEATURES) for m in (QUICK_ROWS if quick else ROWS)]
    by_features = [(FIXED_ROWS, p) for p in (QUICK_FEATURES if quick else FEATURES)]
    rows = measure(by_rows + by_features, n, seed, out)
    return report(rows, by_rows, by_features, n, Path(out))


def measure(sizes: list[tuple[int, int]], n: int, seed: int, out: str | Path) -> list[Row]:
    """Time all methods, n times for each size."""
    try:
        return run_replications(
            "figure3",
            partial(replicate, seed=seed),
            [(*size, k) for size in sizes for k in range(n)],
            keys=("n", "p", "replication"),
            settings={"seed": seed, "d": SIZE, "alphas": ALPHAS, "dtype": "float32"},
            out=out,
            jobs=1,
        )
    finally:
        _DATA.clear()


def replicate(task: Task, seed: int) -> Row:
    """CPU seconds and cells of every method on one data set."""
    n, p, replication = task
    X, y = _data(n, p, seed)
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
    """SIS, or BanditSIS as printed with the α that the method is called by."""
    return Plan.exact(n, p, SIZE) if method == "SIS" else Plan.paper(n, p, SIZE, alpha=float(method))


#: The data set in use, alone: the largest takes 8 GB.
_DATA: dict[tuple[int, int, int], tuple[Array, Floats]] = {}


def _data(n: int, p: int, seed: int) -> tuple[Array, Floats]:
    if (n, p, seed) not in _DATA:
        _DATA.clear()
        _check_memory(n, p)
        X, y, _ = make_m1(n, p, np.random.SeedSequence([seed, n, p]), dtype=np.float32)
        for method in METHODS:  # once untimed: loads kernels and touches memory
            _time(X, y, method, seed)
        _DATA[n, p, seed] = X, y
    return _DATA[n, p, seed]


def _check_memory(n: int, p: int) -> None:
    """Refuse what would only bring the machine to a halt."""
    if not hasattr(os, "sysconf"):
        return
    have, needed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), 4 * n * p
    if needed > 0.8 * have:
        raise MemoryError(
            f"{n:,} × {p:,} cells take {needed / 1e9:.1f} GB and this machine has {have / 1e9:.1f} GB: "
            f"use --quick, which stops at {QUICK_ROWS[-1]:,} rows."
        )


def report(
    rows: list[Row], by_rows: list[tuple[int, int]], by_features: list[tuple[int, int]], n: int, out: Path
) -> Reproduction:
    """Fit the slopes, and write the report and the figure."""
    summary: dict[str, Any] = {"n": summarise(rows, by_rows), "p": summarise(rows, by_features)}
    text = write_report(summary, n)
    files = drawing.save(draw(summary, n), out, "figure3")
    paths = (out / "figure3.csv", write_text(out / "figure3.md", text), *files)
    return Reproduction(rows, summary, text, paths)


def summarise(rows: list[Row], sizes: list[tuple[int, int]]) -> dict[str, dict[str, Floats]]:
    """For each method: mean CPU seconds, their standard error, and cells, at each size."""
    groups = [[row for row in rows if (row["n"], row["p"]) == size] for size in sizes]
    varying = [n if sizes[0][0] != sizes[1][0] else p for n, p in sizes]
    summary: dict[str, dict[str, Floats]] = {}
    for method in METHODS:
        seconds = np.array([[row[f"{method}_seconds"] for row in group] for group in groups])
        cells = np.array([group[0][f"{method}_cells"] for group in groups], dtype=np.float64)
        spread = seconds.std(axis=1, ddof=1) if seconds.shape[1] > 1 else np.zeros(len(seconds))
        summary[method] = {
            "size": np.array(varying, dtype=np.float64),
            "seconds": seconds.mean(axis=1),
            "error": spread / np.sqrt(seconds.shape[1]),
            "cells": cells,
        }
    return summary
