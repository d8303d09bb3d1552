"""What is left of each response, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

import banditsis
from banditsis._typing import Array, Columns, Floats, Indices, Rows
from banditsis.inflation import Inflation
from banditsis.laws import Law
from banditsis.parallel import Workers
from banditsis.plans import Plan
from banditsis.results import Round, ScreeningResult, strength
from banditsis.sampling import count_rows
from banditsis.sources.base import Calibration, Source
from banditsis.statistics.base import MIN_PRESENT, MomentStatistic, weigh

# Costs in units of a scattered cell, read and summed for one response alone; by these, responses share a
# pass or go on alone. Cells that several responses share lie denser, and matrix products are cheap.
SHARED_CELL, SHARED_RESPONSE, PASS = 0.2, 0.0025, 40_000
SCORES_AT_ONCE = 1 << 15


class Trace:
    """The history of one response."""

    def __init__(self, n_features: int, one_sided: bool = False) -> None:
        self.one_sided = one_sided
        self.scores = np.zeros(n_features)
        self.last_round = np.zeros(n_features, np.int32)
        self.rounds: list[Round] = []
        self.selected: Indices = np.arange(0)
        self.present: Floats | None = None
        self.inflation: Inflation | None = None
        #: of the scores in the last round, if the statistic knows it
        self.law: Law | None = None
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
            inflation=None if self.inflation is None else self.inflation.mean,
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


@dataclass
class Group:
    """Responses that share a pass over the data: sums of every feature that any of them has left."""

    members: list[int]
    statistic: MomentStatistic
    source: Source
    calibration: Calibration
    columns: Columns
    sums: Floats
    #: which of the columns each member has left
    left: list[Indices | slice]
    summary: Floats

    @property
    def n_left(self) -> list[int]:
        """How many features each member has left."""
        width = self.sums.shape[1]
        return [width if isinstance(left, slice) else len(left) for left in self.left]

    def indices(self, places: Array | slice) -> Indices:
        """Indices of the features in some places of the sums."""
        if self.columns is None and isinstance(places, np.ndarray):
            return places
        columns = np.arange(self.sums.shape[1]) if self.columns is None else self.columns
        return columns[places]

    def read(self, rows: Rows, workers: Workers, tick: Callable[[int], None]) -> int:
        """Add new rows to the sums; return how many were read."""
        used, weights = sum(self.n_left) / self.sums.shape[1], weigh(self.statistic)
        self.source.sums(
            rows,
            self.columns,
            weights,
            self.calibration,
            self.sums,
            workers,
            lambda cells: tick(round(cells * used)),
        )
        self.summary = self.summary + weights.summary(rows)
        return count_rows(rows)

    def unusable(self) -> Indices:
        """Features whose sums are not finite, since a cell cannot be used."""
        if np.isfinite(self.sums).all():
            return np.arange(0)
        return self.indices(np.flatnonzero(~np.isfinite(self.sums).all(axis=0)))

    def keep_best(self, count: Callable[[Floats], int], traces: Sequence[Trace]) -> list[float]:
        """Score what is left, keep as many of the best as ``count`` says, and return the smallest kept."""
        cutoffs = []
        for k, trace in enumerate(traces):
            left = self.left[k]
            scores = self._scores(k, left)
            trace.record(self.columns if isinstance(left, slice) else self.indices(left), scores)
            trace.law = self.statistic.null_law(self.sums, self.summary, k, left)
            present = self.statistic.present(self.sums, left)
            if present is not None:
                trace.note_present(self.indices(left), present)
            kept, cutoff = best(scores, count(scores), one_sided=self.statistic.one_sided)
            self.left[k] = kept if isinstance(left, slice) else left[kept]
            cutoffs.append(cutoff)
        return cutoffs

    def _scores(self, k: int, left: Indices | slice) -> Floats:
        """Scores of one member, a piece at a time so that what they are computed from stays in the cache."""
        size = self.n_left[k]
        if size <= SCORES_AT_ONCE:
            return self.statistic.scores(self.sums, self.summary, k, left)
        scores = np.empty(size)
        for i in range(0, size, SCORES_AT_ONCE):
            piece = slice(i, i + SCORES_AT_ONCE)
            columns = piece if isinstance(left, slice) else left[piece]
            scores[piece] = self.statistic.scores(self.sums, self.summary, k, columns)
        return scores

    def narrow(self, n_rows: int) -> list[Group]:
        """Forget the features that no member has left; part where going on alone is cheaper."""
        if len(self.members) == 1:
            (left,) = self.left
            if not isinstance(left, slice):
                self.columns, self.sums = self.indices(left), np.take(self.sums, left, axis=1)
                self.left = [slice(None)]
            return [self]
        alone = sum(self.n_left) * n_rows + PASS * len(self.members)
        mask = np.zeros(self.sums.shape[1], bool)
        for left in self.left:
            mask[left] = True
        union = np.flatnonzero(mask)
        shared = SHARED_CELL + SHARED_RESPONSE * len(self.members)
        together = len(union) * n_rows * shared + PASS
        if alone < together:
            return [self._alone(k) for k in range(len(self.members))]
        place = np.cumsum(mask) - 1
        self.left = [place[left] for left in self.left]
        self.columns = self.indices(union)
        self.sums = self.sums[:, union]
        return [self]

    def _alone(self, k: int) -> Group:
        return Group(
            members=[self.members[k]],
            statistic=self.statistic.subset([k]),
            source=self.source,
            calibration=self.calibration,
            columns=self.indices(self.left[k]),
            sums=self.sums[self.statistic.lines(k)][:, self.left[k]],
            left=[slice(None)],
            summary=self.summary[:, [k]],
        )

    def restrict(self, features: Indices) -> None:
        """Go on with some of the features alone, sorted."""
        self.columns, self.sums = features, self.sums[:, features]

    def finish(self, traces: Sequence[Trace]) -> None:
        """Hand over what is left at the end."""
        for k, left in zip(self.members, self.left, strict=True):
            traces[k].selected = self.indices(left)
            traces[k].present = self.statistic.present(self.sums, left)


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
