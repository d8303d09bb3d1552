"""Options for opening data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from banditsis.core.validation import check_choice, check_integer

#: Names, 1-based numbers, or patterns such as ``snp_*``; or one of them.
Patterns: TypeAlias = "str | Sequence[str]"
DATES = ("skip", "numeric")
#: Levels up to which one_hot=True encodes a column of text.
MAX_LEVELS = 10_000


class ReadOptions(NamedTuple):
    """How data are opened; see :func:`open_source`."""

    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    id_column: str | None = None
    #: the largest number of levels of a text column that is one-hot encoded
    one_hot: int = 0
    dates: str = "skip"
    na: Sequence[str] = ()
    memory_limit: int | None = None
    #: the columns that are requested of a file of targets (None for its only column); None for data
    wanted: Sequence[str | None] | None = None
    #: Whether columns that cannot be features raise an error; otherwise they are skipped with a note.
    strict: bool = False
    #: Whether notes name the options of the command line, and not those of :func:`open_source`.
    command_line: bool = False


DEFAULTS = ReadOptions()


def check_options(
    *,
    columns: Patterns = (),
    drop: Patterns = (),
    id_column: str | int | None = None,
    na: Patterns = (),
    dates: str = "skip",
    one_hot: bool | int = False,
    **options: Any,
) -> ReadOptions:
    of_columns = "names, 1-based numbers or patterns of columns"
    return ReadOptions(
        columns=_as_tuple("columns", columns, of_columns),
        drop=_as_tuple("drop", drop, of_columns),
        id_column=None if id_column is None else str(id_column),
        na=_as_tuple("na", na, "the text of missing values, such as '-9'"),
        dates=check_choice("dates", dates, DATES),
        one_hot=one_hot * MAX_LEVELS if isinstance(one_hot, bool) else check_integer("one_hot", one_hot, 0),
        **options,
    )


def _as_tuple(name: str, given: Any, what: str) -> tuple[str, ...]:
    """One text or several as a tuple."""
    several = [given] if isinstance(given, (str, int, float)) else list(given)
    if not all(isinstance(item, (str, int)) for item in several):
        raise TypeError(f"{name} must be {what}, got {given!r}.")
    return tuple(map(str, several))
