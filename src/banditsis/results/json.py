"""Results as plain data that JSON can hold, and back."""

from __future__ import annotations

import base64
import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.results.result import Round, ScreeningResult, feature_columns
from banditsis.statistics import null_distributions
from banditsis.statistics.effects import Effects
from banditsis.statistics.null_distributions import NullDistribution

#: Stands for the logarithm of 0 among the selected features; JSON has no infinity.
LOG_OF_ZERO = -1e308
#: What is stored of every selected feature, in this order, besides annotations.
COLUMNS = (
    *("rank", "name", "index", "score", "low", "high", "pvalue", "log10_pvalue", "qvalue", "log10_qvalue"),
    *("associated", "beta", "se", "present", "rows_read", "round_dropped", "flag", "informative"),
)
#: Fields that describe a run and are readable as they are.
SUMMARY = (
    *("n_rows", "n_features", "parameters", "versions", "one_sided", "by_evidence", "n_covariates"),
    *(
        "variance_inflation",
        "no_interval_reason",
        "informative_response",
        "unread",
        "cells_reread",
    ),
    *("response", "data", "created", "contents", "response_summary", "command"),
)


def to_record(result: ScreeningResult, *, full: bool, compress: bool = False) -> dict[str, Any]:
    """A result as plain data; see :meth:`ScreeningResult.to_json`."""
    record: dict[str, Any] = {
        "features": _describe_selected(result),
        "rounds": [dataclasses.asdict(r) for r in result.rounds],
        "cells_read": result.cells_read,
        "fraction_read": result.fraction_read,
        "notes": list(result.notes),
        "details": list(result.details),
        "detection_floor": None if result.why_no_floor() else result.detection_floor(),
        "no_floor_reason": result.why_no_floor(),
        "undecided": result.undecided.tolist(),
        **{name: getattr(result, name) for name in SUMMARY},
    }
    if full:
        fields = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
        record["fields"] = {name: _encode(value, compress) for name, value in fields.items()}
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
    """The columns of a frame; a column that the result does not have is null."""
    columns = dict.fromkeys(COLUMNS) | feature_columns(result, result.selected)
    columns["name"] = result.selected_names  # JSON can hold any text
    columns["informative"] = result.informative
    empty = [None] * len(result.selected)
    lists = [empty if values is None else np.asarray(values).tolist() for values in columns.values()]
    return [dict(zip(columns, map(_finite, row), strict=True)) for row in zip(*lists, strict=True)]


def _finite(value: Any) -> Any:
    """A value for JSON, which has neither NaN nor infinity."""
    if not isinstance(value, float):
        return value
    return None if np.isnan(value) else max(value, LOG_OF_ZERO)


def _encode(value: Any, compress: bool) -> Any:
    """A value as plain data; what JSON does not have becomes an object with one key that names its type."""
    if isinstance(value, np.ndarray):
        return {"array": _encode_array(value, compress)}
    if isinstance(value, NullDistribution):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}  # type: ignore[arg-type]
        return {"null": [type(value).__name__, {name: _encode(v, compress) for name, v in fields.items()}]}
    if isinstance(value, Effects):
        return {"effects": [_encode(field, compress) for field in value]}
    if isinstance(value, Round):
        return {"round": [_encode(field, compress) for field in dataclasses.astuple(value)]}
    if isinstance(value, Mapping):
        return {"mapping": [[key, _encode(item, compress)] for key, item in value.items()]}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, compress) for item in value]}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_encode(item, compress) for item in value]
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
        return _decode_array(content)
    if kind == "null":
        name, fields = content
        return getattr(null_distributions, name)(**{key: _decode(item) for key, item in fields.items()})
    if kind == "round":
        return Round(*map(_decode, content))
    if kind == "effects":
        return Effects(*map(_decode, content))
    if kind == "mapping":
        return {key: _decode(item) for key, item in content}
    return float(content) if kind == "float" else tuple(map(_decode, content))


def _encode_array(array: Array, compress: bool) -> list[Any]:
    """Dtype and values of an array: as numbers and text, or compressed in base64."""
    if compress and array.dtype.kind in "fiub":
        cells = np.ascontiguousarray(array)
        packed = base64.b64encode(zlib.compress(cells.tobytes())).decode("ascii")
        return [cells.dtype.str, list(cells.shape), packed]
    if array.dtype.kind == "f":  # repr of a float64 is exact; NaN and infinities are text
        values = [v if np.isfinite(v) else str(v) for v in array.astype(np.float64).ravel().tolist()]
    else:
        values = array.ravel().tolist()
    return [array.dtype.str, list(array.shape), values]


def _decode_array(content: Sequence[Any]) -> Array:
    dtype, shape, values = content
    if isinstance(values, str):
        array = np.frombuffer(zlib.decompress(base64.b64decode(values)), dtype=dtype)
    elif np.dtype(dtype).kind == "f":
        array = np.array([float(v) for v in values], dtype=dtype)
    else:
        array = np.array(values, dtype=dtype)
    return array.reshape(shape)
