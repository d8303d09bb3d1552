"""Reading from disk: indexes, Parquet, PLINK, sparse matrices, interruptions and invalid files.

python benchmarks/io.py [--gigabytes 20] [--folder FOLDER] [--only NAME …]

Bytes are counted by the operating system, in a separate process and with an empty page cache.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import io_data
from banditsis.index.folder import verify
from banditsis.index.reader import IndexSource
from io_faults import faults
from reporting import Figure, at_least, at_most, collect, table

HERE = Path(__file__).resolve().parent
ROWS, COLUMNS = 1_000_000, 5_000


def worker(path: Path, *arguments: object) -> dict[str, float]:
    """Measure in a new process, with the file dropped from the page cache."""
    io_data.drop_cache(path)
    task, *rest = (str(argument) for argument in arguments)
    command = [sys.executable, str(HERE / "io_worker.py"), task, str(path), *rest]
    measured: dict[str, float] = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    return measured


def cat(path: Path) -> float:
    """Return the seconds to read all files of a store."""
    io_data.drop_cache(path)
    files = [str(file) for file in io_data.files_of(path)]
    started = time.perf_counter()
    subprocess.run(["cat", *files], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def store(folder: Path, gigabytes: float) -> Iterator[Figure]:
    """The paper's plan and exact screening of a shuffled store."""
    p = max(50, min(COLUMNS, int(gigabytes * 1e9 / 4 / ROWS)))
    path = io_data.make_store(folder / "x.index", ROWS, p)
    runs: dict[str, list[dict[str, float]]] = {"exact": [], "bandit": []}
    reading = []
    for _ in range(3):  # in turns, so slow periods affect all of them
        reading.append(cat(path))
        for kind, measured in runs.items():
            measured.append(worker(path, "screen", kind))
    exact, bandit = (min(measured, key=lambda m: m["seconds"]) for measured in runs.values())
    size = f"{ROWS * p * 4 / 1e9:.3g} GB"
    share = bandit["bytes"] / exact["bytes"] / bandit["fraction"]
    what = f"shuffled Zarr, {size}, {ROWS:,} × {p:,} float32, α = 0.5"
    yield at_most(f"{what}: share of the bytes of exact SIS, in shares of the cells", share, 3, "×")
    yield at_least(f"{what}: time of exact SIS", exact["seconds"] / bandit["seconds"], 25, "×")
    yield at_most(
        f"exact SIS of that store: time of `cat`, {min(reading):.1f} s",
        exact["seconds"] / min(reading),
        2,
        "×",
    )
    yield at_most(
        "exact SIS of that store: peak memory", max(m["peak"] for m in runs["exact"]) / 1e9, 1, " GB"
    )
    shutil.rmtree(path)


