"""`make bench-beyond`: what screening 10⁹ rows × 10⁶ features costs on a cluster, and checks at 10⁸ rows.

The cost of a plan is computed from a few formulas. The same formulas are then compared with what real runs at
n = 10⁸ read and send: one on a source that computes its cells when they are read, and one on a Dask cluster.
The part of the client is run at n = 10⁹.
Run it as a module, ``python -m benchmarks.beyond``. ``--scale 0.1`` runs the checks at a tenth of the rows.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dask.array as da
import numpy as np
from benchmarks.cluster import cluster, counted, loopback, peak_memory
from benchmarks.reporting import machine, replace_between
from distributed import Client
from numba import njit

from banditsis import Plan, screen
from banditsis.core.arrays import Array, Columns, Rows
from banditsis.index.reader import BLOCK
from banditsis.plans import SamplingDesign, round_to_blocks
from banditsis.sources.blocks import BlockSource

MARKER = "<!-- {}: written by benchmarks/beyond.py -->"
#: Bytes of the sums of a feature: Σz, Σzy, Σz² and Σz⁴ in float64.
SUM_BYTES = 32
#: Bytes that are sent to each worker for a remaining feature: its number, shift and scale.
PANEL_BYTES = 16
#: Bytes of the weights of a row: 1 and y.
WEIGHT_BYTES = 16


@dataclass(frozen=True)
class Cluster:
    """What the workers of a cluster can do."""

    workers: int
    #: bytes per second that a worker reads from storage
    storage: float
    #: bytes per second that a worker sums
    kernel: float
    #: bytes per second that a worker sends
    network: float
    #: seconds that the scheduler needs for a task
    task: float
    #: share of the chunks that Dask sums on another worker than the one that made them
    moved: float = 0.0


@dataclass(frozen=True)
class Cost:
    """Cost of one round, or of all."""

    read: float
    sent: float
    tasks: float
    seconds: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def round_cost(rows: int, features: int, p: int, chunk: tuple[int, int], on: Cluster) -> Cost:
    """Cost of reading new rows of the remaining features from a lazy Dask array, in whole chunks."""
    height, width = chunk
    down = -(-rows // height)
    across = p / width * (1 - (1 - features / p) ** width)
    tasks = down * across
    read = tasks * height * width * 4
    return finish(tasks, read, on.moved * read, down, rows, features, on)


def store_round_cost(rows: int, features: int, height: int, on: Cluster) -> Cost:
    """The same from a shuffled store that workers open: only its cells, in a task for each block of rows."""
    down = -(-rows // height)
    return finish(down, 4.0 * rows * features, 0.0, down, rows, features, on)


def finish(tasks: float, read: float, moved: float, down: int, rows: int, features: int, on: Cluster) -> Cost:
    """What a round sends, and how long it takes."""
    sent = SUM_BYTES * features * down + PANEL_BYTES * features * on.workers + WEIGHT_BYTES * rows + moved
    busy = min(on.workers, max(1.0, tasks))
    seconds = read / busy * max(1 / on.storage, 1 / on.kernel) + sent / busy / on.network + tasks * on.task
    return Cost(read, sent, tasks, seconds)


def rounds(plan: Plan) -> Iterator[tuple[int, int]]:
    """New rows and features of each round."""
    before, left = 0, plan.n_features
    for step, after in zip(plan.steps, plan.n_left, strict=True):
        if plan.by_evidence and left <= plan.n_keep:
            break
        yield step.n_rows - before, left
        before, left = step.n_rows, after


def plan_cost(plan: Plan, chunk: tuple[int, int] | None, on: Cluster) -> Cost:
    """Cost of a plan on a lazy array of these chunks, or on a shuffled store if there are none."""
    total = Cost(0, 0, 0, 0)
    for rows, features in rounds(plan):
        if chunk is None:
            total += store_round_cost(rows, features, BLOCK, on)
        else:
            total += round_cost(rows, features, plan.n_features, chunk, on)
    return total


def cost_table(on: Cluster) -> str:
    """Costs of 10⁹ rows × 10⁶ features."""
    n, p, d, chunk = 10**9, 10**6, 100, (10_000, 10_000)
    plans = {
        "exact": Plan.exact(n, p, d),
        "`alpha=0.5`": Plan.paper(n, p, d),
        "`budget=0.0001`": Plan.optimal(n, p, d, 1e-4),
        "`budget=0.001`": Plan.optimal(n, p, d, 1e-3),
        "`min_correlation=0.02`": Plan.guaranteed(n, p, d, 0.02),
    }
    lines = [
        "| Plan | Data | Rounds | Floor | Read | Sent | Time |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name, plan in plans.items():
        for where, chunks in (("chunks", chunk), ("store", None)):
            if plan.by_evidence and chunks:
                continue  # needs random rows
            used = round_to_blocks(plan, chunk[0], 8) if chunks else plan
            cost = plan_cost(used, chunks, on)
            floor = "0" if name == "exact" else f"{_floor(plan):.4f}"
            lines.append(
                f"| {name} | {where} | {len(used.steps)} | {floor} | "
                f"{_bytes(cost.read)} | {_bytes(cost.sent)} | {_time(cost.seconds)} |"
            )
    return "\n".join(lines)


def _floor(plan: Plan) -> float:
    return dict(plan.parameters)["min_correlation"] if plan.by_evidence else plan.detection_floor()


def _bytes(count: float) -> str:
    return f"{count / 1e12:,.1f} TB" if count >= 1e12 else f"{count / 1e9:,.1f} GB"


def _time(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:,.1f} min"


@njit(nogil=True, cache=True)
def _fill(rows: Array, columns: Array, out: Array) -> None:
    """Standard normal numbers, approximately: sums of four 16-bit hashes of the row and the column."""
    for i in range(len(rows)):
        for j in range(len(columns)):
            z = np.uint64(rows[i]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(columns[j] + 1) * np.uint64(
                0xD1B54A32D192ED03
            )
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
            total = np.int64(0)
            for k in range(4):
                total += np.int64((z >> np.uint64(16 * k)) & np.uint64(0xFFFF))
            out[i, j] = (total - 131070.0) / 37837.2


def cells(rows: Array, columns: Array) -> Array:
    """Cells of the simulated data."""
    out = np.empty((len(rows), len(columns)), np.float32)
    _fill(np.asarray(rows), np.asarray(columns), out)
    return out


class Generated(BlockSource):
    """Cells that are computed when they are read, and counted; rows may repeat."""

    dtype, chunk = np.dtype(np.float32), (1, 1)

    def __init__(self, n: int, p: int, period: int | None = None) -> None:
        self.shape, self.period, self.n_read, self._lock = (n, p), period or n, 0, threading.Lock()

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        p = self.shape[1]
        chosen_rows = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        chosen = np.arange(p)[slice(None) if columns is None else columns]
        with self._lock:
            self.n_read += len(chosen_rows) * len(chosen)
        return cells(chosen_rows % self.period, chosen)


def response(n: int, columns: Sequence[int], correlation: float) -> Array:
    """A response that has this correlation with each of some columns."""
    noise = np.sqrt(1 - len(columns) * correlation**2)
    y = np.empty(n, np.float32)
    for start in range(0, n, 1 << 18):
        rows = np.arange(start, min(n, start + (1 << 18)))
        y[rows] = correlation * cells(rows, np.array(columns)).sum(axis=1)
        y[rows] += np.float32(noise) * cells(rows, np.array([-1]))[:, 0]
    return y


def sampling_check(scale: float) -> Iterator[str]:
    """Real runs at n = 10⁸: cells, rows and memory, and whether features at the floor are kept."""
    n, p, d, budget, runs = int(10**8 * scale), 1000, 50, 1e-4, 5
    signals = list(range(0, 1000, 50))
    y = response(n, signals, Plan.optimal(n, p, d, budget).detection_floor())
    rare = y > np.quantile(y[: 10**6], 0.999)
    started = peak_memory()
    yield "| Response | Sampling | Rows | Worth | Cells planned | Cells read | Kept |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for kind, values in (("normal", y), ("two classes, 0.1%", rare)):
        for sampling in ("uniform", "stratified"):
            source, kept = Generated(n, p), 0

            def plan(design: SamplingDesign | None) -> Plan:
                return Plan.optimal(n, p, d, budget, design=design)

            for seed in range(runs):
                result = screen(source, values, plan, sampling=sampling, random_state=seed)
                kept += np.isin(signals, result.selected).sum()
            last = result.rounds[-1]
            yield (
                f"| {kind} | {sampling} | {last.n_rows:,} | {last.effective_rows:,.0f} "
                f"| {budget * n * p:.3g} | {source.n_read / runs:.3g} "
                f"| {kept} of {runs * len(signals)} |"
            )
    yield f"\nThe runs needed {peak_memory() - started:.2f} GB of memory besides the responses."


def client_check(scale: float) -> Iterator[str]:
    """What the client does for n = 10⁹ rows: strata, plan, rows and rounds, of cells that cost nothing."""
    n, p, period = int(10**9 * scale), 200, 10**6
    y = np.resize(response(period, [3, 8], 0.1), n)
    memory = peak_memory()
    yield "| Sampling | Rows | Worth | Processor time | Peak memory besides y |"
    yield "|---|---:|---:|---:|---:|"
    for sampling in ("uniform", "stratified"):
        begin = time.process_time()

        def plan(design: SamplingDesign | None) -> Plan:
            return Plan.optimal(n, p, 5, 1e-5, design=design)

        result = screen(Generated(n, p, period), y, plan, sampling=sampling, random_state=0)
        assert {3, 8} <= set(result.selected.tolist())
        seconds, more, last = time.process_time() - begin, peak_memory() - memory, result.rounds[-1]
        yield (
            f"| {sampling} | {last.n_rows:,} | {last.effective_rows:,.0f} | {seconds:.0f} s | {more:.1f} GB |"
        )


def generated_block(block_info: dict) -> Array:
    (top, bottom), (first, stop) = block_info[None]["array-location"]
    return cells(np.arange(top, bottom), np.arange(first, stop))


def dask_check(scale: float, on: Cluster) -> tuple[str, float]:
    """A lazy Dask array of 10⁸ rows and two workers: what is read and sent, and the share that is moved."""
    n, p, d, height, width = int(10**8 * scale), 1000, 10, 20_000, 250
    y = response(n, [3, 8], 0.1)
    none = np.empty((0, 0), np.float32)
    chunks = (height,) * (n // height), (width,) * (p // width)
    x = da.map_blocks(generated_block, chunks=chunks, dtype=np.float32, meta=none)
    plan = round_to_blocks(Plan.optimal(n, p, d, 0.005), height, 8)
    predicted = plan_cost(plan, (height, width), on)
    with tempfile.TemporaryDirectory() as folder, cluster(2) as workers, Client(workers):
        path = Path(folder) / "made"
        x = x.map_blocks(counted, str(path), dtype=np.float32, meta=none)
        before, begin = loopback(), time.perf_counter()
        result = screen(x, y, plan, random_state=0)
        seconds, sent, made = time.perf_counter() - begin, loopback() - before, len(path.read_text())
    assert {3, 8} <= set(result.selected.tolist())
    moved = max(0.0, sent - predicted.sent) / predicted.read
    lines = [
        "| | Predicted | Counted |",
        "|---|---:|---:|",
        f"| rounds | {len(plan.steps)} | {len(result.rounds)} |",
        f"| cells | {plan.cells:.4g} | {result.cells_read:.4g} |",
        f"| chunks made | {predicted.tasks:,.0f} | {made:,} |",
        f"| bytes sent, without moved chunks | {predicted.sent / 1e6:.0f} MB | |",
        f"| bytes sent | | {sent / 1e6:.0f} MB |",
        f"\nThe run took {seconds:.0f} s. The difference of the bytes sent is {moved:.1%} of the bytes read.",
    ]
    return "\n".join(lines), moved


def best_of(repeats: int, run: Callable[[], object]) -> float:
    """Least processor time of this process; other programs do not count."""
    times = []
    for _ in range(repeats + 1):  # the first turn is a warm-up
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return min(times[1:])


def kernel_speed() -> float:
    """Bytes per second that one thread sums."""
    X = cells(np.arange(50_000), np.arange(2000))
    y = np.random.default_rng(0).standard_normal(len(X))
    plan = Plan.exact(*X.shape, 10)
    return X.nbytes / best_of(5, lambda: screen(X, y, plan, n_jobs=1))


def task_seconds() -> float:
    """Seconds for each task of many, in this process, which has the client and the scheduler."""
    with cluster(2) as workers, Client(workers) as client:
        return best_of(3, lambda: client.gather(client.map(abs, range(2000), pure=False))) / 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--write", type=Path, help="file whose marked parts are replaced by the tables")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "Sending large graph")
    kernel, task = kernel_speed(), task_seconds()
    here = Cluster(workers=2, storage=1e9, kernel=kernel, network=1e9, task=task)
    on_dask, moved = dask_check(options.scale, here)
    large = Cluster(workers=50, storage=1e9, kernel=kernel, network=1e9, task=task, moved=moved)
    speeds = (
        f"One thread summed {kernel / 1e9:.1f} GB/s, Dask needed {1e3 * task:.1f} ms for a task, both in "
        f"processor time, and moved {moved:.1%} of the chunks ({machine()})."
    )
    parts: dict[str, Callable[[], str]] = {
        "speeds": lambda: speeds,
        "costs": lambda: cost_table(large),
        "dask": lambda: on_dask,
        "sampling": lambda: "\n".join(sampling_check(options.scale)),
        "client": lambda: "\n".join(client_check(options.scale)),
    }
    for name, make in parts.items():
        text = make()
        print(f"\n{text}", flush=True)
        if options.write:
            replace_between(options.write, MARKER.format(name), text)


if __name__ == "__main__":
    main()
