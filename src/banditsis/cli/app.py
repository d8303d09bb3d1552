"""The commands and their options. Heavy imports are deferred because ``--help`` must be fast."""

from __future__ import annotations

import atexit
import gc
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from banditsis import __version__
from banditsis.cli.command import Command
from banditsis.cli.errors import check_confidence, check_dates, exit_codes, usage_errors
from banditsis.cli.terminal import prepare_streams
from banditsis.paper.cli import app as reproduce


def _parse_budget(text: str) -> int | float:
    """Read a fraction of the cells, or a number of cells if it is an integer above 1."""
    try:
        value = float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number such as 0.05 or 1e6.") from None
    return int(value) if value > 1 and value.is_integer() else value


def _parse_count(text: str) -> int:
    """Read a positive integer, also as 1e6."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value >= 1 and value.is_integer()):
        raise typer.BadParameter(f"{text!r} is not a positive integer such as 1000 or 1e6.")
    return int(value)


def _parse_size(text: str) -> int:
    """Read a number of bytes with an optional unit.

    Examples
    --------
    >>> _parse_size("2GB"), _parse_size("1.5 GiB"), _parse_size("4096")
    (2000000000, 1610612736, 4096)
    """
    match = re.fullmatch(r"(\d[\d.e_]*)\s*([kmgt]?)(i?)b?", text.strip().lower())
    try:
        number, prefix, binary = match.groups() if match else ("", "", "")
        size = int(float(number) * (1024 if binary else 1000) ** " kmgt".index(prefix or " "))
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is not a size such as 500MB, 2GB or 4e9.") from None
    if size < 1:
        raise typer.BadParameter(f"must be at least 1 byte, got {text}.")
    return size


def _complete(*choices: str) -> Callable[[str], list[str]]:
    """Make a shell completion for a fixed set of values."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def _complete_statistics(incomplete: str) -> list[str]:
    from banditsis.statistics import STATISTICS

    return _complete("auto", *STATISTICS)(incomplete)


# Options that several commands share.
Data = Annotated[
    str,  # and not Path, which would change a URL
    typer.Argument(help="File, folder, URL, or - for stdin: Parquet, Arrow, CSV, Zarr, HDF5, .bed, .npy, …"),
]
Target = Annotated[
    str | None,
    typer.Option(help="Response: a column of the data (name or 1-based number), FILE or FILE:COLUMN."),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target", help="Response: a column (name or 1-based number), FILE or FILE:COLUMN. Repeatable."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help="Features to use: names, 1-based numbers or patterns (snp_*)."),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="NAMES", help="Columns not to use, as for --columns.")
]
Id = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Column of sample ids, for joins.")]
OneHot = Annotated[bool, typer.Option("--one-hot", help="Encode columns of text, one feature per value.")]
Dates = Annotated[
    str,
    typer.Option(autocompletion=_complete("skip", "numeric"), help="Columns of dates: skip, or numeric."),
]
Keep = Annotated[
    int | None, typer.Option(min=1, metavar="D", show_default="n / log n", help="Features to keep.")
]
Alpha = Annotated[
    float | None, typer.Option(help="Read as in the paper, with this α (0.5 to 1.1). Smaller reads more.")
]
Budget = Annotated[
    float | None,
    typer.Option(
        parser=_parse_budget,
        metavar="CELLS",
        help="Use the best plan that reads at most this fraction of the cells, or this many cells.",
    ),
]
MinCorrelation = Annotated[
    float | None,
    typer.Option(metavar="R", help="Keep every feature with |r| ≥ R, with probability --confidence."),
]
Confidence = Annotated[
    float | None, typer.Option(show_default="0.95", help="Probability for --min-correlation.")
]
Seed = Annotated[int | None, typer.Option(min=0, show_default="random", help="Random seed.")]
STATISTICS = (
    "auto (anova for labels, else pearson), pearson, anova, logistic, poisson, cox, spearman, kendall, "
    "chatterjee, distance, sirs, mv, sliced_wasserstein"
)
MemoryLimit = Annotated[
    int | None,
    typer.Option(parser=_parse_size, metavar="SIZE", help="Approximate memory to use: 500MB, 2GB."),
]
Na = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="Also a missing value in text files; may be repeated: --na -9."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON only.")]

