"""Plots of the features of a result, which draw on Matplotlib Axes and return them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis.core.arrays import Array, Floats, special
from banditsis.core.formatting import count, short_labels, shorten
from banditsis.results import SampleCheck, ScreeningResult, has_pvalues, sentences, strength_of
from banditsis.show.tables import evidence_labels, find_cutoffs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["manhattan", "qq", "sample_check", "scores"]

# Okabe and Ito's palette, which is safe for colour-blind readers.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GREY, PALE = "#8a939e", "#d5dae0"
#: Marks of features, by what is known about them.
MARKS: dict[str, dict[str, Any]] = {
    "signal": {"marker": "o", "ls": "", "color": BLUE},
    "unclear": {"marker": "D", "ls": "", "mfc": "white", "mec": GREY},
    "unknown": {"marker": "o", "ls": "", "color": BLUE},
    "leak": {"marker": "^", "ls": "", "color": RED},
}
CUTOFF: dict[str, Any] = {"color": RED, "linestyle": "--", "linewidth": 1.2}
#: Larger selections are plotted by rank without feature names, or have names in small print.
MAX_NAMES, MAX_LARGE_NAMES = 200, 40
#: Maximum number of labels in a Manhattan plot, and of features for which room is searched.
MAX_LABELS, MAX_TRIED = 10, 100
#: Points of a Q-Q plot, which cannot be told from all.
MAX_QUANTILES = 2000
LOG_P = r"$-\log_{10}\,p$"


def scores(result: ScreeningResult, axes: Axes | None = None, *, max_features: int | None = None) -> Axes:
    """Plot the scores of the selected features, their 95% intervals if available, and the last cutoff.

    Clearly associated features are dots, unclear ones open diamonds, and possible leakage is a triangle;
    see :attr:`ScreeningResult.associated`. More than 200 features are plotted by rank, without names.

    Parameters
    ----------
    result : ScreeningResult
        The result to plot.
    axes : Axes, optional
        Axes to draw on; by default a new figure whose height grows with the number of features.
    max_features : int, optional
        Maximum number of features, best first; all by default.
    """
    features = result.features.take(slice(max_features))
    n = len(features)
    named, small = n <= MAX_NAMES, n > MAX_LARGE_NAMES
    size, width = (2.5, 0.8) if not named else (4, 1.8) if small else (6, 3)
    axes = axes or new_axes(6.4, 1.7 + ((0.16 if small else 0.26) * max(n, 2) if named else 5.0))
    ranks, kinds = np.arange(1, n + 1), np.array(features.evidence, dtype=str)
    if "low" in features and n:
        colours = np.where(kinds == "unclear", PALE, SKY)
        low, high = features["low"], features["high"]
        axes.hlines(ranks, low, high, color=colours, linewidth=width, label="95% interval")
    for kind, label in evidence_labels(result).items():
        chosen = kinds == kind
        if chosen.any():
            axes.plot(features["score"][chosen], ranks[chosen], **MARKS[kind], label=label, ms=size)
    axes.axvline(0, color=GREY, linewidth=0.8)
    for k, cutoff in enumerate(find_cutoffs(result)):
        label = "" if k else f"cutoff {cutoff:.3g}"
        axes.axvline(cutoff, **CUTOFF, label=label)
    axes.set_ylim(n + 0.7, 0.3)
    if named:
        axes.set_yticks(ranks, features.labels(32), parse_math=False, fontsize=7 if small else None)
    else:
        axes.set_ylabel("rank")
    axes.set_xlabel(f"score ({result.parameters.get('statistic', 'pearson')})")
    tidy(axes)
    add_legend_below(axes)
    axes.set_title(_describe_selection(result, n), fontsize=10, parse_math=False)
    return axes


def _describe_selection(result: ScreeningResult, n_shown: int) -> str:
    n = len(result.selected)
    subset = "" if n_shown == n else f"the best {n_shown:,} of "
    target = f" for {shorten(result.about.response)}" if result.about.response else ""
    return f"{subset}{count(n, 'selected feature')}{target}\n{sentences.describe_answer(result)}".rstrip()


def manhattan(
    result: ScreeningResult, axes: Axes | None = None, *, chromosomes: Sequence[Any] | Array | None = None
) -> Axes:
    r"""Plot how strongly each feature is associated, in the order of the features.

    The height is -log10 p, with a line at the Bonferroni threshold 0.05 / p, or the \|score\| if there are no
    p-values. Colours alternate between chromosomes, in the order in which they first occur. The best of the
    clearly associated features are labelled.

    Parameters
    ----------
    result, axes
        As for :func:`scores`.
    chromosomes : array-like of shape (n_features,), optional
        Chromosome of each feature; by default those in ``result.annotations`` if there are any.

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
    chromosomes = result.annotations.get("chromosome") if chromosomes is None else chromosomes
    labels = np.zeros(result.n_features) if chromosomes is None else np.asarray(chromosomes)
    if labels.shape != (p := result.n_features,):
        raise ValueError(f"chromosomes must have one value for each of {p:,} features, got {labels.shape}.")
    names, first, codes = np.unique(labels.astype(str), return_index=True, return_inverse=True)
    order = np.argsort(first)
    groups = np.argsort(order)[codes]
    x = np.argsort(np.argsort(groups, kind="stable"))
    heights = _minus_log10(result.log10_pvalues) if has_pvalues(result) else strength_of(result)
    for parity, colour in enumerate((BLUE, SKY)):
        chosen = (groups % 2 == parity) & np.isfinite(heights)
        axes.scatter(x[chosen], heights[chosen], s=6, color=colour, linewidths=0, rasterized=True)
    clear = result.selected if result.associated is None else result.associated
    known = "selected" if result.associated is None else evidence_labels(result)["signal"]
    ring: dict[str, Any] = {"facecolors": "none", "edgecolors": RED, "linewidths": 1.2, "label": known}
    axes.scatter(x[clear], heights[clear], s=26, **ring)
    if has_pvalues(result):
        axes.axhline(np.log10(p / 0.05), **CUTOFF, label="0.05 / p (Bonferroni)")
    if chromosomes is None:
        axes.set_xlabel("feature")
    else:
        middles = [float(x[groups == k].mean()) for k in range(len(order))]
        axes.set_xticks(middles, short_labels(names[order].tolist(), 12), parse_math=False, fontsize=8)
        axes.set_xlabel("chromosome")
    axes.set_ylabel(LOG_P if has_pvalues(result) else "score" if result.evidence.one_sided else "|score|")
    axes.set_ylim(bottom=min(0.0, float(np.nanmin(heights, initial=0.0))))
    tidy(axes)
    axes.grid(visible=False, axis="x")
    axes.margins(x=0.01)
    add_legend_below(axes)
    axes.set_title(_describe_selection(result, len(result.selected)), fontsize=10, parse_math=False)
    _label_points(axes, [result.name(k) for k in clear[:MAX_TRIED]], x[clear], heights[clear])
    return axes


