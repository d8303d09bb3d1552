"""Exact screening of a sparse CSC matrix, compared with SciPy's product with the response.

    python benchmarks/sparse_matrices.py [--share 0.1]

Prints a line of a table, for a 50,000 × 270,000 matrix with 14 million stored cells.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import sparse

from banditsis import Plan, open_source, screen
from reporting import Figure, at_most, table
from timing import interleaved

ROWS, COLUMNS, STORED = 50_000, 270_000, 14_000_000


def make_matrix(share: float = 1.0) -> sparse.csc_array:
    """Return a CSC matrix with a share of the columns and of the stored cells."""
    rng = np.random.default_rng(0)
    columns, stored = int(COLUMNS * share), int(STORED * share)
    counts = rng.multinomial(stored, rng.dirichlet(np.full(columns, 2.0)))
    indptr = np.concatenate([[0], np.cumsum(np.minimum(counts, ROWS))])
    drawn = [rng.choice(ROWS, int(k), replace=False, shuffle=False) for k in np.diff(indptr)]
    indices = np.concatenate([np.sort(rows) for rows in drawn]).astype(np.int32)
    data = rng.exponential(size=len(indices))
    return sparse.csc_array((data, indices, indptr.astype(np.int32)), shape=(ROWS, columns))


def measure(share: float = 1.0) -> Figure:
    """Compare the times of exact screening and of the product."""
    X = make_matrix(share)
    y = np.random.default_rng(1).standard_normal(ROWS)
    source, plan = open_source(X), Plan.exact(*X.shape, 100)
    best = interleaved(7, exact=lambda: screen(source, y, plan), product=lambda: X.T @ y)
    what = f"exact SIS, sparse by column, {ROWS:,} × {X.shape[1]:,} with {X.nnz:,} stored: time of `X.T @ y`"
    return at_most(what, best["exact"] / best["product"], 1.5, "×")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the columns, for a quick run")
    print(table([measure(parser.parse_args().share)]))
