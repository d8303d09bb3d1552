"""Search for the plan with the lowest predicted detection floor within a budget.

A plan of k rounds is described by 2k - 1 numbers: the logarithms of the factors by which rows grow, and the
shares of log(p / d), the logarithm of the total reduction, that the rounds take. The rows are then scaled to
the budget. A coarse grid comes first; the best plans on it are refined one number at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Floats
from banditsis.plans.design import SamplingDesign
from banditsis.plans.floor import predicted_floors

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

#: The gain in precision by a sampling design is considered at these multiples of the mean rows of a feature,
#: and rounded, so similar designs share a plan: the search takes much longer than a run.
GAIN_AT, GAIN_STEP = (0.5, 1, 3, 10, 30), math.log(1.1)
#: Predicted floors of plans, one a line.
FindFloors = Callable[[Floats], Floats]


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
    sizes = Sizes(n, p, d, cells, rereads)

    def find_floors(points: Floats) -> Floats:
        return _find_floors(points, sizes, curve)

    def best_start(rounds: int) -> tuple[float, tuple[float, ...]]:
        """The best point of a grid: rows, and shares of the reduction, that grow by constant factors."""
        starts = [
            (*[math.log(growth)] * (rounds - 1), *(k * math.log(tilt) for k in range(rounds)))
            for growth in GROWTHS
            for tilt in TILTS
        ]
        return min(zip(find_floors(np.array(starts)).tolist(), starts, strict=True))

    max_rounds, n_refined = (MAX_REREADING_ROUNDS, 1) if rereads else (MAX_ROUNDS, REFINED)
    best = sorted(best_start(rounds) for rounds in range(1, max_rounds + 1))
    refined = [_refine(np.array(x), value, find_floors) for value, x in best[:n_refined]]
    _, x = min(refined, key=lambda found: found[0])
    return tuple(_to_integers(x, sizes))


class Sizes(NamedTuple):
    """Rows, features, features to keep and cells to read, and whether each round rereads all its rows."""

    n: int
    p: int
    d: int
    cells: int
    rereads: bool


def _find_floors(points: Floats, sizes: Sizes, curve: Floats) -> Floats:
    """Predicted floors, as mean z, of plans; ``curve`` has numbers of rows and of effective rows."""
    rows, left = _lay_out(points, sizes)
    # Below the first point of the curve, proportional.
    rows = np.interp(rows, np.append(0.0, curve[0]), np.append(0.0, curve[1]))
    shares = left / np.column_stack([np.full(len(left), float(sizes.p)), left[:, :-1]])
    return predicted_floors(np.maximum(rows - 3.0, 1.0), shares, max(sizes.n - 3.0, 1.0), ERROR, NODES)


def _lay_out(points: Floats, sizes: Sizes) -> tuple[Floats, Floats]:
    """Rows of each round and features left after it, for plans that use the whole budget.

    In a point, the logs of the ratios of the rows of successive rounds come first; by the others, round l
    takes a share proportional to ``exp(split[l])`` of log(p / d). Rows are scaled and limited to n.
    """
    k = (points.shape[1] + 1) // 2
    parts = np.exp(points[:, k - 1 :])
    done = np.cumsum(parts / parts.sum(axis=1, keepdims=True), axis=1)
    left = sizes.p * np.exp(-done * math.log(sizes.p / sizes.d))
    rows = np.exp(np.cumsum(np.column_stack([np.zeros(len(points)), points[:, : k - 1]]), axis=1))
    features = np.column_stack([np.full(len(left), float(sizes.p)), left[:, :-1]])
    before = np.zeros_like(rows)
    if not sizes.rereads:
        before[:, 1:] = rows[:, :-1]
    scale = np.zeros((len(points), 1))
    for _ in range(k + 1):  # each pass can find one more round that is limited to n
        limited, reads = rows * scale >= sizes.n, before * scale < sizes.n
        certain = np.sum(np.where(limited & reads, (sizes.n - before * scale) * features, 0.0), axis=1)
        cost = np.where(limited, np.where(reads, -before, 0.0), rows - before) * features
        cost = cost.sum(axis=1)
        wanted = (sizes.cells - certain) / np.where(cost > 0.0, cost, math.inf)
        scale = np.maximum(scale, wanted[:, None])
    return np.maximum(np.minimum(rows * scale, sizes.n), 1.0), left


def _refine(x: Floats, value: float, find_floors: FindFloors) -> tuple[float, Floats]:
    """Coordinate descent with decreasing step sizes."""
    for step in STEPS:
        for _ in range(SWEEPS):
            before = value
            x, value = _sweep(x, value, step, find_floors)
            if before - value < GAIN * value:
                break
    return value, x


def _sweep(x: Floats, value: float, step: float, find_floors: FindFloors) -> tuple[Floats, float]:
    """Move one number after the other, up and then down, while that lowers the floor. The floors of all moves
    that are left are computed together, because most moves are in vain.
    """
    lowest = np.array([MIN_GROWTH] * (len(x) // 2) + [-20.0] * (len(x) - len(x) // 2))
    moves = np.repeat(np.eye(len(x)), 2, axis=0) * step * np.tile([1.0, -1.0], len(x))[:, None]
    first = 0 if len(x) > 1 else len(moves)
    while first < len(moves):
        trials = x + moves[first:]
        allowed = np.flatnonzero(np.all((trials >= lowest) & (trials <= 20.0), axis=1))
        floors = find_floors(trials[allowed])
        better = np.flatnonzero(floors < value)
        if not better.size:
            break
        k = allowed[better[0]]
        x, value, first = trials[k], float(floors[better[0]]), first + int(k)
    return x, value


def _to_integers(x: Floats, sizes: Sizes) -> list[tuple[int, int]]:
    """Round to whole rows and features within the budget, and spend what is left of it."""
    n, p, d, cells, rereads = sizes
    rows, left = (part[0].tolist() for part in _lay_out(x[None], sizes))
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
