"""Validated settings of a run, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from banditsis.arrays import Indices
from banditsis.engine.sampling import ROW_ORDERS
from banditsis.parallel import count_jobs
from banditsis.statistics import WEIGHTED, StatisticLike, find_statistic
from banditsis.statistics.base import no_weights
from banditsis.statistics.covariates import Covariates, check_covariates
from banditsis.validation import (
    SampleWeights,
    check_choice,
    check_pvalues_available,
    check_sample_weight,
    resolve_seed,
)

if TYPE_CHECKING:
    from banditsis.plans.plan import Plan
    from banditsis.progress import Progress
    from banditsis.results import Round
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
    #: None if they explain nothing besides an intercept
    covariates: Covariates | None
    #: None if all rows have the same weight
    sample_weight: SampleWeights | None
    #: False, True or "robust"
    pvalues: bool | str
    n_jobs: int
    seed: int
    progress: Progress
    notes: Sequence[str]

    @classmethod
    def check(
        cls,
        source: Source,
        *,
        statistic: StatisticLike,
        has_labels: bool,
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
    ) -> Settings:
        """Validate what the user passed; ``has_labels`` is about the response, for statistic="auto"."""
        kind = find_statistic(statistic, has_labels)
        if statistic == "auto" and has_labels:
            notes = [*notes, f"the response has class labels, so the statistic is {kind.name!r}."]
        if pvalues:
            check_pvalues_available(kind, pvalues)
        check_choice("row_order", row_order, ROW_ORDERS)
        check_choice("sampling", sampling, SAMPLING)
        check_choice("missing", missing, MISSING)
        n = source.shape[0]
        weights = None if sample_weight is None else _check_weights(sample_weight, n, kind, pvalues)
        adjust = None if covariates is None else check_covariates(covariates, n, source.dtype)
        if weights is not None:
            notes = [*notes, *weights.notes(n)]
            if adjust is not None and weights.kept is not None:
                adjust = check_covariates(adjust.values[weights.kept], len(weights.kept), source.dtype)
        if adjust is not None and missing == "pairwise":
            raise ValueError(
                "covariates cannot be combined with missing values: fill the gaps of the features and drop "
                "rows whose response is missing, or omit the covariates."
            )
        return cls(
            statistic=kind,
            row_order=row_order,
            sampling=sampling,
            missing=missing,
            covariates=adjust if adjust is not None and adjust.rank else None,
            sample_weight=weights,
            pvalues=pvalues,
            n_jobs=count_jobs(n_jobs),
            seed=resolve_seed(random_state),
            progress=progress,
            notes=[*notes, *(() if adjust is None else adjust.notes)],
        )

    def take(self, rows: Indices) -> Settings:
        """The settings for some of the rows that have weights."""
        if self.sample_weight is None:
            return self
        return replace(self, sample_weight=SampleWeights(self.sample_weight.values[rows], None))

    @property
    def pairwise(self) -> bool:
        """Whether NaN cells are ignored for each feature separately."""
        return self.missing == "pairwise"

    @property
    def n_covariates(self) -> int:
        """Rank of the covariates besides the intercept."""
        return 0 if self.covariates is None else self.covariates.rank

    def parameters(self, plan: Plan, source: Source, row_order: str, sampling: str) -> dict[str, Any]:
        """What the result reports about how it was made."""
        return {
            "plan": plan.name,
            **dict(plan.parameters),
            **({"features": source.recipe} if source.recipe else {}),
            "statistic": self.statistic.name,
            **self.statistic.settings,
            **({"one_sided": True} if self.statistic.one_sided else {}),
            "missing": self.missing,
            "covariates": self.n_covariates,
            **({"sample_weight": True} if self.sample_weight is not None else {}),
            "seed": self.seed,
            **({"pvalues": self.pvalues} if self.pvalues else {}),
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
        if self.pairwise:
            return "with pairwise deletion every feature has its own rows"
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


def _check_weights(sample_weight: Any, n: int, kind: Any, pvalues: bool | str) -> SampleWeights | None:
    """Check the weights of n rows, and that they can be combined with the other settings."""
    weights = check_sample_weight(sample_weight, n)
    if weights is not None and (kind if isinstance(kind, type) else type(kind)) not in WEIGHTED:
        raise no_weights(kind.name)
    if weights is not None and pvalues == "robust":
        raise ValueError("robust p-values are not known for rows with sample weights: use pvalues=True.")
    return weights
