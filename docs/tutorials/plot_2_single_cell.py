"""
Marker genes of many cell types
===============================

A study has sequenced the RNA of single cells from four donors, and clustering has given each cell a type.
Which genes mark each type? This tutorial starts from an AnnData object, calls the Wilcoxon test of scanpy and
that of banditsis, adjusts for the donor, and shows which types have too few cells.

The data are simulated. They have the sparsity, the sequencing depths and the rare types of real data, and
a trap: donors differ in their composition *and* in the expression of some genes.
"""

# %%
# Simulated cells
# ---------------
# The RNA of a cell is a random draw from the profile of its type. A profile is a distribution over
# 10,000 genes, in which a few genes dominate. Each type has 30 markers, which are expressed 1.5 to
# 5 times as much as in other types. 100 genes, such as those on the Y chromosome, depend on the
# donor.

import numpy as np
import scipy.sparse as sp

rng = np.random.default_rng(4)
n_cells, n_genes, n_donors = 10_000, 10_000, 4
share = {
    "CD4 T": 0.30,
    "CD8 T": 0.18,
    "NK": 0.12,
    "B": 0.12,
    "Plasma": 0.02,
    "CD14 Mono": 0.15,
    "CD16 Mono": 0.05,
    "cDC": 0.03,
    "pDC": 0.02,
    "Platelet": 0.01,
}
types = list(share)

genes = np.array([f"GENE{j}" for j in range(n_genes)])
baseline = rng.lognormal(0, 1.8, n_genes)
expressed = np.flatnonzero(baseline > np.median(baseline))
chosen = rng.choice(expressed, (len(types), 30), replace=False)
markers = {name: set(genes[j]) for name, j in zip(types, chosen, strict=True)}
profiles = np.tile(baseline, (len(types), n_donors, 1))
for k, j in enumerate(chosen):
    profiles[k][:, j] *= rng.uniform(1.5, 5, 30)
by_donor = rng.choice(np.setdiff1d(expressed, chosen), 100, replace=False)
profiles[:, :, by_donor] *= rng.choice([0.2, 1, 5], (n_donors, 100))
donor_genes = set(genes[by_donor])

donor = rng.integers(0, n_donors, n_cells)
composition = np.array([rng.dirichlet(10 * np.array(list(share.values()))) for _ in range(n_donors)])
kind = np.array([rng.choice(len(types), p=composition[k]) for k in donor])
depth = rng.lognormal(np.log(1500), 0.4, n_cells).astype(int)

rows, columns = [], []
for k in range(len(types)):
    for j in range(n_donors):
        cells = np.flatnonzero((kind == k) & (donor == j))
        cumulative = np.cumsum(profiles[k, j] / profiles[k, j].sum())
        molecules = np.searchsorted(cumulative, rng.random(depth[cells].sum()))
        rows.append(np.repeat(cells, depth[cells]))
        columns.append(np.minimum(molecules, n_genes - 1))
rows, columns = np.concatenate(rows), np.concatenate(columns)
ones = np.ones(len(rows), "f4")
counts = sp.csr_array((ones, (rows, columns)), shape=(n_cells, n_genes))
counts.sum_duplicates()
density = counts.nnz / (n_cells * n_genes)
print(f"{n_cells:,} cells × {n_genes:,} genes; {density:.1%} of the counts are not 0")

# %%
# The AnnData object
# ------------------
# The usual preprocessing: divide by the depth of the cell, multiply by 10,000, take log(1 + x), and
# leave out genes that were seen in fewer than 50 cells.

import anndata
import pandas as pd
import scanpy as sc

obs = pd.DataFrame({"cell_type": np.array(types)[kind]}, index=[f"cell{i}" for i in range(n_cells)])
obs["donor"] = [f"D{k + 1}" for k in donor]
obs = obs.astype("category")
adata = anndata.AnnData(sp.csr_matrix(counts), obs, pd.DataFrame(index=genes))
sc.pp.filter_genes(adata, min_cells=50)
sc.pp.normalize_total(adata, target_sum=1e4)
sc.pp.log1p(adata)
genes = adata.var_names.to_numpy()
print(adata)

# %%
# The call of scanpy, and the same here
# -------------------------------------
# Both write their result to ``adata.uns``, in the same format.

import time
import warnings

from banditsis.single_cell import rank_genes_groups

