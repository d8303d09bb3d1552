"""Screening results as one self-contained HTML page that needs no network, and in notebooks."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

import banditsis
from banditsis.core.formatting import (
    ROUND_HEADS,
    count,
    format_duration,
    format_share,
    round_rows,
    round_share,
    short_labels,
    shorten,
    write_text,
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
from banditsis.show.tables import (
    bullet_list,
    definition_list,
    escape_text,
    features_table,
    heading,
    minus,
    pack_features,
    ranked_chart,
    table,
)
from banditsis.statistics import STATISTICS

#: Maximum number of features in the tables of a report, of all responses together.
MAX_LISTED = 100_000
#: Features that are shown without the page's script, and in a notebook.
MAX_SHOWN, MAX_IN_NOTEBOOK = 25, 10
#: The style of a notebook's tables, which have the notebook's own colours.
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


def write_report(found: Any, path: str | Path | None, title: str | None) -> str | None:
    """Write the page to a file, or return it as text; see :meth:`ScreeningResult.to_html`."""
    page = render([found] if isinstance(found, ScreeningResult) else list(found), title)
    if path is None:
        return page
    write_text(Path(path), page)
    return None


def render(results: Sequence[ScreeningResult], title: str | None = None, max_listed: int = MAX_LISTED) -> str:
    """The page as text, with a limit for the features in all tables."""
    style, script = _asset("page.css"), _asset("page.js")
    # Text from the data is escaped; in addition, the browser runs no other script than the page's own.
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    several = len(results) > 1
    about = f"{len(results):,} responses" if several else results[0].about.response or "the response"
    articles = []
    for k, (name, result) in enumerate(zip(ScreeningResults(results).names, results, strict=True)):
        content = _show(result, max_listed // len(results))
        if several:
            content = (
                f'<header class="name"><h2>{escape_text(name)}</h2>'
                '<nav class="screen"><a href="#overview">all responses</a></nav></header>'
                f"<p>{escape_text(sentences.sentence(sentences.describe_response(result)))}</p>{content}"
            )
        articles.append(f'<article class="response" id="response-{k}">{content}</article>')
    return Template(_asset("page.html")).substitute(
        policy=policy,
        version=escape_text(banditsis.__version__),
        title=escape_text(f"Features associated with {about}" if title is None else title),
        style=style,
        script=script,
        facts=_facts(results),
        overview=_overview(results) if several else "",
        sections="\n".join(articles),
    )


def _show(result: ScreeningResult, max_listed: int) -> str:
    """Everything about one response, the answer first."""
    n_listed, data = pack_features(result, max_listed)
    features = Template(_asset("features.html")).substitute(
        n_listed=f"{n_listed:,} of {result.n_features:,}", table=features_table(result, MAX_SHOWN), data=data
    )
    rounds = f'<div class="scroll">{_rounds(result)}</div>'
    sections = {
        "Features": features,
        "Redundant features": _redundancy(result),
        "How they were found": rounds + bullet_list(reliability(result)),
        "Settings": _settings(result),
    }
    parts = [f"<section><h2>{title}</h2>{text}</section>" for title, text in sections.items() if text]
    return _answer(result) + ranked_chart(result, MAX_SHOWN) + "\n".join(parts)


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _digest(content: str) -> str:
    """Hash of an inline script or style, as a Content-Security-Policy writes it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _facts(results: Sequence[ScreeningResult]) -> str:
    """What was screened: the response if there is one, the data, their size, the statistic and the date."""
    about, single = results[0].about, len(results) == 1
    target = ": ".join(filter(None, [about.response, sentences.describe_response(results[0])]))
    contents = f"{count(max(result.n_rows for result in results), 'row')}, {about.contents}"
    date = max(result.about.created for result in results).replace("T", " ").replace("+00:00", " UTC")
    pairs = {
        "Target": target if single else "",
        "Data": _list_distinct(result.about.data for result in results),
        "Size": contents if about.contents else describe_size(results),
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


def _answer(result: ScreeningResult) -> str:
    """What was found, how much was read, what a sample could miss, and features that look like a mistake."""
    selected = f"{len(result.selected):,} of {count(result.n_features, 'feature')} selected"
    duration = format_duration(sum(r.seconds for r in result.rounds))
    lines = [
        ("answer", sentences.sentence(sentences.describe_answer(result))),
        ("cost", f"{selected} in {duration}. {sentences.describe_run(result)}"),
        *(("warning", f"Check {shorten(result.name(k), 60)}: {flag}.") for k, flag in result.flags.items()),
    ]
    return "".join(f'<p class="{kind}">{escape_text(line)}</p>' for kind, line in lines)


def _rounds(result: ScreeningResult) -> str:
    return table(ROUND_HEADS, round_rows(result.rounds))


def _redundancy(result: ScreeningResult) -> str:
    """Correlations among the selected features, and those left out, if redundant ones were."""
    paragraphs, evidence = [], result.evidence
    if evidence.correlation is not None and len(result.selected) > 1:
        r = np.abs(evidence.correlation[np.triu_indices(len(result.selected), 1)])
        sizes = f"{r.mean():.2f}, and the largest {r.max():.2f}"
        paragraphs.append(f"<p>The mean |r| among the selected features is {sizes}.</p>")
    left_out = []
    for k, group in list(evidence.near_duplicates.items())[:MAX_GROUPS]:
        kept, *others = short_labels([result.name(j) for j in (k, *group[:MAX_NAMED])], 22)
        more = f" and {len(group) - MAX_NAMED:,} more" if len(group) > MAX_NAMED else ""
        left_out.append(f"{kept}: {', '.join(others)}{more}")
    if left_out:
        reason = f"because |r| &gt; {DUPLICATE:g} with a selected feature"
        paragraphs.append(f"<p>Left out, {reason}:</p>{bullet_list(left_out)}")
    return "".join(paragraphs)


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
    lines += [sentences.describe_inflation(result), _describe_rule(result)]
    lines.append(
        "Screening scores each feature on its own. It can miss features that matter only in combination with "
        "others."
    )
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


def _settings(result: ScreeningResult) -> str:
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


def _overview_columns(results: Sequence[ScreeningResult]) -> dict[str, list[str]]:
    """Columns with a value for each response: what was selected, and what stands out."""
    columns = ScreeningResults(results).overview()
    return columns | {"score": list(map(minus, columns["score"]))}


def _overview(results: Sequence[ScreeningResult]) -> str:
    """A table of the responses with links to their sections."""
    columns = _overview_columns(results)
    rows = []
    for k, (name, *cells) in enumerate(zip(*columns.values(), strict=True)):
        link = f'<a href="#response-{k}">{escape_text(name)}</a>'
        rest = "".join(f"<td>{escape_text(cell)}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{link}</th>{rest}</tr>')
    return (
        f'<section id="overview"><div class="scroll"><table class="overview">{heading(list(columns))}'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def summarize(shown: Any) -> str:
    """A result, or a table of several results, in a notebook."""
    if isinstance(shown, ScreeningResult):
        n_more = len(shown.selected) - MAX_IN_NOTEBOOK
        more = f"<p>… and {n_more:,} more</p>" if n_more > 0 else ""
        notes = [sentences.describe_sign(shown), *(f"note: {note}" for note in shown.notes)]
        content = (
            f"{_answer(shown)}{features_table(shown, MAX_IN_NOTEBOOK)}{more}<details>"
            f"<summary>{count(len(shown.rounds), 'round')}</summary>{_rounds(shown)}</details>"
            + "".join(f"<p>{escape_text(note)}</p>" for note in notes if note)
        )
    else:
        columns = _overview_columns(shown)
        content = f"<p><b>{count(len(shown), 'response')}</b>, {describe_size(shown)}</p>"
        content += table(list(columns), zip(*columns.values(), strict=True))
    return f'<div class="banditsis"><style>{NOTEBOOK_STYLE}</style>{content}</div>'
