"""Results as JSON, as pages and in notebooks."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from banditsis.core.arrays import Array
from banditsis.results.evidence import About, Evidence, Round
from banditsis.statistics.base import Effects
from banditsis.statistics.null_distributions import BetaNull, CorrectedNull, KnownPvalues, NormalNull

R = TypeVar("R")
#: Stands for the logarithm of 0 among the selected features; JSON has no infinity.
LOG_OF_ZERO = -1e308
#: Attributes of a result that are readable as they are, and those of its evidence.
SUMMARY = ("n_rows", "n_features", "cells_read", "fraction_read", "cells_reread", "parameters", "notes")
EVIDENCE = ("one_sided", "no_floor_reason", "no_interval_reason")
#: An array of a result has at most this many values per feature: bins of values, correlations of candidates.
MAX_PER_FEATURE = 2048
#: All that a record may name; nothing else is called when it is read.
KINDS = Round, Evidence, About, Effects, NormalNull, BetaNull, KnownPvalues, CorrectedNull
CLASSES = {kind.__name__: kind for kind in KINDS}


class Output:
    """Methods that write the result of one response, or those of several."""

    def to_json(self, *, full: bool = True) -> str:
        """JSON with the selected features, rounds, parameters and versions; of several responses, by name.

        The text is ASCII, with escapes for other characters. JSON has no infinity: the logarithm of a p-value
        of 0 among the selected features is -1e308.

        If ``full``, everything is stored, including the scores of all features (compressed), so
        :meth:`from_json` gives an equal result. Otherwise only the selected features are described.
        """
        return json.dumps(to_record(self, full))

    def to_html(
        self, path: str | Path | None = None, *, title: str | None = None, X: Any = None, y: Any = None
    ) -> str | None:
        """A report in one HTML file that works offline: what was found, the features, and how.

        The best 100,000 features are listed in a table that can be sorted, searched and saved as CSV. The
        report of several responses has an overview and a section for each.

        Parameters
        ----------
        path : path, optional
            The file to write, atomically; by default the text is returned.
        title : str, optional
            Heading of the report; by default it names the response.
        X, y : optional
            The data that were screened, and the response or the responses, as for :func:`screen`. At most
            5,000 rows of the best features are read for plots against the response, and for the correlations
            among the features. Without ``y`` only the latter are shown.
        """
        from banditsis.show.report import write_report  # only needed here

        return write_report(self, path, title, X, y)

    def _repr_html_(self) -> str:
        from banditsis.show.report.text import summarize  # only needed in notebooks

        return summarize(self)

    def __repr__(self) -> str:
        return str(self)


def to_record(result: Any, full: bool) -> dict[str, Any]:
    """A result, or several, as plain data; see :meth:`Output.to_json`."""
    if hasattr(result, "results"):
        records = [to_record(one, full) for one in result.results]
        return {"responses": dict(zip(result.names, records, strict=True))}
    columns = to_lists(result.features.columns)
    record: dict[str, Any] = {
        "features": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "rounds": [dataclasses.asdict(r) for r in result.rounds],
        "detection_floor": None if result.evidence.no_floor_reason else result.detection_floor(),
        "undecided": result.undecided.tolist(),
        "bins": to_lists(result.bins),
        **{name: getattr(result, name) for name in SUMMARY},
        **{name: getattr(result.evidence, name) for name in EVIDENCE},
        **vars(result.about),
    }
    return record | ({"fields": _encode_fields(result)} if full else {})


def parse(text: str) -> dict[str, Any]:
    """A record; raise in one line if the text is none."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the text is not JSON: {error}.") from error
    if not isinstance(record, dict):
        raise ValueError(f"the record is a {type(record).__name__}, not an object.")
    return record


