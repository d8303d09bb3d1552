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
# between populations as in the Balding–Nichols model with a fixation index of 0.03.

import numpy as np
from scipy.special import ndtri

rng = np.random.default_rng(1)
n_people, n_variants, n_chromosomes = 3_000, 20_000, 22

# Chromosomes get shorter from 1 to 22, as human chromosomes do.
lengths = np.linspace(2.5, 0.5, n_chromosomes)
chromosomes = np.arange(1, n_chromosomes + 1)
chromosome = np.sort(rng.choice(chromosomes, n_variants, p=lengths / lengths.sum()))
steps = rng.exponential(5_000, n_variants).astype(int) + 1
position = np.concatenate([np.cumsum(steps[chromosome == c]) for c in chromosomes])
new_block = (np.diff(chromosome, prepend=0) > 0) | (rng.random(n_variants) < 0.04)
similarity = np.where(new_block, 0, np.exp(-steps / 60_000))

population = rng.choice(3, n_people, p=[0.6, 0.25, 0.15])
ancestral = rng.beta(0.6, 1.2, n_variants).clip(0.01, 0.99)
scale = (1 - 0.03) / 0.03
frequencies = rng.beta(ancestral * scale, (1 - ancestral) * scale, (3, n_variants))
thresholds = ndtri(frequencies.clip(0.005, 0.995)).astype("f4")

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
height = 165 + 12 * sex - 0.05 * age + np.array([0, 4, -3])[population]
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
columns = np.column_stack([height, sex, age, components])
samples = pd.DataFrame(columns, columns=["height", *covariates])
samples.insert(0, "IID", ids)
samples.insert(0, "#FID", ids)
samples = samples.sample(frac=1, random_state=0)
samples.to_csv(folder / "samples.txt", sep="\t", index=False, na_rep="NA")
print(samples.round(2).head(4).to_string(index=False))

# %%
# Screening
# ---------
# ``open_data`` joins the response and the covariates to the genotypes by sample id. The prefix
# ``cohort`` stands for the three files, and the table without names of columns for all of its
# columns besides ids and the response.
#
# ``missing="pairwise"`` uses, for each variant, the people whose genotype is known. With 3,000
# people reading everything takes less than a second, so exact screening with ``SIS`` is the right
# choice. ``pvalues=True`` also checks the small p-values of variants that are not selected.

from banditsis import SIS, open_data

table = folder / "samples.txt"
data = open_data(folder / "cohort", f"{table}:height", covariates=table)
print(data.joined[0], *data.covariates)

screener = SIS(50, missing="pairwise", pvalues=True)
plain = screener.fit(data.features, data.target).result_
adjusted = screener.fit(data.features, data.target, covariates=data.covariates).result_
adjusted

# %%
# Why covariates matter
# ---------------------
# Nearly all variants are unrelated to height, and p-values of unrelated variants should be uniform.
# The Q–Q plot compares them with that. The genomic inflation factor λ is the median test statistic
# divided by its expectation, and should be about 1.

from banditsis import plots

fig, axes = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
plots.qq(plain, axes, label="no covariates")
plots.qq(adjusted, axes, label="sex, age and four PCs")
plt.show()

# %%
# Without covariates, variants also look associated because their frequencies differ between
# populations of different height:

for label, result in (("no covariates", plain), ("adjusted", adjusted)):
    n_hits = len(result.select(method="bonferroni"))
    print(f"{label:14} {n_hits:6,} variants pass Bonferroni")

# %%
# The Manhattan plot
# ------------------
# Chromosomes come from the ``.bim`` file. The dashed line is the Bonferroni
# threshold. Circles are clearly associated variants: significant after Holm's correction for all
# variants.

fig, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
plots.manhattan(adjusted, axes)
# sphinx_gallery_thumbnail_number = 3
plt.show()

# %%
# Neighbouring variants are correlated, so one causal variant can give several hits. Here hits
# within 250 kb of a stronger one belong to the same locus.

hits = adjusted.to_frame().query("associated")  # best first


def is_near(variant, others, width=250_000):
    near = abs(others["position"] - variant["position"]) < width
    return (near & (others["chromosome"] == variant["chromosome"])).any()


lead = [not is_near(hit, hits.iloc[:k]) for k, (_, hit) in enumerate(hits.iterrows())]
loci = hits[lead]
print(f"{len(hits)} hits in {len(loci)} loci")

# %%
# Because the data are simulated, the hits can be compared with the truth. Effects are in cm per
# copy of the allele ``a1``.

truth = pd.DataFrame(
    {
        "causal": np.array(names)[causal],
        "chromosome": chromosome[causal].astype(str),
        "position": position[causal],
        "frequency": (genotypes[causal].mean(axis=1) / 2).round(2),
        "effect": effects.round(2),
        "log10 p": adjusted.log10_pvalues[causal].round(1),
    }
)
truth["hit nearby"] = [is_near(variant, loci) for _, variant in truth.iterrows()]
print(truth.to_string(index=False))
false = sum(not is_near(locus, truth) for _, locus in loci.iterrows())
print(f"\n{truth['hit nearby'].sum()} of {len(truth)} causal variants have a hit nearby")
print(f"{false} of {len(loci)} loci have no causal variant nearby")

# %%
# With 3,000 people, small effects and rare alleles can be missed. Estimated effects of hits tend to
# be too large, because a variant whose effect is overestimated is more likely to be significant.

fig, axes = plt.subplots(figsize=(4.6, 4), layout="constrained")
found = loci.merge(truth, left_on="name", right_on="causal")
axes.errorbar(found["effect"], found["beta"], 1.96 * found["se"], fmt="o", capsize=3)
axes.axline((0, 0), slope=1, color="0.4", lw=1)
axes.set(xlabel="true effect (cm)", ylabel="estimated effect (cm), 95% interval")
plt.show()

# %%
# The same with PLINK 2
# ---------------------
# PLINK 2 regresses the phenotype on each variant and the covariates. ``omit-ref`` makes it report
# the effect of the allele that is counted here too, the first one of the ``.bim`` file. This part
# is skipped where ``plink2`` is not installed (Debian: ``apt install plink2``). PLINK prints six
# digits, so differences of their rounding are expected.

import shutil
import subprocess

if shutil.which("plink2"):
    command = f"""plink2 --bfile cohort --pheno samples.txt --pheno-name height
        --covar samples.txt --covar-name {" ".join(covariates)}
        --covar-variance-standardize --glm hide-covar omit-ref log10 --out plink"""
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    plink = pd.read_csv(folder / "plink.height.glm.linear", sep="\t", index_col="ID")

    ours = adjusted.to_frame().set_index("name")[["beta", "se", "log10_pvalue"]]
    both = ours.head(8).join(plink[["BETA", "SE", "LOG10_P"]])
    print(both.round(4).to_string())
    difference = abs(adjusted.log10_pvalues + plink["LOG10_P"].to_numpy())
    print(f"\nlargest difference of log10 p: {difference.max():.0e}")
else:
    print("plink2 was not found, so there is no comparison.")

# %%
# The command line does the screening without Python:
#
# .. code-block:: bash
#
#     banditsis screen cohort --target samples.txt:height --covariates samples.txt \
#         --exact --pvalues --keep 50 --output all.csv --all-features --report hits.html
#
# For cohorts so large that reading all genotypes takes too long, index the file once with
# ``banditsis index``. ``BanditSIS`` then reads a small part of it.
