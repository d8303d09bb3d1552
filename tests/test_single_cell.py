"""Marker genes in the format of scanpy, against SciPy and, where it is installed, scanpy."""

import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

import files
from banditsis.single_cell import rank_genes_groups

pytestmark = pytest.mark.filterwarnings(r"ignore:The '[\w.]+' option is deprecated")
KEYS = ["names", "scores", "pvals", "pvals_adj", "logfoldchanges"]
GROUPS = ["B", "NK", "T"]


def make(store=sparse.csr_matrix, n=240, p=15):
    """Logarithms of counts, with raw values and a layer; some cells have no group, and a gene is constant."""
    rng = np.random.default_rng(0)
    kinds = rng.choice([*GROUPS, None], n, p=[0.5, 0.1, 0.35, 0.05])
    counts = rng.poisson(rng.gamma(0.5, 1.0, p), (n, p))
    counts[kinds == "NK", :3] += 2
    counts[:, 4] = 0
    counts[kinds != "T", 5] = 0
    X = np.log1p(counts).astype("f4")
    frame = pd.DataFrame({"kind": pd.Categorical(kinds)}, index=[f"cell{i}" for i in range(n)])
    names = pd.DataFrame(index=[f"gene{j}" for j in range(p)])
    adata = anndata.AnnData(store(X[:, :12]), frame, names[:12], layers={"scaled": X[:, :12] - 0.5})
    adata.raw = anndata.AnnData(store(X), frame, names)
    return adata


def expected(X, own, others, tie_correct, continuity=False):
    """Score, p-value and fold change of each gene, one at a time."""
    for x in X.T:
        a, b = x[own].astype(float), x[others].astype(float)
        u, n = stats.mannwhitneyu(a, b).statistic, len(a) + len(b)
        ties = np.unique(np.append(a, b), return_counts=True)[1].astype(float) if tie_correct else np.ones(1)
        spread = np.sqrt(len(a) * len(b) / 12 * (n + 1 - np.sum(ties**3 - ties) / (n * (n - 1))))
        z = (u - len(a) * len(b) / 2) / spread if spread > 0 else 0.0
        change = np.log2((np.expm1(a.mean()) + 1e-9) / (np.expm1(b.mean()) + 1e-9))
        yield z, 2 * stats.norm.sf(abs(z)), change


def by_gene(found, group):
    """The result of a group, in the order of the genes."""
    columns = {key: found[key][group] for key in KEYS}
    assert (np.diff(columns["scores"]) <= 0).all()
    return pd.DataFrame(columns).set_index("names")


