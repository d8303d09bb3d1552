"""Moment statistics: equality with references, price of covariates, p-values under the null, hidden features.

python benchmarks/moment_statistics.py [--only NAME …] [--small]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
import statsmodels.api as sm
from scipy import stats

from banditsis import SIS, IterativeSIS, Plan, screen
from screening import Figure, at_least, at_most, make, table
from timing import interleaved

TESTED = ("pearson", "anova", "logistic", "poisson", "cox")


def responses(predictor: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A response for each statistic, with ties where they can be."""
    n = len(predictor)
    noisy = predictor + rng.standard_normal(n)
    return {
        "pearson": noisy,
        "anova": np.digitize(noisy, [-0.5, 0.5]),
        "logistic": (rng.random(n) < 1 / (1 + np.exp(-predictor))).astype(float),
        "poisson": rng.poisson(np.exp(predictor)).astype(float),
        "cox": np.column_stack([np.ceil(50 * rng.exponential(np.exp(-predictor))), rng.random(n) < 0.7]),
    }


def chi2(statistic: str, x: np.ndarray, y: np.ndarray, Z: np.ndarray) -> float:
    """The test statistic as statsmodels has it: F × its first degrees of freedom, t², or the score test."""
    if statistic == "cox":
        at = np.zeros(1 + Z.shape[1])
        if Z.size:
            null = sm.PHReg(y[:, 0], Z, y[:, 1], ties="breslow")
            at[1:] = null.fit().params
            for _ in range(3):  # its optimiser stops early: a few steps of Newton's to the last digits
                at[1:] -= np.linalg.solve(null.hessian(at[1:]), null.score(at[1:]))
        model = sm.PHReg(y[:, 0], np.column_stack([x, Z]), y[:, 1], ties="breslow")
        slope, information = model.score(at)[0], -model.hessian(at)
        return float(slope**2 * np.linalg.inv(information)[0, 0])
    null = np.column_stack([np.ones(len(x)), Z])
    if statistic in ("pearson", "anova"):
        added = y[:, None] if statistic == "pearson" else np.eye(3)[y][:, :2]
        small, large = sm.OLS(x, null).fit(), sm.OLS(x, np.column_stack([null, added])).fit()
        return float(1 - large.ssr / small.ssr) * len(x)
    family = sm.families.Binomial() if statistic == "logistic" else sm.families.Poisson()
    return float(
        np.squeeze(sm.GLM(y, null, family=family).fit(tol=1e-14).score_test(exog_extra=x[:, None])[0])
    )


def equality(small: bool) -> Iterator[Figure]:
    """Largest difference of |score| on random, tied and tiny data, with covariates and without."""
    for statistic in TESTED:
        worst, count = 0.0, 0
        for seed, n in enumerate((30, 200, 1000) if small else (30, 60, 200, 1000, 3000)):
            rng = np.random.default_rng(seed)
            z = rng.standard_normal((n, 2))
            X = rng.standard_normal((n, 8)) + 0.3 * z[:, [0]]
            X[:, 4:6], X[:, 7] = np.round(X[:, 4:6]), 1.0
            y = responses(0.4 * z[:, 0] + 0.3 * X[:, 0], rng)[statistic]
            for given in (z[:, :0], z):
                found = screen(
                    X, y, Plan.exact(n, 8, 4), statistic=statistic, covariates=given if given.size else None
                )
                expected = [np.sqrt(chi2(statistic, X[:, j], y, given) / n) for j in range(7)]
                worst = max(worst, float(np.abs(np.abs(found.scores[:7]) - expected).max()))
                worst, count = max(worst, abs(float(found.scores[7]))), count + 8
        label = (
            f"`{statistic}` against statsmodels, {count} features with ties, constants, tiny n, covariates"
        )
        yield Figure(f"{label}: largest difference", f"{worst:.1e}", "≤ 1e-09", worst <= 1e-9)


def covariates(small: bool) -> Iterator[Figure]:
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
    yield at_most(f"10 covariates, exact, {label}", best["given"] / best["plain"], 2, "×")
    yield at_most(
        f"`logistic` without covariates, exact, {label}", best["logistic"] / best["plain"], 1.2, "×"
    )


def null(small: bool) -> Iterator[Figure]:
    """P-values of features without effect: Kolmogorov's test of uniformity.

    Each thousand features have a response of their own, since the law of a score test is one over responses:
    given one response of 1,000 counts, whose variance is not quite its mean, all p-values err the same way.
    """
    n, p, times = 1000, 1000, 10 if small else 100
    rng = np.random.default_rng(0)
    found: dict[str, list[np.ndarray]] = {}
    for _ in range(times):
        X, z = rng.standard_normal((n, p), dtype=np.float32), rng.standard_normal((n, 3))
        for given in (None, z):
            ys = responses(np.zeros(n) if given is None else 0.4 * z[:, 0], rng)
            for statistic in TESTED:
                result = screen(X, ys[statistic], Plan.exact(n, p, 5), statistic=statistic, covariates=given)
                label = f"`{statistic}`{'' if given is None else ' given 3 covariates'}"
                found.setdefault(label, []).append(result.pvalues)
    for label, parts in found.items():
        value = float(stats.kstest(np.concatenate(parts), "uniform").pvalue)
        yield at_least(
            f"{label}, {p * times:,} null features: Kolmogorov's test of uniform p-values", value, 0.01
        )


def hidden(small: bool) -> Iterator[Figure]:
    """Fan and Lv's example: X4 has no correlation with y, which depends on it most."""
    n, p, rho, runs = 200, 1000, 0.5, 20 if small else 200
    found = {"SIS": 0, "IterativeSIS": 0}
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        common = rng.standard_normal(n)
        X = np.sqrt(rho) * common[:, None] + np.sqrt(1 - rho) * rng.standard_normal((n, p))
        X[:, 3] = common
        y = 5 * X[:, :3].sum(axis=1) - 15 * np.sqrt(rho) * common + rng.standard_normal(n)
        for selector in (SIS(37), IterativeSIS(37)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the lasso's, on its way to convergence
                found[type(selector).__name__] += int(selector.fit(X, y).get_support()[3])
    label = f"hidden feature among {p:,}, n={n}, {runs} runs: share of runs that find it,"
    yield at_least(f"{label} `IterativeSIS`", found["IterativeSIS"] / runs, 0.95)
    yield at_most(f"{label} `SIS`", found["SIS"] / runs, 0.05)


PARTS = {f.__name__: f for f in (equality, covariates, null, hidden)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.only:
        for figure in PARTS[name](options.small):
            figures.append(figure)
            print(
                f"{figure.what}: {figure.measured} ({figure.goal}) {'' if figure.met else 'MISSED'}",
                flush=True,
            )
    print("\n" + table(figures))


if __name__ == "__main__":
    main()
