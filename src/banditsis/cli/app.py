"""Commands and their options. A command runs the function of its name, in a module that is imported then."""

from __future__ import annotations

import re
import shlex
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from banditsis import __version__
from banditsis.cli.terminal import exit_codes, prepare_streams


def whole(text: str) -> int:
    """Read an integer, perhaps with an exponent, or a size with a unit: 500, 1e6, 2GB, 1.5 GiB."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?(?:e\d\d?)?)\s*([kmgt]?)(i?)(b?)", text.strip().lower())
    number = float(match[1]) if match else 0.0
    if match is None or not number or not (number.is_integer() or match[2] or match[4]):
        raise click.BadParameter(f"{text!r} must be an integer such as 500 or 1e6, or a size such as 2GB.")
    return int(number * (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " "))


def _cells(context: click.Context, parameter: click.Parameter, value: float | None) -> int | float | None:
    """A number of cells as an integer; a budget up to 1 is a fraction of them."""
    return int(value) if value is not None and value > 1 and value.is_integer() else value


def _option(name: str, help: str, *more: str, **settings: Any) -> click.Option:
    return click.Option([name, *more], help=help, **settings)


def _flag(name: str, help: str, *more: str) -> click.Option:
    return click.Option([name, *more], help=help, is_flag=True)


def _choice(name: str, choices: str, help: str, **settings: Any) -> click.Option:
    return click.Option([name], help=help, type=click.Choice(choices.split()), **settings)


STATISTICS = (
    "auto pearson anova logistic poisson cox spearman kendall chatterjee distance wilcoxon chi2 "
    "information_value mutual_information"
)
STATISTIC = (
    "Measure of association: auto (anova for three or more classes, else pearson), "
    f"{', '.join(STATISTICS.split()[1:])}."
)
DTYPES = "bool int8 int16 int32 int64 float16 float32 float64"
TARGET = "Response: a column of the data (name or 1-based number), FILE or FILE:COLUMN."
COVARIATES = (
    "Covariates to adjust for: columns of the data (age,sex), FILE:age,sex, or FILE for all of its columns. "
    "Text is expanded. Repeatable."
)
BY = "Scores by this column, such as the month, for chi2, information_value and mutual_information."
FDR = "Keep what is significant at this false discovery rate; reads every row without --alpha or --budget."
BUDGET = "Use the best plan that reads at most this fraction of the cells, or this many cells."
ROW_ORDER = "Rows to sample: random, blocks (whole chunks), stored (the first rows) or auto."
STRATIFIED = "stratified reads more of the rows that carry most information, such as rare classes."
MISSING = "Missing values: raise an error, or pairwise deletion (default; not with --min-correlation)."
FRACTION = click.FloatRange(0, 1, min_open=True, max_open=True)
NATURAL = click.IntRange(min=0)
OTHER = "Other options"
#: Options in the groups that ``--help`` shows.
GROUPS: dict[str, list[click.Option]] = {
    "Data": [
        _option("--out", "The index to write, such as data.index.", type=Path),
        _option("--append", "An index of the same features, to which the rows are added.", type=Path),
        _option("--target", TARGET),
        _option("--columns", "Features to use: names, 1-based numbers or patterns (snp_*).", multiple=True),
        _option("--drop", "Columns not to use, as for --columns.", multiple=True),
        _option(
            "--one-hot", "Encode text with at most so many levels; 0 skips it.", type=NATURAL, default=50
        ),
        _choice("--dates", "skip numeric", "What to do with columns of dates.", default="skip"),
        _option("--na", "Also a missing value in text files. Repeatable: --na -9.", multiple=True),
        _option("--memory-limit", "Approximate memory to use: 500MB, 2GB.", type=whole, metavar="SIZE"),
        _option("--id-column", "Column of sample ids, for joins.", metavar="COLUMN"),
        _option("--covariates", COVARIATES, multiple=True),
        _option("--by", BY, metavar="COLUMN"),
        _option("--sample-weight", "Weights of the rows: a column or FILE:COLUMN; 0 omits a row."),
        _option("--rows", "Number of rows, such as 1e6.", type=whole, required=True, metavar="N"),
        _option("--features", "Number of features.", type=whole, required=True, metavar="N"),
        _choice("--dtype", DTYPES, "Data type of the cells, for their size.", default="float32"),
    ],
    "Selection": [
        _option("--keep", "Features to keep.", type=whole, metavar="N", show_default="n / log n"),
        _option("--fdr", FDR, type=FRACTION),
        _flag("--exact", "Read every row (SIS)."),
        _option("--alpha", "Read as in the paper, with this α (0.5 to 1.1). Smaller reads more.", type=float),
        _option("--budget", BUDGET, type=float, callback=_cells, metavar="CELLS"),
        _option("--min-correlation", "Keep every feature with |r| at or above this value.", type=float),
        _option("--confidence", "Probability for --min-correlation.", type=float, show_default="0.95"),
        _choice("--row-order", "auto random blocks stored", ROW_ORDER, default="auto"),
        _choice("--sampling", "auto uniform stratified", STRATIFIED, default="auto"),
    ],
    "Statistics": [
        _choice("--statistic", STATISTICS, STATISTIC, default="auto", metavar="NAME"),
        _flag("--pvalues", "Read all rows of the selected features to get p-values."),
        _flag("--avoid-redundancy", "Choose the features to keep so they are not redundant."),
        _flag("--iterative", "Repeat given the chosen features: finds what matters only jointly (ISIS)."),
        _flag("--interactions", "Also screen the products of pairs of features."),
        _choice("--missing", "raise pairwise", MISSING),
    ],
    "Output": [
        _option("--output", "Write the features: .csv, .parquet or .json.", "-o", type=Path),
        _flag("--all-features", "Write every feature to --output, not only the selected ones."),
        _option("--report", "Write a report: .html.", type=Path),
        _option("--plot", "Draw a picture: .png, .svg or .pdf.", type=Path),
        _flag("--json", "Print JSON only.", "as_json"),
        _flag("--compare", "Compare with other plans of the same cost."),
        _flag("--quiet", "Print warnings and errors only.", "-q"),
        _flag("--verbose", "Also print the rounds, intervals, adjusted p-values and all notes.", "-v"),
        _flag("--force", "Replace an existing index."),
        _flag("--verify", "Read an index completely and check its checksums."),
    ],
    OTHER: [
        _option("--seed", "Random seed.", type=NATURAL, default=0),
        _option("--n-jobs", "Threads.", type=click.IntRange(min=1), show_default="all cores"),
    ],
}
#: All parameters by name.
OPTIONS: dict[str, click.Parameter] = {
    **{str(option.name): option for options in GROUPS.values() for option in options},
    "data": click.Argument(["data"]),  # not of type click.Path, because it may be a URL
    "targets": _option("--target", f"{TARGET} Repeatable.", multiple=True),
}
EXIT_CODES = "Exit codes: 0 success, 1 invalid input, 2 wrong usage, 130 interrupted (Ctrl-C)."


class Command(click.Command):
    """A command that remembers how it was called, and shows its options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each group, and at the end those of none, such as ``--help``."""
        headings = {option.name: heading for heading, options in GROUPS.items() for option in options}
        sections = {heading: list[tuple[str, str]]() for heading in GROUPS}
        for option in self.get_params(ctx):
            if isinstance(option, click.Option) and (line := option.get_help_record(ctx)):
                sections[headings.get(option.name, OTHER)].append(line)
        for heading, lines in sections.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["command"] = shlex.join([*ctx.command_path.split(), *args])
        return super().parse_args(ctx, args)


@click.group(
    "banditsis",
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, message="banditsis %(version)s", help="Show the version.")
def app() -> None:
    """Select the features most associated with a response, reading only a small part of the data."""
    prepare_streams()


def _take(spec: str) -> click.Parameter:
    """A parameter by its name, or an option with another default: ``keep=50``."""
    name, _, default = spec.partition("=")
    parameter = copy(OPTIONS[name])
    if default and isinstance(parameter, click.Option):
        parameter.default, parameter.required, parameter.show_default = default, False, True
    return parameter


def _add(name: str, module: str, about: str, options: str, *examples: str) -> None:
    """Add a command; its module is imported when it runs, because ``--help`` must be fast."""

    def callback(**given: Any) -> None:
        with exit_codes():
            getattr(import_module(f"banditsis.cli.{module}"), f"run_{name.replace('-', '_')}")(**given)

    lines = "\n".join(f"  banditsis {name} {example}" for example in examples)
    epilog = f"\b\nExamples:\n{lines}\n\n{EXIT_CODES}" if examples else EXIT_CODES
    params = [_take(spec) for spec in options.split()]
    app.add_command(Command(name, callback=callback, params=params, help=about, epilog=epilog))


DATA = "DATA is a file, folder or URL: Parquet, Arrow, CSV, Zarr, HDF5, PLINK (prefix), …"
READING = "columns drop one_hot dates na memory_limit"
PLANNING = "alpha budget min_correlation confidence"

_add(
    "demo",
    "plan",
    "Compare exact and adaptive screening on simulated data.",
    "rows=200000 features=1000 keep=30 seed",
)
_add(
    "screen",
    "screen",
    f"Select the features most associated with a target.\n\n{DATA}",
    f"data targets {READING} id_column keep fdr exact {PLANNING} statistic covariates sample_weight by "
    "pvalues avoid_redundancy iterative interactions missing row_order sampling output all_features report "
    "as_json quiet verbose seed n_jobs",
    "data.parquet --target price --keep 100",
    "cohort --target pheno.csv:CD8 --covariates cohort.cov",
    "x.zarr --target y.npy --min-correlation 0.05 --json",
    "data.csv --target class --drop 'id,date_*' -o best.csv",
)
_add(
    "sample-check",
    "sample_check",
    "Show which features a random sample of rows would miss.\n\nBoth the sample and all rows select the "
    "best features. Those that are clearly associated with the target in all rows, but not selected by the "
    f"sample, are listed.\n\n{DATA}",
    f"data targets {READING} id_column covariates rows keep=50 exact statistic missing plot as_json seed "
    "n_jobs",
    "data.parquet --target y --rows 10000",
    "x.bed --target pheno.csv:CD8 --rows 2000 --plot a.png",
)
_add(
    "index",
    "files",
    "Build an index of the data once: it answers for any target after reading 3% of the bytes.\n\n"
    f"With --target, plans that sample rows also find the features of a rare class in few rows.\n\n{DATA}",
    f"data out append target {READING} id_column seed force quiet",
    "data.parquet --out data.index",
    "x.bed --out x.index --target pheno.csv:CD8 --seed 1",
    "march.parquet --append data.index",
)
_add(
    "info",
    "files",
    f"Show the layout of a file and the cost of screening it.\n\n{DATA}",
    f"data target {READING} keep verify as_json",
)
_add(
    "plan",
    "plan",
    "Show what a plan reads and what it detects, without data.",
    f"rows features dtype keep {PLANNING} compare as_json",
    "--rows 1e6 --features 1e5 --keep 100",
    "--rows 1e6 --features 1e5 --keep 100 --budget 0.01 --compare",
)

if __name__ == "__main__":
    app()
