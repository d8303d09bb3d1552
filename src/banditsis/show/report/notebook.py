"""HTML views of results and plans in a notebook, in the notebook's own colours."""

from __future__ import annotations

from typing import Any

from banditsis.core.formatting import ROUND_HEADS, count, round_rows
from banditsis.plans.plan import TABLE_HEADS, Plan
from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import describe_sign
from banditsis.results.several import describe_size
from banditsis.show.report.overview import overview_columns
from banditsis.show.report.tables import escape_text, features_table, table
from banditsis.show.report.text import answer

MAX_SHOWN = 10
STYLE = (
    ".banditsis :is(th, td) { text-align: right } .banditsis :first-child { text-align: left } "
    ".banditsis .answer { font-weight: bold }"
)


def summarize(found: Any) -> str:
    """The result of one response, or a table with a row for each of several."""
    if isinstance(found, ScreeningResult):
        return _wrap(_describe_one(found))
    columns = overview_columns(found)
    rows = zip(*columns.values(), strict=True)
    return _wrap(
        f"<p><b>{count(len(found), 'response')}</b>, {describe_size(found)}</p>{table(list(columns), rows)}"
    )


def _describe_one(result: ScreeningResult) -> str:
    """What was found, the best features, the share of cells read, the rounds, the floor and the notes."""
    n_more = len(result.selected) - MAX_SHOWN
    more = f"<p>… and {n_more:,} more</p>" if n_more > 0 else ""
    notes = [describe_sign(result), *(f"note: {note}" for note in result.notes)]
    return (
        f"{answer(result)}{features_table(result, MAX_SHOWN, max_length=48)}{more}"
        f"<details><summary>{count(len(result.rounds), 'round')}</summary>"
        f"{table(ROUND_HEADS, round_rows(result.rounds))}</details>"
        + "".join(f"<p>{escape_text(note)}</p>" for note in notes if note)
    )


def summarize_plan(plan: Plan) -> str:
    """A table with a row for each step."""
    return _wrap(f"<p>{escape_text(plan.headline())}</p>{table(TABLE_HEADS, plan.rows_of_table())}")


def _wrap(content: str) -> str:
    return f'<div class="banditsis"><style>{STYLE}</style>{content}</div>'
