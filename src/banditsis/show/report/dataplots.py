"""A sample of the data: plots of the best features against the response, and their near-duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices
from banditsis.core.formatting import count, short_labels, shorten
from banditsis.core.validation import check_responses, find_missing
from banditsis.engine.redundancy import DUPLICATE, correlation_among
from banditsis.results.result import ScreeningResult
from banditsis.show.report.tables import bullet_list, escape_text, minus
from banditsis.sources.base import Source
from banditsis.statistics import STATISTICS

#: Rows and features for correlations among the features, and for plots against the response.
MAX_ROWS, MAX_PLOTTED_ROWS = 5000, 500
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
    response, known, condition = _known_rows(result, y, n, source.original_rows)
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


def _known_rows(
    result: ScreeningResult, y: Any, n: int, order: Indices | None
) -> tuple[Array | None, Indices, str]:
    """The response as rows are stored, the rows to draw from, and what these have in common."""
    if y is None:
        return None, np.arange(n), ""
    kind = STATISTICS.get(str(result.parameters.get("statistic")))
    values = check_responses(y if kind is None else kind.unpack(y), n, allow_missing=True).values
    values = values if order is None else values[order]
    response, known = values[:, 0], ~find_missing(values[:, 0])
    if kind is not None and kind.n_columns > 1:
        return response, np.flatnonzero(known & (values[:, 1] == 1)), " with an event"
    return response, np.flatnonzero(known), ""


def find_classes(values: Array) -> Array | None:
    """The distinct values of numbers if there are few, else None; the most frequent values of labels."""
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


# The plotting area, in units of the view box.
LEFT, TOP, WIDTH, HEIGHT = 42, 6, 162, 104
VIEW_BOX = f"0 0 {LEFT + WIDTH + 4} {TOP + HEIGHT + 32}"
#: Equal parts of the rows, by the feature, whose means are the line of a plot.
N_MEANS = 8
#: Dots of few different values are spread by at most this share of the distance between the values.
SPREAD = 0.35
#: Near-duplicates that are named: pairs, or features that one stands for.
MAX_NAMED = 10


def plots_against_response(result: ScreeningResult, sample: Sample | None) -> str:
    """A small plot of each of the best features against the response."""
    if sample is None or sample.y is None:
        return ""
    features = result.features.take(slice(MAX_PLOTTED))
    figures = []
    response = shorten(result.about.response or "response", 24)
    is_numeric = find_classes(sample.y) is None
    columns = zip(features.labels(24), features.scores(3), features["name"], features.evidence, strict=True)
    for j, (label, score, name, kind) in enumerate(columns):
        title = escape_text(name)
        names = _axis_names(label, response) if is_numeric else _axis_names(response, label)
        figures.append(
            f'<figure class="{kind}"><figcaption title="{title}">{escape_text(label)} '
            f'<span>{minus(score)}</span></figcaption><svg viewBox="{VIEW_BOX}" role="img" '
            f'aria-label="{title}">{plot_pair(sample.plotted[:, j], sample.y)}{names}</svg></figure>'
        )
    rows = f"A random sample of {count(len(sample.y), 'row')}{sample.condition}"
    adjusted = " The values are not adjusted for the covariates." if result.evidence.n_covariates else ""
    explanation = escape_text(f"{rows}; the line connects means.{adjusted}")
    return f'<p>{explanation}</p><div class="small">{"".join(figures)}</div>'


def _axis_names(across: str, down: str) -> str:
    """Names of the horizontal and the vertical axis."""
    x, y = LEFT + WIDTH / 2, TOP + HEIGHT / 2
    return (
        f'<text class="label" x="{x}" y="{TOP + HEIGHT + 27}">{escape_text(across)}</text>'
        f'<text class="label" transform="rotate(-90 12 {y})" x="12" y="{y}">{escape_text(down)}</text>'
    )


def plot_pair(x: Floats, y: Array) -> str:
    """Points and means: the response over the feature, or the feature in each class of the response."""
    shown, classes = np.isfinite(x), find_classes(y)
    if classes is not None:
        shown &= np.isin(class_values(y), classes)
    x, y = x[shown], y[shown]
    if not len(x):
        return ""
    if classes is None:
        across, down = x, y.astype(np.float64)
        parts = np.array_split(np.argsort(x, kind="stable"), N_MEANS)
        if (levels := find_classes(x)) is not None:
            parts = [np.flatnonzero(x == level) for level in levels]
        labels = [("start", 0.0, _tick(x.min())), ("end", WIDTH, _tick(x.max()))]
    else:
        classes, codes = np.unique(class_values(y), return_inverse=True)
        across, down = codes.astype(np.float64), x
        parts = [np.flatnonzero(codes == k) for k in range(len(classes))]
        width = WIDTH / len(classes)
        names = _class_names(classes, int(width / 6.2))
        labels = [("middle", (k + 0.5) * width, name) for k, name in enumerate(names)]
    ends = [(LEFT + at, TOP + HEIGHT + 13, kind, text) for kind, at, text in labels]
    limits = (TOP + HEIGHT, down.min()), (TOP + 9, down.max())
    ends += [(LEFT - 3, height, "end", _tick(value)) for height, value in limits]
    drawn = (f'<text class="{kind}" x="{x:.1f}" y="{y}">{text}</text>' for x, y, kind, text in ends)
    rng = np.random.default_rng(0)
    (a, dots_a), (b, dots_b) = _place(across, LEFT, WIDTH, rng), _place(down, TOP + HEIGHT, -HEIGHT, rng)
    dots = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in zip(dots_a, dots_b, strict=True))
    line = " ".join(f"{a[part].mean():.1f},{b[part].mean():.1f}" for part in parts if len(part))
    return (
        f'<path class="frame" d="M{LEFT} {TOP}v{HEIGHT}h{WIDTH}"/><path class="points" d="{dots}"/>'
        f'<polyline class="mean" points="{line}"/>{"".join(drawn)}'
    )


def _place(values: Floats, start: float, length: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Positions on an axis, and of dots: those of few different values are spread, or else they coincide."""
    values = values / (np.abs(values).max() or 1.0)  # differences of huge values overflow
    different = np.unique(values)
    gap = float(np.diff(different, append=different[-1] + 1).min()) if len(different) <= MAX_CLASSES else 0.0
    low, span = different[0] - gap / 2, different[-1] - different[0] + gap
    spread = rng.uniform(-SPREAD, SPREAD, len(values)) * gap

    def at(where: Floats) -> Floats:
        return np.asarray(start + length * (0.02 + 0.96 * (where - low) / span))

    return at(values), at(values + spread)


