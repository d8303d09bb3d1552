"""Stratified against uniform sampling: what is kept, for how many cells and how much time.

python benchmarks/sampling.py [--runs 500] [--figure docs/figures/sampling.svg] [--write docs/guarantees.md]
"""

from __future__ import annotations

import argparse
import math
import tracemalloc
from bisect import bisect_left
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from banditsis import Plan, datasets, screen
from banditsis.engine.sampling import N_STRATA, find_strata
from banditsis.results import selection_mask
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Calibration
from banditsis.sources.blocks import BlockSource
from banditsis.statistics import Pearson
from reporting import Figure, at_least, at_most, collect, machine, replace_between, table
from timing import interleaved

N, P, D = 1000, 2000, 288
PRECISION = "rows as precise as 1,000 uniform rows: "
MARKER = "<!-- precision: written by benchmarks/sampling.py -->"
MODELS = (datasets.make_m1, datasets.make_m2, datasets.make_m3, datasets.make_m4)
#: Cells as shares of those of the paper's plan with α = 1.5, as printed.
SHARES = (0.5, 0.65, 0.8, 1.0, 1.3)
#: P of the four models, in lines, for each data set.
Percentages = np.ndarray


def as_printed(alpha: float) -> Plan:
    return Plan.paper(N, P, D, alpha)


def as_published(alpha: float) -> Plan:
    """Return the plan that reproduces the published tables: it drops a third and starts at α / 1.1."""
    return Plan.paper(N, P, D, alpha / 1.1, 1 / 3)


def keeps_all(model: int, seed: int) -> dict[tuple[str, float], bool]:
    """Return which plans keep all active features of one data set."""
    X, y, active = MODELS[model](N, P, seed)
    kept = {}
    run = partial(screen, X, y, random_state=seed, n_jobs=1, progress=False)
    for alpha in (1.5, 1.1):
        kept["printed", alpha] = selection_mask(run(as_printed(alpha)))[active].all()
        kept["published", alpha] = selection_mask(run(as_published(alpha)))[active].all()
    for share in SHARES:
        cells = int(share * as_printed(1.5).cells)
        for sampling in ("uniform", "stratified"):
            plan = partial(Plan.optimal, N, P, D, cells)
            result = run(lambda design, plan=plan: plan(design=design), sampling=sampling)
            kept[sampling, share] = selection_mask(result)[active].all()
    return kept


def all_percentages(runs: int) -> dict[tuple[str, float], Percentages]:
    """Return P of all plans for the four models."""
    found: dict[tuple[str, float], list] = {}
    with ProcessPoolExecutor() as pool:
        for model in range(4):
            for kept in pool.map(partial(keeps_all, model), range(runs), chunksize=10):
                for key, value in kept.items():
                    found.setdefault(key, [[] for _ in MODELS])[model].append(100.0 * value)
    return {key: np.array(values) for key, values in found.items()}


def mean_and_error(values: Percentages) -> tuple[float, float]:
    """Return the mean over models and data sets, and its standard error."""
    by_data_set = values.mean(axis=0)  # the models of one seed are independent
    return float(by_data_set.mean()), float(by_data_set.std() / math.sqrt(len(by_data_set)))


def paper_models(runs: int, figure: str | None) -> Iterator[Figure]:
    found = all_percentages(runs)
    cells = as_printed(1.5).cells
    for (name, setting), values in sorted(found.items()):
        mean, error = mean_and_error(values)
        models = "/".join(f"{value:.0f}" for value in values.mean(axis=1))
        print(f"  {name:>10} {setting:4}: {models}, mean {mean:.1f} ± {error:.1f}", flush=True)
    gain = found["stratified", 1.0] - found["printed", 1.5]
    mean, error = mean_and_error(gain)
    what = f"points of P above the paper as printed at the same cells (α = 1.5; ± {error:.1f})"
    yield at_least(what, mean, 18)
    for alpha in (1.5, 1.1):
        goal, error = mean_and_error(found["published", alpha])
        means = [mean_and_error(found["stratified", share])[0] for share in SHARES]
        needed = np.exp(np.interp(goal, means, np.log(SHARES))) * cells / as_published(alpha).cells
        what = f"cells for the P of the paper as published, {goal:.1f} ± {error:.1f} (α = {alpha})"
        yield at_most(what, float(needed), 0.45)
    if figure is not None:
        draw(found, cells / (N * P), figure)


def draw(found: dict[tuple[str, float], Percentages], share_of_all: float, path: str) -> None:
    """Draw P against cells for the four models."""
    import matplotlib.pyplot as plt

    from banditsis.show.plots import tidy

    fig, axes = plt.subplots(1, 4, figsize=(9, 2.6), sharey=True, layout="constrained")
    for model, ax in enumerate(axes):
        for sampling, style in (("uniform", "o-"), ("stratified", "s-")):
            means = [found[sampling, share][model].mean() for share in SHARES]
            ax.plot([100 * share_of_all * share for share in SHARES], means, style, ms=3, label=sampling)
        for name, marker in (("printed", "x"), ("published", "+")):
            plan = as_printed(1.5) if name == "printed" else as_published(1.5)
            mean = found[name, 1.5][model].mean()
            ax.plot(100 * plan.fraction, mean, marker, color="black", label=f"paper, as {name}")
        ax.set_title(f"M{model + 1}")
        ax.set_xscale("log")
        ax.set_xticks([3, 5, 10], ["3%", "5%", "10%"], minor=False)
        ax.minorticks_off()
        tidy(ax)
    axes[0].set_ylabel("all active features kept (%)")
    fig.supxlabel("cells read", fontsize=10)
    axes[0].legend(frameon=False, fontsize=7)
    fig.savefig(path)


