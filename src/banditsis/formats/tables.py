"""What tables have in common: which columns are features, and blocks of Arrow columns."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array, Columns, Indices, Rows, count_rows, spread, take
from banditsis.formats.registry import Opened, find_column
from banditsis.formats.sample_ids import as_ids, find_id_columns
from banditsis.sources.base import Calibration
from banditsis.sources.blocks import BlockSource
from banditsis.sources.calibration import PILOT_ROWS, calibrate, summing_dtype

MAX_LEVELS = 10_000
NEVER_ENCODED = ("date", "time", "duration", "list", "struct", "map", "binary", "large_list", "fixed_size")
PILOT_SPAN = 1024  # rows at the start of a row group that show where its columns lie


class Feature(NamedTuple):
    """A column of a table, or whether it has a certain value."""

    column: int
    level: Any = None


def choose_features(
    names: Sequence[str],
    odd: dict[int, str],
    where: object,
    *,
    leave_out: Sequence[int] = (),
    levels: Callable[[int], Sequence[Any]] | None = None,
) -> tuple[list[Feature], list[str]]:
    """Which features the columns of a table make, and their names.

    Parameters
    ----------
    names : sequence of str
        The columns.
    odd : dict
        Columns that are no numbers, and what they are.
    where : object
        What messages call the table.
    leave_out : sequence of int
        Columns that are no features: the target, an index.
    levels : function, optional
        The values of a column, for one-hot encoding; without it columns that are no numbers are refused.

    Examples
    --------
    >>> choose_features(["age", "city"], {1: "string"}, "data.csv", levels=lambda j: ["Bonn", "Rome"])[1]
    ['age', 'city=Bonn', 'city=Rome']
    >>> choose_features(["age", "city"], {1: "string"}, "data.csv")
    Traceback (most recent call last):
    TypeError: data.csv has 1 column that is not numeric: 'city' (string); encode it with one_hot=True \
(--one-hot), or leave it out.
    """
    check_unique_names(names, where)
    left = [j for j in range(len(names)) if j not in set(leave_out)]
    odd = {j: kind for j, kind in odd.items() if j in set(left)}
    refused = {j: kind for j, kind in odd.items() if levels is None or kind.startswith(NEVER_ENCODED)}
    if refused:
        raise TypeError(_not_numeric(names, refused, where))
    features: list[Feature] = []
    labels: list[str] = []
    for j in left:
        if j not in odd:
            features.append(Feature(j))
            labels.append(names[j])
            continue
        assert levels is not None
        values = levels(j)
        if len(values) > MAX_LEVELS:
            raise ValueError(
                f"{where} has {len(values):,} different values in column {names[j]!r}, too many for one "
                f"feature each (at most {MAX_LEVELS:,}): leave it out."
            )
        features += [Feature(j, value) for value in values]
        labels += [f"{names[j]}={value}" for value in values]
    if not features:
        raise ValueError(f"{where} has no column that could be a feature.")
    return features, labels


def check_unique_names(names: Sequence[str], where: object) -> None:
    """Refuse a table with two columns of one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        at = [j + 1 for j, name in enumerate(names) if name == twice[0]]
        more = f", and {len(twice) - 1:,} more such names" if len(twice) > 1 else ""
        raise ValueError(
            f"{where} has several columns called {twice[0]!r} (columns {', '.join(map(str, at[:5]))}{more}): "
            "rename them."
        )


def _not_numeric(names: Sequence[str], odd: dict[int, str], where: object) -> str:
    shown = ", ".join(f"{names[j]!r} ({kind})" for j, kind in list(odd.items())[:5])
    more = f" and {len(odd) - 5:,} more" if len(odd) > 5 else ""
    are, them = ("column that is", "it") if len(odd) == 1 else ("columns that are", "them")
    encoded = [kind for kind in odd.values() if not kind.startswith(NEVER_ENCODED)]
    how = f"encode {them} with one_hot=True (--one-hot), or leave {them} out"
    if not encoded:
        how = f"turn {them} into columns of numbers, or leave {them} out"
    elif len(encoded) < len(odd):
        how = "encode text with one_hot=True (--one-hot), and leave the others out"
    return f"{where} has {len(odd):,} {are} not numeric: {shown}{more}; {how}."


