"""A column of a file of targets, as the tests look at it."""

from types import SimpleNamespace

from banditsis.formats.dataset import open_side
from banditsis.formats.opened import ReadOptions


def read_target(path, column, **options):
    """The values, ids, name and note of one column."""
    side, columns = open_side(path, [column], ReadOptions(**options))
    (name,) = columns[column]
    return SimpleNamespace(values=side.values(name), ids=side.ids, column=name, note=side.notes.get(name, ""))
