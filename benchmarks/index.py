"""The index: errors of its bits, certificates, floors, size, speed, bytes from disk and recall.

python benchmarks/index.py [--quick] [--runs 1000] [--rows 65536] [--features 4000] [--part errors …]

Whether a build that is killed, or damage, leaves a valid index is tested in tests/index.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from banditsis import SIS, BanditSIS, build_index, open_source
from banditsis.core.parallel import Workers
from banditsis.index.sketch import Part, Sketch, encode_panel, make_blocks
from banditsis.sources.array import ArraySource
from io_data import Noise, drop_cache, make_parquet
from reporting import Figure, collect, publish
from timing import interleaved

MARKER = "<!-- measured: written by benchmarks/index.py -->"
N_SIGNALS, D = 30, 10
BYTES_IN_MEMORY = 1 << 31  # of a file that is read in parts


class Sketched(ArraySource):
    """An array with the bits of an index."""

    shuffled = True

    def __init__(self, X: np.ndarray, seed: int) -> None:
        super().__init__(X)
        (n, p), blocks = X.shape, make_blocks(len(X))
        bits = np.empty((sum(block.size for block in blocks) // 64, p), np.uint64)
        moments = np.empty((5 * len(blocks), p))
        encode_panel(np.ascontiguousarray(X.T), blocks, seed, bits, moments)
        self.sketch = Sketch([Part(ArraySource(bits), ArraySource(moments), seed, n)])


def standardised(X: np.ndarray) -> np.ndarray:
    Z = X - X.mean(axis=0)
    size = np.sqrt(np.square(Z).sum(axis=0))
    return Z / np.where(size > 0, size, 1.0)


Draw = Callable[[np.random.Generator, int, int], np.ndarray]
FEATURES: dict[str, Draw] = {
    "normal": lambda rng, n, p: rng.standard_normal((n, p)),
    "lognormal, sigma 2": lambda rng, n, p: np.exp(2 * rng.standard_normal((n, p))),
    "Cauchy": lambda rng, n, p: rng.standard_cauchy((n, p)),
    "1% binary": lambda rng, n, p: (rng.random((n, p)) < 0.01).astype(float),
    "0.1% binary": lambda rng, n, p: (rng.random((n, p)) < 0.001).astype(float),
    "genotypes": lambda rng, n, p: rng.binomial(2, rng.uniform(0.01, 0.5, p), (n, p)).astype(float),
    "word counts": lambda rng, n, p: rng.poisson(rng.pareto(1.5, p) / 200, (n, p)).astype(float),
    "sorted rows": lambda rng, n, p: (
        np.sort(rng.standard_normal((n, p)), axis=0) + rng.standard_normal((n, p))
    ),
    "duplicated rows": lambda rng, n, p: np.repeat(rng.standard_normal((n // 50, p)), 50, axis=0),
}


def errors(options: argparse.Namespace) -> Iterator[Figure]:
    """Errors of correlations from bits, in units of 1/√n, and of their stated variances."""
    sizes = (10_000, 2000, 1), (options.rows, 1000, 1), (1_000_000, 60, 16), (10_000_000, 4, 16)
    for n, p, q in sizes[: 2 if options.quick else 4]:
        for name, draw in FEATURES.items():
            n_rows = n // 50 * 50
            rng = np.random.default_rng(n)
            X = draw(rng, n_rows, p).astype(np.float32 if n > 10**6 else np.float64)
            u = standardised(rng.standard_normal((n_rows, q)))
            with Workers(1) as workers:
                found = Sketched(X, 1).sketch.estimate(lambda rows, u=u: u[rows], workers, lambda rows: None)
            known = found.squares > 0
            size = np.sqrt(found.squares[known])
            error = found.products[:, known] / size - u.T @ standardised(X)[:, known]
            rms, z = np.sqrt(np.mean(error**2) * n_rows), error / (np.sqrt(found.variances[:, known]) / size)
            shown = f"{rms:.3f} (own variance: {np.sqrt(np.mean(z**2)):.3f} times the stated error)"
            noise = 0.76 * np.sqrt(2 / error.size) if n > options.rows else 0.0  # two standard errors
            low = 0.0 if name == "sorted rows" else 0.72  # whose features have one common error
            goal = f"{f'{low:g} to' if low else '≤'} 0.8{f' ± {noise:.2f}' if noise else ''}"
            fine = low - noise <= rms <= 0.80 + noise
            yield Figure(f"error of r, {name}, n = {n_rows:,}: times 1/√n", shown, goal, fine)


def respond(rng: np.random.Generator, X: np.ndarray, noise: np.ndarray | None = None) -> np.ndarray:
    n = len(X)
    noise = rng.standard_normal(n) if noise is None else noise
    return standardised(X[:, :N_SIGNALS]) * np.sqrt(n) @ np.linspace(0.02, 0.3, N_SIGNALS) + noise


def spike(rng: np.random.Generator, n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Forty features that all have the correlation 0.15, apart from 1e-7."""
    Q = np.linalg.qr(rng.standard_normal((n, 41)) @ np.eye(41))[0]
    Q = np.linalg.qr(np.column_stack([np.ones(n), Q]))[0][:, 1:]
    r = 0.15 + 1e-7 * np.arange(40)
    X = rng.standard_normal((n, p))
    X[:, :40] = (Q[:, :1] * r + Q[:, 1:41] * np.sqrt(1 - r**2)) * np.sqrt(n)
    return X[:, rng.permutation(p)], Q[:, 0] * np.sqrt(n)


