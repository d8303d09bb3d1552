"""Results as JSON, as pages and in notebooks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core.arrays import Array

#: Stands for the logarithm of 0 among the selected features; JSON has no infinity.
LOG_OF_ZERO = -1e308
#: Attributes of a result that are in its record, and those of its evidence.
SUMMARY = ("n_rows", "n_features", "cells_read", "fraction_read", "parameters", "notes")
EVIDENCE = ("cells_reread", "one_sided", "no_floor_reason", "no_interval_reason")


class Output:
    """Methods that write the result of one response, or those of several."""

    def to_json(self) -> str:
        """JSON with the selected features, rounds, parameters and versions; of several responses, by name.

        The text is ASCII, with escapes for other characters. JSON has no infinity: the logarithm of a p-value
        of 0 is -1e308.
        """
        return json.dumps(to_record(self))

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str | None:
        """A report in one HTML file that works offline: what was found, the features, and how.

        The best 100,000 features are listed in a table that can be sorted, searched and saved as CSV. The
        report of several responses has an overview and a section for each.

        Parameters
        ----------
        path : path, optional
            The file to write, atomically; by default the text is returned.
        title : str, optional
            Heading of the report; by default it names the response.
        """
        from banditsis.show.report import write_report  # only needed here

        return write_report(self, path, title)

    def _repr_html_(self) -> str:
        from banditsis.show.report.text import summarize  # only needed in notebooks

        return summarize(self)

    def __repr__(self) -> str:
        return str(self)


def to_record(result: Any) -> dict[str, Any]:
    """A result, or several, as plain data; see :meth:`Output.to_json`."""
    if hasattr(result, "results"):
        return {"responses": dict(zip(result.names, map(to_record, result.results), strict=True))}
    columns = to_lists(result.features.columns)
    return {
        "features": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "rounds": [asdict(r) for r in result.rounds],
        "detection_floor": None if result.evidence.no_floor_reason else result.detection_floor(),
        "undecided": result.undecided.tolist(),
        "bins": to_lists(result.evidence.bins),
        **{name: getattr(result, name) for name in SUMMARY},
        **{name: getattr(result.evidence, name) for name in EVIDENCE},
        **vars(result.about),
    }


def to_lists(columns: Mapping[str, Array]) -> dict[str, list[Any]]:
    """The columns of a table for JSON, which has neither NaN nor infinity."""
    return {name: list(map(to_finite, values.tolist())) for name, values in columns.items()}


def to_finite(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if np.isnan(value) else max(value, LOG_OF_ZERO)
