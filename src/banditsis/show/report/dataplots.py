"""Plots of a sample of the data: the best features against the response, and against each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from banditsis.core.arrays import Array, Floats
from banditsis.core.formatting import count, short_labels
from banditsis.engine.redundancy import DUPLICATE
from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import describe_inflation
from banditsis.show.pvalues import qq_points
from banditsis.show.report.samples import MAX_FEATURES, MAX_PLOTTED, Sample, class_values, find_classes
from banditsis.show.report.tables import bullet_list, escape_text, minus

# The plotting area, in units of the view box.
LEFT, TOP, WIDTH, HEIGHT = 34, 6, 162, 104
VIEW_BOX = f"0 0 {LEFT + WIDTH + 4} {TOP + HEIGHT + 18}"
#: Points of a Q-Q plot.
MAX_POINTS = 300
#: Equal parts of the rows, by the feature, whose means are the line of a scatter plot.
N_MEANS = 8
#: Near-duplicates that are named: pairs, or features that one stands for.
MAX_NAMED = 10


def plots_against_response(result: ScreeningResult, sample: Sample) -> str:
    """A small plot of each of the best features against the response."""
    if sample.y is None:
        return ""
    features = result.features.take(slice(MAX_PLOTTED))
    X, y = sample.plotted[:, :MAX_PLOTTED], sample.y
    figures = []
    for j, label in enumerate(features.labels(24)):
        caption = f"{escape_text(label)} <span>{minus(features.scores(3)[j])}</span>"
        title = escape_text(features["name"][j])
        drawn = f'<svg viewBox="{VIEW_BOX}" role="img" aria-label="{title}">{plot_pair(X[:, j], y)}</svg>'
        figures.append(
            f'<figure class="{features.evidence[j]}"><figcaption title="{title}">{caption}</figcaption>'
            f"{drawn}</figure>"
        )
    return f'<p>{escape_text(_explain(result, X, sample))}</p><div class="small">{"".join(figures)}</div>'


def qq_plot(result: ScreeningResult) -> str:
    """The p-values of all features against those expected without association; empty if some have none."""
    if not (inflation := describe_inflation(result)):
        return ""
    _, expected, observed = qq_points(result, MAX_POINTS)
    if not expected.size:
        return ""
    right, top = float(expected[0]), float(max(observed[0], expected[0]))
    across = _positions(expected, LEFT, WIDTH, (0.0, right))
    down = _positions(observed, TOP + HEIGHT, -HEIGHT, (0.0, top))
    ends = _positions(np.array([0.0, right]), TOP + HEIGHT, -HEIGHT, (0.0, top))
    line = f'<polyline class="mean" points="{across[-1]:.1f},{ends[0]:.1f} {across[0]:.1f},{ends[1]:.1f}"/>'
    ticks = _range_x(np.array([0.0, right])) + _range_y(np.array([0.0, top]))
    return (
        f"<p>{escape_text(inflation[0].upper() + inflation[1:])} It is about 1 if few features are "
        "associated and rows are independent given the covariates. The horizontal axis is −log₁₀ p as "
        "expected without association, the vertical axis −log₁₀ p as observed; both are equal on the "
        "line.</p>"
        '<div class="small"><figure>'
        f'<svg viewBox="{VIEW_BOX}" role="img" aria-label="Q–Q plot">{_frame()}{line}'
        f"{_path('points', across, down)}{ticks}</svg></figure></div>"
    )


def _explain(result: ScreeningResult, X: Floats, sample: Sample) -> str:
    response = result.response or "the response"
    few_values = [find_classes(column) is not None for column in X.T]
    sentences = [f"A random sample of {count(len(X), 'row')}{sample.condition}."]
    if sample.y is None or find_classes(sample.y) is None:
        has_boxes = any(few_values)
        sentences.append(
            f"The horizontal axis is the feature, the vertical axis {response}; the line connects means."
        )
    else:
        has_boxes = not all(few_values)
        if has_boxes:
            sentences.append(f"The vertical axis is the feature, by the values of {response}.")
        if any(few_values):
            sentences.append("The areas of circles are shares of each class.")
    if has_boxes:
        sentences.append("Boxes reach from quartile to quartile, whiskers from 5% to 95%.")
    if result.evidence.n_covariates:
        sentences.append("The values are not adjusted for the covariates.")
    return " ".join(sentences)


def plot_pair(x: Floats, y: Array) -> str:
    """Boxes if one variable has few values, circles for shares if both have, else a scatter plot."""
    known = np.isfinite(x)
    x, y = x[known], y[known]
    if not len(x):
        return ""
    by_x, by_y = find_classes(x), find_classes(y)
    if by_x is not None and by_y is not None:
        return _circles(x, y, by_x, by_y)
    if by_y is not None:
        return _boxes(x, y, by_y)
    values = y.astype(np.float64)
    return _boxes(values, x, by_x) if by_x is not None else _scatter(x, values)


def _scatter(x: Floats, y: Floats) -> str:
    across, down = _positions(x, LEFT, WIDTH), _positions(y, TOP + HEIGHT, -HEIGHT)
    parts = [part for part in np.array_split(np.argsort(x, kind="stable"), N_MEANS) if len(part)]
    line = " ".join(f"{across[part].mean():.1f},{down[part].mean():.1f}" for part in parts)
    return (
        _frame()
        + _path("points", across, down)
        + f'<polyline class="mean" points="{line}"/>'
        + _range_x(x)
        + _range_y(y)
    )


def _path(kind: str, across: Floats, down: Floats) -> str:
    """Dots of one colour as a single element."""
    dots = "".join(f"M{a:.0f} {b:.0f}h0" for a, b in zip(across, down, strict=True))
    return f'<path class="{kind}" d="{dots}"/>'


def _boxes(values: Floats, groups: Array, classes: Array) -> str:
    """A box of the values of each class."""
    width = WIDTH / len(classes)
    labels = class_values(groups)
    span = float(values.min()), float(values.max())
    drawn = []
    for k, label in enumerate(classes):
        members = values[labels == label]
        if not len(members):
            continue
        ends = np.percentile(members, [5, 25, 50, 75, 95])
        low, q1, median, q3, high = _positions(ends, TOP + HEIGHT, -HEIGHT, span)
        middle, half = LEFT + (k + 0.5) * width, min(0.35 * width, 16)
        drawn.append(
            f'<path class="whisker" d="M{middle:.1f} {low:.1f}V{q1:.1f}M{middle:.1f} {q3:.1f}V{high:.1f}"/>'
            f'<path class="box" d="M{middle - half:.1f} {q1:.1f}h{2 * half:.1f}V{q3:.1f}h{-2 * half:.1f}z"/>'
            f'<path class="median" d="M{middle - half:.1f} {median:.1f}h{2 * half:.1f}"/>'
        )
    return _frame() + "".join(drawn) + _class_labels(classes) + _range_y(values)


def _circles(x: Floats, y: Array, by_x: Array, by_y: Array) -> str:
    """The shares of the values of x within each class of y as the areas of circles.

    Counts would show how many rows of each class were drawn.
    """
    rows = class_values(y)
    counts = np.array([[np.count_nonzero((x == a) & (rows == b)) for a in by_x] for b in by_y])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    across, down = WIDTH / len(by_x), HEIGHT / len(by_y)
    largest = 0.48 * min(across, down)
    drawn = []
    for (i, j), share in np.ndenumerate(shares):
        radius = largest * np.sqrt(share / (shares.max() or 1.0))
        centre = f'cx="{LEFT + (j + 0.5) * across:.1f}" cy="{TOP + HEIGHT - (i + 0.5) * down:.1f}"'
        drawn.append(f'<circle class="count" {centre} r="{radius:.1f}"/>' if share else "")
    side = "".join(
        f'<text class="end" x="{LEFT - 3}" y="{TOP + HEIGHT - (i + 0.5) * down + 3:.1f}">{label}</text>'
        for i, label in enumerate(_class_names(by_y, 5))
    )
    return _frame() + "".join(drawn) + _class_labels(by_x) + side


def _class_labels(classes: Array) -> str:
    width = WIDTH / len(classes)
    return "".join(
        f'<text class="middle" x="{LEFT + (k + 0.5) * width:.1f}" y="{TOP + HEIGHT + 13}">{label}</text>'
        for k, label in enumerate(_class_names(classes, int(width / 6.2)))
    )


def _class_names(classes: Array, max_length: int) -> list[str]:
    names = [f"{c:.4g}" if isinstance(c, np.floating) else str(c) for c in classes]
    return [escape_text(name) for name in short_labels(names, max_length)]


def _positions(
    values: Floats, start: float, length: float, span: tuple[float, float] | None = None
) -> Floats:
    low, high = span or (float(values.min()), float(values.max()))
    unit = max(abs(low), abs(high)) or 1.0  # differences of huge values overflow
    low, high, values = low / unit, high / unit, values / unit
    return start + length * (0.04 + 0.92 * (values - low) / ((high - low) or 1.0))


def _frame() -> str:
    return f'<path class="frame" d="M{LEFT} {TOP}v{HEIGHT}h{WIDTH}"/>'


def _range_x(values: Floats) -> str:
    at = TOP + HEIGHT + 13
    return (
        f'<text x="{LEFT}" y="{at}">{_tick(values.min())}</text>'
        f'<text class="end" x="{LEFT + WIDTH}" y="{at}">{_tick(values.max())}</text>'
    )


def _range_y(values: Floats) -> str:
    return (
        f'<text class="end" x="{LEFT - 3}" y="{TOP + HEIGHT}">{_tick(values.min())}</text>'
        f'<text class="end" x="{LEFT - 3}" y="{TOP + 9}">{_tick(values.max())}</text>'
    )


def _tick(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def redundancy(result: ScreeningResult, sample: Sample | None) -> str:
    """Correlations among the selected features as a heat map, and their near-duplicates.

    The correlations are those of the result if it has any, else those of a sample.
    """
    features = result.selected[:MAX_FEATURES]
    k = len(features)
    r = result.correlation
    if r is None and sample is not None:
        r = sample.correlation
    if k < 2 or r is None:
        return _represented(result)
    r = r[:k, :k]
    labels = short_labels([result.name(j) for j in features], 22)
    pairs = np.abs(r[np.triu_indices(k, 1)])
    of = "selected" if k == len(result.selected) else f"best {k}"
    text = (
        f"The mean |r| among the {of} features is {pairs.mean():.2f}, and the largest is {pairs.max():.2f}."
    )
    return f"<p>{text}</p>{_duplicates(labels, r)}{_represented(result)}{_heat_map(labels, r)}"


def _duplicates(labels: Sequence[str], r: Floats) -> str:
    """The pairs of near-duplicates, most similar first."""
    pairs = [(i, j) for i, j in combinations(range(len(labels)), 2) if abs(r[i, j]) > DUPLICATE]
    if not pairs:
        return f"<p>No two of them have |r| &gt; {DUPLICATE:g}.</p>"
    pairs.sort(key=lambda pair: -abs(r[pair]))
    sentences = [f"{labels[i]} and {labels[j]}: r = {minus(f'{r[i, j]:+.3f}')}" for i, j in pairs[:MAX_NAMED]]
    if len(pairs) > MAX_NAMED:
        sentences.append(f"and {count(len(pairs) - MAX_NAMED, 'more pair')}")
    return f"<p>Near-duplicates, with |r| &gt; {DUPLICATE:g}:</p>{bullet_list(sentences)}"


def _represented(result: ScreeningResult) -> str:
    """The features that were not selected because a near-duplicate was; nothing without such a choice."""
    sentences = []
    for feature in result.selected[:MAX_FEATURES]:
        group = result.near_duplicates.get(int(feature), ())
        if not len(group):
            continue
        named = short_labels([result.name(k) for k in [feature, *group[:MAX_NAMED]]], 22)
        more = f" and {len(group) - MAX_NAMED:,} more" if len(group) > MAX_NAMED else ""
        sentences.append(f"{named[0]}: {', '.join(named[1:])}{more}")
    if not sentences:
        return ""
    text = f"Not selected, because |r| &gt; {DUPLICATE:g} with a selected feature:"
    return f"<p>{text}</p>{bullet_list(sentences)}"


def _heat_map(labels: Sequence[str], r: Floats) -> str:
    """The correlation matrix, best feature first."""
    k, size, top = len(r), 15, 16
    left = 40 + 6 * max(map(len, labels))
    levels = np.rint(5 * r).astype(int)
    cells = [f'<rect class="none" x="{left}" y="{top}" width="{size * k}" height="{size * k}"/>']
    for level in (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5):
        squares = "".join(
            f"M{left + size * j} {top + size * i}h{size - 1}v{size - 1}h{1 - size}z"
            for i, j in np.argwhere(levels == level)
        )
        if squares:
            kind = "positive" if level > 0 else "negative"
            cells.append(f'<path class="{kind}" fill-opacity="{abs(level) / 5:g}" d="{squares}"/>')
    names = "".join(
        f'<text class="end" x="{left - 5}" y="{top + size * (i + 0.75):.1f}">'
        f"{escape_text(labels[i])} · {i + 1}</text>"
        f'<text class="middle" x="{left + size * (i + 0.5)}" y="{top - 4}">{i + 1}</text>'
        for i in range(k)
    )
    box = f"0 0 {left + size * k} {top + size * k}"
    description = "Correlations among the selected features"
    return (
        '<p class="legend">r: <span class="ramp" aria-hidden="true"></span> from −1 (blue) to +1 (orange). '
        f'Numbers are ranks.</p><div class="scroll"><svg class="heat" viewBox="{box}" '
        f'width="{left + size * k}" role="img" aria-label="{description}">{"".join(cells)}{names}</svg></div>'
    )
