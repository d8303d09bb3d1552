r"""
Fifty targets, and a month of new rows
======================================

A shop has a table of features of its customers, and predicts how much each of them will spend on each of 50
products. Targets are added and redefined, and every month there are new rows, but the features stay the same.
So they are screened again and again. This tutorial indexes them once, and screens all targets from the index,
together and one by one. It reads from the results which selections are certified to be those of exact
screening, appends a month of rows, and measures when an index does not pay off.

The data are simulated. Times are processor time, added up over threads, and were measured when this page was
built.
"""

# %%
# The features and the targets
# ----------------------------
# There are three kinds of features: scores, which are normal, amounts with heavy tails, and flags
# that are 1 for 2% of the customers. The target of each product depends on 8 to 24 features.

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

n, p, q = 25_000, 3_000, 50
features = [f"f{j:04}" for j in range(p)]
products = [f"product {k:02}" for k in range(q)]
kind = np.arange(p) % 3
mean, spread = np.array([[0, 1.65, 0.02], [1, 2.16, 0.14]], "f4")

rng = np.random.default_rng(0)
effects = np.zeros((p, q), "f4")
for k in range(q):
    size = rng.integers(8, 25)
    effects[rng.choice(p, size, replace=False), k] = rng.uniform(0.05, 0.2, size)


def write_rows(path, n, effects):
    """Write the features of n customers to a file, and return the target of each product."""
    schema, spent = pa.schema([(name, pa.float32()) for name in features]), []
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as file:
        for start in range(0, n, 5_000):
            X = rng.standard_normal((min(5_000, n - start), p), dtype="f4")
            X[:, kind == 1] = np.exp(X[:, kind == 1])
            X[:, kind == 2] = X[:, kind == 2] > 2.054
            file.write_table(pa.table(list(X.T), schema=schema))
            Z = (X - mean[kind]) / spread[kind]
            spent.append(Z @ effects + rng.standard_normal((len(X), q)))
    return pd.DataFrame(np.concatenate(spent), columns=products)


folder = Path(tempfile.mkdtemp())
Y = write_rows(folder / "year.parquet", n, effects)

megabytes = (folder / "year.parquet").stat().st_size / 1e6
print(f"{n:,} customers × {p:,} features, {megabytes:,.0f} MB; {q} targets")

# %%
# Index once
# ----------
# The index has a copy of the cells, column by column, and one bit for each cell. ``BanditSIS`` reads
# the bits of all features, and then the cells of a few candidates. To measure the time without that of
# compilation, the index is built twice.

from time import process_time

from banditsis import SIS, BanditSIS, build_index, open_source


def measure(call, repeat=2):
    """What a function returns, and its processor time in seconds, without that of compilation."""
    seconds = []
    for _ in range(repeat):
        start = process_time()
        value = call()
        seconds.append(process_time() - start)
    return value, min(seconds)


index = folder / "customers.index"
year = folder / "year.parquet"
_, build = measure(lambda: build_index(year, index, random_state=0, memory_limit=2**28, force=True))
bits = sum((index / name).stat().st_size for name in ("bits.npy", "moments.npy"))
print(f"built in {build:.1f} s; bits and moments: {bits / 1e6:.1f} MB, {bits / 4 / n / p:.1%} of float32")

# %%
# On the command line this is ``banditsis index year.parquet --out customers.index``.
#
# All targets together
# --------------------
# The index stores rows in random order. Targets are given in the order of the original data, as for
# any source. The bits are read once for all of them.

source, d = open_source(index), 10
results, together = measure(lambda: BanditSIS(d).fit(source, Y).result_)
print(f"{q} targets in {together:.2f} s")
print(results[:5])

# %%
# The certificate
# ---------------
# The result of one target ends with its certificate:

result = results["product 00"]
print(result)

# %%
# The bits give an estimate of each score with a known error, so they also say what a score is at
# most. All features that could be among the best were read in full, and their scores are exact.
# ``evidence.reach`` is the largest score that the others can have. If it is not above the last cutoff,
# which is the smallest score that was selected, none of the ten best features was missed, with
# probability 95%.

print(f"selected features score at least {result.rounds[-1].cutoff:.4f}")
print(f"features that were not read score at most {result.evidence.reach:.4f}")


def find_certified(results):
    """Whether the selection for each target is certified to be that of exact screening."""
    return np.array([result.evidence.reach <= result.rounds[-1].cutoff for result in results])


def find_equal(results, others):
    """Whether the same features were selected for each target."""
    pairs = zip(results, others, strict=True)
    return np.array([np.array_equal(one.selected, other.selected) for one, other in pairs])


certified = find_certified(results)
print(f"certified: {certified.sum()} of {q} targets")

# %%
# A target that depends on fewer than ten features has no clear tenth feature: the rest of the
# selection is noise. To find out which noise is largest, nearly all features would have to be read.
# Instead, the run stops after some candidates and states a detection floor. Every feature with a
# score at or above it that exact screening selects was selected here too, with probability 95%.

for k in np.flatnonzero(~certified):
    read, floor = results[k].rounds[-1].n_features, results[k].detection_floor()
    size = np.count_nonzero(effects[:, k])
    print(f"{products[k]} depends on {size} features: {read} were read in full, floor {floor:.4f}")

