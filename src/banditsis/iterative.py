"""Iterative screening: features that matter together with others, though not on their own."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.feature_selection import SelectFromModel, SelectorMixin
from sklearn.linear_model import LassoCV
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from banditsis._checks import check_integer
from banditsis._typing import Array, Indices
from banditsis.estimators import SIS, Screener
from banditsis.plans import default_size


class IterativeSIS(MetaEstimatorMixin, SelectorMixin, BaseEstimator):
    """Iterative sure independence screening (ISIS): screen, fit, screen the rest given what was chosen [1]_.

    A feature that matters only together with others can have no correlation with the response at all, and
    screening drops it. Given the others, as covariates, it shows. Each iteration screens all features by
    their partial association given those chosen so far, fits a sparse model to the chosen and the best new
    ones, and goes on with those that the model keeps, until they no longer change.

    Parameters
    ----------
    n_features_to_select : int, optional
        The most features to keep; by default floor(n / log n), but at most half of them. The model may keep
        fewer.
    base : SIS or BanditSIS, optional
        What screens; :class:`SIS` by default. Its own ``n_features_to_select`` does not count.
    estimator : estimator, optional
        The model that chooses among the screened features: any with ``coef_`` or ``feature_importances_``
        after ``fit``. By default scikit-learn's LassoCV; for classes take a LogisticRegressionCV with an L1
        penalty.
    max_iter : int
        The most iterations.

    Attributes
    ----------
    support_ : ndarray of shape (p,)
        Mask of the features chosen.
    n_iter_ : int
        Iterations done.
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

    def fit(self, X: Any, y: Any, covariates: Any = None) -> Self:
        """Find the features.

        Parameters
        ----------
        X : array-like of shape (n, p) or frame
            The features. Only screened ones are copied.
        y : array-like of shape (n,)
            The response.
        covariates : array-like of shape (n,) or (n, k), or frame, optional
            Columns to be given in every screening beside what was chosen. The model does not see them.

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
        array = validate_data(self, X, reset=True, dtype=None, ensure_all_finite=False)
        n, p = array.shape
        d = default_size(max(n, 3), p) if self.n_features_to_select is None else self.n_features_to_select
        size = min(check_integer("n_features_to_select", d, 1), p)
        chosen: Indices = np.arange(0)
        self.history_: list[Indices] = []
        for _ in range(self.max_iter):
            # At first a third of the places is left for features that show given the others.
            wanted = size - len(chosen) if len(chosen) else max(1, 2 * size // 3)
            screened = self._screened(array, y, base, chosen, wanted, covariates)
            chosen = self._kept(array, y, screened, size)
            self.history_.append(chosen)
            if len(chosen) >= size or any(np.array_equal(chosen, old) for old in self.history_[:-1]):
                break
        self.n_iter_ = len(self.history_)
        self.support_ = np.zeros(p, dtype=bool)
        self.support_[chosen] = True
        return self

    def _screened(
        self, X: Array, y: Any, base: Screener, chosen: Indices, wanted: int, covariates: Any
    ) -> Indices:
        """The features chosen and as many more as are wanted, the best given those."""
        given = X[:, chosen] if len(chosen) else None
        if covariates is not None:
            own = np.asarray(covariates.to_numpy() if hasattr(covariates, "to_numpy") else covariates)
            own = own.reshape(len(own), -1)
            given = own if given is None else np.column_stack([given, own])
        self.base_ = clone(base).set_params(n_features_to_select=min(wanted, X.shape[1]))
        self.base_.fit(X, y, covariates=given)
        # What the given features explain scores 0: they and their copies are not found again.
        new = [k for k in self.base_.result_.selected if self.base_.scores_[k] != 0]
        return np.union1d(chosen, np.array(new, dtype=np.intp)).astype(np.intp)

    def _kept(self, X: Array, y: Any, screened: Indices, size: int) -> Indices:
        """Those of the screened features that the model keeps."""
        if len(screened) == 0:
            return screened
        self.estimator_ = clone(LassoCV() if self.estimator is None else self.estimator)
        block = np.asarray(X[:, screened], dtype=np.float64)
        target = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
        scale = block.std(axis=0)
        self.estimator_.fit((block - block.mean(axis=0)) / np.where(scale > 0, scale, 1.0), target)
        # More than rounding: a model that is not sparse keeps the best up to the size.
        model = SelectFromModel(self.estimator_, prefit=True, threshold=1e-10, max_features=size)
        kept = screened[model.get_support()]
        # A model that finds nothing leaves the feature that screening put first.
        return np.asarray(kept if len(kept) else self.base_.result_.selected[:1])

    def _get_support_mask(self) -> Array:
        check_is_fitted(self, "support_")
        return self.support_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
