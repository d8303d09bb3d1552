"""What is known about one response so far: scores, finished rounds, selected features."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import NormalDist
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Floats, Indices
from banditsis.core.formatting import count, were
from banditsis.engine.evidence import VarianceInflation
from banditsis.plans.detection_floor import is_undecided
from banditsis.plans.plan import Plan
from banditsis.results.result import ERROR_RATE, LEAKAGE, About, Evidence, Round, ScreeningResult, strength
from banditsis.sources.base import Source
from banditsis.statistics.base import MIN_PRESENT, is_mostly_missing
from banditsis.statistics.effects import Effects, find_effects
from banditsis.statistics.null_distributions import NormalNull, NullDistribution

logger = logging.getLogger("banditsis")


class Trace:
    """The history of one response.

    Parameters
    ----------
    n_features : int
        Number of features.
    one_sided : bool
        Whether only large positive scores indicate association.
    on_round : callable, optional
        Called with each finished :class:`Round`.
    """

    def __init__(
        self, n_features: int, one_sided: bool = False, on_round: Callable[[Round], object] | None = None
    ) -> None:
        self.one_sided, self.on_round = one_sided, on_round
        self.scores: Floats = np.broadcast_to(0.0, (n_features,))
        self.last_round: Array = np.broadcast_to(np.int32(0), (n_features,))
        self.rounds: list[Round] = []
        #: number of rounds whose scores are known, of which the last may not be finished
        self.n_recorded = 0
        self.selected: Indices = np.arange(0)
        self.present: Floats | None = None
        self.variance_inflation: float | None = None
        #: that of each selected feature, and how many rows are informative about it
        self.own_inflation: Floats | None = None
        self.null_distribution: NullDistribution | None = None
        #: effect sizes of the selected features; None if the statistic has none
        self.effects: Effects | None = None
        #: number of informative rows of each feature that is left; None if it is not known
        self.informative: Floats | None = None
        #: the same for the response
        self.informative_response: float | None = None
        #: features that were dropped although too few of their rows are informative
        self.undecided: list[Indices] = []
        #: the largest kurtosis of a feature that the last round could drop
        self.kurtosis = 3.0
        #: the largest variance inflation of such a feature by its spread in strata; None if it is not known
        self.inflation: float | None = None
        #: how much outliers of the response that were not read can add to a correlation
        self.unread = 0.0
        #: cells read again to check small p-values
        self.cells_reread = 0
        #: features present in too few rows to be scored
        self.mostly_missing: set[int] = set()
        self.min_present = MIN_PRESENT
        #: features whose missing values depend on the response
        self.not_missing_at_random: Indices = np.arange(0)
        self.notes: list[str] = []
        #: remarks that few readers need
        self.details: list[str] = []
        #: features that the second stage chose, in its order; None without one
        self.chosen: Indices | None = None
        #: what the second stage found: further attributes of the result
        self.redundancy: dict[str, Any] = {}
        #: the class with which positive scores go; empty if there is none
        self.positive_class = ""
        #: why neither a detection floor nor intervals are stated for this response
        self.no_guarantee_reason: str | None = None

    def leave_out(self, n_rows: int, reason: str, has_pvalues: bool) -> None:
        """Record that the response is constant: all scores are 0, and no feature is selected."""
        self.rounds.append(Round(n_rows, self.scores.size, 0, 1.0, 0, 0.0))
        self.no_guarantee_reason = reason
        self.notes.append(f"{reason}: all scores are 0, and no feature is selected.")
        self.null_distribution = NormalNull(0.0) if has_pvalues else None  # all p-values are 1

    def add_round(self, finished: Round) -> None:
        """Record a finished round."""
        self.rounds.append(finished)
        sizes = finished.n_rows, finished.n_features, finished.n_kept, finished.seconds
        logger.debug("round %d: %d rows of %d features, %d kept, %.3f s", len(self.rounds), *sizes)
        if self.on_round is not None:
            self.on_round(finished)

    def record_scores(self, columns: Columns, scores: Floats) -> None:
        """Record the scores of the remaining features."""
        self.n_recorded = len(self.rounds) + 1
        if columns is None and not self.rounds:
            self.scores = scores  # and the round of all features is 0
            return
        everything = slice(None) if columns is None else columns
        both = self.scores, self.last_round  # a single read-only number until features are dropped
        self.scores, self.last_round = (a if a.flags.writeable else a.copy() for a in both)
        self.scores[everything] = scores
        self.last_round[everything] = len(self.rounds)

    def record_evidence(
        self, informative: Floats | None, inflation: Floats | None, kept: Indices, n_read: int
    ) -> Indices:
        """Record how heavy-tailed the decided features are; return where undecided ones are dropped."""
        self.kurtosis, self.inflation = 3.0, None
        self.informative = None if informative is None else informative[kept]
        if informative is None or len(kept) == len(informative):
            return np.arange(0)
        decided = ~is_undecided(informative, n_read)
        self.kurtosis = max(3.0, n_read / float(informative[decided].min(initial=np.inf)))
        self.inflation = None if inflation is None else float(inflation[decided].max(initial=1.0))
        dropped = ~decided
        dropped[kept] = False
        return np.flatnonzero(dropped)

    def record_present(self, features: Indices, present: Floats, n_read: int, min_present: int) -> None:
        """Record which features were present in too few of the rows read."""
        few, self.min_present = is_mostly_missing(present, n_read, min_present), min_present
        if not (self.mostly_missing or few.any()):
            return
        self.mostly_missing -= set(features[~few].tolist())
        self.mostly_missing |= set(features[few].tolist())

    def record_missingness(self, r: Floats, alike: Array, present: Floats, n_read: int) -> None:
        """Record for which features, of all, the presence of a value predicts the response.

        It does if that is clear after Bonferroni's correction, and explains a quarter of the variance of the
        response or implies its value.
        """
        z = -NormalDist().inv_cdf(ERROR_RATE / self.scores.size / 2) / np.sqrt(max(n_read - 3, 1))
        with np.errstate(divide="ignore"):
            clear = (np.arctanh(np.abs(r)) > z) & (present >= MIN_PRESENT)
        self.not_missing_at_random = np.flatnonzero(clear & (alike | (np.abs(r) >= 0.5)))

    def record_effects(self, factors: Floats, null: NullDistribution | None) -> None:
        """Record the effect sizes of the selected features: their scores times some factors."""
        if self.present is not None:
            few = is_mostly_missing(self.present, self.rounds[-1].n_rows, self.min_present)
            factors = np.where(few, np.nan, factors)
        self.effects = find_effects(self.scores[self.selected], factors, null)

    def record_inflation(self, measure: Callable[[Indices, int], VarianceInflation | None]) -> None:
        """Record the variance inflation, which is measured given the selected features and the cells read."""
        order = self._best_first()
        found = measure(self.selected[order], sum(r.cells for r in self.rounds))
        if found is not None:
            self.variance_inflation, self.own_inflation = found.mean, found.own[np.argsort(order)]
            self.cells_reread += found.n_cells

    def choose(self, positions: Indices, **redundancy: Any) -> None:
        """Select some of the selected features, in an order that is not that of their scores."""
        kept = np.sort(positions)
        self.chosen, self.redundancy = self.selected[positions], redundancy
        self.selected = self.selected[kept]
        values = self.present, self.informative, self.own_inflation
        self.present, self.informative, self.own_inflation = (None if v is None else v[kept] for v in values)
        self.effects = None if self.effects is None else self.effects.take(kept)

    def _best_first(self) -> Indices:
        if self.chosen is not None:
            return np.searchsorted(self.selected, self.chosen)
        return np.argsort(-strength(self.scores[self.selected], self.one_sided), kind="stable")

    def result(
        self, plan: Plan, source: Source, notes: Sequence[str], n_covariates: int, **facts: Any
    ) -> ScreeningResult:
        """Freeze what is known; ``facts`` are further attributes of the result."""
        unfinished = self.n_recorded > len(self.rounds)
        if unfinished:
            self.last_round = np.minimum(self.last_round, len(self.rounds) - 1)
        self.scores.flags.writeable = False
        best_first = self._best_first()
        result = ScreeningResult(
            selected=self.selected[best_first],
            scores=self.scores,
            rounds=tuple(self.rounds),
            last_round=self.last_round,
            n_rows=plan.n_rows,
            n_features=plan.n_features,
            effects=None if self.effects is None else self.effects.take(best_first),
            names=source.names,
            annotations=source.annotations,
            one_sided=self.one_sided,
            evidence=Evidence(
                present=self.present,
                informative=self.informative,
                own_inflation=self.own_inflation,
                variance_inflation=self.variance_inflation,
                informative_response=self.informative_response,
                unread=self.unread,
                n_covariates=n_covariates,
                by_evidence=plan.by_evidence,
                null_distribution=None if unfinished else self.null_distribution,
            ).take(best_first),
            about=About(
                source.label, created=datetime.now(UTC).isoformat(timespec="seconds"), versions=_versions()
            ),
            cells_reread=self.cells_reread,
            flags=dict.fromkeys(self.not_missing_at_random.tolist(), LEAKAGE),
            undecided=np.sort(np.concatenate([np.arange(0), *self.undecided])),
            notes=(*self.notes, *notes),
            details=tuple(self.details),
            **self.redundancy,
            **facts,
        )
        if not self.mostly_missing:
            return result
        return replace(result, notes=(self._missing_note(result), *result.notes))

    def _missing_note(self, result: ScreeningResult) -> str:
        n = len(self.mostly_missing)
        shown = ", ".join(result.name(k) for k in sorted(self.mostly_missing)[:5])
        more = ", …" if n > 5 else ""
        return (
            f"{count(n, 'feature')} {were(n)} present in fewer than {self.min_present} of the "
            f"rows read and scored 0: {shown}{more}."
        )


def _versions() -> dict[str, str]:
    """Versions of the packages used; exact screening of genotypes needs no Numba."""
    used = {name: sys.modules.get(name) for name in ("banditsis", "numpy", "numba")}
    return {name: module.__version__ for name, module in used.items() if module is not None}
