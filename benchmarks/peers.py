"""Times of the same screening task in other programs: scikit-learn, NumPy, dcor, polars and DuckDB.

python benchmarks/peers.py [--repeats 3] [--write docs/speed.md]

All run in this process, in turns, and the best of each counts: processor time of all threads, which depends
little on what else the machine does. Everyone reads all rows, except BanditSIS. Files are in the page cache.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.feature_selection import SelectKBest, f_classif, f_regression

from banditsis import SIS, BanditSIS, open_data
from banditsis.core.formatting import format_duration
from reporting import machine, replace_between
from screening import make
from timing import interleaved

MARKER = "<!-- peers: written by benchmarks/peers.py -->"
TOP = 50


class Row(NamedTuple):
    """The best time of one program for one task, and whether it finds the features that SIS finds."""

    task: str
    program: str
    seconds: float
    agrees: str


def agreement(mine: np.ndarray, theirs: np.ndarray) -> str:
    return f"{len(np.intersect1d(mine, theirs))} of {len(mine)}"


def strongest(scores: np.ndarray, count: int) -> np.ndarray:
    return np.argsort(-np.abs(scores))[:count]


def compare(task: str, repeats: int, programs: dict[str, Callable[[], np.ndarray]]) -> Iterator[Row]:
    """Time functions that return the indices they select; the first is the reference."""
    found: dict[str, np.ndarray] = {}

    def keep(name: str) -> Callable[[], None]:
        return lambda: found.__setitem__(name, programs[name]())

    best = interleaved(repeats, clock=time.process_time, **{name: keep(name) for name in programs})
    reference = next(iter(programs))
    for name, seconds in best.items():
        yield Row(task, name, seconds, agreement(found[reference], found[name]))


def dense(repeats: int) -> Iterator[Row]:
    X, y = make(200_000, 1_000, "float32", "C")
    X[:, :TOP] += (0.02 * np.arange(1, TOP + 1) * y[:, None]).astype("float32")
    weights = (y - y.mean()).astype("float32")
    programs = {
        "`SIS`": lambda: SIS(TOP).fit(X, y).result_.selected,
        "`BanditSIS`": lambda: BanditSIS(TOP, random_state=0).fit(X, y).result_.selected,
        "NumPy `y @ X` (not standardised)": lambda: strongest(weights @ X, TOP),
        "scikit-learn `SelectKBest(f_regression)`": lambda: np.flatnonzero(
            SelectKBest(f_regression, k=TOP).fit(X, y).get_support()
        ),
    }
    yield from compare("array, 200,000 × 1,000 float32, Pearson", repeats, programs)


def words(repeats: int) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    places = rng.integers(0, 50_000, (2, 2_500_000))  # repeated ones are added
    X = sparse.csr_array((rng.random(2_500_000), places), shape=(50_000, 50_000))
    y = rng.integers(0, 2, 50_000)
    programs = {
        "`SIS`": lambda: SIS(TOP, statistic="anova").fit(X, y).result_.selected,
        "scikit-learn `SelectKBest(f_classif)`": lambda: np.flatnonzero(
            SelectKBest(f_classif, k=TOP).fit(X, y).get_support()
        ),
    }
    yield from compare("sparse, 50,000 × 50,000, 0.1% stored, two classes", repeats, programs)


def distances(repeats: int) -> Iterator[Row]:
    from dcor import distance_correlation

    X, y = make(5_000, 100, "float64", "F")
    X[:, :10] += 0.3 * y[:, None] ** 2

    def by_dcor() -> np.ndarray:
        return strongest(np.array([distance_correlation(column, y) for column in X.T]), 10)

    programs = {
        "`SIS`": lambda: SIS(10, statistic="distance").fit(X, y).result_.selected,
        "`BanditSIS`": lambda: BanditSIS(10, statistic="distance", random_state=0).fit(X, y).result_.selected,
        "dcor, a loop over features": by_dcor,
    }
    yield from compare("array, 5,000 × 100 float64, distance correlation", repeats, programs)


def parquet(repeats: int) -> Iterator[Row]:
    import duckdb
    import polars as pl

    X, y = make(1_000_000, 200, "float32", "F")
    X[:, :TOP] += (0.02 * np.arange(1, TOP + 1) * y[:, None]).astype("float32")
    names = [f"x{j}" for j in range(200)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.parquet"
        frame = pl.DataFrame({"y": y, **dict(zip(names, X.T, strict=True))})
        frame.write_parquet(path, row_group_size=50_000)
        del X, frame
        query = f"SELECT {', '.join(f'corr(y, {name})' for name in names)} FROM '{path}'"
        lazy = pl.scan_parquet(path).select(pl.corr("y", name).alias(name) for name in names)
        source, response, *_ = open_data(path, target="y")
        programs = {
            "`SIS`": lambda: SIS(TOP).fit(source, response).result_.selected,
            "`BanditSIS`": lambda: BanditSIS(TOP, random_state=0).fit(source, response).result_.selected,
            "polars `corr`": lambda: strongest(lazy.collect().to_numpy()[0], TOP),
            "DuckDB `corr`": lambda: strongest(np.array(duckdb.sql(query).fetchall()[0]), TOP),
        }
        yield from compare("Parquet, 1,000,000 × 200 float32, row groups of 50,000", repeats, programs)


def table(rows: list[Row]) -> str:
    lines = ["| Task | Program | Processor time | Same best features |", "|---|---|---:|---:|"]
    previous = ""
    for row in rows:
        task = row.task if row.task != previous else ""
        lines.append(f"| {task} | {row.program} | {format_duration(row.seconds)} | {row.agrees} |")
        previous = row.task
    made = f"Processor time of all threads, by `make bench-peers` on {machine()}; best of several turns."
    return "\n".join(lines) + f"\n\n{made}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows = []
    for task in (dense, words, distances, parquet):
        for row in task(options.repeats):
            print(row, flush=True)
            rows.append(row)
    text = table(rows)
    print(f"\n{text}")
    if options.write:
        replace_between(options.write, MARKER, text)


if __name__ == "__main__":
    main()
