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

If rows are sorted by the size of the response, blocks have equal means but unequal spread. So the same test
is applied to the bounded deviations of the response from its median, which heavy tails do not affect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, count_rows, special, spread, take
from banditsis.core.validation import warn_user
from banditsis.sources.base import Source, SourceView, SumContext
from banditsis.statistics.base import Statistic
from banditsis.statistics.weights import Weights

#: Probability of a false alarm of one test.
ERROR = 1e-5
#: A design effect of the response below this is harmless, even if it is significant.
DESIGN_EFFECT_TOLERANCE = 2.0
#: Drift of the response in the first rows, in standard errors.
DRIFT_TOLERANCE = 5.0
MAX_LABELS, VALUES_AT_ONCE = 20, 1 << 18
#: Size of the sample that compares the first rows with later ones.
PROBE_RUNS, PROBE_RUN_ROWS, PROBE_COLUMNS = 16, 32, 256
MAX_GROUPS, MIN_GROUPS, ROWS_PER_GROUP = 16, 4, 32
#: In units of the median absolute deviation: about 2.7 standard deviations of normal values.
MAX_DEVIATION = 4.0
DEVIATION_PILOT_ROWS = 1 << 16

#: A function of the response whose mean is compared between blocks.
View = Callable[[Array], Array]


class ExchangeabilityMonitor(SourceView):
    """A source that records, in the first pass over it, how features vary between groups of rows."""

    def __init__(self, base: Source) -> None:
        super().__init__(base)
        self.n_groups = 0
        #: T of every monitored feature, once the first pass is over
        self.variation: Floats | None = None
        #: which features are monitored; None for all
        self.columns: Columns = None

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        """Cut the first group into smaller ones, whose sums show how features vary; weighted ones do not."""
        is_first = self.variation is None and columns is None and not weights.weighted
        cuts = _group_cuts(self, take(rows, 0, int(edges[1]))) if is_first else []
        if len(cuts) <= 2:
            self.base.add_sums(rows, edges, columns, weights, context)
            return
        n_groups, finer = len(cuts) - 1, np.array([*cuts, *edges[2:]])
        out = np.zeros_like(context.out, shape=(len(finer) - 1, *context.out.shape[1:]))  # also on a GPU
        self.base.add_sums(rows, finer, columns, weights, context._replace(out=out))
        context.out[0] += out[:n_groups].sum(axis=0)
        context.out[1:] += out[n_groups:]
        self.n_groups, self.variation = n_groups, _sums_variation(out[:n_groups], np.diff(cuts), weights)

    def read_again(self, rows: Rows, columns: Indices) -> None:
        """Read a few features of the first rows again, if the first pass could not monitor its sums."""
        cuts = _group_cuts(self, rows)
        if len(cuts) > 2:
            parts = [self.read(take(rows, start, stop), columns) for start, stop in pairwise(cuts)]
            self.columns, self.n_groups = columns, len(parts)
            self.variation = group_variation([np.asarray(part, dtype=np.float64) for part in parts])


def _sums_variation(sums: Floats, n_rows: Indices, weights: Weights) -> Floats:
    """T of every feature from the sums of groups of rows; NaN for constant ones."""
    square = 1 + weights.n_linear
    totals, counts = sums[:, 0], sums[:, square + 1] if weights.n_presence else n_rows[:, None]
    between = (totals * totals / np.maximum(counts, 1)).sum(axis=0)
    given = totals.sum(axis=0), sums[:, square].sum(axis=0), counts.sum(axis=0)
    return _variation(between, *given, len(sums))


def _variation(between: Floats, total: Floats, squares: Floats, count: int | Floats, groups: int) -> Floats:
    """T from Σ (group sum)² / (group size), the sum and the sum of squares; NaN for constant features."""
    common = total * (total / np.maximum(count, 1))
    total_squares = squares - common
    # For a nearly constant feature the rest is rounding error.
    varies = (total_squares > 1e-5 * squares) & (np.asarray(count) > groups)
    share = np.full(len(total), np.nan)
    np.divide(between - common, total_squares, out=share, where=varies)
    return np.asarray(share * (np.asarray(count) - 1) / (groups - 1))


def group_variation(blocks: Sequence[Floats]) -> Floats:
    """T of the columns of several blocks, each a group of rows; NaN cells are ignored.

    Examples
    --------
    >>> group_variation([np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]]), np.array([[9.0], [9.0]])])
    array([2.47431507])
    """
    counts = [np.count_nonzero(~np.isnan(block), axis=0) for block in blocks]
    shift = np.nan_to_num(np.nanmean(blocks[0], axis=0)) if counts[0].all() else 0.0
    shifted = [np.nan_to_num(block - shift) for block in blocks]
    totals = [block.sum(axis=0) for block in shifted]
    between = sum(t * t / np.maximum(c, 1) for t, c in zip(totals, counts, strict=True))
    squares = sum((block * block).sum(axis=0) for block in shifted)
    return _variation(np.asarray(between), sum(totals), np.asarray(squares), sum(counts), len(blocks))


