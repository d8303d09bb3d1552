"""Pictures of results. Each function draws on an Axes and returns it; Matplotlib is imported on use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis.arrays import Floats, Indices
from banditsis.describing import (
    describe_reading,
    format_share,
    known_intervals,
    short_floor,
    shorten,
    shows_better_in_logs,
)
from banditsis.formatting import format_duration
from banditsis.results import ScreeningResult
from banditsis.validation import check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which people with any colour vision can tell apart.
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
UNREAD = "#f4f4f4"
#: More features than this are drawn by rank, without names.
MAX_NAMES = 40
#: Columns of a reading map; more features share one.
MAX_COLUMNS = 500


def funnel(result: ScreeningResult, axes: Axes | None = None) -> Axes:
    """Features left and rows read after each round, with the detection floor.

    Parameters
    ----------
    result : ScreeningResult
        What to draw.
    axes : Axes, optional
        Where; a new figure by default.

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
    rounds = result.rounds
    axes = axes or _new_axes(6.4, 1.7 + 0.3 * (len(rounds) + 1))
    left = [result.n_features, *(r.n_kept for r in rounds)]
    rows = [r.n_rows for r in rounds]
    axes.barh(range(len(left)), left, height=0.7, color=SKY, label="features left")
    axes.plot(rows, range(1, len(left)), "o-", color=RED, markersize=5, linewidth=1.2, label="rows read")
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(0, 3 * max(result.n_features, rows[-1]))
    for k, count in enumerate(left):  # at the foot of the bar, out of the way of the line
        axes.annotate(f"{count:,}", (0, k), (4, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(left)), ["start", *(f"round {k}" for k in range(1, len(left)))])
    axes.set_ylim(len(left) - 0.4, -0.6)
    axes.set_xlabel("how many (log scale)")
    tidy(axes)
    axes.grid(visible=False, axis="y")
    _legend_below(axes)
    axes.set_title(f"{describe_reading(result)}\n{short_floor(result)}", fontsize=10)
    return axes


def scores(result: ScreeningResult, axes: Axes | None = None, *, most: int | None = None) -> Axes:
    """Scores of the selected features, with 95% intervals where they are known, and the last cutoff.

    Up to 40 features are named; more are drawn by rank.

    Parameters
    ----------
    result : ScreeningResult
        What to draw.
    axes : Axes, optional
        Where; a new figure by default.
    most : int, optional
        Draw only this many, the best; all by default.
    """
    chosen = result.selected[:most]
    named = len(chosen) <= MAX_NAMES
    axes = axes or _new_axes(6.4, 1.7 + (0.26 * max(len(chosen), 2) if named else 5))
    places = np.arange(1, len(chosen) + 1)
    intervals = known_intervals(result)
    if intervals is not None:
        ends = intervals[: len(chosen)].T
        axes.hlines(places, *ends, color=SKY, linewidth=3 if named else 0.8, label="95% interval")
    marker: dict[str, Any] = {"marker": "o", "linestyle": "none", "color": BLUE, "label": "score"}
    axes.plot(result.scores[chosen], places, markersize=6 if named else 2.5, **marker)
    _draw_cutoff(axes, result)
    axes.set_ylim(len(chosen) + 0.7, 0.3)
    if named:
        axes.set_yticks(places, [shorten(result.name(k)) for k in chosen])
        for label in axes.get_yticklabels():
            label.set_parse_math(False)  # a name may have dollar signs
    else:
        axes.set_ylabel("rank")
    axes.set_xlabel(f"score ({result.parameters.get('statistic', 'pearson')})")
    tidy(axes)
    _legend_below(axes)
    which = "" if len(chosen) == len(result.selected) else f"the best {len(chosen):,} of "
    axes.set_title(f"{which}{len(result.selected):,} selected features", fontsize=10)
    return axes


