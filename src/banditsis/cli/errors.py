"""How a command ends: exit codes that mean something, and one line for a mistake."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from banditsis.cli.wording import as_options
from banditsis.results import RoundError

DATA, USAGE, INTERRUPTED = 1, 2, 130
#: What a user can bring about; anything else is a mistake of ours and shows where it happened.
USER_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError, RoundError)


class UsageError(ValueError):
    """Options that do not go together, or a value that no data could make right."""


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn mistakes into one line on stderr and an exit code; ``BANDITSIS_DEBUG=1`` shows tracebacks."""
    if os.environ.get("BANDITSIS_DEBUG"):
        with one_line_warnings():
            yield
        return
    try:
        with one_line_warnings():
            yield
    except UsageError as error:
        print_error(to_one_line(error))
        raise typer.Exit(USAGE) from None
    except USER_ERRORS as error:
        print_error(to_one_line(error))
        raise typer.Exit(DATA) from None
    except KeyboardInterrupt:
        print_error("interrupted.")
        raise typer.Exit(INTERRUPTED) from None


def print_error(text: str) -> None:
    """Say on stderr what is wrong."""
    from rich.console import Console
    from rich.markup import escape

    Console(stderr=True, soft_wrap=True, highlight=False).print(
        f"[bold red]error:[/] {escape(as_options(text))}"
    )


def to_one_line(error: BaseException) -> str:
    """What an error says, without line breaks.

    Examples
    --------
    >>> one_line(ValueError("this\\n  and that"))
    'this and that'
    """
    if isinstance(error, MemoryError):
        return "not enough memory: use --memory-limit, or shuffle the data first."
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Show warnings as one line each."""

    def show(
        message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        text = as_options(" ".join(str(message).split()))
        print(f"warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


def parse_budget(text: str | float) -> int | float:
    """A number of cells if it is a whole number above 1, else a fraction of them.

    Examples
    --------
    >>> parse_budget("0.05"), parse_budget("1e6")
    (0.05, 1000000)
    """
    value = float(text)
    return int(value) if value > 1 and value.is_integer() else value


def parse_size(text: str) -> int:
    """Bytes, from a number with or without a unit.

    Examples
    --------
    >>> parse_size("2GB"), parse_size("1.5 GiB"), parse_size("4096")
    (2000000000, 1610612736, 4096)
    """
    units = {"": 1, "b": 1}
    for power, letter in enumerate("kmgt", 1):
        units |= {letter: 1000**power, f"{letter}b": 1000**power, f"{letter}ib": 1024**power}
    compact = text.strip().lower().replace(" ", "").replace("_", "")
    number = compact.rstrip("bikmgt")
    try:
        size = int(float(number) * units[compact[len(number) :]])
    except (ValueError, KeyError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no size such as 500MB, 2GB or 4e9.") from None
    if size < 1:
        raise typer.BadParameter(f"{text} is too small.")
    return size
