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
    """What detection floors, intervals and p-values are computed from; None stands for what is not known.

    Attributes
    ----------
    present, informative : ndarray or None
        Rows in which each selected feature was present, if some have missing values, and rows read that are
        informative about it.
    own_inflation : ndarray of shape (selected, 2) or None
        Variance inflation of each selected feature, and the rows that are informative about it.
    variance_inflation : float or None
        How much more correlations vary than for normal data.
    informative_response : float or None
        Rows read that are informative about the response.
    unread : float
        What outliers of the response that were not read can add to a correlation.
    n_covariates : int
        Rank of the covariates.
    by_evidence : bool
        Whether features were dropped by evidence against a minimum correlation.
    null_distribution : NullDistribution or None
        Distribution of the scores without association.
    """

    present: Floats | None = None
    informative: Floats | None = None
    own_inflation: Floats | None = None
    variance_inflation: float | None = None
    informative_response: float | None = None
    unread: float = 0.0
    n_covariates: int = 0
    by_evidence: bool = False
    null_distribution: NullDistribution | None = None

    def take(self, kept: Indices) -> Evidence:
        """The evidence of some of the selected features, by their positions."""
        values = self.present, self.informative, self.own_inflation
        present, informative, own = (None if v is None else v[kept] for v in values)
        return replace(self, present=present, informative=informative, own_inflation=own)


@dataclass(frozen=True)
class About:
    """Where the data came from, and when and with what the run was made; empty if not known.

    Attributes
    ----------
    data, contents : str
        Name of the file, and what it contains.
    response_summary : str
        Classes or range of the response.
    created, command : str
        Time and command of the run.
    versions : dict
        Versions of the software.
    """

    data: str = ""
    contents: str = ""
    response_summary: str = ""
    created: str = ""
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
