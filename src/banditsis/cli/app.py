"""The commands: which options each has. A command is the function ``run`` of the module of its name."""

from __future__ import annotations

import shlex
from importlib import import_module
from typing import Any

import click

from banditsis import __version__
from banditsis.cli.options import OPTIONS
from banditsis.cli.terminal import exit_codes, prepare_streams


class Command(click.Command):
    """A command that remembers how it was called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["command"] = shlex.join([*ctx.command_path.split(), *args])
        return super().parse_args(ctx, args)


@click.group(
    "banditsis",
    epilog="Exit codes: 0 success, 1 invalid input, 2 wrong usage, 130 interrupted (Ctrl-C).",
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, message="banditsis %(version)s", help="Show the version.")
def app() -> None:
    """Select the features most associated with a response, reading only a small part of the data."""
    prepare_streams()


ABOUT_DATA = "DATA is a file, folder or URL: Parquet, Arrow, CSV, Zarr, HDF5, PLINK (prefix), …"
READING = ("columns", "drop", "one_hot", "dates", "na", "memory_limit")
PLANNING = ("alpha", "budget", "min_correlation", "confidence")


def _add(name: str, about: str, *options: str, examples: tuple[str, ...] = ()) -> None:
    """Add a command; its module is imported when it runs, because ``--help`` must be fast."""

    def callback(**given: Any) -> None:
        with exit_codes():
            import_module(f"banditsis.cli.{name}").run(**given)

    lines = "\n".join(f"  banditsis {name} {example}" for example in examples)
    epilog = f"\b\nExamples:\n{lines}" if examples else None
    params = [OPTIONS[option] for option in options]
    app.add_command(Command(name, callback=callback, params=params, help=about, epilog=epilog))


_add(
    "demo",
    "Compare exact and adaptive screening on simulated data.",
    *("demo_rows", "demo_features", "demo_keep", "seed"),
)
_add(
    "screen",
    f"Select the features most associated with a target.\n\n{ABOUT_DATA}",
    *("data", "targets", *READING, "id", "keep", "fdr", "exact", *PLANNING),
    *("statistic", "covariates", "weights", "pvalues", "avoid_redundancy", "interactions"),
    *("missing", "row_order", "sampling", "output", "all_features", "report", "as_json", "quiet", "verbose"),
    *("seed", "jobs", "scheduler"),
    examples=(
        "data.parquet --target price --keep 100",
        "cohort --target pheno.csv:CD8 --covariates cohort.cov",
        "x.zarr --target y.npy --min-correlation 0.05 --json",
        "data.csv --target class --drop 'id,date_*' -o best.csv",
    ),
)
_add(
    "index",
    "Build an index of the data once: it answers for any target after reading 3% of the bytes.\n\n"
    "With --target, plans that sample rows also find the features of a rare class in few rows.\n\n"
    f"{ABOUT_DATA}",
    *("data", "out", "append", "target", *READING, "id", "random_state", "force", "quiet"),
    examples=(
        "data.parquet --out data.index",
        "x.bed --out x.index --target pheno.csv:CD8 --seed 1",
        "march.parquet --append data.index",
    ),
)
_add(
    "info",
    f"Show the layout of a file and the cost of screening it.\n\n{ABOUT_DATA}",
    *("data", "target", *READING, "keep", "verify", "as_json"),
)
_add(
    "plan",
    "Show what a plan reads and what it detects, without data.",
    *("n_rows", "n_features", "n_keep", *PLANNING, "dtype", "as_json"),
    examples=("--rows 1e6 --features 1e5 --keep 100", "--rows 1e6 --features 1e5 --keep 100 --budget 0.01"),
)

if __name__ == "__main__":
    app()