def _minus_log10(log10_pvalues: Floats) -> Floats:
    """-log10 p for plots; where p is 0, a little above the others."""
    finite = log10_pvalues[np.isfinite(log10_pvalues)]
    return -np.where(np.isneginf(log10_pvalues), 1.1 * finite.min(initial=-300.0), log10_pvalues)


def _label_points(axes: Axes, names: Sequence[str], x: Array, y: Floats) -> None:
    """Label the first points where there is room on the complete axes, and leave out ticks that overlap."""
    middle = sum(axes.get_xlim()) / 2
    figure: Any = axes.figure.figure
    figure.draw_without_rendering()  # lays it out
    taken: list[Any] = []
    for name, place, height in zip(short_labels(names, 18), x, y, strict=False):
        left = place > middle  # labels point to the middle
        look: dict[str, Any] = {"ha": "right" if left else "left", "fontsize": 8, "parse_math": False}
        offset = (-6 if left else 6, 2)
        label = axes.annotate(name, (place, height), offset, textcoords="offset points", **look)
        box = label.get_window_extent()
        if any(map(box.overlaps, taken)):
            label.remove()
        else:
            taken.append(box.padded(2))
        if len(taken) == MAX_LABELS:
            break
    end = -np.inf
    for tick in axes.get_xticklabels():
        box = tick.get_window_extent()
        tick.set_visible(box.x0 > end)
        end = box.x1 + 2 if box.x0 > end else end


