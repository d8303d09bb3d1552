"""``banditsis reproduce``: a command for each table and figure of the paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from banditsis import paper  # loads each reproduction on first use, so --help is fast
from banditsis.cli.command import Group, flag, option
from banditsis.cli.errors import exit_codes
from banditsis.cli.terminal import print_message, print_output

if TYPE_CHECKING:
    from banditsis.paper.output import Reproduction

OTHERS = [
    option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the random numbers."),
    option(
        "--out",
        type=Path,
        default=Path("paper-results"),
        help="Output folder. An interrupted run is resumed from its files.",
    ),
    flag("--quick", help="Run a smaller version, in under a minute."),
]
COMMON = [
    option(
        "--replications",
        type=click.IntRange(min=1),
        help="Number of replications. Default: as many as in the paper.",
    ),
    option("--jobs", type=int, help="Number of processes. Default: all cores."),
    *OTHERS,
]


@click.group("reproduce", cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def app() -> None:
    """Reproduce the tables and figures of the paper, next to the published values."""


@app.command(params=COMMON)
def table1(replications: int | None, jobs: int | None, seed: int, out: Path, quick: bool) -> None:
    """Table 1: how often all active features are selected (500 replications)."""
    _run(lambda: paper.reproduce_table1(replications, jobs, seed, out, quick))


@app.command(
    params=[
        option(
            "--movielens",
            type=Path,
            help="Folder with the files of ml-25m. Default: a synthetic stand-in.",
        ),
        option("--replications", type=click.IntRange(1, 100), help="Number of users. Default: 100."),
        option("--jobs", type=int, help="Number of threads. Default: all cores."),
        *OTHERS,
    ]
)
def table2(
    movielens: Path | None, replications: int | None, jobs: int | None, seed: int, out: Path, quick: bool
) -> None:
    """Table 2: ratings of MovieLens users, predicted from tags and products of tags (100 users)."""
    _run(lambda: paper.reproduce_table2(movielens, replications, jobs, seed, out, quick))


@app.command(params=COMMON)
def figure1(replications: int | None, jobs: int | None, seed: int, out: Path, quick: bool) -> None:
    """Figure 1: the algorithm, drawn from one run (--replications, --jobs and --quick have no effect)."""
    _run(lambda: paper.reproduce_figure1(seed, out))


@app.command(params=COMMON)
def figure2(replications: int | None, jobs: int | None, seed: int, out: Path, quick: bool) -> None:
    """Figure 2: BanditSIS and SIS on a subsample with the same number of cells (500 replications)."""
    _run(lambda: paper.reproduce_figure2(replications, jobs, seed, out, quick))


@app.command(params=COMMON)
def figure3(replications: int | None, jobs: int | None, seed: int, out: Path, quick: bool) -> None:
    """Figure 3: CPU time and cells against n and p (100 replications; --jobs has no effect)."""
    _run(lambda: paper.reproduce_figure3(replications, seed, out, quick))


def _run(reproduce: Callable[[], Reproduction]) -> None:
    """Print the report, and on stderr the files written."""
    with exit_codes():
        result = reproduce()
        print_output(str(result))
    print_message("\n  ".join(["Files written:", *map(str, result.files)]))


if __name__ == "__main__":
    app()
