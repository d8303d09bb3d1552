"""``banditsis reproduce``: a command for each table and figure of the paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from banditsis import paper  # loads each reproduction on first use, so --help is fast
from banditsis.cli.command import Command
from banditsis.cli.errors import exit_codes
from banditsis.cli.terminal import print_message, print_output

if TYPE_CHECKING:
    from banditsis.paper.output import Reproduction

app = typer.Typer(
    help="Reproduce the tables and figures of the paper, next to the published values.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)

Replications = Annotated[
    int | None, typer.Option(min=1, help="Number of replications. Default: as many as in the paper.")
]
Users = Annotated[int | None, typer.Option(min=1, max=100, help="Number of users. Default: 100.")]
Jobs = Annotated[int | None, typer.Option(help="Number of processes. Default: all cores.")]
Threads = Annotated[int | None, typer.Option(help="Number of threads. Default: all cores.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")]
Out = Annotated[Path, typer.Option(help="Output folder. An interrupted run is resumed from its files.")]
Quick = Annotated[bool, typer.Option("--quick", help="Run a smaller version, in under a minute.")]
Folder = Annotated[
    Path | None, typer.Option(help="Folder with the files of ml-25m. Default: a synthetic stand-in.")
]

OUT = Path("paper-results")


@app.command(cls=Command)
def table1(
    replications: Replications = None, jobs: Jobs = None, seed: Seed = 0, out: Out = OUT, quick: Quick = False
) -> None:
    """Table 1: how often all active features are selected (500 replications)."""
    _run(lambda: paper.reproduce_table1(replications, jobs, seed, out, quick))


@app.command(cls=Command)
def table2(
    movielens: Folder = None,
    replications: Users = None,
    jobs: Threads = None,
    seed: Seed = 0,
    out: Out = OUT,
    quick: Quick = False,
) -> None:
    """Table 2: ratings of MovieLens users, predicted from tags and products of tags (100 users)."""
    _run(lambda: paper.reproduce_table2(movielens, replications, jobs, seed, out, quick))


@app.command(cls=Command)
def figure1(
    replications: Replications = None, jobs: Jobs = None, seed: Seed = 0, out: Out = OUT, quick: Quick = False
) -> None:
    """Figure 1: the algorithm, drawn from one run (--replications, --jobs and --quick have no effect)."""
    _run(lambda: paper.reproduce_figure1(seed, out))


@app.command(cls=Command)
def figure2(
    replications: Replications = None, jobs: Jobs = None, seed: Seed = 0, out: Out = OUT, quick: Quick = False
) -> None:
    """Figure 2: BanditSIS and SIS on a subsample with the same number of cells (500 replications)."""
    _run(lambda: paper.reproduce_figure2(replications, jobs, seed, out, quick))


@app.command(cls=Command)
def figure3(
    replications: Replications = None, jobs: Jobs = None, seed: Seed = 0, out: Out = OUT, quick: Quick = False
) -> None:
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
