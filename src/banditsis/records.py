"""Results as plain data that JSON can hold, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from banditsis.laws import StoredLaw
from banditsis.results import Round, ScreeningResult


def to_record(result: ScreeningResult, all_scores: bool) -> dict[str, Any]:
    """A result as dictionaries, lists, numbers and text; see :meth:`ScreeningResult.to_json`."""
    record: dict[str, Any] = {
        "features": _features(result),
        "rounds": [asdict(r) for r in result.rounds],
        "n_rows": result.n_rows,
        "n_features": result.n_features,
        "cells_read": result.cells_read,
        "fraction_read": result.fraction_read,
        "parameters": dict(result.parameters),
        "versions": dict(result.versions),
        "notes": list(result.notes),
        "inflation": result.inflation,
    }
    if all_scores:
        named = result.names is not None
        record["scores"] = [None if np.isnan(score) else score for score in result.scores.tolist()]
        if result.has_pvalues:
            record["log10_pvalues"] = [_finite(value) for value in result.log10_pvalues.tolist()]
        record["last_round"] = result.last_round.tolist()
        record["names"] = [result.name(k) for k in range(result.n_features)] if named else None
    return record


def _features(result: ScreeningResult) -> list[dict[str, Any]]:
    """The selected features, best first."""
    features: list[dict[str, Any]] = [
        {"rank": rank, "name": result.name(k), "index": int(k), "score": float(result.scores[k])}
        for rank, k in enumerate(result.selected, 1)
    ]
    if result.present is not None:
        for feature, present in zip(features, result.present, strict=True):
            feature["present"] = int(present)
    if result.has_pvalues:
        for feature in features:
            feature["log10_pvalue"] = _finite(result.log10_pvalues[feature["index"]])
    return features


def from_record(record: Mapping[str, Any]) -> ScreeningResult:
    """The result that a record was made of; see :meth:`ScreeningResult.from_json`."""
    p, features = record["n_features"], record["features"]
    selected = np.array([f["index"] for f in features], dtype=np.intp)
    names: Sequence[str] | Mapping[int, str] | None = record.get("names")
    if "scores" in record:
        scores = np.array(record["scores"], dtype=np.float64)
        last_round = np.array(record["last_round"], dtype=np.int32)
    else:
        scores = np.full(p, np.nan)
        scores[selected] = [f["score"] for f in features]
        last_round = np.zeros(p, dtype=np.int32)
        last_round[selected] = len(record["rounds"]) - 1
        names = {f["index"]: f["name"] for f in features}
    present = [f["present"] for f in features if "present" in f]
    result = ScreeningResult(
        selected=selected,
        scores=scores,
        rounds=tuple(Round(**r) for r in record["rounds"]),
        last_round=last_round,
        n_rows=record["n_rows"],
        n_features=p,
        present=np.array(present, dtype=np.float64) if present else None,
        parameters=record["parameters"],
        versions=record["versions"],
        notes=tuple(record["notes"]),
        names=names,
        inflation=record.get("inflation"),
    )
    return _with_stored_pvalues(result, record)


def _with_stored_pvalues(result: ScreeningResult, record: Mapping[str, Any]) -> ScreeningResult:
    features = record["features"]
    if "log10_pvalues" in record:
        log10 = np.array([_number(value) for value in record["log10_pvalues"]])
    elif features and "log10_pvalue" in features[0]:
        log10 = np.full(result.n_features, np.nan)
        log10[result.selected] = [_number(f["log10_pvalue"]) for f in features]
    else:
        return result
    # After a choice by fewer rows the last round tests the selected features, and no others.
    complete = "log10_pvalues" in record or result.rounds[-1].n_features <= len(features)
    return replace(result, law=StoredLaw(log10[result.tested], complete))


#: What stands for the logarithm of 0 in JSON, which has no infinity.
LOG_OF_ZERO = -1e308


def _finite(value: float) -> float | None:
    """A number that JSON can hold: NaN is null, and the logarithm of 0 is below every other."""
    return None if np.isnan(value) else max(float(value), LOG_OF_ZERO)


def _number(value: float | str | None) -> float:
    if value is None:
        return np.nan
    return -np.inf if float(value) <= LOG_OF_ZERO else float(value)
