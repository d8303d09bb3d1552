"""Table 1 beside the published one: what agrees, and what does not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from banditsis.paper.published import REPLICATIONS, SIZES, TABLE1, Line

#: Standard normal quantile of a two-sided 99% interval.
Z99 = 2.5758293035489004
#: Give or take of a share of 500 runs compared with one half of 500 others.
MEDIAN_TOLERANCE = 0.11
TITLES = {"published": "as published", "printed": "as printed"}


class Check(NamedTuple):
    """How many of the cells agree with the published ones."""

    agreeing: int
    total: int

    def __str__(self) -> str:
        return f"{self.agreeing} of {self.total}"


def difference_interval(x1: float, n1: int, x2: float, n2: int, z: float = Z99) -> tuple[float, float]:
    r"""Agresti and Caffo's interval for a difference of two proportions [1]_.

    .. math:: \tilde p_1 - \tilde p_2 \pm z \sqrt{\sum_i \tilde p_i (1 - \tilde p_i) / (n_i + 2)}, \quad
        \tilde p_i = (x_i + 1) / (n_i + 2)

    Unlike the textbook interval it has a width where a proportion is 0 or 1.

    Parameters
    ----------
    x1, n1, x2, n2
        Successes and trials on both sides.
    z : float
        Normal quantile; by default that of 99%.

    Returns
    -------
    low, high : float

    References
    ----------
    .. [1] Agresti, A. and Caffo, B. (2000). Simple and effective confidence intervals for proportions and
       differences of proportions result from adding two successes and two failures. Am. Stat. 54, 280-288.

    Examples
    --------
    >>> low, high = difference_interval(500, 500, 496, 500)
    >>> round(low, 3), round(high, 3)
    (-0.005, 0.02)
    """
    p1, p2 = (x1 + 1) / (n1 + 2), (x2 + 1) / (n2 + 2)
    half = z * math.sqrt(p1 * (1 - p1) / (n1 + 2) + p2 * (1 - p2) / (n2 + 2))
    return p1 - p2 - half, p1 - p2 + half


def agrees(ours: float, n: int, published: float) -> bool:
    """Whether two percentages, ours of n runs, differ by no more than chance explains (99%)."""
    low, high = difference_interval(
        round(ours / 100 * n), n, round(published / 100 * REPLICATIONS), REPLICATIONS
    )
    return low <= 0 <= high


def median_agrees(sizes: Sequence[int], published: float) -> bool:
    """Whether our shares of S below, and up to, the published median bracket one half.

    S has few values, so medians jump: shares can be compared where medians cannot.

    Examples
    --------
    >>> median_agrees([10, 10, 61, 87], 61), median_agrees([10, 10, 10, 61], 87)
    (True, False)
    """
    below = sum(size < published for size in sizes) / len(sizes)
    up_to = sum(size <= published for size in sizes) / len(sizes)
    return below <= 0.5 + MEDIAN_TOLERANCE and up_to >= 0.5 - MEDIAN_TOLERANCE


def check_percentages(lines: Sequence[Line], n: int) -> Check:
    """How many cells of P agree with the published ones."""
    verdicts = [
        agrees(ours, n, theirs)
        for line, published in zip(lines, TABLE1, strict=True)
        for ours, theirs in zip(line.percentages, published.percentages, strict=True)
    ]
    return Check(sum(verdicts), len(verdicts))


def check_medians(sizes: Sequence[Sequence[int]]) -> Check:
    """How many medians of S agree with the published ones; ``sizes`` has the runs of each line."""
    verdicts = [median_agrees(s, line.quantiles[2]) for s, line in zip(sizes, TABLE1, strict=True)]
    return Check(sum(verdicts), len(verdicts))


def compare(tables: dict[str, list[Line]], n: int) -> str:
    """Markdown tables, one for each model, with the published values above ours."""
    head = ["method", "", "S 5%", "25%", "50%", "75%", "95%", *(f"P at {d}" for d in SIZES)]
    parts = []
    for model in dict.fromkeys(line.model for line in TABLE1):
        body = []
        for k, published in enumerate(TABLE1):
            if published.model != model:
                continue
            body.append([published.method, "**the paper**", *_numbers(published)])
            # SIS has no rounds, so both variants are the same run.
            for variant in ["published"] if published.alpha is None else TITLES:
                title = "here" if published.alpha is None else TITLES[variant]
                body.append(["", title, *_marked(tables[variant][k], published, n)])
        parts += [f"### {model}", "", markdown_table(head, body), ""]
    return "\n".join(parts)


def markdown_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right."""
    lines = [head, ["---" if k == 0 else "---:" for k in range(len(head))], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _numbers(line: Line) -> list[str]:
    return [f"{q:g}" for q in line.quantiles] + [f"{p:.1f}" for p in line.percentages]


def _marked(line: Line, published: Line, n: int) -> list[str]:
    marks = [
        f"{ours:.1f} {'✓' if agrees(ours, n, theirs) else '✗'}"
        for ours, theirs in zip(line.percentages, published.percentages, strict=True)
    ]
    return [*(f"{q:g}" for q in line.quantiles), *marks]
