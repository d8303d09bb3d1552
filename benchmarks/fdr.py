"""False discoveries of ``select(fdr=0.05)`` where no feature is associated, and power for normal data.

python benchmarks/fdr.py [--runs 500] [--only NAME …] [--write benchmarks/README.md] [--page docs/pvalues.md]

Without association every discovery is false, so the false discovery rate is the share of runs with a selected
feature. It is measured for the usual p-values (Student's t, F, χ²) and for those of the result, which correct
the usual ones for skewed and heavy-tailed data and for overdispersed counts. Power is the share of ten weak
features that are selected.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from banditsis import SIS, ScreeningResult
from banditsis.statistics.null_distributions import BetaNull, CorrectedNull, NormalNull, reject_nulls
from reporting import replace_between

N, P, LEVEL = 1000, 1000, 0.05
N_WEAK, WEAK = 10, 0.13
MARKER = "<!-- false discoveries: written by benchmarks/fdr.py -->"
#: The cases on the page of the documentation.
SHOWN = (
    "allele frequency 2%",
    "both t with 3",
    "counts with 5 times",
    "both normal",
    "`logistic`, n = 100, lognormal features that depend on one",
    "`poisson`, n = 100, lognormal features that depend on the",
    "`cox`, n = 400, lognormal",
    "`spearman`, 10 rows",
)

#: The statistic, the features, the response, and covariates if there are any.
Data = tuple[Any, ...]
Generator = np.random.Generator


def genotypes(rng: Generator) -> np.ndarray:
    """Counts 0, 1 and 2 of an allele with frequency 2%."""
    return (rng.random((N, P), np.float32) < 0.02).view(np.int8) + (
        rng.random((N, P), np.float32) < 0.02
    ).view(np.int8)


def rare_cases(rng: Generator) -> Data:
    return "logistic", genotypes(rng), rng.random(N) < 0.05


def rare_classes(rng: Generator) -> Data:
    return "anova", genotypes(rng), rng.choice(3, N, p=[0.03, 0.07, 0.9])


def rare_events(rng: Generator) -> Data:
    time, censoring = rng.exponential(size=N), rng.exponential(1 / 9, N)
    return "cox", genotypes(rng), np.column_stack([np.minimum(time, censoring), time < censoring])


def heavy_tails(rng: Generator) -> Data:
    return "pearson", rng.standard_t(3, (N, P)), rng.standard_t(3, N)


def overdispersed(rng: Generator) -> Data:
    return "poisson", rng.standard_normal((N, P)), rng.negative_binomial(0.5, 0.2, N)


def normal(rng: Generator) -> Data:
    return "pearson", rng.standard_normal((N, P)), rng.standard_normal(N)


def rare_feature(rng: Generator) -> Data:
    return "pearson", (rng.random((N, P), np.float32) < 0.01).view(np.int8), rng.standard_normal(N)


def weak_signals(rng: Generator) -> Data:
    X = rng.standard_normal((N, P))
    return "pearson", X, WEAK * X[:, :N_WEAK].sum(axis=1) + rng.standard_normal(N)


def adjusted(
    statistic: str, n: int, n_covariates: int = 1, skewed: bool = True
) -> Callable[[Generator], Data]:
    """Features and the response depend on the first covariate alone."""

    def draw(rng: Generator) -> Data:
        Z = rng.standard_normal((n, n_covariates))
        X = Z[:, :1] + rng.standard_normal((n, P))
        if statistic == "cox":
            time, censoring = rng.exponential(np.exp(-Z[:, 0])), rng.exponential(size=n)
            y = np.column_stack([np.minimum(time, censoring), time <= censoring])
        elif statistic == "poisson":  # large features are in rows with few counts
            y = rng.poisson(0.5 * np.exp(-Z[:, 0]))
        else:
            y = rng.random(n) < 1 / (1 + np.exp(-Z[:, 0]))
        return statistic, np.exp(X) if skewed else X, y, Z

    draw.__name__ = f"{statistic}_{n}_{n_covariates}_{'lognormal' if skewed else 'normal'}"
    return draw


def ranked(statistic: str, kind: str) -> Callable[[Generator], Data]:
    """Data with equal values, or few rows without them, for a rank statistic."""

    def draw(rng: Generator) -> Data:
        if kind == "rare":
            return statistic, genotypes(rng), (rng.random(N) < 0.05) * 1.0
        if kind == "zeros":
            x, y = ((rng.random(size) < 0.1) * rng.geometric(0.3, size) for size in ((N, P), N))
            return statistic, x.astype(np.float32), y * 1.0
        if kind == "rounded":
            return (
                statistic,
                rng.integers(0, N, (N, P)).astype(np.float32),
                np.round(2 * rng.standard_normal(N)),
            )
        return statistic, rng.standard_normal((int(kind), 10 * P)), rng.standard_normal(int(kind))

    draw.__name__ = f"{statistic}_{kind}"
    return draw


CASES: dict[str, Callable[[Generator], Data]] = {
    "`logistic`, 5% cases, allele frequency 2%": rare_cases,
    "`anova`, classes of 3%, 7% and 90%, allele frequency 2%": rare_classes,
    "`cox`, 10% events, allele frequency 2%": rare_events,
    "`pearson`, both t with 3 degrees of freedom": heavy_tails,
    "`poisson`, counts with 5 times their mean as variance": overdispersed,
    "`pearson`, both normal": normal,
    "`pearson`, normal response, binary feature of 1%": rare_feature,
    **{
        f"`{statistic}`, n = {n}, {shape} features that depend on {'the' if k == 1 else f'one of {k}'} "
        f"covariate{'s' * (k > 1)}": adjusted(statistic, n, k, shape == "lognormal")
        for statistic in ("logistic", "poisson", "cox")
        for n, k in ((50, 1), (100, 1), (100, 2), (400, 4))
        for shape in ("normal", "lognormal")
    },
    **{
        f"`{statistic}`, {words}": ranked(statistic, kind)
        for kind, words in {
            "rare": "5% cases, allele frequency 2%",
            "zeros": "counts, 90% zeros",
            "rounded": "both with equal values",
        }.items()
        for statistic in ("spearman", "kendall", "chatterjee")
    },
    **{
        f"`{statistic}`, {n} rows, p = {10 * P:,}": ranked(statistic, str(n))
        for n in (10, 15, 20, 30)
        for statistic in ("spearman", "kendall")
    },
    "power: `pearson`, both normal, r = 0.12": weak_signals,
}


def select_as_usual(result: ScreeningResult) -> np.ndarray:
    """Select by Student's t, F or χ² alone."""
    null = result.evidence.null_distribution
    if result.parameters["statistic"] == "poisson":
        null = NormalNull(np.sqrt(result.n_rows))
    elif result.parameters["statistic"] == "spearman":
        null = BetaNull(result.n_rows - 2.0)
    elif isinstance(null, CorrectedNull):
        null = null.usual
    assert null is not None
    return reject_nulls(null.log10_pvalues(result.scores), LEVEL, "bh")


