"""What a screening run found, and how."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core.alignment import align_rows
from banditsis.core.arrays import Array, Floats, Indices, special
from banditsis.core.formatting import (
    LINE_WIDTH,
    count,
    encodable,
    format_duration,
    format_score,
    format_share,
    printable,
    round_share,
    rounds_table,
    to_single_line,
    wrap,
    write_text,
)
from banditsis.core.validation import check_choice, check_real
from banditsis.plans.detection_floor import MIN_INFORMATIVE, detection_floor, error_level, excess_inflation
from banditsis.statistics import STATISTICS
from banditsis.statistics.effects import Effects
from banditsis.statistics.null_distributions import (
    METHODS,
    NullDistribution,
    adjust_pvalues,
    reject_nulls,
)

#: Probability that a feature without association is called clearly associated.
ERROR_RATE = 0.05
#: Flag of features that may be made from the response.
LEAKAGE = "possible leakage"
#: Note of a run that read all rows although it need not.
ALL_ROWS_READ = "all rows were read, because that is about as fast here as reading a sample."


@dataclass(frozen=True)
class Round:
    """One step of a run.

    Attributes
    ----------
    n_rows : int
        Rows read in total after this round.
    n_features : int
        Features left before it.
    n_kept : int
        Features left after it.
    cutoff : float
        Smallest absolute score that was kept, or smallest score if the statistic is one-sided. If features
        are dropped by evidence, the smallest score that is not ruled out.
    cells : int
        Cells read in this round.
    seconds : float
        Duration, without the compilation of kernels. Responses that shared a pass over the data share its
        time equally. That of the last round includes the check of small p-values.
    effective_rows : float
        Rows of a uniform sample that would be as precise; by default ``n_rows``.
    kurtosis : float
        The largest kurtosis of a feature that this round could drop, at least 3.
    inflation : float or None
        The largest variance inflation of a feature that this round could drop, by its spread in strata of the
        response; None if it is not known.
    """

    n_rows: int
    n_features: int
    n_kept: int
    cutoff: float
    cells: int
    seconds: float
    effective_rows: float = 0.0
    kurtosis: float = 3.0
    inflation: float | None = None

    def __post_init__(self) -> None:
        if self.effective_rows == 0.0:
            object.__setattr__(self, "effective_rows", float(self.n_rows))


@dataclass(frozen=True, eq=False)
class ScreeningResult:
    """The selected features, the scores, and a :class:`Round` for every step.

    Printing it shows the rounds as a table.

    Attributes
    ----------
    selected : ndarray of int
        Indices of the selected features, best first, or in the order chosen with ``avoid_redundancy=True``.
    scores : ndarray of shape (n_features,)
        Signed score of every feature from the last round it took part in.
    rounds : tuple of Round
        What happened in each step.
    last_round : ndarray of shape (n_features,)
        Index of the last round that each feature took part in.
    n_rows, n_features : int
        Shape of the data.
    present : ndarray or None
        With missing values, the number of rows in which each selected feature was present.
    informative : ndarray or None
        Number of rows read that say something about each selected feature; None if it is not known.
    effects : Effects or None
        Effect size ``beta`` and standard error ``se`` of each selected feature, from the rows read last, in
        the units of the data; see :class:`~banditsis.statistics.effects.Effects`. They are not corrected for
        selection. The standard error is NaN if rows were sampled in strata. None for other statistics.
    parameters : dict
        Settings of the run: statistic, row order, seed and so on.
    versions : dict
        Versions of the software that made the result.
    notes : tuple of str
        Remarks for the reader, the most important first.
    details : tuple of str
        Remarks that few readers need, such as how many p-values were corrected.
    names : sequence of str or None
        Names of the features; features without a name are called x0, x1, ….
    annotations : dict of str to ndarray
        What else the data say about every feature, such as chromosome, position and alleles of a variant:
        columns with one value for each feature.
    one_sided : bool
        Whether only large positive scores indicate association.
    by_evidence : bool
        Whether features were dropped by evidence against a minimum correlation.
    n_covariates : int
        Rank of the covariates besides the intercept.
    variance_inflation : float or None
        How much more the correlations vary from sample to sample than for normal data, for
        :meth:`detection_floor`; None if it was not measured.
    own_inflation : ndarray of shape (selected, 2) or None
        The variance inflation of each selected feature, around the correlation in the population, and the
        number of rows that are informative about it, from at most 1,000 of the rows read; for
        :attr:`associated` and :meth:`interval`. None if all rows were read.
    no_floor_reason, no_interval_reason : str or None
        Why there is no detection floor, or no confidence interval; None if there is one.
    informative_response : float or None
        The same for the response.
    unread : float
        How much outliers of the response that were not read can add to a correlation; it is added to the
        detection floor.
    undecided : ndarray of int
        Features that were dropped although fewer than 3.5 of the rows read say something about them, because
        they are constant, rare or heavy-tailed there. The detection floor does not cover them.
    flags : dict of int to str
        Features that look like a mistake: "possible leakage" for what may be made from the response, and
        "distinct integers" for what may be an id; see :doc:`/tables`. Features of the first kind are not
        counted among the clearly associated ones.
    cells_reread : int
        Cells that were read again to check small p-values or to compute correlations among candidates; not
        part of :attr:`cells_read`.
    null_distribution : NullDistribution or None
        The distribution of the scores without association, for :attr:`pvalues`.
    response, data, created : str
        Name of the response, name of the file, and time of the run; empty if not known.
    contents, response_summary, command : str
        What the data contain, the classes or the range of the response, and the command, of a run on the
        command line; otherwise empty.
    n_candidates : int
        Number of features that screening kept, of which the selected ones were chosen because they are not
        redundant (``avoid_redundancy=True``) or because they are significant (selection by false discovery
        rate); 0 if there was no such choice. The detection floor is about the candidates.
    near_duplicates : dict of int to ndarray of int
        For a selected feature, the candidates with an absolute correlation above 0.95 that were not selected
        because it stands for them.
    correlation : ndarray of shape (selected, selected) or None
        Correlations among the selected features; None if they were not computed.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 50))
    >>> result = screen(X, X[:, 7] - X[:, 3], Plan.paper(2000, 50, 2, alpha=1.0), random_state=0)
    >>> result.selected
    array([3, 7])
    >>> result.selected_names
    ['x3', 'x7']
    >>> [(r.n_rows, r.n_kept) for r in result.rounds]
    [(88, 26), (97, 14), (107, 8), (120, 5), (135, 3), (152, 2)]
    """

    selected: Indices
    scores: Floats
    rounds: tuple[Round, ...]
    last_round: Array
    n_rows: int
    n_features: int
    present: Floats | None = None
    informative: Floats | None = None
    effects: Effects | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    names: Sequence[str] | None = None
    annotations: Mapping[str, Array] = field(default_factory=dict)
    one_sided: bool = False
    by_evidence: bool = False
    n_covariates: int = 0
    variance_inflation: float | None = None
    own_inflation: Floats | None = None
    no_floor_reason: str | None = None
    no_interval_reason: str | None = None
    informative_response: float | None = None
    unread: float = 0.0
    undecided: Indices = field(default_factory=lambda: np.arange(0))
    flags: Mapping[int, str] = field(default_factory=dict)
    cells_reread: int = 0
    null_distribution: NullDistribution | None = None
    response: str = ""
    data: str = ""
    created: str = ""
    contents: str = ""
    response_summary: str = ""
    command: str = ""
    n_candidates: int = 0
    near_duplicates: Mapping[int, Indices] = field(default_factory=dict)
    correlation: Floats | None = None

    @property
    def cells_read(self) -> int:
        """Cells read in total."""
        return sum(r.cells for r in self.rounds)

    @property
    def fraction_read(self) -> float:
        """Cells read, as a fraction of all cells."""
        return self.cells_read / (self.n_rows * self.n_features)

    @property
    def seconds(self) -> float:
        """Duration of all rounds."""
        return sum(r.seconds for r in self.rounds)

    @property
    def is_exact(self) -> bool:
        """Whether every row of every feature was read."""
        return self.rounds[0].n_rows >= self.n_rows

    @property
    def rows_read(self) -> Indices:
        """Number of rows read for each feature."""
        return np.array([r.n_rows for r in self.rounds], dtype=np.intp)[self.last_round]

    @property
    def _effective_rows(self) -> Floats:
        """Effective number of rows read for each feature."""
        return np.array([r.effective_rows for r in self.rounds])[self.last_round]

    @property
    def strength(self) -> Floats:
        """The values that features are ranked by: absolute scores, or the scores if one-sided."""
        return strength(self.scores, self.one_sided)

    @cached_property
    def ranking(self) -> Indices:
        """Rank of every feature, from 1: by the last round it survived, then by score."""
        order = np.lexsort((-self.strength, -self.last_round.astype(np.intp), ~self.support))
        ranks = np.empty(self.n_features, dtype=np.intp)
        ranks[order] = np.arange(1, self.n_features + 1)
        ranks[self.selected] = np.arange(1, len(self.selected) + 1)
        return ranks

    @property
    def support(self) -> Array:
        """Mask of the selected features."""
        mask = np.zeros(self.n_features, dtype=bool)
        mask[self.selected] = True
        return mask

    def name(self, feature: int) -> str:
        """Name of a feature."""
        return f"x{feature}" if self.names is None else str(self.names[feature])

    @property
    def selected_names(self) -> list[str]:
        """Names of the selected features, best first."""
        return [self.name(k) for k in self.selected]

    @property
    def tested(self) -> Array:
        """Mask of the features that have a p-value.

        These are the features of the last round if it read every row, or if it was the only round: then no
        feature was selected by the rows that test it.
        """
        last = len(self.rounds) - 1
        if self.rounds[last].n_rows < self.n_rows and (last > 0 or self.by_evidence):
            return np.zeros(self.n_features, dtype=bool)
        return np.asarray(self.last_round == last)

    @property
    def has_pvalues(self) -> bool:
        """Whether there are p-values."""
        return self.null_distribution is not None and bool(self.tested.any())

    @cached_property
    def log10_pvalues(self) -> Floats:
        """Decimal logarithms of :attr:`pvalues`, accurate far below 1e-300."""
        return self.compute_log10_pvalues()

    def compute_log10_pvalues(self) -> Floats:
        """As :attr:`log10_pvalues`, which are kept; Python 3.11 computes those in one thread at a time."""
        tested = self.tested
        if self.null_distribution is None:
            name = str(self.parameters.get("statistic", "pearson"))
            kind = STATISTICS.get(name)
            if kind is None or not kind.has_pvalues():
                raise ValueError(f"no p-values: the null distribution of {name!r} is not known.")
        if self.null_distribution is None or not tested.any():
            raise ValueError(
                "p-values were not computed: set pvalues=True (--pvalues), which reads all rows of the "
                f"selected features. They were selected by {self.rounds[-1].n_rows:,} of {self.n_rows:,} "
                "rows, and a test on the same rows would be biased."
            )
        if tested.all():
            return np.asarray(self.null_distribution.log10_pvalues(self.scores))
        log10 = np.full(self.n_features, np.nan)
        log10[tested] = self.null_distribution.log10_pvalues(self.scores[tested])
        return log10

    @property
    def pvalues(self) -> Floats:
        """P-value of every feature that was :attr:`tested`; NaN for others.

        Two-sided, or one-sided for statistics such as "chatterjee" for which only large scores indicate
        association. NaN also if the null distribution of a single feature is not known. A constant feature
        has p-value 1. Small p-values of skewed or heavy-tailed data are corrected, larger ones are not. This
        needs another reading of the features, so those of features that were not selected are NaN unless
        p-values were requested (``pvalues=True``). The p-values are not adjusted for multiple testing; see
        :attr:`qvalues` and :meth:`select`.
        """
        return np.power(10.0, self.log10_pvalues)

    @cached_property
    def log10_qvalues(self) -> Floats:
        """Decimal logarithms of :attr:`qvalues`."""
        return adjust_pvalues(self.log10_pvalues)

    @property
    def qvalues(self) -> Floats:
        """Adjusted p-values of Benjamini and Hochberg; NaN for features without a p-value.

        The q-value of a feature is the smallest ``fdr`` at which :meth:`select` returns it. All features
        count as tests.
        """
        return np.power(10.0, self.log10_qvalues)

    @property
    def genomic_inflation(self) -> float:
        r"""Genomic inflation factor λ: the median χ² of all p-values, divided by the 0.455 of the null.

        About 1 if few features are associated and rows are independent given the covariates [1]_. Larger if
        covariates such as ancestry are missing, if rows are relatives, or if many features are associated.
        Features with p-value 1, such as constant ones, do not count. NaN if no other is left; an error is
        raised if a feature has no p-value.

        References
        ----------
        .. [1] Devlin, B. and Roeder, K. (1999). Genomic control for association studies. Biometrics 55,
           997-1004.

        Examples
        --------
        >>> import numpy as np
        >>> from banditsis import Plan, screen
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.standard_normal((500, 2000)), rng.standard_normal(500)
        >>> round(screen(X, y, Plan.exact(500, 2000, 10), pvalues=True).genomic_inflation, 2)
        0.99
        """
        log10 = self.varied_log10_pvalues()
        if not log10.size:
            return float("nan")
        z = special.ndtri_exp(float(np.median(log10)) * np.log(10) - np.log(2))
        return float(z * z / special.ndtri(0.75) ** 2)

    def varied_log10_pvalues(self) -> Floats:
        """Sorted logarithms of the p-values below 1; raises if a feature has no p-value."""
        log10 = self.log10_pvalues
        if n_unknown := int(np.count_nonzero(np.isnan(log10))):
            raise ValueError(
                f"{n_unknown:,} of {len(log10):,} features have no p-value: read every row, and request them."
            )
        return np.sort(log10[log10 < 0])

    def select(self, fdr: float = 0.05, method: str = "bh") -> Indices:
        r"""Features that are significant after multiple-testing correction, smallest p-value first.

        All features count as tested. A feature without a p-value, such as one that an adaptive run dropped,
        counts with p-value 1, so the selection is conservative.

        Parameters
        ----------
        fdr : float
            False discovery rate, in (0, 1); with Holm and Bonferroni, the family-wise error rate.
        method : {"bh", "by", "holm", "bonferroni"}
            Benjamini-Hochberg [1]_, valid for independent and many dependent features;
            Benjamini-Yekutieli [2]_, valid for any dependence; Holm [3]_ and Bonferroni, also valid for any
            dependence, of which Holm rejects more.

        References
        ----------
        .. [1] Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate. J. R. Stat. Soc.
           B 57, 289-300.
        .. [2] Benjamini, Y. and Yekutieli, D. (2001). The control of the false discovery rate in multiple
           testing under dependency. Ann. Statist. 29, 1165-1188.
        .. [3] Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scand. J. Statist. 6,
           65-70.

        Examples
        --------
        >>> import numpy as np
        >>> from banditsis import Plan, screen
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((500, 1000))
        >>> y = X[:, 7] - X[:, 42] + rng.standard_normal(500)
        >>> screen(X, y, Plan.exact(500, 1000, 20)).select(fdr=0.05)
        array([42,  7])
        """
        check_real("fdr", fdr, 0, 1)
        return reject_nulls(self.log10_pvalues, fdr, check_choice("method", method, METHODS))

    @cached_property
    def associated(self) -> Indices | None:
        """Selected features that are clearly associated with the response, best first; None if not known.

        If features were selected by false discovery rate, they are the selected features, which have that
        rate. Otherwise, with probability 95%, no feature without association is among them. If features have
        p-values, they are those with p ≤ 0.05 after Holm's correction for all features. If not, those whose
        95% interval (:meth:`interval`), simultaneous for all features, does not contain 0. The spread of a
        feature may depend on the response. The interval is longer if few rows are informative:
        J = E_x E_y / m of the m rows read for feature and response together, as many as rare values of both
        would meet in by chance. The normal quantile z then becomes z + z² / (6 √J), by the skewness of a
        Poisson distribution [1]_.

        References
        ----------
        .. [1] Cornish, E. A. and Fisher, R. A. (1938). Moments and cumulants in the specification of
           distributions. Revue de l'Institut International de Statistique 5, 307-320.

        Examples
        --------
        >>> import numpy as np
        >>> from banditsis import Plan, screen
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((5000, 300))
        >>> y = X[:, 7] - X[:, 42] + rng.standard_normal(5000)
        >>> result = screen(X, y, Plan.paper(5000, 300, 10), random_state=0)
        >>> len(result.selected), result.associated
        (10, array([ 7, 42]))
        """
        if "fdr" in self.parameters:
            return self.selected
        if self.has_pvalues:
            if np.isnan(self.log10_pvalues[self.selected]).any():  # they were not checked
                return None
            rejected = set(self.select(ERROR_RATE, "holm").tolist())
            return np.array([k for k in self.selected if int(k) in rejected], dtype=np.intp)
        if self.no_floor_reason is not None or self.own_inflation is None:
            return None
        from statistics import NormalDist

        centre, error, own, rows = self._fisher()
        z = -NormalDist().inv_cdf(ERROR_RATE / self.n_features / 2)
        wide: Any = z
        if self.informative is not None and self.informative_response is not None:
            share = min(1.0, self.informative_response / self.rounds[-1].n_rows)
            wide = z + z * z / (6 * np.sqrt(np.maximum(self.informative, 1) * share))
        half = np.maximum(wide * error, student_quantile(z, 2 * rows) * own)
        return np.asarray(self.selected[np.abs(centre) > half])

    def interval(self, confidence: float = 0.95) -> Floats:
        r"""Confidence interval for the population correlation of each selected feature.

        Fisher's transformation of r over the m rows that were read (and present), less the rank of the
        covariates:

        .. math:: \tanh\left(\operatorname{artanh} r \pm z \sqrt{\frac{κ}{m - 3}}\right)

        If rows were sampled in strata, m is the number of effective rows. κ is 1 for normal data. If a
        feature is rare or heavy-tailed in the rows read, it is larger by (K - 3) r² / 4, where K is its
        kurtosis. If not all rows were read, each feature also has an estimate of κ of its own, by the squared
        influence of the rows on r, which allows its spread to depend on the response; with E rows informative
        about it, z becomes the quantile of Student's t with 2E degrees of freedom. The longer interval
        counts. In uniform samples of a heavy-tailed response, such as a lognormal one, 95% intervals cover in
        about 90% of the cases. Intervals are not corrected for selection: the features were selected because
        their scores are large, so the largest scores tend to be too large.

        Parameters
        ----------
        confidence : float
            Coverage probability, in (0, 1).

        Returns
        -------
        ndarray of shape (selected, 2)
            Lower and upper limits, in the order of ``selected``.

        Raises
        ------
        ValueError
            For other statistics, and if the rows read are not a simple random sample.

        References
        ----------
        .. [1] Fisher, R. A. (1921). On the "probable error" of a coefficient of correlation deduced
           from a small sample. Metron 1, 3-32.
        """
        check_real("confidence", confidence, 0, 1)
        if self.no_interval_reason is not None:
            raise ValueError(f"no confidence intervals: {self.no_interval_reason}.")
        from statistics import NormalDist

        centre, error, own, rows = self._fisher()
        z = -NormalDist().inv_cdf(0.5 - confidence / 2)
        half = np.fmax(z * error, student_quantile(z, 2 * rows) * own)
        with np.errstate(invalid="ignore"):
            low, high = np.tanh(centre - half), np.tanh(centre + half)
        exact = np.isinf(centre)  # inf - inf, if three rows or a copy of the response give ±1
        return np.where(exact[:, None], np.sign(centre)[:, None], np.column_stack([low, high]))

    def _fisher(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Fisher's transformation of the correlations of the selected features, and their standard errors.

        The errors are for normal data, and by the variance inflation of each feature, with the number of rows
        that are informative about it.
        """
        read = self.rows_read[self.selected].astype(np.float64)
        m = read if self.present is None else self.present
        r = self.scores[self.selected] * np.sqrt(read / np.maximum(m, 1))
        gain = self._effective_rows[self.selected] / read
        inflation = np.ones_like(r)
        if self.informative is not None:
            inflation = 1.0 + excess_inflation(m / np.maximum(self.informative, 1.0), r)
        own, rows = inflation, np.full_like(r, np.inf)
        if self.own_inflation is not None:
            own, rows = self.own_inflation.T
        with np.errstate(divide="ignore"):
            variance = np.stack([inflation, own]) / np.maximum(m * gain - 3 - self.n_covariates, 0)
            return np.arctanh(np.clip(r, -1.0, 1.0)), *np.sqrt(variance), rows

    def detection_floor(self, confidence: float = 0.95, *, simultaneous: bool = False) -> float:
        r"""The smallest τ such that a feature with \|r\| ≥ τ over all rows was kept with a given probability.

        If d features are kept, this holds if fewer than d others are about as strong: not all of more than d
        near-copies can be kept. The floor follows from the rows and the cutoff of every round, the variance
        inflation of the data, the kurtosis of the features and their spread in strata of the response, and
        the outliers of the response among the rows that were not read. It does not cover the features in
        :attr:`undecided`, and not those whose spread depends on the response if
        :attr:`assumes_equal_spread`. A run that reads every row is exact, and its floor is its last cutoff.
        The fewer features are kept, the higher are the cutoffs and the floor. That of a run with
        ``min_correlation`` is at most this minimum, unless more features pass than are to be kept. With
        missing values it refers to the score, which is r times the root of the share of rows in which the
        feature is present.

        Parameters
        ----------
        confidence : float
            Probability that a feature at the floor was kept, in (0, 1).
        simultaneous : bool
            Whether the probability is for all features together: that no feature at or above the floor was
            lost.

        Raises
        ------
        ValueError
            If no floor is known: for other statistics than Pearson and two-class "anova" and "logistic",
            with sample weights, with missing values and covariates, if the rows read are not a simple random
            sample, and if features were selected by false discovery rate.

        Examples
        --------
        >>> import numpy as np
        >>> from banditsis import Plan, screen
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((20_000, 100))
        >>> y = X[:, 7] + rng.standard_normal(20_000)
        >>> result = screen(X, y, Plan.subsample(20_000, 100, 5, 2000), random_state=0)
        >>> round(result.detection_floor(), 2), round(result.detection_floor(simultaneous=True), 2)
        (0.08, 0.1)
        """
        check_real("confidence", confidence, 0, 1)
        if (reason := self.why_no_floor()) is not None:
            raise ValueError(f"no detection floor: {reason}.")
        # The number of features that pass by evidence is not fixed in advance, so all features count.
        n_compared = self.n_features if self.by_evidence else self.n_candidates or len(self.selected)
        error = error_level(confidence, simultaneous, n_compared)
        cutoffs = [r.cutoff if r.n_kept < r.n_features else 0.0 for r in self.rounds]
        # Each covariate takes a degree of freedom (Fisher 1924).
        rows = [r.effective_rows - self.n_covariates for r in self.rounds]
        n = self.n_rows - self.n_covariates
        kurtosis = [r.kurtosis for r in self.rounds]
        mean = self.variance_inflation or 1.0
        inflation = [max(mean, r.inflation or 1.0) for r in self.rounds]
        floor = min(1.0, detection_floor(rows, cutoffs, n, inflation, error, kurtosis) + self.unread)
        guaranteed = self.parameters.get("min_correlation")
        if guaranteed is None or confidence > self.parameters["confidence"]:
            return floor
        # The guarantee is for all features together, unless more passed than were to be kept.
        return min(floor, max(float(guaranteed), cutoffs[-1]))

    @property
    def assumes_equal_spread(self) -> bool:
        """Whether the detection floor holds only for features whose spread does not depend on the response.

        If rows are sampled in strata of the response, they show the spread of each feature, unless there are
        covariates.
        """
        return any(
            r.inflation is None and r.n_kept < r.n_features and r.n_rows < self.n_rows for r in self.rounds
        )

    def why_no_floor(self) -> str | None:
        """Why there is no detection floor; None if there is one."""
        if self.no_floor_reason is None and self.variance_inflation is None and not self.is_exact:
            return "the variance inflation was not measured"
        return self.no_floor_reason

    def keep_significant(self, fdr: float) -> ScreeningResult:
        """The same result with only the selected features that :meth:`select` returns."""
        kept = np.isin(self.selected, self.select(fdr))
        selected = self.selected[kept]
        left = set(selected.tolist())
        weakest = float(self.strength[selected].min()) if len(selected) else 1.0
        last = replace(self.rounds[-1], n_kept=len(selected), cutoff=weakest)
        return replace(
            self,
            selected=selected,
            present=None if self.present is None else self.present[kept],
            informative=None if self.informative is None else self.informative[kept],
            own_inflation=None if self.own_inflation is None else self.own_inflation[kept],
            effects=None if self.effects is None else self.effects.take(np.flatnonzero(kept)),
            flags={k: flag for k, flag in self.flags.items() if k in left or flag == LEAKAGE},
            n_candidates=len(self.selected),
            no_floor_reason=self.no_floor_reason or "features were selected by p-value",
            near_duplicates={k: group for k, group in self.near_duplicates.items() if k in left},
            correlation=None if self.correlation is None else self.correlation[np.ix_(kept, kept)],
            rounds=(*self.rounds[:-1], last),
            parameters={**self.parameters, "fdr": fdr},
        )

    def with_notes(self, notes: Sequence[str]) -> ScreeningResult:
        """The same result with other notes."""
        return replace(self, notes=tuple(notes))

    def to_frame(self, *, all_features: bool = False) -> Any:
        """A pandas frame with one row per selected feature, best first.

        Parameters
        ----------
        all_features : bool
            Whether to list every feature, by rank. Intervals, effects and whether a feature is clearly
            associated are only known of selected features.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install 'banditsis[frames]'") from None
        chosen = np.argsort(self.ranking) if all_features else self.selected
        return pd.DataFrame(feature_columns(self, chosen))

    def to_json(self, *, full: bool = True, compress: bool = False) -> str:
        """The result as JSON: selected features, rounds, parameters and versions.

        The text is ASCII, with escapes for other characters. JSON has no infinity: the logarithm of a p-value
        of 0 among the selected features is -1e308.

        Parameters
        ----------
        full : bool
            Whether to store everything, including the scores of all features, so :meth:`from_json` gives an
            equal result. Otherwise only what describes the selected features is stored.
        compress : bool
            Whether to compress arrays, which makes a full record of many features several times smaller.
        """
        from banditsis.results.json import to_record  # which imports this module

        return json.dumps(to_record(self, full=full, compress=compress))

    @classmethod
    def from_json(cls, text: str) -> ScreeningResult:
        """Read what :meth:`to_json` wrote; the result is equal in every field."""
        from banditsis.results.json import from_record  # which imports this module

        return from_record(json.loads(text))

    def to_html(
        self, path: str | Path | None = None, *, title: str | None = None, X: Any = None, y: Any = None
    ) -> str | None:
        """A report in one HTML file that works offline: what was found, the features, and how.

        A chart ranks the selected features and tells those that are clearly associated from noise. The best
        100,000 features are listed in a table that can be sorted, searched and saved as CSV.

        Parameters
        ----------
        path : path, optional
            The file to write, atomically; by default the text is returned.
        title : str, optional
            Heading of the report; by default it names the response.
        X, y : optional
            The data that were screened, in any form that :func:`open_source` takes, and the response. Rows of
            pandas objects are paired by their labels, as in :func:`screen`. A sample of at most 5,000 rows
            of the best features is read for plots against the response, and for the correlations among the
            features. Without ``y`` only the latter are shown.
        """
        from banditsis.show.report import render  # only needed here

        y = align_rows(X, y=y)[0]["y"]
        page = render([self], title, X, None if y is None else [y])
        if path is None:
            return page
        write_text(Path(path), page)
        return None

    def plot(self) -> Any:
        """Draw the best features, and beside them the rounds; return the two Axes. Needs Matplotlib.

        If all rows were read, there is only one round, and the p-values of all features are drawn instead.
        More plots, each on Axes of your choice: :mod:`banditsis.show.plots`.
        """
        from banditsis.show.plots import plot  # needs Matplotlib

        return plot(self)

    def _repr_html_(self) -> str:
        from banditsis.show.report.notebook import summarize  # only needed in notebooks

        return summarize(self)

    def __str__(self) -> str:
        best = ", ".join(
            f"{to_single_line(self.name(k))} ({format_score(self.scores[k], 3, self.one_sided)})"
            for k in self.selected[:5]
        )
        lines = [
            f"best: {best}{', …' if len(self.selected) > 5 else ''}" if best else "no feature was selected",
            *filter(None, [describe_sign(self)]),
            *filter(None, [describe_associated(self)]),
            *describe_sampling(self),
            describe_floor(self),
            *(f"note: {note}" for note in (*self.notes, *self.details)),
        ]
        below = (wrap(printable(line), LINE_WIDTH, 2) for line in lines)
        cells = f"{self.cells_read:,} of {self.n_rows * self.n_features:,} cells ({self.fraction_read:.2%})"
        above = [
            f"{len(self.selected):,} of {count(self.n_features, 'feature')} selected",
            f"read {cells} in {format_duration(self.seconds)}",
        ]
        return "\n".join([*above, rounds_table(self.rounds), *below])

    __repr__ = __str__


def student_quantile(z: float, df: Floats) -> Floats:
    """The quantile of Student's t at the probability of a normal quantile z, by Fisher's expansion.

    Examples
    --------
    >>> student_quantile(1.959964, np.array([10.0, np.inf])).round(2)
    array([2.23, 1.96])
    """
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return np.asarray(z + first / df + second / df**2 + third / df**3)


def strength(scores: Floats, one_sided: bool) -> Floats:
    """The values that scores are compared by."""
    return scores if one_sided else np.abs(scores)


def feature_columns(result: ScreeningResult, chosen: Indices) -> dict[str, Any]:
    """Columns that describe some features: in frames, files and on the terminal."""
    place = np.full(result.n_features, -1)
    place[result.selected] = np.arange(len(result.selected))
    place = place[chosen]
    columns: dict[str, Any] = {
        "rank": place + 1 if (place >= 0).all() else result.ranking[chosen],
        "name": [encodable(result.name(k)) for k in chosen],
        "index": chosen,
        **{name: values[chosen] for name, values in result.annotations.items()},
        "score": result.scores[chosen],
    }
    if result.no_interval_reason is None:
        limits = np.append(result.interval(), [[np.nan, np.nan]], axis=0)[place]
        columns |= {"low": limits[:, 0], "high": limits[:, 1]}
    if result.has_pvalues:
        log10, adjusted = result.log10_pvalues[chosen], result.log10_qvalues[chosen]
        columns |= {"pvalue": 10.0**log10, "log10_pvalue": log10}
        columns |= {"qvalue": 10.0**adjusted, "log10_qvalue": adjusted}
    if result.associated is not None:
        marks = np.isin(chosen, result.associated)
        if (place < 0).any():  # which is only known of selected features
            marks = marks.astype(object)
            marks[place < 0] = None
        columns["associated"] = marks
    if result.effects is not None:
        effects = {name: v for name, v in result.effects._asdict().items() if not np.isnan(v).all()}
        columns |= {name: np.append(v, np.nan)[place] for name, v in effects.items()}
    if result.present is not None:
        columns["present"] = np.append(result.present, np.nan)[place]
    columns["rows_read"] = result.rows_read[chosen]
    columns["round_dropped"] = np.where(place < 0, result.last_round[chosen] + 1, 0)
    columns["flag"] = [result.flags.get(int(k), "") for k in chosen]
    return columns


def describe_associated(result: ScreeningResult) -> str:
    """How many of the selected features are clearly associated, in one sentence; empty if not known."""
    clear, n = count_associated(result), len(result.selected)
    n_leaks = sum(result.flags.get(int(k)) == LEAKAGE for k in result.selected)
    if clear is not None and "fdr" in result.parameters:
        return _describe_discoveries(result, clear, n_leaks)
    if clear is None or n == 0:
        return ""
    rest = n - clear - n_leaks
    if n_leaks:
        if n == 1:
            return f"the selected feature is {LEAKAGE}."
        text = f"{clear:,} of {n:,} clearly associated; {n_leaks:,} {LEAKAGE}"
        return f"{text}; {_describe_rest(rest)}" if rest else f"{text}."
    if n == 1:
        return f"the selected feature is {'indistinguishable from noise' if rest else 'clearly associated'}."
    if rest == 0:
        return f"{'both' if n == 2 else f'all {n:,}'} selected features are clearly associated."
    if rest == n:
        return f"none of the {n:,} selected features is clearly associated: they may all be noise."
    return f"{clear:,} of {n:,} clearly associated; {_describe_rest(rest)}"


def _describe_rest(n: int) -> str:
    others = "the other one is" if n == 1 else f"the other {n:,} are"
    return f"{others} indistinguishable from noise."


def count_associated(result: ScreeningResult) -> int | None:
    """How many of the selected features are clearly associated and no possible leakage; None if not known."""
    if result.associated is None:
        return None
    return sum(result.flags.get(int(k)) != LEAKAGE for k in result.associated)


def name_of_associated(result: ScreeningResult) -> str:
    """What a legend calls the features in :attr:`ScreeningResult.associated`."""
    return "discovery" if "fdr" in result.parameters else "clearly associated"


def _describe_discoveries(result: ScreeningResult, n: int, n_leaks: int) -> str:
    """The same for selection by false discovery rate."""
    found = "no discoveries" if n == 0 else "1 discovery" if n == 1 else f"{n:,} discoveries"
    text = f"{found} at a false discovery rate of {format_share(result.parameters['fdr'])}"
    if n_leaks:
        text += f"; {n_leaks:,} more {'is' if n_leaks == 1 else 'are'} {LEAKAGE}"
    if result.n_candidates == result.n_features:
        return f"{text}."
    return (
        f"{text}; {result.n_candidates:,} of {result.n_features:,} features were tested; those dropped "
        "before cannot be discovered."
    )


def describe_inflation(result: ScreeningResult) -> str:
    """The genomic inflation factor in one sentence; empty unless every feature has a p-value."""
    if not result.has_pvalues or np.isnan(result.log10_pvalues).any():
        return ""
    return f"genomic inflation factor λ = {result.genomic_inflation:.3f}."


def minus_log10(log10_pvalues: Floats) -> Floats:
    """-log10 p for plots; where p is 0, a little above the others."""
    finite = log10_pvalues[np.isfinite(log10_pvalues)]
    return -np.where(np.isneginf(log10_pvalues), 1.1 * finite.min(initial=-300.0), log10_pvalues)


def qq_points(result: ScreeningResult, n_points: int) -> tuple[Indices, Floats, Floats]:
    """Ranks, and the expected and observed -log10 p at them: all of the smallest, few of the others."""
    observed = minus_log10(result.varied_log10_pvalues())
    ranks = np.unique(np.rint(np.geomspace(1, max(1, observed.size), n_points)).astype(np.intp))
    ranks = ranks[: observed.size]
    return ranks, -np.log10((ranks - 0.5) / max(1, observed.size)), observed[ranks - 1]


def describe_answer(result: ScreeningResult) -> str:
    """What was found, in one sentence."""
    if known := describe_associated(result):
        return known
    if (n := len(result.selected)) == 0:
        return "no feature was selected."
    which = "whether it is" if n == 1 else "which of them are"
    unknown = f"{count(n, 'feature')} selected; {which} clearly associated is not known"
    kind = STATISTICS.get(str(result.parameters.get("statistic")))
    can_tell = kind is not None and kind.has_pvalues() and not result.parameters.get("pvalues")
    option = "--pvalues" if result.command else "pvalues=True"
    how = f": set {option} to test {'it' if n == 1 else 'them'}." if can_tell else "."
    return unknown + how


def describe_run(result: ScreeningResult) -> str:
    """How much was read, which features have gaps, and what a sample could miss."""
    floor = "" if result.is_exact else describe_floor(result).replace("\n", " ")
    parts = sentence(describe_reading(result)), describe_gaps(result), sentence(floor)
    return " ".join(filter(None, parts))


def sentence(text: str) -> str:
    """A text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def describe_sign(result: ScreeningResult) -> str:
    """Which of two classes goes with positive scores; empty if the response is not of two classes."""
    label = result.parameters.get("positive_class")
    return f"a positive score goes with {label}" if label else ""


