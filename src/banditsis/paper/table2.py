"""Table 2: movie ratings of MovieLens users, predicted from screened tags and products of tags."""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from banditsis.arrays import Array, Indices
from banditsis.formatting import replacing
from banditsis.paper import output
from banditsis.paper.movielens import (
    LIBMF_SETTINGS,
    MovieLens,
    factorise,
    make_standin,
    read_movielens,
    representative_users,
)
from banditsis.paper.published import N_USERS, TABLE2, Table2Line, method_name
from banditsis.paper.replications import DEFAULT_OUT, Row, Task, run_replications
from banditsis.paper.simulations import run_plan
from banditsis.plans.plan import Plan
from banditsis.sources.base import Source
from banditsis.sources.interactions.source import Interactions
from banditsis.sources.views import RowSubset
from banditsis.validation import check_integer

QUICK_USERS = 10
N_KEEP = 100
TRAINING_SHARE = 0.7
MIN_MOVIES = 13_000  # fewer movies are not all of ml-25m


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
) -> output.Reproduction:
    """Reproduce Table 2 of the paper, next to the published values [1]_.

    For each of 100 representative users: estimate the ratings of all movies with LIBMF, split the movies at
    random into 70% for training and 30% for testing, screen the 1,128 tags and their 635,628 products on the
    training set, fit a linear regression to the 100 selected features, and predict the test set.

    Parameters
    ----------
    movielens : path, optional
        Folder with the files of ml-25m. By default, synthetic data of the same shape (a stand-in) are used,
        and the report says so.
    users : int, optional
        How many of the 100 representative users to run, large clusters first; all by default.
    jobs : int, optional
        Number of threads; all cores by default. Users are run one at a time, so their times are comparable.
    seed : int
        Seed of the stand-in, the choice of users, the splits and the sampled rows.
    out : path
        Output folder for table2.csv (all users), table2.md and table2.ratings.npz (estimated ratings). An
        interrupted run is resumed from these files.
    quick : bool
        Run 10 users by default.
    data : MovieLens, optional
        Data in memory, instead of a folder.

    Returns
    -------
    Reproduction
        The summary has the lines of the table.

    References
    ----------
    .. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature
       screening, Table 2.
    """
    default = QUICK_USERS if quick else N_USERS
    n_users = check_integer("users", default if users is None else users, 1, N_USERS)
    check_integer("seed", seed, 0)
    if data is None:
        data = make_standin(seed) if movielens is None else read_movielens(movielens)
    settings = _settings(data, seed)
    source = Interactions(data.X, names=data.tags)
    warm_up(jobs)
    # Lazy: estimate ratings only if users are left to run and the settings match those of the folder.
    estimate = cache(partial(_load_or_estimate, data, seed, json.dumps(settings), Path(out)))
    rows = run_replications(
        "table2",
        lambda task: replicate(task, source, estimate(), seed, jobs, data.label),
        [(k,) for k in range(min(n_users, int(data.ratings.users.max()) + 1))],
        keys=("user",),
        settings=settings,
        out=out,
        jobs=1,
    )
    lines = summarise(rows)
    summary = {"lines": lines, "data": data.label}
    return output.write_outputs("table2", out, rows, summary, _report(rows, lines, source.shape, data.label))


def _settings(data: MovieLens, seed: int) -> dict[str, Any]:
    """Return everything that the rows depend on."""
    checksum = hashlib.blake2b(digest_size=8)
    for array in (data.X, *data.ratings):
        checksum.update(np.ascontiguousarray(array).data)
    return {
        "data": data.label,
        "movies": data.X.shape[0],
        "tags": data.X.shape[1],
        "ratings": len(data.ratings.stars),
        "checksum": checksum.hexdigest(),
        "libmf": LIBMF_SETTINGS,
        "seed": seed,
    }


def _load_or_estimate(data: MovieLens, seed: int, settings: str, out: Path) -> Users:
    """Load the estimated ratings of an earlier run with the same settings, or estimate and store them."""
    path = out / "table2.ratings.npz"
    try:
        with path.open("rb") as file, np.load(file) as stored:
            if str(stored["settings"]) == settings:
                return Users(stored["numbers"], stored["stars"])
    except (OSError, EOFError, KeyError, ValueError, zlib.error, BadZipFile):
        pass  # missing or damaged
    users = estimate_users(data, N_USERS, seed)
    with replacing(path) as part, part.open("wb") as output_file:
        np.savez(output_file, numbers=users.numbers, stars=users.stars, settings=settings)
    return users


def estimate_users(data: MovieLens, n_users: int, seed: int = 0) -> Users:
    """Choose representative users and estimate their ratings of all movies."""
    users, movies = factorise(data.ratings, len(data.X))
    numbers = representative_users(users, min(n_users, len(users)), seed)
    return Users(numbers, users[numbers] @ movies.T)


