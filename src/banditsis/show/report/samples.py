"""A sample of the data for the plots of a report: a few rows of the best features and the response."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices
from banditsis.core.validation import check_responses, find_missing
from banditsis.engine.redundancy import correlation_among
from banditsis.results.result import ScreeningResult
from banditsis.sources.base import Source
from banditsis.statistics import STATISTICS

#: Rows for correlations among the features, and for plots against the response.
MAX_ROWS, MAX_PLOTTED_ROWS = 5000, 500
#: Features for correlations, and for plots against the response.
MAX_FEATURES, MAX_PLOTTED = 40, 12
#: A variable with at most this many distinct values is plotted by class.
MAX_CLASSES = 10


class Sample(NamedTuple):
    """Rows drawn from those in which the response is known."""

    #: correlations among the best features over rows drawn uniformly
    correlation: Floats
    #: rows for plots × the best features, as many of each class of the response; NaN if missing
    plotted: Floats
    #: the response in these rows, numbers or labels; None if it was not given
    y: Array | None
    #: which rows could be drawn, and how; empty for a uniform sample of all rows
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
    uniform = rng.choice(known, min(MAX_ROWS, len(known)), replace=False)
    plotted = uniform[:MAX_PLOTTED_ROWS]
    # A continuous response has many values in the sample, which saves the search among all rows.
    if response is not None and find_classes(response[uniform]) is not None:
        values = class_values(response[known])
        if (classes := find_classes(values)) is not None:
            most = MAX_PLOTTED_ROWS // len(classes)  # of each, so no rare class is absent
            members = [rng.permutation(known[values == label])[:most] for label in classes]
            plotted = np.concatenate(members)
            condition += f", at most {most:,} of each class"
    plotted, columns = np.sort(plotted), np.sort(features)  # sources read in sorted order
    block = np.array(source.read(plotted, columns), np.float64)[:, np.searchsorted(columns, features)]
    block[~np.isfinite(block)] = np.nan
    correlation = correlation_among(source, features, np.sort(uniform))
    return Sample(correlation, block, None if response is None else response[plotted], condition)


def _known_rows(result: ScreeningResult, y: Any, n: int) -> tuple[Array | None, Indices, str]:
    """The response, the rows to draw from, and what these have in common."""
    if y is None:
        return None, np.arange(n), ""
    kind = STATISTICS.get(str(result.parameters.get("statistic")))
    values = check_responses(y if kind is None else kind.unpack(y), n, allow_missing=True).values
    response, known = values[:, 0], ~find_missing(values[:, 0])
    if kind is not None and kind.n_columns > 1:
        return response, np.flatnonzero(known & (values[:, 1] == 1)), " with an event"
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
    classes, counts = np.unique(class_values(values), return_counts=True)
    if len(classes) <= MAX_CLASSES:
        return classes
    return None if numeric else np.sort(classes[np.argsort(-counts, kind="stable")[:MAX_CLASSES]])


def class_values(values: Array) -> Array:
    """Values that can be compared with those of :func:`find_classes`: numbers, or labels as text."""
    return values if values.dtype.kind in "fiu" else values.astype(str)
