"""The output of a reproduction: Markdown, figures and the object that is returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from banditsis.core.formatting import write_text
from banditsis.show.plots import ORANGE, RED
from paper.replications import Row

VARIANT_STYLES: dict[str, dict[str, Any]] = {
    "published": {"color": RED, "marker": "o", "markersize": 5, "label": "BanditSIS as published"},
    "printed": {"color": ORANGE, "marker": "s", "markersize": 5, "label": "BanditSIS as printed"},
}


@dataclass(frozen=True)
class Reproduction:
    """A reproduced table or figure. Printing it shows the Markdown report."""

    #: The rows of the CSV file, one per replication.
    rows: list[Row]
    summary: dict[str, Any]
    markdown: str
    files: tuple[Path, ...]

    def __str__(self) -> str:
        return self.markdown


def write_outputs(
    name: str,
    out: Path,
    rows: list[Row],
    summary: dict[str, Any],
    paragraphs: Sequence[str],
    figure: Figure | None = None,
) -> Reproduction:
    """Write the report and the figure next to ``<name>.csv``."""
    text = "\n\n".join(paragraphs) + "\n"
    files = [out / f"{name}.csv", write_text(out / f"{name}.md", text)]
    if figure is not None:
        files += _save(figure, out, name)
    return Reproduction(rows, summary, text, tuple(files))


def markdown_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, with all but the first column aligned to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def new_figure(width: float, height: float, **layout: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes, without changing the state of pyplot."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**layout)


def add_shared_legend(figure: Figure, axes: Any) -> None:
    """Add one legend below the figure, for lines that all axes share."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def _save(figure: Figure, folder: Path, name: str) -> tuple[Path, Path]:
    """Write PNG and SVG. The same figure gives the same bytes."""
    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    figure.savefig(png, dpi=110, pil_kwargs={"optimize": True})
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(svg, metadata={"Date": None})
    return png, svg
