"""Sample statistics written down plainly, over all pairs of rows, for one feature x and a response y."""

from itertools import pairwise

import numpy as np
from scipy import stats


def chatterjee(x, y):
    """The mean of ξ over all orders of the rows that sort x."""
    n = len(y)
    r, from_on = stats.rankdata(y, method="max"), stats.rankdata(-y, method="max")
    runs = [r[x == value] for value in np.unique(x)]
    total = sum(np.abs(np.subtract.outer(run, run)).sum() / len(run) for run in runs)
    total += sum(np.abs(np.subtract.outer(a, b)).mean() for a, b in pairwise(runs))
    return 1 - n * total / (2 * (from_on * (n - from_on)).sum())


def distance_correlation(x, y):
    """By the definition: double-centred matrices of distances."""

    def centred(v):
        distance = np.abs(np.subtract.outer(v, v))
        return distance - distance.mean(axis=0) - distance.mean(axis=1)[:, None] + distance.mean()

    a, b = centred(x), centred(y)
    variances = (a * a).mean() * (b * b).mean()
    return np.sqrt((a * b).mean() / np.sqrt(variances)) if variances > 0 else 0.0


REFERENCES = {
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "kendall": lambda x, y: stats.kendalltau(x, y).statistic,
    "chatterjee": chatterjee,
    "distance": distance_correlation,
}


def scores(name, X, y):
    """Scores of all columns; 0 where one is constant."""
    return np.array([0.0 if np.ptp(x) == 0 else REFERENCES[name](x, y) for x in np.asarray(X, float).T])
