"""Validated settings of a run, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from banditsis.core.arrays import Indices
from banditsis.core.parallel import count_jobs
from banditsis.core.validation import (
    SampleWeights,
    check_choice,
    check_pvalues,
    check_sample_weight,
    count_classes,
    find_integer_classes,
    resolve_seed,
)
from banditsis.engine.sampling import ROW_ORDERS
from banditsis.statistics import WEIGHTED, StatisticLike, find_statistic
from banditsis.statistics.base import no_weights
from banditsis.statistics.covariates import Covariates, find_basis
from banditsis.statistics.encoding import encode_covariates

if TYPE_CHECKING:
    from banditsis.core.progress import Progress
    from banditsis.plans.plan import Plan
    from banditsis.results.result import Round
    from banditsis.sources.base import Source

MISSING = ("raise", "pairwise")
SAMPLING = ("auto", "uniform", "stratified")


@dataclass(frozen=True)
class Settings:
    """Validated settings of a run; see :func:`screen`."""

    statistic: Any
    row_order: str
    sampling: str
    missing: str
    #: those of the rows in which all are known
    covariates: Covariates | None
    #: the rows in which all covariates are known; None for all rows
    complete: Indices | None
    #: None if all rows have the same weight
    sample_weight: SampleWeights | None
    #: False, True or "robust"
    pvalues: bool | str
    n_jobs: int
    seed: int
    progress: Progress
    notes: Sequence[str]
    #: names of the responses, empty if they have none
    responses: Sequence[str] = ()
    #: how many features to choose, without redundant ones, among those that the plan keeps; None for all
    n_choose: int | None = None

    @classmethod
    def check(
        cls,
        source: Source,
        *,
        statistic: StatisticLike,
        y: Any,
        row_order: str,
        sampling: str,
        missing: str,
        covariates: Any,
        sample_weight: Any,
        pvalues: bool | str,
        n_jobs: int | None,
        random_state: Any,
        progress: Progress = None,
        notes: Sequence[str] = (),
        responses: Sequence[str] = (),
        n_choose: int | None = None,
    ) -> Settings:
        """Validate what the user passed; statistic="auto" depends on the response ``y``."""
        n_classes = count_classes(y) if statistic == "auto" else 0
        kind = find_statistic(statistic, n_classes)
        if statistic == "auto" and kind.name == "anova":
            notes = [*notes, f"the response has class labels, so the statistic is {kind.name!r}."]
        elif statistic == "auto" and not n_classes:
            notes = [*_describe_integers(find_integer_classes(y)), *notes]
        check_pvalues(kind, pvalues)
        check_choice("row_order", row_order, ROW_ORDERS)
        check_choice("sampling", sampling, SAMPLING)
        check_choice("missing", missing, MISSING)
        n = source.shape[0]
        weights = None if sample_weight is None else _check_weights(sample_weight, n, kind, pvalues)
        if weights is not None:
            notes = [*notes, *weights.notes(n)]
        adjust, complete = None, None
        if covariates is not None:
            values, complete, remarks = encode_covariates(covariates, n, allow_missing=missing == "pairwise")
            if weights is not None and weights.kept is not None:
                values, complete = values[weights.kept], _renumber(complete, weights.kept)
            adjust = find_basis(values if complete is None else values[complete], source.dtype)
            notes = [*notes, *remarks, *adjust.notes]
        return cls(
            statistic=kind,
            row_order=row_order,
            sampling=sampling,
            missing=missing,
            covariates=adjust,
            complete=complete,
            sample_weight=weights,
            pvalues=pvalues,
            n_jobs=count_jobs(n_jobs),
            seed=resolve_seed(random_state),
            progress=progress,
            notes=notes,
            responses=responses,
            n_choose=n_choose,
        )

    @property
    def pairwise(self) -> bool:
        """Whether NaN cells are ignored for each feature separately."""
        return self.missing == "pairwise"

    def covariates_of(self, rows: Indices | None) -> Covariates | None:
        """Covariates of some rows in which they are known; None if they explain nothing but an intercept."""
        adjust = self.covariates
        if adjust is None or adjust.rank == 0 or rows is None or len(rows) == len(adjust.values):
            return adjust if adjust is not None and adjust.rank else None
        adjust = adjust.take(rows if self.complete is None else np.searchsorted(self.complete, rows))
        return adjust if adjust.rank else None

    def parameters(
        self, plan: Plan, source: Source, row_order: str, sampling: str, n_covariates: int
    ) -> dict[str, Any]:
        """What the result reports about how it was made."""
        return {
            "plan": plan.name,
            **dict(plan.parameters),
            **({"features": source.recipe} if source.recipe else {}),
            "statistic": self.statistic.name,
            **self.statistic.settings,
            "missing": self.missing,
            "covariates": n_covariates,
            **({"sample_weight": True} if self.sample_weight is not None else {}),
            "seed": self.seed,
            **({"pvalues": self.pvalues} if self.pvalues else {}),
            **({"avoid_redundancy": True} if self.n_choose is not None else {}),
            "row_order": row_order,
            "sampling": sampling,
            **({"shuffled": True} if row_order != "random" and source.shuffled else {}),
        }

    def no_floor_reason(
        self, rounds: Sequence[Round], n: int, random_sample: bool, is_correlation: bool
    ) -> str | None:
        """Why the run has no detection floor; None if it has one."""
        if rounds[0].n_rows >= n:
            return None  # all rows were read
        if self.sample_weight is not None:
            return "it is not known for rows with sample weights"
        if not is_correlation:
            return f"it is only known for correlations, not for the statistic {self.statistic.name!r}"
        if self.pairwise and self.covariates_of(None) is not None:
            return "it is not known for covariates together with missing values"
        return None if random_sample else self._no_sample_reason()

    def no_interval_reason(self, rounds: Sequence[Round], n: int, random_sample: bool) -> str | None:
        """Why the run has no confidence intervals; None if it has them."""
        if self.sample_weight is not None:
            return "they are not known for rows with sample weights"
        if self.statistic.name != "pearson":
            return f"they are only known for the Pearson statistic, not for {self.statistic.name!r}"
        return None if random_sample or rounds[-1].n_rows >= n else self._no_sample_reason()

    def _no_sample_reason(self) -> str:
        return "the rows read are not a simple random sample; use random row order, or read every row"


def _describe_integers(values: Sequence[float]) -> list[str]:
    """Note that integers which may be classes are treated as numbers."""
    listed = ", ".join(f"{value:g}" for value in values)
    note = f"the response has the values {listed}, which are treated as numbers: if they are classes, set "
    return [f"{note}statistic='anova'."] if values else []


def _renumber(complete: Indices | None, rows: Indices) -> Indices | None:
    """Which of some rows are complete, by their numbers among them; None if all are."""
    if complete is None:
        return None
    found = np.flatnonzero(np.isin(rows, complete, assume_unique=True))
    return None if len(found) == len(rows) else found


def _check_weights(sample_weight: Any, n: int, kind: Any, pvalues: bool | str) -> SampleWeights | None:
    """Check the weights of n rows, and that they can be combined with the other settings."""
    weights = check_sample_weight(sample_weight, n)
    if weights is not None and (kind if isinstance(kind, type) else type(kind)) not in WEIGHTED:
        raise no_weights(kind.name)
    if weights is not None and pvalues == "robust":
        raise ValueError("robust p-values are not known for rows with sample weights: use pvalues=True.")
    return weights
