"""Colours, axes and names of marks that all pictures share. Matplotlib is imported when a plot is drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from banditsis.results import LEAKAGE, ScreeningResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, which is safe for colour-blind readers.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GREY, PALE = "#8a939e", "#d5dae0"


def evidence_labels(result: ScreeningResult) -> dict[str, str]:
    """What a legend calls the marks of features, by their :attr:`Features.evidence`."""
    found = "discovery" if "fdr" in result.parameters else "clearly associated"
    return {"signal": found, "unclear": "unclear", "unknown": "score", "leak": LEAKAGE}


def find_cutoffs(result: ScreeningResult) -> list[float]:
    """The smallest score that was kept, on both sides of 0 if a selected score is negative."""
    cutoff = result.rounds[-1].cutoff
    if not math.isfinite(cutoff) or len(result.selected) == result.n_features:
        return []
    negative = not result.evidence.one_sided and bool((result.features["score"] < 0).any())
    return [cutoff, -cutoff] if negative and cutoff else [cutoff]


def tidy(axes: Any) -> None:
    """Remove the top and right spines and add a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def new_axes(width: float, height: float, **layout: Any) -> Any:
    """Axes of a new figure, in inches."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need Matplotlib: pip install 'banditsis[plots]'") from None
    return plt.subplots(figsize=(width, height), layout="constrained", **layout)[1]


def add_legend_below(axes: Axes, n_columns: int = 3) -> None:
    """Add a legend half an inch below the axes, whatever their height."""
    from matplotlib.transforms import ScaledTranslation

    below = axes.transAxes + ScaledTranslation(0, -0.5, axes.figure.dpi_scale_trans)
    anchor: dict[str, Any] = {"bbox_to_anchor": (0.5, 0), "bbox_transform": below}
    axes.legend(loc="upper center", **anchor, ncols=n_columns, frameon=False, fontsize=9)
