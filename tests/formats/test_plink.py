"""PLINK files: genotypes packed in bytes, and the chromosome, position and alleles of variants."""

import gzip
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bed_reader import to_bed
from click.testing import CliRunner

import files
from banditsis import Plan, build_index, open_data, open_source, screen
from banditsis.cli.app import app
from banditsis.formats.plink import read_entries
from banditsis.sources.genotypes import BLOCK_SAMPLES, GenotypeSource
from files import open_file
from reference import same

rng = np.random.default_rng(0)
#: Copies of the first allele in six samples.
COUNTS = np.array([[0, 2, 1], [1, 0, 2], [2, 1, 0], [0, 0, 2], [1, 2, 2], [2, 1, 1]], "f4")
#: Rises by 3 with each copy of the first allele of rs0.
Y = np.array([10.0, 13.0, 16.0, 10.0, 13.0, 16.0])
EXPECTED = {
    "chromosome": ["1", "X", "2"],
    "position": [100, 200, 300],
    "a1": ["A", "C", "T"],
    "a2": ["G", "CTT", "G"],
}
NAMES = ["rs0", "rs1", "rs2"]


def write_bed():
    """By hand, after PLINK's specification: two bits a sample, 00 for two copies of the first allele."""
    path = files.new_path("data.bed")
    four = np.zeros((2, 4, 3), int)
    four.reshape(8, 3)[:6] = np.array([0b11, 0b10, 0b00])[COUNTS.astype(int)]  # of 0, 1 and 2 copies
    cells = (four << np.array([0, 2, 4, 6])[:, None]).sum(axis=1).astype("u1").T
    path.write_bytes(b"\x6c\x1b\x01" + cells.tobytes())
    rows = zip(NAMES, *EXPECTED.values(), strict=True)
    path.with_suffix(".bim").write_text("".join(f"{c}\t{n}\t0\t{k}\t{a}\t{b}\n" for n, c, k, a, b in rows))
    path.with_suffix(".fam").write_text("".join(f"F{i}\tI{i}\t0\t0\t0\t{y}\n" for i, y in enumerate(Y)))
    return path


def write_store():
    return build_index(write_bed(), files.new_path("data.index"), random_state=0)


def test_further_phenotypes_of_a_fam_file():
    """GEMMA appends them."""
    path = write_bed()
    samples = path.with_suffix(".fam")
    samples.write_text("".join(f"{line}\tNA\t0.5\n" for line in samples.read_text().splitlines()))
    opened = open_data(path, "phenotype")
    assert list(opened.features.names) == NAMES
    np.testing.assert_array_equal(opened.target, Y)


def test_slope_is_per_copy_of_the_counted_allele():
    """Samples with AA, AG and GG at rs0 have responses of 16, 13 and 10: each A adds 3."""
    frame = screen(open_source(write_bed()), Y, Plan.exact(6, 3, 3)).to_frame().set_index("name")
    assert frame.loc["rs0", ["a1", "a2"]].tolist() == ["A", "G"]
    np.testing.assert_allclose(frame.loc["rs0", "beta"], 3.0)
    np.testing.assert_allclose(frame.loc["rs2", "beta"], np.polyfit(COUNTS[:, 2], Y, 1)[0])


@pytest.mark.parametrize("write", [write_bed, write_store])
def test_annotations_of_sources_and_frames(write):
    source = open_source(write())
    assert {name: values.tolist() for name, values in source.annotations.items()} == EXPECTED
    y = source.read(slice(0, 6), np.array([2]))[:, 0] + np.arange(6) / 10
    result = screen(source, y, Plan.exact(6, 3, 2))
    for n, frame in ((2, result.to_frame()), (3, result.to_frame(all_features=True))):
        assert len(frame) == n
        expected = pd.DataFrame(EXPECTED).iloc[frame["index"]]
        assert frame[list(EXPECTED)].to_dict("list") == expected.to_dict("list")


def test_columns_that_are_left_out():
    source = open_source(write_bed(), columns=["rs0", "rs2"])
    assert source.annotations["position"].tolist() == [100, 300]
    source, *_ = open_data(write_bed(), target="rs0")
    assert source.annotations["a2"].tolist() == ["CTT", "G"]


def test_results_are_pickled_without_the_file():
    result = screen(open_source(write_bed()), Y, Plan.exact(6, 3, 2))
    assert pickle.loads(pickle.dumps(result)).annotations["a1"].tolist() == EXPECTED["a1"]
    plain = screen(COUNTS, Y, Plan.exact(6, 3, 2))  # not from a file
    assert plain.annotations == {}
    assert "chromosome" not in plain.to_json()


