"""Rank and distance statistics: agreement with references, speed, and power for non-linear effects.

python benchmarks/sample_statistics.py [--write docs/statistics.md] [--only NAME …] [--small]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dcor
import numpy as np

from banditsis import SIS, BanditSIS, Plan, screen
from banditsis.results import has_pvalues, selection_mask
from reporting import Figure, at_least, replace_between
from timing import interleaved

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
from sample_references import REFERENCES, scores  # noqa: E402

TABLE = "<!-- non-linear truths: written by benchmarks/sample_statistics.py -->"

FIRST_TABLE = "<!-- ranked first: written by benchmarks/sample_statistics.py -->"


def differences(name: str) -> float:
    """Return the largest difference from the reference, on random data with ties, constants and tiny n."""
    worst = 0.0
    for seed, n in enumerate((3, 4, 5, 8, 13, 50, 100, 500)):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, 6))
        X[:, 1:3] = np.round(X[:, 1:3])
        X[:, 3], X[:, 4] = 0.1, X[:, 4] + 1e4
        y = X[:, 0] ** 2 + X[:, 1] + rng.standard_normal(n)
        for response in (y, np.round(y)):
            if np.ptp(response) > 0:
                result = screen(X, response, Plan.exact(n, 6, 6), statistic=name)
                expected = scores(name, X, response.astype(float))
                power = 2 if name == "distance" else 1  # a square root magnifies rounding errors near 0
                worst = max(worst, float(np.abs(result.scores**power - expected**power).max()))
    return worst


def equality(small: bool) -> Iterator[Figure]:
    for name in REFERENCES:
        worst = differences(name)
        label = f"`{name}`: largest difference from its reference (ties, constants, tiny n)"
        yield Figure(label, f"{worst:.0e}", "≤ 1e-9", worst <= 1e-9)


def fastest_dcor(x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    """Return a call of dcor with its fastest compiled method for these rows."""
    calls = {
        method: lambda method=method: dcor.distance_correlation(
            x, y, method=method, compile_mode=dcor.CompileMode.COMPILE_CPU
        )
        for method in ("avl", "mergesort")
    }
    best = interleaved(2, **calls)
    return calls[min(best, key=best.__getitem__)]


def against_dcor(small: bool) -> Iterator[Figure]:
    n, p = 5_000, 100
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    y = X[:, 0] ** 2 + rng.standard_normal(n)
    best = interleaved(
        5,
        theirs=fastest_dcor(X[:, 0].copy(), y),
        ours=lambda: SIS(10, statistic="distance", n_jobs=1).fit(X, y),
        threads=lambda: SIS(10, statistic="distance").fit(X, y),
    )
    for key, threads in (("ours", "one thread"), ("threads", "all cores")):
        label = f"`distance`, exact, n = 5,000, {threads}: times as fast as dcor, per feature"
        yield at_least(label, best["theirs"] * p / best[key], 5, "×")


def adaptive_against_dcor(small: bool) -> Iterator[Figure]:
    n, p, d = (20_000, 500, 50) if small else (100_000, 2_000, 50)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, p), dtype=np.float32)
    active = rng.choice(p, 10, replace=False)
    y = (X[:, active].astype(np.float64) ** 2).sum(axis=1) + rng.standard_normal(n)
    selector = BanditSIS(d, statistic="distance", random_state=0)
    ours = interleaved(3, fit=lambda: selector.fit(X, y))["fit"]
    columns = [X[:, j].astype(np.float64) for j in range(20)]
    run = fastest_dcor(columns[0], y)
    method = "avl" if run.__defaults__ == ("avl",) else "mergesort"
    started = time.perf_counter()
    for x in columns:
        dcor.distance_correlation(x, y, method=method, compile_mode=dcor.CompileMode.COMPILE_CPU)
    theirs = (time.perf_counter() - started) / 20 * p
    label = f"`distance`, BanditSIS, n = {n:,}, p = {p:,}: times as fast as exact by dcor"
    yield at_least(f"{label} ({ours * 1e3:.0f} ms)", theirs / ours, 300, "×")
    kept = len(set(active) & set(selector.get_support(indices=True)))
    yield Figure("… of 10 features with a quadratic effect kept", f"{kept}", "10", kept == 10)


def adaptive_against_exact(small: bool) -> Iterator[Figure]:
    n, p, d = (20_000, 500, 50) if small else (50_000, 2_000, 50)
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, p), dtype=np.float32)
    y = X[:, 0] + np.abs(X[:, 1]) + rng.standard_normal(n)
    for name in REFERENCES:
        exact, bandit = SIS(d, statistic=name), BanditSIS(d, statistic=name, random_state=0)
        best = interleaved(
            3,
            exact=lambda exact=exact: exact.fit(X, y),
            bandit=lambda bandit=bandit: bandit.fit(X, y),
        )
        label = f"`{name}`, BanditSIS, n = {n:,}, p = {p:,} ({best['bandit'] * 1e3:.0f} ms)"
        yield at_least(f"{label}: times as fast as exact", best["exact"] / best["bandit"], 20, "×")


# Power for non-linear effects


def quadratic(X: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return (X[:, :4] ** 2).sum(axis=1) + 4 * noise


def sine(X: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return 2 * np.sin(10 * X[:, :2]).sum(axis=1) + noise


def heteroscedastic(X: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return np.exp(0.25 * X[:, :4].sum(axis=1)) * noise


def interaction(X: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return np.abs(X[:, 0]) * np.sign(X[:, 1]) + np.abs(X[:, 2]) * np.sign(X[:, 3]) + 1.5 * noise


#: Model, number of active features, and formula.
TRUTHS = {
    "quadratic": (quadratic, 4, "y = x₁² + x₂² + x₃² + x₄² + 4ε"),
    "sine": (sine, 2, "y = 2 sin 10x₁ + 2 sin 10x₂ + ε"),
    "heteroscedastic": (heteroscedastic, 4, "y = exp((x₁ + x₂ + x₃ + x₄) / 4) ε"),
    "interaction with sign": (interaction, 4, "y = sign(x₂) abs(x₁) + sign(x₄) abs(x₃) + 1.5ε"),
}
STATISTICS = ("distance", "chatterjee", "spearman", "kendall", "pearson")


def truths(replications: int, n: int = 2_000, p: int = 1_000, d: int = 100) -> dict[str, dict[str, float]]:
    """Return the share of runs in which exact screening keeps all active features."""
    shares = {truth: dict.fromkeys(STATISTICS, 0.0) for truth in TRUTHS}
    plan = Plan.exact(n, p, d)
    for seed in range(replications):
        rng = np.random.default_rng(seed)
        X, noise = rng.standard_normal((n, p)), rng.standard_normal(n)
        for truth, (model, active, _) in TRUTHS.items():
            for name in STATISTICS:
                result = screen(X, model(X, noise), plan, statistic=name)
                shares[truth][name] += selection_mask(result)[:active].all() / replications
    return shares


def truths_table(shares: dict[str, dict[str, float]], replications: int) -> str:
    lines = [
        f"Share of {replications} runs in which all active features are among the best 100 of 1,000, with",
        "2,000 rows. Features and ε are standard normal. The noise levels and frequencies of the four models",
        "were chosen to show differences between the methods, so the table is only an illustration.",
        "",
        "| truth | " + " | ".join(f"`{name}`" for name in STATISTICS) + " |",
        "|---|" + "---|" * len(STATISTICS),
    ]
    for truth, row in shares.items():
        cells = " | ".join(f"{row[name]:.0%}" for name in STATISTICS)
        lines.append(f"| {truth}: {TRUTHS[truth][2]} | {cells} |")
    return "\n".join(lines)


def non_linear(small: bool) -> Iterator[Figure]:
    replications = 5 if small else 100
    table = truths_table(truths(replications), replications)
    write_table(TABLE, table)
    yield from ()


def write_table(marker: str, table: str) -> None:
    """Print a table, and write it between two markers of a file if asked to."""
    print(table, end="\n\n")
    if WRITE:
        replace_between(ROOT / WRITE, marker, table)


#: Response as a function of the associated feature and noise, and formula.
ASSOCIATIONS = {
    "linear": (lambda x, noise: 0.25 * x + noise, "y = 0.25x + ε"),
    "quadratic": (lambda x, noise: 0.35 * x**2 + noise, "y = 0.35x² + ε"),
    "sinusoidal": (lambda x, noise: np.sin(4 * x) + 0.7 * noise, "y = sin 4x + 0.7ε"),
}


def ranked_first(small: bool) -> Iterator[Figure]:
    """Share of runs in which the associated feature ranks first among 200 others that are noise."""
    replications, n, p = 10 if small else 400, 300, 201
    lines = [
        f"Percentage of {replications} runs that rank the associated feature first, before 200 features of",
        f"noise, with {n} rows. Features and ε are standard normal. Made by",
        "`python benchmarks/sample_statistics.py --only first --write docs/statistics.md`.",
        "",
        "| Association | " + " | ".join(f"`{name}`" for name in STATISTICS) + " |",
        "|---|" + "---|" * len(STATISTICS),
    ]
    data = [np.random.default_rng(seed).standard_normal((n, p + 1)) for seed in range(replications)]
    for association, (model, formula) in ASSOCIATIONS.items():
        cells = []
        for name in STATISTICS:
            plan = Plan.exact(n, p, 1)
            first = [
                screen(Z[:, :p], model(Z[:, 0], Z[:, p]), plan, statistic=name).selected[0] for Z in data
            ]
            cells.append(f"{np.mean(np.equal(first, 0)):.0%}")
        lines.append(f"| {association}: {formula} | {' | '.join(cells)} |")
    write_table(FIRST_TABLE, "\n".join(lines))
    yield from ()


def null_pvalues(small: bool) -> Iterator[Figure]:
    """Kolmogorov-Smirnov test that p-values of features independent of the response are uniform."""
    from scipy.stats import kstest

    n, p = 1_000, 10_000 if small else 100_000
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((n, p), dtype=np.float32), rng.standard_normal(n)
    for name in REFERENCES:
        result = screen(X, y, Plan.exact(n, p, 10), statistic=name)
        if has_pvalues(result):
            label = f"`{name}`: p-values of {p:,} null features, Kolmogorov's test of uniformity"
            yield at_least(label, kstest(result.pvalues, "uniform").pvalue, 0.01)


GROUPS = {
    "equality": equality,
    "dcor": against_dcor,
    "adaptive-dcor": adaptive_against_dcor,
    "adaptive": adaptive_against_exact,
    "pvalues": null_pvalues,
    "truths": non_linear,
    "first": ranked_first,
}
WRITE: str | None = None


def main() -> None:
    global WRITE
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", metavar="FILE", help="file to write the tables of power to")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--small", action="store_true", help="small sizes, for a trial run")
    args = parser.parse_args()
    WRITE = args.write
    met = True
    for name in args.only:
        for figure in GROUPS[name](args.small):
            print(
                f"{'✓' if figure.met else '✗'} {figure.what}: {figure.measured} (goal {figure.goal})",
                flush=True,
            )
            met &= figure.met
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
