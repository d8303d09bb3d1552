"""`make bench-dask`: screening on a Dask cluster of two single-threaded worker processes on this machine.

Run it as a module, ``python -m benchmarks.cluster``. As a script, its neighbours would shadow packages of the
same name. ``--scale 0.1`` runs everything at a tenth of its size.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from benchmarks.reporting import Figure, collect, table
from benchmarks.timing import interleaved
from distributed import Client, LocalCluster

from banditsis import BanditSIS, Plan, screen


def cluster(n_workers: int) -> LocalCluster:
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        memory_limit=0,
        silence_logs=50,
    )


def normal_block(seed: int, rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32)


def normal(n: int, p: int, height: int) -> da.Array:
    """Return an array of normal numbers in blocks of ``height`` rows, generated on the workers."""
    make = dask.delayed(normal_block, pure=True)
    blocks = [da.from_delayed(make(b, height, p), (height, p), np.float32) for b in range(n // height)]
    return da.concatenate(blocks)


def exact_and_plain(scale: float) -> Iterator[Figure]:
    """A persisted array: exact SIS compared with an array in memory, and with plain Dask code."""
    p, height = 4000, max(100, int(3125 * scale))
    n = 80 * height
    X = np.concatenate([normal_block(b, height, p) for b in range(80)])
    y = np.random.default_rng(1).standard_normal(n)
    plan = Plan.exact(n, p, 100)
    with cluster(2) as workers, Client(workers) as client:
        x = client.persist(normal(n, p, height))
        client.gather(client.compute(x.sum()))
        remote_y = client.persist(da.from_array(y, chunks=height))

        def plain_dask() -> np.ndarray:
            mean_x, mean_y = x.mean(axis=0), remote_y.mean()
            product = (x.T @ remote_y) / n - mean_x * mean_y
            return (product / (x.std(axis=0) * remote_y.std())).compute()

        expected = screen(X, y, plan).selected
        assert np.array_equal(screen(x, y, plan).selected, expected)
        assert set(np.argsort(-np.abs(plain_dask()))[:90]) <= set(expected.tolist())
        best = interleaved(
            3,
            local=lambda: screen(X, y, plan, n_jobs=2),
            remote=lambda: screen(x, y, plan),
            plain=plain_dask,
        )
    ratio = (best["remote"] - 0.3) / best["local"]
    yield Figure(
        f"exact SIS, {X.nbytes / 1e9:.1f} GB persisted ({best['remote']:.2f} s; in memory "
        f"{best['local']:.2f} s): time less 0.3 s against the array in memory, 2 threads",
        f"{ratio:.2f}×",
        "≤ 1.5×",
        ratio <= 1.5,
    )
    faster = best["plain"] / best["remote"]
    yield Figure(
        "exact SIS: times as fast as `x.T @ y` with means and deviations",
        f"{faster:.1f}×",
        "≥ 2×",
        faster >= 2,
    )


def counted(block: np.ndarray, path: str) -> np.ndarray:
    with open(path, "a") as file:
        file.write("+")
    return block


def genotypes(block_id: tuple[int, int], height: int, width: int) -> np.ndarray:
    rng = np.random.default_rng(block_id)
    return rng.integers(0, 3, (height, width), dtype=np.uint8).astype(np.float32)


def lazy_zarr(scale: float, folder: Path) -> Iterator[Figure]:
    """A lazy Zarr array: only some chunks are loaded."""
    import zarr

    rows, width, height = 100, 2000, max(50, int(5000 * scale))
    n, p = rows * height, 5 * width
    store = str(folder / "x.zarr")
    zarr.create_array(store, shape=(n, p), chunks=(height, width), dtype="f4")
    made = da.map_blocks(
        lambda height, width, block_id: genotypes(block_id, height, width),
        height,
        width,
        chunks=((height,) * rows, (width,) * 5),
        dtype=np.float32,
        meta=np.empty((0, 0), np.float32),
    )
    path = folder / "loaded"
    with cluster(2) as workers, Client(workers):
        made.to_zarr(zarr.open_array(store), compute=True)
        x = da.from_zarr(store)
        y = x[:, [7, 1234]].sum(axis=1).compute() + np.random.default_rng(0).standard_normal(n)
        x = x.map_blocks(counted, str(path), dtype=np.float32, meta=np.empty((0, 0), np.float32))
        started = time.perf_counter()
        result = screen(x, y, Plan.optimal(n, p, 100, 0.09), random_state=0)
        seconds = time.perf_counter() - started
    loaded = len(path.read_text()) / (5 * rows)
    last = result.rounds[-1].n_rows / n
    yield Figure(
        f"BanditSIS, lazy Zarr of {4e-9 * n * p:.1f} GB in ordinary chunks ({seconds:.1f} s): "
        f"chunks loaded {loaded:.1%}, rows of the last step {last:.1%}",
        f"{loaded / last:.2f}×",
        "≤ 1.3×",
        loaded <= 1.3 * last,
    )


def cheap_block(height: int, p: int) -> np.ndarray:
    """Return a block that is cheap to make: the same thousand rows repeated."""
    return np.tile(normal_block(0, 1000, p), (height // 1000, 1))


def cheap_response(block: np.ndarray, block_id: tuple[int, ...]) -> np.ndarray:
    noise = np.random.default_rng(block_id[0]).standard_normal(len(block), dtype=np.float32)
    return block[:, 3] - block[:, 8] + noise


def huge(scale: float) -> None:
    """Screen n = 10⁸ rows, in a separate process. No array of length n is in its memory."""
    p, height = 1000, 50_000
    n = max(10, int(2000 * scale)) * height
    chunks = ((height,) * (n // height), (p,))
    x = da.map_blocks(
        cheap_block,
        height,
        p,
        chunks=chunks,
        dtype=np.float32,
        meta=np.empty((0, 0), np.float32),
    )
    y = x.map_blocks(
        lambda block, block_id: cheap_response(block, block_id),
        drop_axis=1,
        dtype=np.float32,
        meta=np.empty(0, np.float32),
    )
    with cluster(2) as workers, Client(workers):
        started = time.perf_counter()
        result = screen(x, y, Plan.exact(n, p, 2))
        exact = time.perf_counter() - started
        bandit = BanditSIS(2, budget=0.05, random_state=0).fit(x, y).result_
    assert set(result.selected.tolist()) == set(bandit.selected.tolist()) == {3, 8}
    print(n, exact, peak_memory())


def peak_memory() -> float:
    """Return the peak memory of this process in GB. ru_maxrss would include its parent."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 2**20