def qq(result: ScreeningResult, axes: Axes | None = None, *, label: str = "") -> Axes:
    """Plot the sorted -log10 p of all features against those expected without association (Q–Q plot).

    The legend has the genomic inflation factor; see :attr:`ScreeningResult.genomic_inflation`. The band
    contains each point with probability 95% if features are independent and none is associated.

    Parameters
    ----------
    result : ScreeningResult
        A result in which every feature has a p-value.
    axes : Axes, optional
        As for :func:`scores`; several results may share them.
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
    inflation, log10 = result.genomic_inflation, result.log10_pvalues
    observed = _minus_log10(np.sort(log10[log10 < 0]))
    n = max(1, observed.size)
    ranks = np.unique(np.rint(np.geomspace(1, n, MAX_QUANTILES)).astype(np.intp))[: observed.size]
    expected = -np.log10((ranks - 0.5) / n)  # all of the smallest p-values, few of the others
    axes = axes or new_axes(4.8, 4.4)
    limits = (-np.log10(special.betaincinv(ranks, n + 1 - ranks, level)) for level in (0.975, 0.025))
    axes.fill_between(expected, *limits, color=PALE, alpha=0.5, linewidth=0)
    axes.axline((0, 0), slope=1, color=GREY, linewidth=1)
    text = f"{shorten(label)}: λ = {inflation:.3f}" if label else f"λ = {inflation:.3f}"
    axes.plot(expected, observed[ranks - 1], ".", markersize=5, label=text, rasterized=True)
    axes.set(xlabel=f"expected {LOG_P}", ylabel=f"observed {LOG_P}")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    tidy(axes)
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    return axes


def sample_check(check: SampleCheck, axes: Axes | None = None) -> Axes:
    r"""Plot \|r\| in a sample of rows over \|r\| in all rows, for the best features of all rows.

    Those below the sample's cutoff are not selected by it. To the right of the detection floor, a sample of
    this size keeps a feature with probability 95%.

    Parameters
    ----------
    check : SampleCheck
        The results of all rows and of the sample.
    axes : Axes, optional
        As for :func:`scores`.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> from banditsis.results import SampleCheck
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 50))
    >>> y = X[:, :9] @ np.linspace(0.1, 0.5, 9) + rng.standard_normal(2000)
    >>> every, some = Plan.exact(2000, 50, 10), Plan.subsample(2000, 50, 10, 200)
    >>> check = SampleCheck(screen(X, y, every), screen(X, y, some, random_state=0))
    >>> check.missed
    array([1, 0])
    >>> axes = sample_check(check)
    """
    axes = axes or new_axes(6.4, 5.4)
    from matplotlib.ticker import LogLocator

    found, sample = check.found, check.sample
    best = found.selected
    x, y = strength_of(found)[best], strength_of(sample)[best]
    cutoff, floor = sample.rounds[0].cutoff, check.floor
    start, end = 0.8 * min(x.min(initial=1.0), cutoff), 1.2 * max(x.max(initial=0.0), y.max(initial=0.0))
    y = np.maximum(y, 1.1 * start)  # those near 0 are at the edge
    if floor is not None:
        axes.axvspan(min(floor, end), end, color=PALE, alpha=0.4, linewidth=0)
        axes.axvline(floor, color=GREY, linewidth=1.2, label=f"detection floor {floor:.3g} (95%)")
    axes.axhline(cutoff, **CUTOFF, label=f"cutoff of the sample {cutoff:.3g}")
    axes.plot([start, end], [start, end], color=GREY, linewidth=0.6, zorder=0)
    clear, missed = np.isin(best, check.associated), np.isin(best, check.missed)
    marks: tuple[tuple[str, Array, dict[str, Any]], ...] = (
        ("unclear", ~clear, MARKS["unclear"]),
        ("clearly associated, kept", clear & ~missed, MARKS["signal"]),
        ("clearly associated, missed", missed, {"marker": "X", "ls": "", "ms": 8, "color": RED}),
    )
    for label, chosen, look in marks:
        if chosen.any():
            axes.plot(x[chosen], y[chosen], **look, label=label)
    axes.set(xscale="log", yscale="log", xlim=(start, end), ylim=(start, end))
    size = "|r|" if floor is not None else "score" if found.evidence.one_sided else "|score|"
    axes.set_xlabel(f"{size} in all {found.n_rows:,} rows (log scale)")
    axes.set_ylabel(f"{size} in the sample of {check.n_rows:,} rows (log scale)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    tidy(axes)
    add_legend_below(axes, n_columns=2)
    kept = f"keeps {int(check.kept.sum()):,} of the best {len(best):,} features"
    misses = f"and misses {len(check.missed):,} of {len(check.associated):,} that are clearly associated"
    axes.set_title(f"A sample of {check.n_rows:,} rows {kept}\n{misses}", fontsize=10)
    _label_points(axes, [found.name(k) for k in best[missed]], x[missed], y[missed])
    return axes


def tidy(axes: Any) -> None:
    """Remove the top and right spines and add a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def new_axes(width: float, height: float) -> Any:
    """Axes of a new figure, in inches."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need Matplotlib: pip install 'banditsis[plots]'") from None
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def add_legend_below(axes: Axes, n_columns: int = 3) -> None:
    """Add a legend half an inch below the axes, whatever their height."""
    from matplotlib.transforms import ScaledTranslation

    below = axes.transAxes + ScaledTranslation(0, -0.5, axes.figure.dpi_scale_trans)
    anchor: dict[str, Any] = {"bbox_to_anchor": (0.5, 0), "bbox_transform": below}
    axes.legend(loc="upper center", **anchor, ncols=n_columns, frameon=False, fontsize=9)
