r"""Whether rows that are stored together look like rows picked at random.

Whole blocks, or the first rows, stand for all rows only if blocks look alike. For each feature the rows that
are read first are cut into B groups of neighbours, and the spread of the group means is held against what
chance gives. With SSB the sum of squares between groups and SST that of all m rows,

.. math:: T = \frac{SSB}{SST} \cdot \frac{m - 1}{B - 1}

has mean 1 if rows were dealt to groups at random, whatever the feature's distribution. It is about the
*design effect*: so many rows of these count as one. For normal data SSB / SST follows a beta law. Sparse
and heavy-tailed features are worse: k values that matter fall into one group with probability
:math:`B^{1-k}`, and T is then k, so that T exceeds c with probability of about :math:`B^{1-c}`. The bound is
the larger of the two, for an error of :data:`ERROR` in all features at once.

Rows sorted by the size of a response have blocks of equal means and unequal spread. So the same test is made
of its bounded deviations from the median (:class:`BoundedDeviation`), which heavy tails do not
upset.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from scipy.stats import beta

from banditsis.arrays import Array, Columns, Floats, Indices, Rows, count_rows, spread, take
from banditsis.sources.base import Source, SourceView, SumContext, WeightFunction
from banditsis.statistics.base import Statistic, Weights
from banditsis.validation import warn_user

#: Probability of a false alarm of one test.
ERROR = 1e-5


#: How a response is looked at: as it is, by its deviations, or whether it has a certain label.
View = Callable[[Array], Array]


#: A design effect of the response below this does little harm, however surely it is there.
DESIGN_EFFECT_TOLERANCE = 2.0


MAX_LABELS, VALUES_AT_ONCE = 20, 1 << 18


#: What is read to see whether the first rows look like later ones.
PROBE_PLACES, PROBE_RUN, PROBE_COLUMNS = 16, 32, 256


def bound(n_rows: int, n_groups: int, n_tests: int, *, sparse: bool = True) -> float:
    """What T stays below, in all tests at once, if rows were dealt to groups at random.

    Examples
    --------
    >>> round(bound(1600, 16, 1000), 2), round(bound(1600, 16, 1, sparse=False), 2)
    (7.64, 3.33)
    """
    error = ERROR / n_tests
    normal = beta.isf(error, (n_groups - 1) / 2, (n_rows - n_groups) / 2) * (n_rows - 1) / (n_groups - 1)
    clumps = 1 - math.log(error) / math.log(n_groups) if sparse else 0.0
    return float(max(normal, clumps))


def warn_if_not_exchangeable(
    source: ExchangeabilityMonitor, statistic: Statistic, rows: Rows, row_order: str
) -> list[str]:
    """Warn, and return the warning, if the rows of the first pass cannot stand for all rows.

    Parameters
    ----------
    source : ExchangeabilityMonitor
        After its first pass.
    statistic : Statistic
        With the responses of all rows.
    rows : slice or ndarray
        The rows of the first pass.
    row_order : {"blocks", "stored"}
        How they were chosen.
    """
    reason = _doubt(source, statistic, rows, row_order)
    if reason is None:
        return []
    message = (
        f"The rows are not in random order: {reason} far more than chance allows. Screening only "
        f"{'some blocks' if row_order == 'blocks' else 'the first rows'} of them can give wrong answers. "
        "Use row_order='random', read all rows (SIS), or shuffle the file once (banditsis shuffle)."
    )
    warn_user(message)
    return [message]


def _doubt(source: ExchangeabilityMonitor, statistic: Statistic, rows: Rows, row_order: str) -> str | None:
    n, m = source.shape[0], count_rows(rows)
    if row_order == "blocks":
        if _response_differs(statistic.y, source.block_edges()):
            return f"the response differs between blocks of {source.block_rows:,} rows"
    elif statistic.drift(rows, n) > 5 or _spread_drifts(statistic.y, rows):
        return f"the response in the first {m:,} rows differs from that in the others"
    if source.spread is None and not source.shuffled:
        columns = spread(slice(0, source.shape[1]), PROBE_COLUMNS)
        source.watch(rows, columns)
    if source.spread is not None:
        found = _odd_features(source, source.columns, source.spread, m, source.n_groups)
        if found is not None:
            return f"{found} between {'blocks' if row_order == 'blocks' else 'groups'} of neighbouring rows"
    return None if row_order == "blocks" or source.shuffled else _first_rows_differ(source, m)


def _odd_features(
    source: Source, columns: Indices | None, observed: Floats, n_rows: int, n_groups: int
) -> str | None:
    """Which features have a T that chance does not give, or a mean of T."""
    known = observed[~np.isnan(observed)]
    if known.size == 0 or n_groups < 2:
        return None
    most = bound(n_rows, n_groups, known.size)
    odd = np.flatnonzero(observed > most)
    if odd.size:
        worst = int(np.nanargmax(observed))
        name = source.name(worst if columns is None else int(columns[worst]))
        others = f" and {odd.size - 1:,} other feature{'s' * (odd.size > 2)}" if odd.size > 1 else ""
        return f"feature {name!r}{others} differ{'s' * (odd.size == 1)}"
    if known.mean() > bound(n_rows, n_groups, 1, sparse=False):
        return "features differ"
    return None


def _first_rows_differ(source: Source, n_first: int) -> str | None:
    """Hold a sample of the first rows against one of the others, both of one size."""
    n, p = source.shape
    columns = spread(slice(0, p), PROBE_COLUMNS)
    size = min(n_first, n - n_first, PROBE_PLACES * PROBE_RUN)
    if size < 8:
        return None
    samples = [_places(0, n_first, size), _places(n_first, n, size)]
    blocks = [np.asarray(source.read(rows, columns), dtype=np.float64) for rows in samples]
    found = _odd_features(source, columns, group_spread(blocks), sum(map(len, blocks)), 2)
    return None if found is None else f"{found} between the first {n_first:,} rows and the others"


def _places(start: int, stop: int, size: int) -> Indices:
    """Rows in a few runs, evenly spread, so that few blocks are touched."""
    run = max(1, size // PROBE_PLACES)
    firsts = np.linspace(start, stop - run, size // run).astype(np.intp)
    return np.unique(firsts[:, None] + np.arange(run))


def _response_differs(y: Array, edges: Indices) -> bool:
    """Whether some response has a design effect between blocks that is both sure and harmful."""
    if len(edges) < 3:
        return False
    views = [_views(y[:, k]) for k in range(y.shape[1])]
    most = bound(len(y), len(edges) - 1, sum(map(len, views)))
    return any(
        design_effect(y[:, k], edges, view) > max(most, DESIGN_EFFECT_TOLERANCE)
        for k in range(y.shape[1])
        for view in views[k]
    )


def _views(y: Array) -> list[View]:
    """Numbers by themselves and by their deviations; the most common class labels one by one."""
    if y.dtype.kind in "fiub":
        return [np.asarray, BoundedDeviation.of(y)]
    labels, counts = np.unique(y, return_counts=True)
    return [partial(np.equal, label) for label in labels[np.argsort(-counts)[:MAX_LABELS]]]


def _spread_drifts(y: Array, rows: Rows) -> bool:
    """Whether deviations in some rows differ from those in all, by Bernstein's bound: right for any law."""
    if y.dtype.kind not in "fiub" or count_rows(rows) >= len(y):
        return False
    m, least = count_rows(rows), -math.log(ERROR / (2 * y.shape[1]))
    for k in range(y.shape[1]):
        look = BoundedDeviation.of(y[:, k])
        total = squares = 0.0  # of values from 0 to 4, which sum without harm
        for a in range(0, len(y), VALUES_AT_ONCE):
            part = look(y[a : a + VALUES_AT_ONCE, k])
            total, squares = total + float(part.sum()), squares + float(part @ part)
        mean = total / len(y)
        variance = max(0.0, squares / len(y) - mean**2)
        apart = abs(float(look(y[rows, k]).mean()) - mean)
        if m * apart**2 > least * (2 * variance + 2 / 3 * MOST * apart):
            return True
    return False


