"""What a run leaves for floors, intervals and p-values: its rounds, its evidence, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from banditsis.core.arrays import Floats, Indices
from banditsis.statistics.null_distributions import NullDistribution


@dataclass(frozen=True)
class Round:
    """One step of a run.

    Attributes
    ----------
    n_rows, effective_rows
        Rows read in total after this round, and rows of a uniform sample that would be as precise.
    n_features, n_kept
        Features left before and after it.
    cutoff : float
        Smallest absolute score that was kept, or smallest score if the statistic is one-sided. If features
        are dropped by evidence, the smallest score that is not ruled out.
    cells, seconds
        Cells read in this round, and its duration without the compilation of kernels. Responses that shared
        a pass over the data share its time equally. The last round includes the check of small p-values.
    kurtosis, inflation : float
        The largest kurtosis, at least 3, and variance inflation of a feature that this round could drop; the
        latter, by its spread in strata of the response, is None if it is not known.
    """

    n_rows: int
    n_features: int
    n_kept: int
    cutoff: float
    cells: int
    seconds: float
    effective_rows: float = 0.0
    kurtosis: float = 3.0
    inflation: float | None = None

    def __post_init__(self) -> None:
        if self.effective_rows == 0.0:
            object.__setattr__(self, "effective_rows", float(self.n_rows))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What detection floors, intervals and p-values are computed from; None stands for what is not known."""

    #: rows in which each selected feature was present, if some have missing values
    present: Floats | None = None
    #: rows read that are informative about each selected feature
    informative: Floats | None = None
    #: variance inflation of each selected feature, and the rows that are informative about it
    own_inflation: Floats | None = None
    #: how much more correlations vary than for normal data
    variance_inflation: float | None = None
    #: rows read that are informative about the response
    informative_response: float | None = None
    #: what outliers of the response that were not read can add to a correlation
    unread: float = 0.0
    #: rank of the covariates
    n_covariates: int = 0
    #: whether features were dropped by evidence against a minimum correlation
    by_evidence: bool = False
    #: features that screening kept, of which the selected ones were chosen because they are not redundant or
    #: significant; 0 if there was no such choice. The detection floor is about them
    n_candidates: int = 0
    #: whether only large positive scores indicate association
    one_sided: bool = False
    #: distribution of the scores without association
    null_distribution: NullDistribution | None = None
    #: why there is no detection floor, or no confidence interval; None if there is one
    no_floor_reason: str | None = None
    no_interval_reason: str | None = None

    def take(self, kept: Indices) -> Evidence:
        """The evidence of some of the selected features, by their positions."""
        values = self.present, self.informative, self.own_inflation
        present, informative, own = (None if v is None else v[kept] for v in values)
        return replace(self, present=present, informative=informative, own_inflation=own)


@dataclass(frozen=True)
class About:
    """The response, where the data came from, and when and with what the run was made; empty if not known."""

    #: name of the file, and what it contains
    data: str = ""
    contents: str = ""
    #: name of the response, and its classes or range
    response: str = ""
    response_summary: str = ""
    #: time and command of the run, and versions of the software
    created: str = ""
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
