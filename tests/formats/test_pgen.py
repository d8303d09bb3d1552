"""PLINK 2 files: written by pgenlib, and by plink2 if it is installed."""

import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from bed_reader import to_bed
from click.testing import CliRunner

import files
from banditsis import Plan, open_source, screen
from banditsis.cli.app import app
from files import open_file

rng = np.random.default_rng(0)
N, P = 300, 12
COUNTS = rng.integers(0, 3, (N, P)).astype("f4")
COUNTS[rng.random(COUNTS.shape) < 0.1] = np.nan
#: PLINK stores dosages in units of 1/16384.
DOSAGES = np.where(rng.random(COUNTS.shape) < 0.3, rng.integers(0, 32769, COUNTS.shape) / 16384, COUNTS)
NAMES = [f"rs{j}" for j in range(P)]
needs_plink2 = pytest.mark.skipif(shutil.which("plink2") is None, reason="plink2 is not installed")


@pytest.mark.parametrize("X", [COUNTS, DOSAGES], ids=["counts", "dosages"])
def test_any_samples_and_variants_are_read(X):
    source = open_source(files.write_pgen(X, NAMES))
    assert source.names == NAMES
    rows, columns = np.array([0, 3, 250, 299]), np.array([1, 5, 11])
    np.testing.assert_array_equal(source.read(rows, columns), X[np.ix_(rows, columns)])
    np.testing.assert_array_equal(source.read(slice(4, 20), None), X[4:20])
    np.testing.assert_array_equal(source.read(slice(0, N), slice(2, 3)), X[:, 2:3])


def test_threads_read_at_once():
    source = open_source(files.write_pgen(DOSAGES, NAMES))
    picks = [np.sort(rng.choice(N, 20, replace=False)) for _ in range(200)]
    with ThreadPoolExecutor(4) as pool:
        for rows, block in zip(picks, pool.map(lambda rows: source.read(rows, None), picks), strict=True):
            np.testing.assert_array_equal(block, DOSAGES[rows])


def test_scores_are_those_of_the_array():
    y = rng.standard_normal(N) + np.nan_to_num(DOSAGES[:, 3])
    plan = Plan.exact(N, P, 4)
    result = screen(open_source(files.write_pgen(DOSAGES, NAMES)), y, plan, missing="pairwise")
    expected = screen(DOSAGES, y, plan, missing="pairwise")
    np.testing.assert_array_equal(result.selected, expected.selected)
    np.testing.assert_allclose(result.scores, expected.scores, atol=1e-6)


PSAM = """##a comment
#FID IID SEX height case group
F0 I0 1 1.5 1 north
F1 I1 2 -9 2 NONE
F2 I2 NA nan 0 south
"""


def test_phenotypes_and_ids():
    path = files.write_pgen(COUNTS[:3], NAMES, PSAM)
    opened = open_file(path, ["height", "case", "group", "rs2"])
    assert opened.ids.tolist() == ["F0\tI0", "F1\tI1", "F2\tI2"]
    height, case, group, variant = opened.values
    np.testing.assert_array_equal(height, [1.5, np.nan, np.nan])
    np.testing.assert_array_equal(case, [1, 2, np.nan])
    assert group.tolist() == ["north", None, "south"]
    np.testing.assert_array_equal(variant, COUNTS[:3, 2])
    assert opened.source.shape == (3, P - 1)
    with pytest.raises(ValueError, match="no column 'weight': did you mean 'height'"):
        open_file(path, ["weight"])


def test_samples_without_a_header_are_those_of_a_fam_file():
    path = files.write_pgen(COUNTS[:2], NAMES, "F0 I0 0 0 1 2.5\nF1 I1 0 0 2 3\n")
    opened = open_file(path, ["PHENO1"])
    assert opened.ids.tolist() == ["F0\tI0", "F1\tI1"]
    np.testing.assert_array_equal(opened.values[0], [2.5, 3])


