"""The HTML view of a result in a notebook, in the notebook's own colours."""

from __future__ import annotations

from banditsis.formatting import count, format_duration, format_share
from banditsis.report.tables import escape_text, features_table, rounds_table
from banditsis.results import ScreeningResult, describe_floor

MAX_SHOWN = 10
STYLE = ".banditsis :is(th, td) { text-align: right } .banditsis :first-child { text-align: left }"


def summarize(result: ScreeningResult) -> str:
    """The share of cells read, the best features, the rounds (collapsed), the floor and the notes."""
    n_selected, n_cells = len(result.selected), result.n_rows * result.n_features
    head = (
        f"<b>{n_selected:,} of {count(result.n_features, 'feature')} selected</b>; read "
        f"{format_share(result.fraction_read)} of {n_cells:,} cells in {format_duration(result.seconds)}"
    )
    more = f"<p>… and {n_selected - MAX_SHOWN:,} more</p>" if n_selected > MAX_SHOWN else ""
    notes = "".join(f"<p>note: {escape_text(note)}</p>" for note in result.notes)
    return (
        f'<div class="banditsis"><style>{STYLE}</style><p>{head}</p>'
        f"{features_table(result, MAX_SHOWN, max_length=48)}{more}"
        f"<details><summary>{count(len(result.rounds), 'round')}</summary>{rounds_table(result)}</details>"
        f"<p>{escape_text(describe_floor(result))}</p>{notes}</div>"
    )
