"""
Larger than memory, then on a cluster
=====================================

A company has a table of customers with hundreds of features, in a file that does not fit into memory, and a
target for each of its 20 products: whether the customer bought it. Which features go with which product?
This tutorial indexes the file once. After that, all targets are screened from a small part of the bytes.
Then the workers of a Dask cluster do the same.

The data are simulated. To keep this page quick to build, the file has only 0.4 GB. The memory that the steps
below use hardly depends on the number of rows, so a file of 400 GB is screened in the same way.
"""

# %%
# The file
# --------
# Rows are sorted by the day on which a customer signed up, as in most databases. Half of the
# features drift with time, and so do the sales. Five features predict each product.

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

n, p, q = 200_000, 500, 20
rng = np.random.default_rng(0)
features = [f"f{j:03}" for j in range(p)]
targets = [f"product_{k:02}" for k in range(q)]
predictors = np.array([rng.choice(p, 5, replace=False) for _ in range(q)])
drift = rng.choice([0, 0.4], p).astype("f4")

folder = Path(tempfile.mkdtemp())
table = folder / "customers.parquet"
schema = pa.schema([(name, pa.float32()) for name in features + targets])
with pq.ParquetWriter(table, schema, compression="none", use_dictionary=False) as file:
    for start in range(0, n, 10_000):
        day = np.arange(start, start + 10_000, dtype="f4")[:, None] / n - 0.5
        X = rng.standard_normal((10_000, p), dtype="f4") + drift * day
        effect = 0.15 * X[:, predictors].sum(axis=2) + 0.3 * day
        bought = effect + rng.standard_normal((10_000, q), dtype="f4") > 1
        file.write_table(pa.table([*X.T, *bought.astype("f4").T], schema=schema))

megabytes = table.stat().st_size / 1e6
print(f"{n:,} rows × {p} features and {q} targets: {megabytes:,.0f} MB")

# %%
# The steps below run in processes of their own, so what each of them needs can be measured: the
# time, the bytes read from files, and the memory above that of a process that has only loaded the
# library. The operating system counts both (on Linux).

import json
import subprocess
import sys

PROCESS = """
import json, sys, time
from pathlib import Path
import numpy as np, pyarrow.parquet
from banditsis import SIS, BanditSIS, Plan, open_data, screen, build_index

def count(file, key):
    return int(Path("/proc/self", file).read_text().split(key + ":")[1].split()[0])

rng, (table, store, targets) = np.random.default_rng(0), json.loads(sys.argv[1])
small = rng.standard_normal((4000, 40), dtype="f4")
for plan in Plan.exact(4000, 40, 4), Plan.paper(4000, 40, 4):  # load compiled kernels
    screen(small, rng.standard_normal((4000, 2)), plan)
started, read, memory = time.perf_counter(), count("io", "rchar"), count("status", "VmHWM")
%s
seconds, read = time.perf_counter() - started, count("io", "rchar") - read
print(json.dumps([seconds, read / 1e6, (count("status", "VmHWM") - memory) / 1e3, answer]))
"""
store = folder / "customers.index"
measured = {}


