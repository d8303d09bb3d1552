"""Data that have been opened, with options: columns that are read by name, sample ids, and features."""

from __future__ import annotations

import fnmatch
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from banditsis.core.arrays import Array
from banditsis.core.validation import check_choice, check_integer
from banditsis.formats.files import LocalCopy, check_shape
from banditsis.sources.base import Source
from banditsis.sources.views import Subset

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

    def checked(self) -> ReadOptions:
        """Options that a user gave, with lists instead of single texts and the number of levels to encode."""
        one_hot, names = self.one_hot, "names, 1-based numbers or patterns of columns"
        levels = one_hot * MAX_LEVELS if isinstance(one_hot, bool) else check_integer("one_hot", one_hot, 0)
        return self._replace(
            columns=_as_tuple("columns", self.columns, names),
            drop=_as_tuple("drop", self.drop, names),
            id_column=None if self.id_column is None else str(self.id_column),
            one_hot=levels,
            dates=check_choice("dates", self.dates, ("skip", "numeric")),
            na=_as_tuple("na", self.na, "the text of missing values, such as '-9'"),
        )

    def may_hold_ids(self, name: str) -> bool:
        """Whether a column is named like an id (customer_id, orderId), and the user did not choose it."""
        if self.columns or self.strict:
            return False
        return name.strip().lower() in ID_NAMES or LIKE_AN_ID.fullmatch(name.strip()) is not None


DEFAULTS = ReadOptions()


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


#: Columns that are not features, and the functions that read them.
SideColumns = Mapping[str, Callable[[], Array]]


class Opened(ABC):
    """Data whose columns are read by name; those that are not asked for are features.

    The data, a target file and one of covariates are all opened in this way. A subclass names its columns,
    reads them, and makes a source of those that are left. Columns and ids are in the user's order of rows.
    """

    own_names: Sequence[str]  #: the columns that may be features, if their names are from the data
    uses_na = False  #: whether ``na`` of the options was used
    label = ""  #: the path or URL that was opened
    copy: LocalCopy | None = None  #: of a remote file, which the source keeps

    def __init__(
        self,
        where: object,
        options: ReadOptions,
        side: SideColumns | None = None,
        own_ids: Callable[[], Array] | None = None,
    ) -> None:
        self.where, self.options, self.side = where, options, dict(side or {})
        self.taken = list[str]()  #: columns that are not features because they were asked for
        #: the columns of sample ids, or what reads ids that are not a column
        self.id_names, self.own_ids = list[str](), own_ids
        self.notes: dict[str, str] = {}  #: how columns were interpreted, if that is not obvious
        if options.id_column is not None:
            self.id_names = [self.find(options.id_column)]

    @property
    @abstractmethod
    def n_rows(self) -> int: ...

    @cached_property
    def names(self) -> Sequence[str]:
        """The columns that may be features."""
        return self.own_names

    @abstractmethod
    def _read(self, name: str) -> Array:
        """The values of a column that may be a feature."""

    @abstractmethod
    def _make_source(self) -> Source:
        """A source of the candidates."""

    def explained(self) -> AbstractContextManager[None]:
        """A context in which errors name the URL of a remote file instead of its copy."""
        return nullcontext() if self.copy is None else self.copy.explained()

    def has(self, name: str) -> bool:
        """Whether there is a column of this name."""
        return name in self.side or name in self.own_names

    def find(self, column: str) -> str:
        """The name of a column that is given by name or 1-based number; it is then not a feature."""
        is_number = column.isdigit() and column not in self.side and len(self.names) > 0
        choices = self.names if is_number else [*self.side, *self.names]
        name = choices[find_column(choices, column, self.where)]
        self.taken.append(name)
        return name

    def values(self, column: str) -> Array:
        """The values of a column that was found: one for each row."""
        with self.explained():
            values = self.side[column]() if column in self.side else self._read(column)
        if values.shape != (self.n_rows,):
            raise ValueError(
                f"{self.where} has values of shape {values.shape} in column {column!r}, and {self.n_rows:,} "
                "rows: write it again."
            )
        return values

    @cached_property
    def ids(self) -> Array | None:
        """Sample ids as text, if the data have some; :meth:`use_ids` must be called before, if at all."""
        if self.id_names:
            return as_ids([self.values(name).tolist() for name in self.id_names])
        with self.explained():
            return None if self.own_ids is None else self.own_ids()

    def use_ids(self, like: Sequence[str]) -> None:
        """Choose the ids: columns of these names, ids of the format, or columns with a usual name."""
        if self.options.id_column is None:
            names = [*self.side, *self.own_names]
            found = match_names(names, like, self.taken)
            if not (found or self.id_names or self.own_ids):
                usual = [n for n, lower in zip(names, lower_names(names), strict=True) if lower in ID_NAMES]
                usual = [name for name in usual if name not in self.taken and len(names) > 1]
                found = match_names(names, ("FID", "IID"), self.taken) or usual[:1]
            self.id_names = found or self.id_names

    @cached_property
    def candidates(self) -> list[int]:
        """Positions of the columns that were chosen, and have no other role."""
        used = {*self.taken, *self.id_names} - self.side.keys()
        chosen = choose_columns(self.names, self.options, self.where)
        return [j for j in chosen if self.names[j] not in used]

    def source(self) -> Source:
        """The features: columns that were chosen, and have no other role."""
        if self.options.na and not self.uses_na:
            raise ValueError(
                f"na={', '.join(map(repr, self.options.na))} applies to CSV and other text files alone: "
                "leave it out."
            )
        with self.explained():
            source = self._make_source()
        if self.label:
            if source.shape[1] == 0:
                raise ValueError(f"{self.where} has no features besides the target.")
            source.label = self.label
        if self.copy is not None:
            source.copy = self.copy  # type: ignore[attr-defined]
        return source


class OpenedMatrix(Opened):
    """A matrix of features, or no ``source`` if a file has only other columns; ``ids`` are of the format."""

    def __init__(
        self,
        source: Source | None,
        where: object,
        options: ReadOptions,
        ids: Callable[[], Array] | None = None,
        side: SideColumns | None = None,
    ) -> None:
        self.shape = (0, 0) if source is None else source.shape
        if source is not None:
            check_shape(where, source.shape, options.memory_limit)
            if options.names is not None:
                source.names = check_names(options.names, source.shape[1])
        self._all = source
        self.own_names = (None if source is None else source.names) or ()
        super().__init__(where, options, side, ids)

    @cached_property
    def n_rows(self) -> int:
        return len(next(iter(self.side.values()))()) if self._all is None else self.shape[0]

    @cached_property
    def names(self) -> Sequence[str]:
        return [] if self._all is None else [self._all.name(j) for j in range(self.shape[1])]

    def _read(self, name: str) -> Array:
        assert self._all is not None
        column = self.names.index(name)
        cells = self._all.read(slice(0, self.n_rows), slice(column, column + 1))[:, 0]
        return self._all.to_original(np.array(cells))

    def _make_source(self) -> Source:
        assert self._all is not None
        is_whole = not (self.taken or self.id_names or self.options.columns or self.options.drop)
        if is_whole or len(self.candidates) == self.shape[1]:  # the first is known without making names
            return self._all
        source = Subset(self._all, columns=np.array(self.candidates, dtype=np.intp))
        source.names = [self.names[j] for j in self.candidates]
        return source
