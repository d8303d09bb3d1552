"""Exit codes, and errors and warnings as single lines on stderr."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from banditsis.cli.terminal import name_options, print_message
from banditsis.core.parallel import RoundError

INVALID_INPUT, USAGE, INTERRUPTED = 1, 2, 130
#: What the user can cause; any other error is a bug and keeps its traceback.
USER_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError, RoundError)


class UsageError(ValueError):
    """An option has an invalid value, or options cannot be combined."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn errors about values into usage errors, in code that checks options only."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(str(error)) from None


def check_confidence(confidence: float | None, min_correlation: float | None) -> float:
    """Return the confidence or its default. Raise if it is set without a minimum correlation."""
    if confidence is not None and min_correlation is None:
        raise UsageError("--confidence is the probability for --min-correlation: set that too, or omit it.")
    return 0.95 if confidence is None else confidence


@contextmanager
def exit_codes() -> Iterator[None]:
    """Print an error as one line and exit with its code; set BANDITSIS_DEBUG=1 to see tracebacks."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = _show_warning
        try:
            yield
        except KeyboardInterrupt:
            fail("interrupted.", INTERRUPTED)
        except USER_ERRORS as error:
            if os.environ.get("BANDITSIS_DEBUG"):
                raise
            fail(_message(error), USAGE if isinstance(error, UsageError) else INVALID_INPUT)


def fail(message: str, code: int) -> NoReturn:
    """Print an error message and exit."""
    print_message(f"error: {name_options(message)}", indent=7)
    raise click.exceptions.Exit(code) from None


def _message(error: Exception) -> str:
    """The message of an error without line breaks."""
    if isinstance(error, MemoryError):
        return "not enough memory: set a memory limit, shuffle the data first, or use fewer rows."
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Any, *args: Any, **kwargs: Any) -> None:
    print_message(f"warning: {' '.join(str(message).split())}")
