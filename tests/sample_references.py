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


def sirs(x, y):
    z = (x - x.mean()) / x.std()
    return np.mean([np.mean(z * (y < value)) ** 2 for value in y])


def mean_variance(x, y):
    below = x[:, None] <= x
    return sum(
        np.mean(y == c) * np.mean((below[y == c].mean(axis=0) - below.mean(axis=0)) ** 2)
        for c in np.unique(y)
    )


def sliced_wasserstein(x, y, directions=8):
    z, v = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    n, squares = len(y), []
    sequence = [((1 + np.sqrt(5)) / 2 * (i - (n + 1) / 2) + 0.5) % 1 for i in range(1, n + 1)]
    other = np.array([np.sort(v)[sum(u < here for u in sequence)] for here in sequence])
    for a in np.pi * (np.arange(directions) + 0.5) / directions:
        c, s = np.cos(a), np.sin(a)
        product = c * np.sort(z) + s * (other if c > 0 else other[::-1])
        squares.append(np.mean((np.sort(c * z + s * v) - np.sort(product)) ** 2))
    return np.sqrt(np.mean(squares))


def sliced_wasserstein_of_all_pairs(x, y, directions=8):
    """The distance from the product of the marginal distributions itself: all n² pairs."""
    z, v = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    angles = np.pi * (np.arange(directions) + 0.5) / directions
    squares = [
        np.mean(
            (np.repeat(np.sort(c * z + s * v), len(y)) - np.sort(np.add.outer(c * z, s * v).ravel())) ** 2
        )
        for c, s in zip(np.cos(angles), np.sin(angles), strict=True)
    ]
    return np.sqrt(np.mean(squares))


REFERENCES = {
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "kendall": lambda x, y: stats.kendalltau(x, y).statistic,
    "chatterjee": chatterjee,
    "distance": distance_correlation,
    "sirs": sirs,
    "mv": mean_variance,
    "sliced_wasserstein": sliced_wasserstein,
}
#: By this power of the rows the scores of features without association fall.
NOISE = {name: 1.0 if name in ("sirs", "mv") else 0.5 for name in REFERENCES}


def scores(name, X, y):
    """Scores of all columns; 0 where one is constant."""
    return np.array([0.0 if np.ptp(x) == 0 else REFERENCES[name](x, y) for x in np.asarray(X, float).T])
