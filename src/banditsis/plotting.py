"""Plots of screening results.

Each function draws on a Matplotlib Axes and returns it. Matplotlib is imported when a plot is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis.arrays import Array, Floats, Indices
from banditsis.formatting import count, format_duration, format_share, short_labels, shorten
from banditsis.results import ScreeningResult, describe_associated
from banditsis.validation import check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, which is safe for colour-blind readers.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"


BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"


UNREAD = "#f4f4f4"
GREY, PALE = "#8a939e", "#d5dae0"
#: Marks of features that are clearly associated, and of those that are not.
SIGNAL: dict[str, Any] = {"marker": "o", "ls": "", "color": BLUE, "label": "clearly associated"}
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
#: Maximum number of columns in a reading map; with more features, several share a column.
MAX_COLUMNS = 500


def funnel(result: ScreeningResult, axes: Axes | None = None) -> Axes:
    """Plot the features kept and the rows read after each round.

    The title gives the cells read and the detection floor.

    Parameters
    ----------
    result : ScreeningResult
        The result to plot.
    axes : Axes, optional
        Axes to draw on; a new figure by default.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> X = np.random.default_rng(0).standard_normal((2000, 50))
    >>> result = screen(X, X[:, 7] - X[:, 3], Plan.paper(2000, 50, 2, alpha=1.0), random_state=0)
    >>> axes = funnel(result)
    >>> [round(bar.get_width()) for bar in axes.patches]  # features at the start and after each round
    [50, 26, 14, 8, 5, 3, 2]
    """
    axes = axes or _new_axes(6.4, 2 + 0.3 * len(result.rounds))
    from matplotlib.ticker import EngFormatter

    kept = [result.n_features, *(r.n_kept for r in result.rounds)]
    rows = [r.n_rows for r in result.rounds]
    axes.barh(range(len(kept)), kept, height=0.7, color=SKY, label="features kept")
    axes.plot(rows, range(1, len(kept)), "o-", color=RED, markersize=5, linewidth=1.2, label="rows read")
    axes.set_xscale("symlog", linthresh=1)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 100, 10k, 1M
    axes.set_xlim(0, 3 * max(result.n_features, rows[-1]))
    for k, n_kept in enumerate(kept):
        axes.annotate(f"{n_kept:,}", (0, k), (4, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(kept)), ["start", *(f"round {k}" for k in range(1, len(kept)))])
    axes.set_ylim(len(kept) - 0.4, -0.6)
    axes.set_xlabel("count (log scale)")
    tidy(axes)
    axes.grid(visible=False, axis="y")
    _add_legend_below(axes)
    axes.set_title(f"{_describe_reading(result)}\n{_short_floor(result)}", fontsize=10)
    return axes


def scores(result: ScreeningResult, axes: Axes | None = None, *, most: int | None = None) -> Axes:
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
    most : int, optional
        Maximum number of features, best first; all by default.
    """
    features = result.selected[:most]
    n = len(features)
    axes = axes or _new_axes(6.4, 1.7 + _list_height(n))
    ranks = np.arange(1, n + 1)
    dense = n > MAX_LARGE_NAMES
    clear = _is_clear(result, features)
    if result.no_interval_reason is None and n:
        low, high = result.interval()[:n].T
        colours = [SKY if c else PALE for c in clear]
        width = 0.8 if n > MAX_NAMES else 1.8 if dense else 3
        axes.hlines(ranks, low, high, color=colours, linewidth=width, label="95% interval")
    for chosen, style in ((clear, SIGNAL), (~clear, NOISE)):
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
    _add_legend_below(axes)
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


