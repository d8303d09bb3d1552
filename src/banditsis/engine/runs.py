"""What is screened together: responses, the rows in which they are known, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, count_rows
from banditsis.core.formatting import count, to_single_line, were
from banditsis.core.validation import MIN_ROWS, find_missing
from banditsis.engine.sampling import PlanLike, Strata, choose_design
from banditsis.plans import BY_BITS, Plan, SamplingDesign, change_rows
from banditsis.results import About, Evidence, Round, ScreeningResult, find_versions
from banditsis.sources import Source, take_original_rows
from banditsis.statistics import Statistic, find_basis, show

#: Why there is no detection floor or interval.
NO_SAMPLE = "the rows read are not a simple random sample; use random row order, or read every row"
UNMEASURED = "the variance inflation was not measured"


@dataclass(frozen=True)
class Settings:
    """Validated settings of a run; see :func:`screen`."""

    statistic: Any
    row_order: str = "stored"
    sampling: str = "uniform"
    missing: str = "raise"
    pvalues: bool = False
    n_choose: int | None = None
    seed: int = 0
    responses: Sequence[str] = ()  #: names of the responses, empty if they have none
    on_round: Callable[[Round], object] = lambda done: None  #: called with each finished round


class Given(NamedTuple):
    """What is given besides features and responses, in the order of the user's rows."""

    rows: Array | None = None  #: the rows that have a weight and all covariates, as a mask; None for all
    covariates: Array | None = None  #: as numbers
    sample_weight: Array | None = None
    by: Array | None = None  #: the period of each row
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Run:
    """Responses that are screened together, and what is read for them."""

    members: Sequence[int]  #: numbers of the responses
    source: Source  #: the rows in which the responses are known
    statistic: Statistic  #: with the responses
    plan: Plan
    row_order: str
    strata: Strata
    settings: Settings
    notes: Sequence[str] = ()
    no_guarantee_reason: str | None = None  #: why neither a detection floor nor intervals are known

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
        return len(self.members) * cells

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
            run = replace(run, plan=change_rows(run.plan, lambda rows: min(2 * rows, self.plan.n_rows)))
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
        source, names, p = self.source, self.settings.responses, self.plan.n_features
        kind, member = self.settings.statistic, self.members[k]
        no_floor, no_interval = self._reasons()
        untestable = f"the null distribution of {kind.name!r} is not known"
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
            evidence=Evidence(
                n_covariates=self.statistic.rank,
                by_evidence=self.plan.by_evidence,
                one_sided=self.statistic.one_sided,
                no_floor_reason=no_floor,
                no_interval_reason=no_interval,
                no_pvalues_reason=None if kind.has_pvalues else untestable,
            ),
            about=About(
                data=source.label,
                response=names[member] if member < len(names) else "",
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                versions=find_versions(),
            ),
        )

    def _reasons(self) -> tuple[str | None, str | None]:
        """Why there is no detection floor, and why there are no confidence intervals; None if there are."""
        statistic, name = self.statistic, self.settings.statistic.name
        if self.no_guarantee_reason is not None:
            return self.no_guarantee_reason, self.no_guarantee_reason
        not_random = None if self.is_random_sample or self.is_exact else NO_SAMPLE
        floor, interval = not_random or UNMEASURED, not_random
        if name != "pearson":
            interval = f"they are only known for the statistic 'pearson', not for {name!r}"
        if not statistic.is_correlation:
            floor = f"it is only known for correlations, not for the statistic {name!r}"
        elif statistic.pairwise and statistic.rank:
            floor = "it is not known for covariates together with missing values"
        if statistic.sample_weight is not None:
            unknown = "not known for rows with sample weights"
            floor, interval = f"it is {unknown}", f"they are {unknown}"
        return None if self.is_exact else floor, interval

    def _parameters(self, k: int) -> dict[str, Any]:
        """How the result for response k was made."""
        settings, statistic, source = self.settings, self.statistic, self.source
        positive = None if statistic.one_sided else statistic.positive
        optional: dict[str, Any] = {
            "features": source.recipe,
            "sample_weight": statistic.sample_weight is not None,
            "pvalues": settings.pvalues,
            "avoid_redundancy": settings.n_choose is not None,
            "shuffled": self.row_order != "random" and source.shuffled,
            "positive_class": None if positive is None else to_single_line(str(positive[k])),
        }
        return {
            "plan": self.plan.name,
            **dict(self.plan.parameters),
            "statistic": settings.statistic.name,
            **settings.statistic.settings,
            "missing": settings.missing,
            "covariates": statistic.rank,
            "seed": settings.seed,
            "row_order": self.row_order,
            "sampling": "uniform" if self.strata.n_strata == 1 else "stratified",
            **{name: value for name, value in optional.items() if value},
        }


