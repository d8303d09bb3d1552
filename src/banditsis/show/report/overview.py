"""What a report of several responses starts with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from banditsis.results.result import ScreeningResult
from banditsis.results.several import ScreeningResults
from banditsis.show.report.tables import escape_text, heading, minus


def overview_columns(results: Sequence[ScreeningResult]) -> dict[str, list[str]]:
    """Columns with a value for each response: what was selected, and what stands out."""
    several = ScreeningResults(results)
    columns = several.overview()
    columns["score"] = list(map(minus, columns["score"]))
    if all(result.has_pvalues for result in several):
        columns["5% FDR over all tests"] = [
            f"{'≥ ' * _has_unknown_pvalues(result)}{len(found):,}"
            for result, found in zip(several, several.select().values(), strict=True)
        ]
    return columns


def _has_unknown_pvalues(result: ScreeningResult) -> bool:
    """Whether features were tested whose p-values are not known, so more may be significant."""
    tested = result.last_round == len(result.rounds) - 1
    return bool(np.isnan(result.log10_pvalues[tested]).any())


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


def section_heading(name: str) -> str:
    """The name of a response, and a link to the overview."""
    return (
        f'<header class="name"><h2>{escape_text(name)}</h2>'
        '<nav class="screen"><a href="#overview">all responses</a></nav></header>'
    )