def decode(kind: type[R], record: Mapping[str, Any]) -> R:
    """The result that a full record was made from."""
    if "responses" in record:
        raise ValueError("this record has several responses: read it with ScreeningResults.from_json.")
    if "fields" not in record:
        raise ValueError(
            "this record describes the selected features only: store the result with to_json(), or "
            "--output FILE.json."
        )
    try:
        fields = record["fields"]
        n_features = fields["n_features"]
        for name in ("scores", "last_round"):  # others follow them in size
            if fields[name]["array"][1] != [n_features]:
                raise ValueError(f"{name} has not {n_features:,} values")
        result = _make(kind, fields, MAX_PER_FEATURE * n_features)
        _ = str(result), to_record(result, False)  # which need every part
    except Exception as error:  # a part of another type may raise anything
        reason = " ".join(str(error).split())
        raise ValueError(f"the record is not one that to_json wrote, or was changed: {reason}.") from error
    return result


def _make(kind: type[R], record: Mapping[str, Any], max_size: int) -> R:
    """An object from its encoded fields; raise if some are absent, or of another type than their default.

    Arrays have at most ``max_size`` values.
    """
    names = getattr(kind, "_fields", None) or [f.name for f in dataclasses.fields(cast(Any, kind))]
    if set(record) != set(names):
        raise ValueError(f"{kind.__name__} has the fields {', '.join(record)}")
    fields = {name: _decode(value, max_size) for name, value in record.items()}
    result = kind(**fields)
    for f in () if isinstance(result, tuple) else dataclasses.fields(cast(Any, result)):
        default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        value = fields[f.name]
        is_other = isinstance(default, (str, dict, tuple)) and not isinstance(value, type(default))
        if is_other or (type(value) is tuple and not all(isinstance(part, (str, Round)) for part in value)):
            raise ValueError(f"{f.name} has other values")
    return result


def to_lists(columns: Mapping[str, Array]) -> dict[str, list[Any]]:
    """The columns of a table for JSON, which has neither NaN nor infinity."""
    return {name: list(map(to_finite, values.tolist())) for name, values in columns.items()}


def to_finite(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if np.isnan(value) else max(value, LOG_OF_ZERO)


def _encode_fields(value: Any) -> dict[str, Any]:
    fields = value._fields if isinstance(value, Effects) else [f.name for f in dataclasses.fields(value)]
    return {name: _encode(getattr(value, name)) for name in fields}


def _encode(value: Any) -> Any:
    """A value as plain data; what JSON does not have becomes an object with one key that names its type."""
    if isinstance(value, np.ndarray):
        return {"array": [value.dtype.str, list(value.shape), _pack(value)]}
    if isinstance(value, np.generic):
        return _encode(value.item())
    if isinstance(value, KINDS):
        return {"object": [type(value).__name__, _encode_fields(value)]}
    if isinstance(value, Mapping):
        return {"mapping": [[key, _encode(item)] for key, item in value.items()]}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_encode(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    return value


def _decode(value: Any, max_size: int) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item, max_size) for item in value)
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        code, shape, packed = content
        return _unpack(code, shape, packed, max_size)
    if kind == "object":
        name, fields = content
        if name not in CLASSES:
            raise ValueError(f"the record names {name!r}, which is not a part of a result.")
        return _make(CLASSES[name], fields, max_size)
    if kind == "mapping":
        return {key: _decode(item, max_size) for key, item in content}
    return float(content)


def _pack(array: Array) -> str | list[Any]:
    """The bytes of numbers, compressed, in base64; other values as a list."""
    if array.dtype.kind not in "fiub":
        return list(array.ravel().tolist())
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes())).decode("ascii")


def _unpack(code: str, shape: Sequence[int], packed: str | list[Any], max_size: int) -> Array:
    dtype, size = np.dtype(code), math.prod(shape)
    is_number = dtype.kind in "fiub"
    if is_number != isinstance(packed, str) or not 0 <= size <= max_size:
        raise ValueError(f"an array of type {code} has {size:,} values")
    if isinstance(packed, list):  # text is as long as it is, whatever the type declares
        return np.array(packed, dtype=dtype.kind).reshape(shape)
    n_bytes = size * dtype.itemsize
    content = zlib.decompressobj().decompress(base64.b64decode(packed), n_bytes + 1)  # no more than declared
    return np.frombuffer(content, dtype, count=len(content) // dtype.itemsize).reshape(shape)
