"""Moment statistics: agreement with statsmodels, null p-values, hidden features.

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
from reporting import Figure, at_least, at_most, collect, table

TESTED = ("pearson", "anova", "logistic", "poisson", "cox")


def responses(predictor: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return a response for each statistic, with ties where possible."""
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
    """Compute the test statistic with statsmodels: n times the partial R², or the score test."""
    if statistic == "cox":
        params = np.zeros(1 + Z.shape[1])
        if Z.size:
            null = sm.PHReg(y[:, 0], Z, y[:, 1], ties="breslow")
            params[1:] = null.fit().params
            for _ in range(3):  # Newton steps to full precision, because its optimiser stops early
                params[1:] -= np.linalg.solve(null.hessian(params[1:]), null.score(params[1:]))
        model = sm.PHReg(y[:, 0], np.column_stack([x, Z]), y[:, 1], ties="breslow")
        slope, information = model.score(params)[0], -model.hessian(params)
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
    """Largest difference of |score| on random, tied and tiny data, with and without covariates."""
    for statistic in TESTED:
        worst, count = 0.0, 0
        for seed, n in enumerate((30, 200, 1000) if small else (30, 60, 200, 1000, 3000)):
            rng = np.random.default_rng(seed)
            z = rng.standard_normal((n, 2))
            X = rng.standard_normal((n, 8)) + 0.3 * z[:, [0]]
            X[:, 4:6], X[:, 7] = np.round(X[:, 4:6]), 1.0
            y = responses(0.4 * z[:, 0] + 0.3 * X[:, 0], rng)[statistic]
            for adjusted in (z[:, :0], z):
                Z = adjusted if adjusted.size else None
                result = screen(X, y, Plan.exact(n, 8, 4), statistic=statistic, covariates=Z)
                expected = [np.sqrt(chi2(statistic, X[:, j], y, adjusted) / n) for j in range(7)]
                worst = max(worst, float(np.abs(np.abs(result.scores[:7]) - expected).max()))
                worst, count = max(worst, abs(float(result.scores[7]))), count + 8
        label = (
            f"`{statistic}` against statsmodels, {count} features with ties, constants, tiny n, covariates"
        )
        yield Figure(f"{label}: largest difference", f"{worst:.1e}", "≤ 1e-09", worst <= 1e-9)


def null(small: bool) -> Iterator[Figure]:
    """Kolmogorov-Smirnov test that p-values of null features are uniform.

    Each thousand features have their own response, because the null distribution of a score test averages
    over responses. For one response of 1,000 counts the variance is not exactly the mean, so all p-values
    have an error in the same direction.
    """
    n, p, times = 1000, 1000, 10 if small else 100
    rng = np.random.default_rng(0)
    pvalues: dict[str, list[np.ndarray]] = {}
    for _ in range(times):
        X, z = rng.standard_normal((n, p), dtype=np.float32), rng.standard_normal((n, 3))
        for Z in (None, z):
            ys = responses(np.zeros(n) if Z is None else 0.4 * z[:, 0], rng)
            for statistic in TESTED:
                plan = Plan.exact(n, p, 5)
                result = screen(X, ys[statistic], plan, statistic=statistic, covariates=Z, pvalues=True)
                label = f"`{statistic}`{'' if Z is None else ' given 3 covariates'}"
                pvalues.setdefault(label, []).append(result.pvalues)
    for label, parts in pvalues.items():
        value = float(stats.kstest(np.concatenate(parts), "uniform").pvalue)
        yield at_least(
            f"{label}, {p * times:,} null features: Kolmogorov's test of uniform p-values", value, 0.01
        )


def hidden(small: bool) -> Iterator[Figure]:
    """Fan and Lv's example: X4 has the largest effect on y but is uncorrelated with it."""
    n, p, rho, runs = 200, 1000, 0.5, 20 if small else 200
    counts = {"SIS": 0, "IterativeSIS": 0}
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        common = rng.standard_normal(n)
        X = np.sqrt(rho) * common[:, None] + np.sqrt(1 - rho) * rng.standard_normal((n, p))
        X[:, 3] = common
        y = 5 * X[:, :3].sum(axis=1) - 15 * np.sqrt(rho) * common + rng.standard_normal(n)
        for selector in (SIS(37), IterativeSIS(37)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # convergence warnings of the lasso
                counts[type(selector).__name__] += int(selector.fit(X, y).get_support()[3])
    label = f"hidden feature among {p:,}, n={n}, {runs} runs: share of runs that find it,"
    yield at_least(f"{label} `IterativeSIS`", counts["IterativeSIS"] / runs, 0.95)
    yield at_most(f"{label} `SIS`", counts["SIS"] / runs, 0.05)


PARTS = {f.__name__: f for f in (equality, null, hidden)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    figures = collect(figure for name in options.only for figure in PARTS[name](options.small))
    print("\n" + table(figures))


if __name__ == "__main__":
    main()
