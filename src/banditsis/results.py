"""What a screening run found, and how."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.arrays import Array, Floats, Indices
from banditsis.formatting import count, encodable, format_duration, to_single_line
from banditsis.statistics.null_distributions import METHODS, NullDistribution, StoredPvalues, reject_nulls
from banditsis.validation import check_choice, check_real


@dataclass(frozen=True)
class Round:
    """One step of a run.

    Attributes
    ----------
    n_rows : int
        Rows read in all after this round.
    n_features : int
        Features left before it.
    n_kept : int
        Features left after it.
    cutoff : float
        Smallest absolute score that was kept, or smallest score where large ones alone count; where features
        are dropped by evidence, the smallest that is.
    cells : int
        Cells read in this round.
    seconds : float
        Time it took. Responses that shared a pass over the data share its time equally.
    """

    n_rows: int
    n_features: int
    n_kept: int
    cutoff: float
    cells: int
    seconds: float


@dataclass(frozen=True, eq=False)
class ScreeningResult:
    """What was selected, with scores, and a :class:`Round` for every step.

    Printing it shows the rounds as a table.

    Attributes
    ----------
    selected : ndarray of int
        Indices of the selected features, best first.
    scores : ndarray of shape (n_features,)
        Signed score of every feature from the last round that saw it. NaN where it is not known, after
        :meth:`from_json` of a result stored without all scores.
    rounds : tuple of Round
        What happened in each step.
    last_round : ndarray of shape (n_features,)
        Index of the last round that saw each feature.
    n_rows, n_features : int
        Shape of the data.
    present : ndarray or None
        Where values were missing: the rows in which each selected feature was present.
    parameters : dict
        What was asked for: statistic, row order, seed and so on.
    versions : dict
        Versions of the software that made the result.
    notes : tuple of str
        What a reader should know, in plain words.
    names : sequence or mapping of str, or None
        Names of the features; those without a name are called x0, x1, ….
    inflation : float or None
        How much more the correlations vary from sample to sample than those of normal data, for
        :meth:`detection_floor`; None where it was not measured.
    law : Law or None
        The null law of the scores, for :attr:`pvalues`.

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
    parameters: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    names: Sequence[str] | Mapping[int, str] | None = None
    variance_inflation: float | None = None
    law: NullDistribution | None = None

    @property
    def cells_read(self) -> int:
        """Cells read in all."""
        return sum(r.cells for r in self.rounds)

    @property
    def fraction_read(self) -> float:
        """Cells read, as a fraction of all cells."""
        return self.cells_read / (self.n_rows * self.n_features)

    @property
    def seconds(self) -> float:
        """Time of all rounds."""
        return sum(r.seconds for r in self.rounds)

    @property
    def rows_read(self) -> Indices:
        """How many rows each feature was read for."""
        return np.array([r.n_rows for r in self.rounds], dtype=np.intp)[self.last_round]

    @property
    def one_sided(self) -> bool:
        """Whether large scores alone speak of association, and not those far below 0."""
        return bool(self.parameters.get("one_sided", False))

    @property
    def strength(self) -> Floats:
        """What features are ranked by: the size of their scores, or the scores themselves if one-sided."""
        return strength(self.scores, self.one_sided)

    @property
    def ranking(self) -> Indices:
        """Rank of every feature, 1 the best; one dropped in a round ranks behind everything kept."""
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
        """Mask of the features that the null law speaks of: seen in the last round, and in every row."""
        last = len(self.rounds) - 1
        if self.rounds[last].n_rows < self.n_rows:
            return np.zeros(self.n_features, dtype=bool)
        return np.asarray(self.last_round == last)

    @cached_property
    def log10_pvalues(self) -> Floats:
        """Decimal logarithms of :attr:`pvalues`, right far below 1e-300."""
        tested = self.tested
        if self.law is None:
            statistic = self.parameters.get("statistic", "pearson")
            raise ValueError(f"no p-values: the null law of statistic={statistic!r} is not known.")
        if not tested.any():
            raise ValueError(
                f"no p-values: the features were chosen by {self.rounds[-1].n_rows:,} of {self.n_rows:,} "
                "rows, and a test on those would not be honest; use pvalues=True, which reads "
                "all rows of those that are left, or SIS."
            )
        log10 = np.full(self.n_features, np.nan)
        log10[tested] = self.law.log10_pvalues(self.scores[tested])
        return log10

    @property
    def pvalues(self) -> Floats:
        """P-value of every feature that the last round saw in all rows; NaN for others.

        It is two-sided; one-sided for a statistic of which large scores alone speak of association, such as
        "chatterjee". NaN too where the law of a feature is not known, for a reason the statistic gives.

        Each is that of a test of one feature named beforehand. To choose among features use :meth:`select`,
        which allows for their number. A constant feature has p-value 1.
        """
        return np.power(10.0, self.log10_pvalues)

    def select(self, fdr: float = 0.05, method: str = "bh") -> Indices:
        r"""Features whose p-values stand up to a correction for multiplicity, smallest first.

        All features count as tested. One that an adaptive run dropped is never returned, which only makes
        the others harder to keep: its p-value counts as 1.

        Parameters
        ----------
        fdr : float
            The false discovery rate to allow, in (0, 1); with Bonferroni, the probability of any false
            discovery.
        method : {"bh", "by", "bonferroni"}
            Benjamini and Hochberg [1]_, right for independent features and many dependent ones; Benjamini
            and Yekutieli [2]_, right for any; Bonferroni.

        References
        ----------
        .. [1] Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate. J. R. Stat. Soc.
           B 57, 289-300.
        .. [2] Benjamini, Y. and Yekutieli, D. (2001). The control of the false discovery rate in multiple
           testing under dependency. Ann. Statist. 29, 1165-1188.

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
        if isinstance(self.law, StoredPvalues) and not self.law.complete:
            raise ValueError(
                "this result was stored with the p-values of the selected features alone, and a correction "
                "needs all of them: store it with to_json(all_scores=True)."
            )
        return reject_nulls(self.log10_pvalues, fdr, check_choice("method", method, METHODS))

    @property
    def has_pvalues(self) -> bool:
        """Whether there are p-values."""
        return self.law is not None and bool(self.tested.any())

    def interval(self, confidence: float = 0.95) -> Floats:
        r"""Confidence interval of the population correlation of each selected feature.

        Fisher's transformation of r over the m rows that were read (and present), less the rank of the
        covariates, if there are any:

        .. math:: \tanh\left(\operatorname{artanh} r \pm \frac{z}{\sqrt{m - 3}}\right)

        It is right for one feature named beforehand and about normal data. Features were selected for
        being large, so that the largest tend to lie nearer 0 than their intervals.

        Parameters
        ----------
        confidence : float
            Probability to cover, in (0, 1).

        Returns
        -------
        ndarray of shape (selected, 2)
            Lower and upper ends, in the order of ``selected``.

        Raises
        ------
        ValueError
            For other statistics, and where some blocks or the first rows were read of data that are not
            shuffled: these are no simple random sample.

        References
        ----------
        .. [1] Fisher, R. A. (1921). On the "probable error" of a coefficient of correlation deduced
           from a small sample. Metron 1, 3-32.
        """
        from scipy.special import ndtri

        check_real("confidence", confidence, 0, 1)
        statistic = self.parameters.get("statistic", "pearson")
        if statistic != "pearson":
            raise ValueError(
                f"intervals are known for statistic='pearson' alone, and this result has {statistic!r}."
            )
        from banditsis.plans.detection_floor import why_no_sample

        reason = why_no_sample(self.parameters)
        if reason is not None and (self.rows_read[self.selected] < self.n_rows).any():
            raise ValueError(f"intervals are withheld: {reason}, or read every row.")
        read = self.rows_read[self.selected].astype(np.float64)
        m = read if self.present is None else self.present
        given = self.parameters.get("covariates", 0)
        r = self.scores[self.selected] * np.sqrt(read / np.maximum(m, 1))
        with np.errstate(divide="ignore"):
            centre = np.arctanh(np.clip(r, -1.0, 1.0))
            half = ndtri(0.5 + confidence / 2) / np.sqrt(np.maximum(m - 3 - given, 0))
        low, high = np.tanh(centre - half), np.tanh(centre + half)
        exact = np.abs(r) >= 1  # inf - inf, where three rows or a copy of the response give ±1
        return np.where(exact[:, None], r[:, None], np.column_stack([low, high]))

    def detection_floor(self, confidence: float = 0.95, *, simultaneous: bool = False) -> float:
        r"""The smallest τ such that a feature with \|r\| ≥ τ over all rows was kept with this probability.

        It follows from the rows and the cutoff of every round, and from how much the correlations of these
        data vary (``inflation``); see :mod:`banditsis.plans.detection_floor`. A run that reads every row is exact,
        and its floor is its last cutoff.

        Parameters
        ----------
        confidence : float
            Probability that a feature at the floor was kept, in (0, 1).
        simultaneous : bool
            Whether to speak of all features at once: with this probability none at or above the floor was
            lost.

        Raises
        ------
        ValueError
            Where no floor is known: for class labels, for data with gaps, and for rows in stored order,
            which are no simple random sample.

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
        from banditsis.plans.detection_floor import result_floor

        return result_floor(self, check_real("confidence", confidence, 0, 1), simultaneous)

    def with_notes(self, notes: Sequence[str]) -> ScreeningResult:
        """The same result with other notes."""
        return replace(self, notes=tuple(notes))

    def to_frame(self, all_features: bool = False) -> Any:
        """A pandas frame with a line per selected feature, best first.

        Parameters
        ----------
        all_features : bool
            Whether to list every feature, in the order of its rank.
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
            "score": self.scores[chosen],
            "rows_read": self.rows_read[chosen],
        }
        if self.has_pvalues:
            columns |= {"pvalue": self.pvalues[chosen], "log10_pvalue": self.log10_pvalues[chosen]}
        return pd.DataFrame(columns)

    def to_json(self, all_scores: bool = False) -> str:
        """The result as JSON text: selected features, rounds, parameters and versions.

        JSON has no infinity: where a p-value is 0, its logarithm is -1e308.

        Parameters
        ----------
        all_scores : bool
            Whether to store the scores of all features, not only of the selected ones.
        """
        from banditsis.results import to_record

        # A lone surrogate of a name, which no file can hold, becomes its JSON escape.
        return encodable(json.dumps(to_record(self, all_scores), ensure_ascii=False))

    @classmethod
    def from_json(cls, text: str) -> ScreeningResult:
        """Read what :meth:`to_json` wrote.

        Scores that were not stored are NaN, and their features count as dropped in the first round.
        """
        from banditsis.results import from_record

        return from_record(json.loads(text))

    def to_html(self, path: str | Path | None = None, *, title: str = "Feature screening") -> str | None:
        """A report in one HTML file that needs no network: tables, charts, settings, and how sure it is.

        The best 100,000 features are listed, in a table to sort and search.

        Parameters
        ----------
        path : path, optional
            Where to write it, whole or not at all; by default the text is returned.
        title : str
            Heading of the report.
        """
        from banditsis.formatting import write_text
        from banditsis.report import render

        page = render(self, title)
        if path is None:
            return page
        write_text(Path(path), page)
        return None

    def plot(self) -> Any:
        """Draw the funnel and the scores side by side, and return the two Axes; needs Matplotlib.

        More pictures, each on an Axes of your choice: :mod:`banditsis.plotting`.
        """
        from banditsis.plotting import plot

        return plot(self)

    def _repr_html_(self) -> str:
        from banditsis.report.notebook import summarize

        return summarize(self)

    def __str__(self) -> str:
        lines = [
            f"{len(self.selected):,} of {count(self.n_features, 'feature')} selected; read "
            f"{self.cells_read:,} of {self.n_rows * self.n_features:,} cells "
            f"({self.fraction_read:.2%}) in {format_duration(self.seconds)}",
            f"{'round':>5} {'rows':>11} {'features':>10} {'kept':>9} {'cutoff':>7} {'cells':>14} {'time':>8}",
        ]
        for k, r in enumerate(self.rounds, 1):
            lines.append(
                f"{k:>5} {r.n_rows:>11,} {r.n_features:>10,} {r.n_kept:>9,} {r.cutoff:>7.4f} "
                f"{r.cells:>14,} {format_duration(r.seconds):>8}"
            )
        best = ", ".join(f"{to_single_line(self.name(k))} ({self.scores[k]:+.3f})" for k in self.selected[:5])
        lines.append(f"best: {best}{', …' if len(self.selected) > 5 else ''}")
        lines.append(describe_floor(self))
        lines += [f"note: {note}" for note in self.notes]
        return encodable("\n".join(lines))

    __repr__ = __str__


def strength(scores: Floats, one_sided: bool) -> Floats:
    """What scores are compared by."""
    return scores if one_sided else np.abs(scores)


def describe_floor(result: ScreeningResult) -> str:
    """The detection floor in one sentence."""
    from banditsis.plans.detection_floor import why_no_floor

    reason = why_no_floor(result)
    if reason is not None:
        return f"detection floor: withheld, since {reason}."
    floor = result.detection_floor()
    if result.rounds[0].n_rows >= result.n_rows:
        return f"detection floor: {floor:.4f}; every row was read, so that nothing above it was lost."
    return f"detection floor: {floor:.4f}; a feature with |r| at or above it was kept with probability 95%."


def to_record(result: ScreeningResult, all_scores: bool) -> dict[str, Any]:
    """A result as dictionaries, lists, numbers and text; see :meth:`ScreeningResult.to_json`."""
    record: dict[str, Any] = {
        "features": _features(result),
        "rounds": [asdict(r) for r in result.rounds],
        "n_rows": result.n_rows,
        "n_features": result.n_features,
        "cells_read": result.cells_read,
        "fraction_read": result.fraction_read,
        "parameters": dict(result.parameters),
        "versions": dict(result.versions),
        "notes": list(result.notes),
        "inflation": result.variance_inflation,
    }
    if all_scores:
        named = result.names is not None
        record["scores"] = [None if np.isnan(score) else score for score in result.scores.tolist()]
        if result.has_pvalues:
            record["log10_pvalues"] = [_finite(value) for value in result.log10_pvalues.tolist()]
        record["last_round"] = result.last_round.tolist()
        record["names"] = [result.name(k) for k in range(result.n_features)] if named else None
    return record


def _features(result: ScreeningResult) -> list[dict[str, Any]]:
    """The selected features, best first."""
    features: list[dict[str, Any]] = [
        {"rank": rank, "name": result.name(k), "index": int(k), "score": float(result.scores[k])}
        for rank, k in enumerate(result.selected, 1)
    ]
    if result.present is not None:
        for feature, present in zip(features, result.present, strict=True):
            feature["present"] = int(present)
    if result.has_pvalues:
        for feature in features:
            feature["log10_pvalue"] = _finite(result.log10_pvalues[feature["index"]])
    return features


def from_record(record: Mapping[str, Any]) -> ScreeningResult:
    """The result that a record was made of; see :meth:`ScreeningResult.from_json`."""
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
    present = [f["present"] for f in features if "present" in f]
    result = ScreeningResult(
        selected=selected,
        scores=scores,
        rounds=tuple(Round(**r) for r in record["rounds"]),
        last_round=last_round,
        n_rows=record["n_rows"],
        n_features=p,
        present=np.array(present, dtype=np.float64) if present else None,
        parameters=record["parameters"],
        versions=record["versions"],
        notes=tuple(record["notes"]),
        names=names,
        variance_inflation=record.get("inflation"),
    )
    return _with_stored_pvalues(result, record)


def _with_stored_pvalues(result: ScreeningResult, record: Mapping[str, Any]) -> ScreeningResult:
    features = record["features"]
    if "log10_pvalues" in record:
        log10 = np.array([_number(value) for value in record["log10_pvalues"]])
    elif features and "log10_pvalue" in features[0]:
        log10 = np.full(result.n_features, np.nan)
        log10[result.selected] = [_number(f["log10_pvalue"]) for f in features]
    else:
        return result
    # After a choice by fewer rows the last round tests the selected features, and no others.
    complete = "log10_pvalues" in record or result.rounds[-1].n_features <= len(features)
    return replace(result, law=StoredPvalues(log10[result.tested], complete))


#: What stands for the logarithm of 0 in JSON, which has no infinity.
LOG_OF_ZERO = -1e308


def _finite(value: float) -> float | None:
    """A number that JSON can hold: NaN is null, and the logarithm of 0 is below every other."""
    return None if np.isnan(value) else max(float(value), LOG_OF_ZERO)


def _number(value: float | str | None) -> float:
    if value is None:
        return np.nan
    return -np.inf if float(value) <= LOG_OF_ZERO else float(value)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`screen`.

    Attributes
    ----------
    result : ScreeningResult, a list of them, or None
        What the finished rounds say: the features that were left, best first. None if no round was finished;
        with several responses a list, with None for those without a finished round.

    Examples
    --------
    >>> Interrupted(None).result is None
    True
    """

    def __init__(self, result: Any) -> None:
        self.result = result
        known = "no round was finished" if result is None else ".result has the rounds before that"
        super().__init__(f"screening was interrupted; {known}")


class RoundError(RuntimeError):
    """A round that a cluster could not finish; ``partial`` is the result of the rounds before it, if any."""


def attach(error: Exception, partial: Any) -> None:
    """Let an error carry what the finished rounds say; a mistake of the user needs none of it."""
    if partial is not None and not isinstance(error, (TypeError, ValueError)):
        error.partial = partial  # type: ignore[attr-defined]
        error.add_note("the attribute `partial` of this error has the result of the rounds before it.")
