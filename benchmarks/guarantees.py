"""Detection floors, guarantees, marks and intervals against simulation, for unusual data too.

python benchmarks/guarantees.py [--runs 500] [--only floors]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from banditsis import Interactions, Plan, screen
from banditsis.core.parallel import Workers, count_jobs
from banditsis.plans import make_plan
from banditsis.results import selection_mask
from banditsis.sources.array import ArraySource
from banditsis.sources.base import SumContext
from banditsis.statistics import Pearson
from designs import correlations, features, noise
from reporting import Figure, at_least, at_most, collect, machine, table
from timing import interleaved

N, P, D = 20_000, 120, 20
PLANS: dict[str, Callable] = {
    "α = 0.8": lambda design: Plan.paper(N, P, D, 0.8),
    "α = 0.5": lambda design: Plan.paper(N, P, D, 0.5),
    "default": lambda design: make_plan(design, P, D),
    "budget 0.05": lambda design: Plan.optimal(N, P, D, 0.05, design=design),
}


def binary(share: float) -> Callable:
    return lambda rng, n, p: (rng.random((n, p)) < share).astype(float)


N_PLANTED = 6
#: Share of the features that the floor must cover.
COVERED = {"normal": 99, "t5": 99, "genotypes": 99, "1% binary": 90}


def rare_among_normal(rng, n, p):
    X = rng.standard_normal((n, p))
    X[:, :N_PLANTED] = rng.random((n, N_PLANTED)) < 0.001
    return X


FEATURES: dict[str, Callable] = {
    **{
        kind: lambda rng, n, p, kind=kind: features(kind, n, p, rng)
        for kind in ("normal", "t5", "genotypes", "equicorrelated", "AR(0.9)")
    },
    "heavy noise": lambda rng, n, p: rng.standard_normal((n, p)),
    "0.1% binary": binary(0.001),
    "0.1% signals among normal": rare_among_normal,
    "1% binary": binary(0.01),
    "lognormal(2)": lambda rng, n, p: np.exp(2 * rng.standard_normal((n, p))),
    "one outlier row": lambda rng, n, p: rng.standard_normal((n, p)),
    "ten outlier rows": lambda rng, n, p: rng.standard_normal((n, p)),
    "Cauchy": lambda rng, n, p: rng.standard_cauchy((n, p)),
}


def plant(kind: str, X: np.ndarray, errors: np.ndarray, r: float) -> np.ndarray:
    """Return a response with which the first features have correlations of about r, for outlier rows
    because of these rows alone.
    """
    if kind.endswith("outlier row") or kind.endswith("outlier rows"):
        y, rows = errors.copy(), slice(7, 8 if kind.startswith("one") else 17)
        y[rows] = math.sqrt(r * len(X) / (1 - r) / (rows.stop - rows.start))
        X[rows, :N_PLANTED] = y[rows, None]
        return y
    Z = X[:, :N_PLANTED] - X[:, :N_PLANTED].mean(axis=0)
    scale = Z.std(axis=0)
    Z /= np.where(scale > 0, scale, 1.0)
    n_planted = max(1, min(N_PLANTED, int(0.5 / r**2)))
    return Z[:, :n_planted].sum(axis=1) * r + math.sqrt(1 - n_planted * r * r) * errors


def near_the_floor(kind: str, seeds: range) -> dict[tuple[str, str], np.ndarray]:
    """Return, for each run, lost and seen features just above the floor, the share covered, the floor."""
    counts: dict[tuple[str, str], list] = {}
    floors: dict[tuple[str, str], float] = {}
    for seed in seeds:
        rng = np.random.default_rng([seed, sorted(FEATURES).index(kind)])
        X = FEATURES[kind](rng, N, P)
        errors = noise(kind, N, rng)
        for key in [(name, sampling) for name in PLANS for sampling in ("uniform", "stratified")]:
            y = plant(kind, X, errors, min(0.9, 1.07 * floors.get(key, 0.1)))
            result = screen(X, y, PLANS[key[0]], sampling=key[1], random_state=seed, n_jobs=1, progress=False)
            line = (0, 0, 0.0, math.nan)
            if result.evidence.no_floor_reason is None:
                floor, r = result.detection_floor(), correlations(X, y)
                floors[key] = floor if key not in floors else 0.8 * floors[key] + 0.2 * floor
                covered = np.ones(P, bool)
                covered[result.undecided] = False
                near = (r >= floor) & (r < 1.15 * floor) & covered
                line = (np.count_nonzero(near & ~selection_mask(result)), near.sum(), covered.mean(), floor)
            counts.setdefault(key, []).append(line)
    return {key: np.array(lines, float) for key, lines in counts.items()}


def interactions(seed: int, share: float) -> tuple[int, int, float]:
    """Return lost and seen products of 0/1 tags up to 15% above the floor, and the share covered."""
    rng = np.random.default_rng([seed, int(1000 * share)])
    tags = (rng.random((N, 24)) < share).astype(float)
    source = Interactions(tags)
    p = source.shape[1]
    everything = source.read(slice(0, N), np.arange(p))
    chosen = 24 + rng.choice(p - 24, 3, replace=False)
    lost = seen = 0
    covered, floor = 1.0, 0.1
    for _ in range(2):  # the second time with correlations close to the floor
        Z = everything[:, chosen] - everything[:, chosen].mean(axis=0)
        Z /= np.maximum(Z.std(axis=0), 1e-9)
        y = Z.sum(axis=1) * 1.07 * floor + rng.standard_normal(N) * math.sqrt(max(0.1, 1 - 3.4 * floor**2))
        plan = Plan.paper(N, p, D, 0.5)
        result = screen(source, y, plan, random_state=seed, n_jobs=1, progress=False)
        floor, r = result.detection_floor(), correlations(everything, y)
        decided = np.ones(p, bool)
        decided[result.undecided] = False
        near = (r >= floor) & (r < 1.15 * floor) & decided
        lost, seen = np.count_nonzero(near & ~selection_mask(result)), int(near.sum())
        covered = decided.mean()
    return lost, seen, float(covered)


def interaction_floors(runs: int) -> Iterator[Figure]:
    for share in (0.03, 0.05, 0.1):
        with ProcessPoolExecutor() as pool:
            found = list(pool.map(partial(interactions, share=share), range(runs), chunksize=5))
        lost, seen, covered = np.array(found).T
        error = math.sqrt(0.05 * 0.95 / max(1, seen.sum()))
        what = (
            f"lost above the floor, interactions of tags in {share:.0%} of the rows ({lost.sum():.0f} of "
            f"{seen.sum():.0f}; covers {covered.mean():.1%})"
        )
        yield at_most(what, 100 * lost.sum() / max(1, seen.sum()), round(5 + 200 * error, 1), "%")


def guaranteed(kind: str, seed: int) -> tuple[bool, int]:
    """Return whether a run with a minimum correlation of 0.15 loses something, and the cells it reads."""
    rng = np.random.default_rng([seed, 77, len(kind)])
    if kind == "100 ones in 200,000 rows":
        n = 200_000
        X = rng.standard_normal((n, 40))
        X[:, 0] = 0.0
        X[rng.choice(n, 100, replace=False), 0] = 1.0
        y = X[:, 0] + 0.01 * rng.standard_normal(n)
    else:
        n = N
        X = FEATURES[kind](rng, n, P)
        y = plant(kind, X, noise(kind, n, rng), 0.16)
    plan = partial(Plan.guaranteed, n, X.shape[1], None, 0.15)
    result = screen(X, y, lambda design: plan(design=design), random_state=seed, n_jobs=1, progress=False)
    lost = (correlations(X, y) >= 0.15) & ~selection_mask(result)
    return bool(lost.any()), result.cells_read


#: Rows with a share of the variance of the response, on which the correlation of three features rests.
OUTLIERS = {(1, 0.69): 0.24, (1, 0.05): 0.16, (10, 0.05): 0.16, (100, 0.1): 0.16}
EXTREME: dict[str, Callable] = {
    "one 1,000": lambda rng, n: np.where(np.arange(n) == 5, 1000.0, rng.standard_normal(n)),
    "a sentinel 999,999": lambda rng, n: np.where(np.arange(n) == 5, 999_999.0, rng.standard_normal(n)),
    "t1.5": lambda rng, n: rng.standard_t(1.5, n),
}


def loses(X: np.ndarray, y: np.ndarray, minimum: float, sampling: str, seed: int) -> tuple[bool, int]:
    """Return whether a run with a minimum correlation loses something or contradicts itself, and its cost."""
    several = sampling == "two responses"
    result = screen(
        X,
        np.column_stack([y, X[:, -1]]) if several else y,
        lambda design: Plan.guaranteed(*X.shape, None, minimum, design=design),
        sampling="auto" if several else sampling,
        random_state=seed,
        n_jobs=1,
        progress=False,
    )
    result = result[0] if several else result
    lost = (correlations(X, y) >= minimum) & ~selection_mask(result)
    return bool(lost.any()) or result.detection_floor() > minimum, result.cells_read


def outliers(design: tuple[int, float], sampling: str, seed: int) -> tuple[bool, int]:
    """Return what :func:`loses` does for outliers of the response among 200,000 rows."""
    n, (n_rows, share) = 200_000, design
    rng = np.random.default_rng([seed, n_rows, int(100 * share)])
    X, y = rng.standard_normal((n, 40), dtype=np.float32), rng.standard_normal(n)
    rows, of_feature = rng.choice(n, n_rows, replace=False), OUTLIERS[design] ** 2 / share
    y[rows] = math.sqrt(share / (1 - share) * n / n_rows)
    X[rows, :3] = math.sqrt(of_feature / (1 - of_feature) * n / n_rows)
    return loses(X, y, 0.15, sampling, seed)


def extreme(kind: str, sampling: str, seed: int) -> tuple[bool, int]:
    """Return what :func:`loses` does for an extreme response; the first features have about the minimum."""
    rng = np.random.default_rng([seed, 78, sorted(EXTREME).index(kind)])
    X, y = rng.standard_normal((2000, P)), EXTREME[kind](rng, 2000)
    z = (y - y.mean()) / y.std()
    X[:, :N_PLANTED] += 0.105 * z[:, None]
    return loses(X, y, 0.1, sampling, seed)


def extreme_responses(runs: int) -> Iterator[Figure]:
    cases = [
        (f"{k} of 200,000 rows with {s:.0%} of the variance of y", "0.15", partial(outliers, (k, s)))
        for k, s in OUTLIERS
    ]
    cases += [(f"y: {kind}, n = 2,000", "0.1", partial(extreme, kind)) for kind in EXTREME]
    for name, minimum, run in cases:
        for sampling in ("auto", "uniform", "two responses"):
            with ProcessPoolExecutor() as pool:
                found = list(pool.map(partial(run, sampling), range(runs), chunksize=5))
            failed, cells = np.array(found, float).T
            what = f"runs that lose |r| ≥ {minimum}, {name}, {sampling} (reads {cells.mean():,.0f} cells)"
            yield at_most(what, 100 * failed.mean(), 5, "%")


def guarantees(runs: int) -> Iterator[Figure]:
    for kind in (*FEATURES, "100 ones in 200,000 rows"):
        with ProcessPoolExecutor() as pool:
            found = list(pool.map(partial(guaranteed, kind), range(runs), chunksize=5))
        failed, cells = np.array(found, float).T
        what = f"runs that lose |r| ≥ 0.15, min_correlation=0.15, {kind} (reads {cells.mean():,.0f} cells)"
        yield at_most(what, 100 * failed.mean(), 5, "%")


def floors(runs: int) -> Iterator[Figure]:
    for kind in FEATURES:
        parts = [range(start, min(start + 25, runs)) for start in range(0, runs, 25)]
        with ProcessPoolExecutor() as pool:
            found = list(pool.map(partial(near_the_floor, kind), parts))
        for key in found[0]:
            lost, seen, covered, floor = np.concatenate([part[key] for part in found]).T
            error = math.sqrt(0.05 * 0.95 / max(1, seen.sum()))
            what = (
                f"lost above the floor, {kind}, {key[0]}, {key[1]} ({lost.sum():.0f} of {seen.sum():.0f}; "
                f"floor {np.nanmean(floor):.3f}, covers {covered.mean():.1%})"
            )
            yield at_most(what, 100 * lost.sum() / max(1, seen.sum()), round(5 + 200 * error, 1), "%")
            if key == ("α = 0.5", "uniform") and kind in COVERED:
                yield at_least(f"covered, {kind}, α = 0.5", 100 * covered.mean(), COVERED[kind], "%")


#: Responses with mean 0 and variance 1.
RESPONSES: dict[str, Callable] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "t3": lambda rng, n: rng.standard_t(3, n) / math.sqrt(3),
    "lognormal": lambda rng, n: (
        (np.exp(rng.standard_normal(n)) - math.exp(0.5)) / math.sqrt(math.e * (math.e - 1))
    ),
    "2% cases": lambda rng, n: ((rng.random(n) < 0.02) - 0.02) / math.sqrt(0.02 * 0.98),
    "1% cases": lambda rng, n: ((rng.random(n) < 0.01) - 0.01) / math.sqrt(0.01 * 0.99),
}
#: How the spread of a feature depends on the response.
SPREADS: dict[str, Callable] = {
    "equal": np.ones_like,
    "3 times the sd among cases": lambda y: np.where(y > 0, 3.0, 1.0),
    "e·|y|": np.abs,
    "noise only at low y": lambda y: np.where(y < -0.5, 2.0, 0.1),
}
#: Plans of the lines below; uniform rows have no floor for unequal spreads.
SAMPLES = (("default", "stratified"), ("budget 0.05", "stratified"), ("α = 0.5", "uniform"))


def unequal(rng, response: str, spread: str, r: float, n_unequal: int):
    """Return features and a response; the first features have correlation r and an unequal spread."""
    y = RESPONSES[response](rng, N)
    scale = SPREADS[spread](y)
    X, some = rng.standard_normal((N, P)), slice(0, n_unequal)
    X[:, some] *= (math.sqrt(1 - r * r) * scale / math.sqrt(np.mean(scale**2)))[:, None]
    X[:, some] += r * y[:, None]
    return X, y


def remove(rng, X: np.ndarray, share: float) -> np.ndarray:
    """Return features with a share of missing values, and none in every third feature."""
    gaps = rng.random(X.shape) < share
    gaps[:, ::3] = False
    return np.where(gaps, np.nan, X)


def false_marks(response: str, spread: str, missing: float, seed: int) -> list[float]:
    """Return whether a feature without association is marked, with each plan."""
    rng = np.random.default_rng([seed, 29])
    X, y = unequal(rng, response, spread, 0.0, P)
    X, options = (remove(rng, X, missing), {"missing": "pairwise"}) if missing else (X, {})
    return [_screen(X, y, key, seed, **options).associated.size > 0 for key in SAMPLES]


def power(response: str, spread: str, missing: float, seed: int) -> list[float]:
    """Return the share of six features with a correlation of 0.15 that is marked, with each plan."""
    rng = np.random.default_rng([seed, 30])
    X, y = unequal(rng, response, spread, 0.15, N_PLANTED)
    X, options = (remove(rng, X, missing), {"missing": "pairwise"}) if missing else (X, {})
    found = [_screen(X, y, key, seed, **options).associated for key in SAMPLES]
    return [np.isin(np.arange(N_PLANTED), marked).mean() for marked in found]


def _screen(X, y, key, seed, **options):
    name, sampling = key
    return screen(
        X, y, PLANS[name], sampling=sampling, random_state=seed, n_jobs=1, progress=False, **options
    )


def marks(runs: int) -> Iterator[Figure]:
    designs = [
        ("normal", "equal", 0.0),
        ("normal", "equal", 0.3),
        ("2% cases", "equal", 0.0),
        ("2% cases", "3 times the sd among cases", 0.0),
        ("2% cases", "3 times the sd among cases", 0.3),
        *((response, "e·|y|", 0.0) for response in ("normal", "t3", "lognormal")),
        ("normal", "noise only at low y", 0.0),
    ]
    for response, spread, missing in designs:
        gaps = f", {missing:.0%} missing" if missing else ""
        for key, rate in zip(SAMPLES, _mean(false_marks, runs, response, spread, missing), strict=True):
            what = f"runs with a false mark, {response} response, {spread}{gaps}, {key[0]}, {key[1]}"
            yield at_most(what, 100 * rate, round(5 + 200 * math.sqrt(0.05 * 0.95 / runs), 1), "%")
    for missing in (0.0, 0.3):
        gaps = f", {missing:.0%} missing" if missing else ""
        for key, rate in zip(SAMPLES, _mean(power, runs, "normal", "equal", missing), strict=True):
            what = f"marked of r = 0.15, normal{gaps}, {key[0]}, {key[1]}"
            yield at_least(what, 100 * rate, 90, "%")


def covered(response: str, spread: str, r: float, seed: int) -> list[float]:
    """Return whether the interval of the first feature covers r, with each plan."""
    X, y = unequal(np.random.default_rng([seed, 31]), response, spread, r, 1)
    found = []
    for key in SAMPLES:
        result = _screen(X, y, key, seed)
        if result.evidence.no_interval_reason is not None:  # no case among the rows of the first round
            found.append(math.nan)
            continue
        low, high = result.interval()[np.flatnonzero(result.selected == 0)[0]]
        found.append(low <= r <= high)
    return found


def intervals(runs: int) -> Iterator[Figure]:
    designs = [
        ("normal", "equal", 0.3),
        ("1% cases", "equal", 0.3),
        ("1% cases", "equal", 0.9),
        ("t3", "equal", 0.5),
        ("lognormal", "equal", 0.5),
        ("normal", "e·|y|", 0.3),
    ]
    for design in designs:
        for key, rate in zip(SAMPLES, _mean(covered, runs, *design), strict=True):
            response, spread, r = design
            what = f"intervals that cover r = {r}, {response} response, {spread}, {key[0]}, {key[1]}"
            if key[1] == "uniform" and response in ("t3", "lognormal"):  # the documentation says about 90%
                yield Figure(what, f"{100 * rate:.2f}%", "none", True)
            else:
                yield at_least(what, 100 * rate, round(95 - 200 * math.sqrt(0.05 * 0.95 / runs), 1), "%")


def _mean(function: Callable, runs: int, *design) -> np.ndarray:
    with ProcessPoolExecutor() as pool:
        return np.nanmean(list(pool.map(partial(function, *design), range(runs), chunksize=5)), axis=0)


def unequal_losses(response: str, spread: str, missing: float, seeds: range) -> np.ndarray:
    """Return, for each run and plan, lost and seen features up to 15% above the floor, and the floor."""
    lines, floors = [], np.full(len(SAMPLES), 0.1)
    for seed in seeds:
        for k, key in enumerate(SAMPLES):
            rng = np.random.default_rng([seed, 30, k])
            X, y = unequal(rng, response, spread, min(0.9, 1.07 * floors[k]), N_PLANTED)
            X, options = (remove(rng, X, missing), {"missing": "pairwise"}) if missing else (X, {})
            result = _screen(X, y, key, seed, **options)
            floor = result.detection_floor()
            floors[k] += 0.2 * (floor - floors[k])
            exact = Plan.exact(N, N_PLANTED, N_PLANTED)
            r = np.abs(screen(X[:, :N_PLANTED], y, exact, n_jobs=1, progress=False, **options).scores)
            near = (r >= floor) & (r < 1.15 * floor) & ~np.isin(np.arange(N_PLANTED), result.undecided)
            lost = np.count_nonzero(near & ~selection_mask(result)[:N_PLANTED])
            lines.append((k, lost, near.sum(), floor))
    return np.array(lines, float)


def unequal_floors(runs: int) -> Iterator[Figure]:
    designs = [
        ("normal", "equal", 0.0),
        *(("normal", "equal", missing) for missing in (0.03, 0.3)),
        *((response, "e·|y|", 0.0) for response in ("normal", "t3", "lognormal")),
        ("normal", "noise only at low y", 0.0),
        ("2% cases", "3 times the sd among cases", 0.0),
        ("2% cases", "3 times the sd among cases", 0.3),
    ]
    parts = [range(start, min(start + 25, runs)) for start in range(0, runs, 25)]
    for response, spread, missing in designs:
        with ProcessPoolExecutor() as pool:
            lines = np.concatenate(list(pool.map(partial(unequal_losses, response, spread, missing), parts)))
        for k, (name, sampling) in enumerate(SAMPLES):
            _, lost, seen, floor = lines[lines[:, 0] == k].T
            gaps = f", {missing:.0%} missing" if missing else ""
            what = (
                f"lost above the floor, {response} response, {spread}{gaps}, {name}, {sampling} "
                f"({lost.sum():.0f} of {seen.sum():.0f}; floor {floor.mean():.3f})"
            )
            rate, error = lost.sum() / max(1, seen.sum()), math.sqrt(0.05 * 0.95 / max(1, seen.sum()))
            if sampling == "uniform" and spread != "equal":  # the result says that no floor is stated for it
                yield Figure(what, f"{100 * rate:.2f}%", "none", True)
            else:
                yield at_most(what, 100 * rate, round(5 + 200 * error, 1), "%")


def speed() -> Iterator[Figure]:
    """Compare the sums of adaptive runs, with fourth powers, with those of exact runs, without."""
    n, p = 100_000, 2000
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        for order in "CF":
            X = np.asarray(rng.standard_normal((n, p), dtype=dtype), order=order)
            source, y = ArraySource(X), rng.standard_normal((n, 1))
            rows = slice(0, n)
            plain = Pearson.bind(y, False).calibrate(rows)
            evident, calibration = plain.copy_with(evidence=True), source.calibrate(rows)

            def run(statistic, workers, source=source, calibration=calibration, rows=rows):
                out = np.zeros((1, statistic.layout.n_lines, source.shape[1]))
                context, edges = SumContext(calibration, out, workers), np.array([0, rows.stop])
                source.add_sums(rows, edges, None, statistic.weights(rows), context)

            with Workers(count_jobs(None)) as workers:
                best = interleaved(
                    20,
                    without=lambda run=run, s=plain, w=workers: run(s, w),
                    fourth=lambda run=run, s=evident, w=workers: run(s, w),
                )
            name = f"{np.dtype(dtype).name}, {'row' if order == 'C' else 'column'}-major"
            yield at_least(
                f"speed of sums with fourth powers, {name}", best["without"] / best["fourth"], 0.92
            )


PARTS: dict[str, Callable] = {
    "speed": lambda runs: speed(),
    "guarantees": guarantees,
    "outliers": extreme_responses,
    "interactions": interaction_floors,
    "floors": floors,
    "unequal": unequal_floors,
    "marks": marks,
    "intervals": intervals,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--only", choices=list(PARTS))
    options = parser.parse_args()
    print(f"{machine()}, {options.runs} runs per line")
    chosen = [part for name, part in PARTS.items() if options.only in (None, name)]
    figures = [figure for part in chosen for figure in collect(part(options.runs))]
    print(table(figures))


if __name__ == "__main__":
    main()
