"""Search for the plan with the lowest predicted detection floor within a budget.

A plan of k rounds is described by 2k - 1 numbers: the logarithms of the factors by which rows grow, and the
shares of log(p / d), the logarithm of the total reduction, that the rounds take. The rows are then scaled to
the budget. A coarse grid comes first; the best plans on it are refined one number at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from banditsis.arrays import Floats
from banditsis.plans.design import SamplingDesign
from banditsis.plans.detection_floor import gauss_legendre, load_kernels

#: A correlation over fewer rows is meaningless.
MIN_ROWS = 4
#: If each round reads all its rows again, two or three rounds are best.
MAX_ROUNDS, MAX_REREADING_ROUNDS = 8, 3
NODES, ERROR = 32, 0.05
GROWTHS = (1.15, 1.3, 1.6, 2.2, 3.5)
TILTS = (0.5, 0.75, 1.0, 1.5)
#: The quadrature is not accurate for slower growth.
MIN_GROWTH = math.log(1.08)
STEPS = (0.4, 0.2, 0.1, 0.05)
REFINED, SWEEPS, GAIN = 3, 6, 2e-4

Floor = Callable[[Floats], float]


#: The gain in precision by a sampling design is considered at these multiples of the mean rows of a feature,
#: and rounded, so similar designs share a plan: the search takes much longer than a run.
GAIN_AT, GAIN_STEP = (0.5, 1, 3, 10, 30), math.log(1.1)


def find_steps(
    design: SamplingDesign, p: int, d: int, cells: int, rereads: bool = False
) -> tuple[tuple[int, int], ...]:
    """Rows and features kept in each round of the best plan within a number of cells."""
    n = design.n_rows
    rows = tuple(sorted({min(n, max(1, round(multiple * cells / p))) for multiple in GAIN_AT} | {n}))
    gains = tuple(round(math.log(design.effective_rows(m) / m) / GAIN_STEP) for m in rows)
    return _search(n, p, d, cells, rereads, rows, gains)


@lru_cache(maxsize=256)
def _search(
    n: int, p: int, d: int, cells: int, rereads: bool, rows: tuple[int, ...], gains: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    """As :func:`find_steps`, with the gain in precision at some numbers of rows."""
    effective = np.minimum(np.array(rows) * np.exp(GAIN_STEP * np.array(gains)), n)
    curve = np.array([rows, np.maximum.accumulate(effective)])
    floor = _make_floor(n, p, d, cells, rereads, curve)
    best: dict[int, tuple[float, tuple[float, ...]]] = {}
    max_rounds, n_refined = (MAX_REREADING_ROUNDS, 1) if rereads else (MAX_ROUNDS, REFINED)
    for rounds in range(1, max_rounds + 1):
        starts = [tuple(_start(rounds, growth, tilt)) for growth in GROWTHS for tilt in TILTS]
        best[rounds] = min((floor(np.array(x)), x) for x in starts)
    chosen = sorted(best.values())[:n_refined]
    refined = [_refine(np.array(x), value, floor) for value, x in chosen]
    _, x = min(refined, key=lambda found: found[0])
    return tuple(_to_integers(x, n, p, d, cells, rereads))


def _make_floor(n: int, p: int, d: int, cells: int, rereads: bool, curve: Floats) -> Floor:
    nodes, weights, work = gauss_legendre(NODES)
    sizes = np.array([n, p, d, cells, rereads], dtype=np.float64)
    scratch, kernels = np.empty((5, MAX_ROUNDS)), load_kernels()

    def floor(x: Floats) -> float:
        k = (len(x) + 1) // 2
        growth, split = x[: k - 1], x[k - 1 :]
        return float(
            kernels.trial_floor(growth, split, sizes, curve, ERROR, nodes, weights, work, scratch[:, :k])
        )

    return floor


def _start(rounds: int, growth: float, tilt: float) -> list[float]:
    """A point of the grid: rows, and shares of the reduction, that grow by constant factors."""
    return [math.log(growth)] * (rounds - 1) + [k * math.log(tilt) for k in range(rounds)]


def _refine(x: Floats, value: float, floor: Floor) -> tuple[float, Floats]:
    """Coordinate descent with decreasing step sizes."""
    lowest = np.array([MIN_GROWTH] * (len(x) // 2) + [-20.0] * (len(x) - len(x) // 2))
    for step in STEPS:
        for _ in range(SWEEPS):
            before = value
            for i in range(len(x)) if len(x) > 1 else ():
                for move in (step, -step):
                    x, value = _descend(x, value, i, move, lowest[i], floor)
            if before - value < GAIN * value:
                break
    return value, x


def _descend(
    x: Floats, value: float, i: int, move: float, lowest: float, floor: Floor
) -> tuple[Floats, float]:
    """Move one coordinate while that lowers the floor."""
    while lowest <= x[i] + move <= 20.0:
        trial = x.copy()
        trial[i] += move
        trial_value = floor(trial)
        if not trial_value < value:
            break
        x, value = trial, trial_value
    return x, value


def _to_integers(x: Floats, n: int, p: int, d: int, cells: int, rereads: bool) -> list[tuple[int, int]]:
    """Round to whole rows and features within the budget, and spend what is left of it."""
    k = (len(x) + 1) // 2
    rows, left = np.empty(k), np.empty(k)
    sizes = np.array([n, p, d, cells, rereads], dtype=np.float64)
    load_kernels().lay_out(x[: k - 1], x[k - 1 :], sizes, rows, left)
    steps = _drop_idle_rounds([(math.floor(m), round(f)) for m, f in zip(rows, left, strict=True)], p, d)
    totals, kept = [m for m, _ in steps], [f for _, f in steps]
    min_rows = min(MIN_ROWS, n)
    totals = [min(n, max(min_rows, m)) for m in totals]
    while _cost(totals, kept, p, rereads) > cells:  # rounding may keep a few features too many
        if max(totals) == min_rows:  # even the fewest rows, read again, exceed the budget
            return [(cells // p, d)]
        totals = [max(min_rows, m - max(1, m // 10_000)) for m in totals]
    for i, before in enumerate([p, *kept[:-1]]):
        spare = cells - _cost(totals, kept, p, rereads)
        if rereads:
            totals[i] += min(spare // before, (totals[i + 1] if i < len(kept) - 1 else n) - totals[i])
        elif i < len(kept) - 1:  # one row lost to rounding; the next round then reads one less
            totals[i] += min(1, spare // (before - kept[i]), totals[i + 1] - totals[i])
        else:
            totals[i] += min(spare // before, n - totals[i])
    return _drop_idle_rounds(list(zip(totals, kept, strict=True)), p, d)


def _cost(totals: list[int], kept: list[int], p: int, rereads: bool) -> int:
    before = [0] * len(totals) if rereads else [0, *totals[:-1]]
    return sum((m - b) * f for m, b, f in zip(totals, before, [p, *kept[:-1]], strict=True))


def _drop_idle_rounds(steps: list[tuple[int, int]], p: int, d: int) -> list[tuple[int, int]]:
    """Drop rounds that read or drop nothing, which small sizes can have; the last one keeps d."""
    result: list[tuple[int, int]] = []
    for rows, kept in [*steps[:-1], (steps[-1][0], d)]:
        if result and rows == result[-1][0]:
            result[-1] = (rows, kept)
        elif d <= kept < (result[-1][1] if result else p):
            result.append((rows, kept))
    return result
