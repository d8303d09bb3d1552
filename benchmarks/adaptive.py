"""Whether adaptive screening that is slower than exact screening says so, over sizes, layouts and settings.

python benchmarks/adaptive.py [--repeats 5] [--write benchmarks/README.md]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis import SIS, BanditSIS
from reporting import Figure, publish
from screening import ORDERS, make
from timing import interleaved

MARKER = "<!-- measured: written by benchmarks/adaptive.py -->"
SHAPES = (
    (10_000, 200),
    (10_000, 1_000),
    (10_000, 20_000),
    (100_000, 20),
    (100_000, 200),
    (100_000, 5_000),
    (1_000_000, 20),
    (1_000_000, 200),
)
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "budget=0.3": {"budget": 0.3},
    "min_correlation=0.05": {"min_correlation": 0.05},
    "pvalues=True": {"pvalues": True},
}
#: What a result says if it was not faster than reading every row.
SPEED_NOTES = ("about as fast", "all rows were read")
TOLERANCE = 1.1


class Case(NamedTuple):
    """One measurement."""

    label: str
    ratio: float
    exact: float
    says_so: bool


def measure(repeats: int) -> Iterator[Case]:
    for (n, p), order in product(SHAPES, ORDERS):
        X, y = make(n, p, "float32", order)
        for name, options in SETTINGS.items():
            yield measure_case(X, y, f"{n:,} × {p:,}, {ORDERS[order]}, {name}", options, repeats)


def measure_case(X: np.ndarray, y: np.ndarray, label: str, options: dict[str, Any], repeats: int) -> Case:
    size = min(20, X.shape[1] // 2)
    exact, adaptive = SIS(size, pvalues="pvalues" in options), BanditSIS(size, random_state=0, **options)
    best = interleaved(repeats, exact=lambda: exact.fit(X, y), adaptive=lambda: adaptive.fit(X, y))
    notes = " ".join(adaptive.result_.notes)
    says_so = any(note in notes for note in SPEED_NOTES)
    return Case(label, best["adaptive"] / best["exact"], best["exact"], says_so)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    silent, needless, total = [], 0, 0
    for case in measure(options.repeats):
        total += 1
        flag = " (says so)" if case.says_so else ""
        print(f"{case.label}: {case.ratio:.2f} of exact ({1e3 * case.exact:.1f} ms){flag}", flush=True)
        if case.ratio > TOLERANCE and not case.says_so:
            silent.append(case.label)
        needless += case.says_so and case.ratio < 1 / TOLERANCE
    what = f"adaptive screening slower than exact by more than 10% without a note, of {total} cases"
    print(f"\nWithout a note: {'; '.join(silent) or 'none'}. Notes on cases that were faster: {needless}.")
    figure = Figure(what, str(len(silent)), "0", not silent)
    publish([figure], "bench-adaptive", options.write, MARKER)


if __name__ == "__main__":
    main()
