"""What is screened together: responses, the rows in which they are known, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, count_rows
from banditsis.core.formatting import to_single_line
from banditsis.core.validation import MIN_ROWS, Responses, describe_unknown, rows_by_missingness
from banditsis.engine.design import PlanLike, choose_design
from banditsis.engine.sampling import Strata
from banditsis.index.sketch import BY_BITS
from banditsis.plans.design import SamplingDesign
from banditsis.plans.plan import Plan
from banditsis.results.evidence import About, Evidence, Round, find_versions
from banditsis.results.result import ScreeningResult
from banditsis.sources.base import Source
from banditsis.sources.views import take_rows
from banditsis.statistics.base import Statistic, show
from banditsis.statistics.covariates import Covariates
from banditsis.statistics.null_distributions import NormalNull

#: Why there is no detection floor or interval.
NO_SAMPLE = "the rows read are not a simple random sample; use random row order, or read every row"
UNMEASURED = "the variance inflation was not measured"


@dataclass(frozen=True)
class Settings:
    """Validated settings of a run; see :func:`screen`."""

    statistic: Any
    row_order: str
    sampling: str
    missing: str
    pvalues: bool
    n_choose: int | None
    seed: int
    covariates: Covariates | None
    #: None if all rows have the same weight
    sample_weight: Array | None
    notes: Sequence[str]
    #: names of the responses, empty if they have none
    responses: Sequence[str]
    #: called with each finished round
    on_round: Callable[[Round], object] | None = None

    def reorder(self, rows: Indices) -> Settings:
        """These settings with the rows in another order."""
        covariates, weights = self.covariates, self.sample_weight
        return replace(
            self,
            covariates=covariates and replace(covariates, values=covariates.values[rows]),
            sample_weight=None if weights is None else weights[rows],
        )


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
    notes: Sequence[str] = ()
    #: why features cannot be ranked, if the only response is constant
    constant: str = ""
    #: why neither a detection floor nor intervals are known
    no_guarantee_reason: str | None = None

    @property
    def is_random_sample(self) -> bool:
        """Whether the rows of each stratum that were read up to any step are a simple random sample."""
        return self.row_order == "random" or self.source.shuffled

    @property
    def is_exact(self) -> bool:
        """Whether the first step reads all rows."""
        return self.plan.steps[0].n_rows == self.plan.n_rows

    @property
    def n_cells(self) -> int:
        """Cells to read, for the progress bar."""
        plan, cells = self.plan, self.plan.cells
        if self.settings.pvalues and plan.steps[-1].n_rows < plan.n_rows:
            cells += plan.n_rows * (self.settings.n_choose or plan.n_keep)
        return 0 if self.constant else len(self.members) * cells

    def draw(self) -> Iterator[Rows]:
        """Yield the new rows of each step."""
        return self.strata.draw(
            [step.n_rows for step in self.plan.steps],
            self.row_order,
            self.settings.seed,
            lazy=self.plan.by_evidence,
            edges=self.source.block_edges() if self.row_order == "blocks" else None,
            stored=self.source.stratum_sizes,
        )

    def start(self) -> tuple[Run, Iterator[Rows]]:
        """The run with as many rows in the first step as it takes until the response varies, and its rows."""
        run, planned = self, self.plan.steps[0].n_rows
        while True:
            draws = run.draw()
            first = next(draws)
            if count_rows(first) >= run.plan.n_rows or not run.statistic.constant_responses(first):
                break
            run = replace(run, plan=run.plan.double_rows())
        if run is not self:
            note = (
                f"the response is constant in the {planned:,} rows of the first step, which cannot rank "
                f"features: {count_rows(first):,} rows of every feature were read before any feature was "
                "dropped."
            )
            reason = "rows were read until the response varied among them"
            run = replace(run, notes=[note, *run.notes], no_guarantee_reason=reason)
        return run, chain([first], draws)

    def weigh(self, rows: Rows) -> Floats | None:
        """Weights by which rows represent all rows, including the user's; None if they are equal."""
        weights, given = self.strata.row_weights(rows), self.statistic.sample_weight
        return weights if given is None else given[rows] * (1.0 if weights is None else weights)

    def begin_result(self, k: int) -> ScreeningResult:
        """The result for response k before the first round, with what is known beforehand."""
        source, settings, p = self.source, self.settings, self.plan.n_features
        member = self.members[k]
        about = About(
            data=source.label,
            response=settings.responses[member] if member < len(settings.responses) else "",
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=find_versions(),
        )
        no_floor = self.no_guarantee_reason or self._no_floor_reason()
        evidence = Evidence(
            n_covariates=self.n_covariates,
            by_evidence=self.plan.by_evidence,
            one_sided=self.statistic.one_sided,
            no_floor_reason=no_floor or (None if self.is_exact else UNMEASURED),
            no_interval_reason=self.no_guarantee_reason or self._no_interval_reason(),
        )
        return ScreeningResult(
            selected=np.arange(0),
            scores=np.broadcast_to(0.0, p),
            rounds=(),
            last_round=np.broadcast_to(np.int32(0), p),
            n_rows=self.plan.n_rows,
            n_features=p,
            parameters=self._parameters(k),
            notes=tuple(self.notes),
            names=source.names,
            annotations=source.annotations,
            evidence=evidence,
            about=about,
        )

    def constant_result(self) -> ScreeningResult:
        """The result for a constant response: all scores are 0, and no feature is selected."""
        result = self.begin_result(0)
        reason, evidence, n = self.constant, result.evidence, self.plan.steps[0].n_rows
        return replace(
            result,
            rounds=(Round(n, self.plan.n_features, 0, 1.0, 0, 0.0, float(n)),),
            notes=(f"{reason}: all scores are 0, and no feature is selected.", *result.notes),
            evidence=replace(
                evidence,
                no_floor_reason=reason,
                no_interval_reason=reason,
                null_distribution=NormalNull(0.0) if self.statistic.has_pvalues() else None,  # p-values of 1
            ),
        )

    def _parameters(self, k: int) -> dict[str, Any]:
        """How the result for response k was made."""
        settings, kind, source = self.settings, self.settings.statistic, self.source
        optional: dict[str, Any] = {
            "sample_weight": settings.sample_weight is not None,
            "pvalues": settings.pvalues,
            "avoid_redundancy": settings.n_choose is not None,
            "shuffled": self.row_order != "random" and source.shuffled,
        }
        if self.statistic.positive is not None and not self.statistic.one_sided:
            optional["positive_class"] = to_single_line(str(self.statistic.positive[k]))
        return {
            "plan": self.plan.name,
            **dict(self.plan.parameters),
            **({"features": source.recipe} if source.recipe else {}),
            "statistic": kind.name,
            **kind.settings,
            "missing": settings.missing,
            "covariates": self.n_covariates,
            "seed": settings.seed,
            "row_order": self.row_order,
            "sampling": "uniform" if self.strata.n_strata == 1 else "stratified",
            **{name: value for name, value in optional.items() if value},
        }

    def _no_floor_reason(self) -> str | None:
        """Why there is no detection floor; None if there is one."""
        settings = self.settings
        if self.is_exact:
            return None
        if settings.sample_weight is not None:
            return "it is not known for rows with sample weights"
        if not self.statistic.is_correlation:
            return f"it is only known for correlations, not for the statistic {settings.statistic.name!r}"
        if settings.missing == "pairwise" and self.n_covariates:
            return "it is not known for covariates together with missing values"
        return None if self.is_random_sample else NO_SAMPLE

    def _no_interval_reason(self) -> str | None:
        """Why there are no confidence intervals; None if there are."""
        name = self.settings.statistic.name
        if self.settings.sample_weight is not None:
            return "they are not known for rows with sample weights"
        if name != "pearson":
            return f"they are only known for the statistic 'pearson', not for {name!r}"
        return None if self.is_random_sample or self.is_exact else NO_SAMPLE


def make_runs(source: Source, responses: Responses, plan: PlanLike, settings: Settings) -> list[Run]:
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
        run
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
        statistic = settings.statistic.bind(some, settings.missing == "pairwise")
        statistic = statistic.given(adjust if n_covariates else None, weights)
    made, row_order, strata, remarks = choose_design(source, statistic, plan, settings, n_covariates)
    bound, notes = statistic or settings.statistic, [*notes, *remarks]
    run = Run(members, source, bound, made, row_order, strata, settings, n_covariates, notes)
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
    if n_responses < 2 or not getattr(run.statistic, "shares_pass", False):
        return [[k] for k in together]
    late = (
        [] if run.is_exact or run.plan.name == BY_BITS else run.statistic.constant_responses(next(run.draw()))
    )
    together = [k for k in together if k not in set(late)]
    return [part for part in (together, *([k] for k in late)) if part]


def check_enough(n_rows: int) -> None:
    """Check that enough rows have all covariates and the response."""
    if n_rows < MIN_ROWS:
        raise ValueError(
            f"the response and all covariates are known in {n_rows} rows, but screening needs at least "
            f"{MIN_ROWS}: omit the covariates that are mostly missing."
        )
