"""Table 2: users' ratings of movies, predicted by tags and products of tags that were screened."""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, cast
from zipfile import BadZipFile

import numpy as np

from banditsis.arrays import Array, Indices
from banditsis.formatting import replacing, write_text
from banditsis.paper.comparison import markdown_table
from banditsis.paper.factors import SETTINGS, factorise, representative_users
from banditsis.paper.movielens import MovieLens, read_movielens
from banditsis.paper.published import N_USERS, TABLE2, UsersLine
from banditsis.paper.replications import DEFAULT_OUT, Reproduction, Row, Task, run_replications
from banditsis.paper.standin import make_standin
from banditsis.plans.plan import Plan
from banditsis.results import ScreeningResult
from banditsis.screening import screen
from banditsis.sources.base import Source
from banditsis.sources.interactions.source import Interactions
from banditsis.sources.views import RowSubset
from banditsis.validation import check_integer

QUICK_USERS = 10
N_KEEP = 100
TRAINING_SHARE = 0.7
WHOLE = 13_000  # movies that any whole ml-25m has


class Users(NamedTuple):
    """Representative users and their estimated ratings of all movies (users × movies)."""

    numbers: Indices
    stars: Array


def reproduce_table2(
    movielens: str | Path | None = None,
    users: int | None = None,
    jobs: int | None = None,
    seed: int = 0,
    out: str | Path = DEFAULT_OUT,
    quick: bool = False,
    data: MovieLens | None = None,
) -> Reproduction:
    """Make Table 2 of the paper again, beside the published values [1]_.

    For each of 100 representative users: estimate the ratings of all movies with LIBMF, put 70% of the movies
    at random into the training set, screen the 1,128 tags and their 635,628 products there, fit a linear
    regression on the 100 features kept, and predict the other 30%.

    Parameters
    ----------
    movielens : path, optional
        Folder with the files of ml-25m. Without it, a stand-in of the same shape is made up, and the
        report says so.
    users : int, optional
        How many of the 100 representative users to run, those of large clusters first; all by default.
    jobs : int, optional
        Number of threads, all cores by default. Users are run one at a time, so that times mean something.
    seed : int
        For the stand-in, the choice of users, the splits and the rows that are read.
    out : path
        Folder for table2.csv (every user), table2.md and table2.ratings.npz (LIBMF's estimates). A stopped
        run goes on from what is there.
    quick : bool
        Run 10 users unless told otherwise.
    data : MovieLens, optional
        Data that are already in memory, instead of a folder.

    Returns
    -------
    Reproduction
        Its summary has the lines of the table.

    References
    ----------
    .. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature
       screening, Table 2.
    """
    n_users = check_integer("users", QUICK_USERS if quick and users is None else users or N_USERS, 1, N_USERS)
    check_integer("seed", seed, 0)
    if data is None:
        data = make_standin(seed) if movielens is None else read_movielens(movielens)
    settings = _settings(data, seed)
    source = Interactions(data.X, names=data.tags)
    warm_up(jobs)
    # On first use: not before it is clear that the folder holds no other run, nor if nothing is left to do.
    estimate = cache(partial(_estimate, data, seed, json.dumps(settings), Path(out)))
    rows = run_replications(
        "table2",
        lambda task: replicate(task, source, estimate(), seed, jobs, data.label),
        [(k,) for k in range(min(n_users, int(data.ratings.users.max()) + 1))],
        keys=("user",),
        settings=settings,
        out=out,
        jobs=1,
    )
    return report(rows, source.shape, data.label, Path(out))


def _settings(data: MovieLens, seed: int) -> dict[str, Any]:
    """What the rows depend on, in a form that can be compared with that of an earlier run."""
    return {
        "data": data.label,
        "movies": data.X.shape[0],
        "tags": data.X.shape[1],
        "ratings": len(data.ratings.stars),
        "checksum": _checksum(data.X, *data.ratings),
        "libmf": SETTINGS,
        "seed": seed,
    }


def _checksum(*arrays: Array) -> str:
    """Tells data of the same size apart."""
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _estimate(data: MovieLens, seed: int, settings: str, out: Path) -> Users:
    """Representative users and their ratings, from the folder if they are there already."""
    path = out / "table2.ratings.npz"
    stored = _read_estimates(path, settings)
    if stored is not None:
        return stored
    users, movies = factorise(data.ratings, len(data.X))
    numbers = representative_users(users, min(N_USERS, len(users)), seed)
    chosen = Users(numbers, users[numbers] @ movies.T)
    with replacing(path) as part, part.open("wb") as file:
        np.savez(file, numbers=chosen.numbers, stars=chosen.stars, settings=settings)
    return chosen


def _read_estimates(path: Path, settings: str) -> Users | None:
    """What an earlier run has left; None if it left nothing, or nothing that can be read or used."""
    try:
        with path.open("rb") as file, np.load(file) as stored:
            if str(stored["settings"]) == settings:
                return Users(stored["numbers"], stored["stars"])
    except (OSError, EOFError, KeyError, ValueError, zlib.error, BadZipFile):
        pass
    return None


