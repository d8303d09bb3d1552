"""
Genome-wide association with covariates
=======================================

A cohort has genotypes in PLINK files, and a table of samples with a phenotype and covariates. Which
variants are associated with the phenotype? This tutorial computes p-values adjusted for covariates, draws
a Manhattan plot and a Q–Q plot, and compares the numbers with those of PLINK 2.

The data are simulated, because real genotypes of people may not be shared. They have what makes real ones
difficult: rare and common variants, linkage disequilibrium, missing calls, and three populations that differ
both in their allele frequencies and in the phenotype.
"""

# %%
# The cohort
# ----------
# Alleles next to each other on a chromosome are correlated. Here the correlation falls with the
# distance, and is lost at recombination hotspots, which separate blocks. Allele frequencies differ
# between populations as in the Balding–Nichols model with :math:`F_{ST} = 0.05`.

import numpy as np
from scipy.special import ndtri

rng = np.random.default_rng(1)
n_people, n_variants, n_chromosomes = 3_000, 30_000, 22

# Chromosomes get shorter from 1 to 22, as human chromosomes do.
lengths = np.linspace(2.5, 0.5, n_chromosomes)
chromosome = np.sort(rng.choice(n_chromosomes, n_variants, p=lengths / lengths.sum()) + 1)
steps = rng.exponential(5_000, n_variants).astype(int) + 1
position = np.concatenate([np.cumsum(steps[chromosome == c]) for c in range(1, n_chromosomes + 1)])
new_block = (np.diff(chromosome, prepend=0) > 0) | (rng.random(n_variants) < 0.04)
similarity = np.where(new_block, 0, np.exp(-steps / 30_000))

population = rng.choice(3, n_people, p=[0.6, 0.25, 0.15])
ancestral = rng.beta(0.6, 1.2, n_variants).clip(0.01, 0.99)
scale = (1 - 0.05) / 0.05
frequencies = rng.beta(ancestral * scale, (1 - ancestral) * scale, (3, n_variants)).clip(0.005, 0.995)
thresholds = ndtri(frequencies).astype("f4")

genotypes = np.zeros((n_variants, n_people), dtype="int8")
for _ in range(2):  # two copies of each chromosome
    z = rng.standard_normal(n_people, dtype="f4")
    for j, r in enumerate(similarity.astype("f4")):
        z = r * z + np.sqrt(1 - r * r) * rng.standard_normal(n_people, dtype="f4")
        genotypes[j] += z < thresholds[population, j]

# %%
# The phenotype is a height in cm. It depends on sex, age, the population (for reasons that are not
# genetic) and 12 causal variants. 1% of the genotypes and 40 heights are missing.

common = np.flatnonzero(np.minimum(ancestral, 1 - ancestral) > 0.1)
causal = np.sort(rng.choice(common, 12, replace=False))
effects = rng.choice([-1, 1], 12) * rng.uniform(0.8, 2.0, 12)
sex = rng.integers(0, 2, n_people)
age = rng.uniform(20, 70, n_people).round()
height = 165 + 12 * sex - 0.05 * age + np.array([0, 5, -4])[population]
height += effects @ genotypes[causal] + 6 * rng.standard_normal(n_people)
height[rng.choice(n_people, 40, replace=False)] = np.nan

called = np.where(rng.random(genotypes.shape) < 0.01, np.nan, genotypes.astype("f4"))

# %%
# Principal components of the genotypes show the populations. They are the usual covariates for
# ancestry. A tenth of the variants is enough to compute them.

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA

thinned = called[::10].T
thinned = np.where(np.isnan(thinned), np.nanmean(thinned, axis=0), thinned)
components = PCA(4, svd_solver="randomized", random_state=0).fit_transform(thinned)

fig, axes = plt.subplots(figsize=(5, 3.6), layout="constrained")
for k in range(3):
    axes.scatter(*components[population == k, :2].T, s=5, label=f"population {k + 1}")
axes.set(xlabel="PC 1", ylabel="PC 2", title="Three populations")
axes.legend(markerscale=2)
plt.show()

# %%
# The usual files: ``.bed``, ``.bim`` and ``.fam`` with the genotypes, and a table of samples. The
# table is in another order than the genotypes, as tables often are.

import tempfile
from pathlib import Path

import pandas as pd
from bed_reader import to_bed

folder = Path(tempfile.mkdtemp())
ids = [f"S{i:04}" for i in range(n_people)]
names = [f"rs{1000 + j}" for j in range(n_variants)]
to_bed(
    folder / "cohort.bed",
    called.T,
    properties={
        "fid": ids,
        "iid": ids,
        "sid": names,
        "chromosome": chromosome.astype(str),
        "bp_position": position,
        "allele_1": rng.choice(["A", "C"], n_variants),
        "allele_2": rng.choice(["G", "T"], n_variants),
    },
)
covariates = ["sex", "age", "PC1", "PC2", "PC3", "PC4"]
samples = pd.DataFrame(np.column_stack([height, sex, age, components]), columns=["height", *covariates])
samples.insert(0, "IID", ids)
samples.insert(0, "#FID", ids)
samples = samples.sample(frac=1, random_state=0)
samples.to_csv(folder / "samples.txt", sep="\t", index=False, na_rep="NA")
print(samples.round(2).head(4).to_string(index=False))

# %%
# Screening
# ---------
# ``open_source`` joins the columns of the table to the genotypes by sample id.
# ``missing="pairwise"`` uses, for each variant, the people whose genotype is known. A file of 3,000
# samples is small enough to read all of it, so ``SIS`` is the right choice.

from banditsis import SIS, open_source

table = folder / "samples.txt"
source, columns = open_source(
    folder / "cohort.bed", target=[f"{table}:{name}" for name in ["height", *covariates]]
)
y, Z = columns[:, 0], columns[:, 1:]

screener = SIS(20, missing="pairwise", pvalues=True)
plain = screener.fit(source, y).result_
adjusted = screener.fit(source, y, covariates=Z).result_
print(adjusted)

# %%
# Covariates matter
# -----------------
# Under the null hypothesis p-values are uniform, and nearly all variants are null. The genomic
# inflation factor λ compares the median test statistic with its expectation. It should be about 1.

from scipy.stats import chi2


def inflation(result):
    return chi2.isf(np.median(result.pvalues), 1) / chi2.median(1)


def qq_plot(axes, result, label):
    observed = np.sort(-result.log10_pvalues)[::-1]
    expected = -np.log10((np.arange(observed.size) + 0.5) / observed.size)
    axes.plot(expected, observed, ".", ms=4, label=f"{label}, λ = {inflation(result):.2f}")


fig, axes = plt.subplots(figsize=(5, 4), layout="constrained")
qq_plot(axes, plain, "no covariates")
qq_plot(axes, adjusted, "sex, age, 4 components")
axes.axline((0, 0), slope=1, color="0.4", lw=1)
axes.set(xlabel=r"expected $-\log_{10}\,p$", ylabel=r"observed $-\log_{10}\,p$", title="Q–Q plot")
axes.legend()
plt.show()
