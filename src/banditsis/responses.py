"""Responses: checked where they come in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from banditsis._checks import NUMBERS, is_dask
from banditsis._typing import Array, Indices, Rows

CHUNK = 1 << 20


def check_responses(y: Any, n: int, *, allow_nan: bool, may_allow: bool = True) -> Array:
    """Return the responses as an array of shape (n, q), without a copy where that is possible.

    ``may_allow`` says whether NaN could be allowed with ``missing="pairwise"``.
    """
    if np.ma.isMaskedArray(y):
        raise TypeError("masked arrays are not supported: use y.filled(np.nan) and missing='pairwise'.")
    if is_dask(y):  # while X is here
        y = y.compute()
    responses = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if responses.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, responses), got {responses.shape}.")
    if len(responses) != n or responses.size == 0:
        raise ValueError(
            f"X has {n:,} rows and y has {len(responses):,} values"
            f"{' but no columns' if responses.ndim == 2 and len(responses) == n else ''}: "
            "give one value of y for each row of X (inconsistent numbers of samples)."
        )
    responses = responses.reshape(n, -1)
    if responses.dtype.kind == "c":
        raise ValueError("Complex data not supported: y must be real.")
    if responses.dtype.kind == "O":
        responses = _from_objects(responses)
    if responses.dtype.kind not in "fiubUS":
        raise TypeError(f"y must hold numbers or class labels, got dtype {responses.dtype}.")
    if responses.dtype.kind == "f":
        _check_finite(responses, allow_nan, may_allow)
        if allow_nan:
            _check_known(responses)
    return responses


def first_look(responses: Any, rows: Rows) -> Rows:
    """The rows by which a statistic is made ready: all that are read first, unless y is elsewhere."""
    pilot = getattr(responses, "pilot", None)
    return rows if pilot is None else cast(Rows, pilot(rows))


def present_rows(responses: Array, *, allow_nan: bool) -> Iterator[tuple[list[int], Indices | None]]:
    """Group responses by the rows in which they are known; None stands for all rows of all responses."""
    if not allow_nan or responses.dtype.kind != "f" or hasattr(responses, "pilot"):
        yield list(range(responses.shape[1])), None
        return
    groups: dict[bytes, tuple[list[int], Indices]] = {}
    for k in range(responses.shape[1]):
        missing = np.isnan(responses[:, k])
        groups.setdefault(np.packbits(missing).tobytes(), ([], np.flatnonzero(~missing)))[0].append(k)
    if len(groups) == 1 and not missing.any():
        yield list(range(responses.shape[1])), None
    else:
        yield from groups.values()


def _from_objects(y: Array) -> Array:
    """Numbers if every value is one (None is NaN), else labels if every value is a string."""
    if all(isinstance(value, str) for value in y.flat):
        return y.astype(str)
    if all(value is None or isinstance(value, NUMBERS) for value in y.flat):
        return y.astype(np.float64)
    raise TypeError(
        "y has dtype object with values that are neither all numbers nor all strings; "
        "convert it with y.astype(float) or y.astype(str)."
    )


def _check_known(y: Array) -> None:
    known = np.count_nonzero(~np.isnan(y), axis=0)
    if (known < 3).any():
        k = int(np.argmin(known))
        which = "" if y.shape[1] == 1 else f" (response {k})"
        raise ValueError(f"y{which} is known in {known[k]} rows, and correlations need at least 3.")


def _check_finite(y: Array, allow_nan: bool, may_allow: bool) -> None:
    for start in range(0, len(y), CHUNK):
        part = y[start : start + CHUNK]
        # One sum shows whether there is anything to look for.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(part.sum(dtype=np.float64)):
                continue
        bad = np.isinf(part) if allow_nan else ~np.isfinite(part)
        if bad.any():
            row, k = (int(i) for i in np.argwhere(bad)[0])
            value = "NaN" if np.isnan(part[row, k]) else "infinity"
            which = "" if y.shape[1] == 1 else f" of response {k}"
            remedy = (
                ""
                if allow_nan or not may_allow or value == "infinity"
                else ", or use missing='pairwise' to leave rows with NaN out"
            )
            raise ValueError(f"y contains {value} in row {start + row:,}{which}: drop or replace it{remedy}.")
