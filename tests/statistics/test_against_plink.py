"""P-values and effect sizes given covariates are those of PLINK 2, with and without missing genotypes."""

import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from bed_reader import to_bed

from banditsis import Plan, screen
from banditsis.formats.opening import open_source

pytestmark = pytest.mark.skipif(shutil.which("plink2") is None, reason="plink2 is not on the PATH")


def write_table(path, **columns):
    lines = ["\t".join(["#FID", "IID", *columns])]
    for i, row in enumerate(zip(*columns.values(), strict=True)):
        lines.append("\t".join([f"F{i}", f"I{i}", *("NA" if np.isnan(v) else repr(float(v)) for v in row)]))
    path.write_text("\n".join(lines) + "\n")


def plink(folder, genotypes, y, Z):
    """Write the files; counted alleles, slopes, errors and log10 p-values of linear regression."""
    n, p = genotypes.shape
    ids = {"fid": [f"F{i}" for i in range(n)], "iid": [f"I{i}" for i in range(n)]}
    snps = {"sid": [f"rs{j}" for j in range(p)], "chromosome": ["1"] * p, "bp_position": range(1, p + 1)}
    snps |= {"allele_1": ["A", "G"] * (p // 2) + ["A"] * (p % 2), "allele_2": ["T"] * p}
    to_bed(folder / "x.bed", genotypes, properties={**ids, **snps})
    write_table(folder / "y.txt", y=y)
    write_table(folder / "z.txt", **{f"c{k}": column for k, column in enumerate(Z.T)})
    command = "plink2 --bfile x --pheno y.txt --covar z.txt --covar-variance-standardize --threads 1"
    subprocess.run(
        f"{command} --glm hide-covar log10 --out out".split(), cwd=folder, check=True, capture_output=True
    )
    table = pd.read_csv(folder / "out.y.glm.linear", sep="\t")
    (log10,) = (column for column in table if column.endswith("LOG10_P"))
    return table["A1"].to_numpy(), table["BETA"].to_numpy(), table["SE"].to_numpy(), -table[log10].to_numpy()


@pytest.mark.parametrize("share", [0.0, 0.03, 0.3])
def test_simulated_genotypes(tmp_path, share):
    rng = np.random.default_rng(0)
    n, p = 800, 60
    X = rng.binomial(2, rng.uniform(0.1, 0.5, p), (n, p)).astype("f4")
    Z = rng.standard_normal((n, 10)) + 0.3 * X[:, :10]
    y = Z @ rng.standard_normal(10) + 0.5 * X[:, 5] + rng.standard_normal(n)
    X[rng.random(X.shape) < share] = np.nan
    y[3], Z[7, 2] = np.nan, np.nan
    counted, beta, se, expected = plink(tmp_path, X, y, Z)
    assert expected.min() < -10
    source = open_source(tmp_path / "x.bed")
    result = screen(source, y, Plan.exact(n, p, p), covariates=Z, missing="pairwise", pvalues=True)
    found = result.to_frame().sort_values("index")
    np.testing.assert_allclose(found.log10_pvalue, expected, atol=2e-5, rtol=1e-5)
    same_allele = (found.a1 == counted).to_numpy()
    np.testing.assert_allclose(found.beta, np.where(same_allele, beta, -beta), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.se, se, rtol=1e-5)
