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
of its bounded deviations from the median (:class:`~banditsis.deviations.Deviation`), which heavy tails do not
upset.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import beta

from banditsis._typing import Array, Floats, Indices, Rows
from banditsis._warnings import warn_user
from banditsis.deviations import MOST, Deviation
from banditsis.sampling import count_rows, spread
from banditsis.sources.base import Source
from banditsis.sources.watched import Watched, group_spread, spread_between
from banditsis.statistics.base import Statistic

#: Probability of a false alarm of one test.
ERROR = 1e-5
#: How a response is looked at: as it is, by its deviations, or whether it has a certain label.
View = Callable[[Array], Array]
#: A design effect of the response below this does little harm, however surely it is there.
HARMLESS = 2.0
MOST_LABELS, VALUES_AT_ONCE = 20, 1 << 18
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


def warn_of_order(source: Watched, statistic: Statistic, rows: Rows, row_order: str) -> list[str]:
    """Warn, and return the warning, if the rows of the first pass cannot stand for all rows.

    Parameters
    ----------
    source : Watched
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


def _doubt(source: Watched, statistic: Statistic, rows: Rows, row_order: str) -> str | None:
    n, m = source.shape[0], count_rows(rows)
    if hasattr(statistic.y, "between_blocks"):  # on a cluster, of which only the rows read are looked at
        groups, effects = statistic.y.between_blocks(rows)
        if groups > 2 and max(effects) > max(bound(m, groups, len(effects)), HARMLESS):
            return "the response differs between blocks of rows"
    elif row_order == "blocks":
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
        design_effect(y[:, k], edges, view) > max(most, HARMLESS)
        for k in range(y.shape[1])
        for view in views[k]
    )


def _views(y: Array) -> list[View]:
    """Numbers by themselves and by their deviations; the most common class labels one by one."""
    if y.dtype.kind in "fiub":
        return [np.asarray, Deviation.of(y)]
    labels, counts = np.unique(y, return_counts=True)
    return [partial(np.equal, label) for label in labels[np.argsort(-counts)[:MOST_LABELS]]]


def _spread_drifts(y: Array, rows: Rows) -> bool:
    """Whether deviations in some rows differ from those in all, by Bernstein's bound: right for any law."""
    if y.dtype.kind not in "fiub" or count_rows(rows) >= len(y):
        return False
    m, least = count_rows(rows), -math.log(ERROR / (2 * y.shape[1]))
    for k in range(y.shape[1]):
        look = Deviation.of(y[:, k])
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
