"""Options for opening data; columns by name, number or pattern, and which of them identify samples."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from banditsis.core.arrays import Array
from banditsis.core.validation import check_choice, check_integer

#: Names, 1-based numbers, or patterns such as ``snp_*``; or one of them.
Patterns: TypeAlias = "str | Sequence[str]"
#: Levels up to which one_hot=True encodes a column of text.
MAX_LEVELS = 10_000
#: Names that are compared with one that is not found, in about a second.
MAX_COMPARED = 10_000
#: Names of columns that hold sample ids, in lower case.
ID_NAMES = {"id", "ids", "iid", "index", "_index", "__index_level_0__", "unnamed: 0", "rownames", "obs_names"}
ID_NAMES |= {"name", "sample", "sample_id", "sampleid", "subject", "animal", "barcode", "cell", "cell_id"}
#: Names of columns that hold ids of anything if their values are distinct integers.
LIKE_AN_ID = re.compile(r"(.*[_ .-])?(?i:id|uuid|guid|key)|.*[a-z]I[Dd]", re.DOTALL)


class ReadOptions(NamedTuple):
    """How data are opened; see :func:`open_source`."""

    names: Sequence[str] | None = None
    columns: Patterns = ()
    drop: Patterns = ()
    id_column: str | None = None
    one_hot: bool | int = 0
    dates: str = "skip"
    na: Patterns = ()
    memory_limit: int | None = None
    #: the columns that are requested of a file of targets (None for its only column); None for data
    wanted: Sequence[str | None] | None = None
    #: whether columns that cannot be features raise an error; otherwise they are skipped with a note
    strict: bool = False


DEFAULTS = ReadOptions()


def check_options(given: ReadOptions) -> ReadOptions:
    """Options that a user gave, with lists instead of single texts and the number of levels to encode."""
    one_hot, names = given.one_hot, "names, 1-based numbers or patterns of columns"
    return given._replace(
        columns=_as_tuple("columns", given.columns, names),
        drop=_as_tuple("drop", given.drop, names),
        id_column=None if given.id_column is None else str(given.id_column),
        one_hot=one_hot * MAX_LEVELS if isinstance(one_hot, bool) else check_integer("one_hot", one_hot, 0),
        dates=check_choice("dates", given.dates, ("skip", "numeric")),
        na=_as_tuple("na", given.na, "the text of missing values, such as '-9'"),
    )


def _as_tuple(name: str, given: Any, what: str) -> tuple[str, ...]:
    """One text or several as a tuple."""
    several = [given] if isinstance(given, (str, int, float)) else list(given)
    if not all(isinstance(item, (str, int)) for item in several):
        raise TypeError(f"{name} must be {what}, got {given!r}.")
    return tuple(map(str, several))


def choose_columns(names: Sequence[str], options: ReadOptions, where: object) -> list[int]:
    """The columns that ``columns`` and ``drop`` leave."""
    places = {name: j for j, name in enumerate(names)}

    def match(pattern: str) -> set[int]:
        """The columns of a name, number or pattern, or of several of them with commas in between."""
        if pattern in places:
            return {places[pattern]}
        has_wildcard = re.search(r"[*?\[]", pattern) is not None
        is_match = re.compile(fnmatch.translate(pattern)).match
        found = {j for j, name in enumerate(names) if is_match(name)} if has_wildcard else set()
        if found or "," in pattern:
            return found or set().union(*(match(part.strip()) for part in pattern.split(",")))
        if has_wildcard:
            raise ValueError(f"no column of {where} matches {pattern!r}.")
        return {find_column(names, pattern, where)}

    chosen = set().union(*map(match, options.columns)) if options.columns else set(range(len(names)))
    chosen = chosen.difference(*map(match, options.drop))
    if not chosen:
        raise ValueError(f"no column of {where} is left: check which columns are chosen and dropped.")
    return sorted(chosen)


def find_column(names: Sequence[str], column: str, where: object) -> int:
    """Index of a column by its name, or by its 1-based number if no column has that name."""
    names = list(names)
    if column in names:
        return names.index(column)
    if column.isdigit() and 1 <= int(column) <= len(names):
        return int(column) - 1
    import difflib

    similar = difflib.get_close_matches(column, names[:MAX_COMPARED], 3, 0.5)
    if similar:
        hint = f"did you mean {' or '.join(map(repr, similar))}?"
    else:
        more = f", … ({len(names):,} columns)" if len(names) > 5 else ""
        hint = f"there are {', '.join(map(repr, names[:5])) or 'no columns'}{more}."
    raise ValueError(f"{where} has no column {column!r}: {hint}")


def check_names(names: Sequence[str], n_columns: int) -> list[str]:
    """Names that are given for all columns, as texts."""
    if len(names) != n_columns:
        raise ValueError(f"got {len(names):,} names for {n_columns:,} columns.")
    return list(map(str, names))


def check_unique_names(names: Sequence[str], where: object) -> None:
    """Raise if two columns have the same name."""
    if len(set(names)) < len(names):
        name, _ = Counter(names).most_common(1)[0]
        numbers = [str(j + 1) for j, other in enumerate(names) if other == name]
        raise ValueError(
            f"{where} has several columns called {name!r} (columns {', '.join(numbers[:5])}): rename them."
        )


def as_ids(columns: Sequence[Sequence[Any]]) -> Array:
    """Ids as text; several columns are joined by tabs, and integers have no decimal point."""
    return np.array(["\t".join(map(_as_id, row)) for row in zip(*columns, strict=True)])


def _as_id(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        if abs(value) >= 2**53:
            raise ValueError(
                f"sample ids such as {value:.0f} have too many digits for floating-point numbers: write them "
                "as text, or as integers in a Parquet file."
            )
        return str(int(value))
    return "" if value is None else str(value).strip()


def lower_names(names: Iterable[str]) -> list[str]:
    """Names as they are compared: in lower case, without blanks around them or a leading #."""
    return [name.strip().lower().lstrip("#") for name in names]


def match_names(names: Sequence[str], wanted: Sequence[str], exclude: Collection[str] = ()) -> list[str]:
    """The columns of the wanted names, in upper or lower case; none if one is missing or excluded."""
    lower = lower_names(names)
    matches = [names[lower.index(name)] for name in lower_names(wanted) if name in lower]
    return matches if len(matches) == len(wanted) and not set(matches) & set(exclude) else []


def find_id_columns(names: Sequence[str], exclude: Collection[str] = ()) -> list[str]:
    """The columns that identify samples: FID and IID, or the first with a usual name that is not excluded."""
    usual = [n for n, lower in zip(names, lower_names(names), strict=True) if lower in ID_NAMES]
    pair = match_names(names, ("FID", "IID"), exclude)
    return pair or [name for name in usual if name not in exclude and len(names) > 1][:1]


def may_hold_ids(name: str, options: ReadOptions = DEFAULTS) -> bool:
    """Whether a column is named like an id (customer_id, orderId), and the user did not choose it."""
    if options.columns or options.strict:
        return False
    name = name.strip()
    return name.lower() in ID_NAMES or LIKE_AN_ID.fullmatch(name) is not None
