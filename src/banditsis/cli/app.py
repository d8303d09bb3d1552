"""The command line: parse, call, print."""

from __future__ import annotations

from pathlib import Path
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

    from banditsis.cli.demo import run_demo

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


def _size(text: str) -> int:
    from banditsis.cli.errors import parse_size

    return parse_size(text)


def _statistics(incomplete: str) -> list[str]:
    from banditsis.cli.screen import complete_statistics

    return complete_statistics(incomplete)


def _row_orders(incomplete: str) -> list[str]:
    from banditsis.cli.screen import complete_row_orders

    return complete_row_orders(incomplete)


def _missing(incomplete: str) -> list[str]:
    return [name for name in ("raise", "pairwise") if name.startswith(incomplete)]


CODES = "Exit codes: 0 done; 1 the data or a file will not do; 2 wrong usage; 130 interrupted (Ctrl-C)."
SCREEN_HELP = f"""Examples:

  banditsis screen data.parquet --target price --keep 100\n
  banditsis screen genotypes.bed --target pheno.csv:CD8 --keep 50 --budget 0.1\n
  banditsis screen features.zarr --target y.npy --min-correlation 0.05 --json > result.json\n
  banditsis screen data.csv --target class --statistic anova --exact --output best.csv

{CODES}"""
SHUFFLE_HELP = f"""Examples:

  banditsis shuffle data.parquet data.zarr\n
  banditsis shuffle genotypes.bed genotypes.zarr --target pheno.csv:CD8 --seed 1

Interrupted? The same command again goes on where it was.

{CODES}"""
INFO_HELP = f"""Examples:

  banditsis info data.zarr\n
  banditsis info data.zarr --verify\n
  banditsis info data.parquet --json

{CODES}"""
Data = Annotated[
    Path, typer.Argument(help="A file or folder: Parquet, Arrow, CSV, Zarr, HDF5, h5ad, .bed, .npy, …")
]
Target = Annotated[
    str | None,
    typer.Option(help="A column of the data, another file, or file:column; a name or a 1-based number."),
]
MemoryLimit = Annotated[
    int | None, typer.Option(parser=_size, metavar="SIZE", help="Memory to use, about: 500MB, 2GB.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Where random numbers start.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show errors and warnings alone.")]


@app.command(epilog=SCREEN_HELP)
def screen(
    data: Data,
    target: Target = None,
    keep: Annotated[
        int | None, typer.Option(min=1, metavar="D", help="Features to select; n / log n by default.")
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Read every row (SIS).")] = False,
    alpha: Annotated[
        float | None, typer.Option(help="The paper's plan; smaller reads more. 0.5 by default.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="The best plan for a fraction of the cells, or a number above 1 of cells."),
    ] = None,
    min_correlation: Annotated[
        float | None, typer.Option(help="Lose nothing at or above this correlation.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="For --min-correlation.")] = 0.95,
    statistic: Annotated[
        str, typer.Option(autocompletion=_statistics, help="How association is measured.")
    ] = "pearson",
    covariates: Annotated[
        str | None,
        typer.Option(help="What is to be given: columns of the data, age,sex, or file:age,sex."),
    ] = None,
    pvalues: Annotated[
        bool, typer.Option("--pvalues", help="Read the features that are left in full, for p-values.")
    ] = False,
    interactions: Annotated[
        bool, typer.Option("--interactions", help="Screen products of two columns as well.")
    ] = False,
    one_hot: Annotated[
        bool, typer.Option("--one-hot", help="Turn columns that are no numbers into one for each value.")
    ] = False,
    missing: Annotated[
        str | None,
        typer.Option(
            autocompletion=_missing, help="raise or pairwise, for NaN; pairwise for .bed, else raise."
        ),
    ] = None,
    row_order: Annotated[
        str, typer.Option(autocompletion=_row_orders, help="auto, random, blocks or stored.")
    ] = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the features: .csv, .parquet or .json.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report: .html.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")
    ] = False,
    quiet: Quiet = False,
    seed: Seed = None,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
    memory_limit: MemoryLimit = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Dask cluster, tcp://…; its workers see the same paths."),
    ] = None,
) -> None:
    """Select the features of a file that are most associated with a target."""
    from banditsis.cli.errors import exit_codes

    with exit_codes():
        from banditsis.cli.screen import Request, run_screen

        request = Request(
            data=data,
            target=target,
            keep=keep,
            exact=exact,
            alpha=alpha,
            budget=budget,
            min_correlation=min_correlation,
            confidence=confidence,
            statistic=statistic,
            covariates=covariates,
            pvalues=pvalues,
            interactions=interactions,
            one_hot=one_hot,
            missing=missing,
            row_order=row_order,
            output=output,
            report=report,
            as_json=as_json,
            quiet=quiet,
            seed=seed,
            jobs=jobs,
            memory_limit=memory_limit,
            scheduler=scheduler,
        )
        raise typer.Exit(run_screen(request))


@app.command(epilog=SHUFFLE_HELP)
def shuffle(
    data: Data,
    destination: Annotated[Path, typer.Argument(help="The store to write, a folder: data.zarr.")],
    target: Target = None,
    seed: Seed = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    memory_limit: MemoryLimit = None,
    quiet: Quiet = False,
) -> None:
    """Put the rows into random order, once, so that screening reads few bytes from then on."""
    from banditsis.cli.errors import exit_codes

    with exit_codes():
        from banditsis.cli.shuffle import run_shuffle

        raise typer.Exit(run_shuffle(data, destination, target, seed, force, memory_limit, quiet))


@app.command(epilog=INFO_HELP)
def info(
    data: Data,
    keep: Annotated[int | None, typer.Option(min=1, metavar="D", help="Features to keep, for costs.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read all of a shuffled store and check its checksums.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    memory_limit: MemoryLimit = None,
) -> None:
    """Show what a file is, and what screening it will cost."""
    from banditsis.cli.errors import exit_codes

    with exit_codes():
        from banditsis.cli.info import run_info

        run_info(data, keep, as_json, verify, memory_limit)


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

    from banditsis.cli import plan as planning
    from banditsis.cli.errors import parse_budget
    from banditsis.plans.factory import make_plan

    try:
        made = make_plan(
            rows, features, keep,
            alpha=alpha, budget=None if budget is None else parse_budget(budget), min_correlation=min_correlation, confidence=confidence,
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
