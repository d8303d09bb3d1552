"""Screening of interactions at the size of the paper's MovieLens table, on the synthetic stand-in.

python benchmarks/interactions.py [--users 10] [--columns 10000] [--only NAME …]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache

import numpy as np
from paper.movielens import N_MOVIES, N_TAGS, MovieLens, make_standin
from paper.published import TABLE2, method_name
from paper.table2 import estimate_users, make_plans, predict, split, warm_up

from banditsis import Interactions, Plan, screen
from banditsis.sources.views import Subset
from reporting import Figure, at_most, collect, machine, table
from timing import interleaved


@cache
def standin(n_movies: int = N_MOVIES) -> MovieLens:
    return make_standin(n_movies=n_movies)


def one_user(options: argparse.Namespace) -> Iterator[Figure]:
    """Time of exact screening relative to forming all products, a few rows at a time."""
    data = standin(options.movies)
    training, _ = split(options.movies, 0)
    y = np.random.default_rng(1).standard_normal(len(training))
    for dtype in ("float32", "float64"):
        X = data.X.astype(dtype)
        source = Subset(Interactions(X), training)
        plan = Plan.exact(*source.shape, 100)
        best = interleaved(
            3,
            forming=lambda x=X[training]: form_products(x),
            screening=lambda source=source, plan=plan: screen(source, y, plan, n_jobs=1),
        )
        yield at_most(
            f"exact SIS, one user, {dtype}, one thread ({best['screening']:.2f} s), against forming all "
            f"products with NumPy ({best['forming']:.2f} s)",
            best["screening"] / best["forming"],
            3,
            "×",
        )


def form_products(x: np.ndarray) -> None:
    """Form the products of each column with all others, in blocks of rows that stay in the cache."""
    for start in range(0, len(x), 512):
        columns = np.ascontiguousarray(x[start : start + 512].T)
        for j in range(len(columns) - 1):
            np.multiply(columns[j], columns[j + 1 :])


GOALS = {None: 600.0, 1.5: 100.0, 0.5: 150.0}


def many_users(options: argparse.Namespace) -> Iterator[Figure]:
    """All users of Table 2, each with its own split."""
    data = standin(options.movies)
    users = estimate_users(data, "", options.users)
    source = Interactions(data.X)
    warm_up(None)
    seconds, r2 = {}, {}
    for line in TABLE2:
        seconds[line.alpha], r2[line.alpha] = 0.0, []
        for k in range(options.users):
            training, test = split(options.movies, k)
            y = users.stars[k].astype(float)
            plan = make_plans(len(training), source.shape[1])[line.key]
            started = time.perf_counter()
            result = screen(Subset(source, training), y[training], plan, random_state=k, progress=False)
            seconds[line.alpha] += time.perf_counter() - started
            r2[line.alpha].append(predict(source, y, np.sort(result.selected), training, test)[0])
        if line.alpha in GOALS:
            label = f"{method_name(line.alpha)}, {options.users} users, float32 "
            label += f"(the paper: {line.seconds:,.0f} s for 100)"
            yield at_most(label, seconds[line.alpha], GOALS[line.alpha] * options.users / 100, " s")
    for alpha in (1.5, 1.1, 0.5):
        gap = abs(np.mean(r2[alpha]) - np.mean(r2[None]))
        label = (
            f"BanditSIS (α={alpha}): mean R² {np.mean(r2[alpha]):.4f}, that of SIS {np.mean(r2[None]):.4f}"
        )
        yield Figure(f"{label}; difference", f"{gap:.4f}", "≤ 0.01", bool(gap <= 0.01))


def accuracy(options: argparse.Namespace) -> Iterator[Figure]:
    """Difference of scores from those of products computed in advance."""
    rng = np.random.default_rng(0)
    for dtype, goal in (("float64", 1e-9), ("float32", 1e-4)):
        for offset in (0, 3, 30, 1000):
            X = (rng.standard_normal((1500, 60)) + offset).astype(dtype)
            y = X[:, 3] * X[:, 4] - offset**2 + rng.standard_normal(1500)
            i, j = np.triu_indices(60, 1)
            built = np.column_stack([X, X[:, i] * X[:, j]])
            plan = Plan.exact(*built.shape, 10)
            gap = np.abs(screen(Interactions(X), y, plan).scores - screen(built, y, plan).scores).max()
            label = (
                f"largest difference of scores from computed products, {dtype}, means of {offset} deviations"
            )
            yield Figure(label, f"{gap:.1e}", f"≤ {goal:g}", bool(gap <= goal))


PEAK = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from banditsis import Interactions, Plan, screen
from banditsis.sources.views import Subset
{code}
# Not ru_maxrss, which a process inherits from its parent.
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(1024 * peak, seconds)
"""

FULL_SIZE = """
import time
X = np.load(sys.argv[1])
rng = np.random.default_rng(0)
source = Interactions(X)
started = time.perf_counter()
for k in range(2):
    training = np.sort(rng.permutation(len(X))[: int(0.7 * len(X))])
    y = rng.standard_normal(len(training))
    part = Subset(source, training)
    for plan in (Plan.exact(*part.shape, 100), Plan.paper(*part.shape, 100, alpha=0.5)):
        screen(part, y, plan, random_state=k)
seconds = time.perf_counter() - started
"""

WIDE = """
import time
rng = np.random.default_rng(0)
X = rng.random((2000, {columns}), dtype=np.float32)
y = X[:, 5] * X[:, 77] + 0.1 * rng.standard_normal(2000)
source = Interactions(X)
started = time.perf_counter()
result = screen(source, y, {plan})
seconds = time.perf_counter() - started
assert "x5 × x77" in result.selected_names
"""


def run(code: str, *arguments: str) -> tuple[float, float]:
    """Run code in a new process. Returns its peak memory and seconds."""
    script = PEAK.format(folder=os.path.dirname(__file__), code=code)
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, seconds = done.stdout.split()
    return float(peak), float(seconds)


def memory(options: argparse.Namespace) -> Iterator[Figure]:
    """Peak memory of a process that screens at full size, including X."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", standin(options.movies).X)
        peak, _ = run(FULL_SIZE, f"{folder}/x.npy")
    yield at_most("peak memory of a process, full size, float32, SIS and BanditSIS", peak / 1e9, 2, " GB")


def wide(options: argparse.Namespace) -> Iterator[Figure]:
    """Ten thousand base columns, fifty million pairs."""
    for name, plan in (
        ("SIS", "Plan.exact(*source.shape, 100)"),
        ("BanditSIS (α=0.5)", "Plan.paper(*source.shape, 100), random_state=0"),
    ):
        peak, seconds = run(WIDE.format(columns=options.columns, plan=plan))
        pairs = options.columns * (options.columns + 1) // 2
        label = (
            f"{name}, 2,000 rows, {options.columns:,} columns, {pairs:,} features ({seconds:.1f} s): memory"
        )
        yield at_most(label, peak / 1e9, 24, " GB")


PARTS = {f.__name__: f for f in (one_user, many_users, accuracy, memory, wide)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument("--movies", type=int, default=N_MOVIES)
    parser.add_argument("--columns", type=int, default=10_000)
    options = parser.parse_args()
    figures = collect(figure for name in options.only for figure in PARTS[name](options))
    shape = f"{options.movies:,} × {N_TAGS:,} scores of a stand-in, {N_TAGS * (N_TAGS + 1) // 2:,} features"
    print(f"\n{shape}; {machine()}\n")
    print(table(figures))


if __name__ == "__main__":
    main()
