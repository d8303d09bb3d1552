"""Reading from disk: shuffled stores, Parquet, PLINK, sparse matrices, interruptions and damaged files.

python benchmarks/io.py [--gigabytes 20] [--folder FOLDER] [--only NAME …]

Bytes are counted by the operating system for a process of its own, with the page cache dropped.
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
from banditsis.store.metadata import verify
from banditsis.store.reader import ShuffledSource
from io_faults import faults
from screening import Figure, at_least, at_most

HERE = Path(__file__).resolve().parent
ROWS, COLUMNS = 1_000_000, 5_000


def worker(path: Path, *arguments: object) -> dict[str, float]:
    """Measure in a new process, with nothing of the file in memory."""
    io_data.drop_cache(path)
    task, *rest = (str(argument) for argument in arguments)
    command = [sys.executable, str(HERE / "io_worker.py"), task, str(path), *rest]
    measured: dict[str, float] = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    return measured


def cat(path: Path) -> float:
    """Seconds to read all files of a store."""
    io_data.drop_cache(path)
    files = [str(file) for file in io_data.files_of(path)]
    started = time.perf_counter()
    subprocess.run(["cat", *files], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def store(folder: Path, gigabytes: float) -> Iterator[Figure]:
    """The paper's plan and exact screening of a shuffled store."""
    p = max(50, min(COLUMNS, int(gigabytes * 1e9 / 4 / ROWS)))
    path = io_data.make_store(folder / "shuffled.zarr", ROWS, p)
    runs: dict[str, list[dict[str, float]]] = {"exact": [], "bandit": []}
    reading = []
    for _ in range(3):  # in turns, so that a slow minute hits all alike
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
    """Bytes of the last round in proportion to the columns that are left."""
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
    """A sparse matrix by column, exact."""
    from sparse import measure

    for what, value, most in measure(min(1.0, gigabytes / 20)):
        yield at_most(what, value, most, "×")


def plink(folder: Path, gigabytes: float) -> Iterator[Figure]:
    """Mouse genotypes, phenotype CD8, exact."""
    zipped = next(
        (
            up / "shared/data/gemma_mouse_hs1940"
            for up in HERE.parents
            if (up / "shared/data/gemma_mouse_hs1940").is_dir()
        ),
        None,
    )
    if zipped is None:
        yield Figure("PLINK mouse data: the eight best SNPs on chromosome 17", "no data here", "8", False)
        return
    for file in zipped.glob("mouse_hs1940.*.gz"):
        (folder / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    bed, pheno = folder / "mouse_hs1940.bed", folder / "mouse_hs1940.pheno.txt"
    record = json.loads(
        run_command("screen", bed, "--target", f"{pheno}:1", "--exact", "--keep", 8, "--json").stdout
    )
    places = dict(line.split()[1::-1] for line in (folder / "mouse_hs1940.bim").read_text().splitlines())
    on_17 = sum(places[feature["name"]] == "17" for feature in record["features"])
    best = abs(record["features"][0]["score"])
    yield Figure(
        "PLINK mouse data, CD8, exact: the best SNPs on chromosome 17", f"{on_17} of 8", "8 of 8", on_17 == 8
    )
    yield Figure("the same: |r| of the best", f"{best:.3f}", "0.402", f"{best:.3f}" == "0.402")
    for file in folder.glob("mouse_hs1940.*"):
        file.unlink()


def kills(folder: Path, gigabytes: float) -> Iterator[Figure]:
    """Kill -9 at ten random moments, then the same command again."""
    X = np.random.default_rng(0).standard_normal((40_000, 301)).astype("f4")
    np.save(folder / "x.npy", X)
    data, path = folder / "x.npy", folder / "killed.zarr"
    command = banditsis("shuffle", data, path, "--seed", 1, "--memory-limit", "17MB", "--quiet")
    started = time.perf_counter()
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - started
    whole, moments = 0, random.Random(0)
    for _ in range(10):
        shutil.rmtree(path)
        process = subprocess.Popen(command)
        time.sleep(moments.uniform(0.2, 1) * seconds)
        process.kill()
        process.wait()
        left = path.exists()  # then it had just finished
        subprocess.run(command, check=not left, stderr=subprocess.DEVNULL)
        source = ShuffledSource(path)
        right = np.array_equal(source.read(slice(0, len(X)), None), X[source.original_rows])
        whole += right and not verify(path, source.record)
    yield Figure(
        "kill -9 during `shuffle`, the same command again: whole and right",
        f"{whole} of 10",
        "10 of 10",
        whole == 10,
    )
    shutil.rmtree(path)
    data.unlink()


def damage(folder: Path, gigabytes: float) -> Iterator[Figure]:
    """Files that are truncated, corrupted, empty, misnamed and so on."""
    place = folder / "faults"
    place.mkdir()
    good, names = 0, []
    for name, arguments in faults(place):
        before = sorted(place.rglob("*"))
        ended = run_command("screen", *arguments, "--output", place / "out.csv")
        clear = ended.returncode in (1, 2) and "error: " in ended.stderr and "Traceback" not in ended.stderr
        if clear and not ended.stdout and sorted(place.rglob("*")) == before:
            good += 1
        else:
            names.append(name)
    total = good + len(names)
    missed = f" (not: {', '.join(names)})" if names else ""
    yield Figure(
        "damaged and odd files: one clear message, nothing written",
        f"{good} of {total}{missed}",
        "all",
        not names,
    )
    shutil.rmtree(place)


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
    parser.add_argument("--gigabytes", type=float, default=20, help="of the shuffled store")
    parser.add_argument("--folder", type=Path, help="where large files go; a temporary folder by default")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="banditsis-io-"))
    folder.mkdir(exist_ok=True)
    free = shutil.disk_usage(folder).free / 1e9
    gigabytes = min(options.gigabytes, free / 1.5)
    print("| what | measured | to reach | |\n|---|---|---|---|", flush=True)
    try:
        for name in options.only:
            for figure in PARTS[name](folder, gigabytes):
                mark = "✓" if figure.met else "missed"
                print(f"| {figure.what} | {figure.measured} | {figure.goal} | {mark} |", flush=True)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