#: New objects between two runs of the garbage collector, which by default take a tenth of a small run.
OBJECTS_AT_ONCE = 50_000
EPILOG = "Exit codes: 0 success, 1 invalid input, 2 wrong usage, 130 interrupted (Ctrl-C)."
app = typer.Typer(
    name="banditsis",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(reproduce, name="reproduce")


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"banditsis {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Select the features most associated with a response, reading only a small part of the data."""
    prepare_streams()
    gc.set_threshold(OBJECTS_AT_ONCE)
    atexit.register(gc.freeze)  # the interpreter would search all objects for cycles before it ends


@app.command(cls=Command)
@exit_codes()
def demo(
    rows: Annotated[int, typer.Option(min=1000, help="Number of rows.")] = 200_000,
    features: Annotated[int, typer.Option(min=20, help="Number of features.")] = 1_000,
    keep: Annotated[int, typer.Option(min=1, help="Features to keep.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
) -> None:
    """Compare exact and adaptive screening on simulated data."""
    from banditsis.cli.demo import run_demo

    run_demo(rows, features, keep, seed)


SCREEN_EXAMPLES = """Examples:

  banditsis screen data.parquet --target price --keep 100\n
  banditsis screen x.bed --target pheno.csv:CD8 --keep 50 --budget 0.1\n
  banditsis screen x.zarr --target y.npy --min-correlation 0.05 --json\n
  banditsis screen data.csv --target class --drop 'id,date_*' -o best.csv"""


@app.command(cls=Command, epilog=SCREEN_EXAMPLES)
@exit_codes()
def screen(
    data: Data,
    target: Targets = None,
    columns: Columns = None,
    drop: Drop = None,
    id: Id = None,
    one_hot: OneHot = False,
    dates: Dates = "skip",
    na: Na = None,
    keep: Keep = None,
    fdr: Annotated[
        float | None,
        typer.Option(
            metavar="RATE", help="Keep what is significant at this false discovery rate instead of --keep."
        ),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Read every row (SIS).")] = False,
    alpha: Alpha = None,
    budget: Budget = None,
    min_correlation: MinCorrelation = None,
    confidence: Confidence = None,
    statistic: Annotated[
        str,
        typer.Option(autocompletion=_complete_statistics, help=f"Measure of association: {STATISTICS}."),
    ] = "auto",
    covariates: Annotated[
        str | None,
        typer.Option(
            help="Covariates to adjust for: columns of the data (age,sex) or FILE:age,sex. Text is expanded."
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help="Weights of the rows: a column of the data or FILE:COLUMN; 0 omits a row."),
    ] = None,
    pvalues: Annotated[
        bool, typer.Option("--pvalues", help="Read all rows of the selected features to get p-values.")
    ] = False,
    robust_pvalues: Annotated[
        bool,
        typer.Option(
            "--robust-pvalues", help="As --pvalues, but allow a variance that depends on the feature."
        ),
    ] = False,
    avoid_redundancy: Annotated[
        bool,
        typer.Option("--avoid-redundancy", help="Choose the features to keep so they are not redundant."),
    ] = False,
    interactions: Annotated[
        bool, typer.Option("--interactions", help="Also screen the products of pairs of features.")
    ] = False,
    missing: Annotated[
        str | None,
        typer.Option(
            autocompletion=_complete("raise", "pairwise"),
            show_default="pairwise for .bed and .pgen, else raise",
            help="Missing values: raise an error, or pairwise deletion.",
        ),
    ] = None,
    row_order: Annotated[
        str,
        typer.Option(
            autocompletion=_complete("auto", "random", "blocks", "stored"),
            help="Rows to sample: random, blocks (whole chunks), stored (the first rows) or auto.",
        ),
    ] = "auto",
    sampling: Annotated[
        str,
        typer.Option(
            autocompletion=_complete("auto", "uniform", "stratified"),
            help="stratified reads more of the rows that carry most information, such as rare classes.",
        ),
    ] = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the features: .csv, .parquet or .json.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report: .html.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    jobs: Annotated[int | None, typer.Option(show_default="all cores", help="Threads.")] = None,
    memory_limit: MemoryLimit = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Dask cluster, tcp://…; its workers must see the data at the same path."
        ),
    ] = None,
) -> None:
    """Select the features of a file that are most associated with a target."""
    options = locals()
    from banditsis.cli.screen import ScreenOptions, run_screen

    run_screen(ScreenOptions(**options))


SHUFFLE_EXAMPLES = """Examples:

  banditsis shuffle data.parquet data.zarr\n
  banditsis shuffle x.bed x.zarr --target pheno.csv:CD8 --seed 1

Run the same command again to resume an interrupted shuffle."""


@app.command(cls=Command, epilog=SHUFFLE_EXAMPLES)
@exit_codes()
def shuffle(
    data: Data,
    destination: Annotated[Path, typer.Argument(help="Store to write, a folder such as data.zarr.")],
    target: Target = None,
    columns: Columns = None,
    drop: Drop = None,
    id: Id = None,
    one_hot: OneHot = False,
    dates: Dates = "skip",
    seed: Seed = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing store.")] = False,
    na: Na = None,
    memory_limit: MemoryLimit = None,
    quiet: Quiet = False,
) -> None:
    """Copy the data with their rows in random order. Screening the copy reads only its first rows.

    With --target, rows are in strata of it, so few rows find even the features of a rare class.
    """
    from banditsis.cli.shuffle import run_shuffle

    run_shuffle(
        data,
        destination,
        target=target,
        random_state=seed,
        force=force,
        na=tuple(na or ()),
        memory_limit=memory_limit,
        quiet=quiet,
        columns=tuple(columns or ()),
        drop=tuple(drop or ()),
        id=id,
        one_hot=one_hot,
        dates=check_dates(dates),
    )


@app.command(cls=Command)
@exit_codes()
def info(
    data: Data,
    columns: Columns = None,
    drop: Drop = None,
    one_hot: OneHot = False,
    dates: Dates = "skip",
    keep: Keep = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read a shuffled store completely and check its checksums.")
    ] = False,
    na: Na = None,
    as_json: AsJson = False,
    memory_limit: MemoryLimit = None,
) -> None:
    """Show the format and layout of a file and the cost of screening it."""
    from banditsis.cli.info import run_info
    from banditsis.cli.standard_input import spooled
    from banditsis.formats.options import ReadOptions

    options = ReadOptions(
        columns=tuple(columns or ()),
        drop=tuple(drop or ()),
        one_hot=one_hot,
        dates=check_dates(dates),
        na=tuple(na or ()),
        memory_limit=memory_limit,
    )
    with spooled(data) as path:
        run_info(path, keep, options, as_json=as_json, verify=verify)


PLAN_EXAMPLES = """Examples:

  banditsis plan --rows 1e6 --features 1e5 --keep 100\n
  banditsis plan --rows 1e6 --features 1e5 --keep 100 --budget 0.01 --compare"""


@app.command(cls=Command, epilog=PLAN_EXAMPLES)
@exit_codes()
def plan(
    rows: Annotated[int, typer.Option(parser=_parse_count, metavar="N", help="Number of rows, such as 1e6.")],
    features: Annotated[int, typer.Option(parser=_parse_count, metavar="P", help="Number of features.")],
    keep: Annotated[int, typer.Option(parser=_parse_count, metavar="D", help="Features to keep.")],
    alpha: Alpha = None,
    budget: Budget = None,
    min_correlation: MinCorrelation = None,
    confidence: Confidence = None,
    dtype: Annotated[str, typer.Option(help="Data type of the cells, for their size in bytes.")] = "float32",
    compare: Annotated[bool, typer.Option("--compare", help="Compare with more plans.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a plan reads and which correlations it detects. Needs no data."""
    from banditsis.cli.plan import run_plan
    from banditsis.plans.factory import make_plan

    with usage_errors():
        made = make_plan(
            rows,
            features,
            keep,
            alpha=alpha,
            budget=budget,
            min_correlation=min_correlation,
            confidence=check_confidence(confidence, min_correlation),
        )
        run_plan(made, dtype, compare=compare, as_json=as_json)


if __name__ == "__main__":
    app()
