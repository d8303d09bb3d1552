"""The funnel and the reading map of a report, as SVG.

Each mark has a text (``data-tip``) that the page's script shows on hover and focus, and that screen readers
read. Colours are classes, so that the style sheet can turn them dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from banditsis.describing import distinct_cells, shows_better_in_logs
from banditsis.formatting import format_duration
from banditsis.report.markup import plain
from banditsis.results import Round, ScreeningResult

WIDTH, LEFT, RIGHT = 460, 72, 20
LINE = 26


def funnel(result: ScreeningResult) -> str:
    """A bar for the features left after each round, and a dot for the rows read."""
    rounds = result.rounds
    place = log_scale(max(result.n_features, rounds[-1].n_rows), 1)
    height = LINE * (len(rounds) + 1)
    start = f"Before the first round: {result.n_features:,} features, no rows read."
    marks = [_bar(0, "start", result.n_features, None, place, start)]
    for k, r in enumerate(rounds, 1):
        marks.append(_bar(k, f"round {k}", r.n_kept, r.n_rows, place, _describe(k, r)))
    path = " ".join(f"{place(r.n_rows):.1f},{LINE * (k + 0.5):.1f}" for k, r in enumerate(rounds, 1))
    line = f'<polyline class="line" points="{path}"/>'
    ticks = _count_ticks(max(result.n_features, rounds[-1].n_rows), place, height)
    body = f"{ticks}{marks[0]}{line}{''.join(marks[1:])}"
    return _svg(height + 24, "Features left and rows read after each round, log scale", body)


def _bar(k: int, label: str, left: int, rows: int | None, place: Callable[[float], float], tip: str) -> str:
    top = LINE * k
    dot = (
        "" if rows is None else f'<circle class="dot" cx="{place(rows):.1f}" cy="{top + LINE / 2}" r="4.5"/>'
    )
    return _mark(
        tip,
        f'<rect class="hit" x="0" y="{top}" width="{WIDTH}" height="{LINE}"/>'
        f'<text class="label" x="{LEFT - 8}" y="{top + 17}" text-anchor="end">{label}</text>'
        f'<rect class="bar" x="{LEFT}" y="{top + 3}" width="{place(left) - LEFT:.1f}" height="{LINE - 6}"/>'
        f'<text class="count" x="{LEFT + 6}" y="{top + 17}">{left:,}</text>{dot}',
    )


def _count_ticks(largest: int, place: Callable[[float], float], height: int) -> str:
    step = max(1, round(math.log10(max(largest, 1)) / 5))
    ticks = []
    for power in range(0, math.floor(math.log10(max(largest, 1))) + 1, step):
        x, text = f"{place(10**power):.1f}", short_count(10**power)
        ticks.append(
            f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{height}"/>'
            f'<text class="label" x="{x}" y="{height + 17}" text-anchor="middle">{text}</text>'
        )
    return "".join(ticks)


def reading_map(result: ScreeningResult) -> str:
    """A block for the cells that each round read: rows in the order read × features, the best first."""
    n, p, height = result.n_rows, result.n_features, 300
    if shows_better_in_logs(result):
        across = log_scale(p, len(result.selected))
        down = log_scale(n, result.rounds[0].n_rows, 0, height)
    else:
        across, down = linear_scale(p), linear_scale(n, 0, height)
    size = f'width="{WIDTH - LEFT - RIGHT}" height="{height}"'
    unread = f"Not read: {n * p - distinct_cells(result):,} of {n * p:,} cells."
    marks = [_mark(unread, f'<rect class="unread" x="{LEFT}" y="0" {size}/>')]
    before = 0
    for k, r in enumerate(result.rounds, 1):
        shade = 0.35 + 0.65 * k / len(result.rounds)
        top, wide = down(before), across(r.n_features) - LEFT
        place = f'x="{LEFT}" y="{top:.1f}" width="{wide:.1f}" height="{down(r.n_rows) - top:.1f}"'
        marks.append(_mark(_describe(k, r), f'<rect class="read" fill-opacity="{shade:.2f}" {place}/>'))
        before = r.n_rows
    labels = _map_labels(result, across, down, height)
    what = "What was read: rows in the order read, downwards; features, best first, to the right"
    return _svg(height + 24, what, "".join(marks) + labels)


def _map_labels(
    result: ScreeningResult, across: Callable[[float], float], down: Callable[[float], float], height: int
) -> str:
    """Where the staircase begins and ends; labels that would touch others are left out."""
    rows = [result.n_rows, 0, result.rounds[-1].n_rows, result.rounds[0].n_rows]
    columns = [result.n_features, 0, len(result.selected)]
    texts = [
        f'<text class="label" x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{short_count(value)}</text>'
        for value, y in _apart(rows, down, 16)
    ]
    texts += [
        f'<text class="label" x="{x:.1f}" y="{height + 18}" text-anchor="middle">{short_count(value)}</text>'
        for value, x in _apart(columns, across, 44)
    ]
    return "".join(texts)


def _apart(values: list[int], place: Callable[[float], float], distance: float) -> list[tuple[int, float]]:
    kept: list[tuple[int, float]] = []
    for value in values:
        if all(abs(place(value) - other) >= distance for _, other in kept):
            kept.append((value, place(value)))
    return kept


def log_scale(
    largest: float, inner: float, start: float = LEFT, stop: float = WIDTH - RIGHT
) -> Callable[[float], float]:
    """Places in a picture: to scale up to ``inner``, and by powers of ten from there on.

    Examples
    --------
    >>> place = log_scale(1000, 1, 0, 400)
    >>> [round(place(v)) for v in (0, 1, 10, 1000)]
    [0, 100, 200, 400]
    """
    inner = max(inner, 1)

    def steps(value: float) -> float:
        return value / inner if value <= inner else 1 + math.log10(value / inner)

    return lambda value: start + (stop - start) * steps(value) / steps(largest)


def linear_scale(
    largest: float, start: float = LEFT, stop: float = WIDTH - RIGHT
) -> Callable[[float], float]:
    """Places in a picture, to scale."""
    return lambda value: start + (stop - start) * value / largest


def short_count(value: int) -> str:
    """A count of at most seven signs.

    Examples
    --------
    >>> [short_count(v) for v in (999, 12_345, 1_000_000, 123_456_789, 10**12)]
    ['999', '12,345', '1M', '123M', '1,000G']
    """
    for size, sign in ((10**9, "G"), (10**6, "M")):
        if value >= size:
            return f"{value / size:,.3g}{sign}" if value < 1000 * size else f"{value // size:,}{sign}"
    return f"{value:,}"


def _describe(k: int, r: Round) -> str:
    """A round in words."""
    return (
        f"Round {k}: {r.n_rows:,} rows read in all, {r.cells:,} cells in this round; "
        f"{r.n_features:,} features, {r.n_kept:,} kept; cutoff {r.cutoff:.4f}; {format_duration(r.seconds)}."
    )


def _mark(tip: str, inner: str) -> str:
    text = plain(tip)
    return f'<g class="mark" role="img" tabindex="-1" aria-label="{text}" data-tip="{text}">{inner}</g>'


def _svg(height: int, label: str, inner: str) -> str:
    return (
        f'<svg viewBox="0 -8 {WIDTH} {height + 8}" role="group" aria-label="{plain(label)}" '
        f'class="chart">{inner}</svg>'
    )
