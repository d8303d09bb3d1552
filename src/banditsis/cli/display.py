"""What a person sees while a run goes on, and after it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from banditsis.cli.output import known_pvalues
from banditsis.cli.wording import as_options
from banditsis.formatting import count, encodable, format_bytes, format_duration, to_single_line
from banditsis.results import Round, ScreeningResult, describe_floor

SHOWN = 20  # features in the table
LATEST = 12  # rounds on the screen


class RoundsDisplay:
    """A line for each finished round, and a bar for the cells read of how many.

    :func:`banditsis.screen` calls it with cells, and its ``round_done`` with finished rounds.

    Parameters
    ----------
    console : Console
        Where to draw.
    itemsize : int
        Bytes of a cell.
    """

    def __init__(self, console: Console, itemsize: int) -> None:
        self.itemsize = itemsize
        self.rounds: list[Round] = []
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TextColumn("{task.fields[cells]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self.task = self.bar.add_task("screening", total=None, cells="")
        self.live = Live(console=console, refresh_per_second=8, get_renderable=self._draw, transient=True)

    def __call__(self, done: int, total: int) -> None:
        cells = f"{done:,} of {total:,} cells, {format_bytes(done * self.itemsize)}"
        self.bar.update(self.task, completed=done, total=total, cells=cells)

    def round_done(self, finished: Round) -> None:
        """Add a line."""
        self.rounds.append(finished)

    def _draw(self) -> RenderableType:
        if not self.rounds:
            return self.bar
        return Group(rounds_table(self.rounds, self.itemsize, LATEST), self.bar)


@contextmanager
def live_rounds(wanted: bool, itemsize: int) -> Iterator[Any]:
    """A live display on stderr if a person watches, else False: no progress at all."""
    console = Console(stderr=True)
    if not (wanted and console.is_terminal):
        yield False
        return
    display = RoundsDisplay(console, itemsize)
    with display.live:
        yield display


@contextmanager
def byte_progress(wanted: bool, what: str) -> Iterator[Any]:
    """A bar on stderr for bytes that are moved, for a person; else None."""
    console = Console(stderr=True)
    if not (wanted and console.is_terminal):
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(
        *columns, TextColumn("{task.fields[moved]}"), TimeRemainingColumn(), console=console
    ) as bar:
        task = bar.add_task(what, total=None, moved="")
        started = time.perf_counter()

        def tell(done: int, total: int) -> None:
            speed = format_bytes(done / max(time.perf_counter() - started, 1e-3))
            moved = f"{format_bytes(done)} of {format_bytes(total)}, {speed}/s"
            bar.update(task, completed=done, total=total, moved=moved)

        yield tell


def rounds_table(rounds: list[Round], itemsize: int, most: int | None = None) -> Table:
    """A line for each round, or for the latest."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("round", "rows", "features", "kept", "cutoff", "cells", "bytes", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    hidden = 0 if most is None else max(0, len(rounds) - most)
    for k, r in enumerate(rounds[hidden:], hidden + 1):
        table.add_row(
            str(k),
            f"{r.n_rows:,}",
            f"{r.n_features:,}",
            f"{r.n_kept:,}",
            f"{r.cutoff:.4f}",
            f"{r.cells:,}",
            format_bytes(r.cells * itemsize),
            format_duration(r.seconds),
        )
    return table


def features_table(result: ScreeningResult, most: int = SHOWN) -> Table:
    """A line for each of the best features."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rank", justify="right")
    table.add_column("feature", overflow="fold")
    columns = _columns(result)
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for rank, k in enumerate(result.selected[:most]):
        name = Text(to_single_line(encodable(result.name(int(k)))))
        table.add_row(str(rank + 1), name, *(cells[rank] for cells in columns.values()))
    return table


def _columns(result: ScreeningResult) -> dict[str, list[str]]:
    """What is known of each selected feature, in words."""
    chosen = result.selected
    columns = {"score": [f"{score:+.4f}" for score in result.scores[chosen]]}
    with suppress(ValueError):  # which says that there is none for this statistic
        columns["95% interval"] = [f"{low:+.3f} … {high:+.3f}" for low, high in result.interval()]
    pvalues = known_pvalues(result)
    if pvalues is not None:
        columns["p-value"] = [f"{value:.2g}" for value in pvalues]
    if result.present is not None:
        columns["present"] = [f"{int(number):,}" for number in result.present]
    columns["rows read"] = [f"{number:,}" for number in result.rows_read[chosen]]
    return columns


def show_result(result: ScreeningResult, itemsize: int, seconds: float, console: Console) -> None:
    """Print rounds, features, floor and notes."""
    cells, everything = result.cells_read, result.n_rows * result.n_features
    console.print(rounds_table(list(result.rounds), itemsize))
    console.print()
    console.print(features_table(result))
    more = len(result.selected) - SHOWN
    if more > 0:
        console.print(f"… and {more:,} more: --output FILE or --json lists all.", style="dim", soft_wrap=True)
    console.print()
    kept = f"{len(result.selected):,} of {count(result.n_features, 'feature')} selected"
    console.print(
        f"[bold]{kept}[/]; read {cells:,} of {everything:,} cells ({result.fraction_read:.2%}, "
        f"{format_bytes(cells * itemsize)}) in {format_duration(seconds)}.",
        soft_wrap=True,
    )
    floor = describe_floor(result)
    console.print(Text(as_options(floor[:1].upper() + floor[1:])), soft_wrap=True)
    for note in result.notes:
        console.print(Text(f"Note: {as_options(note)}"), soft_wrap=True)
