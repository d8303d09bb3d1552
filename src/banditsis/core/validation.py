"""Every check of user input. Messages give the value, what is allowed, and the remedy."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Rows, count_rows, is_masked, take
from banditsis.core.parallel import map_in_threads

if TYPE_CHECKING:
    from banditsis.sources.base import Source
    from banditsis.statistics.base import Statistic

#: Types that count as numbers in an array of objects.
NUMBERS = (Real, Decimal, np.bool_)
#: Smaller inputs are checked completely for values that are not finite.
CELLS_CHECKED_WHOLE = 1_000_000
MIN_ROWS = 3
VALUES_AT_ONCE = 1 << 19
#: Kinds of devices in DLPack: memory of a GPU, and memory that it shares with the host.
CUDA_DEVICES = (2, 13)
#: Numbers with at least and at most so many distinct values, all integers, may be classes.
INTEGER_CLASSES = 3, 10


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int if it lies in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}.")
    if (number := int(value)) < low or (high is not None and number > high):
        allowed = f"at least {low:,}" if high is None else f"from {low:,} to {high:,}"
        raise ValueError(f"{name} must be {allowed}, got {number:,}.")
    return number


def check_real(name: str, value: Any, low: float, high: float, *, high_included: bool = False) -> float:
    """Return ``value`` as a float if it lies in (low, high), or (low, high]."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}.")
    number = float(value)
    if not low < number <= high or (number == high and not high_included):
        interval = f"in ({low:g}, {high:g}{']' if high_included else ')'}"
        allowed = f"a finite number greater than {low:g}" if math.isinf(high) else interval
        raise ValueError(f"{name} must be {allowed}, got {number:g}.")
    return number


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return str(value)


def check_flag(name: str, value: Any) -> None:
    """Raise unless ``value`` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def is_dask(data: Any) -> bool:
    """Whether data is a Dask array, frame or series; works without Dask."""
    return type(data).__module__.startswith("dask.") and hasattr(data, "npartitions")


def is_frame(data: Any) -> bool:
    """Whether data is a frame of pandas, polars or pyarrow."""
    library = type(data).__module__.split(".")[0]
    return library in ("pandas", "polars", "pyarrow") and len(getattr(data, "shape", ())) == 2


def is_on_gpu(data: Any) -> bool:
    """Whether data are an array in the memory of a GPU, of CuPy, PyTorch or JAX; works without them."""
    if isinstance(data, np.ndarray) or not hasattr(data, "__dlpack_device__"):
        return False
    try:
        return int(data.__dlpack_device__()[0]) in CUDA_DEVICES
    except TypeError:  # of pyarrow, for text
        return False


def to_memory(data: Any) -> Any:
    """Values on a cluster or a GPU as an array in memory; other data as they are."""
    if is_dask(data):
        return data.compute()
    if is_on_gpu(data):
        from banditsis.sources.gpu import from_device  # only GPUs need it

        return from_device(data).get()
    return data


def pair_rows(X: Any, **others: Any) -> dict[str, Any]:
    """The other values in memory; raises if their row labels of pandas are not those of X in the same order.

    The ids of an index are labels. A default index 0, 1, … has no labels, and is paired by position unless it
    is X's index in another order.
    """
    pandas: Any = sys.modules.get("pandas")
    attribute = "index" if pandas and isinstance(X, pandas.DataFrame) else "row_ids"
    labels: Any = getattr(X, attribute, None) if pandas else None
    for name, values in others.items() if labels is not None else ():
        if not isinstance(values, (pandas.Series, pandas.DataFrame)) or len(values) != len(labels):
            continue  # no labels, or an error that is raised elsewhere
        indexes, default = (pandas.Index(labels), values.index), pandas.RangeIndex(len(labels))
        has_default = any(isinstance(index, pandas.RangeIndex) and index.equals(default) for index in indexes)
        by_position = has_default and len(indexes[0].union(indexes[1])) > len(labels)
        if not (indexes[0].equals(indexes[1]) or by_position):
            raise ValueError(
                f"{name} and X have different row labels, or the same in another order: pass "
                f"{name}.loc[X.{attribute}], or {name}.to_numpy() to pair rows by position."
            )
    return {name: to_memory(values) for name, values in others.items()}


def warn_user(message: str) -> None:
    """Warn with the location of the user's call, outside this package and scikit-learn."""
    level, frame = 1, sys._getframe(0)
    internal = ("banditsis", "sklearn", "joblib")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in internal:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)


def resolve_seed(random_state: Any) -> int:
    """An integer seed for any kind of random state."""
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        return check_integer("random_state", random_state, 0)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if random_state is None or isinstance(random_state, np.random.Generator):
        return int(np.random.default_rng(random_state).integers(2**53))
    raise TypeError(f"random_state must be an integer, Generator, RandomState or None, got {random_state!r}.")


