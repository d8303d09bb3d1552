"""The commands and their options. Heavy imports are deferred because ``--help`` must be fast."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import click

from banditsis import __version__
from banditsis.cli.command import Group, flag, option
from banditsis.cli.errors import check_confidence, exit_codes, usage_errors
from banditsis.cli.terminal import prepare_streams


def _parse_budget(text: str) -> int | float:
    """Read a fraction of the cells, or a number of cells if it is an integer above 1."""
    try:
        value = float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a number such as 0.05 or 1e6.") from None
    return int(value) if value > 1 and value.is_integer() else value


def _parse_count(text: str) -> int:
    """Read a positive integer, also as 1e6."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value >= 1 and value.is_integer()):
        raise click.BadParameter(f"{text!r} is not a positive integer such as 1000 or 1e6.")
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
        raise click.BadParameter(f"{text!r} is not a size such as 500MB, 2GB or 4e9.") from None
    if size < 1:
        raise click.BadParameter(f"must be at least 1 byte, got {text}.")
    return size


POSITIVE, NATURAL = click.IntRange(min=1), click.IntRange(min=0)
# Parameters that several commands share.
DATA = click.Argument(["data"])  # not of type click.Path, because it may be a URL
ABOUT_DATA = "DATA is a file, folder, URL, or - for stdin: Parquet, Arrow, CSV, Zarr, HDF5, PLINK (prefix), …"
TARGET = option(
    "--target", help="Response: a column of the data (name or 1-based number), FILE or FILE:COLUMN."
)
ID = option("--id", metavar="COLUMN", help="Column of sample ids, for joins.")
READING = [
    option(
        "--columns",
        multiple=True,
        metavar="NAMES",
        help="Features to use: names, 1-based numbers or patterns (snp_*).",
    ),
    option("--drop", multiple=True, metavar="NAMES", help="Columns not to use, as for --columns."),
    option(
        "--one-hot",
        type=NATURAL,
        default=50,
        metavar="LEVELS",
        help="Encode columns of text with up to this many distinct values; 0 skips text.",
    ),
    option(
        "--dates", default="skip", choices=("skip", "numeric"), help="Columns of dates: skip, or numeric."
    ),
    option("--na", multiple=True, help="Also a missing value in text files; may be repeated: --na -9."),
    option("--memory-limit", type=_parse_size, metavar="SIZE", help="Approximate memory to use: 500MB, 2GB."),
]
KEEP = option("--keep", type=POSITIVE, metavar="D", show_default="n / log n", help="Features to keep.")
PLANNING = [
    option("--alpha", type=float, help="Read as in the paper, with this α (0.5 to 1.1). Smaller reads more."),
    option(
        "--budget",
        type=_parse_budget,
        metavar="CELLS",
        help="Use the best plan that reads at most this fraction of the cells, or this many cells.",
    ),
    option(
        "--min-correlation",
        type=float,
        metavar="R",
        help="Keep every feature with |r| ≥ R, with probability --confidence.",
    ),
    option("--confidence", type=float, show_default="0.95", help="Probability for --min-correlation."),
]
STATISTICS = (
    *("pearson", "anova", "logistic", "poisson", "cox", "spearman", "kendall", "chatterjee", "distance"),
    *("sirs", "mv", "sliced_wasserstein"),
)
QUIET = flag("--quiet", "-q", help="Print warnings and errors only.")
AS_JSON = flag("--json", "as_json", help="Print JSON only.")
SEED = option("--seed", type=NATURAL, default=0, help="Random seed.")


@click.group(
    "banditsis",
    cls=Group,
    epilog="Exit codes: 0 success, 1 invalid input, 2 wrong usage, 130 interrupted (Ctrl-C).",
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, message="banditsis %(version)s", help="Show the version.")
def app() -> None:
    """Select the features most associated with a response, reading only a small part of the data."""
    prepare_streams()


@app.command(
    params=[
        option("--rows", type=click.IntRange(min=1000), default=200_000, help="Number of rows."),
        option("--features", type=click.IntRange(min=20), default=1_000, help="Number of features."),
        option("--keep", type=POSITIVE, default=30, help="Features to keep."),
        SEED,
    ]
)
@exit_codes()
def demo(rows: int, features: int, keep: int, seed: int) -> None:
    """Compare exact and adaptive screening on simulated data."""
    from banditsis.cli.demo import run_demo

    run_demo(rows, features, keep, seed)


SCREEN_EXAMPLES = """\b
Examples:
  banditsis screen data.parquet --target price --keep 100
  banditsis screen cohort --target pheno.csv:CD8 --covariates cohort.cov
  banditsis screen x.zarr --target y.npy --min-correlation 0.05 --json
  banditsis screen data.csv --target class --drop 'id,date_*' -o best.csv"""


