"""A sample of the data for the plots of a report: a few rows of the best features and the response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from banditsis.arrays import Array, Floats, Indices
from banditsis.results import ScreeningResult
from banditsis.sources.base import Source
from banditsis.statistics import STATISTICS
from banditsis.validation import check_responses, find_missing

#: Rows for correlations among the features, and for plots against the response.
MAX_ROWS, MAX_PLOTTED_ROWS = 5000, 1000
#: Features for correlations, and for plots against the response.
MAX_FEATURES, MAX_PLOTTED = 40, 12
#: A variable with at most this many distinct values is plotted by class.
MAX_CLASSES = 10


@dataclass(frozen=True)
class Sample:
    """Rows drawn uniformly from those in which the response is known, in random order."""

    #: the best features, by rank
    features: Indices
    #: rows × features; NaN where a value is missing
    X: Floats
    #: numbers or labels; None if the response was not given
    y: Array | None
    #: what the rows have in common, if not all rows could be drawn
    condition: str = ""


def read_sample(result: ScreeningResult, source: Source, y: Any) -> Sample | None:
    """Read a sample of the best features; None if no feature was selected."""
    features = result.selected[:MAX_FEATURES]
    if not len(features):
        return None
    n, p = source.shape
    if p != result.n_features:
        raise ValueError(
            f"X has {p:,} features and the result has {result.n_features:,}: pass the data that were "
            "screened."
        )
    response, known, condition = _known_rows(result, y, n)
    rng = np.random.default_rng(0)  # the same result and data give the same report
    rows = rng.choice(known, min(MAX_ROWS, len(known)), replace=False)
    order = np.argsort(rows)
    block = np.empty((len(rows), len(features)))
    columns = np.sort(features)
    block[order] = source.read(rows[order], columns)  # sources read in sorted order
    block = block[:, np.searchsorted(columns, features)]
    block[~np.isfinite(block)] = np.nan
    return Sample(features, block, None if response is None else response[rows], condition)


def _known_rows(result: ScreeningResult, y: Any, n: int) -> tuple[Array | None, Indices, str]:
    """The response, the rows to draw from, and what these have in common."""
    if y is None:
        return None, np.arange(n), ""
    kind = STATISTICS.get(str(result.parameters.get("statistic")))
    values = check_responses(y if kind is None else kind.unpack(y), n, allow_missing=True).values
    response, known = values[:, 0], ~find_missing(values[:, 0])
    if kind is not None and kind.n_columns > 1:
        return response, np.flatnonzero(known & (values[:, 1] == 1)), "rows with an event"
    return response, np.flatnonzero(known), ""


def find_classes(values: Array) -> Array | None:
    """The distinct values of labels, or of numbers if there are few of them; None for other numbers.

    Only the most frequent labels are returned if there are many.

    Examples
    --------
    >>> find_classes(np.array([2.0, 0.0, 2.0])), find_classes(np.linspace(0, 1, 100))
    (array([0., 2.]), None)
    """
    numeric = values.dtype.kind in "fiu"
    if numeric:
        values = values[np.isfinite(values)]
    classes, counts = np.unique(values if numeric else values.astype(str), return_counts=True)
    if len(classes) <= MAX_CLASSES:
        return classes
    return None if numeric else np.sort(classes[np.argsort(-counts, kind="stable")[:MAX_CLASSES]])
