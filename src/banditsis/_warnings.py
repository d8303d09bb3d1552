"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings

_OURS = ("banditsis", "sklearn", "joblib")


def warn_user(message: str) -> None:
    """Warn from the line outside this package, and outside scikit-learn, that led here."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)