def _class_names(classes: Array, max_length: int) -> list[str]:
    names = [_tick(c) if isinstance(c, np.floating) else str(c) for c in classes]
    return [escape_text(name) for name in short_labels(names, max_length)]


def _tick(value: Any) -> str:
    return minus(f"{value:.2g}")


def redundancy(result: ScreeningResult, sample: Sample | None) -> str:
    """How correlated the selected features are, by the result or else by a sample, and near-duplicates."""
    r = result.correlation if result.correlation is not None or sample is None else sample.correlation
    features = result.features.take(slice(MAX_FEATURES))
    among = "" if r is None or len(features) < 2 else _describe_correlations(result, features.labels(22), r)
    left_out = []
    for feature in features["index"]:
        group = result.near_duplicates.get(int(feature), ())
        if len(group):
            named = short_labels([result.name(k) for k in [feature, *group[:MAX_NAMED]]], 22)
            more = f" and {len(group) - MAX_NAMED:,} more" if len(group) > MAX_NAMED else ""
            left_out.append(f"{named[0]}: {', '.join(named[1:])}{more}")
    if not left_out:
        return among
    reason = f"Not selected, because |r| &gt; {DUPLICATE:g} with a selected feature:"
    return f"{among}<p>{reason}</p>{bullet_list(left_out)}"


def _describe_correlations(result: ScreeningResult, labels: Sequence[str], r: Floats) -> str:
    """The mean and the largest correlation, and the pairs of near-duplicates, most similar first."""
    k = len(labels)
    pairs = sorted(combinations(range(k), 2), key=lambda pair: -abs(r[pair]))
    sizes = np.abs([r[pair] for pair in pairs])
    of = "selected" if k == len(result.selected) else f"best {k}"
    text = f"The mean |r| among the {of} features is {sizes.mean():.2f}, and the largest is {sizes[0]:.2f}."
    near = [f"{labels[i]} and {labels[j]}: r = {minus(f'{r[i, j]:+.3f}')}" for i, j in pairs]
    near = near[: np.count_nonzero(sizes > DUPLICATE)]
    if not near:
        return f"<p>{text} No two of them have |r| &gt; {DUPLICATE:g}.</p>"
    more = [f"and {count(len(near) - MAX_NAMED, 'more pair')}"] if len(near) > MAX_NAMED else []
    return f"<p>{text} Those with |r| &gt; {DUPLICATE:g}:</p>{bullet_list([*near[:MAX_NAMED], *more])}"