class Shifted(BlockSource):
    """Normal features of a million rows, taken from a pool of rows; the first are shifted in the cases."""

    def __init__(self, pool: np.ndarray, y: np.ndarray, seed: int, n_shifted: int, shift: float) -> None:
        self.pool, self.y, self.n_shifted, self.shift = pool, y, n_shifted, shift
        self.shape, self.dtype = (len(y), pool.shape[1]), pool.dtype
        self.offset = np.random.default_rng(seed).integers(len(pool), size=2)
        self.chunk = (1, 1)

    def read(self, rows, columns):
        rows = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        everything = np.arange(self.shape[1])
        columns = everything if columns is None else everything[columns]
        # A sample has far fewer rows than the pool, so it hardly ever has the same row twice.
        place = (rows * 7919 + self.offset[0] + (rows >> 17) * 104729) % len(self.pool)
        block = self.pool[np.ix_(place, columns)]
        return block + np.float32(self.shift) * np.outer(self.y[rows], columns < self.n_shifted).astype("f4")

    def calibrate(self, rows):
        return Calibration(np.zeros(self.shape[1], np.float32), np.ones(self.shape[1], np.float32))


def rare_class(runs: int) -> Iterator[Figure]:
    """Measure the rows needed to keep 9 of 10 features of 300, with 0.2% positives in a million rows."""
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((1 << 17, 300), dtype=np.float32)

    def share_kept(sampling: str, m: int, runs: int) -> float:
        kept = []
        for seed in range(runs):
            y = (np.random.default_rng(seed).random(10**6) < 0.002).astype(float)
            source = Shifted(pool, y, seed, 10, 0.5)
            plan = Plan.subsample(10**6, 300, 20, m)
            result = screen(source, y, plan, sampling=sampling, random_state=seed, progress=False)
            kept.append(np.isin(np.arange(10), result.selected).mean())
        return float(np.mean(kept))

    needed = {}
    for sampling, start in (("uniform", 10_000), ("stratified", 160)):
        rows = [start * 2**k for k in range(3)]
        shares = [share_kept(sampling, m, runs) for m in rows]
        print(f"  {sampling}: {dict(zip(rows, np.round(shares, 3), strict=True))}", flush=True)
        needed[sampling] = float(np.exp(np.interp(0.9, shares, np.log(rows))))
    what = (
        f"rows to keep 9 of 10, uniform / stratified ({needed['uniform']:,.0f} / {needed['stratified']:,.0f})"
    )
    yield at_least(what, needed["uniform"] / needed["stratified"], 50)


RESPONSES = {
    "normal": lambda signal, rng: signal + rng.standard_normal(len(signal)),
    "t3": lambda signal, rng: signal + rng.standard_t(3, len(signal)),
    "lognormal": lambda signal, rng: np.exp(signal + rng.standard_normal(len(signal))),
    "binary 1%": lambda signal, rng: signal + rng.logistic(size=len(signal)) > 5.2,
    "binary 10%": lambda signal, rng: signal + rng.logistic(size=len(signal)) > 2.5,
    "binary 50%": lambda signal, rng: signal + rng.logistic(size=len(signal)) > 0,
    "counts": lambda signal, rng: rng.poisson(np.exp(signal)),
    "an outlier of 1e6 sd": lambda signal, rng: add_outlier(signal + rng.standard_normal(len(signal))),
    "independent of X": lambda signal, rng: rng.standard_normal(len(signal)),
}


