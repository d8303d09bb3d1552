"""Results as plain data that JSON can hold, and back."""

from __future__ import annotations

import base64
import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.results.features import COLUMNS
from banditsis.results.result import About, Evidence, Round, ScreeningResult
from banditsis.statistics.effects import Effects
from banditsis.statistics.null_distributions import BetaNull, CorrectedNull, NormalNull

#: Stands for the logarithm of 0 among the selected features; JSON has no infinity.
LOG_OF_ZERO = -1e308
#: Attributes that describe a run and are readable as they are.
SUMMARY = (
    *(
        "n_rows",
        "n_features",
        "cells_read",
        "fraction_read",
        "cells_reread",
        "parameters",
        "notes",
        "details",
    ),
)
#: The same of its evidence.
EVIDENCE = (
    *("by_evidence", "n_covariates", "variance_inflation", "informative_response", "unread", "one_sided"),
    *("no_floor_reason", "no_interval_reason"),
)
#: All that a record may name; nothing else is called when it is read.
CLASSES = {
    kind.__name__: kind for kind in (Round, Evidence, About, Effects, NormalNull, BetaNull, CorrectedNull)
}


def to_record(result: ScreeningResult, *, full: bool) -> dict[str, Any]:
    """A result as plain data; see :meth:`ScreeningResult.to_json`."""
    record: dict[str, Any] = {
        "features": _describe_selected(result),
        "rounds": [dataclasses.asdict(r) for r in result.rounds],
        "detection_floor": None if result.evidence.no_floor_reason else result.detection_floor(),
        "undecided": result.undecided.tolist(),
        **{name: getattr(result, name) for name in SUMMARY},
        **{name: getattr(result.evidence, name) for name in EVIDENCE},
        **vars(result.about),
    }
    if full:
        record["fields"] = _encode_fields(result)
    return record


def from_record(record: Mapping[str, Any]) -> ScreeningResult:
    """The result that a full record was made from."""
    if "responses" in record:
        raise ValueError("this record has several responses: read it with ScreeningResults.from_json.")
    if "fields" not in record:
        raise ValueError(
            "this record describes the selected features only: store the result with to_json(), or "
            "--output FILE.json."
        )
    return ScreeningResult(**{name: _decode(value) for name, value in record["fields"].items()})


def _describe_selected(result: ScreeningResult) -> list[dict[str, Any]]:
    """The table of features; a column that the result does not have is null."""
    columns = dict.fromkeys((*COLUMNS, "informative"), [None] * len(result.selected))
    columns |= result.features.to_lists()
    if result.evidence.informative is not None:
        columns["informative"] = result.evidence.informative.tolist()
    return [
        dict(zip(columns, map(to_finite, row), strict=True)) for row in zip(*columns.values(), strict=True)
    ]


def to_finite(value: Any) -> Any:
    """A value for JSON, which has neither NaN nor infinity."""
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
    if isinstance(value, tuple(CLASSES.values())):
        return {"object": [type(value).__name__, _encode_fields(value)]}
    if isinstance(value, Mapping):
        return {"mapping": [[key, _encode(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encode(item) for item in value]}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_encode(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return _unpack(*content)
    if kind == "object":
        name, fields = content
        if name not in CLASSES:
            raise ValueError(f"the record names {name!r}, which is not a part of a result.")
        return CLASSES[name](**{field: _decode(item) for field, item in fields.items()})
    if kind == "mapping":
        return {key: _decode(item) for key, item in content}
    return float(content) if kind == "float" else tuple(map(_decode, content))


def _pack(array: Array) -> str | list[Any]:
    """The bytes of numbers, compressed, in base64; other values as a list."""
    if array.dtype.kind not in "fiub":
        return list(array.ravel().tolist())
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes())).decode("ascii")


def _unpack(dtype: str, shape: Sequence[int], packed: str | list[Any]) -> Array:
    if not isinstance(packed, str):
        return np.array(packed, dtype=dtype).reshape(shape)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    content = zlib.decompressobj().decompress(base64.b64decode(packed), size + 1)  # no more than is declared
    return np.frombuffer(content, dtype=dtype, count=size // np.dtype(dtype).itemsize).reshape(shape)
