"""The sentences and settings of a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from banditsis.core.formatting import (
    ROUND_HEADS,
    count,
    format_duration,
    format_share,
    round_rows,
    shorten,
)
from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import (
    describe_answer,
    describe_floor,
    describe_inflation,
    describe_response,
    describe_run,
    describe_sampling,
    floor_condition,
    sentence,
)
from banditsis.results.several import describe_size
from banditsis.show.report.tables import bullet_list, definition_list, escape_text, table
from banditsis.statistics import STATISTICS

#: Labels that are not the name of the setting.
LABELS = {
    "alpha": "α",
    "discard": "Dropped per round",
    "min_correlation": "Minimum |r|",
    "pvalues": "P-values",
    "fdr": "False discovery rate",
    "missing": "Missing values",
    "positive_class": "Class of positive scores",
}


def default_title(results: Sequence[ScreeningResult]) -> str:
    """What the report is about."""
    if len(results) > 1:
        return f"Features associated with {len(results):,} responses"
    return f"Features associated with {results[0].about.response or 'the response'}"


def facts(results: Sequence[ScreeningResult]) -> str:
    """What was screened: the response if there is one, the data, their size, the statistic and the date."""
    first, single = results[0], len(results) == 1
    target = ": ".join(filter(None, [first.about.response, describe_response(first)]))
    contents = f"{count(max(result.n_rows for result in results), 'row')}, {first.about.contents}"
    date = max(result.about.created for result in results).replace("T", " ").replace("+00:00", " UTC")
    pairs = {
        "Target": target if single else "",
        "Data": _list_distinct(result.about.data for result in results),
        "Size": contents if first.about.contents else describe_size(results),
        "Statistic": _list_distinct(map(_describe_statistic, results)),
        "Date": date,
    }
    return definition_list((label, value) for label, value in pairs.items() if value)


def _describe_statistic(result: ScreeningResult) -> str:
    """The first line of the documentation of the statistic, without references."""
    name = str(result.parameters.get("statistic", "pearson"))
    summary = (STATISTICS[name].__doc__ if name in STATISTICS else None) or name
    return re.sub(r" \[\d+\]_", "", summary.strip().partition("\n")[0]).rstrip(".")


def _list_distinct(values: Iterable[str]) -> str:
    """The different values, in the order in which they first occur."""
    return "; ".join(filter(None, dict.fromkeys(values)))


def answer(result: ScreeningResult) -> str:
    """What was found, how much was read, what a sample could miss, and features that look like a mistake."""
    selected = f"{len(result.selected):,} of {count(result.n_features, 'feature')} selected"
    cost = f"{selected} in {format_duration(result.seconds)}. {describe_run(result)}"
    flags = [f"Check {shorten(result.name(k), 60)}: {flag}." for k, flag in result.flags.items()]
    lines = [("answer", sentence(describe_answer(result))), ("cost", cost), *(("warning", f) for f in flags)]
    return "".join(f'<p class="{kind}">{escape_text(line)}</p>' for kind, line in lines)


def findings(result: ScreeningResult) -> str:
    """The rounds, and what the result guarantees."""
    rounds = table(ROUND_HEADS, round_rows(result.rounds))
    return f'<div class="scroll">{rounds}</div>{bullet_list(reliability(result))}'


def settings(result: ScreeningResult) -> str:
    """All settings of the run, the versions of the software, and the command."""
    pairs = [
        (LABELS.get(key, sentence(key.replace("_", " "))), "yes" if value is True else value)
        for key, value in result.parameters.items()
    ]
    pairs += [(f"{name} version", version) for name, version in result.about.versions.items()]
    command = f"<p>The command:</p><pre><code>{escape_text(result.about.command)}</code></pre>"
    return definition_list(pairs) + (command if result.about.command else "")


def reliability(result: ScreeningResult) -> list[str]:
    """What the result guarantees, what it does not, and its notes."""
    sentences = [
        describe_sampling(result),
        describe_floor(result),
        _describe_simultaneous_floor(result),
        _describe_intervals(result),
        "P-values (p) are not adjusted for multiple testing; q-values (q) are, by Benjamini and Hochberg."
        if result.has_pvalues
        else "",
        describe_inflation(result),
        _describe_rule(result),
        "Screening scores each feature on its own. It can miss features that matter only in combination "
        "with others.",
    ]
    return [sentence(text) for text in [*sentences, *result.notes, *result.details] if text]


def _describe_simultaneous_floor(result: ScreeningResult) -> str:
    if result.evidence.no_floor_reason is not None or result.is_exact:
        return ""
    floor = result.detection_floor(simultaneous=True)
    return f"With probability 95%, no feature with |r| ≥ {floor:.4f} was dropped{floor_condition(result)}."


def _describe_intervals(result: ScreeningResult) -> str:
    if result.evidence.no_interval_reason is not None:
        return f"There are no confidence intervals: {result.evidence.no_interval_reason}."
    if not len(result.selected):
        return ""
    return (
        "Intervals are not corrected for selection. The features were selected for large scores, so "
        "their true correlations tend to be closer to 0."
    )


def _describe_rule(result: ScreeningResult) -> str:
    """When a feature is marked as clearly associated."""
    if "fdr" in result.parameters:
        rate = format_share(result.parameters["fdr"])
        return (
            f"The selected features are significant at a false discovery rate of {rate}, by Benjamini and "
            f"Hochberg: on average at most {rate} of features selected in this way are not associated."
        )
    if result.associated is None or not len(result.selected):
        return ""
    interval = "its 95% interval, simultaneous for all features, does not contain 0"
    rule = "p ≤ 0.05 after Holm's correction for all features" if result.has_pvalues else interval
    return (
        f"A feature is clearly associated if {rule}: with probability 95%, no feature without "
        "association is among them."
    )
