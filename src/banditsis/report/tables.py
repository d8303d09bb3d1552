"""HTML tables and lists, and the features as JSON. All text is escaped here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from banditsis.arrays import Array, Indices
from banditsis.formatting import format_duration, printable, shorten
from banditsis.plotting import value_or_none
from banditsis.results import ScreeningResult

#: Maximum number of features in the table of a report.
MAX_LISTED = 100_000
#: With more features than this, only the selected ones are listed because ranking all takes too long.
MAX_RANKED = 10_000_000
# Characters that could end a script element.
_JSON_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


def list_features(result: ScreeningResult, max_listed: int) -> dict[str, Any]:
    """Columns of the features by rank, selected ones first; None stands for unknown values."""
    features = _features_by_rank(result, max_listed)
    n_selected = min(len(result.selected), len(features))
    intervals = value_or_none(result.interval)
    last_round = result.last_round[features].tolist()
    return {
        "selected": n_selected,
        "index": features.tolist(),
        "name": [result.name(k) for k in features],
        "score": _round_values(result.scores[features]),
        "low": None if intervals is None else _round_values(intervals[:n_selected, 0]),
        "high": None if intervals is None else _round_values(intervals[:n_selected, 1]),
        "log10p": _round_values(result.log10_pvalues[features]) if result.has_pvalues else None,
        "rows": [result.rounds[k].n_rows for k in last_round],
        "round": [k + 1 for k in last_round],
    }


def _features_by_rank(result: ScreeningResult, max_listed: int) -> Indices:
    """The best features. Features whose score was not stored are left out."""
    n_selected = len(result.selected)
    if n_selected >= max_listed or result.n_features > MAX_RANKED:
        return result.selected[:max_listed]
    rest = np.argsort(result.ranking)[n_selected:max_listed]
    return np.concatenate([result.selected, rest[~np.isnan(result.scores[rest])]])


def _round_values(values: Array) -> list[float | None]:
    """Values with six digits, which keep the page small, and None for NaN and infinity."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]


def embed_json(value: Any) -> str:
    """JSON for a script element."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_JSON_ESCAPES)


def rounds_table(result: ScreeningResult) -> str:
    """A table with a row per round."""
    rows = []
    for k, r in enumerate(result.rounds, 1):
        counts = [f"{k}", f"{r.n_rows:,}", f"{r.n_features:,}", f"{r.n_kept:,}"]
        rows.append([*counts, f"{r.cutoff:.4f}", f"{r.cells:,}", format_duration(r.seconds)])
    return _table(["round", "rows read", "features", "kept", "cutoff", "cells read", "time"], rows)


def features_table(result: ScreeningResult, max_features: int, max_length: int) -> str:
    """A table of the best features, with names of at most ``max_length`` characters."""
    features = result.selected[:max_features]
    rows = [[shorten(result.name(k), max_length), _signed(result.scores[k], 4)] for k in features]
    intervals = value_or_none(result.interval)
    if intervals is None:
        return _table(["feature", "score"], rows)
    for row, (low, high) in zip(rows, intervals, strict=False):
        row.append(f"{_signed(low, 3)} to {_signed(high, 3)}")
    return _table(["feature", "score", "95% interval"], rows)


def _signed(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape_text(cell)}</th>' for cell in head)
    lines = ("".join(f"<td>{escape_text(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def definition_list(items: Iterable[tuple[str, Any]]) -> str:
    """Pairs of a term and its value."""
    escaped = ((escape_text(str(key)), escape_text(str(value))) for key, value in items)
    pairs = (f"<div><dt>{key}</dt><dd>{value}</dd></div>" for key, value in escaped)
    return f"<dl>{''.join(pairs)}</dl>"


def bullet_list(sentences: Iterable[str]) -> str:
    """A list with an item per sentence."""
    return f"<ul>{''.join(f'<li>{escape_text(sentence)}</li>' for sentence in sentences)}</ul>"


def escape_text(text: str) -> str:
    """Text escaped for HTML; characters that are not printable become escape sequences."""
    return escape(printable(text))
