"""``banditsis reproduce``: a command for each of the paper's tables and figures."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Make the paper's tables and figures again, beside the published values.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)

Replications = Annotated[
    int | None, typer.Option(min=1, help="Replications. By default as many as in the paper.")
]
Jobs = Annotated[int | None, typer.Option(help="Processes. By default one for each core.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")]
Out = Annotated[Path, typer.Option(help="Folder to write to; a stopped run goes on from what is there.")]
Quick = Annotated[bool, typer.Option("--quick", help="A smaller version, in under a minute.")]

OUT = Path("paper-results")


@app.command()
def table1(
    replications: Replications = None, jobs: Jobs = None, seed: Seed = 0, out: Out = OUT, quick: Quick = False
) -> None:
    """Table 1: how often all active features are found (500 replications)."""
    from banditsis.paper.table1 import reproduce_table1

    _show(lambda: reproduce_table1(replications, jobs, seed, out, quick))


@app.command()
def table2(
    movielens: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the files of ml-25m. Without it, a stand-in is made up, and said to be."
        ),
    ] = None,
    replications: Annotated[
        int | None, typer.Option(min=1, max=100, help="Users. By default 100, as in the paper.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads. By default one for each core.")] = None,
    seed: Seed = 0,
    out: Out = OUT,
    quick: Quick = False,
) -> None:
    """Table 2: MovieLens users' ratings, predicted by tags and products of tags (100 users)."""
    from banditsis.paper.table2 import reproduce_table2

    _show(lambda: reproduce_table2(movielens, replications, jobs, seed, out, quick))


@app.command()
def figure1(
    replications: Replications = None, jobs: Jobs = None, seed: Seed = 0, out: Out = OUT, quick: Quick = False
) -> None:
    """Figure 1: the algorithm drawn from one run (--replications, --jobs and --quick change nothing)."""
    from banditsis.paper.figure1 import reproduce_figure1

    _show(lambda: reproduce_figure1(seed, out))


@app.command()
def figure2(
    replications: Replications = None, jobs: Jobs = None, seed: Seed = 0, out: Out = OUT, quick: Quick = False
) -> None:
    """Figure 2: BanditSIS beside SIS on a subsample with as many cells (500 replications)."""
    from banditsis.paper.figure2 import reproduce_figure2

    _show(lambda: reproduce_figure2(replications, jobs, seed, out, quick))


@app.command()
def figure3(
    replications: Replications = None, jobs: Jobs = None, seed: Seed = 0, out: Out = OUT, quick: Quick = False
) -> None:
    """Figure 3: CPU time and cells against n and p (100 replications, one at a time whatever --jobs says)."""
    from banditsis.paper.figure3 import reproduce_figure3

    _show(lambda: reproduce_figure3(replications, seed, out, quick))


def _show(reproduce: Callable[[], Any]) -> None:
    """Print the report, and where it is."""
    with _plain_errors():
        result = reproduce()
        print(result)
        print("Written:", *(os.fspath(path) for path in result.files), sep="\n  ", file=sys.stderr)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """What the user can mend is said in a line, without a traceback."""
    try:
        yield
    except (ImportError, MemoryError, ValueError) as error:
        print(f"banditsis: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    except OSError as error:  # of the system, or of ours, which say all themselves
        ours = error.errno is None
        remedy = f"{error.filename} cannot be used ({error.strerror}): choose another folder (--out)."
        print(f"banditsis: {error if ours else remedy}", file=sys.stderr)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


if __name__ == "__main__":
    app()
