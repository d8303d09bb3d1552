"""SIS and BanditSIS as scikit-learn transformers."""

from __future__ import annotations

import math
from inspect import signature
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags, check_array
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_n_features, check_is_fitted, column_or_1d, validate_data

from banditsis.core import arrays, parallel, progress, validation
from banditsis.engine.batches import Batches
from banditsis.formats import opening, tables
from banditsis.plans import check_exclusive, default_size
from banditsis.results import (
    ScreeningResult,
    ScreeningResults,
    keep_significant,
    rank_features,
    selection_mask,
)
from banditsis.screening import screen
from banditsis.sources import array, base
from banditsis.statistics import StatisticLike, find_statistic

#: Parameters of :func:`screen`; an estimator has some of them.
OPTIONS = frozenset(signature(screen).parameters)


class Screener(SelectorMixin, BaseEstimator):
    """What SIS and BanditSIS have in common."""

    n_features_to_select: int | None
    fdr: float | None
    statistic: StatisticLike
    missing: str

    def fit(self, X: Any, y: Any, *, covariates: Any = None, sample_weight: Any = None) -> Self:
        """Screen the features of X.

        Parameters
        ----------
        X : array-like of shape (n, p), frame, sparse matrix or Source
            The features; :func:`open_source` makes a source from a file. Cells that the plan does not read
            are not checked, unless there are fewer than a million cells in total.
        y : array-like of shape (n,) or (n, q)
            The response, or several; ``transform`` keeps the features that are selected for any of them.
            Pandas objects need the row labels of X in the same order, or a default index. For
            ``statistic="cox"`` it is time and event, of shape (n, 2) or structured.
        covariates, sample_weight : array-like, optional
            Covariates to adjust for, and weights of the rows, as for :func:`screen`. In a pipeline, pass them
            by metadata routing.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        given = validation.pair_rows(X, y=y, covariates=covariates, sample_weight=sample_weight)
        source = self._open(X)
        self.__dict__.pop("_batches", None)
        validation.check_shape(source)
        check_columns(given["y"], self.statistic)
        options = {name: getattr(self, name) for name in OPTIONS if hasattr(self, name)}
        if "max_samples" in options:  # of SIS
            options |= {"exact": options["max_samples"] is None, "sampling": "uniform"}
        found = screen(source, keep=self._size(), **given, **options)
        results = [found] if isinstance(found, ScreeningResult) else list(found)
        single = len(results) == 1
        self.result_ = results[0] if single else ScreeningResults(results)
        scores = [result.scores for result in results]
        self.scores_ = scores[0] if single else np.column_stack(scores)
        return self

    def _size(self) -> int | None:
        """The number of features to keep; None if it follows from other parameters."""
        size = self.n_features_to_select
        check_exclusive({"n_features_to_select": size, "fdr": self.fdr})
        return None if size is None else validation.check_integer("n_features_to_select", size, 1)

    def _open(self, X: Any) -> base.Source:
        """X as a source; only its type and shape are checked."""
        if validation.is_dask(X) or opening.is_anndata(X) or validation.is_on_gpu(X):
            X = opening.open_source(X)
        self._encoding = X.encoding if isinstance(X, base.Source) else None
        if isinstance(X, base.Source):
            _check_n_features(self, X, reset=True)
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            return X
        array.raise_if_masked(X)
        if validation.is_frame(X):  # column by column, without a copy into one array
            source = opening.open_features(
                X
            )  # before scikit-learn, which has its own errors for column names
            validate_data(self, X, reset=True, skip_check_array=True)
            return source
        return opening.open_source(self._check_array(X, reset=True), getattr(self, "feature_names_in_", None))

    @property
    def _results(self) -> list[ScreeningResult]:
        check_is_fitted(self, "result_")
        return [self.result_] if isinstance(self.result_, ScreeningResult) else list(self.result_)

    @property
    def ranking_(self) -> arrays.Array:
        """Rank of every feature, from 1: by the last round it survived, then by score.

        For several responses this is the best of its ranks.
        """
        return np.asarray(np.min([rank_features(result) for result in self._results], axis=0))

    def _get_support_mask(self) -> arrays.Array:
        """The features that were selected for any response."""
        return np.asarray(np.any([selection_mask(result) for result in self._results], axis=0))

    def _selected_names(self) -> list[str] | None:
        """Names of the selected features, if the features had names in ``fit``."""
        first = self._results[0]
        return None if first.names is None else [first.name(k) for k in self.get_support(indices=True)]

    def get_feature_names_out(self, input_features: Any = None) -> arrays.Array:
        """Names of the selected features, in the order of the columns that ``transform`` returns."""
        names = self._selected_names()
        if input_features is not None or hasattr(self, "feature_names_in_") or names is None:
            return cast(arrays.Array, super().get_feature_names_out(input_features))
        return np.array(names, dtype=object)

    def transform(self, X: Any) -> Any:
        """Keep the selected columns of X.

        Parameters
        ----------
        X : array-like of shape (n, p), frame, sparse matrix or Source
            Only the selected columns are copied and checked for NaN; inputs below a million cells are checked
            completely. The selected columns of a source are read into an array.
        """
        names = self._selected_names()
        if isinstance(X, base.Source):
            return X.to_original(self._check_finite(self._read_selected(X, names)))
        if validation.is_frame(X) and not hasattr(self, "feature_names_in_") and names is not None:
            return self._check_finite(tables.encode_frame(X, self._selected_columns(names)))
        is_table = hasattr(X, "columns")
        if is_table:
            tables.frame_names(X)  # raises for repeated names
        if opening.is_anndata(X) or validation.is_dask(X) or validation.is_on_gpu(X):
            return self._select_in_place(X, names)
        array.raise_if_masked(X)
        if is_table:  # select the columns before the frame is copied into one array
            validate_data(self, X, reset=False, skip_check_array=True)
        cells = X if is_table else self._check_array(X, reset=False)
        if not opening.is_sparse(X) and math.prod(cells.shape) < validation.CELLS_CHECKED_WHOLE:
            self._check_finite(cells)
        kept = self._transform(cells)
        # For a frame without columns scikit-learn finds no dtype.
        checked = self._check_finite(kept if kept.shape[1] or not is_table else np.empty(kept.shape))
        # set_output keeps the columns of a frame and their types if it receives a frame.
        wants_frame = _get_output_config("transform", estimator=self)["dense"] != "default"
        return kept if wants_frame and is_table else checked

    def _selected_columns(self, names: list[str]) -> list[tuple[str, object]]:
        """Column and level of the selected features."""
        if self._encoding is None:
            return [(name, None) for name in names]
        return [self._encoding[k] for k in self.get_support(indices=True)]

    def _read_selected(self, source: base.Source, names: list[str] | None) -> arrays.Array:
        """All rows of the selected columns of a source: by name if they have names, else by position."""
        rows = slice(0, source.shape[0])
        if names is None or source.names is None:
            _check_n_features(self, source, reset=False)
            return source.read(rows, self.get_support(indices=True))
        places = {name: j for j, name in enumerate(source.names)}
        encoded = {column for column, level in source.encoding or () if level is not None}
        for name, (column, level) in zip(names, self._selected_columns(names), strict=True):
            if name not in places and (level is None or column not in encoded):  # a level may be absent here
                raise ValueError(
                    f"the selected feature {name!r} is not among the {len(places):,} features here: pass the "
                    "features that the selector was fitted on."
                )
        found = np.array([places.get(name, -1) for name in names], np.intp)
        order = np.argsort(found)[np.count_nonzero(found < 0) :]
        block = np.zeros((source.shape[0], len(found)), source.dtype, order="F")
        block[:, order] = source.read(rows, found[order])
        return block

    def _select_in_place(self, X: Any, names: list[str] | None) -> Any:
        """The selected columns of an AnnData object, or of what is lazy or on a GPU, and stays so."""
        if validation.is_dask(X) and hasattr(X, "columns") and names is not None:
            labels = dict(zip(tables.frame_names(X), X.columns, strict=True))
            if missing := [name for name in names if name not in labels]:
                raise ValueError(f"the frame has no column {missing[0]!r}, which the selector was fitted on.")
            return X[[labels[name] for name in names]]
        _check_n_features(self, X, reset=False)
        chosen = self.get_support(indices=True)
        if validation.is_on_gpu(X):
            from banditsis.sources import gpu  # only GPUs need it

            return gpu.take_columns(X, chosen, check_finite=self.missing != "pairwise")
        return X[list(X.columns[chosen])] if hasattr(X, "columns") else X[:, chosen]

    def _check_finite(self, block: arrays.Array) -> arrays.Array:
        finite = "allow-nan" if self.missing == "pairwise" else True
        options = {"accept_sparse": True, "dtype": None, "ensure_min_features": 0}
        return cast(arrays.Array, check_array(block, ensure_all_finite=finite, **options))

    def _check_array(self, X: Any, *, reset: bool) -> arrays.Array:
        """X as an array; only its type and shape are checked."""
        options = {"dtype": None, "ensure_all_finite": False, "accept_sparse": ("csr", "csc")}
        return cast(arrays.Array, validate_data(self, X, reset=reset, **options))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "pairwise"
        return tags


def check_columns(y: Any, statistic: StatisticLike) -> None:
    """Check the shape of y as scikit-learn does: one column as a table is accepted with a warning."""
    shape = np.asarray(y).shape
    if find_statistic(statistic).n_columns == 1 and (len(shape) != 2 or shape[1] == 1):
        column_or_1d(y, warn=True)


def _reads_batches(selector: Any) -> bool:
    """Whether the settings of SIS apply to rows that come in batches."""
    return selector.max_samples is None and not selector.avoid_redundancy


class SIS(Screener):
    """Sure independence screening: keep the features most correlated with the response [1]_.

    Parameters
    ----------
    n_features_to_select : int, optional
        Number of features to keep; by default floor(n / log n), as in the paper, but at most half of them.
    max_samples : int or float, optional
        Screen a uniform random subsample: a number of rows, or a fraction of them. All rows by default. With
        ``pvalues`` the selected features are then read in full at the end.
    fdr, statistic, missing, pvalues, avoid_redundancy, n_jobs, random_state, progress
        As in :func:`screen`. All rows have p-values without ``pvalues``, but small ones are then checked for
        the selected features only.

    Attributes
    ----------
    result_ : ScreeningResult, or ScreeningResults if y has several columns
        Prints as a small table.
    scores_ : ndarray of shape (p,), or (p, q) for q responses
        Signed score of every feature, from the last round it took part in.
    ranking_ : ndarray of shape (p,)
        Rank of every feature, from 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [1] Fan, J. and Lv, J. (2008). Sure independence screening for ultrahigh dimensional
       feature space. J. R. Stat. Soc. B 70, 849-911.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 50))
    >>> y = X[:, 3] - X[:, 8] + rng.standard_normal(1000)
    >>> SIS(n_features_to_select=2).fit(X, y).get_support(indices=True)
    array([3, 8])
    """

    def __init__(
        self,
        n_features_to_select: int | None = None,
        *,
        fdr: float | None = None,
        max_samples: int | float | None = None,
        statistic: StatisticLike = "auto",
        missing: str = "raise",
        pvalues: bool = False,
        avoid_redundancy: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: progress.Progress = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.fdr = fdr
        self.max_samples = max_samples
        self.statistic = statistic
        self.missing = missing
        self.pvalues = pvalues
        self.avoid_redundancy = avoid_redundancy
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    @available_if(_reads_batches)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Add a batch of rows to those of earlier calls, and screen all of them exactly.

        Batches are merged as sums, so the result is that of ``fit`` on all rows within rounding, whatever
        their order, and no row is kept. P-values are not checked for skewed or heavy-tailed data. ``fit``
        starts again. Not available with ``max_samples`` and ``avoid_redundancy``.

        Parameters
        ----------
        X : array-like of shape (n, p), frame, sparse matrix or Source
            Rows of the same features as in earlier calls.
        y : array-like of shape (n,)
            The response, for the statistics "pearson", "anova", "logistic" and "poisson".
        classes : array-like, optional
            All classes of the response, in the first call; by default those of the first batch.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((1000, 50))
        >>> y = X[:, 3] - X[:, 8] + rng.standard_normal(1000)
        >>> selector = SIS(n_features_to_select=2)
        >>> for start in range(0, 1000, 250):
        ...     selector = selector.partial_fit(X[start : start + 250], y[start : start + 250])
        >>> selector.get_support(indices=True)
        array([3, 8])
        """
        y, before, started = (
            validation.pair_rows(X, y=y)["y"],
            self.__dict__.get("_batches"),
            progress.clock(),
        )
        source = self._open(X)
        names = None if source.names is None else list(source.names)
        features = source.shape[1], names
        if before is None:  # later batches may be a single row
            validation.check_shape(source)
        elif before[1] != features:
            raise ValueError(
                f"X has {source.shape[1]} features, but SIS is expecting {before[1][0]} features as input: "
                "all batches must have the same features, with the same names, in the same order."
            )
        values = validation.check_responses(column_or_1d(y), source.shape[0], allow_missing=False)[:, 0]
        values = values if source.original_rows is None else values[source.original_rows]
        if before is None:
            labels = None if classes is None else np.unique(classes)
            n_classes = validation.count_classes(y) if labels is None else len(labels)
            kind = find_statistic(self.statistic, n_classes)
            if labels is None and (kind.by_class or values.dtype.kind not in "fiu"):
                labels = np.unique(values)
            before = Batches(kind, labels, self.missing), features
        batches = before[0]
        with parallel.Workers(parallel.count_jobs(self.n_jobs)) as workers, parallel.one_blas_thread():
            batches.add(source, values, workers)
            size, (n, p) = self._size(), (batches.n_rows, source.shape[1])
            d = default_size(n, p) if size is None else min(size, p)
            d = d if self.fdr is None else p  # p-values decide afterwards
            result = batches.result(source, d, progress.clock() - started)
        self._batches = before
        self.result_ = result if self.fdr is None else keep_significant(result, self.fdr)
        self.scores_ = result.scores
        return self


