"""Iterative screening: finds features that matter jointly with others but not on their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LassoCV, MultiTaskLassoCV

from banditsis.core import formatting, validation
from banditsis.core.arrays import Array, Floats, Indices
from banditsis.estimators import SIS, Screener, check_columns
from banditsis.plans import default_size
from banditsis.results import Evidence, Round, ScreeningResult
from banditsis.sources.base import Source
from banditsis.statistics import StatisticLike, find_statistic
from banditsis.statistics.covariates import CovariateError, encode_covariates

#: Features with a smaller share of the largest coefficient count as not selected by the model.
MIN_RELATIVE_WEIGHT = 1e-10
#: Parameters of the screener, the values that they must have, and what to do.
NEEDED: dict[str, tuple[str | None, str]] = {
    "missing": ("raise", "which must be complete: fill the gaps of X and use missing='raise'"),
    "min_correlation": (None, "and a minimum is only guaranteed without covariates: use alpha or budget"),
}
#: Why there is no detection floor, interval or p-value.
BY_MODEL = "a model chose the features in several iterations"


class IterativeSIS(Screener):
    """Iterative sure independence screening (ISIS) [1]_.

    A feature that matters only jointly with others can be uncorrelated with the response. Each iteration
    screens all features by their partial association given those chosen so far, fits a sparse model to the
    chosen and the best new features, and continues with those that the model keeps, until they no longer
    change, leave nothing to explain, or are too many to adjust for in the rows that the screener reads.

    Parameters
    ----------
    n_features_to_select : int, optional
        Maximum number of features to keep, by default as in :class:`SIS`. The model may keep fewer; the notes
        of ``result_`` then say why.
    screener : SIS or BanditSIS, optional
        What screens the features; :class:`SIS` by default. Its own ``n_features_to_select`` is ignored. Its
        statistic must support covariates, and it must not have ``missing="pairwise"``, ``min_correlation`` or
        ``fdr``.
    estimator : estimator, optional
        The model that chooses among the screened features: any with ``coef_`` or ``feature_importances_``
        after ``fit(X, y)``. By default LassoCV, and for class labels (``"anova"`` and ``"logistic"``)
        MultiTaskLassoCV on the indicators of the classes. For ``"cox"`` it must be set.
    statistic : str, optional
        The measure of association, as in :class:`SIS`; by default that of the screener.
    max_iter : int
        Maximum number of iterations.

    Attributes
    ----------
    result_ : ScreeningResult
        The selected features, those with the largest weight in the last model first, with a round for each
        iteration. The score of a selected feature is from the iteration that found it, given those chosen
        before; other scores are given all features chosen before the last iteration.
    n_iter_, history_ : int and list of ndarray
        Number of iterations, and the features that the model kept in each, by decreasing weight.
    screener_, estimator_
        The screener of the last iteration, whose ``result_`` has the partial scores, and the last model.
    scores_, ranking_, n_features_in_, feature_names_in_
        As in :class:`SIS`.

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

    missing = "raise"

    def __init__(
        self,
        n_features_to_select: int | None = None,
        *,
        screener: Screener | None = None,
        estimator: Any = None,
        statistic: StatisticLike | None = None,
        max_iter: int = 10,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.screener = screener
        self.estimator = estimator
        self.statistic = statistic  # type: ignore[assignment]
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, *, covariates: Any = None) -> Self:  # type: ignore[override]
        """Select the features.

        Parameters
        ----------
        X, y
            As in :class:`SIS`, with one response. Only screened features are copied.
        covariates : array-like of shape (n,) or (n, k), or frame, optional
            Covariates to adjust for in every screening. The model does not use them.
        """
        if y is None:
            raise ValueError("IterativeSIS requires y to be passed, but the target y is None.")
        screener = clone(SIS() if self.screener is None else self.screener)
        if not isinstance(screener, Screener):
            raise TypeError(f"screener must be SIS() or BanditSIS(), got {screener!r}.")
        if self.statistic is not None:
            screener.set_params(statistic=self.statistic)
        validation.check_integer("max_iter", self.max_iter, 1)
        y, covariates = validation.pair_rows(X, y=y, covariates=covariates).values()
        source = self._open(X)
        validation.check_shape(source)
        n, p = source.shape
        model, target = self._prepare(screener, source, y)
        d = default_size(n, p) if self.n_features_to_select is None else self.n_features_to_select
        max_size = min(validation.check_integer("n_features_to_select", d, 1), p)
        chosen: Indices = np.arange(0)
        given = None if covariates is None else encode_covariates(covariates, n, allow_missing=False).values
        self.history_: list[Indices] = []
        results: list[ScreeningResult] = []
        why = f"the model kept no others in {self.max_iter} iterations"
        for _ in range(self.max_iter):
            # The first iteration leaves a third of the places for features that only appear given others.
            n_new = max_size - len(chosen) if len(chosen) else max(1, 2 * max_size // 3)
            screener.set_params(n_features_to_select=min(n_new, p))
            try:
                result = _screen(screener, source, y, chosen, given)
            except CovariateError:
                if len(chosen) == 0:  # the user's covariates are at fault
                    raise
                why = (
                    "they leave nothing to explain, or are too many to adjust for in the rows that were read"
                )
                break
            self.screener_ = screener
            results.append(result)
            # The chosen features and their copies score 0, so they are not found again.
            found = result.selected[result.scores[result.selected] != 0]
            screened = np.union1d(chosen, found).astype(np.intp)
            kept = chosen if len(chosen) else result.selected[:1]  # screening ranked it first
            chosen = self._select(source, model, target, screened, kept, max_size)
            self.history_.append(chosen)
            if any(set(chosen) == set(old) for old in self.history_[:-1]):
                why = "the model keeps no others"
                break
            if len(chosen) >= max_size:
                break
        self.n_iter_ = len(self.history_)
        self.result_ = self._describe(results, max_size, why)
        self.scores_ = self.result_.scores
        return self

    def _prepare(self, screener: Screener, source: Source, y: Any) -> tuple[Any, Array]:
        """Check before any work that the screener can adjust for features; return the model and its target.

        The target is the user's response, or for the default model of class labels their indicators.
        """
        for name, (value, remedy) in NEEDED.items():
            if (given := getattr(screener, name, value)) != value:
                raise ValueError(
                    f"the screener has {name}={given!r}, but IterativeSIS adjusts for features, {remedy}."
                )
        kind = find_statistic(screener.statistic, validation.count_classes(y))
        if not kind.adjusts:
            raise ValueError(
                f"the screener has statistic={kind.name!r}, which does not support covariates: use "
                "'pearson', 'anova', 'logistic', 'poisson' or 'cox'."
            )
        check_columns(y, screener.statistic)
        n = source.shape[0]
        response = validation.check_responses(kind.unpack(y), n, allow_missing=False, can_allow=False)
        if kind.n_columns == 1 and response.shape[1] > 1:
            raise ValueError(
                f"y should be a 1d array, got an array of shape {response.shape} instead: IterativeSIS "
                "screens one response; fit it for each of them."
            )
        if self.estimator is not None:
            return self.estimator, np.asarray(y)
        if kind.n_columns > 1:
            raise ValueError(
                f"the screener has statistic={kind.name!r}, for which scikit-learn has no sparse model: pass "
                "an estimator that is fitted to (time, event) and has coef_, such as "
                "CoxnetSurvivalAnalysis(alphas=[0.01]) of scikit-survival."
            )
        if not kind.by_class and response.dtype.kind in "fiub":
            return LassoCV(), response[:, 0]
        labels, codes = np.unique(response[:, 0], return_inverse=True)
        return MultiTaskLassoCV(), np.eye(len(labels))[codes]

    def _select(
        self, source: Source, model: Any, target: Array, screened: Indices, kept: Indices, max_size: int
    ) -> Indices:
        """The screened features with the largest weights in the model, or ``kept`` if it has none."""
        if len(screened) == 0:
            return kept
        block = _read(source, screened)
        scale = block.std(axis=0)
        fitted = clone(model).fit((block - block.mean(axis=0)) / np.where(scale > 0, scale, 1.0), target)
        weights = getattr(fitted, "coef_", getattr(fitted, "feature_importances_", None))
        if weights is None:
            raise ValueError(
                f"estimator must have coef_ or feature_importances_ after fit, but {fitted!r} has neither."
            )
        self.estimator_, sizes, n = fitted, np.abs(np.asarray(weights)), len(screened)
        if sizes.shape[0] == n != sizes.shape[-1]:  # one column for each penalty, as Cox models have
            sizes = sizes.T
        weight = sizes.reshape(-1, n).sum(axis=0)  # over classes or penalties
        strongest = np.argsort(-weight, kind="stable")[:max_size]
        strongest = strongest[weight[strongest] > MIN_RELATIVE_WEIGHT * weight.max()]
        return np.asarray(screened[strongest]) if len(strongest) else kept

    def _describe(self, results: list[ScreeningResult], max_size: int, why: str) -> ScreeningResult:
        """The result: the selected features in the order of their weights, and a round for each iteration."""
        first, last, scores = results[0], results[-1], results[-1].scores.copy()
        selected, rounds = self.history_[-1], list[Round]()
        for result, kept in reversed(list(zip(results, self.history_, strict=True))):
            found = kept[np.isin(kept, selected) & (result.scores[kept] != 0)]
            scores[found] = result.scores[found]
            size = {"n_features": result.n_features, "n_kept": len(kept), "cells": result.cells_read}
            seconds = sum(step.seconds for step in result.rounds)
            rounds.insert(0, replace(result.rounds[-1], **size, seconds=seconds))
        chosen = set(selected.tolist())
        n_chosen = formatting.count(len(chosen), "feature")
        fewer = f"{n_chosen} selected, fewer than the {max_size:,} allowed: {why}."
        return replace(
            last,
            selected=selected,
            scores=scores,
            rounds=tuple(rounds),
            last_round=np.full(last.n_features, len(results) - 1, np.int32),
            effects=None,
            parameters={**first.parameters, "iterations": len(results)},
            notes=(*[fewer] * (len(chosen) < max_size), *first.notes),
            flags=first.flags,
            evidence=Evidence(
                n_covariates=first.evidence.n_covariates,
                cells_reread=sum(result.evidence.cells_reread for result in results),
                one_sided=first.evidence.one_sided,
                no_floor_reason=BY_MODEL,
                no_interval_reason=BY_MODEL,
                no_pvalues_reason=BY_MODEL,
            ),
        )


def _screen(
    screener: Screener, source: Source, y: Any, chosen: Indices, given: Floats | None
) -> ScreeningResult:
    """Screen all features given those that are chosen and the user's covariates."""
    adjust = [_read(source, np.sort(chosen))] if len(chosen) else []
    adjust += [] if given is None else [given]
    try:
        screener.fit(source, y, covariates=np.column_stack(adjust) if adjust else None)
    except validation.MissingValueError as error:  # whose remedies do not hold here
        where = str(error).partition(": ")[0]
        raise validation.MissingValueError(
            f"{where}, but IterativeSIS adjusts for features, which must be complete: impute them first, for "
            "example with sklearn.impute.SimpleImputer, or leave such columns out."
        ) from None
    assert isinstance(screener.result_, ScreeningResult)  # of one response
    return screener.result_


def _read(source: Source, columns: Indices) -> Floats:
    """All rows of some columns, in the order of the response."""
    block = source.read(slice(0, source.shape[0]), columns)
    return np.asarray(source.to_original(block), dtype=np.float64)
