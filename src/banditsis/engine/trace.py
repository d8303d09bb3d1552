"""The history of one response: scores, rounds and what is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numba
import numpy as np

import banditsis
from banditsis.arrays import Columns, Floats, Indices
from banditsis.engine.variance_inflation import VarianceInflation
from banditsis.plans.plan import Plan
from banditsis.results import Round, ScreeningResult, strength
from banditsis.statistics.base import MIN_PRESENT
from banditsis.statistics.null_distributions import NullDistribution


class Trace:
    """The history of one response."""

    def __init__(self, n_features: int, one_sided: bool = False) -> None:
        self.one_sided = one_sided
        self.scores = np.zeros(n_features)
        self.last_round = np.zeros(n_features, np.int32)
        self.rounds: list[Round] = []
        self.selected: Indices = np.arange(0)
        self.present: Floats | None = None
        self.variance_inflation: VarianceInflation | None = None
        #: of the scores in the last round, if the statistic knows it
        self.law: NullDistribution | None = None
        #: features seen in too few rows to say anything
        self.scarce: set[int] = set()
        self.notes: list[str] = []
        #: told of each finished round
        self.tell: Callable[[Round], object] | None = None

    def add(self, finished: Round) -> None:
        """Note a finished round."""
        self.rounds.append(finished)
        if self.tell is not None:
            self.tell(finished)

    def record(self, columns: Columns, scores: Floats) -> None:
        """Note the scores of the features that are left."""
        everything = slice(None) if columns is None else columns
        self.scores[everything] = scores
        self.last_round[everything] = len(self.rounds)

    def note_present(self, features: Indices, present: Floats) -> None:
        """Note which features were seen in too few rows."""
        few = present < MIN_PRESENT
        self.scarce -= set(features[~few].tolist())
        self.scarce |= set(features[few].tolist())

    def strongest(self) -> Indices:
        """The selected features, best first."""
        return self.selected[self._best_first()]

    def _best_first(self) -> Indices:
        return np.argsort(-strength(self.scores[self.selected], self.one_sided), kind="stable")

    def result(
        self,
        plan: Plan,
        names: Sequence[str] | None,
        parameters: Mapping[str, Any],
        notes: Sequence[str],
    ) -> ScreeningResult:
        """Freeze what is known."""
        unfinished = bool((self.last_round >= len(self.rounds)).any())
        np.minimum(self.last_round, len(self.rounds) - 1, out=self.last_round)
        self.scores.flags.writeable = False
        best_first = self._best_first()
        result = ScreeningResult(
            selected=self.selected[best_first],
            scores=self.scores,
            rounds=tuple(self.rounds),
            last_round=self.last_round,
            n_rows=plan.n_rows,
            n_features=plan.n_features,
            present=None if self.present is None else self.present[best_first],
            parameters=dict(parameters),
            versions=_versions(),
            names=names,
            variance_inflation=None if self.variance_inflation is None else self.variance_inflation.mean,
            law=None if unfinished else self.law,
        )
        return result.with_notes([*self.notes, *notes, *self._scarcity(result)])

    def _scarcity(self, result: ScreeningResult) -> list[str]:
        if not self.scarce:
            return []
        some = ", ".join(result.name(k) for k in sorted(self.scarce)[:5])
        more = ", …" if len(self.scarce) > 5 else ""
        return [
            f"{len(self.scarce):,} features were present in fewer than {MIN_PRESENT} of the rows read "
            f"and scored 0: {some}{more}."
        ]


def _versions() -> dict[str, str]:
    return {"banditsis": banditsis.__version__, "numpy": np.__version__, "numba": numba.__version__}


def best(scores: Floats, n_keep: int, *, one_sided: bool = False) -> tuple[Indices, float]:
    """Places of the largest absolute scores (or scores, if one-sided), in order, and the smallest of them.

    Ties go to the lower index.

    Examples
    --------
    >>> best(np.array([0.1, -0.5, 0.2, 0.2]), 2)
    (array([1, 2]), 0.2)
    """
    size = strength(scores, one_sided)
    if n_keep == 0:
        return np.arange(0), 1.0
    cutoff = np.partition(size, len(size) - n_keep)[len(size) - n_keep]
    keep = size > cutoff
    ties = np.flatnonzero(size == cutoff)
    keep[ties[: n_keep - np.count_nonzero(keep)]] = True
    return np.flatnonzero(keep), float(cutoff)
