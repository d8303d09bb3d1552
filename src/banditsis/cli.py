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


def _count(text: str) -> int:
    """A whole number, as 1000000 or as 1e6."""
    try:
        number = int(float(text)) if any(mark in text for mark in ".eE") else int(text.replace("_", ""))
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is not a number such as 1000000 or 1e6.") from None
    if number < 1:
        raise typer.BadParameter(f"{text} is too small: at least 1.")
    return number


@app.command()
def plan(
    rows: Annotated[int, typer.Option(parser=_count, metavar="N", help="Rows of the data: 1e9, say.")],
    features: Annotated[int, typer.Option(parser=_count, metavar="P", help="Features of the data.")],
    keep: Annotated[int, typer.Option(parser=_count, metavar="D", help="Features to select.")],
    alpha: Annotated[float | None, typer.Option(help="The paper's plan; 0.5 if nothing is given.")] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="The best plan for a fraction of the cells, or a number above 1 of cells."),
    ] = None,
    min_correlation: Annotated[
        float | None, typer.Option(help="Lose nothing at or above this correlation.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="For --min-correlation.")] = 0.95,
    dtype: Annotated[str, typer.Option(help="Type of a cell, for the bytes.")] = "float32",
    compare: Annotated[bool, typer.Option("--compare", help="Show more plans side by side.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a plan would read and what it would miss, without any data."""
    import json

    from rich.console import Console

    from banditsis import planning

    try:
        made = planning.make_plan(
            rows, features, keep,
            alpha=alpha, budget=budget, min_correlation=min_correlation, confidence=confidence,
        )  # fmt: skip
        if not as_json:
            planning.show_plan(made, dtype, compare, Console())
            return
        plans = planning.compared(made, compare) if compare else {"plan": made}
        record = {name: planning.as_record(other, dtype) for name, other in plans.items()}
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from None
    typer.echo(json.dumps(record if compare else record["plan"], indent=2, ensure_ascii=False))


if __name__ == "__main__":
    app()
