"""Checks of what a user passes in: each message names the value, the range allowed and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np

#: What counts as a number among objects.
NUMBERS = (Real, Decimal, np.bool_)


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int if it lies in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}.")
    number = int(value)
    if number < low or (high is not None and number > high):
        allowed = f"at least {low:,}" if high is None else f"from {low:,} to {high:,}"
        raise ValueError(f"{name} must be {allowed}, got {number:,}.")
    return number


def check_real(name: str, value: Any, low: float, high: float, *, high_included: bool = False) -> float:
    """Return ``value`` as a float if it lies in (low, high), or (low, high] if so asked."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}.")
    number = float(value)
    if not low < number <= high or (number == high and not high_included):
        if math.isinf(high):
            allowed = f"a finite number greater than {low:g}"
        else:
            allowed = f"in ({low:g}, {high:g}{']' if high_included else ')'}"
        raise ValueError(f"{name} must be {allowed}, got {number:g}.")
    return number


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return str(value)


def is_dask(data: Any) -> bool:
    """Whether data is a Dask array, frame or series; Dask need not be installed to know.

    Examples
    --------
    >>> is_dask([1.0, 2.0])
    False
    """
    return hasattr(data, "__dask_graph__") and (hasattr(data, "chunks") or hasattr(data, "npartitions"))
