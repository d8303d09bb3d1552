"""Which rows are read, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from banditsis._typing import Indices, Rows

ROW_ORDERS = ("auto", "random", "stored")


def new_rows(n: int, totals: Sequence[int], order: str, rng: np.random.Generator) -> Iterator[Rows]:
    """Yield the rows that each step adds, sorted, so that after step l ``totals[l]`` have been read.

    ``random`` draws one uniform sample without replacement and hands it out piece by piece, so the rows
    read up to any step are a uniform sample themselves. No array of length n is made if fewer than n / 50
    rows are needed.

    Examples
    --------
    >>> import numpy as np
    >>> [rows.tolist() for rows in new_rows(10, [3, 5], "random", np.random.default_rng(0))]
    [[2, 4, 7], [3, 5]]
    >>> list(new_rows(10, [3, 5], "stored", np.random.default_rng(0)))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    before = 0
    if order == "stored" or totals[0] >= n:  # all at once needs no order
        for total in totals:
            yield slice(before, total)
            before = total
        return
    sample = rng.choice(n, size=totals[-1], replace=False, shuffle=True)
    for total in totals:
        yield np.sort(sample[before:total])
        before = total


def count_rows(rows: Rows) -> int:
    """Number of rows."""
    return rows.stop - rows.start if isinstance(rows, slice) else rows.size


def take(rows: Rows, start: int, stop: int) -> Rows:
    """The ``start``-th to ``stop``-th of the rows."""
    if isinstance(rows, slice):
        return slice(rows.start + start, min(rows.start + stop, rows.stop))
    return rows[start:stop]


def spread(rows: Rows, size: int) -> Indices:
    """About ``size`` of the rows, evenly spread over them."""
    picks = np.unique(np.linspace(0, count_rows(rows) - 1, size).astype(np.intp))
    return picks + rows.start if isinstance(rows, slice) else rows[picks]
