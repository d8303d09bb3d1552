"""Runs that end before their time: what is known by then is not lost."""

from __future__ import annotations

from typing import Any


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`screen`.

    Attributes
    ----------
    result : ScreeningResult, a list of them, or None
        What the finished rounds say: the features that were left, best first. None if no round was finished;
        with several responses a list, with None for those without a finished round.

    Examples
    --------
    >>> Interrupted(None).result is None
    True
    """

    def __init__(self, result: Any) -> None:
        self.result = result
        known = "no round was finished" if result is None else ".result has the rounds before that"
        super().__init__(f"screening was interrupted; {known}")


class RoundError(RuntimeError):
    """A round that a cluster could not finish; ``partial`` is the result of the rounds before it, if any."""


def attach(error: Exception, partial: Any) -> None:
    """Let an error carry what the finished rounds say; a mistake of the user needs none of it."""
    if partial is not None and not isinstance(error, (TypeError, ValueError)):
        error.partial = partial  # type: ignore[attr-defined]
        error.add_note("the attribute `partial` of this error has the result of the rounds before it.")
