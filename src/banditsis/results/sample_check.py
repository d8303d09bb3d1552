"""What a random sample of rows would have missed, compared with what all rows say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, special
from banditsis.plans import excess_inflation, sampling_variance
from banditsis.results.evidence import rank_features
from banditsis.results.result import ScreeningResult


@dataclass(frozen=True)
class SampleCheck:
    """The best features of all rows, and what a sample that selects as many says about them.

    Parameters
    ----------
    found : ScreeningResult
        The best features by all rows; their scores must be exact.
    sample : ScreeningResult
        The result of a plan with one step on the same features, such as :meth:`Plan.subsample`.
    """

    found: ScreeningResult
    sample: ScreeningResult

    @property
    def n_rows(self) -> int:
        """Rows of the sample."""
        return self.sample.rounds[0].n_rows

    @cached_property
    def associated(self) -> Indices:
        """The features to find, best first: those clearly associated, or all selected ones if not known."""
        return self.found.selected if self.found.associated is None else self.found.associated

    @cached_property
    def kept(self) -> Array:
        """Whether the sample selects each of the best features of all rows."""
        return np.isin(self.found.selected, self.sample.selected)

    @cached_property
    def missed(self) -> Indices:
        """The features to find that the sample does not select, best first."""
        return self.associated[~np.isin(self.associated, self.sample.selected)]

    @property
    def floor(self) -> float | None:
        """A sample of this size keeps a feature with this correlation with probability 95%."""
        return None if self.sample.evidence.no_floor_reason else self.sample.detection_floor()

    def chances(self, features: Indices) -> Floats:
        r"""The probability that a sample of this size selects each of some features; NaN if not known.

        For a correlation r over all rows and the cutoff c of this sample it is
        :math:`Φ((\operatorname{artanh}|r| - \operatorname{artanh} c) / σ)`, as in the detection floor, at
        which it is 95%. Other samples have slightly other cutoffs.
        """
        r = np.minimum(np.abs(self.found.scores[features]), 1 - 1e-12)
        if self.floor is None:
            return np.full(len(r), np.nan)
        step, evidence = self.sample.rounds[0], self.sample.evidence
        inflation = max(evidence.variance_inflation or 1.0, step.inflation or 1.0)
        spread = inflation + excess_inflation(step.kurtosis, r)
        variance = sampling_variance(step.effective_rows - evidence.n_covariates, self.found.n_rows, 1.0)
        distance = np.arctanh(r) - np.arctanh(min(step.cutoff, 1 - 1e-12))
        return np.asarray(special.ndtr(distance / np.sqrt(variance * spread)))

    def columns(self) -> dict[str, Array]:
        """A table of the best features of all rows."""
        best = self.found.selected
        return {
            "rank": np.arange(1, len(best) + 1),
            "name": self.found.features["name"],
            "index": best,
            "score": self.found.scores[best],
            "associated": np.isin(best, self.associated),
            "sample_score": self.sample.scores[best],
            "sample_rank": rank_features(self.sample)[best],
            "kept": self.kept,
            "chance": self.chances(best),
        }
