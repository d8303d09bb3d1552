"""Plots of features: their scores, and how strongly they are associated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, special
from banditsis.core.formatting import count, short_labels, shorten
from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import describe_associated, name_of_associated
from banditsis.show.plots.style import BLUE, GREY, PALE, RED, SKY, add_legend_below, new_axes, tidy
from banditsis.show.pvalues import minus_log10, qq_points

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
#: Maximum number of labels in a Manhattan or volcano plot, and of features for which room is searched.
MAX_LABELS, MAX_TRIED = 10, 500
#: Points of a Q-Q plot, which cannot be told from all.
MAX_QUANTILES = 2000
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
        else the features are placed by their index. Features whose position is not known (NaN) are placed
        between their neighbours.

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
    axes = axes or new_axes(10, 4.2)
    places = result.annotations
    chromosomes = places.get("chromosome") if chromosomes is None else chromosomes
    if positions is None and "position" in places:  # which is 0 or negative in PLINK's files if not known
        positions = np.where(places["position"] > 0, places["position"], np.nan)
    groups, x, order = _place_features(result.n_features, chromosomes, positions)
    heights = minus_log10(result.log10_pvalues) if result.has_pvalues else result.strength
    for parity, colour in enumerate((BLUE, SKY)):
        chosen = (groups % 2 == parity) & np.isfinite(heights)
        axes.scatter(x[chosen], heights[chosen], s=6, color=colour, linewidths=0, rasterized=True)
    clear = result.selected if result.associated is None else result.associated
    known = "selected" if result.associated is None else name_of_associated(result)
    ring: dict[str, Any] = {"facecolors": "none", "edgecolors": RED, "linewidths": 1.2, "label": known}
    axes.scatter(x[clear], heights[clear], s=26, **ring)
    if result.has_pvalues:
        _draw_threshold(axes, result)
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
    axes.margins(x=0.01)
    add_legend_below(axes)
    axes.set_title(_describe_selection(result, len(result.selected)), fontsize=10, parse_math=False)
    _label_points(axes, result, clear, x, heights)
    _hide_overlapping_ticks(axes)
    return axes


def _hide_overlapping_ticks(axes: Axes) -> None:
    """Leave out labels of short chromosomes that would cover others."""
    end = -np.inf
    for label in axes.get_xticklabels():
        box = label.get_window_extent()
        label.set_visible(box.x0 > end)
        end = box.x1 + 2 if box.x0 > end else end


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
    x, start = np.empty(p), 0.0
    for k in range(len(order)):
        members = np.flatnonzero(groups == k)
        known = members[np.isfinite(within[members])]
        place: Any = np.interp(members, known, within[known]) if known.size else members
        x[members] = start + place - place.min()
        start += 1.02 * max(float(np.ptp(place)), 1.0)
    return groups, x, names[order].tolist()


def _draw_threshold(axes: Axes, result: ScreeningResult) -> None:
    threshold = np.log10(result.n_features / 0.05)
    axes.axhline(threshold, color=RED, linestyle="--", linewidth=1.2, label="0.05 / p (Bonferroni)")


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
    heights, x = minus_log10(result.log10_pvalues), result.scores
    axes = axes or new_axes(6.4, 4.4)
    clear = result.associated if result.associated is not None else result.selected[:0]
    others = np.setdiff1d(np.flatnonzero(np.isfinite(heights)), clear)
    axes.scatter(x[others], heights[others], s=6, color=GREY, linewidths=0, rasterized=True)
    axes.scatter(x[clear], heights[clear], s=22, color=BLUE, linewidths=0, label=name_of_associated(result))
    axes.axvline(0, color=GREY, linewidth=0.8)
    _draw_threshold(axes, result)
    axes.set_xlabel(f"score ({result.parameters.get('statistic', '')})")
    axes.set_ylabel(LOG_P)
    axes.set_ylim(bottom=0)
    tidy(axes)
    add_legend_below(axes)
    axes.set_title(_describe_selection(result, len(result.selected)), fontsize=10, parse_math=False)
    _label_points(axes, result, clear, x, heights)
    return axes


def _label_points(axes: Axes, result: ScreeningResult, features: Indices, x: Floats, y: Floats) -> None:
    """Label the best features by short names, where a label covers neither another label nor one of them.

    The axes must be complete, because room for labels depends on their limits and on the layout.
    """
    shown = features[:MAX_TRIED]
    names = short_labels([result.name(k) for k in shown], 18)
    middle = sum(axes.get_xlim()) / 2
    figure: Any = axes.figure.figure
    figure.draw_without_rendering()  # lays it out
    points = axes.transData.transform(np.column_stack([x[features], y[features]]))
    taken: list[Any] = []
    for name, feature, point in zip(names, shown, points, strict=False):
        if any(box.contains(*point) for box in taken):
            continue
        for left in (x[feature] > middle, x[feature] <= middle):  # towards the middle, else away from it
            label = axes.annotate(
                name,
                (x[feature], y[feature]),
                (-6 if left else 6, 2),
                textcoords="offset points",
                ha="right" if left else "left",
                fontsize=8,
                parse_math=False,
            )
            box = label.get_window_extent()
            near = box.padded(4)  # the radius of a mark
            covers = ((points > near.min) & (points < near.max)).all(axis=1).any()
            inside = axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1
            if inside and not covers and not any(map(box.overlaps, taken)):
                taken.append(box.padded(2))
                break
            label.remove()
        if len(taken) == MAX_LABELS:
            break


def qq(result: ScreeningResult, axes: Axes | None = None, *, label: str = "") -> Axes:
    """Plot the sorted -log10 p of all features against those expected without association (Q–Q plot).

    The legend has the genomic inflation factor; see :attr:`ScreeningResult.genomic_inflation`. The band
    contains each point with probability 95% if features are independent and none is associated.

    Parameters
    ----------
    result : ScreeningResult
        A result in which every feature has a p-value.
    axes : Axes, optional
        Axes to draw on; a new figure by default. Several results may share them.
    label : str
        Name of the result in the legend.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((500, 2000)), rng.standard_normal(500)
    >>> axes = qq(screen(X, y, Plan.exact(500, 2000, 10), pvalues=True))
    >>> axes.get_legend().get_texts()[0].get_text()
    'λ = 0.986'
    """
    ranks, expected, observed = qq_points(result, MAX_QUANTILES)
    axes = axes or new_axes(4.8, 4.4)
    n = int(ranks[-1]) if ranks.size else 1
    limits = (-np.log10(special.betaincinv(ranks, n + 1 - ranks, level)) for level in (0.975, 0.025))
    axes.fill_between(expected, *limits, color=PALE, alpha=0.5, linewidth=0)
    axes.axline((0, 0), slope=1, color=GREY, linewidth=1)
    name = f"{shorten(label)}: " if label else ""
    text = f"{name}λ = {result.genomic_inflation:.3f}"
    axes.plot(expected, observed, ".", markersize=5, label=text, rasterized=True)
    axes.set_xlabel(f"expected {LOG_P}")
    axes.set_ylabel(f"observed {LOG_P}")
    tidy(axes)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    return axes
