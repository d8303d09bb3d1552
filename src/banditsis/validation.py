"""Every check of user input: each message gives the value, what is allowed and what to do."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis.arrays import Array, Columns, Indices, Rows, count_rows, take

if TYPE_CHECKING:
    from banditsis.plans.plan import Plan
    from banditsis.sources.base import Source

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


_OURS = ("banditsis", "sklearn", "joblib")


def warn_user(message: str) -> None:
    """Warn from the line outside this package, and outside scikit-learn, that led here."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)


CELLS_CHECKED_WHOLE = 1_000_000


def check_guarantee_possible(
    plan: Plan, name: str, row_order: str, missing: str, covariates: Any, shuffled: bool
) -> None:
    """Refuse to guarantee what cannot be."""
    if not plan.by_evidence:
        return
    if row_order == "auto" or (shuffled and row_order == "stored"):
        row_order = "random"
    for option, value, wanted in (
        ("statistic", name, "pearson"),
        ("missing", missing, "raise"),
        ("covariates", None if covariates is None else "given", None),
        ("row_order", row_order, "random"),
    ):
        if value != wanted:
            got = "and some were given" if option == "covariates" else f"got {value!r}"
            raise ValueError(
                f"min_correlation can be guaranteed with {option}={wanted!r} alone, {got}: "
                "use that, or a plan by alpha or budget."
            )


def check_pvalues_available(kind: Any) -> None:
    """Refuse p-values where no null law is known."""
    if not kind.has_pvalues():
        raise ValueError(
            f"pvalues=True, and the null law of statistic={kind.name!r} is not known: leave the p-values "
            "out, or use a statistic that has them, such as 'spearman', 'kendall' or 'chatterjee'."
        )


def resolve_seed(random_state: Any) -> int:
    """A number from which to start again, whatever was given."""
    if isinstance(random_state, bool):
        raise TypeError(f"random_state must be an integer, a Generator or None, got {random_state}.")
    if isinstance(random_state, (int, np.integer)):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state}.")
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    try:
        return int(np.random.default_rng(random_state).integers(2**53))
    except (TypeError, ValueError):
        raise TypeError(
            f"random_state must be an integer, a Generator, a RandomState or None, got {random_state!r}."
        ) from None


def check_shape(source: Source, plan: Plan) -> None:
    n, p = source.shape
    if p == 0:
        raise ValueError(f"X has 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required.")
    if n < 3:
        raise ValueError(f"X has {n} row(s), and correlations need at least 3 (n_samples={n}).")
    if (plan.n_rows, plan.n_features) != (n, p):
        raise ValueError(
            f"the plan is for {plan.n_rows:,} rows × {plan.n_features:,} features and X has "
            f"{n:,} × {p:,}: make the plan for the shape of X."
        )


def raise_nonfinite(source: Source, rows: Rows, columns: Columns, pairwise: bool) -> None:
    """Raise an error that names the first cell with a value that cannot be summed."""
    step = max(1, CELLS_CHECKED_WHOLE // (source.shape[1] if columns is None else len(columns)))
    for i in range(0, count_rows(rows), step):
        part = take(rows, i, i + step)
        block = source.read(part, columns)
        bad = np.isinf(block) if pairwise else ~np.isfinite(block)
        if not bad.any():
            continue
        row, j = (int(k) for k in np.argwhere(bad)[0])
        value = "NaN" if np.isnan(block[row, j]) else "infinity"
        name = source.name(j if columns is None else int(columns[j]))
        row = source.row_number(row + part.start if isinstance(part, slice) else int(part[row]))
        remedy = ", or use missing='pairwise' to leave NaN out" if value == "NaN" else ""
        raise ValueError(
            f"Input X contains {value} in column {name!r}, row {row:,}: drop or replace it{remedy}."
        )
    if columns is not None:
        raise ValueError(
            f"the values of column {source.name(int(columns[0]))!r} span too many orders of "
            f"magnitude to be summed as {source.dtype}: rescale it"
            f"{'' if source.dtype == np.float64 else ', or pass X as float64'}."
        )


CHUNK = 1 << 20


def check_responses(y: Any, n: int, *, allow_nan: bool, may_allow: bool = True) -> Array:
    """Return the responses as an array of shape (n, q), without a copy where that is possible.

    ``may_allow`` says whether NaN could be allowed with ``missing="pairwise"``.
    """
    if np.ma.isMaskedArray(y):
        raise TypeError("masked arrays are not supported: use y.filled(np.nan) and missing='pairwise'.")
    if is_dask(y):
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


def present_rows(responses: Array, *, allow_nan: bool) -> Iterator[tuple[list[int], Indices | None]]:
    """Group responses by the rows in which they are known; None stands for all rows of all responses."""
    if not allow_nan or responses.dtype.kind != "f":
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
