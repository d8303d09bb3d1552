"""Independent computations to compare with, and simulated data."""

import math

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


def simulate(kind, n, p, rng, strengths):
    """Standardised features, of which the first have the given correlations with the response."""
    if kind == "genotypes":
        X = rng.binomial(2, rng.uniform(0.05, 0.5, p), (n, p)).astype(float)
    elif kind == "equicorrelated":
        X = rng.standard_normal((n, p)) * math.sqrt(0.7) + math.sqrt(0.3) * rng.standard_normal((n, 1))
    else:
        X = rng.standard_normal((n, p))
    if kind == "t5":
        X *= np.sqrt(3 / rng.chisquare(5, n))[:, None]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rest = max(0.05, 1 - np.square(strengths).sum())
    noise = rng.standard_t(3, n) / math.sqrt(3) if kind == "heavy noise" else rng.standard_normal(n)
    return X, X[:, : len(strengths)] @ strengths + noise * math.sqrt(rest)


def same(found, expected, tolerance=1e-12):
    """The same features with the same scores, for one response or several."""
    many = not hasattr(expected, "selected")
    for one, other in zip(found if many else [found], expected if many else [expected], strict=True):
        np.testing.assert_array_equal(one.selected, other.selected)
        np.testing.assert_allclose(one.scores, other.scores, atol=tolerance)
