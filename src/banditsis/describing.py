"""What plots, reports and notebooks say of a result: numbers where they are known, and short sentences."""

from __future__ import annotations

from banditsis._typing import Floats
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


def describe_reading(result: ScreeningResult) -> str:
    """What was read of how much, in a phrase."""
    return (
        f"{result.n_features:,} → {len(result.selected):,} features, "
        f"{format_share(result.fraction_read)} of {result.n_rows * result.n_features:,} cells read"
    )
