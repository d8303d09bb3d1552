"""A column of a file of targets, as the tests look at it."""

from types import SimpleNamespace

from banditsis.formats.join import find_side, open_side
from banditsis.formats.options import ReadOptions, as_ids


def read_target(path, column, **options):
    """The values, ids, name and note of one column."""
    side = find_side(open_side(path, [column], ReadOptions(**options)), [column], ())
    (name,) = side.columns[column]
    values = side.file.values(name)
    ids = as_ids([side.file.texts(name) for name in side.ids]) if side.ids else None
    return SimpleNamespace(values=values, ids=ids, column=name, note=side.file.notes.get(name, ""))