def reading_map(
    result: ScreeningResult,
    axes: Axes | None = None,
    *,
    features: str = "ranked",
    scale: str = "auto",
    largest: float | None = None,
    colourbar: bool = True,
) -> Axes:
    r"""Plot which cells were read, rows by features, coloured by the last \|score\| of each feature.

    Rows are in reading order. With many features, neighbours share a column, which has the colour of the
    largest of their scores.

    Parameters
    ----------
    result : ScreeningResult
        The result to plot.
    axes : Axes, optional
        Axes to draw on; a new figure by default.
    features : {"ranked", "stored"}
        Order of the features: by rank, which gives a staircase, or as in the data.
    scale : {"auto", "linear", "log"}
        Scale of both axes. "auto" is linear if at least a tenth of the rows was read.
    largest : float, optional
        The \|score\| with the darkest colour; the largest of this result by default.
    colourbar : bool
        Whether to add a colour bar.
    """
    check_choice("features", features, ("ranked", "stored"))
    check_choice("scale", scale, ("auto", "linear", "log"))
    axes = axes or _new_axes(6.4, 4.4)
    log = scale == "log" or (scale == "auto" and 10 * result.rounds[-1].n_rows < result.n_rows)
    columns, rows, cells = _map_cells(result, features == "ranked", log)
    axes.set_facecolor(UNREAD)
    vmax = largest or float(np.nanmax(cells)) or 1.0
    vmin = -0.14 * vmax  # skips the palest reds, which look like unread cells
    mesh = axes.pcolormesh(columns, rows, cells, cmap="Reds", vmin=vmin, vmax=vmax, rasterized=True)
    _set_map_scale(axes, "x", log, len(result.selected), result.n_features)
    _set_map_scale(axes, "y", log, result.rounds[0].n_rows, result.n_rows, result.rounds[-1].n_rows)
    axes.set_xlim(0, result.n_features)
    axes.set_ylim(result.n_rows, 0)
    if result.n_rows <= 100 and result.n_features <= 100:  # lines between the cells
        axes.vlines(range(result.n_features + 1), 0, result.n_rows, color="white", linewidth=0.4)
        axes.hlines(range(result.n_rows + 1), 0, result.n_features, color="white", linewidth=0.4)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    note = " (log scale)" if log else ""
    axes.set_xlabel(f"features {'by rank' if features == 'ranked' else 'in data order'}{note}")
    axes.set_ylabel(f"rows in reading order{note}")
    axes.set_title(_describe_reading(result), fontsize=10)
    if colourbar:
        bar = axes.figure.colorbar(mesh, ax=axes, shrink=0.8, pad=0.02, label="last |score|")
        bar.ax.set_ylim(0, vmax)
        bar.outline.set_visible(False)
    return axes


def _set_map_scale(axes: Axes, which: str, log: bool, linear_end: int, *ticks: int) -> None:
    """Format the ticks as counts; a log axis is linear up to ``linear_end``."""
    axis = getattr(axes, f"{which}axis")
    if log:
        getattr(axes, f"set_{which}scale")("symlog", linthresh=max(linear_end, 1))
        axis.set_ticks(sorted({0, linear_end, *ticks}))
        axis.set_ticks([], minor=True)
    axis.set_major_formatter("{x:,.0f}")


def _map_cells(result: ScreeningResult, ranked: bool, log: bool) -> tuple[Indices, Indices, Floats]:
    """Column edges, row edges and colour values of a reading map; NaN marks cells that were not read."""
    p = result.n_features
    n_features = np.array([r.n_features for r in result.rounds])
    rows = np.array([0, *(r.n_rows for r in result.rounds), result.n_rows])
    grid = np.geomspace(1, p, MAX_COLUMNS) if log else np.linspace(0, p, min(p, MAX_COLUMNS) + 1)
    edges = np.unique(np.concatenate([[0, p], n_features if ranked else [], np.rint(grid)])).astype(np.intp)
    order = np.argsort(result.ranking) if ranked else np.arange(p)
    strength = np.fmax.reduceat(np.fmax(result.strength[order], 0), edges[:-1])
    if ranked:
        read = edges[:-1] < n_features[:, None]
    else:
        last_round = np.maximum.reduceat(result.last_round, edges[:-1])
        read = np.arange(len(n_features))[:, None] <= last_round
    cells = np.where(read, strength, np.nan)
    return edges, rows, np.vstack([cells, np.full(len(edges) - 1, np.nan)])


