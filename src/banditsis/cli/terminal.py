"""Text on standard output and standard error, and exit codes."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn, TextIO

import click

from banditsis.core.formatting import printable, text_table, wrap
from banditsis.core.parallel import RoundError

#: Exit codes; the last one is that of a process that a closed pipe has ended, 128 + SIGPIPE.
INVALID_INPUT, USAGE, INTERRUPTED, CLOSED_PIPE = 1, 2, 130, 141
#: What the user can cause; any other error is a bug and keeps its traceback.
USER_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError, RoundError)
#: Parameters that messages name and that are options of the commands.
PARAMETERS = (
    *("avoid_redundancy", "columns", "confidence", "dates", "id_column", "min_correlation", "missing"),
    *("n_jobs", "one_hot", "pvalues", "row_order", "sample_weight", "sampling", "statistic"),
)


class UsageError(ValueError):
    """An option has an invalid value, or options cannot be combined."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn errors about values into usage errors, in code that checks options only."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(str(error)) from None


@contextmanager
def exit_codes() -> Iterator[None]:
    """Print an error as one line and exit with its code; set BANDITSIS_DEBUG=1 to see tracebacks."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: print_message(f"warning: {_one_line(message)}")
        try:
            yield
        except KeyboardInterrupt:
            fail("interrupted.")
        except USER_ERRORS as error:
            if os.environ.get("BANDITSIS_DEBUG"):
                raise
            text = _one_line(error) or type(error).__name__
            if isinstance(error, MemoryError):
                text = "not enough memory: set a memory limit, index the data first, or use fewer rows."
            elif isinstance(error, OSError) and error.strerror and error.filename is not None:
                text = f"{error.filename}: {error.strerror}."
            fail(text, USAGE if isinstance(error, UsageError) else INVALID_INPUT)


def fail(message: str, code: int = INTERRUPTED) -> NoReturn:
    """Print an error and exit, by default because the user has interrupted the command."""
    print_message(f"error: {message}", indent=7)
    raise click.exceptions.Exit(code) from None


def _one_line(message: object) -> str:
    return name_options(" ".join(str(message).split()))


def prepare_streams() -> None:
    """Make printing safe: open closed streams, and escape characters that a stream cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # or else the next file that is opened takes its place
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_output(text: str, indent: int | None = None) -> None:
    """Print on standard output, wrapped if ``indent`` is set; end quietly if its reader has closed it."""
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
    try:
        print(text if indent is None else wrap(text, line_width(stream), indent), file=stream, flush=True)
    except OSError:
        with open(os.devnull, "w") as nowhere:  # or else Python flushes the rest at exit, and fails again
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
    """Text with options as the command line has them: --pvalues instead of pvalues=True."""

    def to_option(found: re.Match[str]) -> str:
        name, value = found.groups()
        if value is None and "_" not in name:  # a word like any other
            return name
        return f"--{name.replace('_', '-')}" + ("" if value in (None, "True") else f" {value}")

    value = r"=[\"']?([\w.]*\w|…)[\"']?"
    return re.sub(rf"(?<![\w'\"])({'|'.join(PARAMETERS)})(?:{value})?(?![\w'\"])", to_option, text)
