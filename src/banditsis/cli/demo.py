"""``banditsis demo``: SIS and BanditSIS on the same simulated data."""

from __future__ import annotations

import time

import numpy as np

from banditsis.arrays import Array
from banditsis.cli.output import features_table
from banditsis.cli.terminal import print_output
from banditsis.datasets import make_m1
from banditsis.formatting import format_bytes, format_duration, rounds_table
from banditsis.plans.plan import Plan
from banditsis.progress import ProgressBar
from banditsis.results import ScreeningResult
from banditsis.screening import screen

N_RUNS = 3


def run_demo(rows: int, features: int, keep: int, seed: int) -> None:
    """Simulate data, screen them twice and print a comparison."""
    print_output("Simulating data ...")
    X, y, active = make_m1(rows, features, seed, dtype=np.float32)
    print_output(
        f"{rows:,} rows × {features:,} features, {format_bytes(X.nbytes)} as float32.\n"
        f"The response is the sum of {len(active)} features plus noise.\n"
    )
    exact, exact_seconds = _time_screening("SIS", X, y, Plan.exact(rows, features, keep), seed)
    bandit, bandit_seconds = _time_screening("BanditSIS", X, y, Plan.paper(rows, features, keep), seed)
    print_output(f"SIS reads all cells: {format_duration(exact_seconds)}\n{rounds_table(exact.rounds)}\n")
    print_output(f"BanditSIS, α = 0.5: {format_duration(bandit_seconds)}\n{rounds_table(bandit.rounds)}\n")
    print_output(f"Best features by BanditSIS\n{features_table(bandit, limit=10)}\n")
    n_active = len(np.intersect1d(active, bandit.selected))
    n_common = len(np.intersect1d(exact.selected, bandit.selected))
    print_output(
        "BanditSIS\n"
        f"  read {bandit.fraction_read:.2%} of the cells,\n"
        f"  was {exact_seconds / bandit_seconds:.1f} times as fast as SIS,\n"
        f"  kept {n_active} of the {len(active)} features in the model, and\n"
        f"  selected {n_common} of the {len(exact.selected)} features that SIS selected.\n"
        "Most other features have no signal, so the order among them is random.\n\n"
        "Next, in Python:\n"
        "  from banditsis import BanditSIS\n"
        "  print(BanditSIS(100).fit(X, y).result_)"
    )


def _time_screening(name: str, X: Array, y: Array, plan: Plan, seed: int) -> tuple[ScreeningResult, float]:
    """Return the result and the shortest time of several runs, after a run that compiles the kernels."""
    with ProgressBar(name, transient=True) as bar:
        screen(X, y, plan, random_state=seed, progress=bar)
    runs = []
    for _ in range(N_RUNS):
        started = time.perf_counter()
        result = screen(X, y, plan, random_state=seed, progress=False)
        runs.append((time.perf_counter() - started, result))
    seconds, result = min(runs, key=lambda run: run[0])
    assert isinstance(result, ScreeningResult)
    return result, seconds