def driver_memory(scale: float) -> Iterator[Figure]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cluster", "--huge", "--scale", str(scale)],
        capture_output=True,
        text=True,
        check=True,
    )
    n, seconds, peak = (float(word) for word in done.stdout.split())
    yield Figure(
        f"memory of the driver and its scheduler, n = {n:.0e}, p = 1,000, exact ({seconds:.0f} s) and bandit",
        f"{peak:.2f} GB",
        "≤ 1 GB",
        peak <= 1,
    )


def loopback() -> int:
    """Return the bytes received on the loopback interface."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split()[1])
    raise OSError("no loopback interface in /proc/net/dev")


def bytes_moved(scale: float) -> Iterator[Figure]:
    """Bytes sent in a round of p = 10⁵ features, including graphs and results."""
    p, height, blocks = int(100_000 * min(1, 10 * scale)), 250, 16
    with cluster(2) as workers, Client(workers) as client:
        x = client.persist(normal(height * blocks, p, height))
        y = np.random.default_rng(0).standard_normal(height * blocks)
        client.gather(client.compute(x.sum()))
        plan = Plan.exact(*x.shape, 100)
        screen(x, y, plan)
        moved = np.inf
        for _ in range(3):
            before = loopback()
            screen(x, y, plan)
            moved = min(moved, loopback() - before)
    each = moved / (p * blocks)
    yield Figure(
        f"bytes on the network in a round, p = {p:,}, {blocks} blocks: for each feature and block",
        f"{each:.0f}",
        "≤ 64",
        each <= 64,
    )


def killed(scale: float) -> Iterator[Figure]:
    """Kill a worker in each round in turn."""
    p, height = 1000, max(200, int(5000 * scale))
    n = 20 * height
    y = np.random.default_rng(1).standard_normal(n)
    plan = Plan(n, p, ((n // 10, 300), (n // 5, 120), (n // 2, 50)))
    X = np.concatenate([normal_block(b, height, p) for b in range(20)])
    expected, same = screen(X, y, plan, random_state=0).selected, 0
    for step in range(len(plan.steps)):
        start, killed_workers = cells_before(plan, step), list[int]()
        with cluster(2) as workers, Client(workers) as client:
            victim = max(worker.pid for worker in workers.workers.values())

            def kill(done: int, total: int, start: int = start, victim: int = victim) -> None:
                if done > start and not killed_workers:  # noqa: B023
                    killed_workers.append(victim)  # noqa: B023
                    os.kill(victim, signal.SIGKILL)

            x = client.persist(normal(n, p, height))
            selected = screen(x, y, plan, random_state=0, progress=kill).selected
        same += bool(killed_workers) and np.array_equal(selected, expected)
    yield Figure(
        "kill -9 a worker in each round in turn: runs with the same selection",
        f"{same} of {len(plan.steps)}",
        "all",
        same == len(plan.steps),
    )


def cells_before(plan: Plan, step: int) -> int:
    rows, features, cells = 0, plan.n_features, 0
    for previous in plan.steps[:step]:
        cells += (previous.n_rows - rows) * features
        rows, features = previous.n_rows, previous.n_keep
    return cells


def two_against_one(scale: float) -> Iterator[Figure]:
    """Exact SIS for many responses, which is compute-bound."""
    p, height, q = 2000, max(200, int(20_000 * scale)), 100
    n = 20 * height
    Y = np.random.default_rng(1).standard_normal((n, q), dtype=np.float32)
    plan = Plan.exact(n, p, 50)
    seconds = {}
    for count in (1, 2):
        with cluster(count) as workers, Client(workers) as client:
            x, y = client.persist(normal(n, p, height)), client.persist(da.from_array(Y, chunks=(height, q)))
            client.gather(client.compute(x.sum()))
            seconds[count] = interleaved(3, run=lambda x=x, y=y: screen(x, y, plan))["run"]
    faster = seconds[1] / seconds[2]
    yield Figure(
        f"two workers against one, exact SIS for {q} responses ({seconds[2]:.2f} s)",
        f"{faster:.2f}×",
        "≥ 1.7×",
        faster >= 1.7,
    )


def measure(only: str | None, scale: float, folder: Path) -> Iterator[Figure]:
    for benchmark in (exact_and_plain, bytes_moved, two_against_one, killed, driver_memory):
        if only in (None, benchmark.__name__):
            yield from benchmark(scale)
    if only in (None, "lazy_zarr"):
        yield from lazy_zarr(scale, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--huge", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", help="name of the only function to run")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "Sending large graph")
    if options.huge:
        huge(options.scale)
        return
    with tempfile.TemporaryDirectory(prefix="banditsis-", ignore_cleanup_errors=True) as folder:
        figures = collect(measure(options.only, options.scale, Path(folder)))
    print(f"\n{table(figures)}")


if __name__ == "__main__":
    main()
