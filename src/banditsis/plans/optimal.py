"""Search for the plan with the lowest predicted detection floor that a budget pays for.

A plan of k rounds is described by 2k - 1 numbers: the logs of the factors by which rows grow, and how the
rounds share log(p / d), the log of the reduction. The rows are then scaled to the budget. Coarse families
come first, the best of them are refined one number at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from banditsis.arrays import Floats
from banditsis.kernels import chain
from banditsis.plans.detection_floor import gauss_legendre
from banditsis.plans.plan import MIN_ROWS

#: Where each round reads all its rows again, two or three rounds are best.
MAX_ROUNDS, MAX_REREADING = 8, 3
NODES, ERROR = 32, 0.05
GROWTHS = (1.15, 1.3, 1.6, 2.2, 3.5)
TILTS = (0.5, 0.75, 1.0, 1.5)
#: Slower growth than this is more than the nodes can follow.
MIN_GROWTH = math.log(1.08)
STEPS = (0.4, 0.2, 0.1, 0.05)
REFINED, SWEEPS, GAIN = 3, 6, 2e-4

Floor = Callable[[Floats], float]


@lru_cache(maxsize=256)
def find_steps(n: int, p: int, d: int, cells: int, rereads: bool = False) -> tuple[tuple[int, int], ...]:
    """Rows and features kept in each round of the best plan of at most that many cells."""
    floor = _make_floor(n, p, d, cells, rereads)
    best: dict[int, tuple[float, tuple[float, ...]]] = {}
    most, refined_most = (MAX_REREADING, 1) if rereads else (MAX_ROUNDS, REFINED)
    for rounds in range(1, most + 1):
        starts = [tuple(_family(rounds, growth, tilt)) for growth in GROWTHS for tilt in TILTS]
        best[rounds] = min((floor(np.array(x)), x) for x in starts)
    chosen = sorted(best.values())[:refined_most]
    refined = [_refine(np.array(x), value, floor) for value, x in chosen]
    _, x = min(refined, key=lambda found: found[0])
    return tuple(_whole_numbers(x, n, p, d, cells, rereads))


def _make_floor(n: int, p: int, d: int, cells: int, rereads: bool) -> Floor:
    nodes, weights, work = gauss_legendre(NODES)
    sizes = np.array([n, p, d, cells, rereads], dtype=np.float64)
    scratch = np.empty((5, MAX_ROUNDS))

    def floor(x: Floats) -> float:
        k = (len(x) + 1) // 2
        growth, split = x[: k - 1], x[k - 1 :]
        return float(chain.trial_floor(growth, split, sizes, ERROR, nodes, weights, work, scratch[:, :k]))

    return floor


def _family(rounds: int, growth: float, tilt: float) -> list[float]:
    """Rows that grow by one factor; shares of the reduction that do too."""
    return [math.log(growth)] * (rounds - 1) + [k * math.log(tilt) for k in range(rounds)]


def _refine(x: Floats, value: float, floor: Floor) -> tuple[float, Floats]:
    """Move one number at a time, while that helps, by ever smaller steps."""
    lowest = np.array([MIN_GROWTH] * (len(x) // 2) + [-20.0] * (len(x) - len(x) // 2))
    for step in STEPS:
        for _ in range(SWEEPS):
            before = value
            for i in range(len(x)) if len(x) > 1 else ():
                for move in (step, -step):
                    x, value = _slide(x, value, i, move, lowest[i], floor)
            if before - value < GAIN * value:
                break
    return value, x


def _slide(x: Floats, value: float, i: int, move: float, lowest: float, floor: Floor) -> tuple[Floats, float]:
    """Move one number until it no longer helps."""
    while lowest <= x[i] + move <= 20.0:
        trial = x.copy()
        trial[i] += move
        found = floor(trial)
        if not found < value:
            break
        x, value = trial, found
    return x, value


def _whole_numbers(x: Floats, n: int, p: int, d: int, cells: int, rereads: bool) -> list[tuple[int, int]]:
    """The steps in whole rows and features, within the budget, and what is left of it spent."""
    k = (len(x) + 1) // 2
    rows, left = np.empty(k), np.empty(k)
    sizes = np.array([n, p, d, cells, rereads], dtype=np.float64)
    chain.lay_out(x[: k - 1], x[k - 1 :], sizes, rows, left)
    steps = _without_idle_rounds([(math.floor(m), round(f)) for m, f in zip(rows, left, strict=True)], p, d)
    totals, kept = [m for m, _ in steps], [f for _, f in steps]
    least = min(MIN_ROWS, n)
    totals = [min(n, max(least, m)) for m in totals]
    while _cost(totals, kept, p, rereads) > cells:  # rounding may keep a few features too many
        if max(totals) == least:  # the least rows, read again, are too many
            return [(cells // p, d)]
        totals = [max(least, m - max(1, m // 10_000)) for m in totals]
    for i, before in enumerate([p, *kept[:-1]]):
        spare = cells - _cost(totals, kept, p, rereads)
        if rereads:
            totals[i] += min(spare // before, (totals[i + 1] if i < len(kept) - 1 else n) - totals[i])
        elif i < len(kept) - 1:  # one row that rounding took; the next round then reads one less
            totals[i] += min(1, spare // (before - kept[i]), totals[i + 1] - totals[i])
        else:
            totals[i] += min(spare // before, n - totals[i])
    return _without_idle_rounds(list(zip(totals, kept, strict=True)), p, d)


def _cost(totals: list[int], kept: list[int], p: int, rereads: bool) -> int:
    before = [0] * len(totals) if rereads else [0, *totals[:-1]]
    return sum((m - b) * f for m, b, f in zip(totals, before, [p, *kept[:-1]], strict=True))


def _without_idle_rounds(steps: list[tuple[int, int]], p: int, d: int) -> list[tuple[int, int]]:
    """Leave out rounds that read or drop nothing; small sizes have some. The last one keeps d."""
    result: list[tuple[int, int]] = []
    for rows, kept in [*steps[:-1], (steps[-1][0], d)]:
        if result and rows == result[-1][0]:
            result[-1] = (rows, kept)
        elif d <= kept < (result[-1][1] if result else p):
            result.append((rows, kept))
    return result
