"""Screening of arrays on a GPU: shares of the read bandwidth and of matrix products, launches, and PyTorch.

python benchmarks/gpu.py [--only NAME …] [--write FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import cupy
import numpy as np
import torch
from scipy.special import stdtr

from banditsis import SIS, BanditSIS, Plan, screen
from banditsis.core.parallel import Workers
from banditsis.sources.base import SumContext
from banditsis.sources.gpu import GpuSource
from banditsis.statistics.families import Pearson
from reporting import Figure, at_least, at_most, collect, publish
from timing import interleaved

MARKER = "<!-- measured: written by benchmarks/gpu.py -->"


def make(n: int, p: int, order: str = "C", dtype: str = "float32") -> tuple[cupy.ndarray, np.ndarray]:
    """Noise with twenty signals, made on the device."""
    rng = cupy.random.default_rng(0)
    X = cupy.empty((n, p), dtype, order=order)
    step = max(1, (1 << 28) // p)
    for i in range(0, n, step):
        X[i : i + step] = rng.standard_normal((min(step, n - i), p), dtype=cupy.float32)
    signal = X[:, :20].astype(cupy.float64) @ cupy.linspace(0.2, 1, 20)
    return X, (signal + 3 * rng.standard_normal(n)).get()


def finished(call: Callable[[], object]) -> Callable[[], None]:
    """The call, waiting until the device has done what it started."""

    def run() -> None:
        call()
        cupy.cuda.Device().synchronize()

    return run


def free() -> None:
    cupy.get_default_memory_pool().free_all_blocks()
    torch.cuda.empty_cache()


def make_pass(X: cupy.ndarray, Y: np.ndarray) -> Callable[[], None]:
    """The sums of all cells, without what precedes and follows them."""
    source, n = GpuSource(X), len(X)
    statistic = Pearson.bind(Y, False).calibrate(slice(0, n))
    calibration, out = source.calibrate(slice(0, n)), np.zeros((1, statistic.layout.n_lines, X.shape[1]))

    def run() -> None:
        with Workers(16) as workers:
            context, weights = SumContext(calibration, out, workers), statistic.weights(slice(0, n))
            source.add_sums(slice(0, n), np.array([0, n]), None, weights, context)

    return run


def bandwidth() -> Iterator[Figure]:
    for name, order, p, goal in (
        ("row-major", "C", 4_000, 0.92),
        ("column-major", "F", 4_000, 0.85),
        ("row-major", "C", 24_000, 0.92),
    ):
        X, y = make(1_000_000, p, order)
        tensor, on_device = torch.from_dlpack(X), cupy.asarray(y)
        exact, bandit = SIS(50), BanditSIS(50, random_state=0)
        best = interleaved(
            15,
            read=finished(tensor.sum if order == "C" else tensor.T.sum),
            sums=make_pass(X, y[:, None]),
            exact=lambda exact=exact, X=X, y=y: exact.fit(X, y),
            on_device=lambda exact=exact, X=X, y=on_device: exact.fit(X, y),
            bandit=lambda bandit=bandit, X=X, y=y: bandit.fit(X, y),
        )
        label = f"10⁶ × {p:,}, {name}"
        rate = X.nbytes / best["sums"] / 1e12
        yield at_least(f"{label}: pass ({rate:.2f} TB/s), share of read", best["read"] / best["sums"], goal)
        what = f"{label}: SIS ({best['exact'] * 1e3:.1f} ms; y on the GPU {best['on_device'] * 1e3:.1f} ms)"
        yield at_least(f"{what}, share of read", best["read"] / best["exact"], goal)
        what = f"{label}: BanditSIS ({best['bandit'] * 1e3:.1f} ms), time of SIS"
        yield at_most(what, best["bandit"] / best["exact"], 0.4, "×")
        if p == 4_000 and order == "C":
            yield from launches(X, y)
        del X, tensor, on_device
        free()


def launches(X: cupy.ndarray, y: np.ndarray) -> Iterator[Figure]:
    """Kernels and waits for them in an adaptive run, as CUDA's profiler sees them."""
    selector = BanditSIS(50, random_state=0).fit(X, y)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        selector.fit(X, y)
    counts: dict[str, int] = {}
    for event in profile.events():
        counts[event.name] = counts.get(event.name, 0) + 1
    calls = {name: k for name, k in counts.items() if name.startswith("cu")}
    print(calls)
    n_rounds = len(selector.result_.rounds)
    launched = sum(k for name, k in calls.items() if "Launch" in name)
    waited = sum(k for name, k in calls.items() if "Synchronize" in name or "DtoH" in name)
    yield at_most(f"BanditSIS, {n_rounds} rounds: kernel launches per round", launched / n_rounds, 12)
    yield at_most(f"BanditSIS, {n_rounds} rounds: waits per round", waited / n_rounds, 2)


