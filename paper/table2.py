"""Table 2: movie ratings of MovieLens users, predicted from screened tags and products of tags.

For each of 100 representative users, large clusters first: estimate the ratings of all movies with LIBMF,
split the movies at random into 70% for training and 30% for testing, screen the 1,128 tags and their 635,628
products on the training set, fit a linear regression to the 100 selected features, and predict the test set.
Users are run one at a time, so their times are comparable.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, r2_score

from banditsis.core.arrays import Array, Indices
from banditsis.plans import Plan
from banditsis.sources.base import Source
from banditsis.sources.interactions import Interactions
from banditsis.sources.views import Subset
from paper import output
from paper.movielens import (
    MovieLens,
    factorise,
    hash_data,
    make_standin,
    read_movielens,
    representative_users,
)
from paper.published import N_USERS, TABLE2, Table2Line, method_name
from paper.replications import Options, Row, Task, remember, run_replications
from paper.simulations import run_plan

N_KEEP = 100
TRAINING_SHARE = 0.7
MIN_MOVIES = 13_000  # fewer movies are not all of ml-25m


class Users(NamedTuple):
    """Representative users and their estimated ratings of all movies (users × movies)."""

    numbers: Indices
    stars: Array


def reproduce(options: Options, data: MovieLens | None = None) -> output.Reproduction:
    """Reproduce Table 2 with the files of ml-25m, with data in memory, or with a synthetic stand-in."""
    n_users = options.count(N_USERS, quick=10, most=N_USERS)
    if data is None:
        given = options.movielens
        data = make_standin(options.seed) if given is None else read_movielens(given)
    source = Interactions(data.X, names=data.tags)
    warm_up(options.jobs)
    checksum = hash_data(data)
    users = remember(estimate_users, options.out, ignore=["data"])(data, checksum, N_USERS, options.seed)
    rows = run_replications(
        "table2",
        replicate,
        [(k,) for k in range(min(n_users, len(users.numbers)))],
        source=source,
        users=users,
        checksum=checksum,
        seed=options.seed,
        threads=options.jobs,
        label=data.label,
        out=options.out,
        jobs=1,
        ignore=["source", "users", "threads"],
    )
    lines = summarise(rows)
    summary = {"lines": lines, "data": data.label}
    report = _report(rows, lines, source.shape, data.label)
    return output.write_outputs("table2", options.out, rows, summary, report)


def estimate_users(data: MovieLens, checksum: str, n_users: int, seed: int = 0) -> Users:
    """Choose representative users and estimate their ratings of all movies; ``checksum`` is of the data."""
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


def replicate(
    task: Task, source: Source, users: Users, checksum: str, seed: int, threads: int | None, label: str
) -> Row:
    """Screen and predict with each method for one user."""
    (k,) = task
    training, test = split(source.shape[0], k, seed)
    y = users.stars[k].astype(np.float64)
    row: Row = {"user": k, "data": label, "number": int(users.numbers[k])}
    for key, plan in make_plans(len(training), source.shape[1]).items():
        started = time.perf_counter()
        result = run_plan(Subset(source, training), y[training], plan, k, threads)
        seconds = time.perf_counter() - started
        r2, mae = predict(source, y, np.sort(result.selected), training, test)
        row |= {f"{key}_r2": r2, f"{key}_mae": mae, f"{key}_seconds": seconds}
        row[f"{key}_cells"] = result.fraction_read
    return row


def predict(
    source: Source, y: Array, features: Indices, training: Indices, test: Indices
) -> tuple[float, float]:
    """Return R² and mean absolute error of a linear regression on the features, on the test set."""
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
            "**Synthetic data: a stand-in of the shape of MovieLens 25M** (docs/research.md). R² and errors "
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
