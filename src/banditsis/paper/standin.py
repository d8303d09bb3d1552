"""A stand-in for MovieLens 25M, which cannot be shipped: scores and ratings of the same shape, made up."""

from __future__ import annotations

import numpy as np

from banditsis.arrays import Array
from banditsis.paper.movielens import MovieLens, Ratings

N_MOVIES, N_TAGS, N_USERS, N_RATINGS = 13_815, 1_128, 20_000, 2_000_000
N_FACTORS = 30
#: Share of the variance of a tag that is its own.
REST = 0.25
#: Scores come in steps of this, as GroupLens rounds them.
STEP = 0.00025


def make_standin(
    seed: int = 0,
    n_movies: int = N_MOVIES,
    n_tags: int = N_TAGS,
    n_users: int = N_USERS,
    n_ratings: int = N_RATINGS,
) -> MovieLens:
    """Make up tag scores and ratings that share the factors of the movies.

    A score is the logistic function of a skewed variable with a mean, a deviation and a skewness of the tag's
    own, drawn like those of real tags: nine in ten mean scores lie from 0.02 to 0.3, half of them below
    0.086. Tags are correlated through 30 factors of the movies of falling weight, and keep a quarter of their
    variance to themselves. A rating is a user's liking of the same factors, a quality of the movie and noise,
    in half stars from 0.5 to 5; popular movies have most of them.

    Parameters
    ----------
    seed : int
        The same seed gives the same stand-in.
    n_movies, n_tags, n_users, n_ratings : int
        How much of it.

    Examples
    --------
    >>> data = make_standin(n_movies=50, n_tags=20, n_users=30, n_ratings=500)
    >>> data.X.shape, data.tags[4], bool(data.X.min() >= 0 and data.X.max() <= 1)
    ((50, 20), 'tag 5', True)
    """
    rng = np.random.default_rng(seed)
    movies = rng.standard_normal((n_movies, N_FACTORS), dtype=np.float32)
    X = _scores(movies, n_tags, rng)
    ratings = _ratings(movies, n_users, n_ratings, rng)
    return MovieLens(X, [f"tag {t + 1}" for t in range(n_tags)], np.arange(n_movies), ratings, "stand-in")


def _scores(movies: Array, n_tags: int, rng: np.random.Generator) -> Array:
    k = movies.shape[1]
    # Heavy tails, since most tags belong to few factors; tags that suit the first go together.
    loadings = rng.standard_t(4, (k, n_tags)) / (np.arange(k)[:, None] + 1.0) ** 0.6
    loadings[0] = np.abs(loadings[0]) * 1.3
    loadings *= np.sqrt((1 - REST) / np.square(loadings).sum(axis=0))
    latent = movies @ loadings.astype(np.float32)
    latent += np.float32(REST**0.5) * rng.standard_normal(latent.shape, dtype=np.float32)
    skew = rng.uniform(0.25, 0.75, n_tags).astype(np.float32)
    np.exp(np.multiply(latent, skew, out=latent), out=latent)
    # A lognormal variable of mean 0 and deviation 1.
    latent -= np.exp(skew**2 / 2)
    latent /= np.sqrt((np.exp(skew**2) - 1) * np.exp(skew**2))
    latent *= rng.lognormal(np.log(0.84), 0.27, n_tags).astype(np.float32)
    latent += np.clip(rng.normal(-2.8, 1.1, n_tags), -5.9, 1.0).astype(np.float32)
    steps = np.round(1 / (STEP * (1 + np.exp(-latent))))
    return np.asarray(steps * np.float32(STEP), dtype=np.float32)


def _ratings(movies: Array, n_users: int, n_ratings: int, rng: np.random.Generator) -> Ratings:
    n_movies, k = movies.shape
    # Tastes differ in how strong they are, and turn on the factors that most tags turn on; nearly everyone
    # likes the first, which good movies have.
    weight = (np.arange(k) + 1.0) ** -1.0
    liking = weight * rng.standard_normal((n_users, k))
    liking[:, 0] += 1.2
    liking *= rng.gamma(4.0, 0.25, (n_users, 1)) / np.sqrt(1.44 + np.square(weight).sum())
    users = liking.astype(np.float32)
    quality: Array = np.float32(0.15) * rng.standard_normal((n_movies,), dtype=np.float32)
    popularity = 1.0 / (np.arange(n_movies) + 200.0)
    popularity = rng.permutation(popularity / popularity.sum())
    who = rng.integers(0, n_users, n_ratings)
    what = rng.choice(n_movies, n_ratings, p=popularity)
    stars = np.empty(n_ratings, np.float32)
    for i in range(0, n_ratings, 1 << 18):
        part = slice(i, i + (1 << 18))
        stars[part] = np.einsum("ij,ij->i", users[who[part]], movies[what[part]]) * 0.6
    stars += 3.5 + quality[what] + 0.7 * rng.standard_normal(n_ratings, dtype=np.float32)
    half_stars: Array = np.clip(np.round(2 * stars), 1, 10)
    return Ratings(who.astype(np.int32), what.astype(np.int32), half_stars / np.float32(2))
