"""P-values given covariates compared with those of PLINK 2, complete and with missing genotypes.

python benchmarks/plink.py [--rows 5000] [--snps 2000]

Needs plink2 on the PATH (Debian: apt install plink2). It regresses the phenotype on each SNP and the
covariates in the samples whose genotype is known. The mouse data are used if they are beside the project; 3%
of their genotypes are removed, because the file has no gaps.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from bed_reader import open_bed, to_bed

from banditsis import Plan, open_source, screen

MICE = "shared/data/gemma_mouse_hs1940"


def write(path: Path, genotypes: np.ndarray) -> None:
    n, p = genotypes.shape
    properties = {
        "fid": [f"F{i}" for i in range(n)],
        "iid": [f"I{i}" for i in range(n)],
        "sid": [f"rs{j}" for j in range(p)],
        "chromosome": ["1"] * p,
        "bp_position": np.arange(1, p + 1),
    }
    to_bed(path, genotypes, properties=properties)


def write_table(path: Path, columns: dict[str, np.ndarray]) -> None:
    n = len(next(iter(columns.values())))
    lines = ["\t".join(["#FID", "IID", *columns])]
    for i in range(n):
        values = ("NA" if np.isnan(column[i]) else repr(float(column[i])) for column in columns.values())
        lines.append("\t".join([f"F{i}", f"I{i}", *values]))
    path.write_text("\n".join(lines) + "\n")


def plink_log10(bed: Path, y: np.ndarray, covariates: np.ndarray) -> np.ndarray:
    """Decimal logarithms of the p-values of PLINK, NaN where it has none."""
    folder = bed.parent
    write_table(folder / "y.txt", {"y": y})
    write_table(folder / "covariates.txt", {f"c{k}": column for k, column in enumerate(covariates.T)})
    command = ["plink2", "--bfile", bed.with_suffix(""), "--pheno", folder / "y.txt"]
    command += ["--covar", folder / "covariates.txt", "--covar-variance-standardize", "--threads", "1"]
    command += ["--glm", "hide-covar", "log10", "allow-no-covars", "--out", folder / "out"]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    with open(folder / "out.y.glm.linear") as lines:
        names = next(lines).split()
        column = next(k for k, name in enumerate(names) if name.upper().endswith("LOG10_P"))
        values = [line.split()[column] for line in lines]
    return np.array([np.nan if value == "NA" else -float(value) for value in values])


def compare(name: str, bed: Path, y: np.ndarray, covariates: np.ndarray) -> None:
    source = open_source(bed)
    started = time.perf_counter()
    plan = Plan.exact(*source.shape, min(10, source.shape[1]))
    result = screen(source, y, plan, covariates=covariates, missing="pairwise", pvalues=True, n_jobs=1)
    ours = time.perf_counter() - started
    started = time.perf_counter()
    theirs = plink_log10(bed, y, covariates)
    seconds = time.perf_counter() - started
    both = np.isfinite(theirs) & (result.log10_pvalues < 0)
    difference = np.abs(result.log10_pvalues - theirs)[both]
    relative = np.abs(10 ** (result.log10_pvalues - theirs)[both] - 1)
    raised = f"; {result.evidence.cells_reread // source.shape[0]:,} small p-values checked" * bool(
        result.evidence.cells_reread
    )
    print(
        f"{name}: {both.sum():,} of {len(both):,} SNPs, smallest log10 p {theirs[both].min():.1f}, "
        f"max |Δ log10 p| {difference.max():.1e}, of p relative {relative.max():.1e}; "
        f"{ours:.2f} s against {seconds:.2f} s of plink2{raised}"
    )


def simulated(folder: Path, n: int, p: int) -> None:
    rng = np.random.default_rng(0)
    genotypes = rng.binomial(2, rng.uniform(0.05, 0.5, p), (n, p)).astype("f4")
    covariates = rng.standard_normal((n, 10)) + 0.3 * genotypes[:, :10]
    y = covariates @ rng.standard_normal(10) + 0.3 * genotypes[:, 5] + rng.standard_normal(n)
    write(folder / "complete.bed", genotypes)
    compare("complete", folder / "complete.bed", y, covariates)
    genotypes[rng.random(genotypes.shape) < 0.03] = np.nan
    write(folder / "missing.bed", genotypes)
    compare("3% missing", folder / "missing.bed", y, covariates)


def mice(folder: Path) -> None:
    found = [parent / MICE for parent in Path(__file__).resolve().parents if (parent / MICE).exists()]
    if not found:
        print("the mouse data are not available")
        return
    for suffix in ("bed", "bim", "fam", "pheno.txt"):
        packed = (found[0] / f"mouse_hs1940.{suffix}.gz").read_bytes()
        (folder / f"mice.{suffix}").write_bytes(gzip.decompress(packed))
    with open_bed(folder / "mice.bed") as bed:
        genotypes = bed.read(dtype="float32")
    rng = np.random.default_rng(1)
    varies = genotypes.std(axis=0) > 0
    components = np.linalg.svd(genotypes - genotypes.mean(axis=0), full_matrices=False)[0][:, :10]
    phenotypes = np.genfromtxt(folder / "mice.pheno.txt", missing_values="NA")
    genotypes[rng.random(genotypes.shape) < 0.03] = np.nan
    write(folder / "gaps.bed", genotypes[:, varies])
    for name, y in (
        ("mice, simulated phenotype", rng.standard_normal(len(genotypes)) + 30 * components[:, 0]),
        ("mice, CD8", phenotypes[:, 0]),
        ("mice, MCH", phenotypes[:, 5]),
    ):
        compare(f"{name}, 10 components, 3% missing", folder / "gaps.bed", y, components)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--snps", type=int, default=2000)
    options = parser.parse_args()
    if shutil.which("plink2") is None:
        raise SystemExit("plink2 is not on the PATH: install it (Debian: apt install plink2).")
    with tempfile.TemporaryDirectory() as name:
        simulated(Path(name), options.rows, options.snps)
        mice(Path(name))


if __name__ == "__main__":
    main()