def describe_response(result: ScreeningResult) -> str:
    """The classes or the range of the response, and which class goes with positive scores."""
    return "; ".join(filter(None, [result.response_summary, describe_sign(result)]))


def describe_reading(result: ScreeningResult) -> str:
    """How much was read, in one sentence."""
    share = format_share(result.fraction_read)
    read = "all rows were read." if result.is_exact else f"{share} of the cells were read."
    return next((note for note in result.notes if note.startswith("all rows were read")), read)


def describe_gaps(result: ScreeningResult) -> str:
    """Which selected features have missing values, in one sentence; empty if there are none."""
    if result.present is None:
        return ""
    missing = 1 - result.present / result.rows_read[result.selected]
    gappy, rows = np.flatnonzero(missing > 0), "rows" if result.is_exact else "rows read"
    if len(gappy) == 1:
        name, share = to_single_line(result.name(result.selected[gappy[0]])), float(missing[gappy[0]])
        return f"{name} is missing in {round_share(share)} of the {rows}; its score is from the others."
    most = round_share(float(missing.max(initial=0.0)))
    some = f"{len(gappy):,} of the features are missing in up to {most} of the {rows}; their scores are"
    return f"{some} from the others." if len(gappy) else ""


def describe_sampling(result: ScreeningResult) -> list[str]:
    """How much rows that were sampled in strata are worth, in one sentence; nothing for a uniform sample."""
    sampled = [r for r in result.rounds if r.effective_rows != r.n_rows]
    if not sampled:
        return []
    last = sampled[-1]
    return [
        f"sampling: rows were chosen by the response; {last.n_rows:,} of them are worth "
        f"{last.effective_rows:,.0f} uniform rows."
    ]


