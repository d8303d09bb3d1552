"""The loop: read new rows of the remaining features, add them to the sums, score, keep the best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np

from banditsis.core.alignment import align_rows
from banditsis.core.arrays import Array, Floats, Indices, Rows, chunks, count_rows
from banditsis.core.compilation import clock
from banditsis.core.formatting import to_single_line
from banditsis.core.parallel import Workers, one_blas_thread
from banditsis.core.progress import Progress, announce_compilation, show_progress, status
from banditsis.core.validation import (
    CELLS_CHECKED_WHOLE,
    MIN_ROWS,
    Responses,
    check_guarantee_possible,
    check_integer,
    check_plan,
    check_responses,
    check_shape,
    describe_unknown,
    raise_nonfinite,
    response_names,
    rows_by_missingness,
    to_memory,
)
from banditsis.engine.accumulators import Accumulator, start_accumulators
from banditsis.engine.evidence import MAX_FEATURES, measure_unread, measure_variance_inflation
from banditsis.engine.exchangeability import ExchangeabilityMonitor, warn_if_not_exchangeable
from banditsis.engine.flags import flag_features
from banditsis.engine.pvalues import correct_pvalues, read_in_full
from banditsis.engine.redundancy import MAX_CANDIDATES, choose_features
from banditsis.engine.rereading import join_rows
from banditsis.engine.sampling import draw_rows, resolve_row_order, slower_than_exact
from banditsis.engine.settings import Settings
from banditsis.engine.strata import Strata, draw_uniformly, find_outliers, find_strata
from banditsis.engine.trace import Trace
from banditsis.formats.opening import open_features
from banditsis.plans.design import SamplingDesign
from banditsis.plans.guaranteed import EvidenceRule
from banditsis.plans.keeping import KeepRule
from banditsis.plans.plan import Plan
from banditsis.results.result import Interrupted, Round, ScreeningResult, attach_partial
from banditsis.results.several import ScreeningResults
from banditsis.sources.base import Source
from banditsis.sources.views import RowSubset
from banditsis.statistics import LinearStatistic, Statistic, StatisticLike
from banditsis.statistics.base import show

#: A plan, or a function that makes it from the sampling design.
PlanLike: TypeAlias = "Plan | Callable[[SamplingDesign], Plan]"
#: Numbers of some responses, the rows in which they are known (None stands for all), and their values there.
Group: TypeAlias = "tuple[list[int], Indices | None, Array]"
#: One feature is enough for a message, so only these are read again to find a value that is not finite.
MAX_NONFINITE_READ = 1000


def screen(
    X: Any,
    y: Any,
    plan: PlanLike,
    *,
    statistic: StatisticLike = "auto",
    row_order: str = "auto",
    sampling: str = "auto",
    missing: str = "raise",
    covariates: Any = None,
    sample_weight: Any = None,
    pvalues: bool | str = False,
    n_choose: int | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: Progress = None,
) -> ScreeningResult | ScreeningResults:
    """Screen the features of X for association with y, following a plan.

    Parameters
    ----------
    X : array-like of shape (n, p), frame or Source
        The features. Arrays are read in place, and only the cells that the plan requires: cells that are not
        read are not checked. Inputs below a million cells are checked completely.
    y : array-like of shape (n,) or (n, q)
        The response. Rows of pandas objects are paired by their labels, unless one has a default index; see
        :func:`~banditsis.core.alignment.align_rows`. Several responses share each pass over the
        features that any of them has left; each result is the same as if its response had been screened alone
        with the same sampling. A constant response raises an error; among others that vary it gets scores of
        0, no selected feature and a note.
    plan : Plan or callable
        How many rows to read and how many features to keep. A callable gets the :class:`SamplingDesign` of
        the rows in which the response is known, and returns a plan that makes use of it:
        ``lambda design: Plan.optimal(design.n_rows, p, d, 0.01, design=design)``.
    statistic : str, class or object
        The measure of association: "pearson", "anova", or another of :doc:`/statistics`. "auto" is "anova" if
        the response has three or more classes (strings or categories), else "pearson"; of two classes, the
        one that sorts last counts as 1. Rank and distance statistics reread their rows in each step; the
        plan's cost includes this.
    row_order : {"auto", "random", "blocks", "stored"}
        "random" is valid for any data. "blocks" reads whole blocks in random order, which is cheaper if rows
        are stored in blocks. "stored" reads the first rows, for data that were shuffled beforehand. The last
        two warn if rows stored together are more similar than chance allows. "auto" chooses the stored order
        for shuffled data, and otherwise random rows or blocks, whichever is cheap.
    sampling : {"auto", "uniform", "stratified"}
        "stratified" reads more of the rows that carry most information: those of a rare class, or far from
        the mean response. It needs rows in random order and a statistic computed from sums, or "cox"; see
        :doc:`/sampling`. Several responses are then screened one by one. "auto" does so for one response,
        unless it would not be more precise or the plan is :meth:`Plan.paper` or :meth:`Plan.subsample`, which
        are uniform. :meth:`Plan.guaranteed` reads outliers of the response in any case.
    missing : {"raise", "pairwise"}
        "raise" rejects NaN. "pairwise" ignores NaN cells for each feature separately: the score is multiplied
        by √(present rows / rows read), and is 0 for a feature with NaN that has fewer than 10 present rows,
        or 10 + k with k covariates. Rows whose response or covariate is missing are omitted before sampling.
    covariates : array-like of shape (n,) or (n, k), or frame, optional
        Covariates to adjust for: association is partial, as if the feature and the response had both been
        regressed on the covariates and an intercept, in the rows in which the feature is present. A feature
        that the covariates explain scores 0. Text and categories are expanded into indicators of all levels
        but one.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, 0 or more, for "pearson", "anova", "logistic", "poisson" and "cox": scores and
        p-values are those of weighted least squares and weighted score tests. Only their ratios matter. Rows
        of weight 0 are left out. Detection floors, intervals and guarantees are not known for weighted rows.
    pvalues : bool or "robust"
        Whether to read the selected features in full at the end, for exact scores and p-values. A run that
        reads every row, or has a single step, has p-values without this, except small ones of features that
        are not selected if the response is skewed or heavy-tailed: those need a check, for which the features
        are read again. The cells are additional to the plan's; :meth:`Plan.optimal` can account for those of
        the selected features. Raises if the null distribution of the statistic is not known. "robust", for
        correlations, also allows the variance of the response to depend on the feature: small p-values are at
        least those of the slope with the sandwich variance HC3.
    n_choose : int, optional
        Choose this many of the features that the plan keeps, at most 2,048, and avoid redundant ones; see
        ``avoid_redundancy`` of :class:`SIS`. By default all of them are selected.
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, Generator or RandomState, optional
        Seed for the random rows.
    progress : bool or callable, optional
        By default a bar appears on a terminal after two seconds. A callable is called with the number of
        cells read and the number to read; its method ``round_done``, if it has one, is called with every
        finished :class:`Round`.

    Returns
    -------
    ScreeningResult, or ScreeningResults if y has two dimensions

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 200))
    >>> y = 2 * X[:, 5] + X[:, 17] + rng.standard_normal(5000)
    >>> result = screen(X, y, Plan.paper(5000, 200, 2), random_state=0)
    >>> result.selected
    array([ 5, 17])
    """
    values = {"y": y, "covariates": covariates, "sample_weight": sample_weight}
    given, notes = align_rows(X, **{name: to_memory(value) for name, value in values.items()})
    source = open_features(X)
    check_shape(source)
    plan = _check_plan(plan, source.shape, n_choose)
    settings = Settings.check(
        source,
        statistic=statistic,
        y=given["y"],
        row_order=row_order,
        sampling=sampling,
        missing=missing,
        covariates=given["covariates"],
        sample_weight=given["sample_weight"],
        pvalues=pvalues,
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
        notes=notes,
        responses=response_names(given["y"]),
        n_choose=n_choose,
    )
    kind = settings.statistic
    y = kind.unpack(given["y"])
    one_column = kind.n_columns == 1
    allow_missing = settings.pairwise and one_column
    with Workers(settings.n_jobs):
        responses = check_responses(y, source.shape[0], allow_missing=allow_missing, can_allow=one_column)
    source, responses = _drop_unweighted(source, responses, settings)
    return _run_plan(source, responses, plan, settings, single=np.asarray(y).ndim == 1 or not one_column)


def _check_plan(plan: PlanLike, shape: tuple[int, int], n_choose: int | None) -> PlanLike:
    """Check a plan, or have it checked when it is made."""
    if callable(plan) and not isinstance(plan, Plan):
        return lambda design: _check_candidates(
            check_plan(plan(design), Plan, (design.n_rows, shape[1])), n_choose
        )
    return _check_candidates(check_plan(plan, Plan, shape), n_choose)


def _check_candidates(plan: Plan, n_choose: int | None) -> Plan:
    """Check that a plan keeps enough features to choose from, and not too many to compare."""
    if n_choose is not None and not check_integer("n_choose", n_choose, 1) <= plan.n_keep <= MAX_CANDIDATES:
        kept = f"keeps {plan.n_keep:,}" if plan.n_keep else "sets no number of features to keep"
        raise ValueError(
            f"n_choose = {n_choose} needs a plan that keeps {n_choose:,} to {MAX_CANDIDATES:,} features, but "
            f"this one {kept}."
        )
    return plan


def _drop_unweighted(source: Source, responses: Responses, settings: Settings) -> tuple[Source, Responses]:
    """The source and the responses without rows of weight 0."""
    kept = None if settings.sample_weight is None else settings.sample_weight.kept
    return (source, responses) if kept is None else (RowSubset(source, kept), responses.keep(kept))


def _run_plan(
    source: Source, responses: Responses, plan: PlanLike, settings: Settings, *, single: bool
) -> ScreeningResult | ScreeningResults:
    """Screen validated input; return one result if ``single``, else one for each response."""
    announce_compilation(settings.progress)
    if source.shape[0] * source.shape[1] < CELLS_CHECKED_WHOLE:
        raise_nonfinite(source, slice(0, source.shape[0]), None, settings.pairwise)
    groups = _group(responses, plan, settings)
    constant = _find_constant(groups)
    use_blas = source.uses_blas or responses.values.shape[1] > 1 or settings.covariates is not None
    with Workers(settings.n_jobs) as workers, one_blas_thread(use_blas):
        runs = [
            Run(source, values, members, rows, plan, settings, constant) for members, rows, values in groups
        ]
        with show_progress(settings.progress, sum(run.total_cells for run in runs)) as tick:
            try:
                for run in runs:
                    run.run(workers, tick)
            except KeyboardInterrupt:
                raise Interrupted(_partial_results(runs, "interrupted", single)) from None
            except Exception as error:
                attach_partial(error, _partial_results(runs, "ended by an error", single))
                raise
    found = [result for result in _results(runs) if result is not None]
    results: list[Any] = flag_features(
        found, source, responses if settings.statistic.n_columns == 1 else None
    )
    return results[0] if single else ScreeningResults(results)


def _group(responses: Responses, plan: PlanLike, settings: Settings) -> list[Group]:
    """Responses that are sampled together."""
    complete = settings.complete
    if settings.statistic.n_columns > 1:
        return [([0], complete, responses.values if complete is None else responses.values[complete])]
    groups = list(rows_by_missingness(responses))
    if complete is not None:
        groups = [
            (members, complete if rows is None else np.intersect1d(rows, complete, assume_unique=True))
            for members, rows in groups
        ]
    for _, rows in groups:
        if rows is not None and len(rows) < MIN_ROWS:
            raise ValueError(
                f"the response and all covariates are known in {len(rows)} rows, but screening needs at "
                f"least {MIN_ROWS}: omit the covariates that are mostly missing."
            )
    if sum(len(members) for members, _ in groups) > 1:
        made = plan if isinstance(plan, Plan) else plan(SamplingDesign.uniform(len(responses.values)))
        if settings.sampling == "stratified" or made.by_evidence:  # each has its own strata
            groups = [([k], rows) for members, rows in groups for k in members]
    return [(members, rows, responses.take(rows, members)) for members, rows in groups]


def _find_constant(groups: Sequence[Group]) -> set[int]:
    """Responses that are constant; none if all are, which raises an error later."""
    constant, n_responses = set[int](), sum(len(members) for members, _, _ in groups)
    if n_responses == 1:
        return constant
    for members, _, values in groups:
        first, varies = values[:1], np.zeros(len(members), bool)
        for rows in chunks(slice(0, len(values))):
            varies |= (values[rows] != first).any(axis=0)
            if varies.all():
                break
        constant |= {k for k, found in zip(members, varies, strict=True) if not found}
    return constant if len(constant) < n_responses else set()


class Run:
    """Responses that are known in the same rows, screened together.

    Parameters
    ----------
    source : Source
        All rows.
    values : ndarray of shape (m, q)
        The responses of this run, in the rows in which they are known.
    members : list of int
        Their numbers among all responses.
    rows : ndarray of int or None
        The rows in which they are known; None for all.
    plan : Plan or callable
        For all rows.
    settings : Settings
        Validated settings.
    constant : set of int
        Responses to leave out because they are constant.
    """

    def __init__(
        self,
        source: Source,
        values: Array,
        members: list[int],
        rows: Indices | None,
        plan: PlanLike,
        settings: Settings,
        constant: set[int],
    ) -> None:
        self.members, self.settings, self.kind = members, settings, settings.statistic
        self.source = source if rows is None else RowSubset(source, rows)
        self.known = rows
        self.covariates = settings.covariates_of(rows)
        kept = [k for k, member in enumerate(members) if member not in constant]
        self.statistic = (
            self._bind(values if len(kept) == len(members) else values[:, kept], rows) if kept else None
        )
        self.plan, self.row_order, self.strata, notes = self._make_plan(plan)
        self.notes = [*source.notes, *settings.notes, *notes, *self._speed_notes()]
        complete = source.shape[0] if settings.complete is None else len(settings.complete)
        if rows is not None and len(rows) < complete:  # a note of the covariates counts the other rows
            self.notes.insert(0, describe_unknown(complete - len(rows)))
        on_round = getattr(settings.progress, "round_done", None)
        self.traces = [Trace(self.plan.n_features, self.kind.one_sided, on_round) for _ in members]
        #: the traces of the responses that are not constant
        self.active = [self.traces[k] for k in kept]
        if self.statistic is not None and self.statistic.positive is not None and not self.kind.one_sided:
            for trace, label in zip(self.active, self.statistic.positive, strict=True):
                trace.positive_class = to_single_line(str(label))
        for k in set(range(len(members))) - set(kept):
            reason = f"the response (column {members[k]}) is constant, {show(values[0, k])}, in all rows"
            self.traces[k].leave_out(self.plan.steps[0].n_rows, reason, self.kind.has_pvalues())
        #: whether the rows of each stratum that were read up to any step are a simple random sample
        self.is_random_sample = self.row_order == "random" or source.shuffled

    @property
    def is_correlation(self) -> bool:
        """Whether scores are correlations, for which floors and guarantees are known."""
        return self.statistic is not None and self.statistic.is_correlation

    def _bind(self, values: Array, rows: Indices | None) -> Statistic:
        """The statistic for some responses, in the rows in which they are known."""
        pairwise, weights = self.settings.pairwise, self.settings.sample_weight
        if self.covariates is None:
            bound: Statistic = self.kind.bind(values, pairwise)
        else:
            bound = self.kind.bind_partial(values, pairwise, self.covariates)
        if weights is not None:
            bound = bound.with_sample_weight(weights.values if rows is None else weights.values[rows])
        return self.source.place(bound)

    @property
    def n_covariates(self) -> int:
        """Rank of the covariates besides the intercept."""
        return 0 if self.covariates is None else self.covariates.rank

    def _make_plan(self, plan: PlanLike) -> tuple[Plan, str, Strata, list[str]]:
        """The plan, the row order, the strata of rows, and notes about them."""
        settings, n = self.settings, self.source.shape[0]
        strata = Strata.uniform(n)
        if self.statistic is not None and not (isinstance(plan, Plan) and self._is_uniform(plan)):
            strata = find_strata(self.source, self.statistic, settings.sampling, settings.row_order)
        made = plan if isinstance(plan, Plan) else plan(strata.design)
        made, reasons = self._or_exact(made)
        made = made.rereading(self.kind.rereads).limit_rows(n)
        if made.by_evidence and self.statistic is not None:
            random = settings.row_order == "auto" or (self.source.shuffled and settings.row_order == "stored")
            row_order = "random" if random else settings.row_order
            check_guarantee_possible(
                self.kind.name,
                self.is_correlation,
                row_order,
                settings.missing,
                self.n_covariates > 0,
                settings.sample_weight is not None,
            )
        row_order = settings.row_order
        if self._is_uniform(made) or not strata.is_worthwhile(made.steps[0].n_rows):
            strata = Strata.uniform(n)
            if made.by_evidence and made.steps[0].n_rows < n and self.statistic is not None:
                strata = find_outliers(self.source, self.statistic, row_order)
        elif not self.source.shuffled:
            row_order = "random"
        row_order, made, notes = resolve_row_order(self.source, made, row_order)
        return made, row_order, strata.for_guarantee() if made.by_evidence else strata, [*notes, *reasons]

    def _or_exact(self, plan: Plan) -> tuple[Plan, list[str]]:
        """The plan, or the exact one that it names if that is about as fast; and why all rows are read."""
        if not plan.why_exact:
            return plan, []
        if plan.or_exact is None:
            return plan, [plan.why_exact]
        n_reread = plan.n_keep if self.settings.pvalues else 0
        if slower_than_exact(self.source, plan, self.settings.row_order, n_reread):
            return plan.or_exact, [plan.why_exact]
        return plan, []

    def _is_uniform(self, plan: Plan) -> bool:
        """Whether the plan does not gain by strata, or is meant for uniform samples."""
        exact = plan.steps[0].n_rows >= self.source.shape[0]
        return exact or (plan.uniform and self.settings.sampling == "auto")

    def _speed_notes(self) -> list[str]:
        n_reread = self.plan.n_keep if self.settings.pvalues else 0
        if not slower_than_exact(self.source, self.plan, self.row_order, n_reread):
            return []
        return [
            "exact screening, which reads every row, would be about as fast here or faster: this plan saves "
            "cells, not time."
        ]

    @property
    def total_cells(self) -> int:
        """Cells to read, for the progress bar."""
        cells = self.plan.cells
        if self.settings.pvalues and self.plan.steps[-1].n_rows < self.plan.n_rows:
            chosen = self.settings.n_choose
            cells += self.plan.n_rows * (self.plan.n_keep if chosen is None else chosen)
        return len(self.active) * cells

    def run(self, workers: Workers, tick: Callable[[int], None]) -> None:
        """Screen all responses that are not constant."""
        if self.statistic is None:
            return
        for together in self._groups(self.statistic):
            everything = len(together) == self.statistic.n_responses
            statistic = self.statistic if everything else self.statistic.subset(together)
            traces = [self.active[k] for k in together]
            calibrated, read = self._run_steps(statistic, traces, workers, tick)
            if (n_choose := self.settings.n_choose) is not None:
                rows = reduce(join_rows, read)
                for trace in traces:
                    choose_features(self.source, trace, rows, self._row_weights, n_choose)
            if self.settings.pvalues:
                read_in_full(self.source, statistic, traces, workers, tick)
            self._correct_pvalues(statistic, calibrated, traces, read[0])

    def _row_weights(self, rows: Rows) -> Floats | None:
        """Weights by which rows represent all rows, including the user's; None if they are equal."""
        weights, given = self.strata.row_weights(rows), self.settings.sample_weight
        if given is None:
            return weights
        own = given.values if self.known is None else given.values[self.known]
        return own[rows] if weights is None else own[rows] * weights

    def _correct_pvalues(
        self, statistic: Statistic, calibrated: Statistic, traces: list[Trace], first_rows: Rows
    ) -> None:
        """Check the small p-values, which come from all rows or from the rows of a single step."""
        n, pvalues = self.source.shape[0], self.settings.pvalues
        complete = {k for k, trace in enumerate(traces) if trace.rounds[-1].n_rows >= n}
        once = set() if self.plan.by_evidence else {k for k, t in enumerate(traces) if len(t.rounds) == 1}
        for members, rows in ((complete, slice(0, n)), (once - complete, first_rows)):
            if members:
                again = count_rows(rows) > count_rows(first_rows)  # than it was calibrated with
                bound = statistic.calibrate(rows) if again else calibrated
                bound = bound.subset(sorted(members)) if len(members) < bound.n_responses else bound
                correct_pvalues(self.source, bound, [traces[k] for k in sorted(members)], rows, pvalues)

    def _groups(self, bound: Statistic) -> list[list[int]]:
        """Responses that have the same steps."""
        responses = list(range(bound.n_responses))
        if self.plan.by_evidence:  # each ends at its own time
            return [[k] for k in responses]
        if len(responses) == 1 or self.plan.steps[0].n_rows == self.plan.n_rows:
            return [responses]
        late = bound.constant_responses(next(self._draw_rows(self.plan)))  # each begins at its own time
        groups = [[k for k in responses if k not in set(late)], *([k] for k in late)]
        return [group for group in groups if group]

    def _draw_steps(self, statistic: Statistic, traces: list[Trace]) -> Iterator[tuple[Any, Rows]]:
        """Yield each step and its new rows, in the first step as many as it takes to rank features."""
        plan, first = self.plan, None
        while first is None:
            steps = zip(plan.steps, self._draw_rows(plan), strict=False)
            first = self._join_first_steps(statistic, steps)
            plan = plan.double_rows()
        if first[0] != self.plan.steps[0]:
            for trace in traces:
                trace.no_guarantee_reason = "rows were read until the response varied among them"
                trace.notes.append(
                    f"the response is constant in the {self.plan.steps[0].n_rows:,} rows of the first step, "
                    f"which cannot rank features: {count_rows(first[1]):,} rows of every feature were read "
                    "before any feature was dropped."
                )
        yield first
        yield from steps

    def _join_first_steps(
        self, statistic: Statistic, steps: Iterator[tuple[Any, Rows]]
    ) -> tuple[Any, Rows] | None:
        """The first step after which y varies, and the rows up to it; None if it varies after no step."""
        rows: Rows | None = None
        for step, new in steps:
            rows = new if rows is None else join_rows(rows, new)
            if count_rows(rows) >= self.plan.n_rows or not statistic.constant_responses(rows):
                return step, rows
        return None

    def _run_steps(
        self, statistic: Statistic, traces: list[Trace], workers: Workers, tick: Callable[[int], None]
    ) -> tuple[Statistic, list[Rows]]:
        """The loop itself; return the statistic as it was calibrated, and the new rows of each step."""
        plan, source = self.plan, self.source
        exact = plan.steps[0].n_rows == plan.n_rows
        sampled = exact or self.row_order == "random" or self.strata.n_strata > 1 or source.stratum_sizes
        monitor = None if sampled else ExchangeabilityMonitor(source)
        source = source if monitor is None else monitor
        rule = plan.keep_rule(
            self.strata.design, lambda scores: self._first_inflation(statistic, read[0], scores)
        )
        accumulators: list[Accumulator] = []
        read: list[Rows] = []
        try:
            for step, rows in self._draw_steps(statistic, traces):
                read.append(rows)
                status().start_round(len(read), plan.n_steps)
                if len(read) == 1:
                    statistic = statistic.calibrate(rows)
                    if isinstance(statistic, LinearStatistic) and not exact:
                        statistic = statistic.with_evidence()
                    accumulators = start_accumulators(source, statistic, rows, self.strata)
                n_read = sum(map(count_rows, read))
                for accumulator in accumulators:
                    self._run_step(accumulator, rule, step, rows, n_read, traces, workers, tick)
                    if len(read) < plan.n_steps:
                        accumulator.narrow()
                if monitor is not None and len(read) == 1:
                    warnings = warn_if_not_exchangeable(monitor, statistic, rows, self.row_order)
                    for trace in traces:
                        trace.notes += warnings
                if rule.ended:
                    traces[0].notes += rule.notes
                    break
        finally:  # the remaining features are known even if the run ends early
            for accumulator in accumulators:
                accumulator.finish(traces)
        for accumulator in accumulators:
            accumulator.record_effects(traces)
        if not exact and self.is_random_sample:
            guaranteed = plan.by_evidence or not self.strata.may_miss_outliers
            if isinstance(statistic, LinearStatistic) and statistic.evidence and not guaranteed:
                for trace, unread in zip(traces, measure_unread(statistic, read[:1]), strict=True):
                    trace.unread = float(unread)
            for k, trace in enumerate(traces):
                trace.record_inflation(
                    partial(measure_variance_inflation, source, statistic, k, read, self.strata)
                )
        return statistic, read

    def _run_step(
        self,
        accumulator: Accumulator,
        rule: KeepRule | EvidenceRule,
        step: Any,
        rows: Rows,
        n_rows: int,
        traces: list[Trace],
        workers: Workers,
        tick: Callable[[int], None],
    ) -> None:
        """Read the new rows of one accumulator, score its features and keep the best."""
        started = clock()
        n_read = accumulator.read(rows, workers, tick) if count_rows(rows) else 0
        if (bad := accumulator.nonfinite_features()).size:
            raise_nonfinite(self.source, rows, bad[:MAX_NONFINITE_READ], self.settings.pairwise)
        before = accumulator.n_left
        members = accumulator.members
        cutoffs = accumulator.keep_best(partial(rule.keep, step), [traces[k] for k in members])
        seconds = (clock() - started) / len(members)
        effective = self.strata.design.effective_rows(n_rows)
        for k, left, kept, cutoff in zip(members, before, accumulator.n_left, cutoffs, strict=True):
            shape = traces[k].kurtosis, traces[k].inflation
            traces[k].add_round(Round(n_rows, left, kept, cutoff, n_read * left, seconds, effective, *shape))

    def _first_inflation(self, statistic: Statistic, rows: Rows, scores: Floats) -> float:
        """The variance inflation to assume after the first round: two standard errors above the estimate."""
        size = min(MAX_FEATURES, scores.size)
        strongest = np.argpartition(-np.abs(scores), size - 1)[:size]
        inflation = measure_variance_inflation(self.source, statistic, 0, [rows], self.strata, strongest)
        assert inflation is not None  # as check_guarantee_possible ensures
        return inflation.high

    def _draw_rows(self, plan: Plan) -> Iterator[Rows]:
        totals, lazy = [step.n_rows for step in plan.steps], plan.by_evidence
        seed = self.settings.seed
        if self.strata.n_strata > 1:
            return self.strata.draw(totals, self.row_order, np.random.default_rng(seed), lazy=lazy)
        if self.source.stratum_sizes and self.row_order == "stored" and totals[0] < plan.n_rows:
            return draw_uniformly(self.source.stratum_sizes, totals, np.random.default_rng(seed))
        return draw_rows(
            plan.n_rows,
            totals,
            self.row_order,
            seed,
            lazy=lazy,
            edges=self.source.block_edges() if self.row_order == "blocks" else None,
        )

    def results(self, notes: Sequence[str]) -> Iterator[ScreeningResult | None]:
        """A result for each response that has finished a round, else None."""
        settings, n = self.settings, self.plan.n_rows
        sampling = "uniform" if self.strata.n_strata == 1 else "stratified"
        for member, trace in zip(self.members, self.traces, strict=True):
            if not trace.rounds:
                yield None
                continue
            sample = trace.rounds, n, self.is_random_sample
            no_floor = settings.no_floor_reason(*sample, self.is_correlation)
            yield trace.result(
                self.plan,
                self.source,
                [*notes, *self.notes],
                self.n_covariates,
                parameters=settings.parameters(
                    self.plan, self.source, self.row_order, sampling, self.n_covariates
                )
                | ({"positive_class": trace.positive_class} if trace.positive_class else {}),
                response=settings.responses[member] if member < len(settings.responses) else "",
                no_floor_reason=trace.no_guarantee_reason or no_floor,
                no_interval_reason=trace.no_guarantee_reason or settings.no_interval_reason(*sample),
            )


def _results(runs: Sequence[Run], notes: Sequence[str] = ()) -> list[ScreeningResult | None]:
    """Results in the order of the responses."""
    results = {k: result for run in runs for k, result in zip(run.members, run.results(notes), strict=True)}
    return [results[k] for k in sorted(results)]


def _partial_results(runs: Sequence[Run], how: str, single: bool) -> Any:
    """What the finished rounds say about a run that ended early; None if no round was finished."""
    note = f"the run was {how}: the selected features are those left at that time."
    results = _results(runs, [note])
    if all(result is None for result in results):
        return None
    return results[0] if single else results