def make_runs(
    source: Source, responses: Array, given: Given, plan: PlanLike, settings: Settings
) -> list[Run]:
    """Group the responses that can be screened together, and choose the rows and the plan of each group."""
    groups = dict[bytes, tuple[list[int], Indices | None]]()
    missing = find_missing(responses) if settings.missing == "pairwise" else np.zeros(1, bool)
    if missing.any():  # by the rows in which they and what else is given are known
        for k, known in enumerate(~missing.T):
            rows = known if given.rows is None else known & given.rows
            groups.setdefault(np.packbits(rows).tobytes(), ([], np.flatnonzero(rows)))[0].append(k)
    else:
        members = list(range(responses.shape[1] // settings.statistic.n_columns))
        groups[b""] = members, None if given.rows is None else np.flatnonzero(given.rows)
    grouped = list(groups.values())
    if sum(len(members) for members, _ in grouped) > 1:
        made = plan if isinstance(plan, Plan) else plan(SamplingDesign.uniform(source.shape[0]))
        if settings.sampling == "stratified" or made.by_evidence:  # each has its own strata
            grouped = [([k], rows) for members, rows in grouped for k in members]
    runs = []
    for group in grouped:
        run = _make_run(source, responses, *group, given, plan, settings)
        together, statistic = list(range(len(run.members))), run.statistic
        if len(together) == 1:
            runs.append(run)
            continue
        # Responses share passes over the data if they have sums, and if they vary in the first rows.
        alone = together
        if getattr(statistic, "shares_pass", False):
            reads_part = not (run.is_exact or run.plan.name == BY_BITS)
            alone = statistic.constant_responses(next(run.draw())) if reads_part else []
        together = [k for k in together if k not in set(alone)]
        for part in ([together] if together else []) + [[k] for k in alone]:
            members = [run.members[k] for k in part]
            runs.append(replace(run, members=members, statistic=statistic.subset(part)))
    return runs


def _make_run(
    source: Source,
    responses: Array,
    members: list[int],
    rows: Indices | None,
    given: Given,
    plan: PlanLike,
    settings: Settings,
) -> Run:
    """The run of responses that are known in the same rows."""
    notes, values, n_columns = [*source.notes, *given.notes], responses, settings.statistic.n_columns
    if rows is not None:
        if len(rows) < MIN_ROWS:
            column = f" (column {members[0]})" if values.shape[1] > n_columns else ""
            also = "" if given.rows is None else " with all covariates and a weight that is not zero"
            raise ValueError(
                f"the response{column} is known in {len(rows)} rows{also}, but screening needs at least "
                f"{MIN_ROWS}: omit what is mostly missing."
            )
        if n_unknown := (len(values) if given.rows is None else int(given.rows.sum())) - len(rows):
            left_out = f"{count(n_unknown, 'row')} {were(n_unknown)} left out, because"
            notes = [f"{left_out} {'its' if n_unknown == 1 else 'their'} response is missing.", *notes]
        source = take_original_rows(source, rows)
    order = source.original_rows  # from here on, everything is in the stored order
    index = rows if order is None else order if rows is None else rows[order]
    several = values.shape[1] > n_columns
    values = values if n_columns * len(members) == values.shape[1] else values[:, members]
    picked: list[Any] = [values, given.covariates, given.sample_weight, given.by]
    if index is not None:
        picked = [part if part is None else part[index] for part in picked]
    values, covariates, weights, by = picked
    values = values.astype(str) if values.dtype.kind == "O" else values
    for k in np.flatnonzero((values[:1000] == values[0]).all(axis=0)).tolist() if several else ():
        if (values[:, k] == values[0, k]).all():  # most responses vary in the first rows
            raise ValueError(
                f"the response (column {members[k]}) is constant, {show(values[0, k])}, in all "
                f"{len(values):,} rows, and features cannot be ranked by it: omit this column."
            )
    statistic = settings.statistic.bind(values, settings.missing == "pairwise")
    basis = None if covariates is None else find_basis(covariates, source.dtype)
    notes += statistic.notes if basis is None else basis.notes
    statistic = statistic.given(basis if basis is not None and basis.rank else None, weights)
    if statistic.n_responses > len(members):  # each class is a response
        members = list(range(statistic.n_responses))
        settings = replace(settings, responses=list(map(str, statistic.positive)))
    statistic = statistic if by is None else statistic.by_period(by)
    made, row_order, strata, remarks = choose_design(source, statistic, plan, settings)
    return Run(members, source, statistic, made, row_order, strata, settings, [*notes, *remarks])