def floor_condition(result: ScreeningResult) -> str:
    """The conditions of the detection floor; none if all features that passed were kept."""
    conditions = ["its spread does not depend on the response"] if result.assumes_equal_spread else []
    if not result.by_evidence or result.rounds[-1].cutoff > result.parameters.get("min_correlation", 0.0):
        n_kept = result.n_candidates or len(result.selected)
        conditions.append(f"fewer than {n_kept:,} others are about as strong")
    return f" if {' and '.join(conditions)}" if conditions else ""


def describe_floor(result: ScreeningResult) -> str:
    """The detection floor in one sentence."""
    reason = result.why_no_floor()
    if reason is not None:
        return f"detection floor: not available, because {reason}."
    floor = result.detection_floor()
    kept = f"one of the {result.n_candidates:,} candidates" if result.n_candidates else "kept"
    if result.is_exact:
        return f"detection floor: {floor:.4f}; every row was read, so every feature above it was {kept}."
    size = "|score|" if result.parameters.get("missing") == "pairwise" else "|r|"
    text = (
        f"detection floor: {floor:.4f}; a feature with {size} at or above it was {kept} with probability 95%"
        f"{floor_condition(result)}."
    )
    if (n := len(result.undecided)) == 0:
        return text
    have = "feature has" if n == 1 else "features have"
    return (
        f"{text}\n{n:,} {have} fewer than {MIN_INFORMATIVE:g} informative rows among those read; the floor "
        f"does not cover {'it' if n == 1 else 'them'}."
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