@pytest.mark.parametrize("store", [sparse.csr_matrix, sparse.csc_matrix, np.asarray])
@pytest.mark.parametrize("reference", ["rest", "T"])
@pytest.mark.parametrize(("use", "tie_correct"), [("X", False), ("raw/X", True), ("layers/scaled", True)])
def test_equals_one_gene_at_a_time(store, reference, use, tie_correct):
    adata = make(store)
    where = {"X": {"use_raw": False}, "raw/X": {}, "layers/scaled": {"layer": "scaled"}}[use]
    X = {"X": adata.X, "raw/X": adata.raw.X, "layers/scaled": adata.layers["scaled"]}[use]
    X, names = sparse.csr_array(X).toarray(), adata.raw.var_names[: X.shape[1]]
    rank_genes_groups(adata, "kind", reference=reference, tie_correct=tie_correct, pts=True, **where)
    found, kinds = adata.uns["rank_genes_groups"], adata.obs["kind"].to_numpy()
    groups = [name for name in GROUPS if name != reference]
    assert found["names"].dtype.names == tuple(groups)
    for group in groups:
        own = kinds == group
        others = kinds != group if reference == "rest" else kinds == reference
        with np.errstate(invalid="ignore"):
            z, p, change = np.array(list(expected(X, own, others, tie_correct))).T
        table = by_gene(found, group).loc[names]
        np.testing.assert_allclose(table["scores"], z, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(np.log10(table["pvals"]), np.log10(p), rtol=0, atol=1e-10)
        np.testing.assert_allclose(table["pvals_adj"], stats.false_discovery_control(p), rtol=1e-10)
        if use != "layers/scaled":  # others have no logarithms of counts
            np.testing.assert_allclose(table["logfoldchanges"], change, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found["pts"][group], (X[own] != 0).mean(axis=0))
        if reference == "rest":
            np.testing.assert_allclose(found["pts_rest"][group], (X[others] != 0).mean(axis=0))


def test_options():
    adata = make()
    given = {"groups": ["T", "NK"], "n_genes": 4, "rankby_abs": True, "key_added": "mine", "copy": True}
    found = rank_genes_groups(adata, "kind", **given).uns["mine"]
    assert "mine" not in adata.uns
    assert (found["names"].dtype.names, len(found["names"])) == (("T", "NK"), 4)
    assert (np.diff(np.abs(found["scores"]["T"])) <= 0).all()
    assert found["params"]["use_raw"]
    rank_genes_groups(adata, "kind", groups=["NK"], reference="B", corr_method="bonferroni")
    table = by_gene(adata.uns["rank_genes_groups"], "NK")
    np.testing.assert_allclose(table["pvals_adj"], np.minimum(15 * table["pvals"], 1))


def test_backed_objects():
    adata, path = make(), files.new_path("data.h5ad")
    adata.write_h5ad(path)
    backed = anndata.read_h5ad(path, backed="r")
    for options in ({}, {"use_raw": False}, {"layer": "scaled"}):
        for one in (adata, backed):
            rank_genes_groups(one, "kind", **options)
        for group in GROUPS:
            tables = [by_gene(one.uns["rank_genes_groups"], group) for one in (adata, backed)]
            pd.testing.assert_frame_equal(*tables)
    backed.file.close()


def test_what_is_not_possible_raises():
    adata = make()
    adata.obs["single"] = ["one"] + ["rest of them"] * (adata.n_obs - 1)
    adata.layers["holes"] = adata.X.toarray()
    adata.layers["holes"][7, 2] = np.nan
    for options, message in (
        ({"groups": ["B", "X"]}, "there is no group 'X'; the groups are B, NK, T"),
        ({"reference": "X"}, "there is no group 'X'"),
        ({"groups": "B"}, "groups must be 'all' or a list of groups"),
        ({"layer": "scaled", "use_raw": True}, "mutually exclusive"),
        ({"method": "t-test"}, "method must be one of 'wilcoxon'"),
        ({"layer": "holes"}, "NaN in column 'gene2', row 7"),
        ({"groupby": "single"}, "at least two cells, and others: one cannot"),
    ):
        with pytest.raises(ValueError, match=message):
            rank_genes_groups(adata, **{"groupby": "kind", **options})


@pytest.mark.parametrize("reference", ["rest", "T"])
@pytest.mark.parametrize("tie_correct", [False, True])
def test_equals_scanpy(reference, tie_correct):
    sc = pytest.importorskip("scanpy")
    ours, theirs = make(), make()
    given = {"reference": reference, "tie_correct": tie_correct, "pts": True}
    rank_genes_groups(ours, "kind", **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sc.tl.rank_genes_groups(theirs, "kind", method="wilcoxon", **given)
    a, b = ours.uns["rank_genes_groups"], theirs.uns["rank_genes_groups"]
    assert set(a) == set(b)
    assert a["params"] == b["params"]
    for key in KEYS:
        assert a[key].dtype == b[key].dtype
    for group in a["names"].dtype.names:
        one, other = by_gene(a, group), by_gene(b, group).loc[by_gene(a, group).index]
        np.testing.assert_allclose(np.log10(one["pvals"]), np.log10(other["pvals"]), rtol=0, atol=1e-10)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-9)
        frame = sc.get.rank_genes_groups_df(ours, group)
        assert frame["names"].tolist() == a["names"][group].tolist()
    for key in {"pts", "pts_rest"} & set(a):
        pd.testing.assert_frame_equal(a[key], b[key], check_names=False, check_index_type=False)
