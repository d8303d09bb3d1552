"""What a report of several responses starts with."""

from __future__ import annotations

from collections.abc import Sequence

from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import describe_response, sentence
from banditsis.results.several import ScreeningResults
from banditsis.show.report.tables import escape_text, heading, minus


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
        f"<p>{escape_text(sentence(describe_response(result)))}</p>"
    )
