"""``banditsis demo``: exact and adaptive screening of the same simulated data, by two statistics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from banditsis.cli.terminal import print_output
from banditsis.core.formatting import format_bytes, format_duration, format_share, text_table
from banditsis.core.progress import ProgressBar
from banditsis.plans import Plan, make_plan
from banditsis.results.result import ScreeningResult
from banditsis.screening import screen

N_LINEAR, N_SQUARED = 10, 5
N_TIMED = 4  # features that are measured to estimate the time of exact distance correlation
HEADINGS = ("method", "cells read", "time", "linear", "squared")


def run(rows: int, features: int, keep: int, seed: int) -> None:
    """Simulate data, screen them by two statistics and print a comparison."""
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

    def measure(plan: Plan, statistic: str, n_features: int = features) -> tuple[ScreeningResult, float]:
        part = X[:, :n_features]
        with ProgressBar(statistic) as bar:
            return _time(lambda: screen(part, y, plan, statistic=statistic, random_state=seed, progress=bar))

    timed = measure(Plan.exact(rows, N_TIMED, 1), "distance", N_TIMED)[1]
    lines = [
        ("matrix product y @ X", "100%", format_duration(_time(lambda: y @ X)[1]), "", ""),
        _line("SIS", *measure(Plan.exact(rows, features, keep), "pearson")),
        _line("BanditSIS", *measure(Plan.paper(rows, features, keep), "pearson")),
        ("SIS, distance", "100%", f"{format_duration(timed * features / N_TIMED)}*", "", ""),
        _line("BanditSIS, distance", *measure(make_plan(rows, features, keep, rereads=True), "distance")),
    ]
    print_output(
        f"{text_table(HEADINGS, lines, '<')}\n* estimated from {N_TIMED} features\n\n"
        "Distance correlation detects any dependence, Pearson's correlation a linear one.\n\n"
        "The same in Python:\n"
        "  from banditsis import BanditSIS\n"
        f'  print(BanditSIS({keep}, statistic="distance").fit(X, y).result_)\n\n'
        "Next, with a file of yours:\n"
        "  banditsis screen data.csv --target price --keep 20 --report report.html"
    )


def _time(run: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and the seconds of its second call; the first one compiles kernels."""
    run()
    started = time.perf_counter()
    return run(), time.perf_counter() - started


def _line(method: str, result: ScreeningResult, seconds: float) -> tuple[str, ...]:
    """What was read, and how many features in the model were selected."""
    linear = np.count_nonzero(result.selected < N_LINEAR)
    squared = np.count_nonzero(result.selected < N_LINEAR + N_SQUARED) - linear
    read, taken = format_share(result.fraction_read), format_duration(seconds)
    return method, read, taken, f"{linear} of {N_LINEAR}", f"{squared} of {N_SQUARED}"
