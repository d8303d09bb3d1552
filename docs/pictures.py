"""Draw the pictures of the documentation: `make docs-figures`.

overview.png shows the cells that a run reads; the others are made by the code of results.md.
"""

import re
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from banditsis import SIS, BanditSIS, Plan, build_index, open_source, plots

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests"))
from browser import Browser, find_chromium  # noqa: E402

PLOTS = ("scores", "manhattan")  # in the order on the page
READ, UNREAD, KEPT = "#0072b2", "#e8eaed", "#d55e00"


def draw_index():
    """A rare feature before and after the rotation of a block, and correlations by bits of many features."""
    from banditsis.index.sketch import draw_signs, make_blocks
    from banditsis.kernels.bits import transform

    (block, *_), rng = make_blocks(1 << 13), np.random.default_rng(0)
    x = (rng.random(block.size) < 0.01).astype(np.float32)
    tile, signs = np.zeros((block.size, 16), np.float32), draw_signs(0, block)
    tile[:, 0] = (x - x.mean()) * signs[0]
    transform(tile)
    tile *= signs[1][:, None] / block.size
    transform(tile)
    figure, axes = plt.subplots(3, 1, figsize=(5.2, 7.2), layout="constrained")
    axes[0].plot(x[:800], color=READ, linewidth=0.8)
    axes[0].set(title="a feature with 1% ones", xlabel="row", yticks=[0, 1])
    z = tile[:800, 0]
    axes[1].scatter(np.arange(800), z, s=2, c=np.where(z > 0, KEPT, READ))
    axes[1].set(title="its block, rotated: one bit is the sign", xlabel="coordinate", yticks=[0])
    X = rng.standard_normal((20_000, 500), dtype=np.float32)
    y = X[:, :20] @ np.linspace(0.05, 0.3, 20) + rng.standard_normal(20_000)
    with tempfile.TemporaryDirectory() as folder:
        source = open_source(build_index(X, f"{folder}/x.index", random_state=0))
        exact, found = SIS(20).fit(source, y).scores_, BanditSIS(10).fit(source, y).result_
    read = found.last_round == 1
    axes[2].plot([-0.05, 0.25], [-0.05, 0.25], color=UNREAD, zorder=0)
    axes[2].scatter(exact[~read], found.scores[~read], s=6, color=READ, label="by bits")
    axes[2].scatter(exact[read], found.scores[read], s=10, color=KEPT, label="then read in full")
    axes[2].set(title="scores", xlabel="exact", ylabel="of the run")
    axes[2].legend(frameon=False)
    figure.savefig(DOCS / "figures" / "index.png", dpi=110)
    plt.close(figure)


def draw_overview():
    """The cells that exact and adaptive screening read of the same table, with default settings."""
    n, p, d = 100_000, 1_000, 20
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p), dtype=np.float32)
    y = X[:, :d] @ np.linspace(0.02, 0.2, d) + rng.standard_normal(n)
    result = BanditSIS(d, random_state=0).fit(X, y).result_
    figure, axes = plt.subplots(1, 2, figsize=(5.4, 3.9), sharey=True, layout="constrained")
    names = (
        f"SIS: {Plan.exact(n, p, d).cells / 1e6:.0f} million cells",
        f"BanditSIS: {result.cells_read / 1e6:.1f} million",
    )
    for axis, name in zip(axes, names, strict=True):
        axis.add_patch(Rectangle((0, 0), p, n, color=UNREAD, linewidth=0))
        axis.set(xlim=(0, p), ylim=(n, 0), xticks=[])
        axis.set_title(name, fontsize=11)
        axis.set_xlabel(f"{p:,} features, best first", fontsize=11)
        axis.set_yticks([0, n // 2, n], ["0", f"{n // 2:,}", f"{n:,}"], rotation=90, va="center")
    axes[0].set_ylabel("rows", fontsize=11)
    axes[0].add_patch(Rectangle((0, 0), p, n, color=READ, linewidth=0))
    draw_rounds(axes[1], result, d)
    largest = result.rounds[-1].n_rows
    inset = axes[1].inset_axes((0.16, 0.14, 0.78, 0.56))
    inset.set(xlim=(0, p), ylim=(1.05 * largest, 0), xticks=[], yticks=[0, largest])
    inset.set_yticklabels(["0", f"{largest:,}"], rotation=90, va="center", fontsize=9)
    inset.set_facecolor(UNREAD)
    draw_rounds(inset, result, d)
    inset.text(
        0.2 * p, 0.62 * largest, f"{len(result.rounds)} rounds: more rows\nof fewer features", fontsize=10
    )
    axes[1].indicate_inset_zoom(inset, edgecolor="#444444")
    figure.savefig(DOCS / "figures" / "overview.png", dpi=160, pil_kwargs={"optimize": True})
    plt.close(figure)


def draw_sample_check():
    """What the sample of the start page misses."""
    code = re.findall(r"```python\n(.*?)```", (DOCS / "index.md").read_text("utf-8"), flags=re.DOTALL)
    names = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        exec("\n".join(code[:2]), names)
    figure, axis = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
    plots.sample_check(names["check"], axis)
    figure.savefig(DOCS / "figures" / "sample_check.png", dpi=110, pil_kwargs={"optimize": True})
    plt.close(figure)


def draw_rounds(axis, result, d):
    """The rows that each round adds, of the features that are left; darker rounds come later."""
    rows = 0
    shades = mpl.colormaps["Blues"](np.linspace(0.45, 0.95, len(result.rounds)))
    for done, shade in zip(result.rounds, shades, strict=True):
        axis.add_patch(Rectangle((0, rows), done.n_features, done.n_rows - rows, color=shade, linewidth=0))
        rows = done.n_rows
    axis.add_patch(Rectangle((0, 0), d, rows, color=KEPT, linewidth=0))


def draw_results():
    """Run the code of the page, save its plots, and take screenshots of its report."""
    chromium = find_chromium() or sys.exit("The screenshots of the report need Chromium: make browser")
    code = re.findall(r"```python\n(.*?)```", (DOCS / "results.md").read_text("utf-8"), flags=re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):  # the first run loads the compiled kernels, which would affect the times
            plt.close("all")
            with chdir(folder):
                exec("\n".join(code), {})
        for number, name in zip(plt.get_fignums(), PLOTS, strict=True):
            plt.figure(number).savefig(
                DOCS / "figures" / f"{name}.png", dpi=80, pil_kwargs={"optimize": True}
            )
        browser = Browser(chromium, Path(folder) / "profile")
        windows = {"report": (1000, 1300, False), "report_phone": (390, 844, True)}
        for name, (width, height, dark) in windows.items():
            browser.open(Path(folder) / "report.html", width=width, height=height, dark=dark)
            browser.wait_for("document.documentElement.dataset.ready === '1'")
            browser.screenshot(DOCS / "figures" / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    mpl.use("Agg")
    draw_overview()
    draw_sample_check()
    draw_index()
    draw_results()
