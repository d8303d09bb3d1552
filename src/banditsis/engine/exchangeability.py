r"""Whether rows that are stored together look like rows drawn at random.

Whole blocks, or the first rows, represent all rows only if blocks are exchangeable. The rows that are read
first are cut into B groups of consecutive rows, and for each feature the variation between group means is
compared with chance. With SSB the sum of squares between groups and SST the total sum of squares of m rows,

.. math:: T = \frac{SSB}{SST} \cdot \frac{m - 1}{B - 1}

has mean 1 if rows are assigned to groups at random, whatever the feature's distribution. T is about the
*design effect*: this many rows are worth one independent row. For normal data SSB / SST has a beta
distribution. For sparse and heavy-tailed features k influential values fall into one group with probability
:math:`B^{1-k}`, and T is then k, so T exceeds c with probability of about :math:`B^{1-c}`. The bound used
here is the larger of the two, at error :data:`ERROR` over all features together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, count_rows, special, spread
from banditsis.core.validation import warn_user
from banditsis.sources.base import Source

#: Probability of a false alarm of one test.
ERROR = 1e-5
#: A design effect of the response below this is harmless, even if it is significant.
DESIGN_EFFECT_TOLERANCE = 2.0
#: Kinds of NumPy's dtypes that are numbers; others have class labels, the most common of which are compared.
NUMBERS, MAX_LABELS = "fiub", 20
#: Size of the samples that are read again: features, cells, and rows in runs of consecutive ones.
PROBE_COLUMNS, PROBE_CELLS, PROBE_RUNS, PROBE_ROWS = 256, 1 << 22, 16, 512
MAX_GROUPS, MIN_GROUPS, ROWS_PER_GROUP = 16, 4, 32
#: In units of the median absolute deviation: about 2.7 standard deviations of normal values.
MAX_DEVIATION, DEVIATION_PILOT_ROWS = 4.0, 1 << 16


class GroupSums(NamedTuple):
    """Sums over groups of rows, groups × features."""

    values: Floats
    squares: Floats
    counts: Floats  #: number of rows in which each feature is present


def add_up_groups(block: Array, cuts: Indices) -> GroupSums:
    """The sums of a block for the rows from each cut to the next; NaN cells are left out."""
    values = np.asarray(block, np.float64)
    known = ~np.isnan(values)
    values = np.where(known, values, 0.0)
    values = np.where(known, values - values.sum(axis=0) / np.maximum(known.sum(axis=0), 1), 0.0)
    parts = values, np.square(values), known.astype(np.float64)
    return GroupSums(*(np.add.reduceat(part, cuts[:-1], axis=0) for part in parts))


def find_variation(groups: GroupSums) -> Floats:
    """T of every feature; NaN for constant ones."""
    total, square, count = (part.sum(axis=0) for part in groups)
    between = (np.square(groups.values) / np.maximum(groups.counts, 1)).sum(axis=0)
    common = total * (total / np.maximum(count, 1))
    # For a nearly constant feature the rest is rounding error.
    varies = (square - common > 1e-5 * square) & (count > len(groups.values))
    share = np.full(len(total), np.nan)
    np.divide(between - common, square - common, out=share, where=varies)
    return np.asarray(share * (count - 1) / (len(groups.values) - 1))


def variation_bound(n_rows: int, n_groups: int, n_tests: int, *, sparse: bool = True) -> float:
    """The bound that T stays below, in all tests together, if rows are assigned to groups at random."""
    error = ERROR / n_tests
    share = special.betainccinv((n_groups - 1) / 2, (n_rows - n_groups) / 2, error)  # of SSB in SST
    normal = share * (n_rows - 1) / (n_groups - 1)
    clumped = 1 - math.log(error) / math.log(n_groups) if sparse else 0.0
    return float(max(normal, clumped))


def group_cuts(source: Source, rows: Rows) -> Indices:
    """Where to cut rows into groups of about equal size: at block edges, if the source has blocks."""
    n = count_rows(rows)
    targets = np.linspace(0, n, min(MAX_GROUPS, max(MIN_GROUPS, n // ROWS_PER_GROUP)) + 1)
    if source.block_rows == 1:
        return np.unique(targets.astype(np.intp))
    edges = source.block_edges()
    edges = np.clip(edges - rows.start, 0, n) if isinstance(rows, slice) else np.searchsorted(rows, edges)
    edges = np.unique(edges)
    cuts = np.unique(edges[np.searchsorted(edges, np.floor(targets))])
    too_few = len(cuts) > 2 and cuts[-1] - cuts[-2] < (cuts[1] - cuts[0]) / 2  # rows for a group
    return np.delete(cuts, -2) if too_few else cuts


def warn_if_not_exchangeable(
    source: Source, y: Array, rows: Rows, row_order: str, groups: GroupSums | None
) -> list[str]:
    """Warn, and return the warning, if the rows of the first step do not represent all rows.

    ``y`` has all rows. Without ``groups``, the sums of the first step, some features are read again.
    """
    blocks, m, difference = row_order == "blocks", count_rows(rows), None
    n_tests = y.shape[1] * (2 if y.dtype.kind in NUMBERS else MAX_LABELS)
    views = (view for column in y.T for view in response_views(column))
    if blocks and any(differs_between_blocks(view, source.block_edges(), n_tests) for view in views):
        difference = f"the response differs between blocks of {source.block_rows:,} rows"
    elif not blocks and any(differs_in_rows(view, rows, n_tests) for view in views):
        difference = f"the response in the first {m:,} rows differs from the rest"
    elif not source.shuffled:
        difference = _find_differing(source, rows, blocks, groups)
    if difference is None:
        return []
    message = (
        f"The rows are not in random order: {difference} more than chance allows. Screening only "
        f"{'some blocks' if blocks else 'the first rows'} can give wrong answers. Use random row order, read "
        "all rows, or index the file once with `banditsis index`."
    )
    warn_user(message)
    return [message]


def _find_differing(source: Source, rows: Rows, blocks: bool, groups: GroupSums | None) -> str | None:
    """Which features differ between the rows that were read, or between these and others; None if none do."""
    (n, p), m, cuts = source.shape, count_rows(rows), group_cuts(source, rows)
    columns, difference = spread(slice(0, p), max(1, min(PROBE_COLUMNS, PROBE_CELLS // m))), None
    if groups is not None:
        difference = _describe_differing(source, np.arange(p), groups)
    elif len(cuts) > 2:
        difference = _describe_differing(source, columns, add_up_groups(source.read(rows, columns), cuts))
    if difference is not None:
        return f"{difference} between {'blocks' if blocks else 'groups of consecutive rows'}"
    if blocks or (size := min(m, n - m, PROBE_ROWS)) < 8:
        return None
    run = max(1, size // PROBE_RUNS)  # a few evenly spaced runs of rows, so few blocks are read
    firsts = [np.linspace(a, b - run, size // run).astype(np.intp) for a, b in ((0, m), (m, n))]
    samples = [np.unique(some[:, None] + np.arange(run)) for some in firsts]
    block = source.read(np.concatenate(samples), columns)
    halves = add_up_groups(block, np.array([0, len(samples[0]), len(block)]))
    difference = _describe_differing(source, columns, halves)
    return None if difference is None else f"{difference} between the first {m:,} rows and the rest"


def _describe_differing(source: Source, columns: Indices, groups: GroupSums) -> str | None:
    """Name the features whose T, or the mean of T, exceeds what chance gives; None if none does."""
    n_groups, n_rows = len(groups.values), int(groups.counts.max(axis=1).sum())
    variation = find_variation(groups)
    known = variation[~np.isnan(variation)]
    if not known.size:
        return None
    if n_differing := int(np.count_nonzero(known > variation_bound(n_rows, n_groups, known.size))):
        name = source.name(int(columns[np.nanargmax(variation)]))
        others = f" and {n_differing - 1:,} other feature{'s' * (n_differing > 2)} differ"
        return f"feature {name!r}{others if n_differing > 1 else ' differs'}"
    return "features differ" if known.mean() > variation_bound(n_rows, n_groups, 1, sparse=False) else None


def response_views(y: Array) -> Iterator[Array]:
    """Bounded functions of a response, whose means are compared: of labels, indicators of common classes.

    Of numbers, :math:`d = (y - c) / s`, from -4 to 4, which shows drift, and :math:`|d|`, which shows that
    rows are sorted by the size of the response: c is the median and s the median absolute deviation (of the
    values that differ from c, if it is 0).
    """
    if y.dtype.kind not in NUMBERS:
        labels, counts = np.unique(y, return_counts=True)
        yield from (y == label for label in labels[np.argsort(-counts)[:MAX_LABELS]])
        return
    values = np.asarray(y, np.float64)
    sample = values[spread(slice(0, len(y)), DEVIATION_PILOT_ROWS)]
    centre = np.median(sample)
    sizes = np.abs(sample - centre)
    scale = np.median(sizes) or (np.median(sizes[sizes > 0]) if sizes.any() else 1.0)
    with np.errstate(over="ignore"):
        deviations = np.clip((values - centre) / scale, -MAX_DEVIATION, MAX_DEVIATION)
    yield deviations
    yield np.abs(deviations)


def differs_between_blocks(view: Array, edges: Indices, n_tests: int) -> bool:
    """Whether the design effect of a function of the response is significant and harmful."""
    if len(edges) < 3:
        return False
    bound = max(variation_bound(len(view), len(edges) - 1, n_tests), DESIGN_EFFECT_TOLERANCE)
    return bool(find_variation(add_up_groups(view[:, None], edges))[0] > bound)


def differs_in_rows(view: Array, rows: Rows, n_tests: int) -> bool:
    """Whether the mean over some rows differs from that of all, by Bernstein's bound for bounded values."""
    if count_rows(rows) >= len(view):
        return False
    difference = abs(view[rows].mean() - view.mean())
    reach = 2 * MAX_DEVIATION if view.dtype.kind == "f" else 1.0
    exponent = -math.log(ERROR / (2 * n_tests)) / count_rows(rows)
    return bool(difference**2 > exponent * (2 * view.var() + 2 / 3 * reach * difference))