def check_shape(source: Source) -> None:
    """Check that there are enough rows and features; scikit-learn asks for some of these words."""
    n, p = source.shape
    if p == 0:
        raise ValueError(f"the data have 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required.")
    if n < MIN_ROWS:
        raise ValueError(f"the data have {n} row(s); screening needs at least {MIN_ROWS} (n_samples={n}).")


def check_guarantee_possible(statistic: Statistic, row_order: str) -> None:
    """Check that a minimum correlation can be guaranteed for a statistic and a row order."""
    other = "" if statistic.is_correlation else statistic.name
    required = {
        "equal sample weights": statistic.sample_weight is not None and "different ones",
        "'pearson', or for two classes 'anova' or 'logistic'": other,
        "complete data": statistic.pairwise and "pairwise",
        "no covariates": statistic.rank and "some",
        "random row order": row_order != "random" and row_order,
    }
    for setting, found in required.items():
        if found:
            raise ValueError(
                f"a minimum correlation can only be guaranteed with {setting}, got {found!r}: change that, "
                "or choose the plan by alpha or budget."
            )


def check_pvalues(kind: Any, pvalues: object) -> None:
    """Check that a statistic has the p-values that are requested."""
    check_flag("pvalues", pvalues)
    if pvalues and not kind.has_pvalues:
        raise ValueError(
            f"the null distribution of the statistic {kind.name!r} is not known: omit the p-values, or use a "
            "statistic that has them, such as 'spearman', 'kendall' or 'chatterjee'."
        )


class MissingValueError(ValueError):
    """A value is missing where that is not allowed."""


def check_sample_weight(sample_weight: Any, n: int) -> Array | None:
    """Check the weights of n rows and divide them by the largest; None if they are all the same."""
    if is_masked(sample_weight):
        raise TypeError("masked arrays are not supported: fill the missing values of sample_weight first.")
    weights = np.asarray(sample_weight)
    if weights.dtype.kind not in "fiubO":
        raise TypeError(f"sample_weight must hold numbers, got dtype {weights.dtype}.")
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n:,},), one weight for each row of X; got {weights.shape} "
            "(sample_weight.shape)."
        )
    weights = weights.astype(np.float64)
    if (bad := ~np.isfinite(weights) | (weights < 0)).any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"sample_weight must be finite and not negative, got {weights[row]:g} in row {row:,}; use 0 to "
            "leave a row out."
        )
    largest = weights.max() or 1.0  # the sum of large weights could overflow
    return None if weights.min() == largest else np.asarray(weights / largest)


def response_names(y: Any) -> list[str]:
    """Names of the responses in a frame or series; none for others."""
    if hasattr(y, "columns"):
        return [str(name) for name in y.columns]
    name = getattr(y, "name", None)
    return [] if name is None or callable(name) else [str(name)]


def count_classes(y: Any) -> int:
    """Number of classes of a response of strings or categories, 3 if there are more; 0 for numbers.

    Of several responses, the largest number counts.
    """
    values = np.asarray(y)
    if _categories(y) is None and values.dtype.kind not in "US":
        known = (value for value in values.flat if not _is_missing(value))
        if values.dtype.kind != "O" or not isinstance(next(known, None), str):
            return 0
    return max((len(distinct_values(column, 3)) for column in np.atleast_2d(values.T)), default=0)


def find_integer_classes(y: Any) -> list[Any]:
    """The values of the first response that may be class labels: three to ten different integers."""
    values, (low, high) = np.asarray(y), INTEGER_CLASSES
    for column in np.atleast_2d(values.T) if values.dtype.kind in "fiu" else ():
        if len(distinct_values(column[: 100 * high], high + 1)) <= high:  # most responses end here
            found = distinct_values(column, high + 1)
            if low <= len(found) <= high and all(value == np.round(value) for value in found):
                return [value.item() for value in found]
    return []


def distinct_values(values: Array, most: int) -> list[Any]:
    """Sorted distinct known values, or ``most`` of them; a pass for each beats sorting if there are few."""
    left, found = values[~find_missing(values)], list[Any]()
    while len(left) and len(found) < most:
        found.append(left[0])
        left = left[left != left[0]]
    return sorted(found)


def _categories(y: Any) -> Any:
    """The categories of a pandas categorical or a column of this kind, else None."""
    dtype: Any = getattr(y, "dtype", None)
    return dtype.categories if type(dtype).__name__ == "CategoricalDtype" else None


