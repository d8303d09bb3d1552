"""Speed and memory of screening arrays in memory, as ratios within one run.

python benchmarks/screening.py [--write benchmarks/README.md] [--only NAME …] [--gigabytes 4]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.feature_selection import SelectKBest, r_regression

from banditsis import SIS, BanditSIS, Plan, screen
from banditsis.engine.sampling import Strata
from reporting import Figure, at_least, at_most, collect, publish
from timing import interleaved, read_through

ORDERS = {"C": "row-major", "F": "column-major"}


def make(n: int, p: int, dtype: str, order: str = "C") -> tuple[np.ndarray, np.ndarray]:
    """Return normal noise, repeated to save time, and a response."""
    rng = np.random.default_rng(0)
    X = np.empty((n, p), dtype, order=order)
    run = X.reshape(-1, order="A")
    noise = rng.standard_normal(1_000_003).astype(dtype)  # a prime length, so columns differ
    for start in range(0, run.size, noise.size):
        run[start : start + noise.size] = noise[: run.size - start]
    return X, rng.standard_normal(n) + X[:, 0]


def exact(gigabytes: float) -> Iterator[Figure]:
    for dtype in ("float32", "float64"):
        for order in ORDERS:
            yield from exact_case(dtype, order, gigabytes)


def exact_case(dtype: str, order: str, gigabytes: float) -> Iterator[Figure]:
    p = 10_000
    X, y = make(int(gigabytes * 1e9 / p / np.dtype(dtype).itemsize), p, dtype, order)
    weights = y.astype(dtype)
    best = interleaved(7, read=read_through(X), fit=lambda: SIS(100).fit(X, y), product=lambda: weights @ X)
    rate = X.nbytes / best["fit"] / 1e9
    label = f"exact SIS, {dtype}, {ORDERS[order]} ({rate:.0f} GB/s): share of read bandwidth"
    yield at_least(label, best["read"] / best["fit"], 0.8)
    label = f"exact SIS, {dtype}, {ORDERS[order]}: times as fast as `y @ X`"
    yield at_least(label, best["product"] / best["fit"], 1.0, "×")


def select_k_best(gigabytes: float) -> Iterator[Figure]:
    for dtype, order in (("float64", "C"), ("float64", "F"), ("float32", "C"), ("float32", "F")):
        yield from select_k_best_case(dtype, order)


def select_k_best_case(dtype: str, order: str) -> Iterator[Figure]:
    X, y = make(100_000, 5_000, dtype, order)
    best = interleaved(
        4,
        theirs=lambda: SelectKBest(r_regression, k=100).fit(X, y),
        exact=lambda: SIS(100).fit(X, y),
        bandit=lambda: BanditSIS(100, random_state=0).fit(X, y),
    )
    label = f"{dtype}, {ORDERS[order]}: times as fast as `SelectKBest(r_regression)`"
    yield at_least(f"exact SIS, {label}", best["theirs"] / best["exact"], 8, "×")
    if (dtype, order) == ("float64", "C"):
        yield at_least(f"BanditSIS, 100,000 × 5,000 {label}", best["theirs"] / best["bandit"], 100, "×")


def lines_touched(plan: Plan, last_round: np.ndarray, seed: int, by_row: bool, itemsize: int) -> int:
    """Count the 64-byte cache lines that hold the cells read in a run."""
    total, per_line = 0, 64 // itemsize
    pieces = Strata.uniform(plan.n_rows).draw(
        [s.n_rows for s in plan.steps], "random", np.random.default_rng(seed)
    )
    for k, rows in enumerate(pieces):
        columns = np.flatnonzero(last_round >= k)
        if by_row:
            total += len(rows) * len(np.unique(columns // per_line))
        else:
            total += len(columns) * len(np.unique(rows // per_line))
    return total


def bandit(gigabytes: float) -> Iterator[Figure]:
    for order in ORDERS:
        yield bandit_case(order)


def bandit_case(order: str) -> Figure:
    X, y = make(200_000, 10_000, "float32", order)
    plan = Plan.paper(*X.shape, 100)
    selector = BanditSIS(100, alpha=0.5, random_state=0)
    best = interleaved(9, read=read_through(X), fit=lambda: selector.fit(X, y))
    lines = lines_touched(plan, selector.result_.last_round, 0, order == "C", 4)
    share = (lines * 64 / best["fit"]) / (X.nbytes / best["read"])
    label = f"BanditSIS, 200,000 × 10,000 float32, {ORDERS[order]} ({best['fit'] * 1e3:.0f} ms)"
    return at_least(f"{label}: lines touched per second, share of read bandwidth", share, 0.3)


def many(gigabytes: float) -> Iterator[Figure]:
    n, p, q = 100_000, 10_000, 100
    X, _ = make(n, p, "float32")
    Y = np.random.default_rng(1).standard_normal((n, q)).astype("float32")
    W = np.column_stack([np.ones(n, "float32"), Y])
    plan = Plan.exact(n, p, 100)
    best = interleaved(4, gemm=lambda: X.T @ W, ours=lambda: screen(X, Y, plan))
    yield at_most(
        "exact, 100 responses together: time of one GEMM Xᵀ[1, Y]", best["ours"] / best["gemm"], 1.4, "×"
    )
    adaptive = Plan.paper(n, p, 100)
    best = interleaved(
        3,
        together=lambda: screen(X, Y, adaptive, random_state=0),
        alone=lambda: [screen(X, Y[:, k], adaptive, random_state=0) for k in range(q)],
    )
    yield at_least(
        "BanditSIS, 100 responses together: times as fast as one by one",
        best["alone"] / best["together"],
        3,
        "×",
    )


def missing(gigabytes: float) -> Iterator[Figure]:
    for order in ORDERS:
        yield from missing_case(order)


def missing_case(order: str) -> Iterator[Figure]:
    X, y = make(100_000, 5_000, "float32", order)
    gaps = X.copy(order="K")
    gaps.reshape(-1, order="A")[::19] = np.nan  # every row and column keeps values
    plain, pairwise = BanditSIS(100, random_state=0), BanditSIS(100, random_state=0, missing="pairwise")
    best = interleaved(
        7,
        exact=lambda: SIS(100).fit(X, y),
        exact_pairwise=lambda: SIS(100, missing="pairwise").fit(gaps, y),
        bandit=lambda: plain.fit(X, y),
        bandit_pairwise=lambda: pairwise.fit(gaps, y),
    )
    label = f"5% missing, pairwise, {ORDERS[order]}: time against complete data"
    yield at_most(f"exact SIS, {label}", best["exact_pairwise"] / best["exact"], 2, "×")
    yield at_most(f"BanditSIS, {label}", best["bandit_pairwise"] / best["bandit"], 2, "×")


MEMORY = """
import sys, numpy as np
from banditsis import Plan, screen
n, p, q, method = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
def status(key):
    return next(int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith(key))
