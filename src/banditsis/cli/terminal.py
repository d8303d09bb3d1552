"""Text on standard output and standard error: encoded, escaped, and robust against closed or full streams."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TextIO

import click

from banditsis.core.formatting import printable, text_table, wrap

#: Exit code of a process that a closed pipe has ended, 128 + SIGPIPE.
CLOSED_PIPE = 141
#: Parameters that messages name and that are options of the commands.
NAMED = ("dates", "missing", "one_hot", "pvalues", "row_order", "sampling", "statistic")


def prepare_streams() -> None:
    """Make printing safe: open closed streams, and escape characters that a stream cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # or else the next file that is opened takes its place
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_output(text: str, indent: int | None = None) -> None:
    """Print on standard output; end quietly if its reader has closed it, as ``head`` does.

    ``indent`` is that of the further lines if the text is to be wrapped on a terminal.
    """
    try:
        _print(text, sys.stdout, indent)
    except BrokenPipeError:
        raise click.exceptions.Exit(CLOSED_PIPE) from None
    except OSError as error:
        raise OSError(f"cannot write to standard output: {error.strerror}.") from None


def print_message(text: str, indent: int | None = None) -> None:
    """Print on standard error. A message that cannot be written does not end the run."""
    with suppress(OSError):
        _print(text, sys.stderr, indent)


def _print(text: str, stream: TextIO, indent: int | None) -> None:
    text = printable(text)
    if indent is not None:
        text = wrap(text, line_width(stream), indent)
    try:
        print(text, file=stream, flush=True)
    except OSError:
        # Python flushes the rest at exit, and would fail again.
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
        raise


def line_width(stream: TextIO) -> int:
    """Characters of a line on a terminal; lines of files and pipes have no end."""
    return shutil.get_terminal_size().columns if stream.isatty() else sys.maxsize


def table_of_columns(columns: Mapping[str, Sequence[str]], left: Collection[str]) -> str:
    """A table of columns by heading; those named in ``left`` are aligned left, the others right."""
    align = "".join("<" if heading in left else ">" for heading in columns)
    return text_table(list(columns), list(zip(*columns.values(), strict=True)), align)


def name_options(text: str) -> str:
    """Text with options as the command line has them, instead of parameters.

    Examples
    --------
    >>> name_options("year=2020/x.csv: set pvalues=True, or row_order='random'")
    'year=2020/x.csv: set --pvalues, or --row-order random'
    """

    def name(found: re.Match[str]) -> str:
        return f"--{found[1].replace('_', '-')}" + ("" if found[2] == "True" else f" {found[2]}")

    named = re.sub(rf"\b({'|'.join(NAMED)})=[\"']?(\w+)\b[\"']?", name, text)
    return re.sub(r"(--[\w-]+( \w+)?), \1\b", r"\1", named)
