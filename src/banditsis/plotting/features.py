"""Plots of features: their scores, and how strongly they are associated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis.arrays import Array, Floats, Indices
from banditsis.formatting import count, short_labels, shorten
from banditsis.plotting.style import BLUE, GREY, PALE, RED, SKY, add_legend_below, new_axes, tidy
from banditsis.results import ScreeningResult, describe_associated, name_of_associated

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Marks of features that are clearly associated, and of those that are not.
SIGNAL: dict[str, Any] = {"marker": "o", "ls": "", "color": BLUE}
NOISE: dict[str, Any] = {
    "marker": "D",
    "ls": "",
    "mfc": "white",
    "mec": GREY,
    "label": "indistinguishable from noise",
}
#: Larger selections are plotted by rank, without feature names.
MAX_NAMES = 200
#: Larger selections have names in small print.
MAX_LARGE_NAMES = 40
#: Maximum number of labels in a Manhattan or volcano plot.
MAX_LABELS = 10
LOG_P = r"$-\log_{10}\,p$"


def scores(result: ScreeningResult, axes: Axes | None = None, *, max_features: int | None = None) -> Axes:
    """Plot the scores of the selected features, their 95% intervals if available, and the last cutoff.

    Clearly associated features are dots, and those that are indistinguishable from noise are open diamonds;
    see :attr:`ScreeningResult.associated`. Up to 200 features are labelled with their names; more are plotted
    by rank.

    Parameters
    ----------
    result : ScreeningResult
        The result to plot.
    axes : Axes, optional
        Axes to draw on; by default a new figure whose height grows with the number of features.
    max_features : int, optional
        Maximum number of features, best first; all by default.
    """
    features = result.selected[:max_features]
    n = len(features)
    axes = axes or new_axes(6.4, 1.7 + _list_height(n))
    ranks = np.arange(1, n + 1)
    dense = n > MAX_LARGE_NAMES
    clear = _is_clear(result, features)
    if result.no_interval_reason is None and n:
        low, high = result.interval()[:n].T
        colours = [SKY if c else PALE for c in clear]
        width = 0.8 if n > MAX_NAMES else 1.8 if dense else 3
        axes.hlines(ranks, low, high, color=colours, linewidth=width, label="95% interval")
    for chosen, style in ((clear, SIGNAL | {"label": name_of_associated(result)}), (~clear, NOISE)):
        label = style["label"] if result.associated is not None else "score"
        size = 2.5 if n > MAX_NAMES else 4 if dense else 6
        if chosen.any():
            axes.plot(result.scores[features[chosen]], ranks[chosen], **style | {"label": label, "ms": size})
    _draw_cutoff(axes, result)
    axes.set_ylim(n + 0.7, 0.3)
    if n <= MAX_NAMES:
        names = short_labels([result.name(k) for k in features])
        axes.set_yticks(ranks, names, parse_math=False, fontsize=7 if dense else None)
    else:
        axes.set_ylabel("rank")
    axes.set_xlabel(f"score ({result.parameters.get('statistic', 'pearson')})")
    tidy(axes)
    add_legend_below(axes)
    axes.set_title(_describe_selection(result, n), fontsize=10, parse_math=False)
    return axes


def _is_clear(result: ScreeningResult, features: Indices) -> Array:
    """Which features are clearly associated; all of them if it is not known."""
    if result.associated is None:
        return np.ones(len(features), dtype=bool)
    return np.isin(features, result.associated)


def _list_height(n: int) -> float:
    """Inches for n features with names, or for any number by rank."""
    return 5.0 if n > MAX_NAMES else (0.16 if n > MAX_LARGE_NAMES else 0.26) * max(n, 2)


def _describe_selection(result: ScreeningResult, n_shown: int) -> str:
    subset = "" if n_shown == len(result.selected) else f"the best {n_shown:,} of "
    target = f" for {shorten(result.response)}" if result.response else ""
    title = f"{subset}{count(len(result.selected), 'selected feature')}{target}"
    found = describe_associated(result)
    return f"{title}\n{found}" if found else title


def _draw_cutoff(axes: Axes, result: ScreeningResult) -> None:
    """Mark the smallest absolute score that was kept, on both sides of 0 for signed scores."""
    cutoff = result.rounds[-1].cutoff
    axes.axvline(0, color="#888888", linewidth=0.8)
    if np.isfinite(cutoff):
        axes.axvline(cutoff, color=RED, linestyle="--", linewidth=1.2, label=f"cutoff {cutoff:.3g}")
        if (result.scores < 0).any() and not result.one_sided:
            axes.axvline(-cutoff, color=RED, linestyle="--", linewidth=1.2)


def manhattan(
    result: ScreeningResult,
    axes: Axes | None = None,
    *,
    chromosomes: Sequence[Any] | Array | None = None,
    positions: Sequence[float] | Array | None = None,
) -> Axes:
    r"""Plot how strongly each feature is associated, in the order of the features.

    The height is -log10 p, with a line at the Bonferroni threshold 0.05 / p, or the \|score\| if there are no
    p-values. Colours alternate between chromosomes, which are placed one after the other in the order in
    which they first occur. The best of the clearly associated features are labelled.

    Parameters
    ----------
    result : ScreeningResult
        The result to plot.
    axes : Axes, optional
        Axes to draw on; a new figure by default.
    chromosomes, positions : array-like of shape (n_features,), optional
        Chromosome and position of each feature; by default those in ``result.annotations`` if there are any,
        else the features are placed by their index.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> X = np.random.default_rng(0).standard_normal((500, 300))
    >>> result = screen(X, X[:, 7] - X[:, 142], Plan.exact(500, 300, 5))
    >>> axes = manhattan(result, chromosomes=np.repeat([1, 2, 3], 100))
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['1', '2', '3']
    """
    axes = axes or new_axes(10, 3.8)
    known = result.annotations
    chromosomes = known.get("chromosome") if chromosomes is None else chromosomes
    positions = known.get("position") if positions is None else positions
    groups, x, order = _place_features(result.n_features, chromosomes, positions)
    heights = _minus_log10(result) if result.has_pvalues else result.strength
    for parity, colour in enumerate((BLUE, SKY)):
        chosen = (groups % 2 == parity) & np.isfinite(heights)
        axes.scatter(x[chosen], heights[chosen], s=6, color=colour, linewidths=0, rasterized=True)
    clear = result.selected if result.associated is None else result.associated
    axes.scatter(x[clear], heights[clear], s=26, facecolors="none", edgecolors=RED, linewidths=1.2)
    if result.has_pvalues:
        _draw_threshold(axes, result)
    _label_points(axes, result, clear, x, heights)
    if chromosomes is None:
        axes.set_xlabel("feature" if positions is None else "position")
    else:
        middles = [float(x[groups == k].mean()) for k in range(len(order))]
        axes.set_xticks(middles, short_labels(order, 12), parse_math=False, fontsize=8)
        axes.set_xlabel("chromosome")
    axes.set_ylabel(LOG_P if result.has_pvalues else "score" if result.one_sided else "|score|")
    axes.set_ylim(bottom=min(0.0, float(np.nanmin(heights, initial=0.0))))
    tidy(axes)
    axes.grid(visible=False, axis="x")
    axes.set_title(_describe_selection(result, len(result.selected)), fontsize=10, parse_math=False)
    return axes


def _place_features(p: int, chromosomes: Any, positions: Any) -> tuple[Indices, Floats, list[str]]:
    """Number of the chromosome and horizontal position of each feature, and names of the chromosomes."""
    within = np.arange(p, dtype=np.float64) if positions is None else np.asarray(positions, dtype=np.float64)
    labels = np.zeros(p, dtype=int) if chromosomes is None else np.asarray(chromosomes)
    for name, values in (("positions", within), ("chromosomes", labels)):
        if values.shape != (p,):
            raise ValueError(f"{name} must have one value for each of {p:,} features, got {values.shape}.")
    names, first, codes = np.unique(labels.astype(str), return_index=True, return_inverse=True)
    order = np.argsort(first)
    groups = np.argsort(order)[codes]
    if chromosomes is None or positions is None:
        return groups, within, names[order].tolist()
    x, start = within.copy(), 0.0
    for k in range(len(order)):
        members = groups == k
        low, high = within[members].min(), within[members].max()
        x[members] += start - low
        start += 1.02 * max(high - low, 1.0)
    return groups, x, names[order].tolist()


def _draw_threshold(axes: Axes, result: ScreeningResult) -> None:
    threshold = np.log10(result.n_features / 0.05)
    axes.axhline(threshold, color=RED, linestyle="--", linewidth=1.2, label="0.05 / p (Bonferroni)")


def _minus_log10(result: ScreeningResult) -> Floats:
    """-log10 p; where p is 0, a little above the others."""
    heights = -result.log10_pvalues
    finite = heights[np.isfinite(heights)]
    return np.where(np.isposinf(heights), 1.1 * finite.max(initial=300.0), heights)


def volcano(result: ScreeningResult, axes: Axes | None = None) -> Axes:
    """Plot -log10 p of each tested feature against its score.

    The line is the Bonferroni threshold 0.05 / p. The best of the clearly associated features are labelled.

    Parameters
    ----------
    result : ScreeningResult
        A result with p-values.
    axes : Axes, optional
        Axes to draw on; a new figure by default.
    """
    heights, x = _minus_log10(result), result.scores
    axes = axes or new_axes(6.4, 4.4)
    clear = result.associated if result.associated is not None else result.selected[:0]
    others = np.setdiff1d(np.flatnonzero(np.isfinite(heights)), clear)
    axes.scatter(x[others], heights[others], s=6, color=GREY, linewidths=0, rasterized=True)
    axes.scatter(x[clear], heights[clear], s=22, color=BLUE, linewidths=0, label=name_of_associated(result))
    axes.axvline(0, color=GREY, linewidth=0.8)
    _draw_threshold(axes, result)
    _label_points(axes, result, clear, x, heights)
    axes.set_xlabel(f"score ({result.parameters.get('statistic', '')})")
    axes.set_ylabel(LOG_P)
    axes.set_ylim(bottom=0)
    tidy(axes)
    add_legend_below(axes)
    axes.set_title(_describe_selection(result, len(result.selected)), fontsize=10, parse_math=False)
    return axes


def _label_points(axes: Axes, result: ScreeningResult, features: Indices, x: Floats, y: Floats) -> None:
    """Label the best features by short names that are all different."""
    shown = features[:MAX_LABELS]
    names = short_labels([result.name(k) for k in shown], 18)
    middle = sum(axes.get_xlim()) / 2
    for name, feature in zip(names, shown, strict=True):
        right = x[feature] > middle  # the label stays inside
        axes.annotate(
            name,
            (x[feature], y[feature]),
            (-6 if right else 6, 2),
            textcoords="offset points",
            ha="right" if right else "left",
            fontsize=8,
            parse_math=False,
        )