def test_ids_that_are_missing_or_repeated():
    names = open_source(files.write_pgen(COUNTS, ["rs0", ".", ".", "rs3", "rs3", *NAMES[5:]])).names
    assert names[:5] == ["rs0", ".:1:2:A:G", ".:1:3:A:G", "rs3:1:4:A:G", "rs3:1:5:A:G"]


def test_missing_genotypes_are_left_out_by_default():
    lines = [f"I{i}\t{value}" for i, value in enumerate(rng.standard_normal(N))]
    path = files.write_pgen(COUNTS, NAMES, "\n".join(["#IID\theight", *lines, ""]))
    run = CliRunner().invoke(app, ["screen", str(path), "--target", "height", "--keep", "2", "--json"])
    assert run.exit_code == 0, run.output
    assert len(json.loads(run.stdout)["features"]) == 2


def plink2(folder, *arguments):
    subprocess.run(["plink2", *arguments], cwd=folder, check=True, capture_output=True)


@needs_plink2
@pytest.mark.parametrize("arguments", [["--make-pgen"], ["--make-pgen", "vzs"]], ids=["text", "zstd"])
def test_a_converted_bed_file_is_the_same(arguments):
    bed = files.new_path("data.bed")
    y = rng.standard_normal(N)
    sid = [".", *NAMES[1:]]
    ids = {"fid": [f"F{i}" for i in range(N)], "iid": [f"I{i}" for i in range(N)]}
    alleles = {"allele_1": ["A"] * P, "allele_2": ["G"] * P}
    places = {"chromosome": ["1"] * P, "bp_position": range(1, P + 1)}
    to_bed(bed, COUNTS, properties={**ids, **alleles, **places, "sid": sid, "pheno": y})
    plink2(bed.parent, "--bfile", "data", *arguments, "--out", "converted")
    old, new = (
        open_file(bed, ["phenotype"]),
        open_file(bed.with_name("converted.pgen"), ["PHENO1"]),
    )
    assert new.source.names == old.source.names
    np.testing.assert_array_equal(new.ids, old.ids)
    np.testing.assert_allclose(new.values[0], old.values[0], rtol=1e-5)
    np.testing.assert_array_equal(new.source.read(slice(0, N), None), old.source.read(slice(0, N), None))
    plan = Plan.exact(N, P, 4)
    one, other = (screen(opened.source, y, plan, missing="pairwise") for opened in (old, new))
    np.testing.assert_array_equal(other.selected, one.selected)
    np.testing.assert_allclose(other.scores, one.scores, atol=1e-7)


VCF = """##fileformat=VCFv4.2
##contig=<ID=1>
#CHROM	POS	ID	REF	ALT	QUAL	FILTER	INFO	FORMAT	S1	S2	S3	S4
1	1	a	A	C,G	.	.	.	GT	0/1	1/2	2/2	./.
1	2	b	A	C	.	.	.	GT	0|1	1|1	0|0	0|0
"""


@needs_plink2
def test_all_alternate_alleles_are_counted():
    path = files.new_path("data.vcf")
    path.write_text(VCF)
    plink2(path.parent, "--vcf", "data.vcf", "--make-pgen", "--out", "data")
    source = open_source(path.with_suffix(".pgen"))
    np.testing.assert_array_equal(source.read(slice(0, 4), None), [[1, 1], [2, 2], [2, 0], [np.nan, 0]])


@needs_plink2
def test_dosages_of_plink2():
    path = files.new_path("data.pgen")
    plink2(path.parent, "--dummy", "80", "9", "0.1", "dosage-freq=0.3", "--make-pgen", "--out", "data")
    variants = [line.split() for line in path.with_suffix(".pvar").read_text().splitlines()[1:]]
    path.with_name("alt.txt").write_text("".join(f"{line[2]} {line[4]}\n" for line in variants))
    plink2(path.parent, "--pfile", "data", "--export", "A", "--export-allele", "alt.txt", "--out", "data")
    table = np.genfromtxt(path.with_suffix(".raw"), skip_header=1, missing_values="NA")[:, 6:]
    source = open_source(path)
    assert np.nanmax(table % 1) > 0
    np.testing.assert_allclose(source.read(slice(0, 80), None), table, atol=1e-4)
