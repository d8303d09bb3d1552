"""Chromosome, position and alleles of variants, from the file to the tables."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import files
from banditsis import Plan, build_index, open_data, open_source, screen
from banditsis.cli.app import app
from banditsis.formats.plink import read_entries

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
