"""Plots of results, which draw on Matplotlib Axes and return them; those of rounds and cells are here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from banditsis.core.arrays import Floats, Indices
from banditsis.core.formatting import format_share
from banditsis.core.validation import check_choice
from banditsis.results.evidence import is_exact, rank_features, strength_of
from banditsis.results.result import ScreeningResult
from banditsis.show.plots.features import manhattan, qq, sample_check, scores
from banditsis.show.style import RED, SKY, UNREAD, add_legend_below, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["funnel", "manhattan", "qq", "reading_map", "sample_check", "scores"]

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
    axes = axes or new_axes(6.4, 2 + 0.3 * len(result.rounds))
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
    add_legend_below(axes)
    floor = "not available"
    if result.evidence.no_floor_reason is None:
        floor = f"{result.detection_floor():.3g} ({'all rows read' if is_exact(result) else '95%'})"
    axes.set_title(f"{_describe_reading(result)}\ndetection floor: {floor}", fontsize=10)
    return axes


def _describe_reading(result: ScreeningResult) -> str:
    share, n_cells = format_share(result.fraction_read), result.n_rows * result.n_features
    return f"{result.n_features:,} → {len(result.selected):,} features, {share} of {n_cells:,} cells read"


def reading_map(
    result: ScreeningResult,
    axes: Axes | None = None,
    *,
    features: str = "ranked",
    scale: str = "auto",
) -> Axes:
    r"""Plot which cells were read, rows by features, coloured by the last \|score\| of each feature.

    Rows are in reading order. Of many features, neighbours share a column with the largest of their scores.

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
    """
    check_choice("features", features, ("ranked", "stored"))
    check_choice("scale", scale, ("auto", "linear", "log"))
    axes = axes or new_axes(6.4, 4.4)
    log = scale == "log" or (scale == "auto" and 10 * result.rounds[-1].n_rows < result.n_rows)
    columns, rows, cells = _map_cells(result, features == "ranked", log)
    axes.set_facecolor(UNREAD)
    vmax = float(np.nanmax(cells)) or 1.0
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
    order = np.argsort(rank_features(result)) if ranked else np.arange(p)
    strength = np.fmax.reduceat(np.fmax(strength_of(result)[order], 0), edges[:-1])
    last_round = np.maximum.reduceat(result.last_round[order], edges[:-1])
    cells = np.where(np.arange(len(n_features))[:, None] <= last_round, strength, np.nan)
    return edges, rows, np.vstack([cells, np.full(len(edges) - 1, np.nan)])
