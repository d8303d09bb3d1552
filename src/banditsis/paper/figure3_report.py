"""Figure 3 as a drawing and as a table, with fitted slopes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis import plotting
from banditsis.arrays import Floats
from banditsis.paper import drawing
from banditsis.paper.comparison import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Shorter times are mostly fixed costs, and say nothing about growth.
SHORTEST = 1e-3
#: From here on √n rows are far fewer than n.
FROM_ROWS = 10_000
STYLES: dict[str, dict[str, Any]] = {
    "SIS": {"color": plotting.BLUE, "marker": "D"},
    "1.5": {"color": plotting.ORANGE, "marker": "o"},
    "1.1": {"color": plotting.RED, "marker": "s"},
    "0.8": {"color": plotting.PURPLE, "marker": "^"},
    "0.5": {"color": plotting.GREEN, "marker": "v"},
}


def fit_slope(x: Floats, y: Floats, use: Any) -> float:
    """Slope of log y against log x by least squares, over the points to use; NaN if there are not two.

    Examples
    --------
    >>> x = np.array([1.0, 10.0, 100.0])
    >>> round(fit_slope(x, 3 * np.sqrt(x), x > 0), 3)
    0.5
    """
    if np.count_nonzero(use) < 2:
        return math.nan
    return float(np.polyfit(np.log(x[use]), np.log(y[use]), 1)[0])


def slopes(summary: dict[str, Any], axis: str) -> dict[str, tuple[float, float]]:
    """Slopes of time and of cells of each method against n or p."""
    fitted = {}
    for method, points in summary[axis].items():
        size, seconds = points["size"], points["seconds"]
        large = size >= (FROM_ROWS if axis == "n" else 0)
        fitted[method] = (
            fit_slope(size, seconds, seconds > SHORTEST),
            fit_slope(size, points["cells"], large),
        )
    return fitted


def draw(summary: dict[str, Any], n: int) -> Figure:
    """Time above cells; against n on the left and p on the right."""
    figure, axes = drawing.new_figure(10, 7, nrows=2, ncols=2, sharex="col")
    for column, (axis, name, fixed) in enumerate(
        [("n", "sample size n", "p = 2000"), ("p", "number of features p", "n = 2000")]
    ):
        fitted = slopes(summary, axis)
        for method, points in summary[axis].items():
            _lines(axes[:, column], method, points, fitted[method])
        axes[0, column].set_title(f"({'ab'[column]}) {name}, {fixed}, d = 30", fontsize=11)
        axes[1, column].set_xlabel(name)
        for row in axes[:, column]:
            row.set(xscale="log", yscale="log")
            _make_room(row)
            row.legend(frameon=False, fontsize=8, loc="upper left")
            plotting.tidy(row)
    axes[0, 0].set_ylabel("CPU time (seconds)")
    axes[1, 0].set_ylabel("cells read")
    return figure


def _make_room(axis: Any) -> None:
    """Raise the upper end of a logarithmic axis, so that the legend covers no line."""
    low, high = axis.get_ylim()
    axis.set_ylim(low, high * (high / low) ** 0.4)


def _lines(axes: Any, method: str, points: dict[str, Floats], fitted: tuple[float, float]) -> None:
    style = {"markersize": 5, "linewidth": 1.3, **STYLES[method]}
    size = points["size"]
    axes[0].errorbar(
        size,
        points["seconds"],
        points["error"],
        capsize=2,
        label=f"{title(method)}: slope {_shown(fitted[0])}",
        **style,
    )
    axes[1].plot(size, points["cells"], label=f"{title(method)}: slope {_shown(fitted[1])}", **style)


def title(method: str) -> str:
    """Name of a method, as in the paper."""
    return "SIS" if method == "SIS" else f"BanditSIS (α={method})"


def _shown(slope: float) -> str:
    return "not fitted" if math.isnan(slope) else f"{slope:.2f}"


def write_report(summary: dict[str, Any], n: int) -> str:
    """Slopes, then mean times and cells at every size."""
    fitted = {axis: slopes(summary, axis) for axis in ("n", "p")}
    body = [
        [
            title(method),
            _shown(fitted["n"][method][0]),
            _shown(fitted["n"][method][1]),
            "1" if method == "SIS" else "1/2",
            _shown(fitted["p"][method][0]),
            _shown(fitted["p"][method][1]),
            "1",
        ]
        for method in summary["n"]
    ]
    head = ["method", "time in n", "cells in n", "the paper, n", "time in p", "cells in p", "the paper, p"]
    return "\n".join(
        [
            "# Figure 3, reproduced",
            "",
            f"CPU time of one process and cells read, d = 30, row-major float32, {n} replications. Slopes "
            "are of log-log lines: of time where it is above 1 ms, and of cells in n from n = 10,000.",
            "",
            markdown_table(head, body),
            "",
            *_sizes(summary["n"], "n", "p = 2,000"),
            *_sizes(summary["p"], "p", "n = 2,000"),
        ]
    )


def _sizes(points: dict[str, dict[str, Floats]], axis: str, fixed: str) -> list[str]:
    """Mean milliseconds ± standard error at each size, and cells below them."""
    head = [axis, *map(title, points)]
    sizes = [f"{size:,.0f}" for size in points["SIS"]["size"]]
    times = [
        [size, *(f"{1e3 * v['seconds'][k]:.2f} ± {1e3 * v['error'][k]:.2f}" for v in points.values())]
        for k, size in enumerate(sizes)
    ]
    cells = [
        [size, *(f"{v['cells'][k] / 1e6:,.2f}" for v in points.values())] for k, size in enumerate(sizes)
    ]
    return [
        f"## CPU time in milliseconds against {axis}, {fixed}",
        "",
        markdown_table(head, times),
        "",
        f"## Millions of cells read against {axis}, {fixed}",
        "",
        markdown_table(head, cells),
        "",
    ]
