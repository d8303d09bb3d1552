"""The order of the rows of a store: random, in strata of the target if samples are then more precise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.core.validation import find_missing
from banditsis.formats.stores import to_text
from banditsis.statistics import Anova, LinearStatistic, Pearson

HEAD = 2  # rows that are also stored by row, in units of √n


def count_head_rows(sizes: Sequence[int]) -> list[int]:
    """Rows of each stratum that are also stored by row: its share by size, or an equal one if that is more.

    Uniform samples have rows of a stratum in proportion to its size, and those for the target of the strata
    about as many of each.
    """
    rows = HEAD * max(64, math.isqrt(sum(sizes)))
    shares = [max(size / sum(sizes), 1 / len(sizes)) for size in sizes]
    return [min(size, math.ceil(rows * share)) for size, share in zip(sizes, shares, strict=True)]


def order_rows(n: int, y: Array | None, rng: np.random.Generator) -> tuple[Indices, list[int]]:
    """Rows in the order in which they are stored, and the sizes of their strata.

    Strata follow each other, and the order in each is random. There are no sizes if the order of all rows is
    random.

    Parameters
    ----------
    n : int
        Number of rows.
    y : ndarray of shape (n,) or None
        The target, if there is one: numbers, or objects that are labels.
    rng : Generator
        Source of randomness.

    Examples
    --------
    >>> y = np.zeros(1000)
    >>> y[::250] = 1
    >>> order, sizes = order_rows(1000, y, np.random.default_rng(0))
    >>> sizes, np.sort(order[996:]).tolist()
    ([996, 4], [0, 250, 500, 750])
    """
    codes = None if y is None else find_strata(y)
    if codes is None:
        return rng.permutation(n), []
    parts = [rng.permutation(np.flatnonzero(codes == h)) for h in range(int(codes.max()) + 1)]
    return np.concatenate(parts), [len(part) for part in parts]


def find_strata(y: Array) -> Array | None:
    """The stratum of each row; None if strata of this target do not pay.

    Rows without a value are a stratum of their own, the last one.
    """
    from banditsis.engine.strata import Strata  # the engine is above the store, and reading does not need it

    known = ~find_missing(y)
    values = y[known]
    statistic = _bind(values)
    if statistic is None:
        return None
    row_sizes = statistic.row_sizes()
    assert row_sizes is not None
    strata = Strata.by_size(len(values), row_sizes)
    if not strata.is_worthwhile(HEAD * math.isqrt(len(values))):
        return None
    codes = np.full(len(y), strata.n_strata, np.uint8)
    codes[known] = strata.codes
    return codes


def _bind(y: Array) -> LinearStatistic | None:
    """The statistic for a target without missing values; None if no feature can be ranked by it."""
    if y.dtype.kind in "fiub":
        if not len(y) or y.min() == y.max() or not np.isfinite(y).all():
            return None
        return Pearson.bind(y[:, None], False)
    labels = np.array([to_text(value) for value in y.tolist()])
    return Anova.bind(labels[:, None], False) if 1 < len(np.unique(labels)) < len(y) else None
