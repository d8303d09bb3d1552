"""Files with results."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.cli.errors import UsageError
from banditsis.core.formatting import encodable, replacing
from banditsis.core.parallel import map_in_threads
from banditsis.results.features import Features, describe_features
from banditsis.results.result import ScreeningResult
from banditsis.results.several import ScreeningResults

#: Features that are made into text or Python objects at once, which bounds the memory.
FEATURES_AT_ONCE = 1 << 16


def check_output(path: Path, suffixes: tuple[str, ...], option: str, inputs: Iterable[Path]) -> None:
    """Raise if a file cannot be written or would overwrite an input, before any data are read."""
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{option} {path} must end in {' or '.join(suffixes)}: the suffix sets the format.")
    try:
        tempfile.NamedTemporaryFile(dir=path.absolute().parent, prefix=path.name).close()
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be written: {error.strerror}.") from None
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder: give the name of a file.")
    for given in inputs:
        resolved = path.resolve()
        is_within = given.resolve() in (resolved, *resolved.parents)
        if is_within or (path.exists() and given.exists() and path.samefile(given)):
            raise UsageError(f"{option} {path} would change the input {given}: choose another file.")


def write_output(
    result: ScreeningResult | ScreeningResults, path: Path, *, all_features: bool = False
) -> None:
    """Write the selected features, or all, as CSV or Parquet, or the whole result as JSON."""
    suffix = path.suffix.lower()
    with replacing(path) as part:
        if suffix == ".json":
            part.write_text(result.to_json() + "\n", encoding="utf-8")
            return
        table = _to_table(result, all_features)
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, part)
            return
        with open(part, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table.column_names)
            for batch in table.to_batches(FEATURES_AT_ONCE):
                writer.writerows(zip(*batch.to_pydict().values(), strict=True))


def _to_table(result: ScreeningResult | ScreeningResults, all_features: bool) -> Any:
    """The columns of :meth:`ScreeningResult.to_frame` as an Arrow table; several targets have their names."""
    import pyarrow as pa

    def describe(one: ScreeningResult) -> Features:
        if not all_features:
            return one.features
        order = np.argsort(one.ranking)
        return describe_features(one, order)

    if isinstance(result, ScreeningResult):
        return pa.table(dict(describe(result).columns))
    tables = []
    for name, features in zip(result.names, map_in_threads(describe, result.results), strict=True):
        target = pa.repeat(encodable(name), len(features))
        tables.append(pa.table({"target": target, **features.columns}))
    return pa.concat_tables(tables, promote_options="permissive")
