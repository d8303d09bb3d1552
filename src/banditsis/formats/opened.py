"""Data that have been opened: columns that are read by name, sample ids, and the features that are left.

Matrices in memory whose rows and columns have labels, AnnData objects and arrays of xarray, are opened here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.formats.checks import check_shape
from banditsis.formats.options import (
    DEFAULTS,
    ReadOptions,
    as_ids,
    check_unique_names,
    choose_columns,
    find_column,
)
from banditsis.sources.base import Source
from banditsis.sources.views import ColumnSubset

#: Columns that are not features, and the functions that read them.
SideColumns = Mapping[str, Callable[[], Array]]


class Opened(ABC):
    """Data whose columns are read by name; those that are not asked for are features.

    Columns and ids are in the user's order of rows, whatever the order in which the source stores them.

    The data, a target file and one of covariates are all opened in this way. A subclass finds columns, reads
    them, and makes a source of those that are left.
    """

    #: whether the names are from the data, and not numbers
    has_names = True
    #: whether ``na`` of the options was used
    uses_na = False
    #: how columns were interpreted, if that is not obvious
    notes: dict[str, str]

    def __init__(self, where: object, options: ReadOptions) -> None:
        self.where, self.options = where, options
        #: columns that are not features, because they were asked for
        self.taken: list[str] = []
        self.notes = {}
        #: names for the features instead of their own
        self.new_names: Sequence[str] | None = None
        #: what the source is called in messages; by default it has no name
        self.label: str | None = None
        #: the copy of a remote file, which the source keeps
        self.copy: object = None
        #: makes a context that explains errors of reading
        self.explained: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    @abstractmethod
    def n_rows(self) -> int: ...

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Columns that have a name."""

    @property
    def key_names(self) -> Sequence[str]:
        """Columns on which other files may be joined; an empty name stands for row names."""
        return self.names

    @abstractmethod
    def find(self, column: str) -> str:
        """The name of a column that is given by name or 1-based number; it is then not a feature."""

    def values(self, column: str) -> Array:
        """The values of a column that was found: one for each row."""
        with self.explained():
            values = self._read(column)
        if values.shape != (self.n_rows,):
            raise ValueError(
                f"{self.where} has values of shape {values.shape} in column {column!r}, and {self.n_rows:,} "
                "rows: write it again."
            )
        return values

    def texts(self, name: str) -> list[Any]:
        """The values of a column as they are stored, for ids."""
        return list(self.values(name).tolist())

    @abstractmethod
    def _read(self, name: str) -> Array: ...

    @cached_property
    def ids(self) -> Array | None:
        """Sample ids as text, if the data have some; :meth:`use_ids` must be called before, if at all."""
        with self.explained():
            ids = self._read_ids()
        if ids is not None and len(ids) != self.n_rows:
            raise ValueError(
                f"{self.where} has {len(ids):,} sample ids for {self.n_rows:,} rows: write it again."
            )
        return ids

    @abstractmethod
    def _read_ids(self) -> Array | None: ...

    @abstractmethod
    def use_ids(self, like: Sequence[str]) -> None:
        """Choose the ids of the rows to join with another file, whose ids have these names."""

    def source(self) -> Source:
        """The features: columns that were chosen, and have no other role."""
        if self.options.na and not self.uses_na:
            raise ValueError(
                f"na={', '.join(map(repr, self.options.na))} applies to CSV and other text files alone: "
                "leave it out."
            )
        with self.explained():
            source = self._make_source()
        if self.copy is not None:
            source.copy = self.copy  # type: ignore[attr-defined]
        p = source.shape[1]
        if self.label is not None and p == 0:
            raise ValueError(f"{self.where} has no features besides the target.")
        if self.new_names is not None:
            if len(self.new_names) != p:
                raise ValueError(f"got {len(self.new_names):,} names for {p:,} columns.")
            source.names = self.new_names
        if self.label is not None:
            source.label = self.label
        return source

    @abstractmethod
    def _make_source(self) -> Source: ...


