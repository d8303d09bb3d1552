"""The table of features that all outputs show, and the methods that write results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.core.formatting import encodable, format_pvalue, format_score, short_labels
from banditsis.results.evidence import has_pvalues, rank_features
from banditsis.statistics.null_distributions import adjust_pvalues

if TYPE_CHECKING:
    from banditsis.results.result import ScreeningResult

#: Flag of features that may be made from the response.
LEAKAGE = "possible leakage"
#: Stands for the logarithm of 0, as JSON has no infinity.
LOG_OF_ZERO = -1e308


@dataclass(frozen=True, eq=False)
class Features:
    """A table with one row for each feature; columns that the result does not have are left out.

    The ``columns`` are rank, name, index, annotations, score, limits of the 95% interval, p-value, adjusted
    p-value and their decimal logarithms, whether the feature is clearly associated (it is called ``found``),
    effect size and its standard error, rows in which it is present, rows read, the round in which it was
    dropped (0 if selected), and its flag. ``one_sided`` is as in :class:`Evidence`.
    """

    columns: Mapping[str, Array]
    one_sided: bool = False
    found: str = "clear"

    def __len__(self) -> int:
        return len(self.columns["index"])

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def take(self, rows: Any) -> Features:
        """The table of some of the features, by their positions or a slice."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return Features(columns, self.one_sided, self.found)

    def labels(self, max_length: int) -> list[str]:
        """The names, shortened to labels that are all different."""
        return short_labels(self["name"].tolist(), max_length)

    def scores(self, digits: int) -> list[str]:
        """The scores as text; NaN is empty."""
        return [format_score(score, digits, self.one_sided) for score in self["score"]]

    @property
    def evidence(self) -> list[str]:
        """What is known about each of the selected features: "signal", "unclear", "unknown" or "leak"."""
        known = ["unknown"] * len(self)
        if "associated" in self:
            known = ["signal" if clear else "unclear" for clear in self["associated"]]
        return ["leak" if flag == LEAKAGE else kind for flag, kind in zip(self["flag"], known, strict=True)]

    @property
    def words(self) -> list[str]:
        """The evidence on each of the selected features in a word."""
        words = {"signal": self.found, "unclear": "unclear", "unknown": "", "leak": "leakage?"}
        return [words[kind] for kind in self.evidence]

    def texts(self) -> dict[str, list[str]]:
        """The columns for readers, with headings: score, interval, p, q, present rows, PSI and evidence."""
        texts = {"score": self.scores(4)}
        if "low" in self:
            low, high = ([format_score(limit, 3, False) for limit in self[end]] for end in ("low", "high"))
            texts["95% interval"] = [" to ".join(limits) for limits in zip(low, high, strict=True)]
        if "pvalue" in self:
            texts["p"] = list(map(format_pvalue, self["log10_pvalue"]))
            texts["adjusted p"] = list(map(format_pvalue, self["log10_adjusted_pvalue"]))
        if "present" in self and (self["present"] < self["rows_read"]).any():
            texts["present"] = list(map("{:,.0f}".format, self["present"]))
        if indices := [values for name, values in self.columns.items() if name.startswith("psi ")]:
            texts["largest PSI"] = [format_score(value, 3, True) for value in np.fmax.reduce(indices)]
        if "associated" in self:
            texts["evidence"] = self.words
        return texts


def list_features(result: ScreeningResult, all_features: bool) -> Features:
    """The table of the selected features, or of all by rank."""
    return describe_features(result, np.argsort(rank_features(result))) if all_features else result.features


def describe_features(result: ScreeningResult, chosen: Indices) -> Features:
    """The table of some features; what is only known of selected features is missing for others."""
    place = np.full(result.n_features, -1)
    place[result.selected] = np.arange(len(result.selected))
    place = place[chosen]

    def of_selected(values: Array) -> Array:
        return np.asarray(np.append(values, np.nan)[place])

    columns: dict[str, Any] = {
        "rank": place + 1 if (place >= 0).all() else rank_features(result)[chosen],
        "name": np.array([encodable(result.name(k)) for k in chosen], dtype=object),
        "index": chosen,
        **{name: values[chosen] for name, values in result.annotations.items()},
        "score": result.scores[chosen],
    }
    if result.evidence.no_interval_reason is None:
        low, high = result.interval().T
        columns |= {"low": of_selected(low), "high": of_selected(high)}
    if has_pvalues(result):
        pvalues = result.log10_pvalues
        for name, log10 in (("pvalue", pvalues), ("adjusted_pvalue", adjust_pvalues(pvalues))):
            columns |= {name: 10.0 ** log10[chosen], f"log10_{name}": log10[chosen]}
    if result.associated is not None:
        marks = np.isin(chosen, result.associated)
        columns["associated"] = marks if (place >= 0).all() else np.where(place < 0, np.array(None), marks)
    effects = {} if result.effects is None else result.effects._asdict()
    columns |= {name: of_selected(v) for name, v in effects.items() if not np.isnan(v).all()}
    if result.evidence.present is not None:
        columns["present"] = of_selected(result.evidence.present)
    columns["rows_read"] = np.array([r.n_rows for r in result.rounds])[result.last_round[chosen]]
    columns["round_dropped"] = np.where(place < 0, result.last_round[chosen] + 1, 0)
    columns["flag"] = np.array([result.flags.get(int(k), "") for k in chosen], dtype=object)
    found = "discovery" if "fdr" in result.parameters else "clear"
    return Features(columns, result.evidence.one_sided, found)


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
        from banditsis.show.report import summarize  # only needed in notebooks

        return summarize(self)

    def __repr__(self) -> str:
        return str(self)


def to_record(result: Any) -> dict[str, Any]:
    """A result, or several, as plain data for JSON; see :meth:`ScreeningResult.to_json`."""
    if hasattr(result, "results"):
        return {"responses": dict(zip(result.names, map(to_record, result.results), strict=True))}
    columns, evidence = to_lists(result.features.columns), result.evidence
    names = ("n_rows", "n_features", "cells_read", "fraction_read", "parameters", "notes")
    of_evidence = ("cells_reread", "one_sided", "no_floor_reason", "no_interval_reason")
    return {
        "features": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "rounds": [asdict(r) for r in result.rounds],
        "detection_floor": None if evidence.no_floor_reason else result.detection_floor(),
        "undecided": result.undecided.tolist(),
        "bins": to_lists(evidence.bins),
        **{name: getattr(result, name) for name in names},
        **{name: getattr(evidence, name) for name in of_evidence},
        **vars(result.about),
    }


def to_lists(columns: Mapping[str, Array]) -> dict[str, list[Any]]:
    """The columns of a table for JSON, which has neither NaN nor infinity."""
    return {name: list(map(_to_finite, values.tolist())) for name, values in columns.items()}


def _to_finite(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if np.isnan(value) else max(value, LOG_OF_ZERO)
