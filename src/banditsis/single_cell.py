"""Marker genes of groups of cells, as scanpy ranks them and stores them in AnnData objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis.core.arrays import Floats, ratio, special
from banditsis.core.parallel import Workers, count_jobs
from banditsis.core.validation import check_choice, raise_nonfinite
from banditsis.formats.opening import open_anndata_object
from banditsis.sources.base import Source
from banditsis.statistics.null_distributions import adjust_pvalues
from banditsis.statistics.wilcoxon import Comparison

#: Stored cells that a thread ranks at once.
CELLS_AT_ONCE = 1 << 22
#: What scanpy adds to both means of a fold change.
PSEUDOCOUNT = 1e-9
COLUMNS = {"names": "O", "scores": "f4", "logfoldchanges": "f4", "pvals": "f8", "pvals_adj": "f8"}
PARAMETERS = ("groupby", "reference", "method", "use_raw", "layer", "corr_method")


def rank_genes_groups(
    adata: Any,
    groupby: str,
    *,
    use_raw: bool | None = None,
    groups: Any = "all",
    reference: str = "rest",
    n_genes: int | None = None,
    rankby_abs: bool = False,
    pts: bool = False,
    key_added: str | None = None,
    copy: bool = False,
    method: str = "wilcoxon",
    corr_method: str = "benjamini-hochberg",
    tie_correct: bool = False,
    layer: str | None = None,
    n_jobs: int | None = None,
) -> Any:
    r"""Rank the genes of each group of cells by Wilcoxon's rank-sum test, in place of scanpy.

    It has the parameters, and the result, of ``scanpy.tl.rank_genes_groups(…, method="wilcoxon")``, so
    ``scanpy.pl.rank_genes_groups`` and ``scanpy.get.rank_genes_groups_df`` work with it. It ranks each gene
    once for all groups, sorts only the cells that are not 0, and reads objects that are backed by a file in
    parts. Scores are, of the rank sum R of a group of :math:`n_1` cells compared with :math:`n_2` others,

    .. math:: z = \frac{R - n_1 (n_1 + n_2 + 1) / 2}{\sqrt{n_1 n_2 (n_1 + n_2 + 1) / 12}}

    without a correction for ties and for continuity. Without the former, p-values of genes that are mostly 0
    are too large; ``screen(…, statistic="wilcoxon")`` has both.

    Parameters
    ----------
    adata : AnnData
        The cells, in memory or backed. Values should be logarithms: fold changes are from their means.
    groupby, use_raw, groups, reference, n_genes, rankby_abs, pts, key_added, copy, tie_correct, layer
        As in scanpy.
    method, corr_method : "wilcoxon", and {"benjamini-hochberg", "bonferroni"}
        The only method, accepted because scanpy needs it, and the adjustment of p-values for all genes.
    n_jobs : int, optional
        Number of threads; all cores by default.

    Returns
    -------
    None, or AnnData if ``copy``

    Examples
    --------
    >>> import numpy as np
    >>> from anndata import AnnData
    >>> rng = np.random.default_rng(0)
    >>> adata = AnnData(rng.poisson(1.0, (100, 5)).astype("f4"))
    >>> adata.obs["kind"] = np.repeat(["B", "T"], 50)
    >>> adata.X[:50, 2] += 2
    >>> rank_genes_groups(adata, "kind", n_genes=1)
    >>> adata.uns["rank_genes_groups"]["names"]["B"]
    array(['2'], dtype=object)
    """
    check_choice("method", method, ("wilcoxon",))
    check_choice("corr_method", corr_method, ("benjamini-hochberg", "bonferroni"))
    if layer is not None and use_raw:
        raise ValueError("layer and use_raw are mutually exclusive.")
    adata = adata.copy() if copy else adata
    use_raw = (layer is None and adata.raw is not None) if use_raw is None else use_raw
    matrix = "raw/X" if use_raw else "X" if layer is None else f"layers/{layer}"
    source = open_anndata_object(adata, matrix).source()
    categories, chosen, comparison = _compare_groups(adata.obs[groupby], groups, reference)
    sums, ties, _, totals, nonzero = _sum_ranks(source, comparison, count_jobs(n_jobs))
    size, others = comparison.sizes[:, None], comparison.others[:, None]
    n = size + others
    correction = 1 - ties / (n**3 - n) if tie_correct else 1.0
    z = ratio(sums, np.sqrt(correction * size * others * (n + 1) / 12))
    shares, means = _compare_sums(nonzero, comparison), _compare_sums(totals, comparison)
    means[1] = np.where(shares[1] > 0, means[1], 0.0)  # without a rounding error
    base = adata.uns.get("log1p", {}).get("base")
    own, rest = np.expm1(means if base is None else means * np.log(base)) + PSEUDOCOUNT
    with np.errstate(invalid="ignore"):  # there is none if values are not logarithms of 1 + x
        changes = np.log2(own / rest)
    names = np.array([source.name(j) for j in range(source.shape[1])], object)
    tables = {}
    for k in chosen:
        if k != comparison.reference:
            order = np.argsort(-np.abs(z[k]) if rankby_abs else -z[k], kind="stable")[:n_genes]
            columns = names, z[k], changes[k], *_find_pvalues(z[k], corr_method)
            tables[categories[k]] = [values[order] for values in columns]
    given = groupby, reference, method, use_raw, layer, corr_method
    stored: dict[str, Any] = {"params": dict(zip(PARAMETERS, given, strict=True))}
    for values, (key, kind) in zip(zip(*tables.values(), strict=True), COLUMNS.items(), strict=True):
        stored[key] = np.rec.fromarrays(values, dtype=[(name, kind) for name in tables])
    if pts:
        import pandas as pd  # which AnnData needs

        labels = [categories[k] for k in chosen]
        for key, share in zip(("pts", "pts_rest")[: 2 if reference == "rest" else 1], shares, strict=False):
            stored[key] = pd.DataFrame(share[chosen].T, index=names, columns=labels)
    adata.uns["rank_genes_groups" if key_added is None else key_added] = stored
    return adata if copy else None


def _compare_sums(sums: Floats, comparison: Comparison) -> Floats:
    """Means over each group and over what it is compared with, from sums over groups."""
    means = sums / comparison.sizes[:, None].clip(1)
    if comparison.reference >= 0:
        return np.stack([means, np.broadcast_to(means[comparison.reference], means.shape)])
    return np.stack([means, (sums.sum(axis=0) - sums) / comparison.others[:, None]])


def _find_pvalues(z: Floats, corr_method: str) -> tuple[Floats, Floats]:
    """Two-sided p-values of normal scores, and these adjusted for their number."""
    pvalues = 2 * special.ndtr(-np.abs(z))
    if corr_method == "bonferroni":
        return pvalues, np.minimum(pvalues * len(z), 1.0)
    return pvalues, np.power(10.0, adjust_pvalues((special.log_ndtr(-np.abs(z)) + np.log(2)) / np.log(10)))


def _compare_groups(labels: Any, groups: Any, reference: str) -> tuple[list[str], list[int], Comparison]:
    """All groups, the numbers of those to return, with that of the reference, and their cells."""
    column = labels.astype("category").cat
    categories, codes = list(map(str, column.categories)), np.array(column.codes)
    if isinstance(groups, str) and groups != "all":
        raise ValueError(f"groups must be 'all' or a list of groups, got {groups!r}.")
    names = categories if isinstance(groups, str) else list(map(str, groups))
    if reference != "rest" and reference not in names:
        names = [*names, reference]
    if unknown := [name for name in names if name not in categories]:
        raise ValueError(f"there is no group {unknown[0]!r}; the groups are {', '.join(categories)}.")
    chosen, n_groups = [categories.index(name) for name in names], len(categories)
    codes = np.where(codes < 0, n_groups, codes).astype(np.int32)  # cells without a group count as one more
    fixed = -1 if reference == "rest" else categories.index(reference)
    comparison = Comparison.of(codes, None, n_groups + 1, fixed)
    if few := [categories[k] for k in chosen if comparison.sizes[k] < 2 or comparison.others[k] < 1]:
        raise ValueError(
            f"a group needs at least two cells, and others: {', '.join(few)} cannot be compared."
        )
    return categories, chosen, comparison


def _sum_ranks(source: Source, comparison: Comparison, n_jobs: int) -> Floats:
    """Lines × groups × genes of :meth:`Comparison.sum_ranks`."""
    n, p = source.shape
    width = int(max(1, CELLS_AT_ONCE // (source.density * n + 1)))
    out = np.empty((5, len(comparison.sizes), p))

    def fill(start: int) -> None:
        columns = slice(start, min(start + width, p))
        cells = source.read_stored(slice(0, n), columns)
        if not np.isfinite(cells.values).all():
            raise_nonfinite(source, slice(0, n), np.arange(columns.start, columns.stop), False)
        out[..., columns] = comparison.sum_ranks(cells)

    with Workers(n_jobs) as workers:
        workers.run((fill, start) for start in range(0, p, width))
    return out
