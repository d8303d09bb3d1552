"""Guarantees and predictions of plans, compared with simulations. Prints each result when measured.

python benchmarks/plans.py [--quick]
"""

from __future__ import annotations

import argparse
import math
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from banditsis import Plan, screen
from banditsis.results import selection_mask
from designs import DESIGNS, Generated, correlations, make_graded

N, P, D = 1000, 2000, 144
ALPHAS = (1.5, 1.1, 0.8)
MODELS = ("M1", "M2", "M3", "M4")
OTHERS = ("equicorrelated", "AR(0.9)", "genotypes", "heavy noise")


def published(n, p, d, alpha):
    """Return the plan that reproduces the paper's tables: it drops a third and starts at α / 1.1."""
    return Plan.paper(n, p, d, alpha / 1.1, 1 / 3)


def candidates():
    plans = {}
    for alpha in ALPHAS:
        paper = published(N, P, D, alpha)
        plans["paper", alpha] = paper
        plans["optimal", alpha] = Plan.optimal(N, P, D, paper.cells)
    for share in (0.6, 0.7, 0.8):
        plans["share", share] = Plan.optimal(N, P, D, int(share * published(N, P, D, 1.1).cells))
    return plans


def all_kept(job):
    """Return how often each plan keeps all active features, over data sets of one design."""
    name, seeds = job
    plans = candidates()
    kept = dict.fromkeys(plans, 0)
    for seed in seeds:
        X, y, active = DESIGNS[name](N, P, seed)
        for key, plan in plans.items():
            for draw in range(2):
                result = screen(
                    X, y, plan, random_state=1000 * seed + draw, n_jobs=1, progress=False, sampling="uniform"
                )
                kept[key] += selection_mask(result)[active].all() / (2 * len(seeds))
    return name, kept


def near_the_floor(job):
    """Count lost features just above the floor, and runs that lost one above the simultaneous floor."""
    kind, n, sets, draws = job
    rng = np.random.default_rng(7)
    plan = Plan.optimal(n, 300, 60, 0.04 if n < 10_000 else 0.01)
    lost = seen = failed = 0
    floor = plan.detection_floor(variance_inflation=2.0 if kind == "t5" else 1.0)
    for seed in range(sets):
        X, y = make_graded(kind, n, 300, rng, floor * np.linspace(1.0, 1.06, min(10, int(0.7 / floor**2))))
        r = correlations(X, y)
        for draw in range(draws):
            result = screen(
                X, y, plan, random_state=1000 * seed + draw, n_jobs=1, progress=False, sampling="uniform"
            )
            floor = result.detection_floor()
            near = (r >= floor) & (r < 1.06 * floor)
            lost += np.count_nonzero(near & ~selection_mask(result))
            seen += np.count_nonzero(near)
            failed += bool((r[~selection_mask(result)] >= result.detection_floor(simultaneous=True)).any())
    return kind, n, lost, seen, failed, sets * draws


def prediction(job):
    """Return the worst ratio of the floor after the run to the predicted floor."""
    n, p, d, alpha = job
    rng = np.random.default_rng(1)
    worst = 1.0
    for plan in (Plan.paper(n, p, d, alpha), Plan.optimal(n, p, d, Plan.paper(n, p, d, alpha).cells)):
        for seed in range(5):
            X, y = make_graded("normal", n, p, rng, np.array([0.5, 0.4, 0.3]))
            floor = screen(
                X, y, plan, random_state=seed, n_jobs=1, progress=False, sampling="uniform"
            ).detection_floor()
            worst = max((worst, floor / plan.detection_floor()), key=lambda ratio: abs(math.log(ratio)))
    return job, worst


def guarantee(job):
    """Count runs that lost a feature at or above the minimum correlation."""
    kind, sets, draws = job
    rng = np.random.default_rng(3)
    failed, cells, n, p, minimum = 0, 0.0, 20_000, 300, 0.15
    for seed in range(sets):
        if kind in MODELS:
            X, y, _ = DESIGNS[kind](n, p, seed)
        else:
            X, y = make_graded(kind, n, p, rng, np.linspace(0.14, 0.17, 15))
        r = correlations(X, y)
        for draw in range(draws):
            plan = Plan.guaranteed(n, p, None, minimum, 0.95)
            result = screen(
                X, y, plan, random_state=1000 * seed + draw, n_jobs=1, progress=False, sampling="uniform"
            )
            failed += bool((r[~selection_mask(result)] >= minimum).any())
            cells += result.fraction_read / (sets * draws)
    return kind, failed, sets * draws, cells


def cells_by_size(_):
    """Return the ratio of cells for the same guarantee at 10^7 and 10^6 rows, generated on demand."""
    strengths = np.r_[np.full(10, 0.2), np.full(10, 0.04)]
    cells = []
    for n in (10**6, 10**7):
        source = Generated(n, 1000, strengths)
        plan = Plan.guaranteed(n, 1000, 20, 0.1)
        runs = [
            screen(source, source.y, plan, random_state=s, progress=False, sampling="uniform")
            for s in range(3)
        ]
        assert all(selection_mask(result)[:10].all() for result in runs)
        cells.append(np.mean([result.cells_read for result in runs]))
    return cells[1] / cells[0]


def large(_):
    """Return the share of 20 barely detectable features kept by the paper's plan and the optimal one."""
    n, p, d = 10**5, 10**4, 100
    paper = published(n, p, d, 1.1)
    plans = (paper, Plan.optimal(n, p, d, paper.cells))
    source = Generated(n, p, np.full(20, paper.detection_floor(0.8)))
    kept = []
    for plan in plans:
        runs = [
            screen(source, source.y, plan, random_state=s, progress=False, sampling="uniform")
            for s in range(6)
        ]
        kept.append(np.mean([selection_mask(result)[:20] for result in runs]))
    return kept


