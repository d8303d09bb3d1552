"""Frames with text, categories and dates as numbers, for scikit-learn pipelines."""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from banditsis.core.arrays import Array
from banditsis.core.validation import is_frame
from banditsis.formats.opening import open_source
from banditsis.formats.tables import encode_frame, frame_names


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a frame as numbers, the same ones in ``fit`` and ``transform``.

    The columns are those that :func:`open_source` makes of a file: numbers stay, text and categories become
    an indicator for each level (of two levels, for the second), ordered categories become their positions,
    and columns that cannot be features, such as text with too many levels, are left out. A level that was not
    in the data of ``fit`` has zeros in all indicators. Missing numbers stay NaN. Arrays of numbers are
    returned as they are.

    Parameters
    ----------
    one_hot : bool or int
        The largest number of levels of a column that is encoded; False leaves out text and categories.
    dates : {"skip", "numeric"}
        Whether dates are left out, or become numbers.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"price": [1.5, 2.0, 3.5, 1.0], "shop": ["a", "b", "c", "a"]})
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.get_feature_names_out()
    array(['price', 'shop=a', 'shop=b', 'shop=c'], dtype=object)
    >>> encoder.transform(pd.DataFrame({"price": [2.5], "shop": ["d"]}))
    array([[2.5, 0. , 0. , 0. ]])
    """

    def __init__(self, one_hot: bool | int = 50, dates: str = "skip") -> None:
        self.one_hot = one_hot
        self.dates = dates

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the columns and their levels in a frame of pandas, polars or pyarrow, or a numeric array."""
        self._encoding: list[tuple[str, object]] | None = None
        if is_frame(X):
            names = frame_names(X)  # raises for repeated names
            source = open_source(X, one_hot=self.one_hot, dates=self.dates)
            self._names = np.array(source.names or names, dtype=object)
            self._encoding = list(source.encoding or [(name, None) for name in self._names])
        self._check(X, reset=True)
        return self

    def transform(self, X: Any) -> Array:
        """Encode the columns that were found in ``fit`` as an array."""
        check_is_fitted(self, "n_features_in_")
        checked = self._check(X, reset=False)
        return checked if self._encoding is None else encode_frame(X, self._encoding)

    def _check(self, X: Any, *, reset: bool) -> Array:
        """X as an array if it is none of a frame; otherwise only its columns are checked."""
        if self._encoding is not None and not is_frame(X):
            raise TypeError(f"TableEncoder was fitted on a frame, got {type(X).__name__}: pass a frame.")
        options: dict[str, Any] = {"dtype": "numeric", "ensure_all_finite": "allow-nan"}
        options = options if self._encoding is None else {"skip_check_array": True}
        return cast(Array, validate_data(self, X, reset=reset, **options))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the encoded columns: ``column``, or ``column=level``."""
        check_is_fitted(self, "n_features_in_")
        names = _check_feature_names_in(self, input_features)
        return cast(Array, names if self._encoding is None else self._names)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
