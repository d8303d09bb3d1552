"""The results of several responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from banditsis.core.arrays import Floats, Indices
from banditsis.core.formatting import count, printable, short_labels, text_table
from banditsis.core.parallel import Workers, count_jobs, map_in_threads
from banditsis.core.validation import check_choice, check_real
from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import count_associated
from banditsis.statistics.null_distributions import METHODS, reject_nulls


class ScreeningResults(Sequence[ScreeningResult]):
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

    def __iter__(self) -> Iterator[ScreeningResult]:
        return iter(self.results)

    @overload
    def __getitem__(self, key: int | str) -> ScreeningResult: ...

    @overload
    def __getitem__(self, key: slice) -> ScreeningResults: ...

    def __getitem__(self, key: int | str | slice) -> ScreeningResult | ScreeningResults:
        if isinstance(key, slice):
            return ScreeningResults(self.results[key])
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(f"no response is called {key!r}: there are {', '.join(self.names[:10])}.")
            key = self.names.index(key)
        return self.results[key]

    @property
    def pvalues(self) -> Floats:
        """P-values of all responses, one line for each: :attr:`ScreeningResult.pvalues`."""
        with Workers(min(count_jobs(None), 8)):  # more threads wait for each other
            log10 = map_in_threads(ScreeningResult._find_log10_pvalues, self.results)
        return np.power(10.0, np.stack(log10))

    def select(self, fdr: float = 0.05, method: str = "bh") -> dict[str, Indices]:
        """Features of each response that are significant if all tests of all responses count.

        Parameters
        ----------
        fdr, method
            As for :meth:`ScreeningResult.select`.
        """
        check_real("fdr", fdr, 0, 1)
        log10 = [result.log10_pvalues for result in self.results]
        rejected = reject_nulls(np.concatenate(log10), fdr, check_choice("method", method, METHODS))
        edges = np.cumsum([0, *(len(part) for part in log10)])
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

    def to_json(self, *, full: bool = True) -> str:
        """All results as one JSON object; see :meth:`ScreeningResult.to_json`."""
        from banditsis.results.json import to_record

        records = [to_record(result, full=full) for result in self.results]
        return json.dumps({"responses": dict(zip(self.names, records, strict=True))})

    @classmethod
    def from_json(cls, text: str) -> ScreeningResults:
        """Read what :meth:`to_json` wrote."""
        from banditsis.results.json import from_record

        record = json.loads(text)
        if "responses" not in record:
            raise ValueError("this record has one response: read it with ScreeningResult.from_json.")
        return cls([from_record(record) for record in record["responses"].values()])

    def to_html(
        self, path: str | Path | None = None, *, title: str | None = None, X: Any = None, y: Any = None
    ) -> str | None:
        """A report with an overview and a section for each response.

        Parameters
        ----------
        path, title, X
            As for :meth:`ScreeningResult.to_html`.
        y : array-like of shape (n, responses), optional
            The responses, in the order of the results.
        """
        from banditsis.show.report import write_report  # only needed here

        return write_report(self.results, path, title, X, y)

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
        rows = list(zip(*columns.values(), strict=True))
        head = f"{count(len(self), 'response')}, {describe_size(self)}"
        return printable(f"{head}\n{text_table(list(columns), rows, align='<>><')}")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from banditsis.show.report.notebook import summarize_several  # only needed in notebooks

        return summarize_several(self)


def describe_size(results: Sequence[ScreeningResult]) -> str:
    """Rows and features of the data; rows without a response do not count, so responses may differ."""
    rows, features = [r.n_rows for r in results], [r.n_features for r in results]
    return " × ".join(
        f"{min(sizes):,} to {count(max(sizes), noun)}" if min(sizes) < max(sizes) else count(max(sizes), noun)
        for noun, sizes in (("row", rows), ("feature", features))
    )
