"""
Text classification with a sparse matrix
========================================

A team maintains the reference documentation of many web services. Each parameter of a request has a
description, and the schema says whether the parameter is required. A description should make this clear.
Can a model tell required from optional parameters by their descriptions? If so, it can point to
descriptions that mislead their readers.

The text is real: the package ``botocore`` contains the schemas of several hundred web services, with
descriptions in English. Words and pairs of words give tens of thousands of features, most of them useless.
Screening selects some of them, and a logistic regression is fitted to these.
"""

# %%
# The text
# --------
# A document is the description of one parameter of one request. Descriptions of fewer than five
# words are left out.

import gzip
import json
import re
from pathlib import Path

import botocore
import numpy as np

schemas = sorted(Path(botocore.__file__).parent.glob("data/*/*/service-2.json.gz"))
latest = {path.parts[-3]: path for path in schemas}  # the last version of each service

texts, labels, services = [], [], []
for service, path in latest.items():
    schema = json.loads(gzip.decompress(path.read_bytes()))
    operations = schema["operations"].values()
    for request in sorted({op["input"]["shape"] for op in operations if "input" in op}):
        shape = schema["shapes"][request]
        for name, parameter in shape["members"].items():
            words = re.sub(r"<[^>]*>", " ", parameter.get("documentation", "")).split()
            if len(words) >= 5:
                texts.append(" ".join(words))
                is_required = name in shape.get("required", ())
                labels.append("required" if is_required else "optional")
                services.append(service)
texts = np.array(texts, dtype=object)
labels, services = np.array(labels), np.array(services)

print(f"{len(texts):,} descriptions from {len(latest)} services")
print(f"{np.mean(labels == 'required'):.0%} are of required parameters\n")
for i in (10_000, 20_000, 30_010, 50_000):
    print(f"{labels[i]}: {texts[i][:66]}")

# %%
# Descriptions are often repeated within a service. To measure accuracy on text that the model has
# not seen, a quarter of the services is held out.
#
# ``CountVectorizer`` makes a sparse matrix with a column for each word and each pair of words in
# the training text.

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GroupShuffleSplit

split = GroupShuffleSplit(n_splits=1, test_size=0.25, random_state=0)
train, test = next(split.split(texts, groups=services))
vectorizer = CountVectorizer(ngram_range=(1, 2), min_df=2, binary=True, dtype=np.float32)
X_train = vectorizer.fit_transform(texts[train])
X_test = vectorizer.transform(texts[test])
y_train, y_test = labels[train], labels[test]

n, p = X_train.shape
print(f"{n:,} documents × {p:,} terms; {X_train.nnz / (n * p):.2%} of the cells are not 0")

# %%
# Which terms separate the classes
# --------------------------------
# ``"logistic"`` is the score test in a logistic regression. Positive scores stand for the label
# that sorts last, ``required``. ``open_source`` adds the names of the columns.

import matplotlib.pyplot as plt

from banditsis import SIS, open_source, plots

source = open_source(X_train, names=vectorizer.get_feature_names_out())
result = SIS(20, statistic="logistic").fit(source, y_train).result_
plots.scores(result)
plt.show()

# %%
# Identifiers and names are required; limits, tokens for the next page of results and anything with
# "if" are optional.
#
# Screening in a pipeline
# -----------------------
# The selection belongs inside the pipeline, so it uses the training data only, also in
# cross-validation. Here are selections of different size, the regression on all terms, and
# scikit-learn's selection by an F test.

import time

from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

selectors = {f"SIS({k})": SIS(k, statistic="logistic") for k in (20, 100, 500, 1000)}
selectors["SelectKBest(k=1000)"] = SelectKBest(f_classif, k=1000)
selectors["all terms"] = "passthrough"
pipelines = {
    name: make_pipeline(selector, LogisticRegression(C=0.1, max_iter=1000))
    for name, selector in selectors.items()
}

accuracy, seconds = {}, {}
print(f"{'':24}{'accuracy':>10}{'seconds':>10}")
for name, pipeline in pipelines.items():
    started = time.perf_counter()
    pipeline.fit(X_train, y_train)
    seconds[name] = time.perf_counter() - started
    accuracy[name] = pipeline.score(X_test, y_test)
    print(f"{name:24}{accuracy[name]:10.1%}{seconds[name]:10.2f}")
print(f"{'always optional':24}{np.mean(y_test == 'optional'):10.1%}")

# %%

fig, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name in pipelines:
    colour = "C0" if name.startswith("SIS") else "C1"
    point = seconds[name], 100 * accuracy[name]
    axes.plot(*point, "o", color=colour)
    axes.annotate(name, point, (0, -14), textcoords="offset points", ha="center")
axes.margins(0.15)
axes.set(xlim=(0, None), ylabel="accuracy on other services (%)")
axes.set_xlabel("seconds to select and fit")
# sphinx_gallery_thumbnail_number = 2
plt.show()

# %%
# A model with 20 terms is already useful, and can be read and explained. The regression on all
# terms is the most accurate and the slowest. Which one to use depends on whether the last percent
# of accuracy matters more than time, memory and a model of readable size.
#
# ``SIS`` and ``SelectKBest`` select the same terms, because for two classes both tests rank
# features by their correlation with the class:

ours, theirs = pipelines["SIS(1000)"][0], pipelines["SelectKBest(k=1000)"][0]
print(f"{np.sum(ours.get_support() & theirs.get_support())} of 1,000 terms are the same")

# %%
# ``SIS`` takes longer because it also checks the p-values of the selected terms. Those of an F test
# are too small for rare words.
#
# Descriptions that mislead
# -------------------------
# These parameters are required, but the model with 1,000 terms is nearly certain that they are
# optional. The list shows the shortest of these descriptions.

import textwrap

chosen = pipelines["SIS(1000)"]
probability = chosen.predict_proba(X_test)[:, list(chosen.classes_).index("required")]
doubtful = test[(y_test == "required") & (probability < 0.02)]
unique = {texts[i]: services[i] for i in doubtful}
print(f"{len(unique)} of {len(set(texts[test])):,} different descriptions\n")
for text in sorted(unique, key=len)[:6]:
    print(textwrap.fill(f"{unique[text]}: {text}", 80, subsequent_indent="    "))

# %%
# In some of them the text and the schema disagree: the text calls the parameter optional, or says
# what happens if it is left out. Others are unusual, but correct. The list is short enough to check
# by hand.