def many_responses() -> Iterator[Figure]:
    n, p, q = 200_000, 20_000, 1_000
    free()
    X, _ = make(n, p)
    Y = cupy.random.default_rng(1).standard_normal((n, q), dtype=cupy.float32)
    tensor, weights, host = torch.from_dlpack(X), torch.from_dlpack(Y), Y.get()
    plan = Plan.exact(n, p, 100)
    best = interleaved(
        3,
        gemm=finished(lambda: weights.T @ tensor),
        sums=make_pass(X, host),
        ours=lambda: screen(X, host, plan),
        on_device=lambda: screen(X, Y, plan),
    )
    what = f"1,000 responses, 200,000 × 20,000; GEMM {best['gemm'] * 1e3:.0f} ms"
    yield at_least(
        f"{what}, pass {best['sums'] * 1e3:.0f} ms: share of GEMM", best["gemm"] / best["sums"], 0.7
    )
    what = f"the same, whole call {best['ours'] * 1e3:.0f} ms (Y on the GPU {best['on_device'] * 1e3:.0f} ms)"
    yield at_least(f"{what}: share of GEMM", best["gemm"] / best["ours"], 0.7)


def accuracy() -> Iterator[Figure]:
    for dtype, goal in (("float64", 1e-10), ("float32", 1e-5), ("float16", 1e-5)):
        worst = 0.0
        for order in "CF":
            X, y = make(200_000, 500, order, dtype)
            worst = max(worst, np.abs(SIS(5).fit(X, y).scores_ - SIS(5).fit(X.get(), y).scores_).max())
        yield Figure(f"scores, GPU against CPU, {dtype}", f"{worst:.1e}", f"≤ {goal:g}", worst <= goal)


def nominal_pass() -> Iterator[Figure]:
    """All variants against all phenotypes given covariates: residuals and a product, as tensorQTL does."""
    n, p, q, k = 5_000, 10_000, 1_000, 10
    rng = cupy.random.default_rng(0)
    X = rng.integers(0, 3, (n, p)).astype(cupy.float32)
    Y = rng.standard_normal((n, q), dtype=cupy.float32)
    Z = rng.standard_normal((n, k), dtype=cupy.float32)
    genotypes, phenotypes, covariates = (torch.from_dlpack(a) for a in (X, Y, Z))
    df = n - 2 - k

    def residuals(matrix: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
        centred = matrix - matrix.mean(1, keepdim=True)
        left = centred - torch.mm(torch.mm(centred, basis), basis.t())
        return left / left.norm(dim=1, keepdim=True)

    def peer() -> np.ndarray:
        basis, _ = torch.linalg.qr(covariates - covariates.mean(0))
        r = torch.mm(residuals(genotypes.t(), basis), residuals(phenotypes.t(), basis).t())
        t = r * torch.sqrt(df / (1 - r * r))
        return 2 * stdtr(df, -np.abs(t.cpu().numpy()))

    plan, found = Plan.exact(n, p, 100), {}

    def ours() -> None:
        found["pvalues"] = np.stack([one.pvalues for one in screen(X, Y, plan, covariates=Z)])

    best = interleaved(3, torch=finished(peer), ours=ours)
    what = "10,000 variants × 1,000 phenotypes × 5,000 samples, 10 covariates, with p-values: "
    what += f"PyTorch and SciPy {best['torch'] * 1e3:.0f} ms, ours {best['ours'] * 1e3:.0f} ms, ratio"
    yield at_least(what, best["torch"] / best["ours"], 1.5)
    difference = np.abs(np.log10(found["pvalues"][:5].T) - np.log10(peer()[:, :5]))
    print(f"largest difference of log10 p: {np.nanmax(difference):.1e}")


PARTS = {
    "bandwidth": bandwidth,
    "accuracy": accuracy,
    "many": many_responses,
    "nominal": nominal_pass,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    figures = collect(figure for part in options.only for figure in PARTS[part]())
    publish(figures, "bench-gpu", options.write, MARKER)


if __name__ == "__main__":
    main()
