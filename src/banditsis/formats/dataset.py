"""Data with a response, covariates and weights: columns of the data, or of files joined to their rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array
from banditsis.formats.join import find_covariates, find_place, read_columns
from banditsis.formats.opening import open_any
from banditsis.formats.options import Patterns, ReadOptions, check_options
from banditsis.sources.base import Source
from banditsis.sources.views import take_original_rows


class Dataset(NamedTuple):
    """Features and what belongs to their rows, as :func:`open_data` finds it.

    For an index, responses, covariates, weights and ids are in the order of the original data.

    Attributes
    ----------
    features : Source
        The features, in the rows that have a value of the target.
    target : ndarray of shape (n,) or (n, responses), or None
        The response; several have NaN or None where one of them is missing.
    covariates : dict of str to ndarray, or None
        Covariates by name, with NaN or None for missing values.
    sample_weight : ndarray of shape (n,) or None
        Weights of the rows.
    ids : ndarray of str, or None
        Sample ids of the rows, if they are known; a family id and an individual id are separated by a tab.
    names : tuple of str
        Names of the responses.
    joined : tuple of str
        How each response, each covariate and the weights were found, in one sentence each.
    """

    features: Source
    target: Array | None
    covariates: dict[str, Array] | None
    sample_weight: Array | None
    ids: Array | None
    names: tuple[str, ...]
    joined: tuple[str, ...]


def open_data(
    data: Any,
    target: str | os.PathLike[str] | Sequence[str] | None = None,
    *,
    covariates: str | os.PathLike[str] | Sequence[str] = (),
    sample_weight: str | os.PathLike[str] | None = None,
    names: Sequence[str] | None = None,
    columns: Patterns = (),
    drop: Patterns = (),
    id_column: str | None = None,
    one_hot: bool | int = False,
    dates: str = "skip",
    na: Patterns = (),
    memory_limit: int | None = None,
) -> Dataset:
    """Open features together with a response, covariates, weights and sample ids.

    Columns of other files are joined on sample ids if both sides have them, else by row order. Rows without
    a response are left out.

    Parameters
    ----------
    data : path, frame, array-like or Source
        The features, as in :func:`open_source`.
    target : str or sequence of str, optional
        The response: a column of the data by name or 1-based number, which is not a feature then;
        ``file:column``; or a ``file`` with one column. Several responses become the columns of an array.
    covariates : str or sequence of str
        Columns of the data (``"age,sex"``) or of another file (``"file:age,sex"``). A ``file`` alone stands
        for all its columns except sample ids, targets and weights.
    sample_weight : str, optional
        Weights of the rows, as for ``target``.
    names, columns, drop, id_column, one_hot, dates, na, memory_limit
        As in :func:`open_source`.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"height": [1.7, None, 1.8], "sex": list("fmm"), "rs1": [0, 1, 2]})
    >>> data = open_data(frame, "height", covariates="sex")
    >>> data.features.names, data.target, data.covariates
    (['rs1'], array([1.7, 1.8]), {'sex': array(['f', 'm'], dtype='<U1')})
    """
    options = check_options(
        columns=columns,
        drop=drop,
        id_column=id_column,
        one_hot=one_hot,
        dates=dates,
        na=na,
        memory_limit=memory_limit,
    )
    return open_dataset(data, target, options, names, covariates=covariates, sample_weight=sample_weight)


def open_dataset(
    data: Any,
    target: str | os.PathLike[str] | Sequence[str] | None,
    options: ReadOptions,
    names: Sequence[str] | None = None,
    *,
    covariates: str | os.PathLike[str] | Sequence[str] = (),
    sample_weight: str | os.PathLike[str] | None = None,
) -> Dataset:
    """As :func:`open_data`, with options that were checked."""
    opened = open_any(data, options, names)
    roles = [[find_place(text, opened) for text in _as_texts(given)] for given in (target, sample_weight)]
    roles.append([place for text in _as_texts(covariates) for place in find_covariates(text, opened)])
    responses, weighted, adjusted = read_columns(opened, roles)
    source = opened.source()
    n = source.shape[0]
    known = [column.known for column in responses] or [np.ones(n, bool)]
    rows = np.flatnonzero(np.any(known, axis=0))
    values = [column.take(rows) for column in responses]
    if len(values) > 1 and any(column.dtype.kind not in "fiub" for column in values):
        values = [column.astype(object) for column in values]
    is_single, keys = isinstance(target, (str, os.PathLike)), [column.name for column in adjusted]
    if len(set(keys)) < len(keys):  # from different files
        keys = [column.place.text for column in adjusted]
    return Dataset(
        features=source if rows.size == n else take_original_rows(source, rows),
        target=None if not values else values[0] if is_single else np.column_stack(values),
        covariates={key: column.take(rows) for key, column in zip(keys, adjusted, strict=True)} or None,
        sample_weight=weighted[0].take(rows) if weighted else None,
        ids=None if opened.ids is None else opened.ids[rows],
        names=tuple(column.name for column in responses),
        joined=tuple(column.how for column in (*responses, *weighted, *adjusted)),
    )


def _as_texts(given: str | os.PathLike[str] | Sequence[str] | None) -> list[str]:
    """One text or path, several, or none."""
    return [str(text) for text in ([given] if isinstance(given, (str, os.PathLike)) else given or ())]
