"""One measurement in a separate process: time, bytes read from disk and peak memory, as JSON.

python benchmarks/io_worker.py screen STORE exact|bandit | columns FILE COUNT
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

from banditsis import Plan, open_data, open_source, screen
from banditsis.core.parallel import Workers
from banditsis.sources.base import Calibration, SumContext
from banditsis.statistics.moments import Weights


def bytes_read() -> int:
    """Return the bytes read from disk for this process."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("read_bytes")))


def warm_up() -> None:
    """Load compiled kernels and libraries before timing."""
    rng = np.random.default_rng(0)
    for order in "CF":
        X = np.asarray(rng.standard_normal((4000, 40)), dtype=np.float32, order=order)
        screen(X, rng.standard_normal(4000), Plan.paper(4000, 40, 4), random_state=0)
        screen(X, rng.standard_normal(4000), Plan.exact(4000, 40, 4))


def measure_screen(path: str, kind: str) -> dict[str, object]:
    """Open a store and screen it."""
    started, before = time.perf_counter(), bytes_read()
    source, y, *_ = open_data(path, target="y")
    n, p = source.shape
    d = min(100, p // 5)
    plan = Plan.exact(n, p, d) if kind == "exact" else Plan.paper(n, p, d, alpha=0.5)
    result = screen(source, y, plan, progress=False)
    seconds, read = time.perf_counter() - started, bytes_read() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = len(set(result.selected) & set(range(10)))
    return {"seconds": seconds, "bytes": read, "peak": peak, "fraction": plan.fraction, "found": found}


def measure_columns(path: str, count: str) -> dict[str, object]:
    """Sum some scattered columns over all rows, like a last round."""
    before = bytes_read()
    source = open_source(path)
    opened = bytes_read() - before
    n, p = source.shape
    columns = np.sort(np.random.default_rng(0).choice(p, int(count), replace=False))
    y = np.random.default_rng(1).standard_normal((n, 1))
    calibration = Calibration(np.zeros(p, np.float32), np.ones(p, np.float32))
    out, before = np.zeros((3, len(columns))), bytes_read()
    with Workers(2) as workers:
        context, edges = SumContext(calibration, out[None], workers), np.array([0, n])
        source.add_sums(slice(0, n), edges, columns, Weights.of(y), context)
    return {"opened": opened, "bytes": bytes_read() - before, "share": len(columns) / p}


if __name__ == "__main__":
    warm_up()
    task = {"screen": measure_screen, "columns": measure_columns}[sys.argv[1]]
    print(json.dumps(task(*sys.argv[2:])))
