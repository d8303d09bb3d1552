r"""
How the method works
====================

Screening ranks features by their correlation with a response and keeps the best. ``SIS`` reads all cells for
that. ``BanditSIS`` reads a few rows of every feature, drops the weak ones, reads more rows of the others, and
so on. This tutorial looks at one run, round by round. Then it measures which features are lost, and how the
settings ``alpha``, ``budget`` and ``min_correlation`` trade cells for errors.

The data are simulated, so the truth is known.
"""

# %%
# A run
# -----
# Of 1,000 features, 10 are associated with the response, with correlations from 0.35 down to
# 0.08.

import matplotlib.pyplot as plt
import numpy as np

from banditsis import SIS, BanditSIS, Plan, screen


def simulate(n, p, correlations, rng):
    """Normal features, and a response that has these correlations with the first of them."""
    X = rng.standard_normal((n, p), dtype=np.float32)
    noise = np.sqrt(1 - np.square(correlations).sum())
    y = X[:, : len(correlations)] @ correlations + noise * rng.standard_normal(n)
    return X, y


n, p, d = 50_000, 1_000, 20
truth = np.linspace(0.35, 0.08, 10)
X, y = simulate(n, p, truth, np.random.default_rng(0))

result = BanditSIS(d, alpha=0.5, random_state=0).fit(X, y).result_
for k, r in enumerate(result.rounds, 1):
    counts = f"{r.n_rows:5,} rows, {r.n_features:5,} -> {r.n_kept:3} features"
    print(f"round {k:2}: {counts}, cutoff {r.cutoff:.3f}")
print(f"cells read: {result.fraction_read:.1%}")
print(f"associated features kept: {np.isin(np.arange(10), result.selected).sum()} of 10")

# %%
# Each round reads new rows of the remaining features, adds them to a few sums per feature,
# computes the correlations over all rows so far, and keeps the best. The cutoff is the smallest
# correlation that was kept. The first round reads few rows of all features, the last one more rows
# of few features.

# %%
# Why so few rows are enough
# --------------------------
# The list of rounds is a plan, and it is made before any data are read. With a plan, the whole
# method is a short loop. This one is written in NumPy for the picture. It computes the
# correlations of each round anew; the library keeps sums, reads every cell once, and works on
# files and clusters as well.

plan = Plan.paper(n, p, d, alpha=0.5)
order = np.random.default_rng(1).permutation(n)
left = np.arange(p)
path = np.full((len(plan.steps), p), np.nan)
for k, (n_rows, n_keep) in enumerate(plan.steps):
    Z, w = X[order[:n_rows]][:, left], y[order[:n_rows]]
    path[k, left] = (Z - Z.mean(0)).T @ (w - w.mean()) / (n_rows * Z.std(0) * w.std())
    left = left[np.argsort(-np.abs(path[k, left]))[:n_keep]]

# %%
# Over m rows the correlation of a feature has a standard error of about :math:`1/\sqrt m`. The
# grey band is where 95% of the features without association would be, :math:`\pm 1.96/\sqrt m`. A
# line ends when its feature is dropped.

# sphinx_gallery_thumbnail_number = 1
rows = [step.n_rows for step in plan.steps]
band = 1.96 / np.sqrt(rows)
fig, axes = plt.subplots(figsize=(6, 4.4), layout="constrained")
axes.fill_between(rows, -band, band, color="0.88", label="95% band without association")
axes.plot(rows, path[:, 10:], "-", color="C0", lw=0.5)
axes.plot(rows[0] * np.ones(p - 10), path[0, 10:], ".", color="C0", ms=2, label="not associated")
axes.plot(rows, path[:, :10], ".-", color="C3", lw=1.2, label=["associated"] + [None] * 9)
axes.set(xscale="log", xlabel="rows read (log scale)", ylabel="correlation so far")
axes.set_xticks(rows[::2], [f"{m:,}" for m in rows[::2]])
axes.minorticks_off()
fig.legend(loc="outside lower center", ncols=3)
plt.show()

# %%
# After about 1,000 rows, strong features are far from the band, and their exact value does not
# matter. Half of the others can be dropped at once, because only the best 20 are wanted. The
# weakest associated features, at 0.08 and 0.11, are not far from the band. They are the ones at
# risk.

# %%
# Which features are lost
# -----------------------
# A run loses a feature if it is unlucky in some round. The **detection floor** is the correlation
# at which a feature is kept with probability 95%, if fewer than d others are about as strong. It
# is known from the plan. To check it, 40 of 500 features have correlations from 0 to 0.22, and
# the rows are drawn 100 times.

n, p, d = 20_000, 500, 60
X, y = simulate(n, p, np.linspace(0, 0.22, 40), np.random.default_rng(2))
actual = np.abs(SIS(1).fit(X, y).result_.scores[:40])  # over all rows

fig, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for alpha, colour in ((0.3, "C0"), (0.5, "C1"), (1.1, "C2")):
    plan = Plan.paper(n, p, d, alpha=alpha)
    runs = [screen(X, y, plan, random_state=k) for k in range(100)]
    kept = np.mean([np.isin(np.arange(40), run.selected) for run in runs], axis=0)
    floor = plan.detection_floor()
    label = f"alpha = {alpha}: {plan.fraction:.0%} of the cells"
    axes.plot(actual, kept, ".", color=colour, label=label)
    axes.axvline(floor, color=colour, lw=1, ls="--")
    above = kept[actual >= floor]
    print(
        f"alpha = {alpha}: floor {floor:.3f}; the {len(above):2} features above it were kept "
        f"in {above.mean():.1%}"
    )
