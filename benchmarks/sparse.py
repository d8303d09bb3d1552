"""Exact screening of a sparse matrix by column against SciPy's product with the response.

    python benchmarks/sparse.py [--share 0.1]

Prints a line of a table: 50,000 × 270,000 with 14 million stored cells.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import sparse

from banditsis import Plan, open_source, screen
from timing import interleaved

ROWS, COLUMNS, STORED = 50_000, 270_000, 14_000_000


def make_matrix(share: float = 1.0) -> sparse.csc_array:
    """A matrix by column with ``share`` of the columns and of the stored cells."""
    rng = np.random.default_rng(0)
    columns, stored = int(COLUMNS * share), int(STORED * share)
    counts = rng.multinomial(stored, rng.dirichlet(np.full(columns, 2.0)))
    indptr = np.concatenate([[0], np.cumsum(np.minimum(counts, ROWS))])
    indices = np.concatenate([np.sort(_draw(rng, int(k))) for k in np.diff(indptr)]).astype(np.int32)
    data = rng.exponential(size=len(indices))
    return sparse.csc_array((data, indices, indptr.astype(np.int32)), shape=(ROWS, columns))


def _draw(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.choice(ROWS, size, replace=False, shuffle=False)


def measure(share: float = 1.0, repeats: int = 7) -> list[tuple[str, float, float]]:
    """What was measured, the value, and the most that it may be."""
    X = make_matrix(share)
    y = np.random.default_rng(1).standard_normal(ROWS)
    source, plan = open_source(X), Plan.exact(*X.shape, 100)
    best = interleaved(repeats, exact=lambda: screen(source, y, plan), product=lambda: X.T @ y)
    what = f"exact SIS, sparse by column, {ROWS:,} × {X.shape[1]:,} with {X.nnz:,} stored: time of `X.T @ y`"
    return [(what, best["exact"] / best["product"], 1.5)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the columns, for a quick look")
    for what, value, most in measure(parser.parse_args().share):
        print(f"| {what} | {value:.2f}× | ≤ {most}× | {'✓' if value <= most else 'missed'} |")
