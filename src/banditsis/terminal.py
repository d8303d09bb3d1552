"""Results as tables for the terminal."""

from __future__ import annotations

from rich.table import Table

from banditsis.results import ScreeningResult, format_duration


def rounds_table(result: ScreeningResult, title: str) -> Table:
    """A line for each round."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("round", "rows read", "features", "kept", "cutoff", "cells read", "time"):
        table.add_column(heading, justify="right")
    for k, r in enumerate(result.rounds, 1):
        table.add_row(
            str(k),
            f"{r.n_rows:,}",
            f"{r.n_features:,}",
            f"{r.n_kept:,}",
            f"{r.cutoff:.4f}",
            f"{r.cells:,}",
            format_duration(r.seconds),
        )
    return table


def features_table(result: ScreeningResult, title: str, most: int = 10) -> Table:
    """A line for each of the best features."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("rank", "feature", "score", "95% interval", "rows read"):
        table.add_column(heading, justify="left" if heading == "feature" else "right")
    rows_read = result.rows_read
    for rank, (k, (low, high)) in enumerate(zip(result.selected[:most], result.interval(), strict=False), 1):
        interval = f"{low:+.3f} to {high:+.3f}"
        table.add_row(str(rank), result.name(k), f"{result.scores[k]:+.4f}", interval, f"{rows_read[k]:,}")
    return table
