"""A result in a notebook: small, quick, and in the notebook's own colours."""

from __future__ import annotations

from banditsis.describing import format_share
from banditsis.formatting import format_duration
from banditsis.report.markup import features_table, plain, rounds_table
from banditsis.results import ScreeningResult, describe_floor

MAX_SHOWN = 10
STYLE = ".banditsis td, .banditsis th { text-align: left } .banditsis .number { text-align: right }"


def summarize(result: ScreeningResult) -> str:
    """A line on what was read, the best features, the rounds folded away, the floor and the notes."""
    cells = result.n_rows * result.n_features
    head = (
        f"<b>{len(result.selected):,} of {result.n_features:,} features selected</b>; read "
        f"{format_share(result.fraction_read)} of {cells:,} cells in {format_duration(result.seconds)}"
    )
    hidden = len(result.selected) - MAX_SHOWN
    more = f"<p>… and {hidden:,} more</p>" if hidden > 0 else ""
    rounds = f"{len(result.rounds)} round{'s' if len(result.rounds) > 1 else ''}"
    notes = "".join(f"<p>note: {plain(note)}</p>" for note in result.notes)
    return (
        f'<div class="banditsis"><style>{STYLE}</style><p>{head}</p>'
        f"{features_table(result, MAX_SHOWN, longest=48)}{more}"
        f"<details><summary>{rounds}</summary>{rounds_table(result)}</details>"
        f"<p>{plain(describe_floor(result))}</p>{notes}</div>"
    )
