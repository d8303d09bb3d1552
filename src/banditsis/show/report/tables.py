"""HTML tables and lists, and the features as data for the page's script. All text is escaped here."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from banditsis.core.arrays import Indices
from banditsis.core.formatting import format_duration, format_pvalue, format_score, printable, short_labels
from banditsis.results.json import LOG_OF_ZERO
from banditsis.results.result import ScreeningResult, feature_columns

#: Maximum number of features in the tables of a report, of all responses together.
MAX_LISTED = 100_000
#: With more features than this, only the selected ones are listed because ranking all takes too long.
MAX_RANKED = 10_000_000
#: How the table says what is known about a selected feature.
EVIDENCE = {"signal": "● clear", "noise": "◇ unclear", "unknown": ""}


def evidence(result: ScreeningResult, features: Indices) -> list[str]:
    """What is known about selected features: "signal", "noise" or "unknown"."""
    if result.associated is None:
        return ["unknown"] * len(features)
    return ["signal" if clear else "noise" for clear in np.isin(features, result.associated)]


def list_features(result: ScreeningResult, max_listed: int) -> dict[str, Any]:
    """The columns of :func:`feature_columns` by rank, selected features first; None stands for NaN."""
    features = _features_by_rank(result, max_listed)
    columns = feature_columns(result, features)
    return {
        "selected": min(len(result.selected), len(features)),
        "one_sided": result.one_sided,
        # Two digits of a p-value of 1e-5000 need more digits of its logarithm.
        "columns": {name: _as_list(values, 8 if "log10" in name else 6) for name, values in columns.items()},
    }


def _features_by_rank(result: ScreeningResult, max_listed: int) -> Indices:
    """The best features. Features whose score was not stored are left out."""
    n_selected = len(result.selected)
    if n_selected >= max_listed or result.n_features > MAX_RANKED:
        return result.selected[:max_listed]
    rest = np.argsort(result.ranking)[n_selected:max_listed]
    return np.concatenate([result.selected, rest[~np.isnan(result.scores[rest])]])


def _as_list(values: Any, digits: int) -> list[Any]:
    """Values for JSON: floats with few digits, which keep the page small, and None for NaN.

    The logarithm of a p-value of 0 becomes :data:`LOG_OF_ZERO`, which sorts before all others.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        values = np.where(np.isneginf(values), LOG_OF_ZERO, values)
        return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values.tolist()]
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def pack(value: Any) -> str:
    """JSON, compressed, in base64: small, and without characters that could end an element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def features_table(result: ScreeningResult, max_features: int, max_length: int) -> str:
    """A table of the best features, with labels of at most ``max_length`` characters."""
    features = result.selected[:max_features]
    columns: dict[str, Sequence[str]] = {
        "feature": short_labels([result.name(k) for k in features], max_length),
        "score": [score(result, k, 4) for k in features],
    }
    if result.no_interval_reason is None:
        limits = result.interval()[: len(features)]
        columns["95% interval"] = [f"{signed(low, 3)} to {signed(high, 3)}" for low, high in limits]
    if result.has_pvalues:
        columns["p"] = [_minus(format_pvalue(result.log10_pvalues[k])) for k in features]
        columns["q"] = [_minus(format_pvalue(result.log10_qvalues[k])) for k in features]
    if result.associated is not None:
        columns["evidence"] = [EVIDENCE[kind] for kind in evidence(result, features)]
    return table(list(columns), zip(*columns.values(), strict=True))


def score(result: ScreeningResult, feature: int, digits: int) -> str:
    """The score of a feature; empty for NaN."""
    return _minus(format_score(result.scores[feature], digits, result.one_sided))


def signed(value: float, digits: int) -> str:
    """A number with its sign; empty for NaN."""
    return _minus(format_score(value, digits, one_sided=False))


def _minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


ROUND_HEADS = ["round", "rows read", "features", "kept", "cutoff", "cells read", "time"]


def round_rows(result: ScreeningResult) -> list[list[str]]:
    """The cells of a table with a row per round, below :data:`ROUND_HEADS`."""
    rows = []
    for k, r in enumerate(result.rounds, 1):
        counts = [f"{k}", f"{r.n_rows:,}", f"{r.n_features:,}", f"{r.n_kept:,}"]
        rows.append([*counts, f"{r.cutoff:.4f}", f"{r.cells:,}", format_duration(r.seconds)])
    return rows


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text."""
    lines = ("".join(f"<td>{escape_text(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>{heading(head)}<tbody>{body}</tbody></table>"


def heading(names: Sequence[str]) -> str:
    """The head of a table."""
    cells = "".join(f'<th scope="col">{escape_text(name)}</th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


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
