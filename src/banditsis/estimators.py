"""SIS and BanditSIS as scikit-learn transformers: validate, make a plan, run it."""

from __future__ import annotations

import math
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags, check_array
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_n_features, check_is_fitted, column_or_1d, validate_data

from banditsis.core.arrays import Array
from banditsis.core.parallel import Workers, count_jobs, one_blas_thread
from banditsis.core.progress import Progress, clock
from banditsis.core.validation import (
    CELLS_CHECKED_WHOLE,
    check_integer,
    check_responses,
    check_shape,
    count_classes,
    is_dask,
    is_frame,
    is_on_gpu,
    pair_rows,
)
from banditsis.engine.batches import Batches
from banditsis.formats.opening import is_anndata, is_sparse, open_features, open_source
from banditsis.formats.tables import encode_frame, frame_names
from banditsis.plans import check_exclusive, default_size
from banditsis.results import (
    ScreeningResult,
    ScreeningResults,
    keep_significant,
    rank_features,
    selection_mask,
)
from banditsis.screening import screen
from banditsis.sources.array import raise_if_masked
from banditsis.sources.base import Source
from banditsis.statistics import StatisticLike, find_statistic


class Screener(SelectorMixin, BaseEstimator):
    """What SIS and BanditSIS have in common."""

    n_features_to_select: int | None
    fdr: float | None
    statistic: StatisticLike
    row_order: str = "auto"
    sampling: str = "uniform"
    missing: str
    pvalues: bool
    avoid_redundancy: bool
    n_jobs: int | None
    random_state: Any
    progress: Progress

    def _plan_options(self) -> dict[str, Any]:
        """What this estimator asks of the plan."""
        raise NotImplementedError

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
        covariates : array-like of shape (n,) or (n, k), or frame, optional
            Covariates to adjust for, such as age or batch: features are ranked by their partial association
            given the covariates. Text is expanded into indicators. In a pipeline, pass them by metadata
            routing.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, 0 or more, for "pearson", "anova", "logistic", "poisson" and "cox"; see
            :func:`screen`. In a pipeline, pass them by metadata routing.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        given = pair_rows(X, y=y, covariates=covariates, sample_weight=sample_weight)
        source = self._open(X)
        self.__dict__.pop("_batches", None)
        check_shape(source)
        check_columns(given["y"], self.statistic)
        found = screen(
            source,
            keep=self._size(),
            fdr=self.fdr,
            **given,
            **self._plan_options(),
            statistic=self.statistic,
            row_order=self.row_order,
            sampling=self.sampling,
            missing=self.missing,
            pvalues=self.pvalues,
            avoid_redundancy=self.avoid_redundancy,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            progress=self.progress,
        )
        results = [found] if isinstance(found, ScreeningResult) else list(found)
        single = len(results) == 1
        self.result_ = results[0] if single else ScreeningResults(results)
        scores = [result.scores for result in results]
        self.scores_ = scores[0] if single else np.column_stack(scores)
        return self

    @property
    def _results(self) -> list[ScreeningResult]:
        """The results of all responses."""
        check_is_fitted(self, "result_")
        return [self.result_] if isinstance(self.result_, ScreeningResult) else list(self.result_)

    def _size(self) -> int | None:
        """The number of features to keep; None if it follows from other settings."""
        size = self.n_features_to_select
        check_exclusive({"n_features_to_select": size, "fdr": self.fdr})
        return None if size is None else check_integer("n_features_to_select", size, 1)

    def _open(self, X: Any) -> Source:
        """X as a source; only its type and shape are checked."""
        X = open_source(X) if is_dask(X) or is_anndata(X) or is_on_gpu(X) else X
        self._encoding = X.encoding if isinstance(X, Source) else None
        if isinstance(X, Source):
            _check_n_features(self, X, reset=True)
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            return X
        raise_if_masked(X)
        if is_frame(X):  # column by column, without a copy into one array
            source = open_features(X)  # before scikit-learn, which has its own errors for column names
            validate_data(self, X, reset=True, skip_check_array=True)
            return source
        return open_source(self._check_array(X, reset=True), getattr(self, "feature_names_in_", None))

    @property
    def ranking_(self) -> Array:
        """Rank of every feature, from 1: by the last round it survived, then by score.

        For several responses this is the best of its ranks.
        """
        return np.asarray(np.min([rank_features(result) for result in self._results], axis=0))

    def _get_support_mask(self) -> Array:
        """The features that were selected for any response."""
        return np.asarray(np.any([selection_mask(result) for result in self._results], axis=0))

    def transform(self, X: Any) -> Any:
        """Keep the selected columns of X.

        Parameters
        ----------
        X : array-like of shape (n, p), frame, sparse matrix or Source
            Only the selected columns are copied and checked for NaN; inputs below a million cells are checked
            completely. The selected columns of a source are read into an array.
        """
        check_is_fitted(self, "result_")
        if isinstance(X, Source):
            return X.to_original(self._check_finite(self._read_selected(X)))
        if is_frame(X) and not hasattr(self, "feature_names_in_") and self._results[0].names is not None:
            return self._check_finite(encode_frame(X, self._selected_features()))
        is_table = hasattr(X, "columns")
        if is_table:
            frame_names(X)  # raises for repeated names
        if is_anndata(X) or is_dask(X) or is_on_gpu(X):
            return self._select_in_place(X)
        raise_if_masked(X)
        if is_table:  # select the columns before the frame is copied into one array
            validate_data(self, X, reset=False, skip_check_array=True)
        cells = X if is_table else self._check_array(X, reset=False)
        if not is_sparse(X) and math.prod(cells.shape) < CELLS_CHECKED_WHOLE:
            self._check_finite(cells)
        kept = self._transform(cells)
        # For a frame without columns scikit-learn finds no dtype.
        checked = self._check_finite(kept if kept.shape[1] or not is_table else np.empty(kept.shape))
        # set_output keeps the columns of a frame and their types if it receives a frame.
        wants_frame = _get_output_config("transform", estimator=self)["dense"] != "default"
        return kept if wants_frame and is_table else checked

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the selected features, in the order of the columns that ``transform`` returns."""
        check_is_fitted(self, "result_")
        if input_features is not None or hasattr(self, "feature_names_in_") or self._results[0].names is None:
            return cast(Array, super().get_feature_names_out(input_features))
        names = [self._results[0].name(k) for k in self.get_support(indices=True)]
        return np.array(names, dtype=object)

    def _read_selected(self, source: Source) -> Array:
        """All rows of the selected columns of a source: by name if they have names, else by position."""
        selected, n = self.get_support(indices=True), source.shape[0]
        if self._results[0].names is None or source.names is None:
            _check_n_features(self, source, reset=False)
            return source.read(slice(0, n), selected)
        places = {name: j for j, name in enumerate(source.names)}
        encoded = {column for column, level in source.encoding or () if level is not None}
        found = np.array([places.get(self._results[0].name(k), -1) for k in selected], np.intp)
        for place, (column, level) in zip(found, self._selected_features(), strict=True):
            if place < 0 and not (level is not None and column in encoded):  # a level may be absent here
                name = column if level is None else f"{column}={level}"
                raise ValueError(
                    f"the selected feature {name!r} is not among the {len(places):,} features here: pass the "
                    "features that the selector was fitted on."
                )
        order = np.argsort(found)[np.count_nonzero(found < 0) :]
        block = np.zeros((n, len(found)), source.dtype, order="F")
        block[:, order] = source.read(slice(0, n), found[order])
        return block

    def _select_in_place(self, X: Any) -> Any:
        """The selected columns of what has labels, is lazy or is on a GPU, and stays so."""
        chosen = self.get_support(indices=True)
        labels = dict(zip(frame_names(X), X.columns, strict=True)) if hasattr(X, "columns") else {}
        if is_dask(X) and labels and self._results[0].names is not None:
            names = [self._results[0].name(k) for k in chosen]
            if missing := [name for name in names if name not in labels]:
                raise ValueError(f"the frame has no column {missing[0]!r}, which the selector was fitted on.")
            return X[[labels[name] for name in names]]
        _check_n_features(self, X, reset=False)
        if is_on_gpu(X):
            from banditsis.sources.gpu import take_columns  # only GPUs need it

            return take_columns(X, chosen, check_finite=self.missing != "pairwise")
        return X[list(X.columns[chosen])] if hasattr(X, "columns") else X[:, chosen]

    def _selected_features(self) -> list[tuple[str, object]]:
        """Column and level of the selected features."""
        selected = self.get_support(indices=True)
        if self._encoding is None:
            return [(self._results[0].name(k), None) for k in selected]
        return [self._encoding[k] for k in selected]

    def _check_finite(self, block: Array) -> Array:
        finite = "allow-nan" if self.missing == "pairwise" else True
        options = {"accept_sparse": True, "dtype": None, "ensure_min_features": 0}
        return cast(Array, check_array(block, ensure_all_finite=finite, **options))

    def _check_array(self, X: Any, *, reset: bool) -> Array:
        """X as an array; only its type and shape are checked."""
        options = {"dtype": None, "ensure_all_finite": False, "accept_sparse": ("csr", "csc")}
        return cast(Array, validate_data(self, X, reset=reset, **options))

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
    fdr : float, optional
        Keep the features that are significant at this false discovery rate, in (0, 1), instead of a number of
        them; possibly none.
    max_samples : int or float, optional
        Screen a uniform random subsample: a number of rows, or a fraction of them. All rows by default.
    statistic : str, class or object
        The measure of association: "pearson" (correlation), "anova" (correlation ratio for class labels),
        "logistic", "poisson" or "cox" (score tests), or one of ranks, distances or distributions; see
        :doc:`/statistics`. "auto" is "anova" for three or more classes (strings or categories), else
        "pearson"; of two classes, the one that sorts last counts as 1.
    missing : {"raise", "pairwise"}
        Whether NaN raises an error, or is ignored for each feature separately.
    pvalues : bool
        Whether small p-values of all features are checked, for ``result_.pvalues`` and ``result_.select()``,
        and not only those of the selected features. A run on a subsample then reads the selected features in
        full at the end; otherwise p-values come from the subsample.
    avoid_redundancy : bool
        Whether to screen to a few times as many features (8, but at least 200 and at most 2,048 in total) and
        to choose those to keep one by one, each by its squared score times the share of its variance that
        the features chosen before do not explain; see :doc:`/redundancy`.
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, Generator or RandomState, optional
        Seed for the subsample.
    progress : bool or callable, optional
        By default a bar appears on a terminal after two seconds; True and False show it from the start, and
        never. A callable is called with the number of cells read and the number to read.

    Attributes
    ----------
    result_ : ScreeningResult, or ScreeningResults if y has several columns
        Prints as a small table.
    scores_ : ndarray of shape (p,), or (p, q) for q responses
        Signed score of every feature.
    ranking_ : ndarray of shape (p,)
        Rank of every feature, from 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    BanditSIS : the same strong features for a small share of the cells.

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
        progress: Progress = None,
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

        Returns
        -------
        self

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
        y, before, started = pair_rows(X, y=y)["y"], self.__dict__.get("_batches"), clock()
        source, earlier = self._open(X), None if before is None else before[1]
        if earlier is None:  # later batches may be a single row
            check_shape(source)
        names = None if source.names is None else list(source.names)
        if earlier is not None and (source.shape[1], names) != earlier:
            raise ValueError(
                f"X has {source.shape[1]} features, but SIS is expecting {earlier[0]} features as input: all "
                "batches must have the same features, with the same names, in the same order."
            )
        values = check_responses(column_or_1d(y), source.shape[0], allow_missing=False).values[:, 0]
        values = values if source.original_rows is None else values[source.original_rows]
        if before is None:
            labels = None if classes is None else np.unique(classes)
            kind = find_statistic(self.statistic, count_classes(y) if labels is None else len(labels))
            if labels is None and (kind.by_class or values.dtype.kind not in "fiu"):
                labels = np.unique(values)
            before = Batches(kind, labels, self.missing), (source.shape[1], names)
        with Workers(count_jobs(self.n_jobs)) as workers, one_blas_thread():
            before[0].add(source, values, workers)
            size, (n, p) = self._size(), (before[0].n_rows, source.shape[1])
            d = default_size(n, p) if size is None else min(size, p)
            d = d if self.fdr is None else p
            result = before[0].result(source, d, clock() - started)
        self._batches = before
        self.result_ = result if self.fdr is None else keep_significant(result, self.fdr)
        self.scores_ = result.scores
        return self

    def _plan_options(self) -> dict[str, Any]:
        return {"exact": self.max_samples is None, "max_samples": self.max_samples}


class BanditSIS(Screener):
    r"""Adaptive screening: read few rows, drop weak features, read more rows of the rest [1]_.

    Finds the same strong features as :class:`SIS` but reads a few times √n rows of each feature instead of n.
    The other features of a fixed number are mostly noise, and not the same. If that would take as long as
    reading everything, everything is read and the result says so, unless ``alpha`` is given.

    Parameters
    ----------
    n_features_to_select : int, optional
        Number of features to keep; by default floor(n / log n), as in the paper, but at most half of them.
        With ``min_correlation``, None keeps all that pass.
    fdr, alpha, budget, min_correlation, confidence : float, optional
        What to keep and how much to read instead, as in :func:`screen`: a false discovery rate; the paper's
        method with this α; a share or number of cells; a correlation from which on no feature is lost, with
        this probability.
    statistic : str, class or object
        The measure of association; see :class:`SIS` and :doc:`/statistics`.
    row_order : {"auto", "random", "blocks", "stored"}
        "random" is valid for any data. "blocks" (whole blocks in random order) and "stored" (the first rows)
        are valid if rows are stored in random order, and warn otherwise. "auto" chooses what is cheap: random
        rows for arrays; see :func:`screen`.
    sampling : {"auto", "uniform", "stratified"}
        "stratified" reads more of the rows that carry most information: those of a rare class, or far from
        the mean response; see :doc:`/guarantees`. "auto" does so where rows can be read at random and it is
        more precise, unless ``alpha`` is given: the paper's method draws rows uniformly.
    missing : {"raise", "pairwise"}
        Whether NaN raises an error, or is ignored for each feature separately.
    pvalues : bool
        Whether to read the selected features in full at the end, for exact scores and p-values
        (``result_.pvalues``, ``result_.select()``).
    avoid_redundancy : bool
        Whether to choose among a few times as many features, as in :class:`SIS`; see :doc:`/redundancy`.
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, Generator or RandomState, optional
        Seed for the random rows.
    progress : bool or callable, optional
        By default a bar appears on a terminal after two seconds; True and False show it from the start, and
        never. A callable is called with the number of cells read and the number to read.

    Attributes
    ----------
    result_ : ScreeningResult, or ScreeningResults if y has several columns
        Prints as a small table of rounds.
    scores_ : ndarray of shape (p,), or (p, q) for q responses
        Signed score of every feature from the last round it took part in.
    ranking_ : ndarray of shape (p,)
        Rank of every feature, from 1: by the last round it survived, then by score.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    SIS : reads every row.

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
        progress: Progress = None,
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

    def _plan_options(self) -> dict[str, Any]:
        names = ("alpha", "budget", "min_correlation", "confidence")
        return {name: getattr(self, name) for name in names}
