"""What a run leaves for floors, intervals and p-values: its rounds, its evidence, and where it came from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices
from banditsis.plans import excess_inflation
from banditsis.statistics.null_distributions import NullDistribution

if TYPE_CHECKING:
    from banditsis.results.result import ScreeningResult


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
        Smallest absolute score (or score, if the statistic is one-sided) that was kept. If features are
        dropped by evidence, the smallest that is not ruled out.
    cells, seconds
        Cells read in this round, and its duration without the compilation of kernels, which responses that
        share a pass over the data share equally. The last round includes the check of small p-values.
    kurtosis, inflation : float
        The largest kurtosis, at least 3, of a feature that this round could drop, and the largest variance
        inflation by its spread in strata of the response; None if it is not known.
    """

    n_rows: int
    n_features: int
    n_kept: int
    cutoff: float
    cells: int
    seconds: float
    effective_rows: float
    kurtosis: float = 3.0
    inflation: float | None = None


@dataclass(frozen=True, eq=False)
class Evidence:
    """What floors, intervals and p-values are computed from; None stands for what is not known."""

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
    #: on an index, with probability 95% no feature that was not read in full scores more than this
    reach: float | None = None
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
    #: why there is no detection floor, no confidence interval or no p-value
    no_floor_reason: str | None = None
    no_interval_reason: str | None = None
    no_pvalues_reason: str | None = None
    #: cells that were read again to check small p-values or to compute correlations among candidates
    cells_reread: int = 0
    #: correlations among the selected features, if they were chosen because they are not redundant
    correlation: Floats | None = None
    #: the candidates with |r| > 0.95 that a selected feature stands for
    near_duplicates: Mapping[int, Indices] = field(default_factory=dict)
    #: columns of a table with a row for each bin of the selected features, for statistics such as "chi2":
    #: index of the feature, whether the bin is that of missing cells, where it begins (included) and ends
    #: (NaN if it has no end), rows of each class, and its weight of evidence if there are two classes
    bins: Mapping[str, Array] = field(default_factory=dict)

    def take(self, kept: Indices) -> Evidence:
        """The evidence of some of the selected features, by their positions."""
        values = self.present, self.informative, self.own_inflation
        present, informative, own = (None if v is None else v[kept] for v in values)
        among = None if self.correlation is None else self.correlation[np.ix_(kept, kept)]
        return replace(self, present=present, informative=informative, own_inflation=own, correlation=among)


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


def strength(scores: Floats, one_sided: bool) -> Floats:
    """The values that scores are compared by."""
    return scores if one_sided else np.abs(scores)


def is_exact(result: ScreeningResult) -> bool:
    """Whether every row of every feature was read."""
    return result.rounds[0].n_rows >= result.n_rows


def selection_mask(result: ScreeningResult) -> Array:
    """Mask of the selected features."""
    mask = np.zeros(result.n_features, dtype=bool)
    mask[result.selected] = True
    return mask


def find_tested(result: ScreeningResult) -> Array:
    """Mask of the features that have a p-value: no feature was selected by the rows that test it."""
    last, evidence = len(result.rounds) - 1, result.evidence
    tested = np.asarray(result.last_round == last)
    is_biased = result.rounds[last].n_rows < result.n_rows and (last > 0 or evidence.by_evidence)
    return np.zeros_like(tested) if is_biased or evidence.null_distribution is None else tested


def has_pvalues(result: ScreeningResult) -> bool:
    """Whether there are p-values."""
    return bool(find_tested(result).any())


def strength_of(result: ScreeningResult) -> Floats:
    """The values that features are ranked by."""
    return strength(result.scores, result.evidence.one_sided)


def rank_features(result: ScreeningResult) -> Indices:
    """Rank of every feature, from 1: by the last round it survived, then by score."""
    order = np.lexsort((-strength_of(result), -result.last_round.astype(np.intp)))
    order = np.concatenate([result.selected, order[~selection_mask(result)[order]]])
    ranks = np.empty_like(order)
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks


def transform(result: ScreeningResult) -> tuple[Floats, Floats, Floats, Floats]:
    """Fisher's transformation of the correlations of the selected features, and their standard errors.

    These are for normal data, and by the variance inflation of each feature. The last value is the number of
    rows that are informative about the feature.
    """
    evidence, last = result.evidence, result.last_round[result.selected]
    read, effective = np.array([(step.n_rows, step.effective_rows) for step in result.rounds])[last].T
    m = read if evidence.present is None else evidence.present
    r = result.scores[result.selected] * np.sqrt(read / np.maximum(m, 1))
    inflation = np.ones_like(r)
    if evidence.informative is not None:
        inflation = 1.0 + excess_inflation(m / np.maximum(evidence.informative, 1.0), r)
    own, rows = inflation, np.full_like(r, np.inf)
    if evidence.own_inflation is not None:
        own, rows = evidence.own_inflation.T
    degrees = np.maximum(m * effective / read - 3 - evidence.n_covariates, 0)
    with np.errstate(divide="ignore"):
        normal, spread = np.sqrt(np.stack([inflation, own]) / degrees)
        return np.arctanh(np.clip(r, -1.0, 1.0)), normal, spread, rows


def student_quantile(z: float, df: Floats) -> Floats:
    """The quantile of Student's t at the probability of a normal quantile z, by Fisher's expansion."""
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return np.asarray(z + first / df + second / df**2 + third / df**3)


def find_versions() -> dict[str, str]:
    """Versions of the packages used; exact screening of genotypes needs no Numba."""
    used = {name: sys.modules.get(name) for name in ("banditsis", "numpy", "numba")}
    return {name: module.__version__ for name, module in used.items() if module is not None}
