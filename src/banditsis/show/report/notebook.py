"""HTML views of results and plans in a notebook, in the notebook's own colours."""

from __future__ import annotations

from collections.abc import Sequence

from banditsis.core.formatting import ROUND_HEADS, count, format_duration, format_share, round_rows
from banditsis.plans.plan import TABLE_HEADS, Plan
from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import describe_answer, describe_floor, describe_sign, sentence
from banditsis.results.several import describe_size
from banditsis.show.report.overview import overview_columns
from banditsis.show.report.tables import escape_text, features_table, table

MAX_SHOWN = 10
STYLE = ".banditsis :is(th, td) { text-align: right } .banditsis :first-child { text-align: left }"


def summarize(result: ScreeningResult) -> str:
    """What was found, the best features, the share of cells read, the rounds, the floor and the notes."""
    n_selected, n_cells = len(result.selected), result.n_rows * result.n_features
    target = f" for {escape_text(result.response)}" if result.response else ""
    reading = (
        f"{n_selected:,} of {count(result.n_features, 'feature')} selected{target}; read "
        f"{format_share(result.fraction_read)} of {n_cells:,} cells in {format_duration(result.seconds)}"
    )
    more = f"<p>… and {n_selected - MAX_SHOWN:,} more</p>" if n_selected > MAX_SHOWN else ""
    notes = "".join(f"<p>{escape_text(line)}</p>" for line in filter(None, [describe_sign(result)]))
    notes += "".join(f"<p>note: {escape_text(note)}</p>" for note in result.notes)
    return _wrap(
        f"<p><b>{escape_text(sentence(describe_answer(result)))}</b></p>"
        f"{features_table(result, MAX_SHOWN, max_length=48)}{more}<p>{reading}</p>"
        f"<details><summary>{count(len(result.rounds), 'round')}</summary>"
        f"{table(ROUND_HEADS, round_rows(result.rounds))}</details>"
        f"<p>{escape_text(describe_floor(result))}</p>{notes}"
    )


def summarize_several(results: Sequence[ScreeningResult]) -> str:
    """A table with a row for each response."""
    columns = overview_columns(results)
    head = f"<p><b>{count(len(results), 'response')}</b>, {describe_size(results)}</p>"
    return _wrap(head + table(list(columns), zip(*columns.values(), strict=True)))


def summarize_plan(plan: Plan) -> str:
    """A table with a row for each step."""
    return _wrap(f"<p>{escape_text(plan.headline())}</p>{table(TABLE_HEADS, plan.rows_of_table())}")


def _wrap(content: str) -> str:
    return f'<div class="banditsis"><style>{STYLE}</style>{content}</div>'
