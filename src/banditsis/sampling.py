"""Which rows are read, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from banditsis._typing import Indices, Rows

ROW_ORDERS = ("auto", "random", "blocks", "stored")


def new_rows(
    n: int,
    totals: Sequence[int],
    order: str,
    rng: np.random.Generator,
    *,
    as_needed: bool = False,
    edges: Indices | None = None,
) -> Iterator[Rows]:
    """Yield the rows that each step adds, sorted, so that after step l ``totals[l]`` have been read.

    ``random`` draws one uniform sample without replacement and hands it out piece by piece, so the rows
    read up to any step are a uniform sample themselves. No array of length n is made if fewer than n / 50
    rows are needed. ``as_needed`` draws each piece when it is asked for, which is right where a run may end
    long before its last step.

    ``blocks`` draws blocks, which lie between the ``edges``, and hands out as many whole ones as the total
    makes: with the last block, which may be short, the rows are a little fewer.

    Examples
    --------
    >>> import numpy as np
    >>> [rows.tolist() for rows in new_rows(10, [3, 5], "random", np.random.default_rng(0))]
    [[2, 4, 7], [3, 5]]
    >>> list(new_rows(10, [3, 5], "stored", np.random.default_rng(0)))
    [slice(0, 3, None), slice(3, 5, None)]
    >>> edges = np.array([0, 4, 8, 10])
    >>> [rows.tolist() for rows in new_rows(10, [4, 8], "blocks", np.random.default_rng(0), edges=edges)]
    [[8, 9], [0, 1, 2, 3]]
    """
    before = 0
    if order == "stored" or totals[0] >= n:  # all at once needs no order
        for total in totals:
            yield slice(before, total)
            before = total
        return
    if order == "blocks":
        assert edges is not None
        yield from _rows_of_blocks(n, totals, rng, edges)
        return
    if as_needed:
        yield from _rows_as_needed(n, totals, rng)
        return
    sample = rng.choice(n, size=totals[-1], replace=False, shuffle=True)
    for total in totals:
        yield np.sort(sample[before:total])
        before = total


def _rows_of_blocks(
    n: int, totals: Sequence[int], rng: np.random.Generator, edges: Indices
) -> Iterator[Indices]:
    order = rng.permutation(len(edges) - 1)
    usual = np.median(np.diff(edges))
    before = 0
    for total in totals:
        after = len(order) if total >= n else max(before, min(len(order), int(np.ceil(total / usual))))
        chosen = np.sort(order[before:after])
        starts, lengths = edges[chosen], np.diff(edges)[chosen]
        # Row by row: where its block starts, and how far into the block it is.
        into = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        yield np.repeat(starts, lengths) + into
        before = after


def _rows_as_needed(n: int, totals: Sequence[int], rng: np.random.Generator) -> Iterator[Indices]:
    seen = np.empty(0, dtype=np.intp)
    for total in totals:
        wanted = total - len(seen)
        if total > n // 4:
            unseen = np.ones(n, dtype=bool)
            unseen[seen] = False
            fresh = rng.permutation(np.flatnonzero(unseen))[:wanted]
        else:
            fresh = _draw_unseen(n, wanted, seen, rng)
        fresh.sort()
        yield fresh
        seen = np.union1d(seen, fresh)


def _draw_unseen(n: int, wanted: int, seen: Indices, rng: np.random.Generator) -> Indices:
    """Draw rows, throw back those seen before: at most one in four."""
    drawn = np.empty(0, dtype=np.intp)
    while len(drawn) < wanted:
        more = rng.integers(0, n, size=2 * (wanted - len(drawn)) + 16, dtype=np.intp)
        drawn = np.concatenate([drawn, more[~np.isin(more, seen, kind="sort")]])
        _, first = np.unique(drawn, return_index=True)
        drawn = drawn[np.sort(first)]
    return drawn[:wanted]


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
