"""The command line: parse, call, print."""

from __future__ import annotations

from typing import Annotated

import typer

from banditsis import __version__
from banditsis.paper.cli import app as reproduce

app = typer.Typer(
    name="banditsis",
    help="Feature screening that reads few of the cells.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


app.add_typer(reproduce, name="reproduce")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"banditsis {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Feature screening that reads few of the cells."""


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=1000, help="Rows of the data.")] = 200_000,
    features: Annotated[int, typer.Option(min=20, help="Features of the data.")] = 2_000,
    keep: Annotated[int, typer.Option(min=1, help="Features to select.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Where random numbers start.")] = 0,
) -> None:
    """Screen a made-up data set with SIS and with BanditSIS, side by side."""
    from rich.console import Console

    from banditsis.demo import run_demo

    run_demo(rows, features, keep, seed, Console())


if __name__ == "__main__":
    app()
