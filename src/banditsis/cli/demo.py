"""``banditsis demo``: exact and adaptive screening of the same simulated data, by two statistics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from banditsis.cli.output import features_table
from banditsis.cli.terminal import print_output
from banditsis.core.arrays import Array
from banditsis.core.formatting import format_bytes, format_duration, format_share, rounds_table, text_table
from banditsis.core.progress import ProgressBar
from banditsis.plans.factory import make_plan
from banditsis.plans.plan import Plan
from banditsis.results.result import ScreeningResult
from banditsis.screening import screen

N_LINEAR, N_SQUARED = 10, 5
N_TIMED = 4  # features that are measured to estimate the time of exact distance correlation
HEADINGS = ("method", "cells read", "time", "linear", "squared")


def run_demo(rows: int, features: int, keep: int, seed: int) -> None:
    """Simulate data, screen them by two statistics and print comparisons."""
    size = format_bytes(4 * rows * features)
    print_output(
        f"Simulating {rows:,} rows × {features:,} features, {size} as float32. The response\n"
        f"depends on {N_LINEAR} features linearly, on the squares of {N_SQUARED} others, and on noise.\n"
        f"Each method keeps {keep} features. How many of these {N_LINEAR + N_SQUARED} are among them?\n"
    )
    X, y = _simulate(rows, features, seed)
    exact, seconds = _time(lambda: _screen(X, y, Plan.exact(rows, features, keep), "pearson", seed))
    few, few_seconds = _time(lambda: _screen(X, y, Plan.paper(rows, features, keep), "pearson", seed))
    _, product_seconds = _time(lambda: y @ X)
    table = [
        ("matrix product y @ X", "100%", format_duration(product_seconds), "", ""),
        ("SIS, all rows", "100%", format_duration(seconds), *_count_found(exact)),
        ("BanditSIS", format_share(few.fraction_read), format_duration(few_seconds), *_count_found(few)),
    ]
    print_output(f"1. Correlation\n{text_table(HEADINGS, table, '<')}\n")

    plan = make_plan(rows, features, keep, rereads=True)
    found, seconds = _time(lambda: _screen(X, y, plan, "distance", seed))
    block = X[:, :N_TIMED]
    _, block_seconds = _time(lambda: _screen(block, y, Plan.exact(rows, N_TIMED, 1), "distance", seed))
    expected = f"{format_duration(block_seconds * features / N_TIMED)}*"
    table = [
        ("SIS, all rows", "100%", expected, "", ""),
        ("BanditSIS", format_share(found.fraction_read), format_duration(seconds), *_count_found(found)),
    ]
    print_output(
        "2. Distance correlation, which detects any dependence\n"
        f"{text_table(HEADINGS, table, '<')}\n* estimated from {N_TIMED} features\n"
    )
    print_output(f"The rounds of this run\n{rounds_table(found.rounds)}\n")
    print_output(f"Its best features\n{features_table(found.features.take(slice(N_LINEAR + N_SQUARED)))}\n")
    print_output(
        "The same in Python:\n"
        "  from banditsis import BanditSIS\n"
        f'  print(BanditSIS({keep}, statistic="distance").fit(X, y).result_)\n\n'
        "Next, with a file of yours:\n"
        "  banditsis screen data.csv --target price --keep 20 --report report.html"
    )


def _simulate(n: int, p: int, seed: int) -> tuple[Array, Array]:
    """Independent normal features, and a response that depends on the first ones."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p), dtype=np.float32)
    squares = X[:, N_LINEAR : N_LINEAR + N_SQUARED] ** 2
    y = X[:, :N_LINEAR].sum(axis=1) + squares.sum(axis=1) + rng.standard_normal(n, dtype=np.float32)
    return X, y


def _screen(X: Array, y: Array, plan: Plan, statistic: str, seed: int) -> ScreeningResult:
    with ProgressBar(statistic, transient=True) as bar:
        found = screen(X, y, plan, statistic=statistic, random_state=seed, progress=bar)
    assert isinstance(found, ScreeningResult)
    return found


def _time(run: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and the seconds of its second call; the first one compiles kernels."""
    run()
    started = time.perf_counter()
    return run(), time.perf_counter() - started


def _count_found(result: ScreeningResult) -> tuple[str, str]:
    """How many of the features in the model were selected."""
    linear = np.count_nonzero(result.selected < N_LINEAR)
    squared = np.count_nonzero(result.selected < N_LINEAR + N_SQUARED) - linear
    return f"{linear} of {N_LINEAR}", f"{squared} of {N_SQUARED}"
