"""A column of a file of targets, as the tests look at it."""

from types import SimpleNamespace

from banditsis.formats.columns import ReadOptions
from banditsis.formats.dataset import find_side_columns, open_side


def read_target(path, column, **options):
    """The values, ids, name and note of one column."""
    side = open_side(path, [column], ReadOptions(**options))
    (name,) = find_side_columns(side, [column])[column]
    return SimpleNamespace(values=side.values(name), ids=side.ids, column=name, note=side.notes.get(name, ""))