class BanditSIS(Screener):
    r"""Adaptive screening: read few rows, drop weak features, read more rows of the rest [1]_.

    Finds the same strong features as :class:`SIS` but reads a few times √n rows of each feature instead of n.
    The other features of a fixed number are mostly noise, and not the same. If that would take as long as
    reading everything, everything is read and the result says so, unless ``alpha`` is given.

    Parameters
    ----------
    n_features_to_select : int, optional
        As in :class:`SIS`; with ``min_correlation``, None keeps all features that pass.
    fdr, alpha, budget, min_correlation, confidence : float, optional
        What to keep and how much to read instead, as in :func:`screen`: a false discovery rate; the paper's
        method with this α; a share or number of cells; a correlation from which on no feature is lost, with
        this probability.
    statistic, row_order, sampling, missing, pvalues, avoid_redundancy, n_jobs, random_state, progress
        As in :func:`screen`. ``sampling="auto"`` is uniform if ``alpha`` is given, as in the paper.

    Attributes
    ----------
    result_, scores_, ranking_, n_features_in_, feature_names_in_
        As in :class:`SIS`.

    References
    ----------
    .. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature
       screening.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50_000, 500), dtype=np.float32)
    >>> y = X[:, 3] - X[:, 8] + rng.standard_normal(50_000)
    >>> selector = BanditSIS(n_features_to_select=2, random_state=0).fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 8])
    >>> selector.result_.fraction_read < 0.1
    True
    """

    def __init__(
        self,
        n_features_to_select: int | None = None,
        *,
        fdr: float | None = None,
        alpha: float | None = None,
        budget: int | float | None = None,
        min_correlation: float | None = None,
        confidence: float | None = None,
        statistic: StatisticLike = "auto",
        row_order: str = "auto",
        sampling: str = "auto",
        missing: str = "raise",
        pvalues: bool = False,
        avoid_redundancy: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: progress.Progress = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.fdr = fdr
        self.alpha = alpha
        self.budget = budget
        self.min_correlation = min_correlation
        self.confidence = confidence
        self.statistic = statistic
        self.row_order = row_order
        self.sampling = sampling
        self.missing = missing
        self.pvalues = pvalues
        self.avoid_redundancy = avoid_redundancy
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress
