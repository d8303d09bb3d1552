"""The order of the rows of an index: random, in strata of the target if samples are then better."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.core.validation import find_missing
from banditsis.formats.checks import to_text
from banditsis.statistics import Anova, LinearStatistic, Pearson

HEAD = 8  # rows that are also stored by row, in units of √n: those of the first steps of most plans


def count_head_rows(sizes: Sequence[int]) -> list[int]:
    """Rows of each stratum that are also stored by row: its share by size, or an equal one if more."""
    rows = HEAD * max(16, math.isqrt(sum(sizes)))
    shares = [max(size / sum(sizes), 1 / len(sizes)) for size in sizes]
    return [min(size, math.ceil(rows * share)) for size, share in zip(sizes, shares, strict=True)]


def order_rows(n: int, y: Array | None, rng: np.random.Generator) -> tuple[Indices, list[int]]:
    """Rows in the order in which they are stored, and the sizes of their strata, if there are any."""
    codes = None if y is None else _find_strata(y)
    if codes is None:
        return rng.permutation(n), []
    parts = [rng.permutation(np.flatnonzero(codes == h)) for h in range(int(codes.max()) + 1)]
    return np.concatenate(parts), [len(part) for part in parts]


def _find_strata(y: Array) -> Array | None:
    """The stratum of each row, the last one without a value; None if strata would not be more precise."""
    from banditsis.engine.sampling import Strata  # reading does not need the engine

    known = ~find_missing(y)
    statistic = _bind(y[known])
    row_sizes = None if statistic is None else statistic.row_sizes()
    if row_sizes is None:
        return None
    n = int(known.sum())
    strata = Strata.by_size(n, row_sizes)
    if not strata.is_worthwhile(2 * math.isqrt(n)):
        return None
    codes = np.full(len(y), strata.n_strata, np.uint8)
    codes[known] = strata.codes
    return codes


def _bind(y: Array) -> LinearStatistic | None:
    """The statistic for a target without missing values; None if no feature can be ranked by it."""
    if y.dtype.kind in "fiub":
        varies = len(y) and y.min() != y.max() and np.isfinite(y).all()
        return Pearson.bind(y[:, None], False) if varies else None
    labels = np.array([to_text(value) for value in y.tolist()])
    return Anova.bind(labels[:, None], False) if 1 < len(np.unique(labels)) < len(y) else None
