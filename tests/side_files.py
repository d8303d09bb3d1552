"""A column of a file of targets, as the tests look at it."""

from types import SimpleNamespace

from banditsis.formats.target_files import open_side_file
from banditsis.formats.targets import find_side


def read_target(path, column, na=()):
    """The values, ids, name and note of one column."""
    side = find_side(open_side_file(path, [column], na), [column], ())
    (k,) = side.columns[column]
    values, note = side.file.read(k)
    ids = side.file.ids(side.id_columns) if side.id_columns else None
    return SimpleNamespace(values=values, ids=ids, column=side.file.names[k], note=note)