@app.command(
    epilog=SCREEN_EXAMPLES,
    help=f"Select the features of a file that are most associated with a target.\n\n{ABOUT_DATA}",
    params=[
        DATA,
        option(
            "--target",
            multiple=True,
            help="Response: a column (name or 1-based number), FILE or FILE:COLUMN. Repeatable.",
        ),
        *READING,
        ID,
        KEEP,
        option(
            "--fdr",
            type=float,
            metavar="RATE",
            help="Keep what is significant at this false discovery rate instead of --keep; reads every row "
            "unless --alpha or --budget is set.",
        ),
        flag("--exact", help="Read every row (SIS)."),
        *PLANNING,
        option(
            "--statistic",
            default="auto",
            choices=("auto", *STATISTICS),
            help="Measure of association: auto (anova for three or more classes, else pearson), "
            f"{', '.join(STATISTICS)}.",
        ),
        option(
            "--covariates",
            multiple=True,
            help="Covariates to adjust for: columns of the data (age,sex), FILE:age,sex, or FILE for all of "
            "its columns. Text is expanded. Repeatable.",
        ),
        option("--weights", help="Weights of the rows: a column of the data or FILE:COLUMN; 0 omits a row."),
        flag("--pvalues", help="Read all rows of the selected features to get p-values."),
        flag("--robust-pvalues", help="As --pvalues, but allow a variance that depends on the feature."),
        flag("--avoid-redundancy", help="Choose the features to keep so they are not redundant."),
        flag("--interactions", help="Also screen the products of pairs of features."),
        option(
            "--missing",
            choices=("raise", "pairwise"),
            show_default="pairwise, but raise with --min-correlation",
            help="Missing values: raise an error, or pairwise deletion.",
        ),
        option(
            "--row-order",
            default="auto",
            choices=("auto", "random", "blocks", "stored"),
            help="Rows to sample: random, blocks (whole chunks), stored (the first rows) or auto.",
        ),
        option(
            "--sampling",
            default="auto",
            choices=("auto", "uniform", "stratified"),
            help="stratified reads more of the rows that carry most information, such as rare classes.",
        ),
        option("--output", "-o", type=Path, help="Write the features: .csv, .parquet or .json."),
        flag("--all-features", help="Write every feature to --output, not only the selected ones."),
        option("--report", type=Path, help="Write a report: .html."),
        AS_JSON,
        QUIET,
        flag("--verbose", "-v", help="Also print the plan, rounds, intervals, q-values and all notes."),
        SEED,
        option("--jobs", type=int, show_default="all cores", help="Threads."),
        option(
            "--scheduler",
            metavar="ADDRESS",
            help="Dask cluster, tcp://…; its workers must see the data at the same path.",
        ),
    ],
)
@exit_codes()
def screen(**options: Any) -> None:
    from banditsis.cli.screen import ScreenOptions, run_screen

    run_screen(ScreenOptions(**options, command=click.get_current_context().meta["command"]))


SHUFFLE_EXAMPLES = """\b
Examples:
  banditsis shuffle data.parquet data.shuffled
  banditsis shuffle x.bed x.shuffled --target pheno.csv:CD8 --seed 1"""
ABOUT_SHUFFLE = f"""\
Copy the data with their rows in random order. Screening the copy reads only its first rows.

With --target, rows are in strata of it, so few rows find even the features of a rare class.

{ABOUT_DATA}

DESTINATION is the folder to write, such as data.shuffled."""


@app.command(
    epilog=SHUFFLE_EXAMPLES,
    help=ABOUT_SHUFFLE,
    params=[
        DATA,
        click.Argument(["destination"], type=Path),
        TARGET,
        *READING,
        ID,
        option("--seed", "random_state", type=NATURAL, show_default="random", help="Random seed."),
        flag("--force", help="Replace an existing shuffled folder."),
        QUIET,
    ],
)
@exit_codes()
def shuffle(data: str, destination: Path, **options: Any) -> None:
    from banditsis.cli.shuffle import run_shuffle

    run_shuffle(data, destination, **options)


@app.command(
    help=f"Show the format and layout of a file and the cost of screening it.\n\n{ABOUT_DATA}",
    params=[
        DATA,
        TARGET,
        *READING,
        KEEP,
        flag("--verify", help="Read a shuffled folder completely and check its checksums."),
        AS_JSON,
    ],
)
@exit_codes()
def info(
    data: str, target: str | None, keep: int | None, as_json: bool, verify: bool, **options: Any
) -> None:
    from banditsis.cli.info import run_info
    from banditsis.cli.standard_input import spooled
    from banditsis.formats.options import ReadOptions

    reading = ReadOptions(command_line=True, **options)
    with spooled(data) as path:
        run_info(path, keep, reading, target=target, as_json=as_json, verify=verify)


PLAN_EXAMPLES = """\b
Examples:
  banditsis plan --rows 1e6 --features 1e5 --keep 100
  banditsis plan --rows 1e6 --features 1e5 --keep 100 --budget 0.01 --compare"""


@app.command(
    epilog=PLAN_EXAMPLES,
    params=[
        option("--rows", type=_parse_count, required=True, metavar="N", help="Number of rows, such as 1e6."),
        option("--features", type=_parse_count, required=True, metavar="P", help="Number of features."),
        option("--keep", type=_parse_count, required=True, metavar="D", help="Features to keep."),
        *PLANNING,
        option("--dtype", default="float32", help="Data type of the cells, for their size in bytes."),
        flag("--compare", help="Compare with more plans."),
        AS_JSON,
    ],
)
@exit_codes()
def plan(
    rows: int,
    features: int,
    keep: int,
    min_correlation: float | None,
    confidence: float | None,
    dtype: str,
    compare: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what a plan reads and which correlations it detects. Needs no data."""
    from banditsis.cli.plan import run_plan
    from banditsis.plans.factory import make_plan

    with usage_errors():
        made = make_plan(
            rows,
            features,
            keep,
            min_correlation=min_correlation,
            confidence=check_confidence(confidence, min_correlation),
            **options,
        )
        run_plan(made, dtype, compare=compare, as_json=as_json)


if __name__ == "__main__":
    app()