def _draw_cutoff(axes: Axes, result: ScreeningResult) -> None:
    """The least absolute score that was kept, on both sides of 0 where both signs count."""
    cutoff = result.rounds[-1].cutoff
    signed = bool((result.scores < 0).any()) and not result.one_sided
    axes.axvline(0, color="#888888", linewidth=0.8)
    if np.isfinite(cutoff):
        for side in (1, -1) if signed else (1,):
            label = f"cutoff {cutoff:.3g}" if side == 1 else None
            axes.axvline(side * cutoff, color=RED, linestyle="--", linewidth=1.2, label=label)


def reading_map(
    result: ScreeningResult,
    axes: Axes | None = None,
    *,
    features: str = "ranked",
    scale: str = "auto",
    largest: float | None = None,
    colourbar: bool = True,
) -> Axes:
    r"""What was read: rows × features, coloured by the \|score\| of each feature when it was last seen.

    Rows are in the order in which they were read. Where there are many features, neighbours share a column,
    which shows the strongest of them.

    Parameters
    ----------
    result : ScreeningResult
        What to draw.
    axes : Axes, optional
        Where; a new figure by default.
    features : {"ranked", "stored"}
        Order of the features: the best first, which gives a staircase, or as in the data.
    scale : {"auto", "linear", "log"}
        "auto" is linear where at least a tenth of the rows was read.
    largest : float, optional
        The \|score\| with the darkest colour; the largest of this result by default.
    colourbar : bool
        Whether to add one.
    """
    check_choice("features", features, ("ranked", "stored"))
    check_choice("scale", scale, ("auto", "linear", "log"))
    axes = axes or _new_axes(6.4, 4.4)
    log = scale == "log" or (scale == "auto" and shows_better_in_logs(result))
    columns, rows, cells = _map_cells(result, features == "ranked", log)
    strongest = largest or float(np.nanmax(cells)) or 1.0
    axes.set_facecolor(UNREAD)
    mesh = axes.pcolormesh(columns, rows, cells, cmap=_reds(), vmin=0, vmax=strongest, rasterized=True)
    _map_scale(axes, "x", log, len(result.selected), result.n_features)
    _map_scale(axes, "y", log, result.rounds[0].n_rows, result.n_rows, result.rounds[-1].n_rows)
    axes.set_xlim(0, result.n_features)
    axes.set_ylim(result.n_rows, 0)
    _draw_grid(axes, result.n_rows, result.n_features)
    note = ", log scale" if log else ""
    axes.set_xlabel(f"features, {'best first' if features == 'ranked' else 'as stored'}{note}")
    axes.set_ylabel(f"rows, in the order read{note}")
    axes.set_title(describe_reading(result), fontsize=10)
    if colourbar:
        bar = axes.figure.colorbar(mesh, ax=axes, shrink=0.8, pad=0.02)
        bar.set_label("|score| when last seen")
        bar.outline.set_visible(False)
    return axes


def _map_scale(axes: Axes, which: str, log: bool, inner: int, *marks: int) -> None:
    """Plain counts; in logs to scale up to ``inner``, where nothing changes, and by powers from there on."""
    axis = getattr(axes, f"{which}axis")
    if log:
        getattr(axes, f"set_{which}scale")("symlog", linthresh=max(inner, 1))
        axis.set_ticks(sorted({0, inner, *marks}))
        axis.set_ticks([], minor=True)
    axis.set_major_formatter("{x:,.0f}")


