"""Exact and adaptive screening with all cores: shares of the read bandwidth and of one matrix product.

python benchmarks/cores.py [--gigabytes 16] [--only NAME] [--profile] [--write benchmarks/README.md]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from banditsis import SIS, BanditSIS, Plan, screen
from banditsis.core.parallel import count_jobs
from reporting import Figure, at_least, at_most, collect, publish
from screening import make
from timing import interleaved, read_through

MARKER = "<!-- measured: written by benchmarks/cores.py -->"
#: Rows for 16 GB of float32, columns, memory order, and how much faster the adaptive method should be.
CASES = (
    ("tall, row-major", 1_000_000, 4_000, "C", 20.0),
    ("tall, column-major", 1_000_000, 4_000, "F", None),
    ("wide, row-major", 20_000, 200_000, "C", 5.0),
)


def measure(gigabytes: float, profile: bool, only: str) -> Iterator[Figure]:
    for name, rows, p, order, goal in (case for case in CASES if only in case[0]):
        X, y = make(int(rows * gigabytes / 16), p, "float32", order)
        label = f"{name}, {len(X):,} × {p:,}"
        yield from one_response(X, y, label, goal, profile)
        if order == "C":
            yield many(X, label, profile)


def one_response(
    X: np.ndarray, y: np.ndarray, label: str, goal: float | None, profile: bool
) -> Iterator[Figure]:
    exact, bandit = SIS(50), BanditSIS(50, random_state=0)
    best = interleaved(
        5, read=read_through(X), exact=lambda: exact.fit(X, y), bandit=lambda: bandit.fit(X, y)
    )
    rate = X.nbytes / best["exact"] / 1e9
    yield at_least(f"{label}: exact ({rate:.0f} GB/s), share of read", best["read"] / best["exact"], 0.9)
    what = f"{label}: BanditSIS ({best['bandit'] * 1e3:.1f} ms), times as fast as exact"
    yield at_least(what, best["exact"] / best["bandit"], 1.0 if goal is None else goal, "×")
    if profile:
        show_profile(lambda: exact.fit(X, y))
        show_profile(lambda: bandit.fit(X, y))
        print([f"{1e3 * r.seconds:.1f}" for r in bandit.result_.rounds])


def many(X: np.ndarray, label: str, profile: bool) -> Figure:
    n, p = X.shape
    Y = np.random.default_rng(1).standard_normal((n, 100)).astype("float32")
    W = np.column_stack([np.ones(n, "float32"), Y])
    plan = Plan.exact(n, p, 100)
    best = interleaved(2, gemm=lambda: X.T @ W, ours=lambda: screen(X, Y, plan))
    if profile:
        show_profile(lambda: screen(X, Y, plan))
    goal = 1.3 if count_jobs(None) <= 2 else 1.5
    what = f"{label}: 100 responses, time of one GEMM ({best['gemm']:.2f} s)"
    return at_most(what, best["ours"] / best["gemm"], goal, "×")


def show_profile(run) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(run)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(22)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=16.0)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--only", help="cases whose name contains this", default="")
    options = parser.parse_args()
    figures = collect(measure(options.gigabytes, options.profile, options.only))
    publish(figures, "bench-cores", options.write, MARKER)


if __name__ == "__main__":
    main()