def _group_cuts(source: Source, rows: Rows) -> list[int]:
    """Where to cut rows into groups of about equal size: at block edges, if the source has blocks."""
    n = count_rows(rows)
    targets = np.linspace(0, n, min(MAX_GROUPS, max(MIN_GROUPS, n // ROWS_PER_GROUP)) + 1)
    if source.block_rows == 1:
        return [int(cut) for cut in np.unique(targets.astype(int))]
    edges = source.block_edges()
    edges = np.clip(edges - rows.start, 0, n) if isinstance(rows, slice) else np.searchsorted(rows, edges)
    edges = np.unique(edges)
    cuts = np.unique(edges[np.searchsorted(edges, np.floor(targets))])
    if len(cuts) > 2 and cuts[-1] - cuts[-2] < (cuts[1] - cuts[0]) / 2:  # too few rows for a group
        cuts = np.delete(cuts, -2)
    return [int(cut) for cut in cuts]


def variation_bound(n_rows: int, n_groups: int, n_tests: int, *, sparse: bool = True) -> float:
    """The bound that T stays below, in all tests together, if rows are assigned to groups at random.

    Examples
    --------
    >>> round(variation_bound(1600, 16, 1000), 2), round(variation_bound(1600, 16, 1, sparse=False), 2)
    (7.64, 3.33)
    """
    error = ERROR / n_tests
    share = special.betainccinv((n_groups - 1) / 2, (n_rows - n_groups) / 2, error)  # of SSB in SST
    normal = share * (n_rows - 1) / (n_groups - 1)
    clumped = 1 - math.log(error) / math.log(n_groups) if sparse else 0.0
    return float(max(normal, clumped))


def warn_if_not_exchangeable(
    source: ExchangeabilityMonitor, statistic: Statistic, rows: Rows, row_order: str
) -> list[str]:
    """Warn, and return the warning, if the rows of the first pass do not represent all rows.

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
    difference = _find_difference(source, statistic, rows, row_order)
    if difference is None:
        return []
    message = (
        f"The rows are not in random order: {difference} more than chance allows. Screening only "
        f"{'some blocks' if row_order == 'blocks' else 'the first rows'} can give wrong answers. Use random "
        "row order, read all rows, or shuffle the file once with `banditsis shuffle`."
    )
    warn_user(message)
    return [message]


def _find_difference(
    source: ExchangeabilityMonitor, statistic: Statistic, rows: Rows, row_order: str
) -> str | None:
    n, m = source.shape[0], count_rows(rows)
    if row_order == "blocks":
        if _response_differs(statistic.y, source.block_edges()):
            return f"the response differs between blocks of {source.block_rows:,} rows"
    elif statistic.drift(rows, n) > DRIFT_TOLERANCE or _deviation_drifts(statistic.y, rows):
        return f"the response in the first {m:,} rows differs from the rest"
    if source.variation is None and not source.shuffled:
        source.read_again(rows, spread(slice(0, source.shape[1]), PROBE_COLUMNS))
    if source.variation is not None:
        differing = _differing_features(source, source.columns, source.variation, m, source.n_groups)
        if differing is not None:
            groups = "blocks" if row_order == "blocks" else "groups of consecutive rows"
            return f"{differing} between {groups}"
    return None if row_order == "blocks" or source.shuffled else _first_rows_differ(source, m)


def _differing_features(
    source: Source, columns: Indices | None, variation: Floats, n_rows: int, n_groups: int
) -> str | None:
    """Name the features whose T, or the mean of T, exceeds what chance gives."""
    known = variation[~np.isnan(variation)]
    if known.size == 0 or n_groups < 2:
        return None
    n_differing = int(np.count_nonzero(variation > variation_bound(n_rows, n_groups, known.size)))
    if n_differing:
        worst = int(np.nanargmax(variation))
        name = source.name(worst if columns is None else int(columns[worst]))
        if n_differing == 1:
            return f"feature {name!r} differs"
        return f"feature {name!r} and {n_differing - 1:,} other feature{'s' * (n_differing > 2)} differ"
    if known.mean() > variation_bound(n_rows, n_groups, 1, sparse=False):
        return "features differ"
    return None


def _first_rows_differ(source: Source, n_first: int) -> str | None:
    """Compare a sample of the first rows with one of the others, of equal size."""
    n, p = source.shape
    columns = spread(slice(0, p), PROBE_COLUMNS)
    size = min(n_first, n - n_first, PROBE_RUNS * PROBE_RUN_ROWS)
    if size < 8:
        return None
    samples = [_probe_rows(0, n_first, size), _probe_rows(n_first, n, size)]
    blocks = [np.asarray(source.read(rows, columns), dtype=np.float64) for rows in samples]
    differing = _differing_features(source, columns, group_variation(blocks), sum(map(len, blocks)), 2)
    return None if differing is None else f"{differing} between the first {n_first:,} rows and the rest"


def _probe_rows(start: int, stop: int, size: int) -> Indices:
    """Rows in a few evenly spaced runs, so few blocks are read."""
    run = max(1, size // PROBE_RUNS)
    firsts = np.linspace(start, stop - run, size // run).astype(np.intp)
    return np.unique(firsts[:, None] + np.arange(run))


def _response_differs(y: Array, edges: Indices) -> bool:
    """Whether a response has a design effect between blocks that is significant and harmful."""
    if len(edges) < 3:
        return False
    views = [(y[:, k], view) for k in range(y.shape[1]) for view in _views(y[:, k])]
    bound = max(variation_bound(len(y), len(edges) - 1, len(views)), DESIGN_EFFECT_TOLERANCE)
    return any(design_effect(response, edges, view) > bound for response, view in views)


def _views(y: Array) -> list[View]:
    """Numbers and their deviations; or an indicator of each of the most common class labels."""
    if y.dtype.kind in "fiub":
        return [np.asarray, BoundedDeviation.of(y)]
    labels, counts = np.unique(y, return_counts=True)
    return [partial(np.equal, label) for label in labels[np.argsort(-counts)[:MAX_LABELS]]]


def _deviation_drifts(y: Array, rows: Rows) -> bool:
    """Whether deviations in some rows differ from those in all, by Bernstein's bound."""
    if y.dtype.kind not in "fiub" or count_rows(rows) >= len(y):
        return False
    m, exponent = count_rows(rows), -math.log(ERROR / (2 * y.shape[1]))
    for k in range(y.shape[1]):
        deviation = BoundedDeviation.of(y[:, k])
        total = squares = 0.0  # of values from 0 to 4, so plain sums are accurate
        for a in range(0, len(y), VALUES_AT_ONCE):
            part = deviation(y[a : a + VALUES_AT_ONCE, k])
            total, squares = total + float(part.sum()), squares + float(part @ part)
        mean = total / len(y)
        variance = max(0.0, squares / len(y) - mean**2)
        difference = abs(float(deviation(y[rows, k]).mean()) - mean)
        if m * difference**2 > exponent * (2 * variance + 2 / 3 * MAX_DEVIATION * difference):
            return True
    return False


def design_effect(y: Array, edges: Indices, view: View = np.asarray) -> float:
    """T of a response, or of a view of it, between blocks.

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
        values = np.asarray(view(y[part[0] : part[-1]]), dtype=np.float64) - centre
        with np.errstate(over="ignore", invalid="ignore"):
            groups = np.add.reduceat(values, part[:-1] - part[0])
            sums[:, 0] += (groups**2 / np.diff(part)).sum(), values.sum(), (values**2).sum()
    return float(_variation(sums[0], sums[1], sums[2], len(y), len(edges) - 1)[0])


@dataclass(frozen=True)
class BoundedDeviation:
    r"""The bounded absolute deviation from the median, :math:`\min(|y - c| / s, 4)`.

    Its mean measures the spread of y, even if y has no variance.

    Examples
    --------
    >>> deviation = BoundedDeviation.of(np.array([1.0, 2.0, 3.0, 4.0, 1e9]))
    >>> deviation(np.array([3.0, 1.0, 1e12]))
    array([0., 2., 4.])
    """

    centre: float
    scale: float

    @classmethod
    def of(cls, y: Array) -> BoundedDeviation:
        """Use the median and the median absolute deviation, or that of the nonzero deviations if it is 0."""
        sample = np.asarray(y[spread(slice(0, len(y)), DEVIATION_PILOT_ROWS)], dtype=np.float64)
        centre = float(np.median(sample))
        deviations = np.abs(sample - centre)
        nonzero = deviations[deviations > 0]
        scale = float(np.median(deviations)) or (float(np.median(nonzero)) if nonzero.size else 1.0)
        return cls(centre, scale)

    def __call__(self, values: Array) -> Floats:
        with np.errstate(over="ignore"):
            deviations = np.abs(np.asarray(values, dtype=np.float64) - self.centre) / self.scale
        return np.minimum(deviations, MAX_DEVIATION)
