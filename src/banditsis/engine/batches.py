"""Exact screening of batches of rows: their sums are added, and no row is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.core.parallel import Workers
from banditsis.core.progress import clock
from banditsis.core.validation import raise_nonfinite
from banditsis.engine.rounds import MAX_NONFINITE_READ, Found, add_effects, add_round
from banditsis.engine.runs import Run, Settings
from banditsis.engine.sampling import Strata
from banditsis.engine.state import SumState
from banditsis.plans import Plan, strongest
from banditsis.results import Round, ScreeningResult, strength
from banditsis.sources import Source
from banditsis.statistics import LinearStatistic, rescale


class Batches:
    """The sums over all batches for one response, of which a batch may lack some of the ``classes``."""

    def __init__(self, kind: Any, classes: Array | None, missing: str) -> None:
        if not (isinstance(kind, type) and issubclass(kind, LinearStatistic)):
            raise ValueError(
                f"batches cannot be merged for the statistic {kind.name!r}: use 'pearson', 'anova', "
                "'logistic' or 'poisson', or fit all rows."
            )
        self.kind, self.classes, self.missing = kind, classes, missing
        self._state: SumState | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows of all batches."""
        return 0 if self._state is None else self._state.n_read

    def _bind(self, y: Array) -> LinearStatistic:
        """The statistic for some rows, in the units of the first batch."""
        if self.classes is not None and not (known := np.isin(y, self.classes)).all():
            raise ValueError(
                f"the response has the class {y[~known][0]!r}, which earlier batches did not have: pass all "
                "classes in the first call of partial_fit."
            )
        known = y if self.classes is None else np.concatenate([y, self.classes])
        bound: LinearStatistic = self.kind.bind(known[:, None], self.missing == "pairwise")
        bound = bound.copy_with(y=bound.y[: len(y)])
        if self._state is None:  # the response may be constant in a batch
            return bound if bound.one_hot else rescale(bound, slice(0, len(y)))
        first = self._state.statistic
        return bound.copy_with(centre=first.centre, scale=first.scale)

    def add(self, source: Source, y: Array, workers: Workers) -> None:
        """Add a batch of rows."""
        statistic, rows = self._bind(y), slice(0, len(y))
        strata, state = Strata.uniform(len(y)), self._state
        if state is None:
            state = SumState.begin(source, statistic, source.calibrate(rows), strata)
        before = state.sums.copy()  # a batch that cannot be added changes nothing
        state = replace(state, source=source, statistic=statistic, strata=strata, sums=before)
        state = state.add(rows, workers, lambda cells: None)
        if (bad := state.find_nonfinite()).size:
            raise_nonfinite(source, rows, bad[:MAX_NONFINITE_READ], statistic.pairwise)
        nothing: Any = None
        self._state = replace(state, source=nothing, read=())

    def result(self, source: Source, d: int, seconds: float) -> ScreeningResult:
        """The result of exact screening of all rows so far; ``source`` is the last batch."""
        started, n, uniform = clock(), self.n_rows, Strata.uniform(self.n_rows)
        assert self._state is not None
        state, plan = replace(self._state, strata=uniform), Plan.exact(n, source.shape[1], d)
        notes = [*source.notes, "p-values were not checked, because the rows of batches are not kept."]
        settings = Settings(self.kind, missing=self.missing)
        run = Run([0], source, state.statistic, plan, "stored", uniform, settings, notes)
        scored = state.score(0, slice(None))
        kept, cutoff = strongest(strength(scored.scores, state.statistic.one_sided), d)
        done = Round(n, plan.n_features, d, cutoff, plan.cells, seconds + clock() - started, float(n))
        result = add_round(run.begin_result(0), scored, state.columns, kept, done)
        return add_effects(Found(state, [kept], [result]), 0)