axes.axhline(0.95, color="0.5", lw=0.8)
axes.set(xlabel="|correlation| over all rows", ylabel="share of the runs that kept it")
axes.legend(title="dashed: detection floor", loc="lower right")
axes.grid(alpha=0.3)
plt.show()

# %%
# To the right of its dashed line, a setting keeps a feature in about 95% of the runs or more. A
# floor of 0.1 does not mean that weaker features are lost: many at 0.07 are kept too, but not
# reliably.

# %%
# Three settings
# --------------
# - ``alpha`` is the setting of the paper. A smaller value reads more rows.
# - ``budget`` is the share of the cells to read. BanditSIS searches for the plan with the lowest
#   detection floor for this cost.
# - ``min_correlation`` is the correlation above which no feature may be lost. A feature is dropped only
#   if it is below that with high confidence, and rounds go on until nothing is undecided.
#
# A plan knows its cost and its floor, so the first two can be compared without data. The upper
# picture does so for a million rows and 10,000 features. The lower picture is measured on the
# data above: the share of the features with a correlation of 0.08 or more that were lost.

strong = np.flatnonzero(actual >= 0.08)


def measure(plan):
    """Cells read, and the share of the strong features that was lost, as means of 20 runs."""
    runs = [screen(X, y, plan, sampling="uniform", random_state=k) for k in range(20)]
    cells = [run.fraction_read for run in runs]
    lost = [1 - np.isin(strong, run.selected).mean() for run in runs]
    return np.mean(cells), np.mean(lost)


measured = {
    "alpha": [measure(Plan.paper(n, p, d, a)) for a in (0.35, 0.5, 0.7, 1.1, 2)],
    "budget": [measure(Plan.optimal(n, p, d, b)) for b in (0.01, 0.017, 0.03, 0.05, 0.09)],
    "min_correlation": [measure(Plan.guaranteed(n, p, d, r)) for r in (0.15, 0.12, 0.1, 0.08)],
}
large = 1_000_000, 10_000, 100
papers = [Plan.paper(*large, a) for a in np.geomspace(0.15, 2, 7)]
optimal = [Plan.optimal(*large, b) for b in np.geomspace(0.002, 0.07, 7)]
minima = np.geomspace(0.02, 0.1, 7)
planned = {
    "alpha": [(plan.fraction, plan.detection_floor()) for plan in papers],
    "budget": [(plan.fraction, plan.detection_floor()) for plan in optimal],
    "min_correlation": [(Plan.guaranteed(*large, r).fraction, r) for r in minima],
}

fig, (left, right) = plt.subplots(2, 1, figsize=(5.4, 7), layout="constrained")
for name, marker in zip(planned, "os^", strict=True):
    left.plot(*np.transpose(planned[name]), marker=marker, ms=4, label=name)
    right.plot(*np.transpose(measured[name]), marker=marker, ms=4, label=name)
left.set(ylabel="detection floor or min_correlation", title="1,000,000 × 10,000, planned")
right.set(ylabel="share of features lost", title="20,000 × 500, measured")
for axes in (left, right):
    axes.set(xscale="log", xlabel="share of the cells (log scale)")
    axes.set_xticks([0.003, 0.01, 0.03, 0.1], ["0.3%", "1%", "3%", "10%"])
    axes.minorticks_off()
    axes.legend()
    axes.grid(alpha=0.3)
plt.show()

# %%
# For the same cells, ``budget`` has a lower floor and loses fewer features than ``alpha``.
# ``min_correlation`` is more expensive because it promises more. A detection floor is about each
# feature on its own. ``min_correlation`` keeps all features above it at once, with probability
# 95%, and here it lost none.

# %%
# Rows chosen by the response
# ---------------------------
# The response is known before any feature is read. The correlation is a sum of products
# :math:`x_i (y_i - \bar y)`, and a row with :math:`y_i` near the mean adds almost nothing to it.
# So by default BanditSIS divides the rows into strata by :math:`|y_i - \bar y|`, reads relatively
# more rows of the outer ones, and weights them. ``alpha``, the setting of the paper, uses uniform
# samples.
#
# A plan can be a function of the sampling design, which makes the design visible:

designs = {}
responses = {
    "normal": y,
    "lognormal": np.exp(y),
    "2% of a class": y > np.quantile(y, 0.98),
}
for name, response in responses.items():

    def plan(design, name=name):
        designs[name] = design
        return Plan.optimal(n, p, d, 0.03, design=design)

    screen(X, response, plan, sampling="stratified", random_state=0)

fig, panels = plt.subplots(3, 1, figsize=(5.4, 7.5), layout="constrained", sharey=True)
for axes, (name, design) in zip(panels, designs.items(), strict=True):
    strata = np.arange(design.n_strata)
    axes.bar(strata - 0.2, np.array(design.sizes) / n, 0.4, color="0.7", label="all rows")
    axes.bar(strata + 0.2, design.allocate(1000) / 1000, 0.4, color="C1", label="sample")
    worth = design.effective_rows(1000)
    axes.set_title(f"{name}:\n1,000 rows are worth {worth:,.0f}", fontsize=10)
    axes.set(xlabel="stratum, from the mean outwards", xticks=strata)
panels[0].set(ylabel="share of the rows")
panels[0].legend()
plt.show()

# %%
# The gain is largest for unequal responses. The effect on the selection:

plans = {
    "uniform": Plan.optimal(n, p, d, 0.02),
    "stratified": lambda design: Plan.optimal(n, p, d, 0.02, design=design),
}
for sampling, plan in plans.items():
    runs = [screen(X, y, plan, sampling=sampling, random_state=k) for k in range(30)]
    kept = np.mean([np.isin(strong, run.selected).mean() for run in runs])
    print(f"{sampling:10}: {kept:.1%} of the strong features kept with 2% of the cells")
