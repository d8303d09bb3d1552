"""Data for Table 2: MovieLens 25M or a synthetic stand-in, and users' ratings estimated with LIBMF."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

from banditsis.core.arrays import Array, Indices

#: The columns needed from each file, and their types.
COLUMNS: dict[str, dict[str, str]] = {
    "movies": {"movieId": "int64"},
    "genome-tags": {"tagId": "int64", "tag": "str"},
    "genome-scores": {"movieId": "int32", "tagId": "int32", "relevance": "float32"},
    "ratings": {"userId": "int32", "movieId": "int32", "rating": "float32"},
}
#: Parameters of LIBMF: factors, iterations, learning rate and L2 penalties.
LIBMF_SETTINGS = {"k": 32, "nr_iters": 20, "eta": 0.1, "lambda_p2": 0.05, "lambda_q2": 0.05}
N_MOVIES, N_TAGS, N_USERS, N_RATINGS = 13_815, 1_128, 20_000, 2_000_000
N_FACTORS = 30
#: Share of a tag's variance that the factors of the movies do not explain.
UNIQUE_VARIANCE = 0.25
#: Relevance scores are rounded to multiples of this, as in the tag genome.
SCORE_STEP = 0.00025


class Ratings(NamedTuple):
    """Ratings as three arrays of equal length."""

    users: Array
    movies: Array
    stars: Array


class MovieLens(NamedTuple):
    """Tag scores of movies, with the names of the tags, and ratings."""

    #: Relevance scores in [0, 1], movies × tags, float32.
    X: Array
    tags: Sequence[str]
    #: All ratings. Movies are numbered by their row in X; movies without tags follow.
    ratings: Ratings
    #: Origin of the data: "MovieLens" or "stand-in".
    label: str


def read_movielens(folder: str | Path) -> MovieLens:
    """Read the tag genome and the ratings of MovieLens 25M, from plain or compressed files (``.csv.gz``).

    X has the movies that have tag scores, are listed in ``movies.csv`` and were rated. Ratings of other
    movies are kept, because they inform the factors of the users.
    """
    directory = Path(folder)
    if not directory.is_dir():
        raise ValueError(
            f"{directory} is not a folder: unpack GroupLens' ml-25m.zip, and give the folder that contains "
            "genome-scores.csv and ratings.csv."
        )
    movies, tags, scores, ratings = (_read(directory, name) for name in COLUMNS)
    movie_ids, row = np.unique(scores["movieId"], return_inverse=True)
    column = pd.Index(tags["tagId"]).get_indexer(scores["tagId"])
    X = np.full((len(movie_ids), len(tags) + 1), np.nan, np.float32)
    X[row, column] = scores["relevance"]  # the last column is for tags that are not listed
    bad = np.isnan(X[:, :-1]).any(axis=1) | ~np.isnan(X[:, -1])
    if bad.any():
        raise ValueError(
            f"{directory} does not have one score of every tag for {np.count_nonzero(bad):,} of {len(bad):,} "
            f"movies, such as movie {movie_ids[bad][0]}: genome-scores.csv is truncated, or genome-tags.csv "
            "from another release; unpack both again."
        )
    X = X[:, :-1]
    usable = np.isin(movie_ids, movies["movieId"]) & np.isin(movie_ids, ratings["movieId"])
    if usable.sum() < 10:
        raise ValueError(
            f"{directory} has {usable.sum()} movies with tags and ratings, out of {len(movie_ids):,} in "
            "genome-scores.csv: take all files from one release."
        )
    # Movies are numbered by their row in X; the others follow by id.
    order = np.concatenate([movie_ids[usable], np.setdiff1d(ratings["movieId"], movie_ids[usable])])
    numbered = Ratings(
        np.unique(ratings["userId"], return_inverse=True)[1].astype(np.int32),
        np.asarray(pd.Index(order).get_indexer(ratings["movieId"]), dtype=np.int32),
        ratings["rating"].to_numpy(),
    )
    return MovieLens(X[usable], [str(tag) for tag in tags["tag"]], numbered, "MovieLens")


def hash_data(data: MovieLens) -> str:
    """A checksum of the data and of the settings of LIBMF."""
    return str(joblib.hash([data.X, *data.ratings, LIBMF_SETTINGS]))


def _read(folder: Path, name: str) -> pd.DataFrame:
    """The columns needed from a file, which may be compressed."""
    columns = COLUMNS[name]
    paths = [path for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz") if path.is_file()]
    if not paths:
        contents = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "no files"
        raise ValueError(
            f"{folder} has no {name}.csv or {name}.csv.gz; it has {contents}. All of "
            f"{', '.join(f'{n}.csv' for n in COLUMNS)} are needed, from GroupLens' ml-25m.zip (smaller "
            "releases have no tag genome)."
        )
    try:
        return pd.read_csv(paths[0], usecols=list(columns), dtype=columns, keep_default_na=False)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(
            f"{paths[0]} is not a file of ml-25m with the columns {', '.join(columns)} ({error}): unpack it "
            "again."
        ) from None


def factorise(ratings: Ratings, n_movies: int) -> tuple[Array, Array]:
    r"""Estimate factors of users and movies with LIBMF [1]_, which minimises

    .. math:: \sum_{(u, v)} \left( (r_{uv} - p_u^\top q_v)^2
              + \lambda \lVert p_u \rVert^2 + \lambda \lVert q_v \rVert^2 \right)

    over the factors P and Q. It runs in one thread because several threads are not reproducible.

    Returns a row of factors for each user and for each of the first ``n_movies`` movies, 0 without ratings.

    .. [1] Chin, W.-S. et al. (2016). LIBMF: a library for parallel matrix factorization in shared-memory
       systems. J. Mach. Learn. Res. 17 (86).
    """
    cells = np.stack(ratings, axis=1, dtype=np.float32)  # exact for numbers up to 16 million
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():  # the package prints its location
        warnings.simplefilter("ignore", SyntaxWarning)  # from its source, compiled on import
        try:
            from libmf import mf
        except ImportError:
            raise ImportError(
                "Table 2 needs LIBMF and a C++ compiler: pip install --group movielens"
            ) from None
        penalties = {"lambda_p1": 0.0, "lambda_q1": 0.0}
        model = mf.MF(**LIBMF_SETTINGS, **penalties, nr_threads=1, quiet=True, copy_data=False)
        model.fit(cells)
    return np.nan_to_num(model.p_factors()), np.nan_to_num(model.q_factors()[:n_movies])


def representative_users(factors: Array, n_users: int, seed: int = 0) -> Indices:
    """Return the users closest to the centres of ``n_users`` k-means clusters, largest cluster first.

    >>> representative_users(np.array([[0.0], [0.1], [0.2], [5.0], [5.1]]), 2)
    array([1, 3])
    """
    means = KMeans(n_users, max_iter=20, n_init=1, random_state=seed).fit(factors)
    chosen: list[int] = []
    for cluster in np.argsort(-np.bincount(means.labels_, minlength=n_users), kind="stable"):
        distance = np.square(factors - means.cluster_centers_[cluster]).sum(axis=1)
        distance[chosen] = np.inf
        chosen.append(int(np.argmin(distance)))
    return np.array(chosen, dtype=np.intp)


def make_standin(
    seed: int = 0,
    n_movies: int = N_MOVIES,
    n_tags: int = N_TAGS,
    n_users: int = N_USERS,
    n_ratings: int = N_RATINGS,
) -> MovieLens:
    """Make synthetic tag scores and ratings in place of MovieLens 25M, which may not be redistributed.

    A score is the logistic function of a lognormal variable, with a mean, deviation and skewness for each
    tag that resemble those of real tags: 90% of the mean scores lie in [0.02, 0.3], with median 0.086. Tags
    are correlated through 30 factors of the movies with decreasing weights, which explain 75% of a tag's
    variance. A rating is the sum of the user's preference for the same factors, the quality of the movie and
    noise, rounded to half stars from 0.5 to 5. Popular movies have most of the ratings.
    """
    rng = np.random.default_rng(seed)
    movies = rng.standard_normal((n_movies, N_FACTORS), dtype=np.float32)
    X = _make_scores(movies, n_tags, rng)
    ratings = _make_ratings(movies, n_users, n_ratings, rng)
    return MovieLens(X, [f"tag {t + 1}" for t in range(n_tags)], ratings, "stand-in")


def _make_scores(movies: Array, n_tags: int, rng: np.random.Generator) -> Array:
    k = movies.shape[1]
    # Heavy-tailed loadings: most tags load on few factors. All loadings on the first factor are positive.
    loadings = rng.standard_t(4, (k, n_tags)) / (np.arange(k)[:, None] + 1.0) ** 0.6
    loadings[0] = np.abs(loadings[0]) * 1.3
    loadings *= np.sqrt((1 - UNIQUE_VARIANCE) / np.square(loadings).sum(axis=0))
    latent = movies @ loadings.astype(np.float32)
    latent += np.float32(UNIQUE_VARIANCE**0.5) * rng.standard_normal(latent.shape, dtype=np.float32)
    skew = rng.uniform(0.25, 0.75, n_tags).astype(np.float32)
    np.exp(np.multiply(latent, skew, out=latent), out=latent)
    # Standardise the lognormal variable, then give it the deviation and mean of its tag.
    latent -= np.exp(skew**2 / 2)
    latent /= np.sqrt((np.exp(skew**2) - 1) * np.exp(skew**2))
    latent *= rng.lognormal(np.log(0.84), 0.27, n_tags).astype(np.float32)
    latent += np.clip(rng.normal(-2.8, 1.1, n_tags), -5.9, 1.0).astype(np.float32)
    steps = np.round(1 / (SCORE_STEP * (1 + np.exp(-latent))))
    return np.asarray(steps * np.float32(SCORE_STEP), dtype=np.float32)


def _make_ratings(movies: Array, n_users: int, n_ratings: int, rng: np.random.Generator) -> Ratings:
    n_movies, k = movies.shape
    # Preferences differ in strength. They weight the same first factors as the tags do, and nearly all users
    # like the first factor.
    weight = (np.arange(k) + 1.0) ** -1.0
    preferences = weight * rng.standard_normal((n_users, k))
    preferences[:, 0] += 1.2
    preferences *= rng.gamma(4.0, 0.25, (n_users, 1)) / np.sqrt(1.44 + np.square(weight).sum())
    preferences = preferences.astype(np.float32)
    quality: Array = np.float32(0.15) * rng.standard_normal((n_movies,), dtype=np.float32)
    popularity = 1.0 / (np.arange(n_movies) + 200.0)
    popularity = rng.permutation(popularity / popularity.sum())
    user = rng.integers(0, n_users, n_ratings)
    movie = rng.choice(n_movies, n_ratings, p=popularity)
    stars = np.empty(n_ratings, np.float32)
    for i in range(0, n_ratings, 1 << 18):
        part = slice(i, i + (1 << 18))
        stars[part] = np.einsum("ij,ij->i", preferences[user[part]], movies[movie[part]]) * 0.6
    stars += 3.5 + quality[movie] + 0.7 * rng.standard_normal(n_ratings, dtype=np.float32)
    half_stars: Array = np.clip(np.round(2 * stars), 1, 10)
    return Ratings(user.astype(np.int32), movie.astype(np.int32), half_stars / np.float32(2))
