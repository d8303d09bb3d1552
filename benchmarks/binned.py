"""Binned statistics: agreement with other packages, speed, and p-values without association.

python benchmarks/binned.py [--only NAME …] [--small]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.feature_selection import mutual_info_classif
from sklearn.metrics import mutual_info_score

from banditsis import Plan, screen
from banditsis.statistics import Chi2
from reporting import Figure, at_least, at_most, collect
from timing import interleaved


def make(n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal features, a third mostly zero and a third integers, and a response of two classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, 1::3] *= rng.random((n, len(range(1, p, 3)))) < 0.4
    X[:, 2::3] = np.round(X[:, 2::3])
    return X, X[:, :3].sum(axis=1) + rng.standard_normal(n) > 2


def tables(X: np.ndarray, y: np.ndarray, statistic: str) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """The score of each feature, and the bin and the class of each row."""
    result = screen(X, y, Plan.exact(*X.shape, X.shape[1]), statistic=statistic)
    bins = pd.DataFrame(result.evidence.bins)
    for j, x in enumerate(X.T):
        edges = bins.low[(bins.feature == j) & ~bins.missing][1:]
        yield result.scores[j], np.searchsorted(edges, x, "right"), y


def information_value(x: np.ndarray, y: np.ndarray) -> float:
    table = pd.crosstab(x, y).to_numpy() * 1.0
    shares = np.where((table == 0).any(axis=1, keepdims=True), table + 0.5, table) / table.sum(axis=0)
    return float(((shares[:, 0] - shares[:, 1]) * np.log(shares[:, 0] / shares[:, 1])).sum())


def equality(small: bool) -> Iterator[Figure]:
    X, y = make(20_000, 300)
    n, worst = len(y), dict.fromkeys(("chi2", "mutual_information", "information_value"), 0.0)
    for score, x, labels in tables(X, y, "chi2"):
        bins = len(np.unique(x))
        statistic = stats.chi2_contingency(pd.crosstab(x, labels), correction=False).statistic
        ours = n * (score * abs(score) + (bins - 1) / (n - 1))
        worst["chi2"] = max(worst["chi2"], abs(ours / statistic - 1))
    for score, x, labels in tables(X, y, "mutual_information"):
        bins, cells = len(np.unique(x)), len(np.unique(2 * x + labels))
        other = mutual_info_score(x, labels) - (cells - bins - 1) / (2 * n)
        worst["mutual_information"] = max(worst["mutual_information"], abs(score - other))
    for score, x, labels in tables(X, y, "information_value"):
        difference = abs(score - information_value(x, labels))
        worst["information_value"] = max(worst["information_value"], difference)
    peers = "scipy.stats.chi2_contingency", "sklearn.metrics.mutual_info_score", "a direct computation"
    for (name, difference), peer in zip(worst.items(), peers, strict=True):
        label = f"`{name}`: largest difference from {peer}"
        yield Figure(label, f"{difference:.0e}", "≤ 1e-12", difference <= 1e-12)


def stability(small: bool) -> Iterator[Figure]:
    X, y = make(20_000, 60)
    month = np.arange(len(y)) % 4
    result = screen(X, y, Plan.exact(*X.shape, 60), statistic="chi2", by=month)
    worst = 0.0
    for j, (_, x, _) in enumerate(tables(X, y, "chi2")):
        for other in (1, 2, 3):
            rows = (month == 0) | (month == other)
            difference = abs(result.annotations[f"psi {other}"][j] - information_value(x[rows], month[rows]))
            worst = max(worst, difference)
    yield Figure("population stability index: largest difference", f"{worst:.0e}", "≤ 1e-12", worst <= 1e-12)


def speed(small: bool) -> Iterator[Figure]:
    n, p = (100_000, 1_000) if small else (1_000_000, 1_000)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, p), dtype=np.float32), rng.random(n) < 0.1
    plan = Plan.exact(n, p, 10)
    for layout, array in (("by row", X), ("by column", np.asfortranarray(X))):
        best = interleaved(
            5,
            chi2=lambda array=array: screen(array, y, plan, statistic=Chi2(n_bins=16)),
            pearson=lambda array=array: screen(array, y, plan, statistic="pearson"),
        )
        label = f"`chi2` with 16 bins, {n:,} × {p:,} float32 {layout}: times as long as Pearson"
        yield at_most(f"{label} ({best['chi2']:.2f} s)", best["chi2"] / best["pearson"], 4, "×")


def against_sklearn(small: bool) -> Iterator[Figure]:
    """Scikit-learn takes the same time for each feature, so it computes few of them."""
    n, p, some = (20_000, 500, 5) if small else (100_000, 500, 10)
    X, y = make(n, p)
    best = interleaved(3, ours=lambda: screen(X, y, Plan.exact(n, p, 10), statistic="mutual_information"))
    started = time.perf_counter()
    mutual_info_classif(X[:, :some], y, discrete_features=False, n_jobs=-1)
    theirs = (time.perf_counter() - started) / some * p
    label = f"`mutual_information`, {n:,} × {p:,}: times as fast as mutual_info_classif on all cores"
    yield at_least(label, theirs / best["ours"], 30, "×")


def null_pvalues(small: bool) -> Iterator[Figure]:
    """Features that are independent of rare classes, some with a rare bin or few bins."""
    p, worst, n_known, n_all = 4_000, 0.0, 0, 0
    for seed, (n, events, rare) in enumerate(((200, 5, 2), (200, 50, 20), (5_000, 20, 50), (5_000, 500, 50))):
        rng = np.random.default_rng(seed)
        order = np.argsort(rng.random((n, 3 * p)), axis=0)
        X = np.hstack([order[:, :p], order[:, p : 2 * p] < rare, order[:, 2 * p :] * 3 // n])
        pvalues = screen(X, np.arange(n) < events, Plan.exact(n, 3 * p, 1), statistic="chi2").pvalues
        for group in np.split(pvalues, 3):
            worst = max(worst, float(np.mean(group <= 0.05)))
            n_known, n_all = n_known + int((~np.isnan(group)).sum()), n_all + p
    limit = 0.05 + 2 * np.sqrt(0.05 * 0.95 / 1000)
    label = (
        f"`chi2`: largest share of p ≤ 5% in 12 groups of {p:,} null features ({n_known / n_all:.0%} have p)"
    )
    yield Figure(label, f"{worst:.2%}", f"≤ {limit:.2%}", worst <= limit)


GROUPS = {
    "equality": equality,
    "stability": stability,
    "pvalues": null_pvalues,
    "sklearn": against_sklearn,
    "speed": speed,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--small", action="store_true", help="small sizes, for a trial run")
    args = parser.parse_args()
    figures = collect(figure for name in args.only for figure in GROUPS[name](args.small))
    sys.exit(0 if all(figure.met for figure in figures) else 1)


if __name__ == "__main__":
    main()