def run(*arguments):
    """What a command prints."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_command_line(tmp_path, ending):
    output = tmp_path / f"out.{ending}"
    run("screen", write_bed(), "--target", "phenotype", "--keep", 2, "--exact", "--output", output)
    table = pd.read_csv(output, dtype=str) if ending == "csv" else pd.read_parquet(output)
    for row in table.to_dict("records"):
        j = int(row["index"])
        assert [str(row[name]) for name in EXPECTED] == [str(values[j]) for values in EXPECTED.values()]
        assert float(row["se"]) >= 0


@pytest.mark.parametrize("between", ["\t", " ", " \t  "])
@pytest.mark.parametrize("last", ["", "\n", "\r\n"])
def test_entries_are_those_of_split(tmp_path, between, last):
    lines = [("é", f"rs{k}", "0", str(-k), '"A', "CG"[: 1 + k % 2]) for k in range(100)]
    path = tmp_path / "x.bim"
    path.write_text("\n".join(between.join(line) for line in lines) + last, encoding="utf-8")
    assert list(zip(*(column.to_pylist() for column in read_entries(path)), strict=True)) == lines


def test_a_prefix_stands_for_the_files(tmp_path):
    path = write_bed()
    prefix, options = path.with_suffix(""), ("--exact", "--keep", "2", "--json")
    assert list(open_source(prefix).names) == NAMES
    assert "3 features" in run("info", prefix)
    store = build_index(prefix, tmp_path / "x.index", target="phenotype")
    phenotype = ("--target", "phenotype", *options)
    by_prefix, by_name = (json.loads(run("screen", data, *phenotype)) for data in (prefix, path))
    assert by_prefix["features"] == by_name["features"]
    for record in (by_prefix, json.loads(run("screen", store, *options))):
        assert record["parameters"]["missing"] == "pairwise"
    with pytest.raises(FileNotFoundError, match="does not exist"):
        open_source(tmp_path / "gone")


def test_ids_phenotypes_and_cells():
    path, n, p = files.new_path("small.bed"), 30, 12
    X = np.where(rng.random((n, p)) < 0.1, np.nan, rng.integers(0, 3, (n, p)))
    ids = {"fid": [f"F{i}" for i in range(n)], "iid": [f"I{i}" for i in range(n)]}
    y = rng.standard_normal(n)
    sid = ["rs1", ".", ".", *(f"rs{j}" for j in range(4, p + 1))]
    to_bed(
        path, X, properties={**ids, "sid": sid, "pheno": ["-9", *map(str, y[1:])], "bp_position": range(p)}
    )
    opened = open_file(path, ["phenotype"])
    source = opened.source
    assert opened.ids[1] == "F1\tI1"
    assert source.block_rows == 30
    np.testing.assert_array_equal(opened.values[0], [np.nan, *y[1:]])
    rows, columns = np.array([0, 3, 29]), np.array([1, 5, 11])
    np.testing.assert_array_equal(source.read(rows, columns), X[np.ix_(rows, columns)])
    np.testing.assert_array_equal(source.read(slice(4, 20), None), X[4:20])
    assert source.names[0] == "rs1"
    assert source.names[1] != source.names[2]


MICE = Path(__file__).parents[3] / "shared" / "data" / "gemma_mouse_hs1940"


@pytest.mark.skipif(not MICE.exists(), reason="the data of the mice are not beside the project")
def test_mice(tmp_path):
    """CD8 of heterogeneous-stock mice: the best SNPs lie on chromosome 17 (Valdar et al. 2006)."""
    for ending in ("bed", "bim", "fam", "pheno.txt"):
        with gzip.open(MICE / f"mouse_hs1940.{ending}.gz") as packed:
            (tmp_path / f"mice.{ending}").write_bytes(packed.read())
    cd8 = np.genfromtxt(tmp_path / "mice.pheno.txt", usecols=0, missing_values="NA")
    source = open_source(tmp_path / "mice.bed")
    result = screen(source, cd8, Plan.exact(*source.shape, 8), missing="pairwise")
    assert np.isfinite(cd8).sum() == 1410
    assert (source.annotations["chromosome"][result.selected] == "17").all()
    assert round(float(np.abs(result.scores).max()), 3) == 0.402


def genotypes(n, p, missing=0.0, random_state=1):
    draw = np.random.default_rng(random_state)
    X = draw.binomial(2, draw.uniform(0.02, 0.98, p), (n, p)).astype("f8")
    X[:, p // 2] = 2.0  # constant
    X[draw.random(X.shape) < missing] = np.nan
    return X


def open_bed(X):
    path = files.new_path("x.bed")
    to_bed(path, X)
    return open_source(path)


def compare(source, X, y, plan, tolerance=1e-13, **settings):
    found, expected = (screen(data, y, plan, random_state=0, **settings) for data in (source, X))
    same(found, expected, tolerance)
    for one, other in [(found, expected)] if y.ndim == 1 else zip(found, expected, strict=True):
        np.testing.assert_allclose(one.log10_pvalues, other.log10_pvalues, atol=1e3 * tolerance)
        np.testing.assert_allclose(one.effects.beta, other.effects.beta, rtol=1e3 * tolerance)
        if one.evidence.present is not None:
            np.testing.assert_array_equal(one.evidence.present, other.evidence.present)


@pytest.mark.parametrize("n", [203, BLOCK_SAMPLES + 38])
@pytest.mark.parametrize("missing", [0.0, 0.03])
@pytest.mark.parametrize("n_responses", [1, 3])
@pytest.mark.parametrize("n_covariates", [0, 2])
def test_sums_are_those_of_the_matrix(n, missing, n_responses, n_covariates):
    X = genotypes(n, 50, missing)
    covariates = rng.standard_normal((n, n_covariates)) if n_covariates else None
    y = (np.nan_to_num(X[:, :n_responses]) + rng.standard_normal((n, n_responses))).squeeze()
    source = open_bed(X)
    assert isinstance(source, GenotypeSource)
    for kind in ("pairwise", "raise")[: 2 if missing == 0 else 1]:
        compare(source, X, y, Plan.exact(n, 50, 12), covariates=covariates, missing=kind)


@pytest.mark.parametrize(("keep", "tolerance"), [(0.9, 1e-13), (0.05, 1e-6)])
def test_rows_without_a_response_are_left_out(keep, tolerance):
    """The weights of other rows are 0; few rows are read one by one, and summed in float32."""
    X = genotypes(901, 40, 0.02)
    y = np.where(rng.random(901) < keep, rng.standard_normal(901), np.nan)
    compare(open_bed(X), X, y, Plan.exact(901, 40, 9), tolerance, missing="pairwise")


@pytest.mark.parametrize("statistic", ["anova", "logistic", "poisson"])
def test_other_statistics(statistic):
    X, y = genotypes(400, 30, 0.02), rng.integers(0, 2, 400)
    covariates = rng.standard_normal((400, 2))
    for given in (None, covariates):
        settings = {"statistic": statistic, "missing": "pairwise", "covariates": given}
        found, expected = (screen(data, y, Plan.exact(400, 30, 5), **settings) for data in (open_bed(X), X))
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)


def test_an_adaptive_run_reads_the_same_sums():
    X = genotypes(3000, 60)
    y = X[:, 3] - X[:, 7] + rng.standard_normal(3000)
    plan = Plan.optimal(3000, 60, 5, 0.5)
    options = {"row_order": "random", "sampling": "uniform", "random_state": 0}
    found, expected = (screen(data, y, plan, **options) for data in (open_bed(X), X))
    same(found, expected, 1e-6)
    np.testing.assert_allclose(found.evidence.informative, expected.evidence.informative, rtol=1e-4)


def test_the_result_does_not_depend_on_the_threads():
    X, Y = genotypes(500, 700, 0.01), rng.standard_normal((500, 2))
    source, options = open_bed(X), {"missing": "pairwise", "covariates": Y[:, :1] ** 2}
    plan = Plan.exact(500, 700, 9)
    results = [
        np.array([one.scores for one in screen(source, Y, plan, n_jobs=k, **options)]) for k in (1, 2, 5)
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_missing_genotypes_raise_an_error():
    X = genotypes(1001, 1200)
    X[17, 5] = np.nan
    with pytest.raises(ValueError, match=r"missing|NaN"):
        screen(open_bed(X), rng.standard_normal(1001), Plan.exact(1001, 1200, 3))


def test_a_file_that_becomes_shorter_raises_an_error(tmp_path):
    path = tmp_path / "cut.bed"
    to_bed(path, genotypes(2000, 600))
    source = open_source(path)
    os.truncate(path, path.stat().st_size // 2)
    for use in (
        lambda: screen(source, rng.standard_normal(2000), Plan.exact(2000, 600, 3)),
        lambda: source.read(slice(0, 5), np.array([599])),
    ):
        with pytest.raises(ValueError, match="became shorter"):
            use()
