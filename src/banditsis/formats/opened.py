"""Data that have been opened: columns that are read by name, sample ids, and the features that are left."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

import numpy as np

from banditsis.core.arrays import Array
from banditsis.formats import columns
from banditsis.formats.checks import check_shape
from banditsis.formats.columns import ReadOptions
from banditsis.formats.paths import LocalCopy
from banditsis.sources.base import Source
from banditsis.sources.views import Subset

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
        name = choices[columns.find_column(choices, column, self.where)]
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
            return columns.as_ids([self.values(name).tolist() for name in self.id_names])
        with self.explained():
            return None if self.own_ids is None else self.own_ids()

    def use_ids(self, like: Sequence[str]) -> None:
        """Choose the ids: columns of these names, ids of the format, or columns with a usual name."""
        if self.options.id_column is None:
            names = [*self.side, *self.own_names]
            found = columns.match_names(names, like, self.taken)
            if not (found or self.id_names or self.own_ids):
                found = columns.find_id_columns(names, self.taken)
            self.id_names = found or self.id_names

    @cached_property
    def candidates(self) -> list[int]:
        """Positions of the columns that were chosen, and have no other role."""
        used = {*self.taken, *self.id_names} - self.side.keys()
        chosen = columns.choose_columns(self.names, self.options, self.where)
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
                source.names = columns.check_names(options.names, source.shape[1])
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
