"""
Marker genes of many cell types
===============================

A study has sequenced the RNA of single cells from four donors, and clustering has given each cell a type.
Which genes mark each type? The counts are in a sparse ``.h5ad`` file. This tutorial finds the markers of ten
types in one pass over the file, adjusts for the donor, and shows which types have too few cells.

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
# The file
# --------
# The usual preprocessing: divide by the depth of the cell, multiply by 10,000, take log(1 + x), and
# leave out genes that were seen in fewer than 50 cells. The values go into a ``.h5ad`` file.
# ``adata.write_h5ad(path)`` of the package ``anndata`` writes the same file; here it is written
# with ``h5py``, to show what is in it and to need one package less.

import tempfile
from pathlib import Path

import h5py
import pandas as pd

expression = counts.copy()
depth_of_entry = np.repeat(counts.sum(axis=1), np.diff(counts.indptr))
expression.data = np.log1p(1e4 * counts.data / depth_of_entry)
is_seen = np.bincount(counts.indices, minlength=n_genes) >= 50
expression, genes = expression[:, is_seen], genes[is_seen]
obs = pd.DataFrame({"cell_type": np.array(types)[kind]})
obs["donor"] = [f"D{k + 1}" for k in donor]
obs.index = [f"cell{i}" for i in range(n_cells)]


def write_h5ad(path, matrix, obs, genes):
    """Write a sparse matrix and the table of its cells in the format of AnnData."""

    def mark(node, kind, version="0.2.0", **others):
        node.attrs.update({"encoding-type": kind, "encoding-version": version} | others)

    def write_text(group, name, values):
        group[name] = np.array(list(map(str, values)), dtype=object)
        mark(group[name], "string-array")

    with h5py.File(path, "w") as file:
        mark(file, "anndata", "0.1.0")
        X, cells, variables = map(file.create_group, ("X", "obs", "var"))
        mark(X, "csr_matrix", "0.1.0", shape=matrix.shape)
        for part in ("data", "indices", "indptr"):
            X.create_dataset(part, data=getattr(matrix, part), chunks=True)
        columns = {"_index": "_index", "column-order": list(obs)}
        mark(cells, "dataframe", **columns)
        mark(variables, "dataframe", **columns | {"column-order": np.array([], "S1")})
        write_text(cells, "_index", obs.index)
        write_text(variables, "_index", genes)
        for name in obs:
            codes, categories = pd.factorize(obs[name], sort=True)
            column = cells.create_group(name)
            mark(column, "categorical", ordered=False)
            column["codes"] = codes.astype("i1")
            write_text(column, "categories", categories)


path = Path(tempfile.mkdtemp()) / "cells.h5ad"
write_h5ad(path, expression, obs, genes)
print(f"{len(genes):,} genes are left; the file has {path.stat().st_size / 1e6:.0f} MB")

# %%
# Genes that differ between types
# -------------------------------
# ``open_data`` takes names from ``var`` and responses from ``obs``. A sparse matrix is loaded if
# it fits in ``memory_limit`` bytes, by default half of the free memory. With a lower limit it stays
# in the file and is read in runs of cells, so its size does not matter.

from banditsis import SIS, open_data

source, cell_type, donor, *_ = open_data(path, "cell_type", covariates="donor", memory_limit=20_000_000)

# %%
# The response has labels, so the statistic is ``anova``: which genes differ between the types at
# all? All ten types are tested together, in one pass over the file. The donor is a covariate.

overall = SIS(300).fit(source, cell_type, covariates=donor).result_
overall

# %%
# 300 genes are markers of some type. How many of them were selected?

is_marker = np.isin(overall.selected_names, list(set.union(*markers.values())))
is_clear = np.isin(overall.selected, overall.associated)
print(f"{is_marker.sum()} of 300 selected genes are markers")
print(f"{is_clear.sum()} are clearly associated, {is_marker[is_clear].sum()} of them markers")

# %%
# Markers of each type
# --------------------
# One response per type, 1 for its cells and 0 for all others, tells which type a gene marks.
# Several responses share the pass over the data. Here they are screened with and without the donor.
# This file is small, so it is opened in memory now.

source = open_data(path, "cell_type").features
indicators = pd.get_dummies(cell_type)
unadjusted = SIS(100).fit(source, indicators).result_
adjusted = SIS(100).fit(source, indicators, covariates=donor).result_
print(adjusted)

# %%
# Screening ranks genes by \|r\|, so a gene that is *less* expressed in a type can be selected too.
# Markers have positive scores. How many of the best 30 genes of each type are true markers, and how
# many depend on the donor?


def best_genes(results, name, n=30):
    frame = results[name].to_frame()
    return frame[frame["score"] > 0].head(n)


rows = []
for name in types:
    row = {"type": name, "cells": np.sum(cell_type == name)}
    for label, results in (("unadjusted", unadjusted), ("adjusted", adjusted)):
        best = best_genes(results, name)["name"]
        row[f"markers, {label}"] = len(markers[name].intersection(best))
        row[f"donor genes, {label}"] = len(donor_genes.intersection(best))
    rows.append(row)
summary = pd.DataFrame(rows).set_index("type")
for label in ("unadjusted", "adjusted"):
    found = summary[f"markers, {label}"].sum()
    wrong = summary[f"donor genes, {label}"].sum()
    print(f"{label + ':':12} {found} markers and {wrong} donor genes among 300")

# %%

import matplotlib.pyplot as plt

fig, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
x = np.arange(len(types))
for shift, label in ((-0.2, "unadjusted"), (0.2, "adjusted")):
    axes.bar(x + shift, summary[f"markers, {label}"], 0.36, label=f"markers, {label}")
    axes.bar(
        x + shift,
        summary[f"donor genes, {label}"],
        0.36,
        bottom=summary[f"markers, {label}"],
        color="0.3",
        label="donor genes" if shift < 0 else None,
    )
labels = [f"{name}\n{n:,}" for name, n in summary["cells"].items()]
axes.set_xticks(x, labels, fontsize=8)
axes.set(xlabel="cell type and number of cells", ylabel="among the best 30 genes")
axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.15), ncols=3, frameon=False)
plt.show()

# %%
# Donors that have more cells of a type lend it their own genes, unless the donor is a covariate.
# Types with few cells have fewer markers that can be told from noise, with or without adjustment:
# more cells are the only remedy. The column "clearly associated" above says so without knowing the
# truth.
#
# A dot plot
# ----------
# The best three markers of each type. Colour is the mean expression among the types, size the share
# of cells in which the gene was seen.

top = [gene for name in types for gene in best_genes(adjusted, name, 3)["index"]]
small = expression[:, top].toarray()
mean = np.array([small[cell_type == name].mean(axis=0) for name in types])
seen = np.array([(small[cell_type == name] > 0).mean(axis=0) for name in types])

fig, axes = plt.subplots(figsize=(10, 4.2), layout="constrained")
columns, lines = np.meshgrid(np.arange(len(top)), np.arange(len(types)))
relative = mean / mean.max(axis=0)
dots = axes.scatter(columns, lines, s=90 * seen, c=relative, cmap="viridis_r")
axes.set_xticks(np.arange(len(top)), [genes[j] for j in top], rotation=90, fontsize=8)
axes.set_yticks(np.arange(len(types)), types)
axes.invert_yaxis()
fig.colorbar(dots, label="mean / largest mean")
# sphinx_gallery_thumbnail_number = 2
plt.show()

# %%
# In practice
# -----------
# - If clusters were found with the same genes, the p-values of markers are too small: clustering has
#   already used the differences. Treat them as a ranking, or test on cells that were not clustered.
# - Cells of one donor are not independent. A claim about donors needs one row per donor and type
#   (pseudobulk) instead of one row per cell.
# - An ``AnnData`` object can be passed directly: ``SIS(100).fit(adata, adata.obs["cell_type"])``.
