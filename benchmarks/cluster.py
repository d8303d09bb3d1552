"""`make bench-dask`: screening on a Dask cluster of two single-threaded worker processes on this machine.

Run as a module, ``python -m benchmarks.cluster``: for a script its neighbours hide packages of their name.
With ``--scale 0.1`` everything is a tenth of its size, to try it out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from benchmarks.timing import interleaved
from distributed import Client, LocalCluster

from banditsis import BanditSIS, Plan, screen
from banditsis.sources.dask.windows import FileOnWorkers
from banditsis.store.metadata import read_record
from banditsis.store.writer import shuffle

LINES: list[tuple[str, str, str, bool]] = []


def report(what: str, measured: str, wanted: str, good: bool) -> None:
    LINES.append((what, measured, wanted, good))
    print(f"{what}: {measured} (to reach: {wanted}) {'✓' if good else 'missed'}", flush=True)


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
    """Rows × columns of normal numbers, a block for each ``height`` rows, made where they are needed."""
    make = dask.delayed(normal_block, pure=True)
    blocks = [da.from_delayed(make(b, height, p), (height, p), np.float32) for b in range(n // height)]
    return da.concatenate(blocks)


def exact_and_plain(scale: float) -> None:
    """A persisted array: exact SIS against the same in memory, and against plain Dask code."""
    p, height = 4000, max(100, int(3125 * scale))
    n = 80 * height
    X = np.concatenate([normal_block(b, height, p) for b in range(80)])
    y = np.random.default_rng(1).standard_normal(n)
    plan = Plan.exact(n, p, 100)
    with cluster(2) as workers, Client(workers) as client:
        x = client.persist(normal(n, p, height))
        client.gather(client.compute(x.sum()))
        y_there = client.persist(da.from_array(y, chunks=height))

        def plainly() -> np.ndarray:
            mean_x, mean_y = x.mean(axis=0), y_there.mean()
            product = (x.T @ y_there) / n - mean_x * mean_y
            return (product / (x.std(axis=0) * y_there.std())).compute()

        expected = screen(X, y, plan).selected
        assert np.array_equal(screen(x, y, plan).selected, expected)
        assert set(np.argsort(-np.abs(plainly()))[:90]) <= set(expected.tolist())
        best = interleaved(
            3,
            here=lambda: screen(X, y, plan, n_jobs=2),
            there=lambda: screen(x, y, plan),
            plain=plainly,
        )
    ratio = (best["there"] - 0.3) / best["here"]
    report(
        f"exact SIS, {X.nbytes / 1e9:.1f} GB persisted ({best['there']:.2f} s; in memory "
        f"{best['here']:.2f} s): time less 0.3 s against the array in memory, 2 threads",
        f"{ratio:.2f}×",
        "≤ 1.5×",
        ratio <= 1.5,
    )
    faster = best["plain"] / best["there"]
    report(
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


def lazy_zarr(scale: float, folder: Path) -> None:
    """A Zarr array of which only some chunks are loaded."""
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
    report(
        f"BanditSIS, lazy Zarr of {4e-9 * n * p:.1f} GB in ordinary chunks ({seconds:.1f} s): "
        f"chunks loaded {loaded:.1%}, rows of the last step {last:.1%}",
        f"{loaded / last:.2f}×",
        "≤ 1.3×",
        loaded <= 1.3 * last,
    )


def bytes_read() -> int:
    """Bytes that this process has read from files, cached ones included."""
    return int(Path("/proc/self/io").read_text().split()[1])


def shuffled(scale: float, folder: Path) -> None:
    """A store made by `banditsis shuffle`, opened by the workers themselves."""
    n, p = int(100_000 * scale), 5000
    X = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (n, p))
    y = np.random.default_rng(0).standard_normal(n)
    for start in range(0, n, 10_000):
        X[start : start + 10_000] = normal_block(start, min(10_000, n - start), p)
        y[start : start + 10_000] += X[start : start + 10_000, [7, 1234]].sum(axis=1)
    np.save(folder / "y.npy", y)
    store = shuffle(folder / "x.npy", folder / "shuffled.zarr", target=str(folder / "y.npy"), seed=0)
    size = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    with cluster(2) as workers, Client(workers) as client:
        source = FileOnWorkers(store, target=read_record(store).target)
        plan = Plan.optimal(n, p, 50, 0.05)
        screen(source, source.y, plan)  # modules are loaded, and files opened
        before = sum(client.run(bytes_read).values())
        result = screen(source, source.y, plan)
        moved = sum(client.run(bytes_read).values()) - before
    assert {7, 1234} <= set(result.selected.tolist())
    ratio = moved / size / plan.fraction
    report(
        f"BanditSIS, store of {size / 1e9:.1f} GB made by `banditsis shuffle`: share of its bytes that "
        f"workers read, against the plan's share of the cells, {plan.fraction:.1%}",
        f"{ratio:.2f}×",
        "≤ 3×",
        ratio <= 3,
    )


def cheap_block(height: int, p: int) -> np.ndarray:
    """A block that costs little to make: the same thousand rows again and again."""
    return np.tile(normal_block(0, 1000, p), (height // 1000, 1))


def cheap_response(block: np.ndarray, block_id: tuple[int, ...]) -> np.ndarray:
    noise = np.random.default_rng(block_id[0]).standard_normal(len(block), dtype=np.float32)
    return block[:, 3] - block[:, 8] + noise


def huge(scale: float) -> None:
    """In a process of its own: n = 10⁸ rows, of which nothing n-long is ever here."""
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
    """The most memory that this process has had, in GB; ru_maxrss would count that of its parent too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 2**20