def go(X, y):
    n, p = X.shape
    plan = Plan.exact(n, p, 50) if method == "exact" else Plan.paper(n, p, 50)
    screen(X, y, plan, random_state=0)
rng = np.random.default_rng(0)
small = rng.standard_normal((500, 300)).astype("f4")
go(small, rng.standard_normal((500, q)) if q > 1 else rng.standard_normal(500))
X = np.empty((n, p), "f4")
block = rng.standard_normal(min(X.size, 1_000_003)).astype("f4")
run = X.reshape(-1)
for a in range(0, run.size, block.size): run[a:a + block.size] = block[:run.size - a]
y = rng.standard_normal((n, q)) if q > 1 else rng.standard_normal(n)
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
go(X, y)
print(status("VmHWM") - before)
"""


def memory(gigabytes: float) -> Iterator[Figure]:
    for n, p, q, method in (
        (50_000_000, 20, 1, "exact"),
        (50_000_000, 20, 1, "bandit"),
        (1_000, 1_000_000, 1, "exact"),
        (1_000, 1_000_000, 1, "bandit"),
        (2_000, 200_000, 20, "exact"),
        (2_000, 200_000, 20, "bandit"),
    ):
        command = [sys.executable, "-c", MEMORY, str(n), str(p), str(q), method]
        used = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        limit = 200e6 + p * (200 + 40 * (q - 1))
        label = f"memory above X, {n:,} × {p:,}, {q} response{'s' * (q > 1)}, {method}"
        yield Figure(label, f"{used / 1e6:.0f} MB", f"≤ {limit / 1e6:.0f} MB", used <= limit)


MARKER = "<!-- measured: written by benchmarks/screening.py -->"
PARTS = {f.__name__: f for f in (exact, bandit, select_k_best, many, missing, memory)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--gigabytes", type=float, default=4.0)
    options = parser.parse_args()
    figures = collect(figure for name in options.only for figure in PARTS[name](options.gigabytes))
    publish(figures, "bench", options.write, MARKER)


if __name__ == "__main__":
    main()
