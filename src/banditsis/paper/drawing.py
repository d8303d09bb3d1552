"""What the figures have in common: styles, sizes, and how they are saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banditsis.paper.published import ALPHAS, MODELS, TABLE1, Line
from banditsis.plotting import BLACK, ORANGE, RED, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VARIANT_STYLES: dict[str, dict[str, Any]] = {
    "published": {"color": RED, "marker": "o", "label": "BanditSIS as published"},
    "printed": {"color": ORANGE, "marker": "s", "label": "BanditSIS as printed"},
}


def new_figure(width: float, height: float, **layout: Any) -> tuple[Figure, Any]:
    """A figure and its axes, made without touching the state of pyplot."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("the figures need matplotlib: pip install 'banditsis[plots]'") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**layout)


def save(figure: Figure, out: Path, name: str) -> tuple[Path, Path]:
    """Write PNG and SVG, the same bytes for the same figure."""
    import matplotlib as mpl

    png, svg = out / f"{name}.png", out / f"{name}.svg"
    figure.savefig(png, dpi=110, pil_kwargs={"optimize": True})
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(svg, metadata={"Date": None})
    return png, svg


def draw_table1(tables: dict[str, list[Line]], n: int) -> Figure:
    """P at d = 144 for every model and α: the paper's values beside both variants."""
    figure, axes = new_figure(10, 3.6, ncols=4, sharey=True)
    places = range(len(ALPHAS) + 1)
    published: dict[str, Any] = {"color": BLACK, "markerfacecolor": "none", "label": "the paper's Table 1"}
    for axis, model in zip(axes, MODELS, strict=True):
        for variant, style in VARIANT_STYLES.items():
            axis.plot(places, _at_144(tables[variant], model), linewidth=1.2, markersize=5, **style)
        axis.plot(places, _at_144(TABLE1, model), "o", markersize=10, **published)
        axis.set_xticks(places, [*(f"{alpha:g}" for alpha in ALPHAS), "SIS"])
        axis.set_title(model)
        axis.set_xlabel("α of BanditSIS")
        tidy(axis)
    axes[0].set_ylabel("P at d = 144 (%)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(f"Data sets in which all active features are selected ({n} replications)", fontsize=11)
    return figure


def _at_144(lines: Sequence[Line], model: str) -> list[float]:
    """P at d = 144 for each α and then for SIS, which is what BanditSIS comes to as α falls."""
    mine = [line.percentages[0] for line in lines if line.model == model]
    return [*mine[1:], mine[0]]