# %%
# Exact screening of the file checks both statements.

file = open_source(year)
exact, together_exact = measure(lambda: SIS(d).fit(file, Y).result_)
print(f"certified selections equal to the exact ones: {find_equal(results, exact)[certified].sum()}")

lost = 0
for one, full in zip(results, exact, strict=True):
    strong = full.selected[np.abs(full.scores[full.selected]) >= one.detection_floor()]
    lost += len(np.setdiff1d(strong, one.selected))
print(f"features at or above a floor that were lost: {lost}")

# %%
# One by one
# ----------
# Usually targets do not come at the same time. Each run reads the bits again, and the cells of its
# own candidates.

y = Y["product 00"]
_, alone = measure(lambda: BanditSIS(d).fit(source, y))
_, alone_exact = measure(lambda: SIS(d).fit(file, y))
print(f"one target:   index {1000 * alone:3.0f} ms, file {1000 * alone_exact:3.0f} ms")
print(f"{q} together:  index {1000 * together:3.0f} ms, file {1000 * together_exact:3.0f} ms")

# %%
# The index has to be built first. The picture adds up these times, for all targets one by one (above),
# and for all of them together in each month of a year (below). The index pays off where the lines
# cross.

import matplotlib.pyplot as plt

fig, panels = plt.subplots(2, 1, figsize=(5.4, 6.4), layout="constrained")
cases = {
    "one target at a time": ("targets", q, alone, alone_exact),
    f"all {q} targets together": ("months", 12, together, together_exact),
}
for axes, (title, (label, most, fast, slow)) in zip(panels, cases.items(), strict=True):
    crossing, times = build / (slow - fast), np.array([0, most])
    axes.plot(times, slow * times, color="0.5", label="SIS, from the file")
    axes.plot(times, build + fast * times, color="C0", label="build an index, then BanditSIS")
    at = crossing, slow * crossing
    axes.plot(*at, "o", color="C3")
    axes.annotate(f"{crossing:.1f}", at, (8, -4), textcoords="offset points", va="top")
    axes.set(title=title, xlabel=label, ylabel="seconds of processor time", xlim=0, ylim=0)
    axes.spines[["top", "right"]].set_visible(False)
panels[0].legend(loc="upper left")
plt.show()

# %%
# A month of new rows
# -------------------
# In January the prices of five products change, and what customers spend on each of them now depends
# strongly on a score that did not matter before. The rows of January are appended to the index.
# What it has already is not written again.

scores = np.flatnonzero((kind == 0) & ~effects.any(axis=1))[:5]
changed = effects.copy()
changed[scores, np.arange(5)] = 1
january = folder / "january.parquet"
Y_january = write_rows(january, 5_000, changed)

_, append = measure(lambda: build_index(january, index, append=True), repeat=1)
print(f"{len(Y_january):,} rows appended in {append:.2f} s")

# %%
# On the command line this is ``banditsis index january.parquet --append customers.index``. The index
# is opened again. The targets are those of the year, then those of January.

source = open_source(index)
Y_both = pd.concat([Y, Y_january], ignore_index=True)
after = BanditSIS(d).fit(source, Y_both).result_
exact, together_memory = measure(lambda: SIS(d).fit(source, Y_both).result_)

certified, equal = find_certified(after), find_equal(after, exact)
print(f"{source.shape[0]:,} rows; certified: {certified.sum()}, of which {equal[certified].sum()} are exact")
for k, j in enumerate(scores):
    before, now = results[k].scores[j], after[k].scores[j]
    selected = "selected" if j in after[k].selected else "not selected"
    print(f"{products[k]}: score of {features[j]} {before:+.3f} before, {now:+.3f} now, {selected}")

# %%
# When an index does not pay off
# ------------------------------
# - *The features are screened once.* Exact screening of all targets together is one pass over the file.
#   Building an index is also a pass, and it transforms and writes all cells.
# - *The data fit into memory.* Most of the time of ``SIS`` above is for reading Parquet. The cells of this
#   index are in memory by now, where ``SIS`` reads them much faster. Bits still save some time for one
#   target, but little or nothing for all targets together, which ``SIS`` screens by one matrix product:

y_both = Y_both["product 00"]
_, alone_memory = measure(lambda: SIS(d).fit(source, y_both))
_, alone = measure(lambda: BanditSIS(d).fit(source, y_both))
_, together = measure(lambda: BanditSIS(d).fit(source, Y_both))
print(f"one target:   BanditSIS {1000 * alone:3.0f} ms, SIS in memory {1000 * alone_memory:3.0f} ms")
print(f"{q} together:  BanditSIS {1000 * together:3.0f} ms, SIS in memory {1000 * together_memory:3.0f} ms")

# %%
# - *The only target is a rare class.* Rows that are chosen by the response carry more information than
#   one bit of each row; see :doc:`/guarantees`.
# - *More than an eighth of the features is to be selected, or there are fewer than about 200.* Candidates
#   could be more than half of the data, so the bits are not used.
#
# :doc:`/indexes` explains how bits estimate scores, and proves the certificate.
