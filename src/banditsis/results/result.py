"""What a screening run found, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, special
from banditsis.core.formatting import LINE_WIDTH, count, format_duration, printable, rounds_table, wrap
from banditsis.core.validation import check_real
from banditsis.plans import detection_floor, error_level
from banditsis.results import sentences
from banditsis.results.evidence import (
    About,
    Evidence,
    Round,
    find_tested,
    has_pvalues,
    strength_of,
    student_quantile,
    transform,
)
from banditsis.results.features import Features, Output, describe_features, list_features
from banditsis.statistics import Effects, reject_nulls

#: Probability that a feature without association is called clearly associated.
ERROR_RATE = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class ScreeningResult(Output):
    r"""The selected features, the scores, and a :class:`Round` for every step. Printing it shows the rounds.

    Attributes
    ----------
    selected : ndarray of int
        Indices of the selected features, best first, or in the order chosen with ``avoid_redundancy=True``.
    scores : ndarray of shape (n_features,)
        Signed score of every feature from the last round it took part in.
    rounds : tuple of Round
        Each step.
    last_round : ndarray of shape (n_features,)
        Index of the last round that each feature took part in.
    n_rows, n_features : int
        Shape of the data.
    effects : Effects or None
        Effect sizes and standard errors of the selected features, from the rows read last, not corrected for
        selection. Standard errors are NaN if rows were sampled in strata. None for other statistics.
    parameters : dict
        Settings of the run: statistic, row order, seed and so on.
    notes : tuple of str
        Remarks for the reader, the most important first.
    names : sequence of str or None
        Names of the features; features without a name are called x0, x1, ….
    annotations : dict of str to ndarray
        Further columns with a value for each feature, such as chromosome and position of a variant.
    undecided : ndarray of int
        Features that were dropped although fewer than 3.5 of the rows read say something about them, because
        they are constant, rare or heavy-tailed there. The detection floor does not cover them.
    flags : dict of int to str
        Features that look like a mistake: "possible leakage" for what may be made from the response, which is
        not counted as clearly associated; see :doc:`/tables`.
    evidence : Evidence
        What floors, intervals and p-values are computed from, and why there are none; correlations among the
        selected features; their bins.
    about : About
        The response, where the data came from, and when and with what the run was made.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 300))
    >>> y = X[:, 7] - X[:, 42] + rng.standard_normal(5000)
    >>> result = screen(X, y, Plan.paper(5000, 300, 10), random_state=0)
    >>> result.selected_names[:2], len(result.selected), result.associated
    (['x7', 'x42'], 10, array([ 7, 42]))
    >>> round(result.detection_floor(), 2), round(result.detection_floor(simultaneous=True), 2)
    (0.15, 0.2)
    >>> screen(X, y, Plan.exact(5000, 300, 10)).select(fdr=0.01)
    array([ 7, 42])
    """

    selected: Indices
    scores: Floats
    rounds: tuple[Round, ...]
    last_round: Array
    n_rows: int
    n_features: int
    effects: Effects | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    names: Sequence[str] | None = None
    annotations: Mapping[str, Array] = field(default_factory=dict)
    undecided: Indices = field(default_factory=lambda: np.arange(0))
    flags: Mapping[int, str] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)
    about: About = field(default_factory=About)

    @property
    def cells_read(self) -> int:
        """Cells read in total."""
        return sum(r.cells for r in self.rounds)

    @property
    def fraction_read(self) -> float:
        """Cells read, as a fraction of all cells."""
        return self.cells_read / (self.n_rows * self.n_features)

    def name(self, feature: int) -> str:
        """Name of a feature."""
        return f"x{feature}" if self.names is None else str(self.names[feature])

    @property
    def selected_names(self) -> list[str]:
        """Names of the selected features, best first."""
        return [self.name(k) for k in self.selected]

    @cached_property
    def features(self) -> Features:
        """The table of the selected features, best first, which all outputs show."""
        return describe_features(self, self.selected)

    @cached_property
    def log10_pvalues(self) -> Floats:
        """Decimal logarithms of :attr:`pvalues`, accurate far below 1e-300."""
        tested, null = find_tested(self), self.evidence.null_distribution
        if self.evidence.no_pvalues_reason is not None:
            raise ValueError(f"no p-values: {self.evidence.no_pvalues_reason}.")
        if null is None or not tested.any():
            raise ValueError(
                "p-values were not computed: set pvalues=True (--pvalues), which reads all rows of the "
                f"selected features. They were selected by {self.rounds[-1].n_rows:,} of {self.n_rows:,} "
                "rows, and a test on the same rows would be biased."
            )
        log10 = np.full(self.n_features, np.nan)
        log10[tested] = null.log10_pvalues(self.scores[tested])
        return log10

    @property
    def pvalues(self) -> Floats:
        """P-value of every feature that was tested; NaN for others.

        The features of the last round are tested if it read every row, or if it was the only round. P-values
        are one-sided for statistics such as "chatterjee" for which only large scores indicate association. A
        constant feature has p-value 1. Small p-values of skewed or heavy-tailed data are corrected, for which
        features are read again; those of features that were not selected are NaN unless ``pvalues=True``. For
        multiple testing, see :meth:`select`, and the adjusted p-values of :meth:`to_frame`.
        """
        return np.power(10.0, self.log10_pvalues)

    @property
    def genomic_inflation(self) -> float:
        r"""Genomic inflation factor λ: the median χ² of all p-values, divided by the 0.455 of the null.

        About 1 if few features are associated and rows are independent given the covariates (Devlin and
        Roeder 1999); larger if covariates such as ancestry are missing or rows are relatives. Features with
        p-value 1 do not count; NaN if no other is left. Raises if a feature has no p-value.
        """
        log10 = self.log10_pvalues
        if n_unknown := int(np.count_nonzero(np.isnan(log10))):
            raise ValueError(
                f"{n_unknown:,} of {len(log10):,} features have no p-value: read every row, and request them."
            )
        log10 = log10[log10 < 0]
        if not log10.size:
            return float("nan")
        z = special.ndtri_exp(float(np.median(log10)) * np.log(10) - np.log(2))
        return float(z * z / special.ndtri(0.75) ** 2)

    def select(self, fdr: float = 0.05, method: str = "bh") -> Indices:
        r"""Features that are significant after multiple-testing correction, smallest p-value first.

        All features count as tested, those without a p-value with p-value 1.

        Parameters
        ----------
        fdr : float
            False discovery rate, in (0, 1); with Holm and Bonferroni, the family-wise error rate.
        method : {"bh", "by", "holm", "bonferroni"}
            Benjamini and Hochberg (1995), valid for independent and many dependent features. The others are
            valid for any dependence: Benjamini and Yekutieli (2001), Holm (1979) and Bonferroni.
        """
        return reject_nulls(self.log10_pvalues, fdr, method)

    @cached_property
    def associated(self) -> Indices | None:
        """Selected features that are clearly associated with the response, best first; None if not known.

        If features were selected by false discovery rate, they are the selected features, which have that
        rate. Otherwise, with probability 95%, no feature without association is among them. If features have
        p-values, they are those with p ≤ 0.05 after Holm's correction for all features; if not, those whose
        :meth:`interval`, simultaneous for all features, does not contain 0. If few rows J = E_x E_y / m of
        the m rows read are informative about feature and response together, its normal quantile z becomes
        z + z² / (6 √J), by the skewness of a Poisson distribution (Cornish, Fisher 1938).
        """
        if "fdr" in self.parameters:
            return self.selected
        if has_pvalues(self):
            if np.isnan(self.log10_pvalues[self.selected]).any():  # they were not checked
                return None
            return self.selected[np.isin(self.selected, self.select(ERROR_RATE, "holm"))]
        evidence = self.evidence
        if evidence.no_floor_reason is not None or evidence.own_inflation is None:
            return None
        centre, error, own, rows = transform(self)
        z = -NormalDist().inv_cdf(ERROR_RATE / self.n_features / 2)
        wide: Any = z
        if evidence.informative is not None and evidence.informative_response is not None:
            share = min(1.0, evidence.informative_response / self.rounds[-1].n_rows)
            wide = z + z * z / (6 * np.sqrt(np.maximum(evidence.informative, 1) * share))
        half = np.maximum(wide * error, student_quantile(z, 2 * rows) * own)
        return np.asarray(self.selected[np.abs(centre) > half])

    def interval(self, confidence: float = 0.95) -> Floats:
        r"""Confidence interval for the population correlation of each selected feature, in their order.

        Fisher's transformation (1921) of r over the m rows that were read (and present), less the rank of the
        covariates:

        .. math:: \tanh\left(\operatorname{artanh} r \pm z \sqrt{\frac{κ}{m - 3}}\right)

        If rows were sampled in strata, m is the number of effective rows. κ is 1 for normal data, and larger
        by (K - 3) r² / 4 for a feature with kurtosis K. If not all rows were read, each feature also has an
        estimate of κ of its own, by the squared influence of the rows on r; with E rows informative about it,
        z becomes the quantile of Student's t with 2E degrees of freedom. The longer interval counts. In
        uniform samples of a heavy-tailed response, 95% intervals cover in about 90% of the cases. Intervals
        are not corrected for selection: the largest scores tend to be too large. Raises if none are known.
        """
        check_real("confidence", confidence, 0, 1)
        if self.evidence.no_interval_reason is not None:
            raise ValueError(f"no confidence intervals: {self.evidence.no_interval_reason}.")
        centre, error, own, rows = transform(self)
        z = -NormalDist().inv_cdf(0.5 - confidence / 2)
        half = np.fmax(z * error, student_quantile(z, 2 * rows) * own)
        with np.errstate(invalid="ignore"):
            limits = np.tanh(np.column_stack([centre - half, centre + half]))
        exact = np.isinf(centre)  # inf - inf, if three rows or a copy of the response give ±1
        return np.where(exact[:, None], np.sign(centre)[:, None], limits)

    def detection_floor(self, confidence: float = 0.95, *, simultaneous: bool = False) -> float:
        r"""The smallest τ such that a feature with \|r\| ≥ τ over all rows was kept with a given probability.

        If d features are kept, this holds if fewer than d others are about as strong. The floor follows from
        the rows and the cutoff of every round, the variance inflation of the data, the kurtosis of the
        features, their spread in strata of the response, and the outliers of the response that were not read.
        It does not cover the features in :attr:`undecided`, and unless rows were sampled in strata without
        covariates, none whose spread depends on the response. With missing values it refers to the score.
        A run that reads every row has its last cutoff; one with ``min_correlation`` has at most this minimum,
        unless more features pass than are to be kept. Raises if no floor is known, and says why.

        Parameters
        ----------
        confidence : float
            Probability that a feature at the floor was kept, in (0, 1).
        simultaneous : bool
            Whether the probability is for all features together.
        """
        check_real("confidence", confidence, 0, 1)
        evidence, rounds, n = self.evidence, self.rounds, self.n_rows
        if evidence.no_floor_reason is not None:
            raise ValueError(f"no detection floor: {evidence.no_floor_reason}.")
        if evidence.reach is not None:
            if confidence > (known := self.parameters.get("confidence", 0.95)):
                raise ValueError(f"the detection floor of this run is known at confidence {known} only.")
            return min(1.0, max(evidence.reach, rounds[-1].cutoff))
        # The number of features that pass by evidence is not fixed in advance, so all features count.
        n_compared = self.n_features if evidence.by_evidence else evidence.n_candidates or len(self.selected)
        error = error_level(confidence, simultaneous, n_compared)
        cutoffs = [r.cutoff if r.n_kept < r.n_features else 0.0 for r in rounds]
        rows = [r.effective_rows - evidence.n_covariates for r in rounds]  # each takes one (Fisher 1924)
        inflation = [max(evidence.variance_inflation or 1.0, r.inflation or 1.0) for r in rounds]
        kurtosis = [r.kurtosis for r in rounds]
        floor = detection_floor(rows, cutoffs, n - evidence.n_covariates, inflation, error, kurtosis)
        floor = min(1.0, floor + evidence.unread)
        guaranteed = self.parameters.get("min_correlation")
        if guaranteed is None or confidence > self.parameters["confidence"]:
            return floor
        # The guarantee is for all features together, unless more passed than were to be kept.
        return min(floor, max(float(guaranteed), cutoffs[-1]))

    def to_frame(self, *, all_features: bool = False) -> Any:
        """A pandas frame with one row per selected feature, best first.

        With ``all_features``, every feature is listed, by rank; intervals, effects and whether it is clearly
        associated are only known of selected features.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install 'banditsis[frames]'") from None
        table = list_features(self, all_features)
        return pd.DataFrame({k: v.tolist() if v.dtype == object else v for k, v in table.columns.items()})

    def __str__(self) -> str:
        lines = [
            sentences.describe_best(self),
            sentences.describe_sign(self),
            sentences.describe_answer(self),
            sentences.describe_sampling(self),
            sentences.describe_floor(self),
            *(f"note: {note}" for note in self.notes),
        ]
        cells = f"{self.cells_read:,} of {self.n_rows * self.n_features:,} cells ({self.fraction_read:.2%})"
        above = [
            f"{len(self.selected):,} of {count(self.n_features, 'feature')} selected",
            f"read {cells} in {format_duration(sum(r.seconds for r in self.rounds))}",
        ]
        below = (wrap(printable(line), LINE_WIDTH, 2) for line in lines if line)
        return "\n".join([*above, rounds_table(self.rounds), *below])


