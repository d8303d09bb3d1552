"""How the time of screening grows with rows, features, selected features and the cost of the statistic.

Processor time of one thread, which depends little on what else the machine does.

python benchmarks/growth.py [--repeats 5] [--write docs/speed.md] [--figure docs/figures/growth.svg]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.feature_selection import SelectKBest, f_regression
from threadpoolctl import threadpool_limits

from banditsis import SIS, BanditSIS
from banditsis.core.formatting import format_duration
from reporting import machine, replace_between
from screening import make
from timing import interleaved

MARKER = "<!-- growth: written by benchmarks/growth.py -->"
#: What grows, its label, the fixed sizes, and its values. scikit-learn centres a copy, so it gets small data.
SWEEPS: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "n": (
        "rows, p = 1,000, d = 20",
        {"p": 1_000, "d": 20},
        (3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    ),
    "p": ("features, n = 20,000, d = 20", {"n": 20_000, "d": 20}, (100, 1_000, 10_000, 50_000)),
    "d": (
        "selected features, n = 100,000, p = 5,000",
        {"n": 100_000, "p": 5_000},
        (1, 10, 50, 200, 1_000),
    ),
    "distance": (
        "rows, p = 200, d = 20, distance correlation",
        {"p": 200, "d": 20, "statistic": "distance"},
        (1_000, 3_000, 10_000, 30_000, 100_000),
    ),
}
PEER_CELLS = 500_000_000


class Point(NamedTuple):
    """Times of one size, in seconds, and the share of the cells that BanditSIS read."""

    sweep: str
    n: int
    p: int
    d: int
    times: dict[str, float]
    fraction: float


def measure(repeats: int) -> Iterator[Point]:
    for name, (_, sizes, values) in SWEEPS.items():
        for value in values:
            size = {"statistic": "auto", **sizes, "n" if name == "distance" else name: value}
            yield measure_size(name, repeats, **size)


def measure_size(sweep: str, repeats: int, n: int, p: int, d: int, statistic: str) -> Point:
    X, y = make(n, p, "float32", "C")
    options = {"statistic": statistic, "n_jobs": 1}
    exact, adaptive = SIS(d, **options), BanditSIS(d, random_state=0, **options)
    runs = {"SIS": lambda: exact.fit(X, y), "BanditSIS": lambda: adaptive.fit(X, y)}
    if statistic == "auto" and n * p <= PEER_CELLS:
        runs["SelectKBest"] = lambda: SelectKBest(f_regression, k=d).fit(X, y)
    repeats = 1 if statistic == "distance" and n > 10_000 else repeats
    with threadpool_limits(1):
        times = interleaved(repeats, clock=time.process_time, **runs)
    point = Point(sweep, n, p, d, times, adaptive.result_.fraction_read)
    print(point, flush=True)
    return point


def table(points: list[Point]) -> str:
    lines = [
        "| Statistic | n | p | d | `SIS` | `BanditSIS` | cells read | `SelectKBest(f_regression)` |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for point in points:
        statistic = "distance" if point.sweep == "distance" else "Pearson"
        times = [
            format_duration(point.times[name]) if name in point.times else ""
            for name in ("SIS", "BanditSIS", "SelectKBest")
        ]
        lines.append(
            f"| {statistic} | {point.n:,} | {point.p:,} | {point.d:,} | {times[0]} | {times[1]} | "
            f"{point.fraction:.1%} | {times[2]} |"
        )
    made = (
        f"Processor time of one thread, by `make bench-growth` on {machine()}; row-major float32 in memory."
    )
    return "\n".join(lines) + f"\n\n{made}"


def draw(points: list[Point], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "banditsis"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(5.6, 5.4), layout="constrained")
    for axis, (name, (label, _, values)) in zip(axes.flat, SWEEPS.items(), strict=True):
        for color, (method, marker) in enumerate((("SelectKBest", "s"), ("SIS", "o"), ("BanditSIS", "D"))):
            times = [point.times.get(method, np.nan) for point in points if point.sweep == name]
            if not np.all(np.isnan(times)):
                axis.plot(values, times, color=f"C{color}", marker=marker, markersize=4, label=method)
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel="seconds, one thread")
        axis.grid(alpha=0.3)
    axes[0, 0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    points = list(measure(options.repeats))
    text = table(points)
    print(f"\n{text}")
    if options.write:
        replace_between(options.write, MARKER, text)
    if options.figure:
        draw(points, options.figure)


if __name__ == "__main__":
    main()