def floor_ratios():
    p, rows = 10**5, []
    for ratio in (10, 100, 10**4):
        worst = {}
        for n in (10**3, 10**5, 10**7):
            d = p // ratio
            for name, plan in (("printed", Plan.paper(n, p, d, 1.1)), ("published", published(n, p, d, 1.1))):
                best = Plan.optimal(n, p, d, plan.cells).detection_floor() / plan.detection_floor()
                worst[name] = max(worst.get(name, 0), best)
        rows.append((ratio, worst))
    return rows


def search_time():
    Plan.optimal(1000, 100, 10, 0.1)  # compiles
    worst = 0.0
    for n in (10**3, 10**6, 10**12):
        for p, d in ((100, 10), (10**4, 10), (10**6, 100), (10**6, 10**5)):
            for budget in (0.005, 0.1, 0.7):
                started = time.perf_counter()
                Plan.optimal(n, p, d, budget)
                worst = max(worst, time.perf_counter() - started)
    return worst


def print_kept(found, sets):
    print(f"\nAll active features kept, % of runs (n={N}, p={P}, d={D}, {sets} data sets × 2 draws;")
    print("a quarter of them for the designs after M4)")
    keys = list(candidates())
    print(f"{'':16}" + "".join(f"{kind[:5] + ' ' + format(x, 'g'):>13}" for kind, x in keys))
    for name, kept in found.items():
        print(f"{name:16}" + "".join(f"{100 * kept[key]:13.1f}" for key in keys))
    mean = {key: 100 * np.mean([found[name][key] for name in MODELS]) for key in keys}
    print(f"{'mean of M1 to M4':16}" + "".join(f"{mean[key]:13.1f}" for key in keys))
    for alpha, goal in zip(ALPHAS, (10, 5, 2), strict=True):
        gain = mean["optimal", alpha] - mean["paper", alpha]
        print(f"gain at the cost of α={alpha}: {gain:+.1f} points (to reach: +{goal})")
    shares = [*[(s, mean["share", s]) for s in (0.6, 0.7, 0.8)], (1.0, mean["optimal", 1.1])]
    x, y = zip(*shares, strict=True)
    needed = np.interp(mean["paper", 1.1], np.maximum.accumulate(y), x)
    print(f"cells for the paper's mean at α=1.1: {needed:.2f} of the paper's (to reach: 0.8, aim 0.7)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run a tenth of the replications")
    parser.add_argument("--processes", type=int, default=None)
    options = parser.parse_args()
    part = 10 if options.quick else 1
    sets = max(4, 500 // part)
    started = time.perf_counter()
    print("Predicted floor of Plan.optimal over the paper's at its cost (α=1.1, p=10^5, worst of three n)")
    for (ratio, worst), printed, other in zip(
        floor_ratios(), (0.94, 0.92, 0.90), (0.88, 0.95, 1), strict=True
    ):
        print(
            f"  p/d={ratio:>6}: as printed {worst['printed']:.3f} (to reach {printed}), "
            f"as published {worst['published']:.3f} (to reach {other})"
        )
    print(f"longest search for a plan: {search_time():.2f} s (to reach: 0.5)")
    with ProcessPoolExecutor(options.processes) as pool:
        chunks = [range(k, sets, 4) for k in range(4)]
        found: dict[str, dict] = {}
        jobs = [(name, chunk) for name in MODELS for chunk in chunks]
        jobs += [(name, chunk[: max(1, len(chunk) // 4)]) for name in OTHERS for chunk in chunks]
        for name, kept in pool.map(all_kept, jobs):
            total = found.setdefault(name, dict.fromkeys(kept, 0.0))
            for key, value in kept.items():
                total[key] += value / len(chunks)
        print_kept(found, sets)

        print("\nShare of features at 1.00 to 1.06 of the floor (95%) that were lost, and runs with any loss")
        print("above the simultaneous floor (95%)")
        draws = max(4, 60 // part)
        jobs = [
            (kind, n, 6, draws)
            for n in (5000, 50_000)
            for kind in ("normal", "t5", "genotypes", "heavy noise")
        ]
        for kind, n, lost, seen, failed, runs in pool.map(near_the_floor, jobs):
            share = lost / max(seen, 1)
            error = math.sqrt(0.05 * 0.95 / max(seen, 1))
            print(f"  {kind:12} n={n:>6}: {share:6.2%} of {seen:,} (±{error:.2%}); any {failed} of {runs}")

        print("\nFloor after the run / predicted, the worst of 10 runs (to reach: within 10%)")
        for job, worst in pool.map(prediction, [(5000, 500, 50, 1.1), (20_000, 1000, 30, 0.8)]):
            print("  n={}, p={}, d={}, α={}:".format(*job), f"{worst:.3f}")

        print("\nmin_correlation=0.15, confidence 95%, n=20,000, p=300: runs that lost a feature above it")
        kinds = ("normal", "t5", *OTHERS, *MODELS)
        for kind, failed, runs, cells in pool.map(guarantee, [(k, 5, max(2, 40 // part)) for k in kinds]):
            print(f"  {kind:14} {failed:>3} of {runs}; {cells:.1%} of the cells read")
        growth = pool.submit(cells_by_size, 0).result()
        print(f"cells at n=10^7 / at n=10^6, min_correlation=0.1: {growth:.3f}")
        kept = pool.submit(large, 0).result()
        print(
            f"n=10^5, p=10^4, α=1.1: kept {kept[0]:.1%} by the paper's plan, {kept[1]:.1%} by the optimal one"
        )
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
