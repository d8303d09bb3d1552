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
from banditsis.core.formatting import printable
from banditsis.results.features import describe_features
from banditsis.results.output import to_lists
from banditsis.results.result import ScreeningResult

#: Maximum number of features in the tables of a report, of all responses together.
MAX_LISTED = 100_000
#: Features that are shown without the page's script.
MAX_SHOWN = 25
#: Marks of what is known about a selected feature.
MARKS = {"signal": "● ", "noise": "◇ ", "unknown": ""}


def list_features(result: ScreeningResult, max_listed: int) -> dict[str, Any]:
    """The table of features by rank, selected ones first, as data for the page's script."""
    features = describe_features(result, _features_by_rank(result, max_listed))
    return {
        "selected": min(len(result.selected), len(features)),
        "one_sided": result.evidence.one_sided,
        # Two digits of a p-value of 1e-5000 need more digits of its logarithm.
        "columns": {
            name: [_rounded(value, 8 if "log10" in name else 6) for value in values]
            for name, values in to_lists(features).items()
        },
    }


def _features_by_rank(result: ScreeningResult, max_listed: int) -> Indices:
    """The best features. Features whose score was not stored are left out."""
    n_selected = len(result.selected)
    if n_selected >= max_listed:
        return result.selected[:max_listed]
    rest = np.argsort(result.ranking)[n_selected:max_listed]
    return np.concatenate([result.selected, rest[~np.isnan(result.scores[rest])]])


def _rounded(value: Any, digits: int) -> Any:
    """A value for JSON; few digits keep the page small."""
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def pack(value: Any) -> str:
    """JSON, compressed, in base64: small, and without characters that could end an element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def features_table(result: ScreeningResult, max_features: int, max_length: int) -> str:
    """A table of the best features, with labels of at most ``max_length`` characters."""
    features = result.features.take(slice(max_features))
    columns = {"feature": features.labels(max_length)}
    columns |= {heading: list(map(minus, cells)) for heading, cells in features.texts().items()}
    if "evidence" in columns:
        marks = zip(features.evidence, columns["evidence"], strict=True)
        columns["evidence"] = [MARKS[kind] + word for kind, word in marks]
    return table(list(columns), zip(*columns.values(), strict=True))


def minus(text: str) -> str:
    """A number as text with the sign that typography has for it."""
    return text.replace("-", "\N{MINUS SIGN}")


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