def warm_up(jobs: int | None) -> None:
    """Load compiled code, which would otherwise count as time of the first user."""
    rng = np.random.default_rng(0)
    source = Interactions(rng.random((2000, 60), dtype=np.float32))
    run_plan(source, rng.random(2000), Plan.paper(*source.shape, 10), 0, jobs)


def make_plans(n: int, p: int) -> dict[str, Plan]:
    """Return the plan of each line of the table."""
    d = min(N_KEEP, p)
    return {
        line.key: Plan.exact(n, p, d) if line.alpha is None else Plan.paper(n, p, d, alpha=line.alpha)
        for line in TABLE2
    }


def split(n: int, user: int, seed: int = 0) -> tuple[Indices, Indices]:
    """Return the movies of a user's training and test sets."""
    order = np.random.default_rng([seed, user]).permutation(n)
    size = int(TRAINING_SHARE * n)
    return np.sort(order[:size]), np.sort(order[size:])


def replicate(task: Task, source: Source, users: Users, seed: int, jobs: int | None, label: str) -> Row:
    """Screen and predict with each method for one user."""
    (k,) = task
    training, test = split(source.shape[0], k, seed)
    y = users.stars[k].astype(np.float64)
    row: Row = {"user": k, "data": label, "number": int(users.numbers[k])}
    for key, plan in make_plans(len(training), source.shape[1]).items():
        started = time.perf_counter()
        result = run_plan(RowSubset(source, training), y[training], plan, k, jobs)
        seconds = time.perf_counter() - started
        r2, mae = predict(source, y, np.sort(result.selected), training, test)
        row |= {f"{key}_r2": r2, f"{key}_mae": mae, f"{key}_seconds": seconds}
        row[f"{key}_cells"] = result.fraction_read
    return row


def predict(
    source: Source, y: Array, features: Indices, training: Indices, test: Indices
) -> tuple[float, float]:
    """Return R² and mean absolute error of a linear regression on the features, on the test set."""
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import mean_absolute_error, r2_score

    blocks = [source.read(rows, features).astype(np.float64) for rows in (training, test)]
    predicted = LinearRegression().fit(blocks[0], y[training]).predict(blocks[1])
    return float(r2_score(y[test], predicted)), float(mean_absolute_error(y[test], predicted))


def summarise(rows: Sequence[Row]) -> list[Table2Line]:
    """Return the lines of Table 2."""

    def mean_and_deviation(column: str) -> tuple[float, float]:
        values = [row[column] for row in rows]
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    return [
        Table2Line(
            line.alpha,
            mean_and_deviation(f"{line.key}_r2"),
            mean_and_deviation(f"{line.key}_mae"),
            sum(row[f"{line.key}_seconds"] for row in rows),
        )
        for line in TABLE2
    ]


def _report(rows: list[Row], lines: list[Table2Line], shape: tuple[int, int], label: str) -> list[str]:
    n_movies, n_features = shape
    body = []
    for ours, published in zip(lines, TABLE2, strict=True):
        cells = np.mean([row[f"{ours.key}_cells"] for row in rows])
        gain = np.mean([row[f"{ours.key}_r2"] - row["SIS_r2"] for row in rows])
        method = method_name(published.alpha)
        body.append([method, "**the paper**", *_format_line(published, N_USERS), "", ""])
        body.append(["", f"here ({label})", *_format_line(ours, len(rows)), f"{cells:.1%}", f"{gain:+.4f}"])
    head = ["method", "", "R²", "mean absolute error", "seconds", "a user", "cells read", "R² above SIS"]
    return [
        "# Table 2, on a stand-in" if label == "stand-in" else "# Table 2, reproduced",
        _describe_data(n_movies, label),
        f"{n_movies:,} movies, {n_features:,} features, d = {min(N_KEEP, n_features)}, 70% for training; "
        f"{len(rows)} users here and {N_USERS} in the paper. Means and (±) standard deviations over users, "
        "on the test set of 30% of the movies; seconds of screening for all users, and for one.",
        output.markdown_table(head, body),
    ]


def _describe_data(n_movies: int, label: str) -> str:
    if label == "stand-in":
        return (
            "**Synthetic data: a stand-in of the shape of MovieLens 25M** (docs/movielens.md). R² and errors "
            "can be compared between methods, but not with the paper's."
        )
    note = ", which are **not all of ml-25m**: with few movies, R² means little"
    return f"Data: the given MovieLens files{note if n_movies < MIN_MOVIES else ''}."


def _format_line(line: Table2Line, n_users: int) -> list[str]:
    return [
        f"{line.r2[0]:.4f} (± {line.r2[1]:.4f})",
        f"{line.mae[0]:.4f} (± {line.mae[1]:.4f})",
        f"{line.seconds:,.1f}",
        f"{line.seconds / n_users:.3f}",
    ]
