"""Independent computations to compare with."""

import numpy as np


def correlations(X, y):
    """Two-pass Pearson correlations in float64, safe for any scale."""
    X = np.asarray(X, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    X = X / np.maximum(np.abs(X).max(axis=0), 1e-300)
    y = y / np.abs(y).max()
    Z, v = X - X.mean(axis=0), y - y.mean()
    Z[:, np.ptp(X, axis=0) == 0] = 0
    sizes = np.sqrt((Z * Z).sum(axis=0))
    r = Z.T @ v / np.sqrt(v @ v)
    return np.divide(r, sizes, out=np.zeros_like(r), where=sizes > 0)


def paper_algorithm(X, y, d, rows_by_round, discard):
    """Algorithm 1 written down plainly: correlations over all rows so far, again in each round."""
    left = np.arange(X.shape[1])
    for rows in rows_by_round:
        r = np.abs(correlations(X[np.ix_(rows, left)], y[rows]))
        keep = len(left) - int(np.ceil(discard * (len(left) - d)))
        left = np.sort(left[np.argsort(-r, kind="stable")[:keep]])
        if len(left) == d:
            break
    return left
