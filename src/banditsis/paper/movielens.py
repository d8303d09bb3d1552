"""GroupLens' files of MovieLens 25M: the tag genome and the ratings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array, Indices

#: Columns of each file that are needed, and what they hold.
COLUMNS: dict[str, dict[str, str]] = {
    "movies": {"movieId": "int64"},
    "genome-tags": {"tagId": "int64", "tag": "str"},
    "genome-scores": {"movieId": "int32", "tagId": "int32", "relevance": "float32"},
    "ratings": {"userId": "int32", "movieId": "int32", "rating": "float32"},
}


class Ratings(NamedTuple):
    """Who rated what, and how: three arrays of the same length; movies by their row."""

    users: Array
    movies: Array
    stars: Array


class MovieLens(NamedTuple):
    """Tag scores of movies, and ratings of the same movies and perhaps of others.

    Attributes
    ----------
    X : ndarray of shape (movies, tags), float32
        Relevance scores in [0, 1].
    tags : sequence of str
        Names of the tags.
    movie_ids : ndarray
        Ids of the movies.
    ratings : Ratings
        All ratings, with movies numbered by their row in X and those without tags after them.
    label : str
        Where all this comes from: "MovieLens" or "stand-in".
    """

    X: Array
    tags: Sequence[str]
    movie_ids: Indices
    ratings: Ratings
    label: str


def read_movielens(folder: str | Path) -> MovieLens:
    """Read the tag genome and the ratings from a folder with the files of ml-25m.

    The movies are those that have tag scores, are listed in ``movies.csv`` and were rated.
    Ratings of other movies are kept: they tell of the users.

    Parameters
    ----------
    folder : path
        With ``genome-scores.csv``, ``genome-tags.csv``, ``ratings.csv`` and ``movies.csv``, each perhaps
        compressed (``.csv.gz``).

    Raises
    ------
    ValueError
        If a file is missing or is not what its name says, with what to do.
    """
    directory = Path(folder)
    if not directory.is_dir():
        raise ValueError(
            f"{directory} is no folder: unpack GroupLens' ml-25m.zip, and name the folder that holds "
            "genome-scores.csv and ratings.csv."
        )
    paths = {name: _find(directory, name) for name in COLUMNS}
    tags, listed = _read(paths["genome-tags"]), _read(paths["movies"])["movieId"].to_numpy()
    _check_tags(tags["tagId"].to_numpy(), paths["genome-tags"])
    ratings = _read(paths["ratings"])
    scores = _read(paths["genome-scores"])
    _check_values(scores["relevance"].to_numpy(), 0.0, 1.0, "relevance", paths["genome-scores"])
    _check_values(ratings["rating"].to_numpy(), 0.5, 5.0, "rating", paths["ratings"])
    movie_ids, X = _matrix(scores, tags["tagId"].to_numpy(), paths["genome-scores"])
    usable = np.isin(movie_ids, listed) & np.isin(movie_ids, ratings["movieId"].to_numpy())
    if usable.sum() < 10:
        raise ValueError(
            f"{directory} has {usable.sum()} movies with tags and ratings of the {len(movie_ids):,} in "
            f"{paths['genome-scores'].name}: are the files of one release?"
        )
    movie_ids = movie_ids[usable]
    numbered = Ratings(
        np.unique(ratings["userId"].to_numpy(), return_inverse=True)[1].astype(np.int32),
        _number(ratings["movieId"].to_numpy(), movie_ids),
        ratings["rating"].to_numpy(),
    )
    return MovieLens(X[usable], [str(tag) for tag in tags["tag"]], movie_ids, numbered, "MovieLens")


def _find(folder: Path, name: str) -> Path:
    for ending in (".csv", ".csv.gz"):
        if (folder / f"{name}{ending}").is_file():
            return folder / f"{name}{ending}"
    there = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
    raise ValueError(
        f"{folder} has no {name}.csv (nor {name}.csv.gz); it has {there}. All of "
        f"{', '.join(f'{n}.csv' for n in COLUMNS)} are needed: they are in GroupLens' ml-25m.zip "
        "(smaller releases have no tag genome)."
    )


def _read(path: Path) -> Any:
    """The columns that are needed of a file, as a frame."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError("reading MovieLens needs pandas: pip install 'banditsis[movielens]'") from None
    columns = COLUMNS[path.name.split(".")[0]]
    try:
        head = pd.read_csv(path, nrows=0).columns
        missing = [name for name in columns if name not in head]
        if not missing:
            return pd.read_csv(path, usecols=list(columns), dtype=columns, keep_default_na=False)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(
            f"{path} cannot be read as GroupLens writes it ({error}): unpack it again."
        ) from None
    raise ValueError(
        f"{path} has no column {missing[0]!r}; it has {', '.join(map(repr, head))}. GroupLens' file begins "
        "with a line of names; the files of ml-25m are needed."
    )


def _check_values(values: Array, low: float, high: float, what: str, path: Path) -> None:
    odd = ~((values >= low) & (values <= high))
    if odd.any():
        row = int(np.argmax(odd))
        raise ValueError(
            f"{path} has a {what} of {values[row]:g} in line {row + 2:,}, and it should lie in "
            f"[{low:g}, {high:g}]."
        )


def _check_tags(ids: Indices, path: Path) -> None:
    if len(ids) == 0:
        raise ValueError(f"{path} lists no tags, only their heading: unpack it again.")
    numbers, counts = np.unique(ids, return_counts=True)
    if counts.max() > 1:
        twice = int(np.argmax(counts > 1))
        raise ValueError(
            f"{path} lists tag {numbers[twice]} {counts[twice]} times, and GroupLens' file lists each once: "
            "unpack it again."
        )


def _matrix(scores: Any, tag_ids: Indices, path: Path) -> tuple[Indices, Array]:
    """Scores as movies × tags."""
    order = np.argsort(tag_ids)
    place = np.minimum(np.searchsorted(tag_ids[order], scores["tagId"].to_numpy()), len(tag_ids) - 1)
    unknown = tag_ids[order][place] != scores["tagId"].to_numpy()
    if unknown.any():
        tag = int(scores["tagId"].to_numpy()[np.argmax(unknown)])
        raise ValueError(
            f"{path} scores tag {tag}, which genome-tags.csv does not list: take both from one release."
        )
    movie_ids, row = np.unique(scores["movieId"].to_numpy(), return_inverse=True)
    X = np.full((len(movie_ids), len(tag_ids)), np.nan, np.float32)
    X[row, order[place]] = scores["relevance"].to_numpy()
    lacking = np.isnan(X).any(axis=1)
    if lacking.any():  # GroupLens scores every tag of a movie, or none
        movie = int(np.argmax(lacking))
        raise ValueError(
            f"{path} has {np.isfinite(X[movie]).sum():,} of {len(tag_ids):,} scores of movie "
            f"{movie_ids[movie]}, and {lacking.sum():,} of {len(movie_ids):,} movies lack some: the file was "
            "cut short; unpack it again."
        )
    return movie_ids.astype(np.intp), X


def _number(ids: Array, first: Indices) -> Array:
    """Numbers of movies: those in ``first`` in their order, then the others."""
    known, inverse = np.unique(ids, return_inverse=True)
    place = np.minimum(np.searchsorted(first, known), len(first) - 1)
    is_first = first[place] == known
    number = np.where(is_first, place, len(first) + np.cumsum(~is_first) - 1)
    return number[inverse].astype(np.int32)