def compare(
    results: Mapping[str, ScreeningResult] | Sequence[ScreeningResult], axes: Axes | None = None
) -> Axes:
    """Plot how many selected features several results share, and the cells and time of each.

    Parameters
    ----------
    results : mapping of str to ScreeningResult, or sequence of ScreeningResult
        Results for the same features, with or without labels.
    axes : Axes, optional
        Axes to draw on; a new figure by default.
    """
    named = results if isinstance(results, Mapping) else {f"result {k}": r for k, r in enumerate(results, 1)}
    sizes = {name: result.n_features for name, result in named.items()}
    if len(set(sizes.values())) != 1:
        raise ValueError(f"results to compare must have the same features, got {sizes} features.")
    q = len(named)
    axes = axes or _new_axes(4.6 + 0.8 * q, 1.6 + 0.75 * q)
    support = [set(result.selected.tolist()) for result in named.values()]
    shared = np.array([[len(a & b) for b in support] for a in support])
    share = shared / np.maximum(np.diag(shared), 1)[:, None]
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1.25, aspect="auto")
    for (i, j), n_shared in np.ndenumerate(shared):
        text = f"{n_shared:,}\n{share[i, j]:.0%}"
        colour = "white" if share[i, j] > 0.7 else BLACK
        axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=9)
    names = [shorten(name, 16) for name in named]
    axes.set_xticks(range(q), names, rotation=30 if q > 3 else 0, parse_math=False)
    costs = [
        f"{shorten(name)}\n{format_share(r.fraction_read)} of the cells, {format_duration(r.seconds)}"
        for name, r in named.items()
    ]
    axes.set_yticks(range(q), costs, parse_math=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title("features selected by both, and their share of the row's selection", fontsize=10)
    return axes


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
    axes = axes or _new_axes(10, 3.8)
    known = getattr(result, "annotations", None) or {}
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


def volcano(
    result: ScreeningResult, axes: Axes | None = None, *, effects: Sequence[float] | Array | None = None
) -> Axes:
    """Plot -log10 p of each tested feature against its effect.

    The line is the Bonferroni threshold 0.05 / p. The best of the clearly associated features are labelled.

    Parameters
    ----------
    result : ScreeningResult
        A result with p-values.
    axes : Axes, optional
        Axes to draw on; a new figure by default.
    effects : array-like of shape (n_features,), optional
        Effect of each feature, such as a slope; the scores by default.
    """
    heights = _minus_log10(result)
    axes = axes or _new_axes(6.4, 4.4)
    x = result.scores if effects is None else np.asarray(effects, dtype=np.float64)
    if x.shape != heights.shape:
        raise ValueError(
            f"effects must have one value for each of {result.n_features:,} features, got {x.shape}."
        )
    clear = result.associated if result.associated is not None else result.selected[:0]
    others = np.setdiff1d(np.flatnonzero(np.isfinite(heights)), clear)
    axes.scatter(x[others], heights[others], s=6, color=GREY, linewidths=0, rasterized=True)
    axes.scatter(x[clear], heights[clear], s=22, color=BLUE, linewidths=0, label=SIGNAL["label"])
    axes.axvline(0, color=GREY, linewidth=0.8)
    _draw_threshold(axes, result)
    _label_points(axes, result, clear, x, heights)
    axes.set_xlabel("effect" if effects is not None else f"score ({result.parameters.get('statistic', '')})")
    axes.set_ylabel(LOG_P)
    axes.set_ylim(bottom=0)
    tidy(axes)
    _add_legend_below(axes)
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


def plot(result: ScreeningResult) -> Any:
    """Plot the best 40 features, and the rounds or all p-values; see :meth:`ScreeningResult.plot`."""
    n_lines = max(len(result.rounds) + 1, min(len(result.selected), MAX_LARGE_NAMES))
    both = _new_axes(12, max(3.2, 1.7 + 0.26 * n_lines), ncols=2)
    scores(result, both[0], most=MAX_LARGE_NAMES)
    if result.is_exact and result.has_pvalues:
        manhattan(result, both[1]).set_title("")
    else:
        funnel(result, both[1])
    return both


def tidy(axes: Any) -> None:
    """Remove the top and right spines and add a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _new_axes(width: float, height: float, **layout: Any) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need Matplotlib: pip install 'banditsis[plots]'") from None
    return plt.subplots(figsize=(width, height), layout="constrained", **layout)[1]


def _add_legend_below(axes: Axes) -> None:
    """Add a legend half an inch below the axes, whatever their height."""
    from matplotlib.transforms import ScaledTranslation

    below = axes.transAxes + ScaledTranslation(0, -0.5, axes.figure.dpi_scale_trans)
    anchor: dict[str, Any] = {"bbox_to_anchor": (0.5, 0), "bbox_transform": below}
    axes.legend(loc="upper center", **anchor, ncols=3, frameon=False, fontsize=9)


def _describe_reading(result: ScreeningResult) -> str:
    share, n_cells = format_share(result.fraction_read), result.n_rows * result.n_features
    return f"{result.n_features:,} → {len(result.selected):,} features, {share} of {n_cells:,} cells read"


def _short_floor(result: ScreeningResult) -> str:
    if result.why_no_floor() is not None:
        return "detection floor: withheld"
    return (
        f"detection floor: {result.detection_floor():.3g} ({'all rows read' if result.is_exact else '95%'})"
    )