class OpenedMatrix(Opened):
    """A matrix of features, with columns of other kinds beside it.

    The ``source`` has all features; None if a file has only other columns. ``ids`` reads the sample ids that
    the format has, and ``columns`` are functions that read other columns, which take precedence over
    features.
    """

    def __init__(
        self,
        source: Source | None,
        where: object,
        options: ReadOptions,
        ids: Callable[[], Array] | None = None,
        columns: SideColumns | None = None,
    ) -> None:
        super().__init__(where, options)
        if source is not None:
            check_shape(where, source.shape, options.memory_limit)
        self._all, self._ids, self._columns = source, ids, columns or {}
        if options.id_column is not None:
            name = self.find(options.id_column)
            self._ids = lambda: as_ids([self.values(name).tolist()])

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of features before some are chosen."""
        return self.n_rows, 0 if self._all is None else self._all.shape[1]

    @cached_property
    def n_rows(self) -> int:
        if self._all is None:
            return len(next(iter(self._columns.values()))())
        return self._all.shape[0]

    @cached_property
    def names(self) -> Sequence[str]:
        own = () if self._all is None else self._all.names
        return [*self._columns, *(() if own is None else own)]

    @property
    def key_names(self) -> Sequence[str]:
        if self.options.id_column is not None:
            return [self.options.id_column]
        return () if self._ids is not None else self.names

    @cached_property
    def _feature_names(self) -> list[str]:
        return [] if self._all is None else [self._all.name(j) for j in range(self._all.shape[1])]

    def find(self, column: str) -> str:
        name, features = column, self._feature_names
        if column not in self._columns:
            is_feature = bool(features) and (column in features or column.isdigit())
            choices = features if is_feature else [*self._columns, *features]
            name = choices[find_column(choices, column, self.where)]
        self.taken.append(name)
        return name

    def _read(self, name: str) -> Array:
        if name in self._columns:
            return self._columns[name]()
        assert self._all is not None
        column = self._feature_names.index(name)
        cells = self._all.read(slice(0, self.n_rows), slice(column, column + 1))[:, 0]
        return self._all.to_original(np.array(cells))

    def _read_ids(self) -> Array | None:
        return None if self._ids is None else self._ids()

    def use_ids(self, like: Sequence[str]) -> None:
        from banditsis.formats.tables import match_names  # which imports this module

        found = match_names(self.names, like) if self._ids is None else []
        if found:
            found_names = [self.find(self.names[k]) for k in found]
            self._ids = lambda: as_ids([self.values(name).tolist() for name in found_names])

    def _make_source(self) -> Source:
        assert self._all is not None
        options = self.options
        if not (self.taken or options.columns or options.drop):
            return self._all
        names = self._feature_names
        used = {names.index(name) for name in self.taken if name not in self._columns}
        kept = [j for j in choose_columns(names, options, self.where) if j not in used]
        if len(kept) == len(names):
            return self._all
        source = ColumnSubset(self._all, np.array(kept, dtype=np.intp))
        source.names = [names[j] for j in kept]
        return source


def is_labelled(data: Any) -> bool:
    """Whether data is an AnnData object, or an array or dataset of xarray."""
    return _is_anndata(data) or type(data).__module__.split(".")[0] == "xarray"


def _is_anndata(data: Any) -> bool:
    return all(hasattr(data, part) for part in ("obs", "var", "obs_names", "var_names", "isbacked"))


def open_labelled(data: Any, options: ReadOptions, names: Sequence[str] | None) -> OpenedMatrix:
    """Open a matrix with labels; ``names`` replace its own."""
    if _is_anndata(data):
        return open_anndata_object(data, "X", options, names)
    return _open_xarray(data, options, names)


def _open(
    cells: Any, own: Sequence[str] | None, names: Sequence[str] | None, options: ReadOptions, **labels: Any
) -> OpenedMatrix:
    from banditsis.formats.opening import open_in_memory  # which imports this module

    if own is not None:
        check_unique_names(own, "X")
    return OpenedMatrix(open_in_memory(cells, own if names is None else names), "X", options, **labels)


def open_anndata_object(
    data: Any, matrix: str = "X", options: ReadOptions = DEFAULTS, names: Sequence[str] | None = None
) -> OpenedMatrix:
    """Open a matrix of an AnnData object: ``X``, ``raw/X`` or ``layers/name``.

    What the object reads from a file when needed is read from there in parts; only a view of such an object
    is loaded, by anndata. The columns of ``obs`` are those of the object.
    """
    from banditsis.formats.arrow import OpenedFrame  # only frames need it
    from banditsis.formats.opening import open_file  # which imports this module

    raw: Any = data.raw
    others = [f"layers/{name}" for name in data.layers if name is not None]  # None is X in anndata 0.13
    others = others if raw is None else ["raw/X", *others]
    cells: Any = None
    if matrix in ("X", "raw/X") and data.isbacked and not data.is_view:  # layers are in memory
        limits = ReadOptions(memory_limit=options.memory_limit)
        cells = open_file(f"{data.filename}:/{matrix}", limits).source()
    elif matrix == "X":
        cells = data.X
    elif matrix in others:
        cells = raw.X if matrix == "raw/X" else data.layers[matrix.removeprefix("layers/")]
    if cells is None:
        raise ValueError(f"the AnnData object has no {matrix}; it has {', '.join(others) or 'no matrix'}.")
    own = list(map(str, (raw if matrix == "raw/X" else data).var_names))
    obs = OpenedFrame(data.obs, ReadOptions())
    columns = {name: partial(obs.values, name) for name in obs.names}
    return _open(cells, own, names, options, ids=partial(np.array, data.obs_names, str), columns=columns)


def _open_xarray(data: Any, options: ReadOptions, names: Sequence[str] | None) -> OpenedMatrix:
    if not hasattr(data, "to_dataset") or len(data.dims) != 2:
        kind = f"{type(data).__name__} with the dimensions {', '.join(map(str, data.dims))}"
        raise ValueError(f"X is a {kind}: pass an array with two dimensions, such as dataset[name].")
    row, column = data.dims
    own = list(map(str, data[column].values)) if column in data.coords else None
    labels = data[row].values if row in data.coords else np.arange(0)
    is_text = len(labels) > 0 and all(isinstance(label, str) for label in labels)
    columns = {
        str(name): partial(np.asarray, values)
        for name, values in data.coords.items()
        if values.dims == (row,) and name != row
    }
    ids = partial(np.array, labels, str) if is_text else None
    return _open(data.data, own, names, options, ids=ids, columns=columns)
