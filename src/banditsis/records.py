"""Results as plain data that JSON can hold, and back."""

from __future__ import annotations

import base64
import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from banditsis.arrays import Array
from banditsis.results import Round, ScreeningResult
from banditsis.statistics import null_distributions
from banditsis.statistics.effects import Effects
from banditsis.statistics.null_distributions import NullDistribution

#: Stands for the logarithm of 0 among the selected features; JSON has no infinity.
LOG_OF_ZERO = -1e308
#: Fields that describe a run and are readable as they are.
SUMMARY = (
    *("n_rows", "n_features", "parameters", "versions", "one_sided", "by_evidence", "n_covariates"),
    *(
        "variance_inflation",
        "no_floor_reason",
        "no_interval_reason",
        "informative_response",
        "unread",
        "cells_reread",
    ),
    *("response", "data", "created"),
)


def to_record(result: ScreeningResult, *, full: bool, compress: bool = False) -> dict[str, Any]:
    """A result as plain data; see :meth:`ScreeningResult.to_json`."""
    record: dict[str, Any] = {
        "features": _describe_selected(result),
        "rounds": [dataclasses.asdict(r) for r in result.rounds],
        "cells_read": result.cells_read,
        "fraction_read": result.fraction_read,
        "notes": list(result.notes),
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
    features: list[dict[str, Any]] = [
        {"rank": rank, "name": result.name(k), "index": int(k), "score": float(result.scores[k])}
        for rank, k in enumerate(result.selected, 1)
    ]
    annotations = {
        name: [None if value != value else value for value in values[result.selected].tolist()]
        for name, values in result.annotations.items()
    }
    associated = None if result.associated is None else set(result.associated.tolist())
    for position, feature in enumerate(features):
        k = feature["index"]
        feature["associated"] = None if associated is None else k in associated
        feature["flag"] = result.flags.get(k, "")
        feature |= {name: values[position] for name, values in annotations.items()}
        if result.effects is not None:
            feature |= {name: _finite(values[position]) for name, values in result.effects._asdict().items()}
        if result.present is not None:
            feature["present"] = int(result.present[position])
        if result.informative is not None:
            feature["informative"] = float(result.informative[position])
        if result.has_pvalues:
            feature["log10_pvalue"] = _finite(result.log10_pvalues[k])
            feature["log10_qvalue"] = _finite(result.log10_qvalues[k])
    return features


def _finite(value: float) -> float | None:
    return None if np.isnan(value) else max(float(value), LOG_OF_ZERO)


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