seconds = {}
for _ in range(2):  # the first turn compiles
    started = time.perf_counter()
    rank_genes_groups(adata, "cell_type", key_added="ours")
    seconds["banditsis"] = time.perf_counter() - started
started = time.perf_counter()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of pandas, about fragmented frames
    sc.tl.rank_genes_groups(adata, "cell_type", method="wilcoxon", key_added="theirs")
seconds["scanpy"] = time.perf_counter() - started
for name, value in seconds.items():
    print(f"{name}: {value:.2f} s")

ours, theirs = (sc.get.rank_genes_groups_df(adata, None, key=key) for key in ("ours", "theirs"))
both = ours.merge(theirs, on=["group", "names"], suffixes=("", "_scanpy"))
is_top = both["scores"] > 5
difference = (both["scores"] - both["scores_scanpy"])[is_top].abs().max()
print(f"largest difference of z among {is_top.sum():,} strong markers: {difference:.0e}")

# %%
# The best genes of each type, in scanpy's plot:

sc.pl.rank_genes_groups_dotplot(
    adata, key="ours", n_genes=3, standard_scale="var", dendrogram=False, figsize=(6, 4.4)
)

# %%
# Adjusting for the donor
# -----------------------
# A rank-sum test cannot adjust for the donor. ``SIS`` can: one response per type, 1 for its cells and
# 0 for all others, and the donor as a covariate. All types share one pass.

from banditsis import SIS

cell_type = adata.obs["cell_type"].to_numpy()
indicators = pd.get_dummies(adata.obs["cell_type"])
adjusted = SIS(100).fit(adata, indicators, covariates=adata.obs["donor"]).result_
print(adjusted)

# %%
# How many of the best 30 genes of each type are true markers, and how many depend on the donor?


def best_genes(name, n=30):
    """The genes that are more expressed in a type, best first."""
    frame = adjusted[name].to_frame()
    return frame.loc[frame["score"] > 0, "name"].head(n)


rows = []
for name in types:
    row = {"type": name, "cells": np.sum(cell_type == name)}
    unadjusted = ours.loc[ours["group"] == name, "names"].head(30)
    for label, best in (("Wilcoxon", unadjusted), ("adjusted", best_genes(name))):
        row[f"markers, {label}"] = len(markers[name].intersection(best))
        row[f"donor genes, {label}"] = len(donor_genes.intersection(best))
    rows.append(row)
summary = pd.DataFrame(rows).set_index("type")
for label in ("Wilcoxon", "adjusted"):
    found = summary[f"markers, {label}"].sum()
    wrong = summary[f"donor genes, {label}"].sum()
    print(f"{label + ':':10} {found} markers and {wrong} donor genes among 300")

# %%

import matplotlib.pyplot as plt

fig, axes = plt.subplots(figsize=(6, 4.6), layout="constrained")
y = np.arange(len(types))
for shift, label in ((-0.2, "Wilcoxon"), (0.2, "adjusted")):
    right, wrong = summary[f"markers, {label}"], summary[f"donor genes, {label}"]
    axes.barh(y + shift, right, 0.36, label=f"markers, {label}")
    axes.barh(y + shift, wrong, 0.36, left=right, color="0.3", label="donor genes" if shift < 0 else None)
axes.set_yticks(y, [f"{name} ({n:,})" for name, n in summary["cells"].items()])
axes.invert_yaxis()
axes.set(ylabel="cell type (number of cells)", xlabel="among the best 30 genes")
axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False, fontsize=9)
# sphinx_gallery_thumbnail_number = 2
plt.show()

# %%
# Donors that have more cells of a type lend it their own genes, unless the donor is a covariate. Types
# with few cells have fewer markers that can be told from noise: more cells are the only remedy. The
# column "clearly associated" above says so without knowing the truth.
#
# In practice
# -----------
# - **Donors are the units, cells are replicates.** P-values treat cells as independent rows, so with
#   four donors they are far too small for a claim about donors. That needs one row per donor and type
#   (pseudobulk) instead of one row per cell, and a test such as that of edgeR or DESeq2.
# - If clusters were found with the same genes, the p-values of markers are too small as well: clustering
#   has already used the differences. Treat them as a ranking, or test on cells that were not clustered.
# - A file is opened in the same way: ``open_data("cells.h5ad", "cell_type", covariates="donor")``.
