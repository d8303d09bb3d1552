"""Cost of reading files: bytes counted by the operating system, and times relative to cat.

python benchmarks/formats.py [--quick] [--folder DIR]

Needs 11 GB of disk, or 1.5 GB with --quick. Each cold run starts with the files dropped from the page cache.
"""

from __future__ import annotations

import argparse
import gzip
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

from banditsis import Plan, open_source, screen
from io_data import drop_cache

MICE = Path(__file__).parents[2] / "shared" / "data" / "gemma_mouse_hs1940"
rng = np.random.default_rng(0)


def bytes_read() -> int:
    """Return the bytes that this process has read, from disk or the page cache."""
    return int(Path("/proc/self/io").read_text().split()[1])


def timed(run, *args) -> float:
    started = time.perf_counter()
    run(*args)
    return time.perf_counter() - started


def cat(folder: Path) -> None:
    subprocess.run(f"find '{folder}' -type f | sort | xargs cat > /dev/null", shell=True, check=True)


def write_parquet(path: Path, n: int, p: int, height: int) -> None:
    schema = pa.schema([(f"x{j}", pa.float32()) for j in range(p)])
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for _ in range(0, n, height):
            block = rng.standard_normal((p, height), dtype=np.float32)
            writer.write_table(pa.Table.from_arrays([pa.array(row) for row in block], schema=schema))


def parquet(folder: Path, n: int, p: int, height: int) -> None:
    """Bytes of a last round that reads all rows of 100 columns."""
    path = folder / "wide.parquet"
    write_parquet(path, n, p, height)
    opening = timed(open_source, path)
    source, y = open_source(path), rng.standard_normal(n)
    size = path.stat().st_size
    first = Plan(n, p, ((height, 100),))
    both = Plan(n, p, ((height, 100), (n, 50)))
    counts = []
    for plan in (first, both):
        before = bytes_read()
        screen(source, y, plan, row_order="stored")
        counts.append(bytes_read() - before)
    cells = 100 / p * (n - height) / n
    share = (counts[1] - counts[0]) / size
    print(f"Parquet {n:,} × {p:,}, {size / 1e9:.2f} GB: opened in {opening:.2f} s")
    print(f"  last round, 100 columns: {share:.3%} of the bytes for {cells:.3%} of the cells")


LAYOUTS = {
    "as it is": {"chunks": (8192, 128), "compressors": None},
    "zstd": {"chunks": (8192, 128)},
    "shards": {"chunks": (8192, 32), "shards": (8192, 512), "compressors": None},
}


def zarr_exact(folder: Path, n: int, p: int) -> None:
    y = rng.standard_normal(n)
    for name, options in LAYOUTS.items():
        path = folder / f"{name.replace(' ', '-')}.zarr"
        array = zarr.create_array(str(path), shape=(n, p), dtype="f4", **options)
        for i in range(0, n, 8192):
            array[i : i + 8192] = rng.standard_normal((min(n - i, 8192), p), dtype=np.float32)
        source = open_source(path)
        exact = lambda source=source: screen(source, y, Plan.exact(n, p, 100))  # noqa: E731
        exact()  # compiles, and fills the page cache
        warm = min(timed(exact) for _ in range(3)) / min(timed(cat, path) for _ in range(3))
        cold = []
        for run in (exact, lambda path=path: cat(path)):
            drop_cache(path)
            cold.append(timed(run))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"Zarr {name}, {4e-9 * n * p:.1f} GB, exact against cat: {cold[0] / cold[1]:.2f} × "
            f"({cold[0]:.1f} s), from the page cache {warm:.2f} ×; peak memory {memory:.2f} GB"
        )


def mice(folder: Path) -> None:
    if not MICE.exists():
        print("PLINK: the mouse data are not available")
        return
    for suffix in ("bed", "bim", "fam", "pheno.txt"):
        packed = (MICE / f"mouse_hs1940.{suffix}.gz").read_bytes()
        (folder / f"mice.{suffix}").write_bytes(gzip.decompress(packed))
    cd8 = np.genfromtxt(folder / "mice.pheno.txt", usecols=0, missing_values="NA")
    source = open_source(folder / "mice.bed")
    plan = Plan.exact(*source.shape, 8)
    result = screen(source, cd8, plan, missing="pairwise")
    seconds = timed(lambda: screen(source, cd8, plan, missing="pairwise"))
    chromosomes = sorted(set(source.bed.chromosome[result.selected].tolist()))
    best = float(np.abs(result.scores).max())
    print(
        f"PLINK mice, CD8 of {np.isfinite(cd8).sum():,}: the best eight on chromosome "
        f"{', '.join(chromosomes)}, best |r| {best:.3f}, {seconds:.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        mice(folder)
        zarr_exact(folder, *((50_000, 1000) if options.quick else (200_000, 2500)))
        parquet(folder, *((20_000, 10_000, 2_000) if options.quick else (200_000, 10_000, 20_000)))


if __name__ == "__main__":
    main()
