"""Data that have been opened: columns that are read by name, sample ids, and the features that are left."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.formats.checks import check_shape
from banditsis.formats.columns import as_ids, choose_columns, find_column, find_id_columns, match_names
from banditsis.formats.options import ReadOptions
from banditsis.sources.base import Source
from banditsis.sources.views import ColumnSubset

#: Columns that are not features, and the functions that read them.
SideColumns = Mapping[str, Callable[[], Array]]


class Opened(ABC):
    """Data whose columns are read by name; those that are not asked for are features.

    Columns and ids are in the user's order of rows, whatever the order in which the source stores them.

    The data, a target file and one of covariates are all opened in this way. A subclass names its columns,
    reads them, and makes a source of those that are left.
    """

    #: whether ``na`` of the options was used
    uses_na = False

    def __init__(
        self,
        where: object,
        options: ReadOptions,
        beside: Sequence[str] = (),
        own_ids: Callable[[], Array] | None = None,
    ) -> None:
        self.where, self.options = where, options
        #: columns that are never features, and columns that are not because they were asked for
        self.beside, self.taken = list(beside), list[str]()
        #: the columns of sample ids, or what reads ids that are not a column
        self.id_names, self.own_ids = list[str](), own_ids
        #: how columns were interpreted, if that is not obvious
        self.notes: dict[str, str] = {}
        #: names for the features instead of their own
        self.new_names: Sequence[str] | None = None
        #: what the source is called in messages; by default it has no name
        self.label: str | None = None
        #: the copy of a remote file, which the source keeps
        self.copy: object = None
        #: makes a context that explains errors of reading
        self.explained: Callable[[], AbstractContextManager[None]] = nullcontext
        if options.id_column is not None:
            self.id_names = [self.find(options.id_column)]

    @property
    @abstractmethod
    def n_rows(self) -> int: ...

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Columns that may be features."""

    @property
    def own_names(self) -> Sequence[str]:
        """Their names if they are from the data."""
        return self.names

    @property
    def left(self) -> list[str]:
        """Columns that have no role yet."""
        used = {*self.taken, *self.id_names}
        return [name for name in (*self.beside, *self.names) if name not in used]

    def find(self, column: str) -> str:
        """The name of a column that is given by name or 1-based number; it is then not a feature."""
        name = column
        if column not in self.beside:
            is_feature = column in self.names or (column.isdigit() and len(self.names) > 0)
            choices = self.names if is_feature else [*self.beside, *self.names]
            name = choices[find_column(choices, column, self.where)]
        self.taken.append(name)
        return name

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
            own = None if self.own_ids is None else self.own_ids()
            ids = as_ids([self.texts(name) for name in self.id_names]) if self.id_names else own
        if ids is not None and len(ids) != self.n_rows:
            raise ValueError(
                f"{self.where} has {len(ids):,} sample ids for {self.n_rows:,} rows: write it again."
            )
        return ids

    @property
    def names_of_ids(self) -> Sequence[str]:
        """What the ids are called, if that is known."""
        return self.id_names

    def use_ids(self, like: Sequence[str]) -> None:
        """Choose the ids: columns of these names, ids of the format, or columns with a usual name."""
        if self.options.id_column is None:
            names = [*self.beside, *self.own_names]
            found = match_names(names, like, self.taken)
            if not (found or self.id_names or self.own_ids):
                found = find_id_columns(names, self.taken)
            self.id_names = found or self.id_names

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

    @cached_property
    def candidates(self) -> list[int]:
        """Positions of the columns that were chosen, and have no other role."""
        used = {*self.taken, *self.id_names} - set(self.beside)
        return [j for j in choose_columns(self.names, self.options, self.where) if self.names[j] not in used]

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
        if source is not None:
            check_shape(where, source.shape, options.memory_limit)
        self._all, self._columns = source, columns or {}
        super().__init__(where, options, list(self._columns), ids)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of features before some are chosen."""
        return self.n_rows, 0 if self._all is None else self._all.shape[1]

    @cached_property
    def n_rows(self) -> int:
        return len(next(iter(self._columns.values()))()) if self._all is None else self._all.shape[0]

    @property
    def own_names(self) -> Sequence[str]:
        return (None if self._all is None else self._all.names) or ()

    @cached_property
    def names(self) -> Sequence[str]:
        return [] if self._all is None else [self._all.name(j) for j in range(self._all.shape[1])]

    def _read(self, name: str) -> Array:
        if name in self._columns:
            return self._columns[name]()
        assert self._all is not None
        column = self.names.index(name)
        cells = self._all.read(slice(0, self.n_rows), slice(column, column + 1))[:, 0]
        return self._all.to_original(np.array(cells))

    def _make_source(self) -> Source:
        assert self._all is not None
        if not (self.taken or self.id_names or self.options.columns or self.options.drop):
            return self._all
        if len(self.candidates) == self._all.shape[1]:
            return self._all
        source = ColumnSubset(self._all, np.array(self.candidates, dtype=np.intp))
        source.names = [self.names[j] for j in self.candidates]
        return source
