"""Which columns of a table are features, which are ids, and which is the target."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from banditsis.core.arrays import Array, are_distinct_integers
from banditsis.core.formatting import count
from banditsis.formats.opened import Opened
from banditsis.formats.options import ReadOptions, as_ids, check_unique_names, choose_columns, find_column
from banditsis.sources.base import Source
from banditsis.sources.tables import Feature, Table, TableSource, numeric_type

#: A column of text with more distinct values than this, and more than one in two rows, is not encoded.
SMALLEST_LEVEL_LIMIT = 20
TIMES = ("date", "time", "duration")
NEVER_ENCODED = ("list", "struct", "map", "binary", "fixed_size")

#: Names of columns that hold sample ids, in lower case.
ID_NAMES = {"id", "ids", "iid", "index", "_index", "__index_level_0__", "unnamed: 0", "rownames", "obs_names"}
ID_NAMES |= {"name", "sample", "sample_id", "sampleid", "subject", "animal", "barcode", "cell", "cell_id"}
#: Names of columns that hold ids of anything if their values are distinct integers.
LIKE_AN_ID = re.compile(r"(.*[_ .-])?(?i:id|uuid|guid|key)|.*[a-z]I[Dd]", re.DOTALL)


class OpenedTable(Opened):
    """A table of columns of any type, read when needed by ``load``; those of ``index`` are row names."""

    source_type: type[TableSource] = TableSource

    def __init__(
        self,
        where: object,
        names: Sequence[str],
        options: ReadOptions,
        load: Callable[[], Table] | None = None,
        index: Sequence[int] = (),
    ) -> None:
        super().__init__(where, options)
        check_unique_names(names, where)
        self._names, self._load, self.index = names, load, index
        self._places = {name: j for j, name in enumerate(names)}
        others = set(range(len(names))) - set(index)
        self._choices = [names[j] for j in sorted(others)]
        self.id_columns = (
            list(index) if options.id_column is None else [find_column(names, options.id_column, where)]
        )

    @cached_property
    def table(self) -> Table:
        with self.explained():
            table = self._load_table()
        if not table.groups:
            raise ValueError(f"{self.where} has no rows.")
        return table

    def _load_table(self) -> Table:
        assert self._load is not None
        return self._load()

    @cached_property
    def n_rows(self) -> int:
        return sum(group.n_rows for group in self.table.groups)

    @property
    def names(self) -> Sequence[str]:
        return self._names

    @property
    def key_names(self) -> Sequence[str]:
        row_names = [""] if self.index else []
        return [*row_names, *self._names] if self.options.id_column is None else [self.options.id_column]

    def find(self, column: str) -> str:
        name = self._choices[find_column(self._choices, column, self.where)]
        self.taken.append(name)
        return name

    def _read(self, name: str) -> Array:
        return self.table.values(self._places[name])

    def _read_ids(self) -> Array | None:
        columns = [self.table.values(j).tolist() for j in self.id_columns]
        return as_ids(columns) if columns else None

    def use_ids(self, like: Sequence[str]) -> None:
        """Take the columns with these names as ids, or the index, or columns with a usual name."""
        if self.options.id_column is None:
            taken = [self._places[name] for name in self.taken]
            found = match_names(self._names, like, taken) or self.id_columns
            self.id_columns = found or find_id_columns(self._names, exclude=taken)

    @cached_property
    def candidates(self) -> list[int]:
        """Columns that were chosen, and have no other role."""
        used = {*self.id_columns, *(self._places[name] for name in self.taken)}
        chosen = choose_columns(self._choices, self.options, self.where)
        places = (self._places[self._choices[k]] for k in chosen)
        return [j for j in places if j not in used]

    def _make_source(self) -> Source:
        table, names, options, left = self.table, self._names, self.options, self.candidates
        levels, skipped = _sort_columns(table, left, options)
        if options.strict and skipped:
            shown = list_some([f"{names[j]!r} ({_type_name(table.schema.field(j).type)})" for j in skipped])
            raise TypeError(
                f"{self.where} has columns that are not numeric: {shown}; encode them in a "
                "ColumnTransformer, or pass open_source(X), which skips dates and text, or encodes them with "
                "one_hot=True, dates='numeric'."
            )
        chosen = [j for j in left if j not in skipped]
        what = list_some([f"{names[j]} ({why.what})" for j, why in skipped.items()])
        remedies = dict.fromkeys(w.command if options.command_line else w.remedy for w in skipped.values())
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
    command: str


TIME = Skipped("dates", "dates='numeric'", "--dates numeric")
TEXT = Skipped("text", "one_hot=True", "a larger --one-hot")
NESTED = Skipped("nested values", "columns of numbers", "columns of numbers")
ID = Skipped("id", "columns=…", "--columns …")
MORE_LEVELS = Skipped("over {limit:,} levels", "a larger one_hot", "a larger --one-hot")
FEWER_LEVELS = Skipped("over {limit:,} levels", "fewer levels", "fewer levels")


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
            if may_hold_ids(name, options) and are_distinct_integers(table.values(j)[:, None]).all():
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


def may_hold_ids(name: str, options: ReadOptions) -> bool:
    """Whether a column is named like an id (customer_id, orderId), and the user did not choose it."""
    if options.columns or options.strict:
        return False
    name = name.strip()
    return name.lower() in ID_NAMES or LIKE_AN_ID.fullmatch(name) is not None


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


def check_same_columns(files: Sequence[tuple[Path, Sequence[Any]]]) -> None:
    """Raise if the files of a folder have other columns, which are names or fields of Arrow."""
    first, columns = files[0]
    for path, others in files[1:]:
        if list(others) != list(columns):
            fields = set(columns) ^ set(others)
            differ = [getattr(field, "name", field) for field in (*columns, *others) if field in fields]
            what = f"column {differ[0]!r}" if differ else "the order of its columns"
            raise ValueError(f"{path} differs from {first.name} in {what}.")


@cache
def _type_name(kind: Any) -> str:
    """An Arrow type in words, without details such as the unit of a time."""
    if str(kind).startswith("dictionary"):
        return f"categories of {_type_name(kind.value_type)}"
    return re.split(r"[\[<(]", str(kind))[0].removeprefix("large_").removesuffix("_view")


def find_index(schema: Any) -> list[int]:
    """The columns in which pandas stored the index of a frame, one for each of its levels."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    return [schema.names.index(name) for name in stored if isinstance(name, str) and name in schema.names]


def match_names(names: Sequence[str], wanted: Sequence[str], exclude: Sequence[int] = ()) -> list[int]:
    """The columns of the wanted names, in upper or lower case; none if one is missing or excluded."""
    lower = lower_names(names)
    matches = [lower.index(name) for name in lower_names(wanted) if name in lower]
    return matches if len(matches) == len(wanted) and not set(matches) & set(exclude) else []


def lower_names(names: Iterable[str]) -> list[str]:
    """Names as they are compared: in lower case, without blanks around them or a leading #."""
    return [name.strip().lower().lstrip("#") for name in names]


def find_id_columns(names: Sequence[str], *, exclude: Sequence[int] = ()) -> list[int]:
    """The columns that identify samples: FID and IID, or the first with a usual name that is not excluded."""
    pair, lower = match_names(names, ("FID", "IID"), exclude), lower_names(names)
    if pair:
        return pair
    if len(names) > 1 and lower[0] == "" and 0 not in exclude:  # row names of pandas and R
        return [0]
    return [k for k, name in enumerate(lower) if name in ID_NAMES and k not in exclude and len(names) > 1][:1]
