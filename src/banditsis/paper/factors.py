"""Estimate what users think of movies they have not rated, with LIBMF."""

from __future__ import annotations

import io
import warnings
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from banditsis.arrays import Array, Indices
from banditsis.paper.movielens import Ratings

#: Of LIBMF: factors, passes over the ratings, step and penalty of squared factors.
SETTINGS = {"k": 32, "nr_iters": 20, "eta": 0.1, "lambda_p2": 0.05, "lambda_q2": 0.05}


def factorise(ratings: Ratings, n_movies: int) -> tuple[Array, Array]:
    r"""Factors of users and movies by LIBMF [1]_, which finds

    .. math:: \min_{P, Q} \sum_{(u, v)} \left( (r_{uv} - p_u^\top q_v)^2
              + \lambda \lVert p_u \rVert^2 + \lambda \lVert q_v \rVert^2 \right)

    over the ratings. It runs in one thread, since several give other factors each time.

    Parameters
    ----------
    ratings : Ratings
        Of any number of movies.
    n_movies : int
        How many movies' factors to return: the first ones.

    Returns
    -------
    users, movies : ndarray
        A line of factors for each.

    References
    ----------
    .. [1] Chin, W.-S., Yuan, B.-W., Yang, M.-Y., Zhuang, Y., Juan, Y.-C. and Lin, C.-J. (2016). LIBMF: a
       library for parallel matrix factorization in shared-memory systems. J. Mach. Learn. Res. 17 (86).
    """
    cells = np.empty((len(ratings.stars), 3), np.float32)  # numbers up to 16 million are exact
    for column, values in enumerate(ratings):
        cells[:, column] = values
    said = io.StringIO()
    with redirect_stdout(said):  # the package prints where it was found
        options = dict.fromkeys(("lambda_p1", "lambda_q1"), 0.0)
        model = _libmf().MF(**SETTINGS, **options, nr_threads=1, quiet=True, copy_data=False)
        model.fit(cells)
    users, movies = model.p_factors(), model.q_factors()[:n_movies]
    return np.nan_to_num(users), np.nan_to_num(movies)  # NaN: never rated


def _libmf() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of its source, where it is compiled on import
            from libmf import mf
    except ImportError:
        raise ImportError(
            "Table 2 estimates ratings with LIBMF: pip install 'banditsis[movielens]' (it is compiled, which "
            "needs a C++ compiler)."
        ) from None
    return mf


def representative_users(factors: Array, n_users: int, seed: int = 0) -> Indices:
    """The users closest to the centres of as many clusters of users, those of large clusters first.

    Parameters
    ----------
    factors : ndarray of shape (users, k)
        Factors of the users, which are clustered by k-means.
    n_users : int
        How many to choose.
    seed : int
        For k-means.

    Examples
    --------
    >>> factors = np.array([[0.0], [0.1], [0.2], [5.0], [5.1]])
    >>> representative_users(factors, 2)
    array([1, 3])
    """
    from sklearn.cluster import KMeans

    means = KMeans(n_users, max_iter=20, n_init=1, random_state=seed).fit(factors)
    chosen: list[int] = []
    for cluster in np.argsort(-np.bincount(means.labels_, minlength=n_users), kind="stable"):
        distance = np.square(factors - means.cluster_centers_[cluster]).sum(axis=1)
        distance[chosen] = np.inf
        chosen.append(int(np.argmin(distance)))
    return np.array(chosen, dtype=np.intp)
