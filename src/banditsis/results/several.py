"""The results of several responses, and those of all rows and of a sample of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, special
from banditsis.core.formatting import count, printable, short_labels, text_table
from banditsis.plans import excess_inflation, sampling_variance
from banditsis.results.evidence import rank_features
from banditsis.results.features import Output
from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import count_associated
from banditsis.statistics.null_distributions import reject_nulls


class ScreeningResults(Output, Sequence[ScreeningResult]):
    """The results of several responses, by position or name. Printing them shows a table.

    Parameters
    ----------
    results : sequence of ScreeningResult
        One for each response; those without a name are called y0, y1, ….

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 100))
    >>> Y = X[:, [7, 42]] + rng.standard_normal((500, 2))
    >>> results = screen(X, Y, Plan.exact(500, 100, 3))
    >>> results.names, results["y1"].selected[0]
    (['y0', 'y1'], np.int64(42))
    >>> results.select(fdr=0.01)
    {'y0': array([7]), 'y1': array([42])}
    """

    def __init__(self, results: Sequence[ScreeningResult]) -> None:
        self.results = list(results)
        #: Names of the responses.
        self.names = [result.about.response or f"y{k}" for k, result in enumerate(self.results)]

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return ScreeningResults(self.results[key])
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(f"no response is called {key!r}: there are {', '.join(self.names[:10])}.")
            key = self.names.index(key)
        return self.results[key]

    def select(self, fdr: float = 0.05, method: str = "bh") -> dict[str, Indices]:
        """Features of each response that are significant if all tests of all responses count.

        The parameters are those of :meth:`ScreeningResult.select`.
        """
        log10 = [result.log10_pvalues for result in self.results]
        rejected = reject_nulls(np.concatenate(log10), fdr, method)
        edges = np.cumsum([0, *map(len, log10)])
        return {
            name: rejected[(rejected >= low) & (rejected < high)] - low
            for name, low, high in zip(self.names, edges, edges[1:], strict=False)
        }

    def to_frame(self, *, all_features: bool = False) -> Any:
        """A pandas frame in long form: the columns of :meth:`ScreeningResult.to_frame` after the response."""
        import pandas as pd

        frames = [result.to_frame(all_features=all_features) for result in self.results]
        for name, frame in zip(self.names, frames, strict=True):
            frame.insert(0, "response", name)
        return pd.concat(frames, ignore_index=True)

    def overview(self) -> dict[str, list[str]]:
        """Columns with a value for each response: how many features were selected, and the best one."""
        clear = [count_associated(result) for result in self.results]
        best = [result.features.take(slice(1)) for result in self.results]
        return {
            "response": short_labels(self.names, 40),
            "selected": [f"{len(result.selected):,}" for result in self.results],
            "clearly associated": ["unknown" if n is None else f"{n:,}" for n in clear],
            "best feature": ["".join(first.labels(24)) for first in best],
            "score": ["".join(first.scores(3)) for first in best],
        }

    def __str__(self) -> str:
        columns = self.overview()
        head = f"{count(len(self), 'response')}, {describe_size(self.results)}"
        rows = list(zip(*columns.values(), strict=True))
        return printable(f"{head}\n{text_table(list(columns), rows, align='<>><')}")


def describe_size(results: Sequence[ScreeningResult]) -> str:
    """Rows and features of the data; rows without a response do not count, so responses may differ."""
    rows, features = [r.n_rows for r in results], [r.n_features for r in results]
    fewest = f"{min(rows):,} to " if min(rows) < max(rows) else ""
    return f"{fewest}{count(max(rows), 'row')} × {count(max(features), 'feature')}"


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
