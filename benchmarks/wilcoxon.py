"""Wilcoxon's rank sums against SciPy, scanpy and illico, and markers from few cells.

python benchmarks/wilcoxon.py [--small] [--only NAME …] [--picture FILE]

scanpy and illico are not dependencies: install them with ``pip install scanpy illico``, in an environment of
their own if need be; without them their rows are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import anndata
import numpy as np
import pandas as pd
from scipy import sparse, stats

from banditsis import SIS, BanditSIS, Plan, screen
from banditsis.single_cell import rank_genes_groups
from banditsis.statistics.wilcoxon import Wilcoxon
from reporting import Figure, at_least

HAS = {name: importlib.util.find_spec(name) is not None for name in ("scanpy", "illico")}


def make_cells(n: int, p: int, n_groups: int = 20, seed: int = 0) -> anndata.AnnData:
    """Logarithms of counts, 5% of them not 0, in groups of different sizes with 80 markers each."""
    rng = np.random.default_rng(seed)
    share = np.maximum(rng.dirichlet(np.full(n_groups, 1.5)), 0.01)
    groups = rng.choice(n_groups, n, p=share / share.sum())
    rate, blocks = rng.gamma(0.6, 0.09, p), []
    order = np.argsort(groups, kind="stable")
    for k in range(n_groups):
        lifted = rate.copy()
        lifted[rng.choice(p, 80, replace=False)] += 0.1 + rng.gamma(1.0, 0.5, 80)
        cells = np.count_nonzero(groups == k)
        for start in range(0, cells, 2000):
            depth = rng.gamma(4.0, 0.25, (min(2000, cells - start), 1))
            blocks.append(sparse.csr_matrix(np.log1p(rng.poisson(lifted * depth)).astype(np.float32)))
    X = sparse.vstack(blocks, format="csr")[np.argsort(order)]
    obs = pd.DataFrame({"group": pd.Categorical([f"g{k}" for k in groups])}, [f"c{i}" for i in range(n)])
    return anndata.AnnData(X, obs, pd.DataFrame(index=[f"gene{j}" for j in range(p)]))


def equality(small: bool) -> Iterator[Figure]:
    """Dense and sparse, ties, tiny groups, against a reference; where p-values are given."""
    worst, smallest, n_compared, n_unknown, seed = 0.0, 0.0, 0, 0, 0
    goal = 1_000 if small else 10_000
    while n_compared < goal:
        rng = np.random.default_rng(seed)
        n = int(rng.choice([6, 10, 20, 50, 200, 1000]))
        X = rng.standard_normal((n, 8))
        X[:, 1], X[:, 2] = np.round(X[:, 1]), X[:, 2] * (rng.random(n) < 0.1)
        X[:, 3:5], X[:, 5] = rng.poisson([0.3, 5.0], (n, 2)), 1.0
        y = rng.permutation(np.arange(n) % rng.integers(2, 5))
        X[:, 6:] += y[:, None] * [1.0, 5.0]  # associated, so p-values are small as well
        reference = [None, int(y[0])][seed % 2]
        kind = (np.asarray, sparse.csr_array, sparse.csc_array)[seed % 3]
        found = screen(kind(X), y, Plan.exact(n, 8, 8), statistic=Wilcoxon(reference))
        results = [found] if hasattr(found, "scores") else list(found)
        labels = [label for label in np.unique(y) if label != reference]
        for label, result in zip(labels[-len(results) :], results, strict=True):
            own, others = X[y == label], X[y != label] if reference is None else X[y == reference]
            expected = [stats.mannwhitneyu(a, b).pvalue for a, b in zip(own.T, others.T, strict=True)]
            difference = np.abs(result.log10_pvalues - np.log10(expected))
            worst = max(worst, float(np.nanmax(difference)))
            n_unknown += int(np.isnan(difference).sum())
            smallest = min(smallest, float(np.nanmin(result.log10_pvalues)))
            n_compared += 8
        seed += 1
    given = f"{n_unknown / n_compared:.0%} not given, down to 1e{smallest:.0f}"
    label = f"`wilcoxon` against SciPy, {n_compared:,} comparisons ({given})"
    yield Figure(f"{label}: largest difference of log10 p", f"{worst:.0e}", "≤ 1e-10", worst <= 1e-10)


def scanpy_equality(small: bool) -> Iterator[Figure]:
    if not HAS["scanpy"]:
        return
    import scanpy as sc

    worst, smallest, n_compared = 0.0, 0.0, 0
    for seed, options in enumerate(({}, {"reference": "g3"}, {"tie_correct": True})):
        ours = make_cells(3_000, 200, seed=seed)
        theirs = ours.copy()
        rank_genes_groups(ours, "group", **options)
        sc.tl.rank_genes_groups(theirs, "group", method="wilcoxon", **options)
        found, expected = ours.uns["rank_genes_groups"], theirs.uns["rank_genes_groups"]
        for group in expected["names"].dtype.names:
            a, b = (
                pd.Series(one["pvals"][group], one["names"][group]).sort_index() for one in (found, expected)
            )
            positive = (a > 0) & (b > 0)
            assert (positive == ((a > 0) | (b > 0))).all()
            difference = np.abs(np.log10(a[positive]) - np.log10(b[positive]))
            worst, n_compared = max(worst, float(difference.max())), n_compared + int(positive.sum())
            smallest = min(smallest, float(np.log10(a[positive]).min()))
    size = f"{n_compared:,} p-values down to 1e{smallest:.0f}"
    label = f"`rank_genes_groups` against scanpy, {size}: largest difference of log10 p"
    yield Figure(label, f"{worst:.0e}", "≤ 1e-10", worst <= 1e-10)


def seconds(run: Callable[[], object], repeats: int) -> float:
    """The best time, without the first run, which compiles."""
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times[1:])


def speed(small: bool) -> Iterator[Figure]:
    n, p = (20_000, 500) if small else (100_000, 5_000)
    by_row = make_cells(n, p)
    by_column = by_row.copy()
    by_column.X = sparse.csc_matrix(by_row.X)
    size = f"{n:,} × {p:,}, {by_row.X.nnz / n / p:.0%} not 0, 20 groups"
    for name, adata in (("by row", by_row), ("by column", by_column)):
        ours = lambda adata=adata: rank_genes_groups(adata, "group", n_jobs=2)  # noqa: E731
        if HAS["illico"]:
            from illico import asymptotic_wilcoxon

            peer = lambda adata=adata: asymptotic_wilcoxon(  # noqa: E731
                adata, is_log1p=True, group_keys="group", n_threads=2, return_as_scanpy=True
            )
            best = {"ours": np.inf, "illico": np.inf}
            for _ in range(4):
                best["ours"] = min(best["ours"], seconds(ours, 1))
                best["illico"] = min(best["illico"], seconds(peer, 1))
            label = (
                f"`rank_genes_groups`, {size}, {name} ({best['ours'] * 1e3:.0f} ms): times as fast as illico"
            )
            yield at_least(label, best["illico"] / best["ours"], 1, "×")
        if HAS["scanpy"] and name == "by row":
            import scanpy as sc

            mine, started = seconds(ours, 3), time.perf_counter()
            sc.tl.rank_genes_groups(adata, "group", method="wilcoxon")
            theirs = time.perf_counter() - started
            yield at_least(f"… times as fast as scanpy ({theirs:.0f} s)", theirs / mine, 20, "×")


def markers(small: bool) -> Iterator[Figure]:
    """The best 50 genes of each group, of those with an AUC of at least 0.6."""
    n, p = (20_000, 500) if small else (100_000, 5_000)
    adata = make_cells(n, p)
    X, y = adata.X, adata.obs["group"]
    exact = SIS(50, statistic="wilcoxon").fit(X, y).result_
    strong = [{int(j) for j in result.selected if result.scores[j] >= 0.1} for result in exact]
    for budget in (None, 0.1):
        started = time.perf_counter()
        found = BanditSIS(50, statistic="wilcoxon", budget=budget, random_state=0).fit(X, y).result_
        elapsed = time.perf_counter() - started
        kept = [len(some & set(one.selected.tolist())) for some, one in zip(strong, found, strict=True)]
        recall = sum(kept) / sum(map(len, strong))
        read = np.mean([result.fraction_read for result in found])
        what = f"{read:.1%} of the cells for each group, {elapsed * 1e3:.0f} ms"
        name = "default budget" if budget is None else f"budget={budget}"
        label = f"BanditSIS, {name} ({what}): recall of the exact best 50 with AUC ≥ 0.6"
        yield at_least(label, recall, 0.95)


def null_pvalues(small: bool) -> Iterator[Figure]:
    """Tiny groups, heavy ties, rare values; each feature is one run."""
    worst, where, n_settings, n_runs = 0.0, "", 0, 2_000 if small else 10_000
    for sizes in ((2, 3, 8), (4, 9, 60), (10, 30, 400), (20, 60, 1000)):
        y = np.repeat([0, 1, 2], sizes)
        for share in (0.0, 0.3, 0.7, 0.9, 0.97):
            for levels in (1, 3, 1000):
                rng = np.random.default_rng(0)
                shape = len(y), n_runs
                X = (rng.random(shape) >= share) * rng.integers(1, levels + 1, shape) * 1.0
                for result in screen(X, y, Plan.exact(*shape, 1), statistic="wilcoxon"):
                    p = result.pvalues[~np.isnan(result.pvalues)]
                    if p.size < 1000:  # they are not given
                        continue
                    n_settings += 1
                    if (rate := float(np.mean(p <= 0.05))) > worst:
                        worst, where = rate, f"{sizes}, {share:.0%} zeros, {levels} levels"
    label = f"`wilcoxon`: rejection at 5% without association, worst of {n_settings} settings ({where})"
    yield Figure(label, f"{worst:.1%}", "≤ 6.4%", worst <= 0.064)


GROUPS = {
    "equality": equality,
    "scanpy": scanpy_equality,
    "speed": speed,
    "markers": markers,
    "null": null_pvalues,
}


def draw(path: str) -> None:
    """Draw the result with scanpy."""
    import matplotlib.pyplot as plt
    import scanpy as sc

    adata = make_cells(3_000, 300, n_groups=6)
    rank_genes_groups(adata, "group")
    sc.pl.rank_genes_groups(adata, n_genes=15, show=False)
    plt.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--small", action="store_true", help="small sizes, for a trial run")
    parser.add_argument("--picture", metavar="FILE", help="draw a result with scanpy, and do nothing else")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.picture:
        draw(args.picture)
        return
    met = True
    for name in args.only:
        for figure in GROUPS[name](args.small):
            print(
                f"{'✓' if figure.met else '✗'} {figure.what}: {figure.measured} (goal {figure.goal})",
                flush=True,
            )
            met &= figure.met
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
