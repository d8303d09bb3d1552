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
    codes = np.array([0b11, 0b10, 0b00])[COUNTS.astype(int)]  # of 0, 1 and 2 copies
    four = np.zeros((2, 4, 3), int)
    four.reshape(8, 3)[:6] = codes
    cells = (four << np.array([0, 2, 4, 6])[:, None]).sum(axis=1).astype("u1").T
    path.write_bytes(b"\x6c\x1b\x01" + cells.tobytes())
    rows = zip(NAMES, *EXPECTED.values(), strict=True)
    variants = (f"{place[0]}\t{name}\t0\t" + "\t".join(map(str, place[1:])) for name, *place in rows)
    path.with_suffix(".bim").write_text("\n".join([*variants, ""]))
    samples = (f"F{i}\tI{i}\t0\t0\t0\t{y}" for i, y in enumerate(Y))
    path.with_suffix(".fam").write_text("\n".join([*samples, ""]))
    return path


def write_store():
    return build_index(write_bed(), files.new_path("data.index"), random_state=0)


any_file = pytest.mark.parametrize("write", [write_bed, write_store])


@any_file
def test_annotations_of_a_source(write):
    source = open_source(write())
    assert {name: values.tolist() for name, values in source.annotations.items()} == EXPECTED


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


@any_file
@pytest.mark.parametrize("all_features", [False, True])
def test_frame(write, all_features):
    source = open_source(write())
    y = source.read(slice(0, 6), np.array([2]))[:, 0] + np.arange(6) / 10
    result = screen(source, y, Plan.exact(6, 3, 2))
    frame = result.to_frame(all_features=all_features)
    assert len(frame) == (3 if all_features else 2)
    expected = pd.DataFrame(EXPECTED).iloc[frame["index"]].reset_index(drop=True)
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


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_command_line(tmp_path, ending):
    output = tmp_path / f"out.{ending}"
    arguments = ["screen", write_bed(), "--target", "phenotype", "--keep", 2, "--exact"]
    arguments += ["--output", output]
    run = CliRunner().invoke(app, list(map(str, arguments)))
    assert run.exit_code == 0, run.output
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
    prefix = path.with_suffix("")
    assert list(open_source(prefix).names) == NAMES
    command = ["--target", "phenotype", "--exact", "--keep", "2", "--json"]
    by_prefix, by_name = (
        CliRunner().invoke(app, ["screen", str(data), *command]).stdout for data in (prefix, path)
    )
    assert json.loads(by_prefix)["features"] == json.loads(by_name)["features"]
    assert json.loads(by_prefix)["parameters"]["missing"] == "pairwise"
    assert "3 features" in CliRunner().invoke(app, ["info", str(prefix)]).stdout
    store = build_index(prefix, tmp_path / "x.index", target="phenotype")
    record = json.loads(CliRunner().invoke(app, ["screen", str(store), *command[2:]]).stdout)
    assert record["parameters"]["missing"] == "pairwise"
    with pytest.raises(FileNotFoundError, match="does not exist"):
        open_source(tmp_path / "gone")
