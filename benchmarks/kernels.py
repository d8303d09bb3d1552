"""Kernels that could lag behind plain Pearson screening, as ratios within one run.

python benchmarks/kernels.py [--only NAME …] [--small]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import stdtr

from banditsis import Plan, screen
from banditsis.statistics.null_distributions import BetaNull
from reporting import Figure, at_most, collect, machine, table
from screening import ORDERS, make
from timing import interleaved


def pvalues(small: bool) -> Iterator[Figure]:
    """P-values of 100,000 features, against Student's t of as many."""
    n, p = 5_000, 100_000
    rng = np.random.default_rng(0)
    t = rng.standard_normal(p)
    strong = rng.random(p) < 0.1
    for label, between in (("Student's t", 1.0), ("F, 3 classes", 2.0), ("F, 10 classes", 9.0)):
        share = rng.chisquare(between, p) / n
        null, usual = BetaNull(n - 1 - between, between), np.sqrt(share)
        mixed = np.sqrt(np.where(strong, rng.uniform(0, 0.9, p), share))
        best = interleaved(
            7,
            theirs=lambda: stdtr(n - 2.0, t),
            null=lambda null=null, r=usual: null.log10_pvalues(r),
            mixed=lambda null=null, r=mixed: null.log10_pvalues(r),
        )
        label = f"p-values of 100,000 features, {label}"
        yield at_most(f"{label}: time of `scipy.special.stdtr`", best["null"] / best["theirs"], 2, "×")
        yield at_most(f"{label}, 10% associated: the same", best["mixed"] / best["theirs"], 2, "×")


def layouts(small: bool) -> Iterator[Figure]:
    """Column-major against row-major data."""
    n, p = (20_000, 2_000) if small else (100_000, 4_000)
    rows, y = make(n, p, "float32")
    columns, plan = np.asfortranarray(rows), Plan.exact(n, p, 20)
    rng = np.random.default_rng(1)
    cases = {f"`anova`, {k} classes": {"y": rng.integers(0, k, n), "statistic": "anova"} for k in (3, 10)}
    cases |= {f"{k} covariates": {"y": y, "covariates": rng.standard_normal((n, k))} for k in (3, 10)}
    for label, options in cases.items():
        best = interleaved(
            7,
            rows=lambda options=options: screen(rows, keep=plan, **options),
            columns=lambda options=options: screen(columns, keep=plan, **options),
        )
        label = f"{label}, {n:,} × {p:,} float32: column-major against row-major"
        yield at_most(label, best["columns"] / best["rows"], 1.5, "×")


def covariates(small: bool) -> Iterator[Figure]:
    """Covariates and score tests against plain Pearson."""
    n, p = (20_000, 5_000) if small else (100_000, 10_000)
    X, y = make(n, p, "float32")
    Z = np.random.default_rng(1).standard_normal((n, 10))
    plan = Plan.exact(n, p, 100)
    best = interleaved(
        7,
        plain=lambda: screen(X, y, plan),
        given=lambda: screen(X, y, plan, covariates=Z),
        logistic=lambda: screen(X, y > 0, plan, statistic="logistic"),
    )
    label = f"{n:,} × {p:,} float32, row-major: time against plain Pearson"
    yield at_most(f"10 covariates, exact, {label}", best["given"] / best["plain"], 2.2, "×")
    yield at_most(
        f"`logistic` without covariates, exact, {label}", best["logistic"] / best["plain"], 1.2, "×"
    )


def halves(small: bool) -> Iterator[Figure]:
    """float16 against float32."""
    n, p = (20_000, 2_000) if small else (100_000, 4_000)
    plan = Plan.exact(n, p, 20)
    for order, label in ORDERS.items():
        X, y = make(n, p, "float32", order)
        half = X.astype(np.float16, order="K")
        best = interleaved(9, single=lambda: screen(X, y, plan), half=lambda: screen(half, y, plan))  # noqa: B023
        label = f"exact SIS, {n:,} × {p:,}, {label}: float16 against float32"
        yield at_most(label, best["half"] / best["single"], 1.5, "×")


def frames(small: bool) -> Iterator[Figure]:
    """A pandas frame with columns of four dtypes against one of float64."""
    rng = np.random.default_rng(0)
    for n, p in ((20_000, 100),) if small else ((1_000_000, 60), (100_000, 400)):
        X = rng.standard_normal((n, p))
        y, plan, dtypes = X[:, 0] + rng.standard_normal(n), Plan.exact(n, p, 20), ("f8", "f4", "i4", "i8")
        uniform = pd.DataFrame(X, columns=[f"c{k}" for k in range(p)])
        mixed = pd.DataFrame({f"c{k}": (9 * X[:, k]).astype(dtypes[k % 4]) for k in range(p)})
        best = interleaved(
            7,
            uniform=lambda: screen(uniform, y, plan),  # noqa: B023
            mixed=lambda: screen(mixed, y, plan),  # noqa: B023
        )
        label = f"exact SIS, pandas frame, {n:,} × {p:,}: four dtypes against one"
        yield at_most(label, best["mixed"] / best["uniform"], 3, "×")


PARTS = {f.__name__: f for f in (pvalues, layouts, covariates, halves, frames)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    figures = collect(figure for name in options.only for figure in PARTS[name](options.small))
    print(f"\n{table(figures)}\n\nMeasured by `make bench-kernels` on {machine()}; best of several turns.")


if __name__ == "__main__":
    main()