def _map_cells(result: ScreeningResult, ranked: bool, log: bool) -> tuple[Indices, Indices, Floats]:
    """Edges of the columns and rows of a reading map, and the colours between; NaN was not read."""
    p = result.n_features
    alive = np.array([r.n_features for r in result.rounds])
    rows = np.array([0, *(r.n_rows for r in result.rounds), result.n_rows])
    grid = np.geomspace(1, p, MAX_COLUMNS) if log else np.linspace(0, p, min(p, MAX_COLUMNS) + 1)
    edges = np.unique(np.concatenate([[0, p], alive if ranked else [], np.rint(grid)])).astype(np.intp)
    order = np.argsort(result.ranking) if ranked else np.arange(p)
    strength = np.fmax.reduceat(np.fmax(result.strength[order], 0), edges[:-1])
    if ranked:
        read = edges[:-1] < alive[:, None]
    else:
        last = np.maximum.reduceat(result.last_round, edges[:-1])
        read = np.arange(len(alive))[:, None] <= last
    cells = np.where(read, strength, np.nan)
    return edges, rows, np.vstack([cells, np.full(len(edges) - 1, np.nan)])


def compare(
    results: Mapping[str, ScreeningResult] | Sequence[ScreeningResult], axes: Axes | None = None
) -> Axes:
    """How many features several results share, and what each of them read and took.

    Parameters
    ----------
    results : mapping of str to ScreeningResult, or sequence of ScreeningResult
        Results for the same features, with names or without.
    axes : Axes, optional
        Where; a new figure by default.
    """
    named = results if isinstance(results, Mapping) else {f"result {k}": r for k, r in enumerate(results, 1)}
    sizes = {name: result.n_features for name, result in named.items()}
    if len(set(sizes.values())) != 1:
        raise ValueError(f"results to compare must be of the same features, got numbers of them {sizes}.")
    q = len(named)
    axes = axes or _new_axes(4.6 + 0.8 * q, 1.6 + 0.75 * q)
    support = [set(result.selected.tolist()) for result in named.values()]
    shared = np.array([[len(a & b) for b in support] for a in support])
    share = shared / np.maximum(np.diag(shared), 1)[:, None]
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1.25, aspect="auto")
    for (i, j), count in np.ndenumerate(shared):
        colour = "white" if share[i, j] > 0.7 else BLACK
        axes.text(j, i, f"{count:,}\n{share[i, j]:.0%}", ha="center", va="center", color=colour, fontsize=9)
    costs = [
        f"{shorten(name)}\n{format_share(r.fraction_read)} of the cells, {format_duration(r.seconds)}"
        for name, r in named.items()
    ]
    axes.set_yticks(range(q), costs)
    axes.set_xticks(range(q), [shorten(name, 16) for name in named], rotation=30 if q > 3 else 0)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title("features of the row's result that the column's has too", fontsize=10)
    return axes


def plot(result: ScreeningResult) -> Any:
    """The funnel and the scores side by side; see :meth:`ScreeningResult.plot`."""
    lines = max(len(result.rounds) + 1, len(result.selected) if len(result.selected) <= MAX_NAMES else 15)
    both = _new_axes(12, max(3.2, 1.7 + 0.26 * lines), ncols=2)
    funnel(result, both[0])
    scores(result, both[1])
    return both


def tidy(axes: Any) -> None:
    """Less ink: no box, a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _new_axes(width: float, height: float, **layout: Any) -> Any:
    """Axes of a new figure that a notebook, or ``plt.show()``, will show."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'banditsis[plots]'") from None
    return plt.subplots(figsize=(width, height), layout="constrained", **layout)[1]


def _legend_below(axes: Axes) -> None:
    """A legend a fixed distance below the axes, however high they are."""
    from matplotlib.transforms import ScaledTranslation

    below = axes.transAxes + ScaledTranslation(0, -0.5, axes.figure.dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below}
    axes.legend(**place, ncols=3, frameon=False, fontsize=9)


def _draw_grid(axes: Axes, n: int, p: int) -> None:
    """Lines between cells where they can be told apart."""
    if n <= 100 and p <= 100:
        axes.vlines(range(p + 1), 0, n, color="white", linewidth=0.4)
        axes.hlines(range(n + 1), 0, p, color="white", linewidth=0.4)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def _reds() -> Any:
    """Reds that are visible from the first, so that a read cell never looks unread."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["Reds"](np.linspace(0.12, 1, 256)))