class TableSource(BlockSource):
    """Features of a table of Arrow columns that come in groups of rows.

    A subclass sets ``lengths`` (rows of each group), ``schema`` and ``where`` (what messages call it),
    implements ``load``, and calls ``choose``.
    """

    #: Columns are copied into tiles, which should not leave the cache by far.
    cells_at_once = 1 << 20
    lengths: Sequence[int]
    schema: Any
    where: object

    @abstractmethod
    def load(self, group: int, columns: Sequence[int], n_rows: int) -> list[Any]:
        """Columns of a group of rows, of which at least the first ``n_rows`` are wanted."""

    def choose(
        self,
        target: str | None,
        one_hot: bool,
        index: int | None = None,
        ids_like: Sequence[str] | None = None,
    ) -> Opened:
        """Choose the features; take out the target, and the index (that which pandas stores, by default).

        Without an index a column that is named as ids are is taken out if ``ids_like`` is given.
        """
        self.edges = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.intp)])
        n = int(self.edges[-1])
        if n == 0:
            raise ValueError(f"{self.where} has no rows.")
        names = self.schema.names
        check_unique_names(names, self.where)
        index = index_column(self.schema) if index is None else index
        free = [name for j, name in enumerate(names) if j != index]
        y_column = None if target is None else names.index(free[find_column(free, target, self.where)])
        apart = [] if index is None else [index]
        if index is None and ids_like is not None:
            apart = find_id_columns(names, but=y_column, like=ids_like)
        odd = {j: kind for j, field in enumerate(self.schema) if (kind := _odd_kind(field.type))}
        self.features, self.names = choose_features(
            names,
            odd,
            self.where,
            leave_out=apart if y_column is None else [*apart, y_column],
            levels=self._levels if one_hot else None,
        )
        self.shape = n, len(self.features)
        self.dtype = _common_dtype(
            [self.schema.field(f.column).type for f in self.features if f.level is None]
        )
        self.chunk = int(np.median(self.lengths)), 1
        # Looked up once: a wide table has thousands of columns to convert for each tile.
        self._convert = [_plain if _is_plain(field.type) else to_numbers for field in self.schema]
        y = None if y_column is None else self._whole(y_column)
        ids = as_ids([self._whole(j).tolist() for j in apart]) if apart else None
        return Opened(self, y, ids, None if y_column is None else names[y_column])

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        wanted = self.features if columns is None else _pick(self.features, columns)
        stored = sorted({feature.column for feature in wanted})
        place_of = {column: k for k, column in enumerate(stored)}
        block = np.empty((count_rows(rows), len(wanted)), self.dtype, order="F")
        for group, inside, place in self._pieces(rows):
            last = inside.stop if isinstance(inside, slice) else int(inside[-1]) + 1
            loaded = self.load(group, stored, last)
            for k, (j, level) in enumerate(wanted):
                block[place, k] = self._convert[j](loaded[place_of[j]], level)[inside]
        return block

    def calibrate(self, rows: Rows) -> Calibration:
        # The first rows of a group come without the rest of it.
        pilot = spread(take(rows, 0, max(PILOT_ROWS, min(PILOT_SPAN, self.chunk[0]))), PILOT_ROWS)
        return calibrate(self, rows, pilot, summing_dtype(self.dtype))

    def _pieces(self, rows: Rows) -> Iterator[tuple[int, Rows, slice]]:
        """The groups that rows lie in, the rows within each, and their place among all."""
        first, last = (rows.start, rows.stop - 1) if isinstance(rows, slice) else (rows[0], rows[-1])
        start, stop = np.searchsorted(self.edges, [first, last], side="right")
        for group in range(int(start) - 1, int(stop)):
            low, high = int(self.edges[group]), int(self.edges[group + 1])
            if isinstance(rows, slice):
                a, b = max(low, rows.start), min(high, rows.stop)
                yield group, slice(a - low, b - low), slice(a - rows.start, b - rows.start)
                continue
            a, b = (int(k) for k in np.searchsorted(rows, [low, high]))
            if b > a:
                yield group, rows[a:b] - low, slice(a, b)

    def _whole(self, column: int) -> Array:
        """All values of a column: numbers where it has them, else text, with None where there is none."""
        parts = [self.load(group, [column], n)[0] for group, n in enumerate(self.lengths)]
        if _odd_kind(self.schema.field(column).type) is None:
            return np.concatenate([to_numbers(part) for part in parts])
        text = [value if value is None else str(value) for part in parts for value in part.to_pylist()]
        return np.array(text) if None not in text else np.array(text, dtype=object)

    def _levels(self, column: int) -> list[Any]:
        values = set()
        for group, n in enumerate(self.lengths):
            values.update(self.load(group, [column], n)[0].unique().to_pylist())
        return sorted(values - {None}, key=str)