def keep_significant(result: ScreeningResult, fdr: float) -> ScreeningResult:
    """The same result with only the selected features that :meth:`ScreeningResult.select` returns."""
    kept = np.flatnonzero(np.isin(result.selected, result.select(fdr)))
    selected, evidence = result.selected[kept], result.evidence
    weakest = float(strength_of(result)[selected].min()) if len(selected) else 1.0
    return replace(
        result,
        selected=selected,
        evidence=replace(
            evidence.take(kept),
            n_candidates=len(result.selected),
            near_duplicates={k: v for k, v in evidence.near_duplicates.items() if k in selected},
            no_floor_reason=evidence.no_floor_reason or "features were selected by p-value",
        ),
        effects=None if result.effects is None else result.effects.take(kept),
        rounds=(*result.rounds[:-1], replace(result.rounds[-1], n_kept=len(selected), cutoff=weakest)),
        parameters={**result.parameters, "fdr": fdr},
    )


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`screen`.

    Attributes
    ----------
    result : ScreeningResult, a list of them, or None
        The result of the finished rounds: the features that were left, best first. None if no round was
        finished; with several responses a list, with None for those without a finished round.

    Examples
    --------
    >>> Interrupted(None).result is None
    True
    """

    def __init__(self, result: Any) -> None:
        self.result = result
        known = "no round was finished" if result is None else ".result has the finished rounds"
        super().__init__(f"screening was interrupted; {known}")


def attach_partial(error: Exception, partial: Any) -> None:
    """Attach the result of the finished rounds to an error, unless the error is about invalid input."""
    if partial is not None and not isinstance(error, (TypeError, ValueError)):
        error.partial = partial  # type: ignore[attr-defined]
        error.add_note("the attribute `partial` of this error has the result of the rounds before it.")
