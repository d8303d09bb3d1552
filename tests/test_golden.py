"""Scores, p-values, selections and floors of a grid of runs, compared with those of an earlier version.

A deliberate change is a commit of its own: ``python tests/test_golden.py`` writes the file again.
"""

import json
from functools import cache, partial
from itertools import product
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from bed_reader import to_bed
from scipy import sparse

import files
from banditsis import Plan, open_source, screen
from banditsis.results import has_pvalues

GOLDEN = Path(__file__).with_name("golden.json")
N, P, D = 400, 12, 4
rng = np.random.default_rng(7)
X = rng.standard_normal((N, P)) + 3
GAPS = np.where(rng.random((N, P)) < 0.1, np.nan, X)
ETA = 0.4 * X[:, 2] - 0.3 * X[:, 5] + rng.standard_normal(N)
COVARIATES = np.column_stack([rng.standard_normal(N) + X[:, 2], rng.integers(0, 2, N)])
WEIGHTS = rng.gamma(2.0, size=N)
CLASSES = np.array(["a", "b", "c"])[np.digitize(ETA, [-0.5, 1.0])]
LINEAR = {
    "pearson": ETA,
    "anova": CLASSES,
    "logistic": np.where(ETA > 0.3, "yes", "no"),
    "poisson": rng.poisson(np.exp(0.3 * ETA)),
    "cox": np.column_stack([rng.exponential(np.exp(-0.5 * ETA)), rng.random(N) < 0.7]),
}
SAMPLE = ("spearman", "kendall", "chatterjee", "distance")
#: Data that are large enough for several rounds, with 0, 1 and 2 as in genotypes.
ALLELES = rng.integers(0, 3, (4000, 60))
TRAIT = ALLELES[:, 7] - 0.3 * ALLELES[:, 20] + 2 * rng.standard_normal(4000)
NAMES = [f"g{j}" for j in range(60)]


@cache
def bed():
    path = files.new_path("golden.bed")
    to_bed(path, ALLELES)
    return path


SOURCES = {
    "array by row": lambda: ALLELES.astype(float),
    "array by column": lambda: np.asfortranarray(ALLELES.astype(float)),
    "float32": lambda: ALLELES.astype("f4"),
    "sparse": lambda: sparse.csr_array(ALLELES.astype(float)),
    "Parquet": lambda: open_source(files.write_parquet(ALLELES.astype(float), NAMES)),
    "Zarr": lambda: open_source(files.write_zarr(ALLELES.astype(float), NAMES, chunks=(500, 20))),
    "bed": lambda: open_source(bed()),
    "Dask": lambda: open_source(da.from_array(ALLELES.astype(float), chunks=(1000, 30))),
}
n, p = ALLELES.shape
PLANS = {
    "exact": (Plan.exact(n, p, D), "auto"),
    "paper": (Plan.paper(n, p, D, alpha=0.8), "auto"),
    "optimal": (Plan.optimal(n, p, D, 0.2), "uniform"),
    "guaranteed": (Plan.guaranteed(n, p, D, 0.2), "uniform"),
    "stratified": (lambda design: Plan.optimal(n, p, D, 0.2, design=design), "stratified"),
}


def screen_linear(statistic, adjusted, weighted, gaps):
    return screen(
        GAPS if gaps else X,
        LINEAR[statistic],
        Plan.exact(N, P, D),
        statistic=statistic,
        covariates=COVARIATES if adjusted else None,
        sample_weight=WEIGHTS if weighted else None,
        missing="pairwise" if gaps else "raise",
        pvalues=True,
    )


def screen_sample(statistic, gaps):
    missing = "pairwise" if gaps else "raise"
    return screen(GAPS if gaps else X, ETA, Plan.exact(N, P, D), statistic=statistic, missing=missing)


def screen_source(source, plan):
    plan, sampling = PLANS[plan]
    return screen(SOURCES[source](), TRAIT, plan, sampling=sampling, row_order="random", random_state=3)


def cases():
    for statistic, *options in product(LINEAR, (False, True), (False, True), (False, True)):
        words = [
            word for word, given in zip(("covariates", "weights", "gaps"), options, strict=True) if given
        ]
        yield ", ".join([statistic, *words]), partial(screen_linear, statistic, *options)
    for statistic, gaps in product(SAMPLE, (False, True)):
        yield statistic + ", gaps" * gaps, partial(screen_sample, statistic, gaps)
    for source, plan in product(SOURCES, PLANS):
        yield f"{source}, {plan}", partial(screen_source, source, plan)


CASES = dict(cases())


def describe(result):
    """The numbers of a result that must not change."""
    has_floor = result.evidence.no_floor_reason is None
    return {
        "selected": result.selected.tolist(),
        "scores": [float(f"{score:.13g}") for score in result.scores],
        "log10_pvalues": [float(f"{p:.11g}") for p in result.log10_pvalues] if has_pvalues(result) else None,
        "floor": float(f"{result.detection_floor():.12g}") if has_floor else None,
        "cells_read": result.cells_read,
    }


@pytest.mark.parametrize("case", CASES)
def test_golden(case):
    kept, found = json.loads(GOLDEN.read_text())[case], describe(CASES[case]())
    float32 = case.startswith(("float32", "bed"))  # whose products depend on the processor's instructions
    assert found["selected"] == kept["selected"]
    assert found["cells_read"] == kept["cells_read"]
    for name in ("scores", "log10_pvalues", "floor"):
        assert (found[name] is None) == (kept[name] is None), name
        if kept[name] is not None:
            tolerance = {"rtol": 1e-6, "atol": 1e-6} if float32 else {"rtol": 1e-9, "atol": 1e-10}
            np.testing.assert_allclose(found[name], kept[name], **tolerance, err_msg=name)


if __name__ == "__main__":
    records = {name: describe(run()) for name, run in CASES.items()}
    lines = (f"{json.dumps(name)}: {json.dumps(record)}" for name, record in records.items())
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