def measure(draw: Callable[[Generator], Data], runs: int) -> tuple[float, float, float]:
    """Share of runs with a selection (or of weak features selected) as usual and now, and of cells reread."""
    usual = now = reread = 0.0
    for seed in range(runs):
        statistic, X, y, *given = draw(np.random.default_rng(seed))
        covariates = given[0] if given else None
        result = SIS(10, statistic=statistic, pvalues=True).fit(X, y, covariates=covariates).result_
        chosen = select_as_usual(result), result.select(LEVEL)
        if draw is weak_signals:
            before, after = (np.count_nonzero(found < N_WEAK) / N_WEAK for found in chosen)
        else:
            before, after = (float(found.size > 0) for found in chosen)
        usual, now, reread = usual + before, now + after, reread + result.evidence.cells_reread / X.size
    return usual / runs, now / runs, reread / runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--only", nargs="+", choices=[draw.__name__ for draw in CASES.values()])
    parser.add_argument("--write", type=Path, help="Markdown file whose table is replaced")
    parser.add_argument("--page", type=Path, help="Markdown file whose table of the main cases is replaced")
    options = parser.parse_args()
    lines = [
        f"| n = {N:,}, p = {P:,}, {options.runs:,} runs | usual | corrected | reread |",
        "|---|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    for name, draw in CASES.items():
        if options.only is None or draw.__name__ in options.only:
            usual, now, reread = measure(draw, options.runs)
            lines.append(f"| {name} | {usual:.1%} | {now:.1%} | {reread:.1%} |")
            print(lines[-1], flush=True)
    if options.write is not None:
        replace_between(options.write, MARKER, "\n".join(lines))
    if options.page is not None:
        shown = [line for line in lines[2:] if any(case in line for case in SHOWN)]
        replace_between(options.page, MARKER, "\n".join(lines[:2] + shown))


if __name__ == "__main__":
    main()
