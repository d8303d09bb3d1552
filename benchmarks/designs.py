"""Data sets for the benchmark of plans."""

from __future__ import annotations

import numpy as np

from banditsis import datasets
from banditsis.sources.base import Calibration
from banditsis.sources.blocks import BlockSource


def features(kind, n, p, rng):
    """Return standardised features of one kind."""
    X = rng.standard_normal((n, p))
    if kind == "equicorrelated":
        X = np.sqrt(0.7) * X + np.sqrt(0.3) * rng.standard_normal((n, 1))
    elif kind == "AR(0.9)":
        for j in range(1, p):
            X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
    elif kind == "t5":
        X *= np.sqrt(3 / rng.chisquare(5, n))[:, None]
    elif kind == "genotypes":
        X = rng.binomial(2, rng.uniform(0.05, 0.5, p), (n, p)).astype(float)
    return (X - X.mean(axis=0)) / X.std(axis=0)


def noise(kind, n, rng):
    return rng.standard_t(3, n) / np.sqrt(3) if kind == "heavy noise" else rng.standard_normal(n)


def make_graded(kind, n, p, rng, strengths):
    """Return features and a response. The first features have about the given correlations with it."""
    X = features(kind, n, p, rng)
    signal = X[:, : len(strengths)] @ strengths
    rest = max(0.1, 1 - float(np.square(strengths).sum()))
    return X, signal + np.sqrt(rest) * noise(kind, n, rng)


def make_other(kind):
    """Return a function that makes data with ten active features, evenly spaced."""

    def make(n, p, seed):
        rng = np.random.default_rng(seed)
        X = features(kind, n, p, rng)
        active = np.arange(10) * (p // 10)
        y = X[:, active] @ np.linspace(1.0, 1.5, 10) + noise(kind, n, rng)
        return X, y, active

    return make


DESIGNS = {
    "M1": datasets.make_m1,
    "M2": datasets.make_m2,
    "M3": datasets.make_m3,
    "M4": datasets.make_m4,
    **{kind: make_other(kind) for kind in ("equicorrelated", "AR(0.9)", "genotypes", "heavy noise")},
}


def correlations(X, y):
    """Return absolute correlations over all rows; 0 for constant features."""
    X, y = X - X.mean(axis=0), y - y.mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(np.abs(y @ X / np.sqrt(np.square(X).sum(axis=0) * (y @ y))))


class Generated(BlockSource):
    """Normal features generated on demand. The first have the given correlations with y."""

    def __init__(self, n, p, strengths):
        self.shape, self.dtype, self.cells_at_once = (n, p), np.dtype(np.float64), 1024 * p
        self.strengths = np.zeros(p)
        self.strengths[: len(strengths)] = strengths
        self.y = np.random.default_rng(0).standard_normal(n)

    def read(self, rows, columns):
        rows = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        columns = slice(None) if columns is None else columns
        rho = self.strengths[columns]
        block = np.empty((len(rows), len(rho)))
        for k, row in enumerate(rows):
            values = np.random.Generator(np.random.SFC64(int(row))).standard_normal(self.shape[1])
            block[k] = values[columns] * np.sqrt(1 - rho * rho) + rho * self.y[row]
        return block

    def calibrate(self, rows):
        return Calibration(np.zeros(self.shape[1]), np.ones(self.shape[1]))

    def bytes_touched(self, n_rows, n_columns, *, scattered):
        return 8.0 * n_rows * n_columns
