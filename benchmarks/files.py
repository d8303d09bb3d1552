"""Exact screening of files against PLINK 2 (genotypes) and polars (Parquet), as whole processes.

python benchmarks/files.py [--repeats 3] [--folder DIR] [--snps 100000] [--rows 1000000]

Each line is the time of the other program divided by that of `banditsis screen`, which also ranks features
and computes adjusted p-values. Kernels are compiled before. Runs alternate, and the best of each counts. The
time without start-up is that beyond `banditsis screen` of a file with 100 rows. PLINK is used if plink2 is on
the PATH (Debian: apt install plink2), and polars if it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from multiprocessing import Process
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from processes import Cost, compare, run
from reporting import Figure, at_least, at_most, collect, machine, table

N_SAMPLES, N_PHENOTYPES, N_COVARIATES = 5000, 100, 5
N_COLUMNS, GROUP = 500, 50_000
SCREEN = [sys.executable, "-m", "banditsis.cli.app", "screen"]
#: Bits of 0, 1, 2 and missing copies of the first allele in a .bed file.
CODES = np.array([3, 2, 0, 1], np.uint8)
POLARS = """
import sys, polars as pl
names = [name for name in pl.scan_parquet(sys.argv[1]).collect_schema().names() if name != "y"]
pl.scan_parquet(sys.argv[1]).select([pl.corr(name, "y") for name in names]).collect()
"""


def write_genotypes(path: Path, n_samples: int, n_snps: int, missing: float) -> None:
    """Write binomial genotypes, a few SNPs at a time."""
    rng = np.random.default_rng(0)
    with open(path, "wb") as file:
        file.write(b"\x6c\x1b\x01")
        for start in range(0, n_snps, 1000):
            size = min(1000, n_snps - start), -(-n_samples // 4) * 4
            copies = rng.binomial(2, rng.uniform(0.05, 0.5, (size[0], 1)), size)
            copies[rng.random(size) < missing] = 3
            copies[:, n_samples:] = 2  # unused bits are 0
            bits = CODES[copies].reshape(size[0], -1, 4) << np.array([0, 2, 4, 6], np.uint8)
            file.write(np.bitwise_or.reduce(bits, axis=2).tobytes())
    snps = (f"1\trs{j}\t0\t{j + 1}\tA\tG\n" for j in range(n_snps))
    path.with_suffix(".bim").write_text("".join(snps))
    samples = (f"F{i}\tI{i}\t0\t0\t1\t-9\n" for i in range(n_samples))
    path.with_suffix(".fam").write_text("".join(samples))


def write_samples(path: Path, prefix: str, values: np.ndarray) -> None:
    """Write columns of numbers after the ids of the samples."""
    lines = ["\t".join(["#FID", "IID", *(f"{prefix}{k}" for k in range(values.shape[1]))])]
    lines += ["\t".join([f"F{i}", f"I{i}", *map(repr, row)]) for i, row in enumerate(values.tolist())]
    path.write_text("\n".join(lines) + "\n")


def describe(name: str, theirs: Cost, ours: Cost, start: Cost) -> Figure:
    """Print the costs of both programs; return their ratio."""
    rest = (other - start_part for other, start_part in zip(ours[:2], start[:2], strict=True))
    seconds, cpu_seconds = (max(value, 1e-3) for value in rest)
    print(
        f"{name}: {theirs.seconds:.2f} s, {theirs.cpu_seconds:.2f} s of CPU, {theirs.peak:.2f} GB; ours "
        f"{ours.seconds:.2f} s, {ours.cpu_seconds:.2f} s of CPU, {ours.peak:.2f} GB; without start-up "
        f"{seconds:.2f} s ({theirs.seconds / seconds:.2f}), {cpu_seconds:.2f} s of CPU "
        f"({theirs.cpu_seconds / cpu_seconds:.2f})"
    )
    return at_least(name, theirs.seconds / ours.seconds, 0.9 if "polars" in name else 1)


def genotypes(folder: Path, repeats: int, n_snps: int) -> Iterator[Figure]:
    rng = np.random.default_rng(1)
    for name, n, p, missing in (
        ("start", 100, 100, 0.0),
        ("complete", N_SAMPLES, n_snps, 0.0),
        ("missing", N_SAMPLES, n_snps, 0.01),
    ):
        write_genotypes(folder / f"{name}.bed", n, p, missing)
    write_samples(folder / "y.txt", "y", rng.standard_normal((N_SAMPLES, N_PHENOTYPES)))
    write_samples(folder / "one.txt", "y", rng.standard_normal((N_SAMPLES, 1)))
    write_samples(folder / "c.txt", "c", rng.standard_normal((N_SAMPLES, N_COVARIATES)))
    covariates = f"{folder / 'c.txt'}:{','.join(f'c{k}' for k in range(N_COVARIATES))}"

    def ours(bed: str, phenotypes: str, n: int, *options: object) -> list[object]:
        targets = [part for k in range(n) for part in ("--target", f"{folder / phenotypes}:y{k}")]
        output = "--output", folder / "ours.csv"
        return [*SCREEN, folder / bed, *targets, *options, "--exact", "--quiet", *output]

    def plink(bed: str, phenotypes: str, *options: object) -> list[object]:
        given = ["--bfile", folder / bed.removesuffix(".bed"), "--pheno", folder / phenotypes, *options]
        return ["plink2", *given, "--threads", "2", "--out", folder / "plink"]

    adjusted = "--covar", folder / "c.txt", "--glm", "hide-covar"
    plain = "--glm", "allow-no-covars"
    cases: dict[str, tuple[Sequence[object], Sequence[object]]] = {
        "complete": (plink("complete.bed", "one.txt", *plain), ours("complete.bed", "one.txt", 1)),
        "1% missing": (plink("missing.bed", "one.txt", *plain), ours("missing.bed", "one.txt", 1)),
        "5 covariates": (
            plink("complete.bed", "one.txt", *adjusted),
            ours("complete.bed", "one.txt", 1, "--covariates", covariates),
        ),
        f"{N_PHENOTYPES} phenotypes, 5 covariates": (
            plink("complete.bed", "y.txt", *adjusted),
            ours("complete.bed", "y.txt", N_PHENOTYPES, "--covariates", covariates),
        ),
    }
    for name, (theirs, command) in cases.items():
        run(command)  # compiles kernels
        best = compare({"theirs": theirs, "ours": command, "start": ours("start.bed", "one.txt", 1)}, repeats)
        yield describe(f"PLINK 2 / ours, {name}", best["theirs"], best["ours"], best["start"])


def write_parquet(path: Path, n: int, group: int) -> None:
    """Write normal float32 noise and a response."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_COLUMNS, n), dtype=np.float32)
    columns = {f"x{j}": X[j] for j in range(N_COLUMNS)}
    pq.write_table(pa.table({**columns, "y": X[3] - X[7]}), path, row_group_size=group)


def parquet(folder: Path, repeats: int, n: int) -> Iterator[Figure]:
    path, start = folder / "table.parquet", folder / "start.parquet"
    write_parquet(start, 100, 100)
    for group in (GROUP, n):
        # In a process of its own, because the peak memory of a child is at least that of its parent.
        writer = Process(target=write_parquet, args=(path, n, group))
        writer.start()
        writer.join()
        ours, first = ([*SCREEN, data, "--target", "y", "--exact", "--quiet"] for data in (path, start))
        run(ours)  # compiles kernels
        theirs = [sys.executable, "-c", POLARS, path]
        best = compare({"theirs": theirs, "ours": ours, "start": first}, repeats)
        name = f"row groups of {group:,}"
        yield describe(f"polars / ours, {name}", best["theirs"], best["ours"], best["start"])
        yield at_most(f"memory, {name}", best["ours"].peak, 1.2, " GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--snps", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        parts = []
        if shutil.which("plink2"):
            parts.append(genotypes(Path(name), options.repeats, options.snps))
        if importlib.util.find_spec("polars"):
            parts.append(parquet(Path(name), options.repeats, options.rows))
        print(table(collect(chain(*parts))))


if __name__ == "__main__":
    main()