def check_responses(y: Any, n: int, *, allow_missing: bool, can_allow: bool = True) -> Array:
    """Check the responses of n rows, numbers or class labels, and return them as (n, q) without a copy.

    ``allow_missing`` says whether NaN is allowed, and ``can_allow`` whether the user could allow it. Labels
    are objects if some are missing.
    """
    if is_masked(y):
        raise TypeError("masked arrays are not supported: fill y with NaN and use pairwise deletion.")
    categories = _categories(y)
    if categories is not None and categories.dtype.kind not in "fiub":  # text, or for example intervals
        y = np.array([*map(str, categories), None], dtype=object)[getattr(y, "cat", y).codes]
    responses = np.asarray(y)
    if responses.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, responses), got {responses.shape}.")
    if len(responses) != n or responses.size == 0:
        columns = " but no columns" if responses.ndim == 2 and len(responses) == n else ""
        raise ValueError(
            f"X has {n:,} rows and y has {len(responses):,} values{columns}: pass one value of y for each "
            "row of X (inconsistent numbers of samples)."
        )
    responses = responses.reshape(n, -1)
    if responses.dtype.kind == "c":
        raise ValueError("Complex data not supported: the response must be real.")
    if responses.dtype.kind == "O":
        responses = _from_objects(responses)
    if responses.dtype.kind not in "fiubUSO":
        raise TypeError(f"y must hold numbers or class labels, got dtype {responses.dtype}.")
    if responses.dtype.kind in "fO":
        _check_finite(responses, allow_missing, can_allow)
    return responses


def _from_objects(y: Array) -> Array:
    """Numbers if every known value is one (NaN where it is missing); labels if every one is a string."""
    missing = find_missing(y)
    known = y[~missing]
    if all(isinstance(value, NUMBERS) for value in known):
        return np.where(missing, np.nan, y).astype(np.float64)
    if all(isinstance(value, str) for value in known):
        return y if missing.any() else y.astype(str)
    kinds = sorted({type(value).__name__ for value in known})
    separately = ", or screen columns of different kinds one by one" if y.shape[1] > 1 else ""
    raise TypeError(
        f"y has dtype object and its values are neither all numbers nor all strings, but {', '.join(kinds)}: "
        f"convert those that are not missing to numbers or to strings{separately}."
    )


def find_missing(y: Array) -> Array:
    """Where an array has NaN, None, or the missing value of pandas."""
    if y.dtype.kind != "O":
        # Sums of squares are NaN only if a value is, and are faster than a mask that has to be read again.
        complete = y.dtype.kind != "f" or (y.flags.c_contiguous and not np.isnan(np.vdot(y, y)))
        return np.zeros(y.shape, dtype=bool) if complete else np.isnan(y)
    return np.array([_is_missing(value) for value in y.flat], dtype=bool).reshape(y.shape)


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, Real) and value != value)


def _check_finite(y: Array, allow_missing: bool, can_allow: bool) -> None:
    """Raise if a response is infinite, or missing if that is not allowed."""
    step = max(1, VALUES_AT_ONCE // y.shape[1])

    def check(start: int) -> tuple[int, int, str] | None:
        part = y[start : start + step]
        if part.dtype.kind == "O":  # labels
            part = np.where(find_missing(part), np.nan, 0.0)
        return _find_nonfinite(part, allow_missing)

    for number, found in enumerate(map_in_threads(check, range(0, len(y), step))):
        if found is not None:
            row, k, value = found
            pairwise = can_allow and not allow_missing and value == "NaN"
            value = "no label" if y.dtype.kind == "O" else value
            column = "" if y.shape[1] == 1 else f" (column {k})"
            remedy = f", or set missing='pairwise' to omit rows with {value}" if pairwise else ""
            raise ValueError(
                f"the response contains {value} in row {number * step + row:,}{column}: drop or replace "
                f"it{remedy}."
            )


def _find_nonfinite(block: Array, allow_missing: bool) -> tuple[int, int, str] | None:
    """The row, the column and the name of the first value that is infinite, or NaN unless allowed."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(block.sum()):  # one pass is enough for finite values
            return None
    bad = np.isinf(block) if allow_missing else ~np.isfinite(block)
    if not bad.any():
        return None
    row, column = (int(k) for k in np.argwhere(bad)[0])
    return row, column, "NaN" if np.isnan(block[row, column]) else "infinity"


def raise_nonfinite(source: Source, rows: Rows, columns: Columns, pairwise: bool) -> None:
    """Raise an error that names the first cell that cannot be summed, if there is one."""
    step = max(1, CELLS_CHECKED_WHOLE // (source.shape[1] if columns is None else len(columns)))
    for i in range(0, count_rows(rows), step):
        part = take(rows, i, i + step)
        if (found := _find_nonfinite(source.read(part, columns), pairwise)) is None:
            continue
        row, j, value = found
        name = source.name(j if columns is None else int(columns[j]))
        row = source.row_number(row + part.start if isinstance(part, slice) else int(part[row]))
        where = f"the data contain {value} in column {name!r}, row {row:,}"
        if value == "NaN":
            raise MissingValueError(
                f"{where}: set missing='pairwise' to ignore missing values, or impute them first, for "
                "example with sklearn.impute.SimpleImputer."
            )
        raise ValueError(f"{where}: drop{', rescale' if source.recipe else ''} or replace it.")
    if columns is not None:
        wider = "" if source.dtype == np.float64 else ", or pass X as float64"
        raise ValueError(
            f"the values of column {source.name(int(columns[0]))!r} span too many orders of magnitude to be "
            f"summed as {source.dtype}: rescale it{wider}."
        )
