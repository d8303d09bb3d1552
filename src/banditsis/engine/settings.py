"""Validated settings of a run, and what follows from them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from banditsis.core.arrays import Array
from banditsis.statistics.covariates import Covariates

if TYPE_CHECKING:
    from banditsis.engine.runs import Run
    from banditsis.results.evidence import Round


@dataclass(frozen=True)
class Settings:
    """Validated settings of a run; see :func:`screen`."""

    statistic: Any
    row_order: str
    sampling: str
    missing: str
    #: False, True or "robust"
    pvalues: bool | str
    n_choose: int | None
    seed: int
    covariates: Covariates | None
    #: None if all rows have the same weight
    sample_weight: Array | None
    notes: Sequence[str]
    #: names of the responses, empty if they have none
    responses: Sequence[str]

    @property
    def pairwise(self) -> bool:
        """Whether NaN cells are ignored for each feature separately."""
        return self.missing == "pairwise"

    def parameters(self, run: Run) -> dict[str, Any]:
        """What the result reports about how it was made."""
        optional = {
            "sample_weight": self.sample_weight is not None,
            "pvalues": self.pvalues,
            "avoid_redundancy": self.n_choose is not None,
            "shuffled": run.row_order != "random" and run.source.shuffled,
        }
        return {
            "plan": run.plan.name,
            **dict(run.plan.parameters),
            **({"features": run.source.recipe} if run.source.recipe else {}),
            "statistic": self.statistic.name,
            **self.statistic.settings,
            "missing": self.missing,
            "covariates": run.n_covariates,
            "seed": self.seed,
            "row_order": run.row_order,
            "sampling": "uniform" if run.strata.n_strata == 1 else "stratified",
            **{name: value for name, value in optional.items() if value},
        }

    def no_floor_reason(self, run: Run) -> str | None:
        """Why the run has no detection floor; None if it has one."""
        if run.is_exact:
            return None
        if self.sample_weight is not None:
            return "it is not known for rows with sample weights"
        if not run.statistic.is_correlation:
            return f"it is only known for correlations, not for the statistic {self.statistic.name!r}"
        if self.pairwise and run.n_covariates:
            return "it is not known for covariates together with missing values"
        return None if run.is_random_sample else NO_SAMPLE

    def no_interval_reason(self, run: Run, rounds: Sequence[Round]) -> str | None:
        """Why the run has no confidence intervals; None if it has them."""
        if self.sample_weight is not None:
            return "they are not known for rows with sample weights"
        if self.statistic.name != "pearson":
            return f"they are only known for the Pearson statistic, not for {self.statistic.name!r}"
        return None if run.is_random_sample or rounds[-1].n_rows >= run.plan.n_rows else NO_SAMPLE


def find_versions() -> dict[str, str]:
    """Versions of the packages used; exact screening of genotypes needs no Numba."""
    used = {name: sys.modules.get(name) for name in ("banditsis", "numpy", "numba")}
    return {name: module.__version__ for name, module in used.items() if module is not None}


NO_SAMPLE = "the rows read are not a simple random sample; use random row order, or read every row"