def add_outlier(y: np.ndarray) -> np.ndarray:
    y[len(y) // 3] = 1e6
    return y


def best_kept(name: str, seed: int) -> tuple[float, float]:
    """Return the shares of SIS's best ten features that uniform and stratified sampling keep."""
    n, p, d = 10_000, 400, 40
    rng = np.random.default_rng([seed, list(RESPONSES).index(name)])
    X = rng.standard_normal((n, p), dtype=np.float32)
    y = RESPONSES[name](X[:, :10] @ np.full(10, 0.12, np.float32), rng).astype(float)
    best = screen(X, y, Plan.exact(n, p, 10), progress=False).selected
    kept = []
    for sampling in ("uniform", "stratified"):
        plan = partial(Plan.optimal, n, p, d, 0.05)
        run = screen(
            X,
            y,
            lambda design, plan=plan: plan(design=design),
            sampling=sampling,
            random_state=seed,
            n_jobs=1,
            progress=False,
        )
        kept.append(100.0 * np.isin(best, run.selected).mean())
    return kept[0], kept[1]


def precision() -> Iterator[Figure]:
    """Count the stratified rows of a million that are as precise as 1,000 uniform rows."""
    n, rng = 10**6, np.random.default_rng(0)
    responses = {
        "normal": rng.standard_normal(n),
        "Poisson, mean 1.5": rng.poisson(1.5, n),
        "t with 3 degrees of freedom": rng.standard_t(3, n),
        "lognormal": rng.lognormal(size=n),
        "two classes, 10%": rng.random(n) < 0.1,
        "two classes, 1%": rng.random(n) < 0.01,
        "two classes, 50%": rng.random(n) < 0.5,
    }
    for name, y in responses.items():
        source = ArraySource(np.ones((n, 1), np.float32))
        design = find_strata(source, Pearson.bind(y[:, None] * 1.0, False), "stratified", "random").design
        rows = bisect_left(range(1001), 1000, key=design.effective_rows)
        yield at_most(f"{PRECISION}{name}", rows, 1000)


def never_worse(runs: int) -> Iterator[Figure]:
    for name in RESPONSES:
        with ProcessPoolExecutor() as pool:
            kept = np.array(list(pool.map(partial(best_kept, name), range(runs), chunksize=10)))
        gain = kept[:, 1] - kept[:, 0]
        error = gain.std() / math.sqrt(runs)
        uniform, stratified = kept.mean(axis=0)
        what = f"SIS's best ten kept, y {name}: {uniform:.1f} → {stratified:.1f}, gain (± {error:.1f})"
        yield at_least(what, float(gain.mean()), -2)


def cost() -> Iterator[Figure]:
    n, p = 10**6, 4000
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p), dtype=np.float32)
    y = X[:, :10] @ np.full(10, 0.1, np.float32) + rng.standard_normal(n)
    plan = Plan.optimal(n, p, 50, 0.01)
    seconds: dict[str, float] = {"uniform": math.inf, "stratified": math.inf}
    runs = {
        name: partial(screen, X, y, plan, sampling=name, random_state=0, progress=False) for name in seconds
    }
    for _ in range(10):
        for name, run in runs.items():
            seconds[name] = min(seconds[name], run().seconds)
    best = interleaved(8, **runs)
    ratio = seconds["stratified"] / seconds["uniform"]
    yield at_most(f"time of {len(plan.steps)} rounds, stratified / uniform, 10^6 × 4,000", ratio, 1.3)
    ratio = best["stratified"] / best["uniform"]
    yield at_most("time of the whole call, strata included", ratio, 1.3)


def memory() -> Iterator[Figure]:
    n, p = 4000, 10**6
    X = np.random.default_rng(0).standard_normal((64, p), dtype=np.float32)
    source = ArraySource(np.lib.stride_tricks.as_strided(X, (n, p), (0, 4)))
    y = np.random.default_rng(1).standard_normal(n)
    plan = Plan(n, p, ((100, p // 2), (200, 1000)))
    peak = {}
    for sampling in ("uniform", "stratified"):
        tracemalloc.start()
        result = screen(source, y, plan, sampling=sampling, random_state=0, progress=False)
        peak[sampling] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert result.parameters["sampling"] == "stratified"
    numbers = (peak["stratified"] - peak["uniform"]) / 8 / p / N_STRATA
    yield at_most("extra numbers per feature and stratum, p = 10^6", numbers, 8)


def convergence() -> Iterator[Figure]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 200)) + 100.0
    y = X[:, 0] + rng.standard_t(3, 5000)
    exact = screen(X, y, Plan.exact(5000, 200, 100), progress=False)
    result = screen(X, y, Plan(5000, 200, ((500, 100), (5000, 100))), sampling="stratified", progress=False)
    last = result.last_round == 1
    difference = float(np.abs(result.scores - exact.scores)[last].max())
    met = difference <= 1e-12
    yield Figure("scores after all rows against SIS's", f"{difference:.1e}", "≤ 1e-12", met)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500, help="data sets per line")
    parser.add_argument("--figure", help="draw P against cells to this file")
    parser.add_argument("--write", type=Path, help="Markdown file whose table of precision is replaced")
    parser.add_argument(
        "--only", choices=["paper", "rare", "worse", "cost", "memory", "convergence", "precision"]
    )
    options = parser.parse_args()
    print(f"{machine()}, {options.runs} data sets per line")
    parts = {
        "convergence": convergence,
        "precision": precision,
        "memory": memory,
        "cost": cost,
        "rare": lambda: rare_class(options.runs),
        "worse": lambda: never_worse(options.runs),
        "paper": lambda: paper_models(options.runs, options.figure),
    }
    figures = [f for name, part in parts.items() if options.only in (None, name) for f in collect(part())]
    print(table(figures))
    if options.write is not None:
        lines = [
            "| Response, of a million rows | Rows needed for the precision of 1,000 uniform rows |",
            "|---|---:|",
        ]
        precise = [f for f in figures if f.what.startswith(PRECISION)]
        lines += [f"| {f.what.removeprefix(PRECISION)} | {float(f.measured):,.0f} |" for f in precise]
        replace_between(options.write, MARKER, "\n".join(lines))


if __name__ == "__main__":
    main()
