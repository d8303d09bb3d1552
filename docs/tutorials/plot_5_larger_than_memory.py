"""
Larger than memory, then on a cluster
=====================================

A company has a table of customers with hundreds of features, in a file that does not fit into memory, and a
target for each of its 20 products: whether the customer bought it. Which features go with which product?
This tutorial screens all targets exactly in one pass with bounded memory, looks at what a sample of the rows
would have missed, and lets the workers of a Dask cluster do the same.

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
strengths = np.array([0.3, 0.2, 0.1, 0.05, 0.03], "f4")

folder = Path(tempfile.mkdtemp())
table = folder / "customers.parquet"
schema = pa.schema([(name, pa.float32()) for name in features + targets])
with pq.ParquetWriter(table, schema, compression="none", use_dictionary=False) as file:
    for start in range(0, n, 10_000):
        day = np.arange(start, start + 10_000, dtype="f4")[:, None] / n - 0.5
        X = rng.standard_normal((10_000, p), dtype="f4") + drift * day
        effect = X[:, predictors] @ strengths + 0.3 * day
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
from banditsis import SIS, open_data

def count(file, key):
    return int(Path("/proc/self", file).read_text().split(key + ":")[1].split()[0])

rng, (table, targets) = np.random.default_rng(0), json.loads(sys.argv[1])
SIS(4).fit(rng.standard_normal((4000, 40), dtype="f4"), rng.standard_normal((4000, 2)))  # load kernels
started, read, memory = time.perf_counter(), count("io", "rchar"), count("status", "VmHWM")
%s
seconds, read = time.perf_counter() - started, count("io", "rchar") - read
print(json.dumps([seconds, read / 1e6, (count("status", "VmHWM") - memory) / 1e3, answer]))
"""


def run(title, code):
    """Run code in a new process and return its variable ``answer``."""
    arguments = json.dumps([str(table), targets])
    command = [sys.executable, "-c", PROCESS % code, arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds, read, memory, answer = json.loads(done.stdout)
    print(f"{title}: {seconds:.1f} s, {read:,.0f} MB read, {memory:,.0f} MB of memory")
    return answer


# %%
# Exact screening streams the file
# --------------------------------
# ``SIS`` reads the file in pieces, so it needs little memory. All targets share one pass.

one = run(
    "exact, one target",
    """
source, y, *_ = open_data(table, target=targets[0], drop=targets)
answer = SIS(10).fit(source, y).result_.selected.tolist()
""",
)
exact = run(
    "exact, all targets",
    """
source, Y, *_ = open_data(table, target=targets)
answer = [result.selected.tolist() for result in SIS(10).fit(source, Y).result_]
""",
)

# %%
# This is the right method for a file that is screened once, however many targets there are: nothing
# is missed, and twenty targets take far less time than twenty runs. Features that drift with the sales are
# associated with them too; the five predictors of each product are among the selected ones:


def found(selections):
    """Share of the predictors that were selected."""
    return np.mean([np.isin(true, chosen) for true, chosen in zip(predictors, selections, strict=True)])


print(f"predictors found: {found(exact):.0%}")

# %%
# What a sample would have missed
# -------------------------------
# Instead, many would read a sample of the rows. ``SampleCheck`` compares it with all rows. On the
# command line this is ``banditsis sample-check customers.parquet --target product_00 --rows 2000``.

import matplotlib.pyplot as plt

from banditsis import SIS, Plan, open_data, plots, screen
from banditsis.results import SampleCheck

source, y, *_ = open_data(table, target=targets[0], drop=targets)
everything = SIS(10).fit(source, y).result_
plan = Plan.subsample(n, p, 10, 2_000)
sample = screen(source, y, plan, row_order="random", random_state=0)
check = SampleCheck(everything, sample)
print(f"clearly associated: {len(check.associated)}; missed by the sample: {len(check.missed)}")
print(f"detection floor of the sample: {check.floor:.3f}")

# sphinx_gallery_thumbnail_number = 1
fig, axes = plt.subplots(figsize=(5.4, 4.6), layout="constrained")
plots.sample_check(check, axes)
plt.show()

# %%
# Sampling the file as it is
# --------------------------
# A random sample of rows is not cheap here. Parquet stores rows in groups, here of 10,000, and
# random rows touch every group. So ``BanditSIS`` reads whole groups in random order. But a group is
# one season, and not like the others. ``BanditSIS`` tests that, and warns:

import textwrap
import warnings

from banditsis import BanditSIS

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    groups = BanditSIS(10, budget=0.02, random_state=0).fit(source, y).result_
print(textwrap.fill(str(caught[0].message), 79))
print(f"share of the cells read: {groups.fraction_read:.0%}")

# %%
# A budget of 2% was not enough for eight groups, the smallest number that can be compared. So a
# sorted file that is read once is better screened exactly. If it is screened again and again, index
# it: :doc:`plot_7_index` measures when that pays off.
#
# On a Dask cluster
# -----------------
# A cluster on this machine stands for a real one: a scheduler and two worker processes. With a
# real one, pass its address to ``Client``. The file is opened with Dask. The workers read the blocks
# of rows that a round needs and return sums, which are much smaller than the file.

import dask.dataframe
from distributed import Client
from distributed.deploy.subprocess import SubprocessCluster


def bytes_received():
    """Bytes that this process and the workers received over the loopback interface."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))


workers = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
with SubprocessCluster(**workers) as cluster, Client(cluster) as client:
    client.wait_for_workers(2)
    frame = dask.dataframe.read_parquet(table)
    before = bytes_received()
    result = SIS(10).fit(frame.drop(columns=targets), frame[targets[0]]).result_
    sent = bytes_received() - before

print(f"the same selection: {result.selected.tolist() == one}; {sent / 1e6:.1f} MB sent")
