"""Screening: validate, choose the rows, make the plan, run it, and describe what was found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from banditsis.core import validation
from banditsis.core.formatting import were
from banditsis.core.parallel import Workers, count_jobs, one_blas_thread
from banditsis.core.progress import Progress, announce_compilation, show_progress
from banditsis.engine.redundancy import find_sizes
from banditsis.engine.rounds import add_notes, screen_rounds
from banditsis.engine.runs import Given, Run, Settings, make_runs
from banditsis.engine.sampling import ROW_ORDERS, PlanLike
from banditsis.formats.opening import open_features
from banditsis.index.rounds import bit_rounds
from banditsis.plans import BY_BITS, Plan, check_exclusive, make_plan
from banditsis.results import Interrupted, ScreeningResult, ScreeningResults, attach_partial, keep_significant
from banditsis.sources import take_original_rows
from banditsis.statistics import StatisticLike, encode_covariates, find_statistic, unsupported


def screen(
    X: Any,
    y: Any,
    keep: int | PlanLike | None = None,
    *,
    fdr: float | None = None,
    exact: bool = False,
    max_samples: int | float | None = None,
    alpha: float | None = None,
    budget: int | float | None = None,
    min_correlation: float | None = None,
    confidence: float | None = None,
    statistic: StatisticLike = "auto",
    row_order: str = "auto",
    sampling: str = "auto",
    missing: str = "raise",
    covariates: Any = None,
    sample_weight: Any = None,
    by: Any = None,
    pvalues: bool = False,
    avoid_redundancy: bool = False,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: Progress = None,
) -> ScreeningResult | ScreeningResults:
    r"""Screen the features of X for association with y.

    Parameters
    ----------
    X : array-like of shape (n, p), frame or Source
        The features. Arrays are read in place, and only the cells that the plan requires: cells that are not
        read are not checked. Inputs below a million cells are checked completely.
    y : array-like of shape (n,) or (n, q)
        The response. Pandas objects need the row labels of X in the same order, or a default index. Several
        responses share passes over the data; each result is that of its response alone, sampled the same way.
    keep : int, Plan or callable, optional
        Number of features to keep; by default floor(n / log n), as in the paper, but at most half of them. A
        plan says instead what each step reads and keeps. A callable gets the
        :class:`~banditsis.plans.SamplingDesign` of the rows with a response, and returns a plan.
    fdr : float, optional
        Keep the features that are significant at this false discovery rate instead, possibly none. This needs
        the p-value of every feature, so all rows are read. With ``alpha``, ``budget`` or ``min_correlation``
        only the features that are left at the end are tested, and the result says how many.
    exact : bool
        Whether to read every row: :meth:`Plan.exact`. This and the next four are mutually exclusive. Without
        any of them, as many rows are read as with ``alpha=0.5``, in fewer rounds, or all if that is as fast.
    max_samples : int or float, optional
        Screen a uniform random subsample of so many rows, or this fraction of them: :meth:`Plan.subsample`.
    alpha : float, optional
        Read as in the paper, which recommends 0.5 to 1.1: :meth:`Plan.paper`. Smaller values read more rows.
    budget : float or int, optional
        Read at most this fraction (float) or number (int) of cells, including those for ``pvalues``, with the
        lowest detection floor: :meth:`Plan.optimal`. Stored blocks are read whole, which can take more.
    min_correlation, confidence : float, optional
        Keep every feature with \|r\| at or above ``min_correlation`` over all rows, with probability
        ``confidence`` (0.95): :meth:`Plan.guaranteed`. Then ``keep=None`` keeps all that pass.
    statistic : str, class or object
        The measure of association, one of :doc:`/statistics`. "auto" is "anova" if the response has three or
        more classes (strings or categories), else "pearson"; of two classes, the one that sorts last counts
        as 1. Rank and distance statistics reread their rows in each step; the plan's cost includes this.
    row_order : {"auto", "random", "blocks", "stored"}
        "random" is valid for any data. "blocks" reads whole blocks in random order, which is cheaper if rows
        are stored in blocks, and "stored" the first rows, for data that were shuffled beforehand; both warn
        if rows stored together are more similar than chance allows. "auto" chooses what is cheap.
    sampling : {"auto", "uniform", "stratified"}
        "stratified" reads more of the rows that carry most information: those of a rare class, or far from
        the mean response. It needs rows in random order and a statistic computed from sums, or "cox"; see
        :doc:`/guarantees`. "auto" does so for one response if it is more precise, unless the plan is
        :meth:`Plan.paper` or :meth:`Plan.subsample`. :meth:`Plan.guaranteed` reads outliers in any case.
    missing : {"raise", "pairwise"}
        "raise" rejects NaN. "pairwise" ignores NaN cells for each feature separately: the score is multiplied
        by √(present rows / rows read), and is 0 for a feature with NaN that has fewer than 10 present rows,
        or 10 + k with k covariates. Rows whose response or covariate is missing are omitted before sampling.
        "chi2", "information_value" and "mutual_information" have a bin for NaN cells instead.
    covariates : array-like of shape (n,) or (n, k), or frame, optional
        Covariates to adjust for: association is partial, given the covariates and an intercept, in the rows
        in which the feature is present, and 0 if they explain it. Text and categories become indicators.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, 0 or more, for "pearson", "anova", "logistic", "poisson" and "cox", of which only
        the ratios matter: scores and p-values are those of weighted least squares and weighted score tests.
        Rows of weight 0 are left out. Weighted rows have no detection floors, intervals and guarantees.
    by : array-like of shape (n,), optional
        Period of each row, such as its month, for "chi2", "information_value" and "mutual_information": the
        ``annotations`` of the result have the score of each feature in each period, and its population
        stability index between the first period and each other.
    pvalues : bool
        Whether to read the selected features in full at the end, for exact scores and p-values. A run that
        reads every row, or has a single step, has p-values without this, except small ones of features that
        are not selected if the response is skewed or heavy-tailed, which are checked by a second reading.
    avoid_redundancy : bool
        Whether to screen to a few times as many features (8, but at least 200 and at most 2,048 in total) and
        to choose those to keep one by one, each by its squared score times the share of its variance that
        the features chosen before do not explain; see :doc:`/redundancy`.
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, Generator or RandomState, optional
        Seed for the random rows.
    progress : bool or callable, optional
        By default a bar appears on a terminal after two seconds; True and False show it always and never. A
        callable gets the numbers of cells read and to read; its method ``round_done`` gets every finished
        :class:`Round`.

    Returns
    -------
    ScreeningResult, or ScreeningResults if y has two dimensions

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 200))
    >>> y = 2 * X[:, 5] + X[:, 17] + rng.standard_normal(5000)
    >>> screen(X, y, 2).selected
    array([ 5, 17])
    >>> screen(X, y, Plan.paper(5000, 200, 2, alpha=1.0), random_state=0).selected
    array([ 5, 17])
    """
    paired = validation.pair_rows(X, y=y, covariates=covariates, sample_weight=sample_weight, by=by)
    source, y = open_features(X), paired.pop("y")
    validation.check_shape(source)
    kind, notes = _choose_statistic(statistic, y)
    validation.check_pvalues(kind, pvalues or fdr is not None)
    validation.check_flag("avoid_redundancy", avoid_redundancy)
    pvalues = bool(pvalues) or fdr is not None
    options = {"exact": exact or None, "max_samples": max_samples, "alpha": alpha, "budget": budget}
    options |= {"fdr": fdr, "min_correlation": min_correlation, "confidence": confidence}
    plan, n_choose = _resolve_plan(keep, options, source.shape, kind, pvalues, avoid_redundancy)
    (n, p), pairwise = source.shape, missing == "pairwise"
    given = _check_given(n, kind, pairwise, notes, **paired)
    settings = Settings(
        statistic=kind,
        row_order=validation.check_choice("row_order", row_order, ROW_ORDERS),
        sampling=validation.check_choice("sampling", sampling, ("auto", "uniform", "stratified")),
        missing=validation.check_choice("missing", missing, ("raise", "pairwise")),
        pvalues=pvalues,
        n_choose=n_choose,
        seed=validation.resolve_seed(random_state),
        responses=validation.response_names(y),
        on_round=getattr(progress, "round_done", lambda done: None),
    )
    announce_compilation(progress)
    with Workers(count_jobs(n_jobs)) as workers, one_blas_thread():
        one_column = kind.n_columns == 1
        responses = validation.check_responses(
            kind.unpack(y), n, allow_missing=pairwise and one_column, can_allow=one_column
        )
        if n * p < validation.CELLS_CHECKED_WHOLE:
            known = source
            if given.rows is not None:
                known = take_original_rows(source, np.flatnonzero(given.rows))
            validation.raise_nonfinite(known, slice(0, known.shape[0]), None, pairwise)
        single = np.asarray(y).ndim == 1 or not one_column
        runs = make_runs(source, responses, given, plan, settings)
        single = single and sum(len(run.members) for run in runs) == 1  # classes may be responses
        results = _run_all(runs, workers, progress, single)
    if fdr is not None:
        results = [keep_significant(result, fdr) for result in results]
    return results[0] if single else ScreeningResults(results)


def _run_all(
    runs: Sequence[Run], workers: Workers, progress: Progress, single: bool
) -> list[ScreeningResult]:
    """The result of each response; an error has the results of finished rounds when it is raised."""
    found: dict[int, ScreeningResult] = {}

    def partial_results(how: str) -> Any:
        note = f"the run was {how}: the selected features are those left at that time."
        members = range(sum(len(run.members) for run in runs))
        results = [result and add_notes(result, [note]) for result in map(found.get, members)]
        return results[0] if single or not found else results

    with show_progress(progress, sum(run.n_cells for run in runs)) as tick:
        try:
            for run in runs:
                rounds = bit_rounds if run.plan.name == BY_BITS else screen_rounds
                for results in rounds(run, workers, tick):
                    found.update(zip(run.members, results, strict=True))
        except KeyboardInterrupt:
            raise Interrupted(partial_results("interrupted")) from None
        except Exception as error:
            attach_partial(error, partial_results("ended by an error"))
            raise
    return [found[member] for member in sorted(found)]


def _choose_statistic(statistic: StatisticLike, y: Any) -> tuple[Any, list[str]]:
    """The statistic, and remarks about it; "auto" depends on the response."""
    if statistic != "auto":
        return find_statistic(statistic), []
    n_classes = validation.count_classes(y)
    kind = find_statistic("auto", n_classes)
    if kind.name == "anova":
        return kind, [f"the response has class labels, so the statistic is {kind.name!r}."]
    if n_classes or not (values := validation.find_integer_classes(y)):
        return kind, []
    listed = ", ".join(f"{value:g}" for value in values)
    note = f"the response has the values {listed}, which are treated as numbers: if they are classes, set "
    return kind, [f"{note}statistic='anova'."]


def _check_given(
    n: int, kind: Any, pairwise: bool, remarks: Sequence[str], covariates: Any, sample_weight: Any, by: Any
) -> Given:
    """Check what is given for n rows, and find the rows in which it is known."""
    rows, values, notes = None, None, [*remarks]
    weights = None if sample_weight is None else validation.check_sample_weight(sample_weight, n)
    if weights is not None:
        if not kind.adjusts:
            raise unsupported(kind.name, "sample weights", "sample_weight")
        if n_zero := n - int(np.count_nonzero(weights)):
            have, rows = "has" if n_zero == 1 else "have", weights > 0
            notes.append(f"{n_zero:,} of the {n:,} rows {have} weight 0 and {were(n_zero)} left out.")
    if covariates is not None:
        values, complete, expanded = encode_covariates(covariates, n, allow_missing=pairwise)
        notes += expanded
        if complete is not None:
            known = np.zeros(n, bool)
            known[complete] = True
            rows = known if rows is None else rows & known
    by = None if by is None else np.asarray(by)
    if by is not None and by.shape != (n,):
        raise ValueError(f"by must have a value for each of the {n:,} rows, got the shape {by.shape}.")
    return Given(rows, values, weights, by, notes)


def _resolve_plan(
    keep: Any,
    options: dict[str, Any],
    shape: tuple[int, int],
    kind: Any,
    pvalues: bool,
    avoid_redundancy: bool,
) -> tuple[PlanLike, int | None]:
    """The plan, or what makes it; and how many of the features that it keeps are chosen, None for all."""
    n, p = shape
    given = [name for name, value in options.items() if value is not None]
    if keep is None or isinstance(keep, Integral):
        fdr, exact = options.pop("fdr"), bool(options.pop("exact"))
        check_exclusive({"keep": keep, "fdr": fdr})
        if fdr is not None:
            validation.check_real("fdr", fdr, 0, 1)
        if avoid_redundancy and keep is None and ("fdr" in given or "min_correlation" in given):
            raise ValueError(
                "avoid_redundancy needs the number of features to keep: set n_features_to_select, or keep."
            )
        size = None if keep is None else validation.check_integer("keep", keep, 1)
        n_keep, n_choose = find_sizes(size, n, p, avoid_redundancy)
        options |= {"by_fdr": fdr is not None, "exact": exact, "rereads": kind.rereads, "pvalues": pvalues}
        return partial(make_plan, p=p, d=n_keep, n_selected=n_choose, **options), n_choose
    if given or avoid_redundancy:
        raise ValueError(f"keep is a plan, which {[*given, 'avoid_redundancy'][0]} would change: omit it.")

    def check(plan: Any, n: int) -> Plan:
        if not isinstance(plan, Plan):
            example = f"Plan.exact({n}, {p}, 10)"
            raise TypeError(f"keep must be a number of features, or a Plan such as {example}; got {plan!r}.")
        if (plan.n_rows, plan.n_features) != (n, p):
            raise ValueError(
                f"the plan is for {plan.n_rows:,} rows × {plan.n_features:,} features, but X has {n:,} × "
                f"{p:,}: make the plan for the shape of X."
            )
        return plan

    if callable(keep):
        return lambda design: check(keep(design), design.n_rows), None
    return check(keep, n), None
