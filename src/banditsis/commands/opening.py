"""A file and its target, as the commands open them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from banditsis._typing import Array
from banditsis.planning import format_bytes
from banditsis.sources.base import Source
from banditsis.sources.files import find_format, format_label


class Loaded(NamedTuple):
    """Data that have been opened for a command."""

    path: Path
    format: str
    source: Source
    y: Array
    #: how the target was found and joined, in a sentence
    how: str

    @property
    def missing(self) -> str:
        """What is done about NaN unless asked otherwise: genotypes have gaps, other data should not."""
        return "pairwise" if self.format == "plink" else "raise"

    def describe(self) -> str:
        """The data in one line."""
        return describe_source(self.path, self.format, self.source)


def describe_source(path: Path, format_name: str, source: Source) -> str:
    """Format, shape, dtype and size in one line."""
    n, p = source.shape
    size = format_bytes(n * p * source.dtype.itemsize)
    return (
        f"{path}: {format_label(format_name)}, {n:,} rows × {p:,} features, {source.dtype}, {size} of cells."
    )


def load(path: Path, target: str, *, one_hot: bool = False, memory_limit: int | None = None) -> Loaded:
    """Open data and join the target."""
    from banditsis.sources import open_source

    source, y = open_source(path, target=target, one_hot=one_hot, memory_limit=memory_limit)
    return Loaded(path, find_format(path), source, y, f"Target {target}: a column of the same data.")
