"""What a screening run found, and how; read from and written to JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.arrays import Array, Floats, Indices
from banditsis.formatting import (
    count,
    encodable,
    format_duration,
    printable,
    rounds_table,
    to_single_line,
    write_text,
)
from banditsis.plans.detection_floor import MIN_INFORMATIVE, detection_floor, error_level, excess_inflation
from banditsis.statistics.effects import Effects
from banditsis.statistics.null_distributions import (
    METHODS,
    NullDistribution,
    StoredPvalues,
    adjust_pvalues,
    reject_nulls,
)
from banditsis.validation import check_choice, check_real

#: Stands for the logarithm of 0 in JSON, which has no infinity.
LOG_OF_ZERO = -1e308


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
        Duration. Responses that shared a pass over the data share its time equally.
    effective_rows : float
        Rows of a uniform sample that would be as precise; by default ``n_rows``.
    kurtosis : float
        The largest kurtosis of a feature that this round could drop, at least 3.
    """

    n_rows: int
    n_features: int
    n_kept: int
    cutoff: float
    cells: int
    seconds: float
    effective_rows: float = 0.0
    kurtosis: float = 3.0

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
        Indices of the selected features, best first.
    scores : ndarray of shape (n_features,)
        Signed score of every feature from the last round it took part in. NaN if it is not known, after
        :meth:`from_json` of a result that was stored without all scores.
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
        Remarks for the reader.
    names : sequence or mapping of str, or None
        Names of the features; features without a name are called x0, x1, ….
    annotations : dict of str to ndarray
        What else the data say about every feature, such as chromosome, position and alleles of a variant:
        columns with one value for each feature. After :meth:`from_json` of a result that was stored without
        all scores, None for features that were not selected.
    one_sided : bool
        Whether only large positive scores indicate association.
    by_evidence : bool
        Whether features were dropped by evidence against a minimum correlation.
    n_covariates : int
        Rank of the covariates besides the intercept.
    variance_inflation : float or None
        How much more the correlations vary from sample to sample than for normal data, for
        :meth:`detection_floor`; None if it was not measured.
    no_floor_reason, no_interval_reason : str or None
        Why there is no detection floor, or no confidence interval; None if there is one.
    unread : float
        How much a single row that was not read can add to a correlation, beyond what is ordinary; it is added
        to the detection floor. Above 0 if the response has outliers that were not read.
    undecided : ndarray of int
        Features that were dropped although fewer than 3.5 of the rows read say something about them, because
        they are constant, rare or heavy-tailed there. The detection floor does not cover them.
    flags : dict of int to str
        Selected features that look like a mistake: "possible leakage" if the score is nearly 1, and "distinct
        integers" for what may be an id.
    cells_reread : int
        Cells that were read again to check small p-values; not part of :attr:`cells_read`.
    null_distribution : NullDistribution or None
        The distribution of the scores without association, for :attr:`pvalues`.

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
    names: Sequence[str] | Mapping[int, str] | None = None
    annotations: Mapping[str, Array] = field(default_factory=dict)
    one_sided: bool = False
    by_evidence: bool = False
    n_covariates: int = 0
    variance_inflation: float | None = None
    no_floor_reason: str | None = None
    no_interval_reason: str | None = None
    unread: float = 0.0
    undecided: Indices = field(default_factory=lambda: np.arange(0))
    flags: Mapping[int, str] = field(default_factory=dict)
    cells_reread: int = 0
    null_distribution: NullDistribution | None = None

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

    @property
    def ranking(self) -> Indices:
        """Rank of every feature, from 1: by the last round it survived, then by score."""
        order = np.lexsort((-self.strength, -self.last_round.astype(np.intp), ~self.support))
        ranks = np.empty(self.n_features, dtype=np.intp)
        ranks[order] = np.arange(1, self.n_features + 1)
        return ranks

    @property
    def support(self) -> Array:
        """Mask of the selected features."""
        mask = np.zeros(self.n_features, dtype=bool)
        mask[self.selected] = True
        return mask

    def name(self, feature: int) -> str:
        """Name of a feature."""
        if isinstance(self.names, Mapping):
            return self.names.get(int(feature), f"x{feature}")
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
        tested = self.tested
        if self.null_distribution is None:
            statistic = repr(self.parameters.get("statistic", "pearson"))
            strata = " for rows sampled in strata" if self.parameters.get("sampling") == "stratified" else ""
            raise ValueError(f"no p-values: the null distribution of {statistic} is not known{strata}.")
        if not tested.any():
            raise ValueError(
                f"no p-values: the features were selected by {self.rounds[-1].n_rows:,} of {self.n_rows:,} "
                "rows, and a test on the same rows would be biased. Request p-values, which reads all rows "
                "of the selected features, or read every row."
            )
        log10 = np.full(self.n_features, np.nan)
        log10[tested] = self.null_distribution.log10_pvalues(self.scores[tested])
        return log10

    @property
    def pvalues(self) -> Floats:
        """P-value of every feature that was :attr:`tested`; NaN for others.

        Two-sided, or one-sided for statistics such as "chatterjee" for which only large scores indicate
        association. NaN also if the null distribution of a single feature is not known. A constant feature
        has p-value 1. Small p-values of skewed or heavy-tailed data are corrected. The p-values are not
        adjusted for multiple testing; see :attr:`qvalues` and :meth:`select`.
        """
        return np.power(10.0, self.log10_pvalues)

    @cached_property
    def log10_qvalues(self) -> Floats:
        """Decimal logarithms of :attr:`qvalues`."""
        null = self.null_distribution
        if isinstance(null, StoredPvalues) and null.log10_qvalues is not None:
            log10 = np.full(self.n_features, np.nan)
            log10[self.tested] = null.log10_qvalues
            return log10
        return adjust_pvalues(self.log10_pvalues)

    @property
    def qvalues(self) -> Floats:
        """Adjusted p-values of Benjamini and Hochberg; NaN for features without a p-value.

        The q-value of a feature is the smallest ``fdr`` at which :meth:`select` returns it. All features
        count as tests.
        """
        return np.power(10.0, self.log10_qvalues)

    def select(self, fdr: float = 0.05, method: str = "bh") -> Indices:
        r"""Features that are significant after multiple-testing correction, smallest p-value first.

        All features count as tested. A feature that an adaptive run dropped counts with p-value 1, so the
        selection is conservative.

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
        if isinstance(self.null_distribution, StoredPvalues) and not self.null_distribution.complete:
            raise ValueError(
                "this result was stored with the p-values of the selected features only, but a correction "
                "needs all of them: store it with to_json(all_scores=True)."
            )
        return reject_nulls(self.log10_pvalues, fdr, check_choice("method", method, METHODS))

    def interval(self, confidence: float = 0.95) -> Floats:
        r"""Confidence interval for the population correlation of each selected feature.

        Fisher's transformation of r over the m rows that were read (and present), less the rank of the
        covariates:

        .. math:: \tanh\left(\operatorname{artanh} r \pm z \sqrt{\frac{κ}{m - 3}}\right)

        If rows were sampled in strata, m is the number of effective rows and κ the variance inflation, but at
        least 1. Otherwise κ is 1, for normal data. If a feature is rare or heavy-tailed in the rows read, κ
        is larger by (K - 3) r² / 4, where K is its kurtosis. Intervals are not corrected for selection: the
        features were selected because their scores are large, so the largest scores tend to be too large.

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
        from scipy.special import ndtri

        check_real("confidence", confidence, 0, 1)
        if self.no_interval_reason is not None:
            raise ValueError(f"no confidence intervals: {self.no_interval_reason}.")
        read = self.rows_read[self.selected].astype(np.float64)
        m = read if self.present is None else self.present
        r = self.scores[self.selected] * np.sqrt(read / np.maximum(m, 1))
        gain = self._effective_rows[self.selected] / read
        inflation: Any = 1.0 if (gain == 1).all() else max(1.0, self.variance_inflation or 1.0)
        if self.informative is not None:
            inflation = inflation + excess_inflation(m / np.maximum(self.informative, 1.0), r)
        with np.errstate(divide="ignore"):
            centre = np.arctanh(np.clip(r, -1.0, 1.0))
            variance = inflation / np.maximum(m * gain - 3 - self.n_covariates, 0)
            half = ndtri(0.5 + confidence / 2) * np.sqrt(variance)
        low, high = np.tanh(centre - half), np.tanh(centre + half)
        exact = np.abs(r) >= 1  # inf - inf, if three rows or a copy of the response give ±1
        return np.where(exact[:, None], r[:, None], np.column_stack([low, high]))

    def detection_floor(self, confidence: float = 0.95, *, simultaneous: bool = False) -> float:
        r"""The smallest τ such that a feature with \|r\| ≥ τ over all rows was kept with a given probability.

        It follows from the rows and the cutoff of every round, the variance inflation of the data, the
        kurtosis of the features, and the outliers of the response among the rows that were not read. It does
        not cover the features in :attr:`undecided`. A run that reads every row is exact, and its floor is its
        last cutoff.

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
            If no floor is known: for other statistics than Pearson, with missing values, and if the rows read
            are not a simple random sample.

        Examples
        --------
        >>> import numpy as np
        >>> from banditsis import Plan, screen
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((20_000, 100))
        >>> y = X[:, 7] + rng.standard_normal(20_000)
        >>> result = screen(X, y, Plan.subsample(20_000, 100, 5, 2000), random_state=0)
        >>> round(result.detection_floor(), 2), round(result.detection_floor(simultaneous=True), 2)
        (0.08, 0.09)
        """
        check_real("confidence", confidence, 0, 1)
        if (reason := self.why_no_floor()) is not None:
            raise ValueError(f"no detection floor: {reason}.")
        # The number of features that pass by evidence is not fixed in advance, so all features count.
        n_compared = self.n_features if self.by_evidence else len(self.selected)
        error = error_level(confidence, simultaneous, n_compared)
        cutoffs = [r.cutoff if r.n_kept < r.n_features else 0.0 for r in self.rounds]
        # Each covariate takes a degree of freedom (Fisher 1924).
        rows = [r.effective_rows - self.n_covariates for r in self.rounds]
        n = self.n_rows - self.n_covariates
        kurtosis = [r.kurtosis for r in self.rounds]
        inflation = self.variance_inflation or 1.0
        return min(1.0, detection_floor(rows, cutoffs, n, inflation, error, kurtosis) + self.unread)

    def why_no_floor(self) -> str | None:
        """Why there is no detection floor; None if there is one."""
        if self.no_floor_reason is None and self.variance_inflation is None and not self.is_exact:
            return "the variance inflation was not measured"
        return self.no_floor_reason

    def with_notes(self, notes: Sequence[str]) -> ScreeningResult:
        """The same result with other notes."""
        return replace(self, notes=tuple(notes))

    def to_frame(self, all_features: bool = False) -> Any:
        """A pandas frame with one row per selected feature, best first.

        Parameters
        ----------
        all_features : bool
            Whether to list every feature, by rank.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install 'banditsis[frames]'") from None
        chosen = np.argsort(self.ranking) if all_features else self.selected
        columns: dict[str, Any] = {
            "rank": np.arange(1, len(chosen) + 1),
            "name": [encodable(self.name(k)) for k in chosen],
            "index": chosen,
            **{name: values[chosen] for name, values in self.annotations.items()},
            "score": self.scores[chosen],
            "rows_read": self.rows_read[chosen],
            "flag": [self.flags.get(int(k), "") for k in chosen],
        }
        if self.effects is not None:
            for name, values in self.effects._asdict().items():
                known = np.full(self.n_features, np.nan)
                known[self.selected] = values
                columns[name] = known[chosen]
        if self.has_pvalues:
            columns |= {"pvalue": self.pvalues[chosen], "log10_pvalue": self.log10_pvalues[chosen]}
            columns["qvalue"] = self.qvalues[chosen]
        return pd.DataFrame(columns)

    def to_json(self, all_scores: bool = False) -> str:
        """The result as JSON: selected features, rounds, parameters and versions.

        The text is ASCII, with escapes for other characters. JSON has no infinity: the logarithm of a p-value
        of 0 is stored as -1e308.

        Parameters
        ----------
        all_scores : bool
            Whether to store the scores of all features instead of only the selected ones.
        """
        return json.dumps(_to_record(self, all_scores))

    @classmethod
    def from_json(cls, text: str) -> ScreeningResult:
        """Read what :meth:`to_json` wrote.

        Scores that were not stored are NaN, and their features count as dropped in the first round.
        """
        return _from_record(json.loads(text))

    def to_html(self, path: str | Path | None = None, *, title: str = "Feature screening") -> str | None:
        """A report in one HTML file that works offline: tables, charts, settings and guarantees.

        The best 100,000 features are listed in a table that can be sorted and searched.

        Parameters
        ----------
        path : path, optional
            The file to write, atomically; by default the text is returned.
        title : str
            Heading of the report.
        """
        from banditsis.report import render  # only needed here

        page = render(self, title)
        if path is None:
            return page
        write_text(Path(path), page)
        return None

    def plot(self) -> Any:
        """Draw the funnel and the scores side by side, and return the two Axes; needs Matplotlib.

        More pictures, each on Axes of your choice: :mod:`banditsis.plotting`.
        """
        from banditsis.plotting import plot  # needs Matplotlib

        return plot(self)

    def _repr_html_(self) -> str:
        from banditsis.report.notebook import summarize  # only needed in notebooks

        return summarize(self)

    def __str__(self) -> str:
        best = ", ".join(f"{to_single_line(self.name(k))} ({self.scores[k]:+.3f})" for k in self.selected[:5])
        lines = [
            f"{len(self.selected):,} of {count(self.n_features, 'feature')} selected; read "
            f"{self.cells_read:,} of {self.n_rows * self.n_features:,} cells "
            f"({self.fraction_read:.2%}) in {format_duration(self.seconds)}",
            rounds_table(self.rounds),
            f"best: {best}{', …' if len(self.selected) > 5 else ''}",
            *describe_sampling(self),
            describe_floor(self),
            *(f"note: {note}" for note in self.notes),
        ]
        return printable("\n".join(lines))

    __repr__ = __str__


def strength(scores: Floats, one_sided: bool) -> Floats:
    """The values that scores are compared by."""
    return scores if one_sided else np.abs(scores)


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


def describe_floor(result: ScreeningResult) -> str:
    """The detection floor in one sentence."""
    reason = result.why_no_floor()
    if reason is not None:
        return f"detection floor: not available, because {reason}."
    floor = result.detection_floor()
    if result.is_exact:
        return f"detection floor: {floor:.4f}; every row was read, so every feature above it was kept."
    text = f"detection floor: {floor:.4f}; a feature with |r| at or above it was kept with probability 95%."
    if (n := len(result.undecided)) == 0:
        return text
    have = "feature has" if n == 1 else "features have"
    return (
        f"{text}\n{n:,} {have} fewer than {MIN_INFORMATIVE:g} informative rows among those read; the floor "
        f"does not cover {'it' if n == 1 else 'them'}."
    )


def _to_record(result: ScreeningResult, all_scores: bool) -> dict[str, Any]:
    """A result as plain data; see :meth:`ScreeningResult.to_json`."""
    record: dict[str, Any] = {
        "features": _selected_records(result),
        "rounds": [asdict(r) for r in result.rounds],
        "cells_read": result.cells_read,
        "fraction_read": result.fraction_read,
        "notes": list(result.notes),
        "undecided": result.undecided.tolist(),
        "flags": {str(k): flag for k, flag in result.flags.items()},
    }
    record |= {name: getattr(result, name) for name in _PLAIN_FIELDS}
    if all_scores:
        record["scores"] = [None if np.isnan(score) else score for score in result.scores.tolist()]
        if result.has_pvalues:
            record["log10_pvalues"] = [_to_finite(value) for value in result.log10_pvalues.tolist()]
        record["last_round"] = result.last_round.tolist()
        named = result.names is not None
        record["names"] = [result.name(k) for k in range(result.n_features)] if named else None
        record["annotations"] = {name: _to_plain(values) for name, values in result.annotations.items()}
    return record


def _selected_records(result: ScreeningResult) -> list[dict[str, Any]]:
    features: list[dict[str, Any]] = [
        {"rank": rank, "name": result.name(k), "index": int(k), "score": float(result.scores[k])}
        for rank, k in enumerate(result.selected, 1)
    ]
    annotations = {name: _to_plain(values[result.selected]) for name, values in result.annotations.items()}
    for position, feature in enumerate(features):
        if annotations:
            feature["annotations"] = {name: values[position] for name, values in annotations.items()}
        if result.present is not None:
            feature["present"] = int(result.present[position])
        if result.informative is not None:
            feature["informative"] = float(result.informative[position])
        if result.effects is not None:
            beta, se = (_to_finite(values[position]) for values in result.effects)
            feature |= {"beta": beta, "se": se}
        if result.has_pvalues:
            feature["log10_pvalue"] = _to_finite(result.log10_pvalues[feature["index"]])
            feature["log10_qvalue"] = _to_finite(result.log10_qvalues[feature["index"]])
    return features


def _from_record(record: Mapping[str, Any]) -> ScreeningResult:
    """The result that a record was made from; see :meth:`ScreeningResult.from_json`."""
    p, features = record["n_features"], record["features"]
    selected = np.array([f["index"] for f in features], dtype=np.intp)
    names: Sequence[str] | Mapping[int, str] | None = record.get("names")
    if "scores" in record:
        scores = np.array(record["scores"], dtype=np.float64)
        last_round = np.array(record["last_round"], dtype=np.int32)
    else:
        scores = np.full(p, np.nan)
        scores[selected] = [f["score"] for f in features]
        last_round = np.zeros(p, dtype=np.int32)
        last_round[selected] = len(record["rounds"]) - 1
        names = {f["index"]: f["name"] for f in features}
    annotations = {name: _from_plain(values) for name, values in record.get("annotations", {}).items()}
    if "scores" not in record:
        for name in features[0].get("annotations", ()) if features else ():
            annotations[name] = np.full(p, None, dtype=object)
            annotations[name][selected] = [f["annotations"][name] for f in features]
    present = [f["present"] for f in features if "present" in f]
    informative = [f["informative"] for f in features if "informative" in f]
    effects = [[_from_finite(f["beta"]), _from_finite(f["se"])] for f in features if "beta" in f]
    result = ScreeningResult(
        selected=selected,
        scores=scores,
        rounds=tuple(Round(**r) for r in record["rounds"]),
        last_round=last_round,
        present=np.array(present, dtype=np.float64) if present else None,
        informative=np.array(informative, dtype=np.float64) if informative else None,
        effects=Effects(*np.array(effects).T) if effects else None,
        notes=tuple(record["notes"]),
        names=names,
        annotations=annotations,
        undecided=np.array(record["undecided"], dtype=np.intp),
        flags={int(k): flag for k, flag in record["flags"].items()},
        **{name: record[name] for name in _PLAIN_FIELDS},
    )
    return _with_stored_pvalues(result, record)


def _with_stored_pvalues(result: ScreeningResult, record: Mapping[str, Any]) -> ScreeningResult:
    if "log10_pvalues" in record:
        log10 = np.array([_from_finite(value) for value in record["log10_pvalues"]])
        return replace(result, null_distribution=StoredPvalues(log10[result.tested]))
    features = record["features"]
    if not features or "log10_pvalue" not in features[0]:
        return result
    log10, adjusted = np.full((2, result.n_features), np.nan)
    log10[result.selected] = [_from_finite(f["log10_pvalue"]) for f in features]
    adjusted[result.selected] = [_from_finite(f["log10_qvalue"]) for f in features]
    # After a final pass only the selected features have p-values, and all of those are stored.
    complete = result.rounds[-1].n_features <= len(features)
    tested = result.tested
    return replace(result, null_distribution=StoredPvalues(log10[tested], complete, adjusted[tested]))


#: Fields of a result that JSON holds as they are.
_PLAIN_FIELDS = tuple(
    f.name
    for f in fields(ScreeningResult)
    if f.name
    not in (
        "selected",
        "scores",
        "rounds",
        "last_round",
        "present",
        "informative",
        "effects",
        "notes",
        "names",
        "annotations",
        "undecided",
        "flags",
        "null_distribution",
    )
)


def _to_plain(values: Array) -> list[Any]:
    """Values that JSON can hold; NaN is null."""
    return [None if value != value else value for value in values.tolist()]


def _from_plain(values: list[Any]) -> Array:
    """Numbers, or objects if some values are text or missing."""
    is_number = all(isinstance(value, (int, float)) for value in values)
    return np.array(values, dtype=None if is_number else object)


def _to_finite(value: float) -> float | None:
    """A number that JSON can hold: NaN is null, and the logarithm of 0 is the smallest number."""
    return None if np.isnan(value) else max(float(value), LOG_OF_ZERO)


def _from_finite(value: float | None) -> float:
    if value is None:
        return np.nan
    return -np.inf if float(value) <= LOG_OF_ZERO else float(value)


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
