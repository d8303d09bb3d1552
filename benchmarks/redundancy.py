"""Screening with and without ``avoid_redundancy``, against mRMR and random features.

python benchmarks/redundancy.py [--write docs/redundancy.md]

Part 1: Fashion-MNIST (Debian package dataset-fashion-mnist), 60,000 training images of 784 pixels in 10
classes. Each method selects k pixels, and a random forest of 100 trees is fitted to them in 20,000 of the
images, the same for all methods. Accuracy is that on the 10,000 test images. All methods use one thread; the
time is that of the selection, for banditsis the best of three. mRMR is that of mrmr_selection, if it is
installed (it is not a dependency of banditsis).

Part 2: recall of 20 signals among 2,000 simulated features that are independent, or correlated in groups.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from banditsis import SIS, BanditSIS, IterativeSIS
from banditsis.core.formatting import format_duration
from reporting import replace_between

try:
    from mrmr import mrmr_classif
except ImportError:
    mrmr_classif = None

FOLDER = Path("/usr/share/datasets/fashion-mnist")
SIZES = (25, 100)
N_FOREST, N_RANDOM, N_REPEATS = 20_000, 5, 3
N, P, N_SIGNALS, N_SEEDS = 2000, 2000, 20, 20
MARKER = "<!-- redundancy: written by benchmarks/redundancy.py -->"


def read_images(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels and class labels of the training or the test images."""
    with gzip.open(FOLDER / f"{part}-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(FOLDER / f"{part}-labels-idx1-ubyte.gz") as file:
        return pixels, np.frombuffer(file.read(), np.uint8, offset=8).astype("U1")


def select_by(selector: SIS | BanditSIS) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda X, y: selector.fit(X, y).result_.selected


def select_by_mrmr(k: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    import pandas as pd

    return lambda X, y: np.array(
        mrmr_classif(pd.DataFrame(X), pd.Series(y), k, n_jobs=1, show_progress=False), np.intp
    )


def methods(k: int) -> dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], int]]:
    """Each method, and how often it is timed."""
    found = {
        "`SIS(k)`": (select_by(SIS(k, n_jobs=1)), N_REPEATS),
        "`SIS(k, avoid_redundancy=True)`": (select_by(SIS(k, avoid_redundancy=True, n_jobs=1)), N_REPEATS),
        "`BanditSIS(k, avoid_redundancy=True)`": (
            select_by(BanditSIS(k, avoid_redundancy=True, n_jobs=1, random_state=0)),
            N_REPEATS,
        ),
    }
    return found if mrmr_classif is None else found | {"mRMR (mrmr_selection)": (select_by_mrmr(k), 1)}


def compare_pixels() -> list[str]:
    """A line of a table for each method."""
    (X, y), (X_test, y_test) = read_images("train"), read_images("t10k")
    rng = np.random.default_rng(0)
    some = rng.permutation(len(X))[:N_FOREST]
    for selector in methods(5).values():  # compile kernels
        selector[0](X[:500], y[:500])

    def accuracy(chosen: np.ndarray) -> float:
        forest = RandomForestClassifier(100, random_state=0).fit(X[some][:, chosen], y[some])
        return float(forest.score(X_test[:, chosen], y_test))

    lines = []
    for k in SIZES:
        for name, (select, repeats) in methods(k).items():
            seconds = []
            for _ in range(repeats):
                started = time.perf_counter()
                chosen = select(X, y)
                seconds.append(time.perf_counter() - started)
            duration = format_duration(min(seconds))
            similar = np.abs(np.corrcoef(X[:, chosen].T))[np.triu_indices(k, 1)].mean()
            lines.append(f"| {k} | {name} | {accuracy(chosen):.1%} | {similar:.2f} | {duration} |")
            print(lines[-1], flush=True)
        draws = [accuracy(rng.choice(784, k, replace=False)) for _ in range(N_RANDOM)]
        lines.append(f"| {k} | random pixels, mean of {N_RANDOM} | {np.mean(draws):.1%} | | |")
        print(lines[-1], flush=True)
    return lines


def simulate(kind: str, rng: np.random.Generator) -> np.ndarray:
    X = rng.standard_normal((N, P))
    if kind == "independent":
        return X
    share = {"groups of 10, r = 0.5": 0.5, "groups of 10, r = 0.8": 0.8}[kind]
    common = np.repeat(rng.standard_normal((N, P // 10)), 10, axis=1)
    return np.sqrt(share) * common + np.sqrt(1 - share) * X


def compare_recall() -> list[str]:
    """A line of a table for each design."""
    lines = []
    for kind in ("independent", "groups of 10, r = 0.5", "groups of 10, r = 0.8"):
        plain, avoiding = SIS(N_SIGNALS, n_jobs=1), SIS(N_SIGNALS, avoid_redundancy=True, n_jobs=1)
        selectors = plain, avoiding, IterativeSIS(N_SIGNALS, screener=avoiding)
        recall = np.zeros(len(selectors))
        for seed in range(N_SEEDS):
            rng = np.random.default_rng(seed)
            X = simulate(kind, rng)
            signals = 10 * rng.permutation(P // 10)[:N_SIGNALS] + rng.integers(0, 10, N_SIGNALS)
            signal = X[:, signals] @ (rng.choice([-1, 1], N_SIGNALS) * rng.uniform(0.5, 1.5, N_SIGNALS))
            y = signal + signal.std() * rng.standard_normal(N)
            recall += [s.fit(X, y).get_support()[signals].mean() / N_SEEDS for s in selectors]
        lines.append(f"| {kind} | " + " | ".join(f"{share:.1%}" for share in recall) + " |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", type=Path, help="Markdown file whose tables are replaced")
    options = parser.parse_args()
    table = [
        f"| features, {N:,} × {P:,} | `SIS(d)` | `screener = SIS(d, avoid_redundancy=True)` "
        "| `IterativeSIS(d, screener=screener)` |",
        "|---|---:|---:|---:|",
        *compare_recall(),
    ]
    if FOLDER.exists():
        head = ["| k | method | accuracy | mean \\|r\\| | time |", "|---:|---|---:|---:|---:|"]
        table = [*head, *compare_pixels(), "", *table]
    elif options.write is not None:  # its table would be lost
        raise SystemExit("Fashion-MNIST is not installed: apt-get install dataset-fashion-mnist")
    if options.write is not None:
        replace_between(options.write, MARKER, "\n".join(table))


if __name__ == "__main__":
    main()