def to_numbers(column: Any, level: Any = None) -> Array:
    """An Arrow column as numbers, NaN where it has none; or whether it has a value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if level is not None:
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        same = pc.equal(column, pa.scalar(level, column.type))
        return _plain(pc.fill_null(same, False).cast(pa.uint8()))
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    return _plain(column)


def _plain(column: Any, level: Any = None) -> Array:
    """Integers or floats as they are, NaN where there is none."""
    values: Array = column.to_numpy(zero_copy_only=False)
    return values


def _is_plain(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _odd_kind(kind: Any) -> str | None:
    """What a column is that is no numbers."""
    import pyarrow as pa

    t = pa.types
    if (
        t.is_integer(kind)
        or t.is_floating(kind)
        or t.is_boolean(kind)
        or t.is_decimal(kind)
        or t.is_null(kind)
    ):
        return None
    if t.is_dictionary(kind):
        inner = _odd_kind(kind.value_type)
        return None if inner is None else f"categories of {inner}"
    return str(kind).split("[")[0].split("<")[0]


def _common_dtype(kinds: Sequence[Any]) -> np.dtype:
    """float32 if it holds every value of the columns, else float64."""
    import pyarrow as pa

    def is_narrow(kind: Any) -> bool:
        t = pa.types
        return bool(t.is_float32(kind) or t.is_float16(kind) or t.is_boolean(kind) or t.is_null(kind)) or (
            t.is_integer(kind) and kind.bit_width <= 16
        )

    return np.dtype(np.float32 if all(is_narrow(kind) for kind in set(kinds)) else np.float64)


def index_column(schema: Any) -> int | None:
    """The column in which pandas has stored the index of a frame."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    if len(stored) == 1 and isinstance(stored[0], str) and stored[0] in schema.names:
        return int(schema.names.index(stored[0]))
    return None


def check_equal_schemas(paths: Sequence[Path], schemas: Sequence[Any], where: object) -> Any:
    """The schema of several files, if they agree."""
    first = schemas[0]
    for path, schema in zip(paths, schemas, strict=True):
        if not schema.equals(first):
            differ = [name for name in first.names if name not in schema.names]
            differ += [
                f.name for f in schema if f.name not in first.names or first.field(f.name).type != f.type
            ]
            what = f"column {differ[0]!r}" if differ else "the order of its columns"
            raise ValueError(f"{path} differs from {paths[0].name}, also in {where}, in {what}.")
    return first


def damaged(path: Path, format_name: str, error: Exception) -> Exception:
    """What to raise where the library cannot read a file."""
    if isinstance(error, (FileNotFoundError, PermissionError)):
        return error
    why = str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__
    return ValueError(f"{path} is no whole {format_name} file: {why}; write it again.")


def _pick(features: list[Feature], columns: Indices | slice) -> list[Feature]:
    return features[columns] if isinstance(columns, slice) else [features[j] for j in columns]