def driver_memory(scale: float) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.cluster", "--huge", "--scale", str(scale)],
        capture_output=True,
        text=True,
        check=True,
    )
    n, seconds, peak = (float(word) for word in found.stdout.split())
    report(
        f"memory of the driver and its scheduler, n = {n:.0e}, p = 1,000, exact ({seconds:.0f} s) and bandit",
        f"{peak:.2f} GB",
        "≤ 1 GB",
        peak <= 1,
    )


def loopback() -> int:
    """Bytes that this machine has sent to itself."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split()[1])
    raise OSError("no loopback interface in /proc/net/dev")


def bytes_moved(scale: float) -> None:
    """What travels in a round of p = 10⁵ features: all on the loopback, graphs and results included."""
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
    report(
        f"bytes on the network in a round, p = {p:,}, {blocks} blocks: for each feature and block",
        f"{each:.0f}",
        "≤ 64",
        each <= 64,
    )


def killed(scale: float) -> None:
    """kill -9 a worker in each round in turn."""
    p, height = 1000, max(200, int(5000 * scale))
    n = 20 * height
    y = np.random.default_rng(1).standard_normal(n)
    plan = Plan(n, p, ((n // 10, 300), (n // 5, 120), (n // 2, 50)))
    X = np.concatenate([normal_block(b, height, p) for b in range(20)])
    expected, same = screen(X, y, plan, random_state=0).selected, 0
    for step in range(plan.n_steps):
        start, told = cells_before(plan, step), list[int]()
        with cluster(2) as workers, Client(workers) as client:
            victim = max(worker.pid for worker in workers.workers.values())

            def tell(done: int, total: int, start: int = start, victim: int = victim) -> None:
                if done > start and not told:  # noqa: B023
                    told.append(victim)  # noqa: B023
                    os.kill(victim, signal.SIGKILL)

            x = client.persist(normal(n, p, height))
            found = screen(x, y, plan, random_state=0, progress=tell).selected
        same += bool(told) and np.array_equal(found, expected)
    report(
        "kill -9 a worker in each round in turn: runs with the same selection",
        f"{same} of {plan.n_steps}",
        "all",
        same == plan.n_steps,
    )


def cells_before(plan: Plan, step: int) -> int:
    rows, left, cells = 0, plan.n_features, 0
    for one in plan.steps[:step]:
        cells += (one.n_rows - rows) * left
        rows, left = one.n_rows, one.n_keep
    return cells


def two_against_one(scale: float) -> None:
    """Exact SIS for many responses, which is bound by computing."""
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
    report(
        f"two workers against one, exact SIS for {q} responses ({seconds[2]:.2f} s)",
        f"{faster:.2f}×",
        "≥ 1.7×",
        faster >= 1.7,
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--scale", type=float, default=1.0)
    arguments.add_argument("--huge", action="store_true", help=argparse.SUPPRESS)
    arguments.add_argument("--only", help="one line alone, by the name of its function")
    given = arguments.parse_args()
    warnings.filterwarnings("ignore", "Sending large graph")
    if given.huge:
        huge(given.scale)
        return
    folder = Path(tempfile.mkdtemp(prefix="banditsis-"))
    try:
        for line in (exact_and_plain, bytes_moved, two_against_one, killed, driver_memory):
            if given.only in (None, line.__name__):
                line(given.scale)
        for stored in (lazy_zarr, shuffled):
            if given.only in (None, stored.__name__):
                stored(given.scale, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\n| what | measured | to reach | |\n|---|---:|---:|---|")
    for what, measured, wanted, good in LINES:
        print(f"| {what} | {measured} | {wanted} | {'✓' if good else 'missed'} |")


if __name__ == "__main__":
    main()
