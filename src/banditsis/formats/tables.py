"""Which columns of a table are features."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

from banditsis.core.arrays import Array, are_distinct_integers
from banditsis.core.formatting import count
from banditsis.formats.columns import check_unique_names, may_hold_ids
from banditsis.formats.opened import Opened
from banditsis.formats.options import ReadOptions
from banditsis.sources.base import Source
from banditsis.sources.tables import Feature, Table, TableSource, numeric_type

#: A column of text with more distinct values than this, and more than one in two rows, is not encoded.
SMALLEST_LEVEL_LIMIT = 20
TIMES = ("date", "time", "duration")
NEVER_ENCODED = ("list", "struct", "map", "binary", "fixed_size")


class OpenedTable(Opened):
    """A table of columns of any type, read when needed by ``load``; those of ``index`` are row names."""

    source_type: type[TableSource] = TableSource

    def __init__(
        self,
        where: object,
        columns: Sequence[str],
        options: ReadOptions,
        load: Callable[[], Table],
        index: Sequence[str] = (),
    ) -> None:
        check_unique_names(columns, where)
        self.columns, self._load = columns, load
        self._places = {name: j for j, name in enumerate(columns)}
        self._names = [name for name in columns if name not in index]
        super().__init__(where, options, index)
        self.id_names = self.id_names or list(index)

    @property
    def names(self) -> Sequence[str]:
        return self._names

    @cached_property
    def table(self) -> Table:
        with self.explained():
            table = self._load()
        if not table.groups:
            raise ValueError(f"{self.where} has no rows.")
        return table

    @cached_property
    def n_rows(self) -> int:
        return sum(group.n_rows for group in self.table.groups)

    def _read(self, name: str) -> Array:
        return self.table.values(self._places[name])

    def _make_source(self) -> Source:
        table, names, options = self.table, self.columns, self.options
        left = [self._places[self.names[k]] for k in self.candidates]
        levels, skipped = _sort_columns(table, left, options)
        if options.strict and skipped:
            shown = list_some([f"{names[j]!r} ({_type_name(table.schema.field(j).type)})" for j in skipped])
            raise TypeError(
                f"{self.where} has columns that are not numeric: {shown}; encode them by "
                "TableEncoder, or pass open_source(X), which skips dates and text, or encodes them with "
                "one_hot=True, dates='numeric'."
            )
        chosen = [j for j in left if j not in skipped]
        what = list_some([f"{names[j]} ({why.what})" for j, why in skipped.items()])
        use_command = options.command_line
        remedies = dict.fromkeys((use_command and w.command) or w.remedy for w in skipped.values())
        them = "it" if len(skipped) == 1 else "them"
        notes = [f"skipped {what}; to use {them}: {', '.join(remedies)}."] if skipped else []
        if not chosen:
            raise ValueError(" ".join([f"{self.where} has no column that could be a feature.", *notes]))
        source = self.source_type(table, *_make_features(names, chosen, levels), levels)
        source.notes = [*source.notes, *notes]
        encoded = list_some([f"{names[j]} ({count(len(found), 'level')})" for j, found in levels.items()])
        numeric = count(len(chosen) - len(levels), "numeric feature") if len(chosen) > len(levels) else ""
        source.contents = " and ".join(filter(None, [numeric, encoded]))
        source.contents += f"; skipped {what}" if skipped else ""
        return source


class Skipped(NamedTuple):
    """Why a column is not a feature, and how to use it in Python and on the command line."""

    what: str
    remedy: str
    command: str = ""


TIME, TEXT = (
    Skipped("dates", "dates='numeric'", "--dates numeric"),
    Skipped("text", "one_hot=True", "a larger --one-hot"),
)
NESTED, ID = Skipped("nested values", "columns of numbers"), Skipped("id", "columns=…", "--columns …")
MORE_LEVELS = Skipped("over {limit:,} levels", "a larger one_hot", "a larger --one-hot")
FEWER_LEVELS = Skipped("over {limit:,} levels", "fewer levels")


def _sort_columns(
    table: Table, columns: Sequence[int], options: ReadOptions
) -> tuple[dict[int, list[Any]], dict[int, Skipped]]:
    """The levels of the columns to encode, and why other columns are not features."""
    n_half = sum(group.n_rows for group in table.groups) // 2
    limit = min(options.one_hot, max(SMALLEST_LEVEL_LIMIT, n_half))
    too_many = MORE_LEVELS if limit == options.one_hot else FEWER_LEVELS
    levels: dict[int, list[Any]] = {}
    skipped: dict[int, Skipped] = {}
    names, kinds = table.schema.names, table.schema.types  # each a new list
    for j in columns:
        kind, name = kinds[j], names[j]
        if _type_name(kind).startswith(TIMES):
            if options.dates == "skip":
                skipped[j] = TIME
        elif numeric_type(kind) is not None:
            if may_hold_ids(name, options) and are_distinct_integers(table.values(j)):
                skipped[j] = ID
        elif _type_name(kind).startswith(NEVER_ENCODED):
            skipped[j] = NESTED
        elif not options.one_hot:
            skipped[j] = TEXT
        elif (found := table.levels(j, limit)) is not None:
            levels[j] = found
        else:
            what = "id" if may_hold_ids(name, options) else too_many.what.format(limit=limit)
            skipped[j] = too_many._replace(what=what)
    return levels, skipped


def list_some(items: Sequence[str]) -> str:
    """The first five of some items, and how many there are more."""
    more = f" and {len(items) - 5:,} more" if len(items) > 5 else ""
    return ", ".join(items[:5]) + more


def _make_features(
    names: Sequence[str], columns: Sequence[int], levels: dict[int, list[Any]]
) -> tuple[list[Feature], list[str]]:
    """One feature for each numeric column and for each level of the other columns, and their names."""
    features = [
        Feature(j, k)
        for j in columns
        for k in (range(len(levels[j])) if j in levels else [None])
        if k != 0 or len(levels[j]) != 2  # of two levels, the first is the complement of the second
    ]
    return features, [names[j] if k is None else f"{names[j]}={levels[j][k]}" for j, k in features]


@cache
def _type_name(kind: Any) -> str:
    """An Arrow type in words, without details such as the unit of a time."""
    if str(kind).startswith("dictionary"):
        return f"categories of {_type_name(kind.value_type)}"
    return re.split(r"[\[<(]", str(kind))[0].removeprefix("large_").removesuffix("_view")


def find_index(schema: Any) -> list[str]:
    """The columns in which pandas stored the index of a frame, one for each of its levels."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in stored if isinstance(name, str) and name in schema.names]
