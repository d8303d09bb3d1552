"""Which columns of a table are features, which are ids, and which is the target."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.arrays import Array
from banditsis.formats.options import ReadOptions, find_column
from banditsis.formats.registry import Opened
from banditsis.sources.tables import Feature, Table, TableSource, numeric_type

MAX_LEVELS = 10_000  # a column with more distinct values holds ids rather than classes
NEVER_ENCODED = ("date", "time", "duration", "list", "struct", "map", "binary", "fixed_size")

#: Names of columns that hold sample ids, in lower case.
ID_NAMES = {"id", "ids", "iid", "index", "_index", "__index_level_0__", "unnamed: 0", "rownames", "obs_names"}
ID_NAMES |= {"name", "sample", "sample_id", "sampleid", "subject", "animal", "barcode", "cell", "cell_id"}


def open_table(
    table: Table,
    apart: Sequence[str],
    options: ReadOptions,
    *,
    index: Sequence[int] = (),
    make: Callable[..., TableSource] = TableSource,
) -> Opened:
    """Select the features and the sample ids of a table, and take other columns apart.

    Parameters
    ----------
    table : Table
        The columns.
    apart, options
        See :func:`open_file`.
    index : sequence of int, optional
        The columns of row names, which are not features; by default the index that pandas stored.
    make : type, optional
        The class of the source.
    """
    names, types = table.schema.names, [field.type for field in table.schema]
    check_unique_names(names, table.where)
    if not table.groups:
        raise ValueError(f"{table.where} has no rows.")
    index = index or find_index(table.schema)
    taken, id_columns = find_roles(names, apart, index, options, table.where)
    used = {*id_columns, *index, *taken}
    left = [j for j in range(len(names)) if j not in used]
    kinds = {j: _type_name(types[j]) for j in left if numeric_type(types[j]) is None}
    _check_kinds(names, kinds, options.one_hot, table.where)
    levels = {j: table.levels(j) for j in kinds}
    source = make(table, *_make_features(names, left, levels, table.where), levels)
    ids = as_ids([table.values(j).tolist() for j in id_columns]) if id_columns else None
    return Opened(source, ids, [table.values(j) for j in taken], [names[j] for j in taken])


def find_roles(
    names: Sequence[str], apart: Sequence[str], index: Sequence[int], options: ReadOptions, where: object
) -> tuple[list[int], list[int]]:
    """The numbers of the columns that are taken apart, and of the columns of sample ids."""
    others = [j for j in range(len(names)) if j not in index]
    choices = [names[j] for j in others]
    taken = [others[find_column(choices, wanted, where)] for wanted in apart]
    like = options.ids_like
    ids = match_names(names, like or (), taken) or list(index)
    return taken, ids if ids or like is None else find_id_columns(names, exclude=taken)


def _make_features(
    names: Sequence[str], columns: Sequence[int], levels: dict[int, list[Any]], where: object
) -> tuple[list[Feature], list[str]]:
    """One feature for each numeric column and for each level of the other columns, and their names."""
    features: list[Feature] = []
    labels: list[str] = []
    for j in columns:
        if j not in levels:
            features.append(Feature(j))
            labels.append(names[j])
            continue
        if len(levels[j]) > MAX_LEVELS:
            raise ValueError(
                f"{where} has {len(levels[j]):,} distinct values in column {names[j]!r}; one-hot encoding "
                f"allows {MAX_LEVELS:,}: leave the column out if it holds ids, or combine rare values."
            )
        features += [Feature(j, k) for k in range(len(levels[j]))]
        labels += [f"{names[j]}={value}" for value in levels[j]]
    if not features:
        raise ValueError(f"{where} has no column that could be a feature.")
    return features, labels


def check_unique_names(names: Sequence[str], where: object) -> None:
    """Raise if two columns have the same name."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        numbers = [str(j + 1) for j, name in enumerate(names) if name == repeated[0]]
        more = f", and {len(repeated) - 1:,} more repeated names" if len(repeated) > 1 else ""
        raise ValueError(
            f"{where} has several columns called {repeated[0]!r} (columns {', '.join(numbers[:5])}{more}): "
            "rename them."
        )


def _check_kinds(names: Sequence[str], kinds: dict[int, str], one_hot: bool, where: object) -> None:
    """Raise if a column is not numeric and is not one-hot encoded."""
    bad = {j: kind for j, kind in kinds.items() if not one_hot or kind.startswith(NEVER_ENCODED)}
    if not bad:
        return
    shown = ", ".join(f"{names[j]!r} ({kind})" for j, kind in list(bad.items())[:5])
    more = f" and {len(bad) - 5:,} more" if len(bad) > 5 else ""
    are, them = ("column that is", "it") if len(bad) == 1 else ("columns that are", "them")
    has_text = not all(kind.startswith(NEVER_ENCODED) for kind in bad.values())
    remedy = "use one-hot encoding" if has_text else f"turn {them} into columns of numbers"
    raise TypeError(
        f"{where} has {len(bad):,} {are} not numeric: {shown}{more}; {remedy}, or leave {them} out."
    )


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
    """The columns of the wanted names, in upper or lower case; none if one is missing or excluded.

    Examples
    --------
    >>> match_names(["y", "Patient", "visit"], ["patient", "visit"]), match_names(["y"], ["patient"])
    ([1, 2], [])
    """
    lower = lower_names(names)
    matches = [lower.index(name) for name in lower_names(wanted) if name in lower]
    return matches if len(matches) == len(wanted) and not set(matches) & set(exclude) else []


def lower_names(names: Iterable[str]) -> list[str]:
    """Names as they are compared: in lower case, without blanks around them or a leading #."""
    return [name.strip().lower().lstrip("#") for name in names]


def find_id_columns(names: Sequence[str], *, exclude: Sequence[int] = ()) -> list[int]:
    """The columns that identify samples: FID and IID, or the first with a usual name for ids.

    Parameters
    ----------
    names : sequence of str
        All columns.
    exclude : sequence of int
        Columns that are something else, such as the target.

    Examples
    --------
    >>> find_id_columns(["y", "Sample", "id"]), find_id_columns(["FID", "IID", "y"])
    ([1], [0, 1])
    """
    pair, lower = match_names(names, ("FID", "IID"), exclude), lower_names(names)
    if pair:
        return pair
    if len(names) > 1 and lower[0] == "" and 0 not in exclude:  # row names of pandas and R
        return [0]
    return [k for k, name in enumerate(lower) if name in ID_NAMES and k not in exclude and len(names) > 1][:1]


def as_ids(columns: Sequence[Sequence[Any]]) -> Array:
    """Ids as text; several columns are joined by tabs, and integers have no decimal point.

    Examples
    --------
    >>> as_ids([np.array([7.0, 8.0])]), as_ids([["a", "a"], [1, 2]])
    (array(['7', '8'], dtype='<U1'), array(['a\\t1', 'a\\t2'], dtype='<U3'))
    """
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


def damaged(path: Path, format_name: str, error: Exception) -> Exception:
    """The error to raise if a library cannot read a file."""
    if isinstance(error, (FileNotFoundError, PermissionError)):
        return error
    reason = str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__
    return ValueError(f"{path} is not a valid {format_name} file: {reason}; write it again.")
