"""What is known about one response after some rounds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices
from banditsis.engine.state import Scored
from banditsis.plans.detection_floor import is_undecided
from banditsis.results.evidence import ERROR_RATE, Round, strength
from banditsis.statistics.base import MIN_PRESENT, Statistic, is_mostly_missing
from banditsis.statistics.effects import Effects
from banditsis.statistics.null_distributions import NormalNull, NullDistribution

logger = logging.getLogger("banditsis")
NOTHING = np.arange(0)


@dataclass
class Trace:
    """The history of one response; the attributes are those of the result.

    Each round makes a new one, so what a round has yielded stays as it is.
    """

    scores: Floats
    last_round: Array
    one_sided: bool = False
    rounds: list[Round] = field(default_factory=list)
    #: the features that are left, in order; what follows is about these
    selected: Indices = field(default_factory=lambda: NOTHING)
    present: Floats | None = None
    informative: Floats | None = None
    own_inflation: Floats | None = None
    effects: Effects | None = None
    null_distribution: NullDistribution | None = None
    informative_response: float | None = None
    variance_inflation: float | None = None
    unread: float = 0.0
    cells_reread: int = 0
    undecided: Indices = field(default_factory=lambda: NOTHING)
    #: features present in too few rows to be scored
    mostly_missing: Indices = field(default_factory=lambda: NOTHING)
    #: features whose missing values depend on the response
    not_missing_at_random: Indices = field(default_factory=lambda: NOTHING)
    notes: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    #: what a second stage found, and the positions of the selected features in the order it chose them
    redundancy: dict[str, Any] = field(default_factory=dict)
    chosen: Indices | None = None
    #: why neither a detection floor nor intervals are stated for this response
    no_guarantee_reason: str | None = None

    @classmethod
    def start(cls, n_features: int, one_sided: bool) -> Trace:
        """Before the first round."""
        nothing = np.broadcast_to(0.0, n_features), np.broadcast_to(np.int32(0), n_features)
        return cls(*nothing, one_sided)

    @classmethod
    def constant(cls, n_rows: int, n_features: int, reason: str, has_pvalues: bool) -> Trace:
        """A constant response: all scores are 0, and no feature is selected."""
        trace = cls.start(n_features, False)
        trace.rounds = [Round(n_rows, n_features, 0, 1.0, 0, 0.0, float(n_rows))]
        trace.no_guarantee_reason = reason
        trace.notes = [f"{reason}: all scores are 0, and no feature is selected."]
        trace.null_distribution = NormalNull(0.0) if has_pvalues else None  # all p-values are 1
        return trace

    def extend(
        self,
        scored: Scored,
        features: Indices,
        kept: Indices,
        finished: Round,
        statistic: Statistic,
        missing: tuple[Floats, Array] | None,
    ) -> Trace:
        """The trace with a finished round, which scored some features and kept those at some positions.

        ``missing`` is what :meth:`LinearStatistic.missingness` returns.
        """
        n_read = finished.n_rows
        changed: dict[str, Any] = {"scores": scored.scores, "informative": None}
        if self.rounds:
            changed |= {"scores": self.scores.copy(), "last_round": self.last_round.copy()}
            changed["scores"][features] = scored.scores
            changed["last_round"][features] = len(self.rounds)
        if scored.present is not None:
            few = features[is_mostly_missing(scored.present, n_read, statistic.min_present)]
            changed["mostly_missing"] = np.union1d(np.setdiff1d(self.mostly_missing, features), few)
            changed["present"] = scored.present[kept]
            if missing is not None:
                changed["not_missing_at_random"] = _depends_on_response(*missing, scored.present, n_read)
        if scored.informative is not None:
            finished, dropped = judge_evidence(scored, kept, finished)
            changed["informative"] = np.minimum(scored.informative[kept], scored.informative_response or 0.0)
            changed["informative_response"] = scored.informative_response
            changed["undecided"] = np.concatenate([self.undecided, features[dropped]])
        changed |= {"selected": features[kept], "rounds": [*self.rounds, finished]}
        return replace(self, **changed, null_distribution=scored.null)

    def report(self, on_round: Callable[[Round], object] | None) -> None:
        """Report the last round."""
        finished = self.rounds[-1]
        sizes = finished.n_rows, finished.n_features, finished.n_kept, finished.seconds
        logger.debug("round %d: %d rows of %d features, %d kept, %.3f s", len(self.rounds), *sizes)
        if on_round is not None:
            on_round(finished)

    def choose(self, positions: Indices, **redundancy: Any) -> Trace:
        """Select some of the selected features, in an order that is not that of their scores."""
        order = np.sort(positions)
        chosen = np.searchsorted(order, positions)
        return replace(self, **self.of_selected(order), chosen=chosen, redundancy=redundancy)

    def best_first(self) -> Indices:
        """Positions of the selected features, best first."""
        if self.chosen is not None:
            return self.chosen
        return np.argsort(-strength(self.scores[self.selected], self.one_sided), kind="stable")

    def of_selected(self, positions: Indices) -> dict[str, Any]:
        """What is known about the selected features at some positions."""
        names = "selected", "present", "informative", "own_inflation"
        values = {name: getattr(self, name) for name in names}
        found = {name: None if value is None else value[positions] for name, value in values.items()}
        return found | {"effects": None if self.effects is None else self.effects.take(positions)}


def judge_evidence(scored: Scored, kept: Indices, finished: Round) -> tuple[Round, Indices]:
    """The round with the shape of the features it could drop, and positions of undecided ones it dropped."""
    informative = scored.informative
    assert informative is not None
    if len(kept) == len(informative):
        return finished, NOTHING
    decided = ~is_undecided(informative, finished.n_rows)
    kurtosis = max(3.0, finished.n_rows / float(informative[decided].min(initial=np.inf)))
    inflation = None if scored.inflation is None else float(scored.inflation[decided].max(initial=1.0))
    decided[kept] = True
    return replace(finished, kurtosis=kurtosis, inflation=inflation), np.flatnonzero(~decided)


def _depends_on_response(r: Floats, alike: Array, present: Floats, n_read: int) -> Indices:
    """For which features, of all, the presence of a value predicts the response.

    It does if that is clear after Bonferroni's correction, and explains a quarter of the variance of the
    response or implies its value.
    """
    z = -NormalDist().inv_cdf(ERROR_RATE / r.size / 2) / np.sqrt(max(n_read - 3, 1))
    with np.errstate(divide="ignore"):
        clear = (np.arctanh(np.abs(r)) > z) & (present >= MIN_PRESENT)
    return np.flatnonzero(clear & (alike | (np.abs(r) >= 0.5)))