def design_effect(y: Array, edges: Indices, view: View = np.asarray) -> float:
    """T of a response, or of a view of it, between the blocks that the edges bound.

    Examples
    --------
    >>> design_effect(np.arange(1000) // 100, np.arange(0, 1001, 10))
    10.090909090909092
    """
    sums = np.zeros((3, 1))
    step = max(1, (len(edges) - 1) * VALUES_AT_ONCE // len(y))
    centre = float(view(y[len(y) // 2 :][:1])[0])
    for a in range(0, len(edges) - 1, step):
        part = edges[a : a + step + 1]
        values = y[part[0] : part[-1]]
        values = np.asarray(view(values), dtype=np.float64) - centre
        with np.errstate(over="ignore", invalid="ignore"):
            groups = np.add.reduceat(values, part[:-1] - part[0])
            sums[:, 0] += (groups**2 / np.diff(part)).sum(), values.sum(), (values**2).sum()
    return float(spread_between(sums[0], sums[1], sums[2], len(y), len(edges) - 1)[0])


#: In units of the median deviation: about 2.7 standard deviations of normal values.
MOST = 4.0


PILOT = 1 << 16


@dataclass(frozen=True)
class BoundedDeviation:
    r"""The bounded deviation :math:`\min(|y - c| / s, 4)` of values from their middle.

    Its mean tells of the spread of y as that of y² does, also where y has no variance at all.

    Examples
    --------
    >>> look = BoundedDeviation.of(np.array([1.0, 2.0, 3.0, 4.0, 1e9]))
    >>> look(np.array([3.0, 1.0, 1e12]))
    array([0., 2., 4.])
    """

    centre: float
    scale: float

    @classmethod
    def of(cls, y: Array) -> BoundedDeviation:
        """With the median and the median deviation of some values; of those that differ, if most do not."""
        some = np.asarray(y[spread(slice(0, len(y)), PILOT)], dtype=np.float64)
        centre = float(np.median(some))
        apart = np.abs(some - centre)
        scale = float(np.median(apart)) or float(np.median(apart[apart > 0])) if apart.any() else 1.0
        return cls(centre, scale)

    def __call__(self, values: Array) -> Floats:
        with np.errstate(over="ignore"):
            return np.minimum(np.abs(np.asarray(values, dtype=np.float64) - self.centre) / self.scale, MOST)


MAX_GROUPS, MIN_GROUPS, ROWS_A_GROUP = 16, 4, 32


class ExchangeabilityMonitor(SourceView):
    """A source that looks at the first pass over it: the spread of its features between groups of rows."""

    def __init__(self, base: Source) -> None:
        super().__init__(base)
        #: groups of the first pass, and T of every feature, once it is over
        self.n_groups = 0
        self.spread: Floats | None = None
        #: which features those are, None for all
        self.columns: Columns = None

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        out = context.out
        places = cut_rows(self, rows) if self.spread is None and columns is None else []
        weight = weights(take(rows, 0, 1)) if len(places) > 2 else None
        # Weighted squares say nothing of how features vary.
        if weight is None or weight.square is not None:
            self.base.sums(rows, columns, weights, context)
            return
        moments = Moments(weight, out)
        groups = [take(rows, start, stop) for start, stop in pairwise(places)]
        added = self.base.sums_by_group(groups, columns, weights, context)
        for group, _ in zip(groups, added, strict=True):
            moments.add(out, count_rows(group))
        self.n_groups, self.spread = moments.n_groups, moments.spread()

    def watch(self, rows: Rows, columns: Indices) -> None:
        """Read a few features of the rows of the first pass again, where its sums did not show them."""
        places = cut_rows(self, rows)
        if len(places) > 2:
            parts = [self.read(take(rows, start, stop), columns) for start, stop in pairwise(places)]
            self.columns, self.n_groups = columns, len(parts)
            self.spread = group_spread([np.asarray(part, dtype=np.float64) for part in parts])


class Moments:
    """Sums of the features group by group, taken from the sums of a pass as it goes on."""

    def __init__(self, weights: Weights, out: Floats) -> None:
        k, q = weights.n_classes, weights.linear.shape[1]
        by_class = weights.codes is not None
        self.plain = slice(0, k if by_class else 1)
        self.square = k if by_class else q + 1
        self.counts = (
            (slice(k + 1, 2 * k + 1) if by_class else slice(q + 2, q + 3)) if weights.pairwise else None
        )
        self.n_groups = 0
        self.before = self._values(out)
        self.first = self.before
        self.between = np.zeros(out.shape[1])
        self.n_rows = 0

    def _values(self, out: Floats) -> tuple[Floats, Floats, Floats | None]:
        counts = None if self.counts is None else out[self.counts].sum(axis=0)
        return out[self.plain].sum(axis=0), out[self.square].copy(), counts

    def add(self, out: Floats, n_rows: int) -> None:
        """Take note of a group of rows that has been added to the sums."""
        now = self._values(out)
        part = now[0] - self.before[0]
        count = n_rows if now[2] is None or self.before[2] is None else now[2] - self.before[2]
        self.between += part * part / np.maximum(count, 1)
        self.before, self.n_groups, self.n_rows = now, self.n_groups + 1, self.n_rows + n_rows

    def spread(self) -> Floats:
        """T of every feature, NaN for constant ones."""
        total, squares = self.before[0] - self.first[0], self.before[1] - self.first[1]
        count = (
            self.n_rows if self.before[2] is None or self.first[2] is None else self.before[2] - self.first[2]
        )
        return spread_between(self.between, total, squares, count, self.n_groups)


def spread_between(
    between: Floats, total: Floats, squares: Floats, count: int | Floats, groups: int
) -> Floats:
    """T from Σ (group sum)² / (group size), the sum and the sum of squares; NaN for constant features."""
    common = total * (total / np.maximum(count, 1))
    everything = squares - common
    # What is left of a nearly constant feature is rounding.
    varies = (everything > 1e-5 * squares) & (np.asarray(count) > groups)
    share = np.full(len(total), np.nan)
    np.divide(between - common, everything, out=share, where=varies)
    return np.asarray(share * (np.asarray(count) - 1) / (groups - 1))


def group_spread(blocks: Sequence[Floats]) -> Floats:
    """T of the columns of blocks, each a group of rows; NaN cells are left out.

    Examples
    --------
    >>> group_spread([np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]]), np.array([[9.0], [9.0]])])
    array([2.47431507])
    """
    counts = [np.count_nonzero(~np.isnan(block), axis=0) for block in blocks]
    shift = np.nan_to_num(np.nanmean(blocks[0], axis=0)) if counts[0].all() else 0.0
    moved = [np.nan_to_num(block - shift) for block in blocks]
    totals = [block.sum(axis=0) for block in moved]
    between = sum(t * t / np.maximum(c, 1) for t, c in zip(totals, counts, strict=True))
    squares = sum((block * block).sum(axis=0) for block in moved)
    return spread_between(np.asarray(between), sum(totals), np.asarray(squares), sum(counts), len(blocks))


def _cut(n_rows: int, edges: Indices | None = None) -> list[int]:
    """Where to cut rows into groups of about one size, at edges of blocks where there are any.

    Examples
    --------
    >>> _cut(1000)[:3], _cut(1000, np.array([0, 300, 600, 900, 1000]))
    ([0, 62, 125], [0, 300, 600, 1000])
    """
    groups = min(MAX_GROUPS, max(MIN_GROUPS, n_rows // ROWS_A_GROUP))
    wanted = np.linspace(0, n_rows, groups + 1)
    if edges is None:
        return [int(place) for place in np.unique(wanted.astype(int))]
    near = np.unique(edges[np.searchsorted(edges, np.floor(wanted))])
    if len(near) > 2 and near[-1] - near[-2] < (near[1] - near[0]) / 2:  # too few to stand alone
        near = np.delete(near, -2)
    return [int(place) for place in near]


def cut_rows(source: Source, rows: Rows) -> list[int]:
    """Where to cut some rows of a source into groups: at the edges of its blocks, if it has blocks."""
    n = count_rows(rows)
    if source.block_rows == 1:
        return _cut(n)
    edges = source.block_edges()
    at = np.clip(edges - rows.start, 0, n) if isinstance(rows, slice) else np.searchsorted(rows, edges)
    return _cut(n, np.unique(at))
