"""What a report and a notebook say: the answer, tables of several responses, findings and settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from banditsis.core.formatting import (
    ROUND_HEADS,
    count,
    format_duration,
    format_share,
    round_rows,
    round_share,
    short_labels,
    shorten,
)
from banditsis.engine.redundancy import DUPLICATE
from banditsis.results import (
    ScreeningResult,
    ScreeningResults,
    describe_size,
    has_pvalues,
    is_exact,
    sentences,
)
from banditsis.show.report.tables import (
    bullet_list,
    definition_list,
    escape_text,
    features_table,
    heading,
    minus,
    table,
)
from banditsis.statistics import STATISTICS

#: Features of a result in a notebook, and the style of its tables, which have the notebook's own colours.
MAX_IN_NOTEBOOK = 10
NOTEBOOK_STYLE = (
    ".banditsis :is(th, td) { text-align: right } .banditsis :first-child { text-align: left } "
    ".banditsis .answer { font-weight: bold }"
)
#: Features whose near-duplicates are listed, and how many of each are named.
MAX_GROUPS, MAX_NAMED = 40, 10
#: Labels that are not the name of the setting.
LABELS = {
    "alpha": "α",
    "min_correlation": "Minimum |r|",
    "pvalues": "P-values",
    "fdr": "False discovery rate",
    "missing": "Missing values",
    "positive_class": "Class of positive scores",
}


def default_title(results: Sequence[ScreeningResult]) -> str:
    if len(results) > 1:
        return f"Features associated with {len(results):,} responses"
    return f"Features associated with {results[0].about.response or 'the response'}"


def facts(results: Sequence[ScreeningResult]) -> str:
    """What was screened: the response if there is one, the data, their size, the statistic and the date."""
    first, single = results[0], len(results) == 1
    target = ": ".join(filter(None, [first.about.response, sentences.describe_response(first)]))
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
    duration = format_duration(sum(r.seconds for r in result.rounds))
    cost = f"{selected} in {duration}. {sentences.describe_run(result)}"
    flags = [f"Check {shorten(result.name(k), 60)}: {flag}." for k, flag in result.flags.items()]
    found = sentences.sentence(sentences.describe_answer(result))
    lines = [("answer", found), ("cost", cost), *(("warning", flag) for flag in flags)]
    return "".join(f'<p class="{kind}">{escape_text(line)}</p>' for kind, line in lines)


def findings(result: ScreeningResult) -> str:
    """The rounds, and what the result guarantees."""
    rounds = table(ROUND_HEADS, round_rows(result.rounds))
    return f'<div class="scroll">{rounds}</div>{bullet_list(reliability(result))}'


def redundancy(result: ScreeningResult) -> str:
    """Correlations among the selected features, and those left out, if redundant ones were."""
    paragraphs = []
    if result.evidence.correlation is not None and len(result.selected) > 1:
        r = np.abs(result.evidence.correlation[np.triu_indices(len(result.selected), 1)])
        largest = (
            f"The mean |r| among the selected features is {r.mean():.2f}, and the largest {r.max():.2f}."
        )
        paragraphs.append(f"<p>{largest}</p>")
    left_out = []
    for k, group in list(result.evidence.near_duplicates.items())[:MAX_GROUPS]:
        kept, *others = short_labels([result.name(j) for j in (k, *group[:MAX_NAMED])], 22)
        more = f" and {len(group) - MAX_NAMED:,} more" if len(group) > MAX_NAMED else ""
        left_out.append(f"{kept}: {', '.join(others)}{more}")
    if left_out:
        reason = f"because |r| &gt; {DUPLICATE:g} with a selected feature"
        paragraphs.append(f"<p>Left out, {reason}:</p>{bullet_list(left_out)}")
    return "".join(paragraphs)


def settings(result: ScreeningResult) -> str:
    """All settings of the run, the versions of the software, and the command."""
    pairs = [
        (LABELS.get(key, sentences.sentence(str(key).replace("_", " "))), "yes" if value is True else value)
        for key, value in result.parameters.items()
        if key != "discard"  # a share of the surplus; the shares of all features are easier to read
    ]
    if len(result.rounds) > 1:
        dropped = (round_share(1 - step.n_kept / step.n_features) for step in result.rounds)
        pairs.append(("Features dropped per round", ", ".join(dropped)))
    pairs += [(f"{name} version", version) for name, version in result.about.versions.items()]
    command = f"<p>The command:</p><pre><code>{escape_text(result.about.command)}</code></pre>"
    return definition_list(pairs) + (command if result.about.command else "")


def reliability(result: ScreeningResult) -> list[str]:
    """What the result guarantees, what it does not, and its notes."""
    lines = [sentences.describe_sampling(result), sentences.describe_floor(result)]
    if result.evidence.no_floor_reason is None and not is_exact(result):
        floor, condition = result.detection_floor(simultaneous=True), sentences.floor_condition(result)
        lines.append(f"With probability 95%, no feature with |r| ≥ {floor:.4f} was dropped{condition}.")
    if result.evidence.no_interval_reason is not None:
        lines.append(f"There are no confidence intervals: {result.evidence.no_interval_reason}.")
    elif len(result.selected):
        lines.append(
            "Intervals are not corrected for selection. The features were selected for large scores, so "
            "their true correlations tend to be closer to 0."
        )
    if has_pvalues(result):
        lines.append(
            "P-values (p) are not corrected for multiple testing; adjusted p-values are, by Benjamini and "
            "Hochberg."
        )
    alone = (
        "Screening scores each feature on its own. It can miss features that matter only in combination with "
        "others."
    )
    lines += [sentences.describe_inflation(result), _describe_rule(result), alone]
    return [sentences.sentence(line) for line in (*lines, *result.notes) if line]


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
    rule = "p ≤ 0.05 after Holm's correction for all features" if has_pvalues(result) else interval
    return (
        f"A feature is clearly associated if {rule}: with probability 95%, no feature without "
        "association is among them."
    )


def overview_columns(results: Sequence[ScreeningResult]) -> dict[str, list[str]]:
    """Columns with a value for each response: what was selected, and what stands out."""
    columns = ScreeningResults(results).overview()
    return columns | {"score": list(map(minus, columns["score"]))}


def overview(results: Sequence[ScreeningResult]) -> str:
    """A table of the responses with links to their sections."""
    columns = overview_columns(results)
    rows = []
    for k, (name, *cells) in enumerate(zip(*columns.values(), strict=True)):
        link = f'<a href="#response-{k}">{escape_text(name)}</a>'
        rest = "".join(f"<td>{escape_text(cell)}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{link}</th>{rest}</tr>')
    return (
        f'<section id="overview"><div class="scroll"><table class="overview">{heading(list(columns))}'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def section_heading(name: str, result: ScreeningResult) -> str:
    """The name of a response, a link to the overview, and what the response is."""
    return (
        f'<header class="name"><h2>{escape_text(name)}</h2>'
        '<nav class="screen"><a href="#overview">all responses</a></nav></header>'
        f"<p>{escape_text(sentences.sentence(sentences.describe_response(result)))}</p>"
    )


def summarize(shown: Any) -> str:
    """A result, or a table of several results, in a notebook."""
    if isinstance(shown, ScreeningResult):
        content = _summarize_result(shown)
    else:
        columns = overview_columns(shown)
        content = f"<p><b>{count(len(shown), 'response')}</b>, {describe_size(shown)}</p>"
        content += table(list(columns), zip(*columns.values(), strict=True))
    return f'<div class="banditsis"><style>{NOTEBOOK_STYLE}</style>{content}</div>'


def _summarize_result(result: ScreeningResult) -> str:
    """What was found, the best features, the share of cells read, the rounds, the floor and the notes."""
    n_more = len(result.selected) - MAX_IN_NOTEBOOK
    more = f"<p>… and {n_more:,} more</p>" if n_more > 0 else ""
    notes = [sentences.describe_sign(result), *(f"note: {note}" for note in result.notes)]
    return (
        f"{answer(result)}{features_table(result, MAX_IN_NOTEBOOK, max_length=48)}{more}"
        f"<details><summary>{count(len(result.rounds), 'round')}</summary>"
        f"{table(ROUND_HEADS, round_rows(result.rounds))}</details>"
        + "".join(f"<p>{escape_text(note)}</p>" for note in notes if note)
    )
