"""Iterative screening: finds features that matter jointly with others but not on their own."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.feature_selection import SelectorMixin
from sklearn.linear_model import LassoCV, MultiTaskLassoCV
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from banditsis.core.arrays import Array, Floats, Indices
from banditsis.core.validation import (
    check_integer,
    check_responses,
    count_classes,
    is_frame,
    is_on_gpu,
    pair_rows,
)
from banditsis.estimators import SIS, Screener, check_columns
from banditsis.formats.arrow import frame_names
from banditsis.plans.plan import default_size
from banditsis.sources.base import Source
from banditsis.statistics import find_statistic
from banditsis.statistics.covariates import CovariateError, encode_covariates, find_basis

#: Features with a smaller share of the largest coefficient count as not selected by the model.
MIN_RELATIVE_WEIGHT = 1e-10


class IterativeSIS(MetaEstimatorMixin, SelectorMixin, BaseEstimator):
    """Iterative sure independence screening (ISIS) [1]_.

    A feature that matters only jointly with others can be uncorrelated with the response. Each iteration
    screens all features by their partial association given those chosen so far, fits a sparse model to the
    chosen and the best new features, and continues with those that the model keeps, until they no longer
    change, leave nothing to explain, or are too many to adjust for in the rows that the base reads.

    Parameters
    ----------
    n_features_to_select : int, optional
        Maximum number of features to keep; by default floor(n / log n), but at most half of them. The model
        may keep fewer.
    base : SIS or BanditSIS, optional
        The screener; :class:`SIS` by default. Its own ``n_features_to_select`` is ignored. Its statistic must
        support covariates, and it must not have ``missing="pairwise"`` or ``min_correlation``.
    estimator : estimator, optional
        The model that chooses among the screened features: any with ``coef_`` or ``feature_importances_``
        after ``fit(X, y)``. By default scikit-learn's LassoCV. For class labels (``"anova"`` and
        ``"logistic"``) it is MultiTaskLassoCV on the indicators of the classes, which keeps a feature for all
        classes or for none. scikit-learn has no model for ``"cox"``: pass one.
    max_iter : int
        Maximum number of iterations.

    Attributes
    ----------
    support_ : ndarray of shape (p,)
        Mask of the selected features.
    n_iter_ : int
        Number of iterations.
    history_ : list of ndarray
        The features that the model kept after each iteration.
    base_ : SIS or BanditSIS
        The screener of the last iteration; its ``result_`` has the partial scores.
    estimator_ : estimator
        The model, fitted to the features screened last.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [1] Fan, J. and Lv, J. (2008). Sure independence screening for ultrahigh dimensional
       feature space. J. R. Stat. Soc. B 70, 849-911. Section 4.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 100))
    >>> X[:, 3] = X[:, :3].sum(axis=1) / 2 + X[:, 3] / 2
    >>> y = X[:, :3].sum(axis=1) - 1.5 * X[:, 3] + rng.standard_normal(500) / 4
    >>> bool(abs(np.corrcoef(X[:, 3], y)[0, 1]) < 0.1)  # hidden
    True
    >>> IterativeSIS(10).fit(X, y).get_support()[:4]
    array([ True,  True,  True,  True])
    """

    def __init__(
        self,
        n_features_to_select: int | None = None,
        *,
        base: Screener | None = None,
        estimator: Any = None,
        max_iter: int = 10,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.base = base
        self.estimator = estimator
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, *, covariates: Any = None) -> Self:
        """Select the features.

        Parameters
        ----------
        X : array-like of shape (n, p) or frame
            The features. Only screened ones are copied.
        y : array-like of shape (n,)
            The response.
        covariates : array-like of shape (n,) or (n, k), or frame, optional
            Covariates to adjust for in every screening, in addition to the chosen features. The model does
            not use them.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError("IterativeSIS requires y to be passed, but the target y is None.")
        base = SIS() if self.base is None else self.base
        if not isinstance(base, Screener):
            raise TypeError(f"base must be SIS() or BanditSIS(), got {base!r}.")
        check_integer("max_iter", self.max_iter, 1)
        if isinstance(X, Source) or is_on_gpu(X):
            raise TypeError(
                "IterativeSIS needs X in memory, because it adjusts for columns of it: pass a NumPy array or "
                "a frame, such as X.to_original(X.read(slice(0, n), columns)) of a source, or X.get() of a "
                "CuPy array."
            )
        y, covariates = pair_rows(X, y=y, covariates=covariates).values()
        if is_frame(X):
            frame_names(X)  # raises for repeated names
        array = validate_data(self, X, reset=True, dtype=None)
        n, p = array.shape
        response = _check_base(base, array, y)
        model, target = self._choose_model(find_statistic(base.statistic, count_classes(y)), y, response)
        d = default_size(max(n, 3), p) if self.n_features_to_select is None else self.n_features_to_select
        max_size = min(check_integer("n_features_to_select", d, 1), p)
        chosen: Indices = np.arange(0)
        self.history_: list[Indices] = []
        for _ in range(self.max_iter):
            # The first iteration leaves a third of the places for features that only appear given others.
            n_new = max_size - len(chosen) if len(chosen) else max(1, 2 * max_size // 3)
            try:
                screened = self._screen(array, y, base, chosen, n_new, covariates)
            except CovariateError:
                if len(chosen) == 0:  # the user's covariates are at fault
                    raise
                break  # nothing is left to explain, or there are too few rows
            chosen = self._select(array, model, target, screened, chosen, max_size)
            self.history_.append(chosen)
            if len(chosen) >= max_size or any(np.array_equal(chosen, old) for old in self.history_[:-1]):
                break
        self.n_iter_ = len(self.history_)
        self.support_ = np.zeros(p, dtype=bool)
        self.support_[chosen] = True
        return self

    def _screen(
        self, X: Array, y: Any, base: Screener, chosen: Indices, n_new: int, covariates: Any
    ) -> Indices:
        """The chosen features and the best new ones given those."""
        adjust = [X[:, chosen]] if len(chosen) else []
        if covariates is not None:
            adjust.append(encode_covariates(covariates, len(X), allow_missing=False).values)
        screener = clone(base).set_params(n_features_to_select=min(n_new, X.shape[1]))
        self.base_ = screener.fit(X, y, covariates=np.column_stack(adjust) if adjust else None)
        # The chosen features and their copies score 0, so they are not found again.
        new = [k for k in self.base_.result_.selected if self.base_.scores_[k] != 0]
        return np.union1d(chosen, np.array(new, dtype=np.intp)).astype(np.intp)

    def _choose_model(self, kind: Any, y: Any, response: Array) -> tuple[Any, Array]:
        """The model, and its target: the user's response, or that of the default model."""
        if self.estimator is not None:
            return self.estimator, np.asarray(y)
        if kind.n_columns > 1:
            raise ValueError(
                f"base has statistic={kind.name!r}, for which scikit-learn has no sparse model: pass an "
                "estimator that is fitted to (time, event) and has coef_, such as "
                "CoxnetSurvivalAnalysis(alphas=[0.01]) of scikit-survival."
            )
        if not kind.by_class and response.dtype.kind in "fiub":
            return LassoCV(), response[:, 0]
        labels, codes = np.unique(response[:, 0], return_inverse=True)
        return MultiTaskLassoCV(), np.eye(len(labels))[codes]

    def _select(
        self, X: Array, model: Any, target: Array, screened: Indices, chosen: Indices, max_size: int
    ) -> Indices:
        """The screened features that the model keeps."""
        if len(screened) == 0:
            return screened
        self.estimator_ = clone(model)
        block = np.asarray(X[:, screened], dtype=np.float64)
        scale = block.std(axis=0)
        self.estimator_.fit((block - block.mean(axis=0)) / np.where(scale > 0, scale, 1.0), target)
        weight = _importances(self.estimator_, len(screened))
        strongest = np.argsort(-weight, kind="stable")[:max_size]
        kept = screened[np.sort(strongest[weight[strongest] > MIN_RELATIVE_WEIGHT * weight.max()])]
        if len(kept):
            return np.asarray(kept)
        # If the model keeps nothing, keep the earlier features, or the one that screening ranked first.
        return chosen if len(chosen) else np.asarray(self.base_.result_.selected[:1])

    def transform(self, X: Any) -> Any:
        """Keep the selected columns of X."""
        if is_frame(X):
            frame_names(X)  # raises for repeated names
        return super().transform(X)

    def _get_support_mask(self) -> Array:
        check_is_fitted(self, "support_")
        return self.support_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _check_base(base: Screener, X: Array, y: Any) -> Array:
    """Check before any work that the base can adjust for the chosen features; return the response."""
    if base.missing == "pairwise":
        raise ValueError(
            "base has missing='pairwise', but IterativeSIS adjusts for features, which must be complete: "
            "fill the gaps of X and use missing='raise'."
        )
    if getattr(base, "min_correlation", None) is not None:
        raise ValueError(
            f"base has min_correlation={base.min_correlation!r}, but IterativeSIS adjusts for features, and "
            "a minimum is only guaranteed without covariates: use alpha or budget."
        )
    kind, n = find_statistic(base.statistic, count_classes(y)), len(X)
    check_columns(y, base.statistic)
    response = check_responses(kind.unpack(y), n, allow_missing=False, can_allow=False).values
    if kind.n_columns == 1 and response.shape[1] > 1:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {response.shape} instead: IterativeSIS screens "
            "one response; fit it for each of them."
        )
    try:
        kind.bind(response, False).given(find_basis(np.arange(n)[:, None], X.dtype), None)
    except CovariateError:
        raise ValueError(
            f"base has statistic={kind.name!r}, which does not support covariates: use 'pearson', 'anova', "
            "'logistic', 'poisson' or 'cox'."
        ) from None
    return response


def _importances(model: Any, n_features: int) -> Floats:
    """Absolute weight of each feature in a fitted model, summed over classes."""
    weights = getattr(model, "coef_", getattr(model, "feature_importances_", None))
    if weights is None:
        raise ValueError(
            f"estimator must have coef_ or feature_importances_ after fit, but {model!r} has neither."
        )
    size = np.abs(np.asarray(weights))
    if size.shape[0] == n_features != size.shape[-1]:  # one column for each penalty, as Cox models have
        size = size.T
    return np.asarray(size.reshape(-1, n_features).sum(axis=0))