def duplicated(rng: np.random.Generator, n: int, p: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((n, p))
    y = respond(rng, X)
    X[:, 100:200] = X[:, 18:23].repeat(20, axis=1) + noise * rng.standard_normal((n, 100))
    return X, y


def with_gaps(rng: np.random.Generator, n: int, p: int, by_response: bool) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((n, p))
    y = respond(rng, X)
    gaps = rng.random((n, p)) < 0.1
    if by_response:  # most cells are missing where the response is large
        gaps |= (np.abs(y - y.mean()) > np.quantile(np.abs(y - y.mean()), 0.9))[:, None] & (
            rng.random(p) < 0.5
        )
    return np.where(gaps, np.nan, X), y


def explained(rng: np.random.Generator, n: int, p: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    covariates = rng.standard_normal((n, 3))
    X = rng.standard_normal((n, p)) + covariates @ rng.normal(0, 1, (3, p))
    return X, respond(rng, X), {"covariates": covariates}


Design = Callable[[np.random.Generator, int, int], tuple[Any, ...]]


def plain(name: str) -> Design:
    def make(rng: np.random.Generator, n: int, p: int) -> tuple[Any, ...]:
        X = FEATURES[name](rng, n // 50 * 50, p)
        return X, respond(rng, X)

    return make


def of_response(change: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Design:
    def make(rng: np.random.Generator, n: int, p: int) -> tuple[Any, ...]:
        X = rng.standard_normal((n, p))
        return X, change(respond(rng, X), rng)

    return make


DESIGNS: dict[str, tuple[Design, dict[str, Any]]] = {
    **{name: (plain(name), {}) for name in FEATURES},
    "40 features with the same r": (spike, {}),
    "copies of features": (lambda *a: duplicated(*a, 0.0), {}),
    "almost copies of features": (lambda *a: duplicated(*a, 0.03), {}),
    "rare class": (of_response(lambda y, rng: (y > np.quantile(y, 0.99)).astype(float)), {}),
    "Cauchy response": (of_response(lambda y, rng: y + 0.2 * rng.standard_cauchy(len(y))), {}),
    "four classes": (
        of_response(lambda y, rng: np.digitize(y, np.quantile(y, [0.1, 0.5, 0.9]))),
        {"statistic": "anova"},
    ),
    "covariates": (explained, {}),
    "10% missing": (lambda *a: with_gaps(*a, False), {"missing": "pairwise"}),
    "missing where the response is large": (lambda *a: with_gaps(*a, True), {"missing": "pairwise"}),
    "noise": (lambda rng, n, p: (rng.standard_normal((n, p)), rng.standard_normal(n)), {}),
}


def certificates(options: argparse.Namespace) -> Iterator[Figure]:
    """How often certified selections are those of exact screening, and floors are kept."""
    for name, (make, settings) in DESIGNS.items():
        certified = right = kept = read = 0
        for run in range(options.runs):
            X, y, *given = make(np.random.default_rng(run), 2048, 400)
            given = given[0] if given else {}
            exact = SIS(D, n_jobs=1, **settings).fit(X, y, **given).result_
            source = Sketched(X, run + 10**6)
            result = BanditSIS(D, n_jobs=1, **settings).fit(source, y, **given).result_
            assert result.parameters["plan"] == "index"
            strong = np.abs(exact.scores[exact.selected]) >= result.detection_floor()
            if result.evidence.reach <= result.rounds[-1].cutoff:
                certified += 1
                right += set(exact.selected) == set(result.selected)
            else:
                kept += set(exact.selected[strong]) <= set(result.selected)
            read += result.rounds[-1].n_features
        n, floors = options.runs, options.runs - certified
        bound = 0.95 - 2 * np.sqrt(0.95 * 0.05 / max(certified, 1))
        shown = f"{right:,} of {certified:,} certified ({read / n:.0f} of 400 features read)"
        if certified:
            exactly = f"certified selection is exact, {name}"
            yield Figure(exactly, shown, "≥ 95% - 2 se", right >= bound * certified)
        if floors:
            bound = 0.95 - 2 * np.sqrt(0.95 * 0.05 / floors)
            yield Figure(
                f"floor holds, {name}", f"{kept:,} of {floors:,}", "≥ 95% - 2 se", kept >= bound * floors
            )


def stored(options: argparse.Namespace) -> Iterator[Figure]:
    """Size, build and query of an index on disk, and 100 responses together."""
    n, p, d = options.rows, options.features, 50
    rng, data = np.random.default_rng(0), Noise(n, p)
    first = data.read(slice(0, n), slice(0, min(p, 100)))
    y = first[:, :60] @ np.linspace(0.01, 0.08, 60, dtype="f4") + rng.standard_normal(n)
    Y = first / 20 + rng.standard_normal(first.shape)
    with tempfile.TemporaryDirectory() as folder:
        path = build_index(data, Path(folder) / "x.index", random_state=0)
        size = sum((path / name).stat().st_size for name in ("bits.npy", "moments.npy")) / (4 * n * p)
        yield Figure("bytes of bits and moments, of those of float32", f"{size:.2%}", "≤ 3.4%", size <= 0.034)
        source = open_source(path)
        for jobs in (1, None):
            index, exact = BanditSIS(d, n_jobs=jobs), SIS(d, n_jobs=jobs)
            u = standardised(y[:, None])
            with Workers(1 if jobs else 2) as workers:
                times = interleaved(
                    options.repeats,
                    bits=lambda u=u, workers=workers: source.sketch.estimate(
                        lambda rows: u[rows], workers, lambda rows: None
                    ),
                    index=lambda index=index: index.fit(source, y),
                    exact=lambda exact=exact: exact.fit(source, y),
                )
            threads = f"{jobs or 'all'} threads"
            ratio = times["exact"] / times["bits"]
            yield Figure(
                f"bits against exact SIS, {threads}: times as fast", f"{ratio:.1f}", "≥ 12", ratio >= 12
            )
            ratio = times["exact"] / times["index"]
            yield Figure(f"BanditSIS on the index against SIS, {threads}", f"{ratio:.1f}", "≥ 8", ratio >= 8)
        times = interleaved(
            1,
            together=lambda: BanditSIS(d).fit(source, Y),
            alone=lambda: [BanditSIS(d).fit(source, Y[:, k]) for k in range(10)],
        )
        ratio = 10 * times["alone"] / times["together"]
        yield Figure("100 responses together, against one by one", f"{ratio:.1f}", "≥ 3", ratio >= 3)


COLD_FIT = """
import sys, time
import numpy as np
from banditsis import SIS, BanditSIS, open_source
def bytes_read():
    return int(next(line for line in open("/proc/self/io") if line.startswith("read_bytes")).split()[1])
kind, y = {"SIS": SIS, "BanditSIS": BanditSIS}[sys.argv[1]], np.load(sys.argv[3])
X = np.random.default_rng(0).standard_normal((500, 300), dtype=np.float32)
kind(50).fit(X, X[:, 0])  # kernels and modules are loaded
before, started = bytes_read(), time.perf_counter()
kind(50).fit(open_source(sys.argv[2]), y)
print(time.perf_counter() - started, bytes_read() - before)
"""


def cold(path: Path, kind: Any, y: np.ndarray) -> tuple[float, float]:
    """Seconds of a fit to an index that is not in memory, and bytes that were read from the disk."""
    np.save(path.with_name("y.npy"), y)
    drop_cache(path)
    command = [sys.executable, "-c", COLD_FIT, kind.__name__, str(path), str(path.with_name("y.npy"))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, read = done.stdout.split()
    return float(seconds), float(read)


def disk(options: argparse.Namespace) -> Iterator[Figure]:
    """Time and bytes of screening an index that is not in memory."""
    data = Noise(options.rows, options.features)
    first = data.read(slice(0, options.rows), slice(0, 60))
    y = first @ np.linspace(0.05, 0.2, 60) + np.random.default_rng(1).standard_normal(options.rows)
    with tempfile.TemporaryDirectory() as folder:
        path = build_index(data, Path(folder) / "x.index", random_state=0)
        seconds, read = zip(*(cold(path, kind, y) for kind in (SIS, BanditSIS)), strict=True)
        share = read[1] / read[0]
        yield Figure("cold disk: bytes read, of those of SIS", f"{share:.1%}", "≤ 5%", share <= 0.05)
        ratio = seconds[0] / seconds[1]
        yield Figure("cold disk: times as fast as SIS", f"{ratio:.1f}", "≥ 8", ratio >= 8)


MEMORY_OF_BUILD = """
import sys
from banditsis import build_index
build_index(sys.argv[1], sys.argv[2], random_state=0)
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def built(options: argparse.Namespace) -> Iterator[Figure]:
    """Speed of rotation and packing, and of building an index of a Parquet file."""
    import pyarrow.parquet as pq

    n, p = options.rows, options.features
    columns, blocks = np.random.default_rng(0).standard_normal((64, n), dtype=np.float32), make_blocks(n)
    bits, moments = np.empty((n // 64 + 1, 64), np.uint64), np.empty((5 * len(blocks), 64))
    seconds = interleaved(options.repeats, encode=lambda: encode_panel(columns, blocks, 0, bits, moments))
    speed = columns.nbytes / 1e9 / seconds["encode"]
    yield Figure("rotation and packing, one thread", f"{speed:.2f} GB/s", "≥ 0.6 GB/s", speed >= 0.6)
    with tempfile.TemporaryDirectory() as folder:
        file, path = make_parquet(Path(folder) / "x.parquet", n, p), Path(folder) / "x.index"

        def read() -> None:
            opened, some = pq.ParquetFile(file), max(1, BYTES_IN_MEMORY // (4 * n))
            for start in range(0, p, some):
                opened.read(columns=[f"x{j}" for j in range(start, min(start + some, p))])

        def build() -> None:
            shutil.rmtree(path, ignore_errors=True)
            build_index(file, path, random_state=0)

        times = interleaved(options.repeats, read=read, build=build)
        shutil.rmtree(path)
        ratio = times["read"] / times["build"]
        shown = f"{ratio:.2f} ({4 * n * p / 1e9 / times['build']:.2f} GB/s)"
        yield Figure("building from Parquet, against reading the file", shown, "≥ 0.5", ratio >= 0.5)
        command = [sys.executable, "-c", MEMORY_OF_BUILD, str(file), str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        memory = int(done.stdout) * 1024 / 1e9
        yield Figure("memory of building from Parquet", f"{memory:.2f} GB", "≤ 1 GB", memory <= 1)


def recall(options: argparse.Namespace) -> Iterator[Figure]:
    """The true top 50 among 200 candidates of the bits, and of the best plan that reads as many bytes."""
    n, p, d = 50_000, 2000, 50
    for name, draw in FEATURES.items():
        rng = np.random.default_rng(0)
        X = draw(rng, n, p).astype(np.float32)
        y = standardised(X[:, :60]) * np.sqrt(n) @ np.linspace(0.01, 0.08, 60) + rng.standard_normal(n)
        top = set(SIS(d).fit(X, y).result_.selected)
        u = standardised(y[:, None])
        with Workers(2) as workers:
            found = Sketched(X, 1).sketch.estimate(lambda rows, u=u: u[rows], workers, lambda rows: None)
        r = np.abs(found.products[0]) / np.sqrt(np.maximum(found.squares, 1e-300))
        by_bits = len(top & set(np.argsort(-r)[: 4 * d]))
        by_plan = len(top & set(BanditSIS(4 * d, budget=1 / 32, random_state=0).fit(X, y).result_.selected))
        shown = f"{by_bits} (optimal plan: {by_plan})"
        yield Figure(f"true top 50 among 200 candidates, {name}", shown, "≥ 48", by_bits >= 48)


PARTS = {part.__name__: part for part in (errors, certificates, stored, disk, built, recall)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="20 runs by default, and no sample of a million rows"
    )
    parser.add_argument("--runs", type=int)
    parser.add_argument("--rows", type=int, default=1 << 16)
    parser.add_argument("--features", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--part", nargs="*", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    options.runs = options.runs or (20 if options.quick else 1000)
    figures = collect(figure for part in options.part for figure in PARTS[part](options))
    publish(figures, "bench-index", options.write, MARKER)


if __name__ == "__main__":
    main()