def run(title, code):
    """Run code in a new process and return its variable ``answer``."""
    arguments = json.dumps([str(table), str(store), targets])
    command = [sys.executable, "-c", PROCESS % code, arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    *measured[title], answer = json.loads(done.stdout)
    seconds, read, memory = measured[title]
    print(f"{title}: {seconds:.1f} s, {read:,.0f} MB read, {memory:,.0f} MB of memory")
    return answer


# %%
# Reading everything
# ------------------
# ``SIS`` streams the file. It needs little memory, and reads all bytes. All targets share one
# pass.

exact = run(
    "exact, all targets",
    """
source, Y, *_ = open_data(table, target=targets)
answer = [result.selected.tolist() for result in SIS(10).fit(source, Y).result_]
""",
)

# %%
# Sampling the file as it is
# --------------------------
# Parquet stores rows in groups, here of 10,000. Random rows would touch every group, so BanditSIS
# reads whole groups in random order. But a group is one season, and not like the others.
# BanditSIS tests that, and warns:

import textwrap
import warnings

from banditsis import BanditSIS, open_data

source, y, *_ = open_data(table, target=targets[0], drop=targets)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    groups = BanditSIS(10, budget=0.02, random_state=0).fit(source, y).result_
print(textwrap.fill(str(caught[0].message), 79))
print(f"share of the cells read: {groups.fraction_read:.0%}")

# %%
# A budget of 2% was not enough for eight groups, the smallest number that can be compared.
#
# Index once
# ----------
# ``build_index`` writes the rows in random order to a folder, within a memory limit, here 100 MiB.
# Then the first rows of the folder are a random sample. The first rows are stored row by row,
# later ones column by column, because later rounds need few features.

run(
    "index",
    """
answer = str(build_index(table, store, random_state=0, memory_limit=100 * 2**20))
""",
)
one = run(
    "adaptive, one target",
    """
source, y, *_ = open_data(store, target=targets[0], drop=targets)
answer = BanditSIS(10, budget=0.02, random_state=0).fit(source, y).result_.selected.tolist()
""",
)
adaptive = run(
    "adaptive, all targets",
    """
source, Y, *_ = open_data(store, target=targets)
results = BanditSIS(10, budget=0.02, random_state=0).fit(source, Y).result_
answer = [result.selected.tolist() for result in results]
""",
)

# %%
# One target needs a small part of the file. Twenty targets have different features left after the
# first rounds, so together they need more, but still far less than everything.

import matplotlib.pyplot as plt

_, read, memory = zip(*measured.values(), strict=True)
fig, panels = plt.subplots(1, 2, figsize=(7, 2.4), layout="constrained", sharey=True)
for axes, values, label in zip(panels, (read, memory), ("MB read", "MB of memory"), strict=True):
    bars = axes.barh(list(measured), values, color=["0.6", "0.6", "C0", "C0"])
    axes.bar_label(bars, fmt="{:,.0f}", padding=2)
    axes.set(xlabel=label, xlim=(0, 1.2 * max(values)))
    axes.spines[["top", "right"]].set_visible(False)
panels[0].invert_yaxis()
plt.show()

# %%
# What was lost? The truth is known here, and so is the exact selection.


def found(selections):
    """Share of the predictors that were selected."""
    return np.mean([np.isin(true, chosen) for true, chosen in zip(predictors, selections, strict=True)])


print(f"predictors found, exact:    {found(exact):.0%}")
print(f"predictors found, adaptive: {found(adaptive):.0%}")

# %%
# Building an index costs more than one exact run. So it pays off if the file is screened repeatedly:
# for new targets, other statistics or covariates.
#
# On a Dask cluster
# -----------------
# A cluster on this machine stands for a real one: a scheduler and two worker processes. With a
# real one, pass its address to ``Client``. ``FileOnWorkers`` is a file that all workers can open.
# They read the rows and features that a round needs and return sums, so hardly anything but sums
# is sent.

from distributed import Client
from distributed.deploy.subprocess import SubprocessCluster

from banditsis.sources.dask import FileOnWorkers


def bytes_received():
    """Bytes that this process and the workers received over the loopback interface."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))


workers = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
with SubprocessCluster(**workers) as cluster, Client(cluster) as client:
    client.wait_for_workers(2)
    source = FileOnWorkers(store, target=targets)
    before = bytes_received()
    results = BanditSIS(10, budget=0.02, random_state=0).fit(source, source.y).result_
    sent = bytes_received() - before

same = [result.selected.tolist() == selected for result, selected in zip(results, adaptive, strict=True)]
print(f"the same selection for {sum(same)} of {q} targets; {sent / 1e6:.1f} MB sent")