def parquet(folder: Path, gigabytes: float) -> Iterator[Figure]:
    """Bytes read in the last round, relative to the share of columns."""
    n = max(20_000, min(200_000, int(gigabytes / 8 * 200_000) // 20_000 * 20_000))
    path = io_data.make_parquet(folder / "wide.parquet", n, 10_000)
    cells = n * 10_000 * 4
    for count in (100, 400):
        measured = worker(path, "columns", count)
        share = measured["bytes"] / cells / measured["share"]
        yield at_most(
            f"Parquet, {n:,} × 10,000, {count} columns in the last round: bytes, in shares of theirs",
            share,
            1.5,
            "×",
        )
    path.unlink()


def sparse(folder: Path, gigabytes: float) -> Iterator[Figure]:
    """A sparse CSC matrix, exact."""
    from sparse_matrices import measure

    yield measure(min(1.0, gigabytes / 20))


def plink(folder: Path, gigabytes: float) -> Iterator[Figure]:
    """Mouse genotypes, phenotype CD8, exact."""
    candidates = [parent / "shared/data/gemma_mouse_hs1940" for parent in HERE.parents]
    data = next((path for path in candidates if path.is_dir()), None)
    if data is None:
        yield Figure("PLINK mouse data: the eight best SNPs on chromosome 17", "no data here", "8", False)
        return
    for file in data.glob("mouse_hs1940.*.gz"):
        (folder / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    bed, pheno = folder / "mouse_hs1940.bed", folder / "mouse_hs1940.pheno.txt"
    record = json.loads(
        run_command("screen", bed, "--target", f"{pheno}:1", "--exact", "--keep", 8, "--json").stdout
    )
    chromosomes = dict(line.split()[1::-1] for line in (folder / "mouse_hs1940.bim").read_text().splitlines())
    on_17 = sum(chromosomes[feature["name"]] == "17" for feature in record["features"])
    best = abs(record["features"][0]["score"])
    yield Figure(
        "PLINK mouse data, CD8, exact: the best SNPs on chromosome 17", f"{on_17} of 8", "8 of 8", on_17 == 8
    )
    yield Figure("the same: |r| of the best", f"{best:.3f}", "0.402", f"{best:.3f}" == "0.402")
    for file in folder.glob("mouse_hs1940.*"):
        file.unlink()


def kills(folder: Path, gigabytes: float) -> Iterator[Figure]:
    """Kill the building of an index at ten random times, and run the same command again."""
    X = np.random.default_rng(0).standard_normal((40_000, 301)).astype("f4")
    np.save(folder / "x.npy", X)
    data, path = folder / "x.npy", folder / "killed.index"
    command = banditsis("index", data, "--out", path, "--seed", 1, "--memory-limit", "17MB", "--quiet")
    started = time.perf_counter()
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - started
    n_correct, times = 0, random.Random(0)
    for _ in range(10):
        shutil.rmtree(path)
        process = subprocess.Popen(command)
        time.sleep(times.uniform(0.2, 1) * seconds)
        process.kill()
        process.wait()
        finished = path.exists()  # before the kill
        subprocess.run(command, check=not finished, stderr=subprocess.DEVNULL)
        source = IndexSource(path)
        correct = np.array_equal(source.read(slice(0, len(X)), None), X[source.original_rows])
        n_correct += correct and not verify(path)
    yield Figure(
        "kill -9 during `index`, the same command again: complete and correct",
        f"{n_correct} of 10",
        "10 of 10",
        n_correct == 10,
    )
    for left in (path, *folder.glob("killed.index.*")):
        shutil.rmtree(left)
    data.unlink()


def damage(folder: Path, gigabytes: float) -> Iterator[Figure]:
    """Truncated, corrupted, empty, misnamed and other invalid files."""
    faults_folder = folder / "faults"
    faults_folder.mkdir()
    n_clear, unclear = 0, []
    for name, arguments in faults(faults_folder):
        before = sorted(faults_folder.rglob("*"))
        done = run_command("screen", *arguments, "--output", faults_folder / "out.csv")
        clear = done.returncode in (1, 2) and "error: " in done.stderr and "Traceback" not in done.stderr
        if clear and not done.stdout and sorted(faults_folder.rglob("*")) == before:
            n_clear += 1
        else:
            unclear.append(name)
    total = n_clear + len(unclear)
    missed = f" (not: {', '.join(unclear)})" if unclear else ""
    yield Figure(
        "invalid files: one clear message, nothing written",
        f"{n_clear} of {total}{missed}",
        "all",
        not unclear,
    )
    shutil.rmtree(faults_folder)


def banditsis(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "banditsis.cli.app", *(str(argument) for argument in arguments)]


def run_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(banditsis(*arguments), check=False, capture_output=True, text=True)


PARTS = {
    "store": store,
    "parquet": parquet,
    "sparse": sparse,
    "plink": plink,
    "kills": kills,
    "faults": damage,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=20, help="size of the shuffled store")
    parser.add_argument("--folder", type=Path, help="folder for large files; temporary by default")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="banditsis-io-"))
    folder.mkdir(exist_ok=True)
    free = shutil.disk_usage(folder).free / 1e9
    gigabytes = min(options.gigabytes, free / 1.5)
    try:
        figures = collect(figure for name in options.only for figure in PARTS[name](folder, gigabytes))
        print(f"\n{table(figures)}")
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
