"""Screening of a large table: the cost of dropping columns, and of reading through DuckDB.

python benchmarks/tables.py [--gigabytes 10] [--repeats 3] [--folder DIR]

Each run is a process of its own, so its peak memory is its own. Runs alternate, and the best of each counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from processes import compare
from reporting import Figure, at_most, collect, machine, table

GROUP = 50_000


def write_parquet(path: Path, n: int, p: int) -> None:
    """Write normal float32 noise, a date, an id and a response, in row groups."""
    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, n, GROUP):
        X = rng.standard_normal((p, min(GROUP, n - start)), dtype=np.float32)
        rows = np.arange(start, start + X.shape[1])
        columns = {f"x{j}": X[j] for j in range(p)}
        columns |= {"customer_id": rows, "day": rows.astype("datetime64[D]"), "y": X[3] - X[7]}
        part = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, part.schema, compression="none", use_dictionary=False)
        writer.write_table(part)
    if writer is not None:
        writer.close()


def dropped_columns(path: Path, repeats: int) -> Iterator[Figure]:
    screen = [
        sys.executable,
        "-m",
        "banditsis.cli.app",
        "screen",
        str(path),
        "--target",
        "y",
        "--seed",
        "0",
        "--quiet",
    ]
    for plan in (["--exact"], []):
        best = compare({"all": [*screen, *plan], "drop": [*screen, *plan, "--drop", "x1,x2*9"]}, repeats)
        name = " ".join(plan) or "default plan"
        seconds, _, peak = best["all"]
        print(f"{name}: {seconds:.2f} s and {peak:.2f} GB without --drop")
        yield at_most(f"time with --drop / without, {name}", best["drop"].seconds / seconds, 1.1)
        yield at_most(f"memory with --drop / without, {name}", best["drop"].peak / peak, 1.1)


DUCKDB = """
import sys, duckdb
from banditsis import Plan, open_data, screen
path, how = sys.argv[1:]
columns = [f"x{j}" for j in range(200)]
data = path if how == "parquet" else duckdb.read_parquet(path).select(*columns, "y")
source, y, *_ = open_data(data, target="y", columns=columns)
screen(source, y, Plan.exact(*source.shape, 10), progress=False)
"""


def duckdb_table(path: Path, repeats: int) -> Iterator[Figure]:
    commands = {how: [sys.executable, "-c", DUCKDB, str(path), how] for how in ("parquet", "duckdb")}
    best = compare(commands, repeats)
    for how, (seconds, _, peak) in best.items():
        print(f"200 columns through {how}: {seconds:.2f} s, {peak:.2f} GB")
    yield at_most(
        "time through DuckDB / Parquet opened directly", best["duckdb"].seconds / best["parquet"].seconds, 5
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    n = 1_000_000
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "table.parquet"
        p = round(options.gigabytes * 1e9 / (4 * n))
        write_parquet(path, n, p)
        print(f"{machine()}; {n:,} × {p:,}, {path.stat().st_size / 1e9:.1f} GB")
        parts = dropped_columns(path, options.repeats), duckdb_table(path, options.repeats)
        figures = collect(chain(*parts))
    print(table(figures))


if __name__ == "__main__":
    main()