def warm_up(jobs: int | None) -> None:
    """Load what is compiled, so that the first user's time is like the others'."""
    rng = np.random.default_rng(0)
    source = Interactions(rng.random((2000, 60), dtype=np.float32))
    screen(source, rng.random(2000), Plan.paper(*source.shape, 10), random_state=0, n_jobs=jobs)


def plans(n: int, p: int) -> dict[str, Plan]:
    """A plan for each line of the table."""
    d = min(N_KEEP, p)
    return {
        line.key: Plan.exact(n, p, d) if line.alpha is None else Plan.paper(n, p, d, alpha=line.alpha)
        for line in TABLE2
    }


def replicate(task: Task, source: Source, users: Users, seed: int, jobs: int | None, label: str) -> Row:
    """One user: a split, and a model from what each method keeps."""
    (k,) = task
    order = np.random.default_rng([seed, k]).permutation(source.shape[0])
    size = int(TRAINING_SHARE * len(order))
    training, test = np.sort(order[:size]), np.sort(order[size:])
    y = users.stars[k].astype(np.float64)
    row: Row = {"user": k, "data": label, "number": int(users.numbers[k])}
    for key, plan in plans(size, source.shape[1]).items():
        started = time.perf_counter()
        result = cast(
            ScreeningResult,
            screen(
                RowSubset(source, training), y[training], plan, random_state=k, n_jobs=jobs, progress=False
            ),
        )
        seconds = time.perf_counter() - started
        r2, mae = predict(source, y, np.sort(result.selected), training, test)
        row |= {f"{key}_r2": r2, f"{key}_mae": mae, f"{key}_seconds": seconds}
        row[f"{key}_cells"] = result.fraction_read
    return row


def predict(
    source: Source, y: Array, features: Indices, training: Indices, test: Indices
) -> tuple[float, float]:
    """R² and mean absolute error of a linear regression on some features, on rows that it has not seen."""
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import mean_absolute_error, r2_score

    blocks = [source.read(rows, features).astype(np.float64) for rows in (training, test)]
    predicted = LinearRegression().fit(blocks[0], y[training]).predict(blocks[1])
    return float(r2_score(y[test], predicted)), float(mean_absolute_error(y[test], predicted))


def summarise(rows: Sequence[Row]) -> list[UsersLine]:
    """The lines of Table 2."""

    def spread(key: str, what: str) -> tuple[float, float]:
        values = [row[f"{key}_{what}"] for row in rows]
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    return [
        UsersLine(
            line.alpha,
            spread(line.key, "r2"),
            spread(line.key, "mae"),
            sum(row[f"{line.key}_seconds"] for row in rows),
        )
        for line in TABLE2
    ]


def report(rows: list[Row], shape: tuple[int, int], label: str, out: Path) -> Reproduction:
    """Write the table beside the published one."""
    lines, standin = summarise(rows), label == "stand-in"
    body = []
    for ours, published in zip(lines, TABLE2, strict=True):
        body.append([published.method, "**the paper**", *_cells(published, N_USERS), "", ""])
        cells = float(np.mean([row[f"{ours.key}_cells"] for row in rows]))
        gap = [row[f"{ours.key}_r2"] - row["SIS_r2"] for row in rows]
        body.append(["", f"here ({label})", *_cells(ours, len(rows)), f"{cells:.1%}", f"{np.mean(gap):+.4f}"])
    head = ["method", "", "R²", "mean absolute error", "seconds", "a user", "cells read", "R² above SIS"]
    text = "\n".join(
        [
            "# Table 2, on a stand-in" if standin else "# Table 2, reproduced",
            "",
            _origin(shape[0], standin),
            "",
            f"{shape[0]:,} movies, {shape[1]:,} features, d = {min(N_KEEP, shape[1])}, 70% for training; "
            f"{len(rows)} users here and {N_USERS} in the paper. Means and (±) standard deviations over "
            "users, on the 30% of the movies that were left out; seconds of screening for all users, and "
            "for one.",
            "",
            markdown_table(head, body),
            "",
        ]
    )
    files = (out / "table2.csv", write_text(out / "table2.md", text))
    return Reproduction(rows, {"lines": lines, "data": label}, text, files)


def _origin(n_movies: int, standin: bool) -> str:
    if standin:
        return (
            "**Made-up data: a stand-in of the shape of MovieLens 25M** (docs/movielens.md). R² and errors "
            "can be compared between methods, but not with the paper's."
        )
    part = "" if n_movies >= WHOLE else ", which are **not all of ml-25m**: with few movies, R² means little"
    return f"Data: the MovieLens files that were given{part}."


def _cells(line: UsersLine, n_users: int) -> list[str]:
    return [
        f"{line.r2[0]:.4f} (± {line.r2[1]:.4f})",
        f"{line.mae[0]:.4f} (± {line.mae[1]:.4f})",
        f"{line.seconds:,.1f}",
        f"{line.seconds / n_users:.3f}",
    ]
