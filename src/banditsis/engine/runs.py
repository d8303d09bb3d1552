"""What is screened together: responses, the rows in which they are known, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, count_rows
from banditsis.core.validation import MIN_ROWS, Responses, describe_unknown, rows_by_missingness
from banditsis.engine.design import PlanLike, choose_design
from banditsis.engine.sampling import draw_rows, join_rows
from banditsis.engine.settings import Settings
from banditsis.engine.strata import Strata, draw_uniformly
from banditsis.plans.design import SamplingDesign
from banditsis.plans.plan import Plan
from banditsis.results.evidence import Round
from banditsis.sources.base import Source
from banditsis.sources.views import take_rows
from banditsis.statistics.base import Statistic, show


@dataclass(frozen=True)
class Run:
    """Responses that are screened together, and what is read for them."""

    #: numbers of the responses
    members: Sequence[int]
    #: the rows in which the responses are known
    source: Source
    #: with the responses, unless they are constant
    statistic: Statistic
    plan: Plan
    row_order: str
    strata: Strata
    settings: Settings
    n_covariates: int = 0
    #: weights of the rows by the user
    sample_weight: Floats | None = None
    notes: Sequence[str] = ()
    #: why features cannot be ranked, if the only response is constant
    constant: str = ""
    #: called with each finished round
    on_round: Callable[[Round], object] | None = None

    @property
    def is_random_sample(self) -> bool:
        """Whether the rows of each stratum that were read up to any step are a simple random sample."""
        return self.row_order == "random" or self.source.shuffled

    @property
    def is_exact(self) -> bool:
        """Whether the first step reads all rows."""
        return self.plan.steps[0].n_rows == self.plan.n_rows

    def draw(self, plan: Plan) -> Iterator[Rows]:
        """Yield the new rows of each step of a plan."""
        totals, lazy, sizes = (
            [step.n_rows for step in plan.steps],
            plan.by_evidence,
            self.source.stratum_sizes,
        )
        rng = np.random.default_rng(self.settings.seed)
        if self.strata.n_strata > 1:
            return self.strata.draw(totals, self.row_order, rng, lazy=lazy)
        if sizes and self.row_order == "stored" and totals[0] < plan.n_rows:
            return draw_uniformly(sizes, totals, rng)
        edges = self.source.block_edges() if self.row_order == "blocks" else None
        return draw_rows(plan.n_rows, totals, self.row_order, rng, lazy=lazy, edges=edges)

    def weigh(self, rows: Rows) -> Floats | None:
        """Weights by which rows represent all rows, including the user's; None if they are equal."""
        weights = self.strata.row_weights(rows)
        if self.sample_weight is None:
            return weights
        return self.sample_weight[rows] * (1.0 if weights is None else weights)

    def steps(self) -> Iterator[tuple[Any, Rows]]:
        """Yield each step and its new rows, in the first as many as it takes until the response varies."""
        plan = self.plan
        while True:
            rows: Rows | None = None
            steps = zip(plan.steps, self.draw(plan), strict=False)
            for step, new in steps:
                rows = new if rows is None else join_rows(rows, new)
                if count_rows(rows) >= plan.n_rows or not self.statistic.constant_responses(rows):
                    yield step, rows
                    yield from steps
                    return
            plan = plan.double_rows()

    @property
    def n_cells(self) -> int:
        """Cells to read, for the progress bar."""
        plan, cells = self.plan, self.plan.cells
        if self.settings.pvalues and plan.steps[-1].n_rows < plan.n_rows:
            cells += plan.n_rows * (self.settings.n_choose or plan.n_keep)
        return 0 if self.constant else len(self.members) * cells


def make_runs(
    source: Source,
    responses: Responses,
    plan: PlanLike,
    settings: Settings,
    on_round: Callable[[Round], object] | None,
) -> list[Run]:
    """Group the responses that can be screened together, and choose the rows and the plan of each group."""
    one_column = settings.statistic.n_columns == 1
    groups = list(rows_by_missingness(responses)) if one_column else [([0], None)]
    n_responses = sum(len(members) for members, _ in groups)
    if n_responses > 1:
        made = plan if isinstance(plan, Plan) else plan(SamplingDesign.uniform(source.shape[0]))
        if settings.sampling == "stratified" or made.by_evidence:  # each has its own strata
            groups = [([k], rows) for members, rows in groups for k in members]
    values = [responses.take(rows, members) if one_column else responses.values for members, rows in groups]
    varies = [(some != some[:1]).any(axis=0) for some in values]
    if n_responses == 1 or not np.concatenate(varies).any():  # which raises an error
        varies = [np.ones(len(members), bool) for members, _ in groups]
    return [
        replace(run, on_round=on_round)
        for (members, rows), some, kept in zip(groups, values, varies, strict=True)
        for run in _runs_of_group(source, members, rows, some, kept, plan, settings)
    ]


def _runs_of_group(
    source: Source,
    members: list[int],
    rows: Indices | None,
    values: Array,
    kept: Array,
    plan: PlanLike,
    settings: Settings,
) -> Iterator[Run]:
    """The runs of responses that are known in the same rows; those that are kept are not constant."""
    notes, adjust, weights = [*source.notes, *settings.notes], settings.covariates, settings.sample_weight
    if rows is not None:
        adjust, weights = adjust and adjust.take(rows), None if weights is None else weights[rows]
        if adjust is not None:
            check_enough(len(rows))
        notes = [describe_unknown(source.shape[0] - len(rows))] * (len(rows) < source.shape[0]) + notes
        source = take_rows(source, rows)
    n_covariates = 0 if adjust is None else adjust.rank
    statistic: Any = None
    if kept.any():
        some = values if kept.all() else values[:, kept]
        statistic = settings.statistic.bind(some, settings.pairwise)
        statistic = statistic.given(adjust if n_covariates else None, weights)
    design = choose_design(source, statistic, plan, settings, n_covariates)
    bound, notes = statistic or settings.statistic, [*notes, *design.notes]
    run = Run(members, source, bound, *design[:3], settings, n_covariates, weights, notes)
    for k in np.flatnonzero(~kept):
        reason = f"the response (column {members[k]}) is constant, {show(values[0, k])}, in all rows"
        yield replace(run, members=[members[k]], constant=reason)
    varying = [members[k] for k in np.flatnonzero(kept)]
    for part in _split(run, len(varying)):
        some = statistic if len(part) == len(varying) else statistic.subset(part)
        yield replace(run, members=[varying[k] for k in part], statistic=some)


def _split(run: Run, n_responses: int) -> list[list[int]]:
    """Responses that share passes over the data: sums, and the first rows in which they vary."""
    together = list(range(n_responses))
    if n_responses < 2:
        return [together] * n_responses
    if not getattr(run.statistic, "shares_pass", False):
        return [[k] for k in together]
    late = [] if run.is_exact else run.statistic.constant_responses(next(run.draw(run.plan)))
    together = [k for k in together if k not in set(late)]
    return [part for part in (together, *([k] for k in late)) if part]


def check_enough(n_rows: int) -> None:
    """Check that enough rows have all covariates and the response."""
    if n_rows < MIN_ROWS:
        raise ValueError(
            f"the response and all covariates are known in {n_rows} rows, but screening needs at least "
            f"{MIN_ROWS}: omit the covariates that are mostly missing."
        )
