"""What plots, reports and notebooks say of a result: numbers where they are known, and short sentences."""

from __future__ import annotations

from banditsis.arrays import Floats
from banditsis.formatting import encodable
from banditsis.results import ScreeningResult


def known_floor(result: ScreeningResult, *, simultaneous: bool = False) -> float | None:
    """The detection floor at 95%, or None where it is withheld."""
    try:
        return result.detection_floor(simultaneous=simultaneous)
    except ValueError:
        return None


def known_intervals(result: ScreeningResult) -> Floats | None:
    """The 95% intervals of the selected features, or None for a statistic that has none."""
    try:
        return result.interval()
    except ValueError:
        return None


def format_share(share: float) -> str:
    """A share in percent that never rounds to nothing, nor up to everything.

    Examples
    --------
    >>> [format_share(share) for share in (1, 0.99999, 0.019, 2.5e-7)]
    ['100%', '99.999%', '1.9%', '0.000025%']
    """
    if share in (0, 1):
        return f"{share:.0%}"
    percent = 100 * share
    digits = 1
    while float(f"{percent:.{digits}f}") in (0, 100) or percent * 10**digits < 1.5:
        digits += 1
    return f"{percent:.{digits if percent >= 1 else digits + 1}f}".rstrip("0").rstrip(".") + "%"


def short_floor(result: ScreeningResult) -> str:
    """The detection floor in a few words; ``describe_floor`` says why where it is withheld."""
    floor = known_floor(result)
    if floor is None:
        return "detection floor: withheld"
    exact = result.rounds[0].n_rows >= result.n_rows
    return f"detection floor: {floor:.3g} ({'every row read' if exact else '95%'})"


def shorten(name: str, most: int = 32) -> str:
    """A name on one line, its middle left out where it is long.

    Examples
    --------
    >>> shorten("a name that goes on and on and on", 12)
    'a name…nd on'
    """
    name = encodable(" ".join(name.split()))
    return name if len(name) <= most else f"{name[: most // 2]}…{name[len(name) - (most - most // 2 - 1) :]}"


def describe_reading(result: ScreeningResult) -> str:
    """What was read of how much, in a phrase."""
    return (
        f"{result.n_features:,} → {len(result.selected):,} features, "
        f"{format_share(result.fraction_read)} of {result.n_rows * result.n_features:,} cells read"
    )


def shows_better_in_logs(result: ScreeningResult) -> bool:
    """Whether a map to scale would have what was read as a thin line."""
    return 10 * result.rounds[-1].n_rows < result.n_rows


def distinct_cells(result: ScreeningResult) -> int:
    """Cells that were read at least once; some statistics read earlier rows again in each round."""
    rows = [0, *(r.n_rows for r in result.rounds)]
    return sum((r.n_rows - before) * r.n_features for before, r in zip(rows, result.rounds, strict=False))
