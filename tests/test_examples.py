"""What small functions return: an example of each."""

import math
from pathlib import Path

import numpy as np
import pytest

from banditsis.cli.app import whole
from banditsis.cli.output import summarize_response
from banditsis.cli.terminal import name_options
from banditsis.core import arrays, formatting, validation
from banditsis.formats import files, opened, opening, plink, tables, text
from banditsis.formats.dataset import find_place
from banditsis.results.evidence import student_quantile
from banditsis.sources.base import split_groups
from banditsis.sources.blocks import cut, split_rows
from banditsis.sources.gpu import Pieces
from banditsis.sources.interactions import Pairs

EDGES = np.array([0, 4, 8, 12])
NAMES = ["gene one of a set", "gene 12 of a set", "gene 13 of a set"]
TABLE = "feature  score\nage       +0.5\nheight   -0.25"
PARAMETERS = "year=2020/x.csv: set pvalues=True, or row_order='random'"
SNPS = ["id", "snp_1", "snp_2", "age"]
CHOICE = opened.ReadOptions(columns=["snp_*", "4"], drop=["snp_1"])
PLACES = {"chromosome": np.array(["1", "17"]), "position": np.array([6, 4000])}
CSV = Path("x.csv")
PAIRS = Pairs(3, None, main_effects=True, squares=False)

#: A function, and its cases: what is given, and the result.
EXAMPLES = [
    (arrays.split_at, (slice(2, 9), EDGES, [(0, slice(2, 4)), (1, slice(4, 8)), (2, slice(8, 9))])),
    (arrays.split_at, (np.array([0, 3, 9, 10]), EDGES, [(0, [0, 3]), (2, slice(9, 11))])),
    (arrays.are_distinct_integers, (np.array([3.0, 1.0, 2.0]), True), (np.array([3.0, np.nan, 2.0]), False)),
    (arrays.rank_values, (np.array([7.0, 3.0, 7.0, 1.0]), [3.5, 2.0, 3.5, 1.0])),
    (formatting.format_bytes, (1.5e9, "1.5 GB"), (800, "800 B")),
    (formatting.format_duration, (0.0123, "12.3 ms"), (75.5, "75.50 s")),
    (formatting.format_share, (1, "100%"), (0.99999, "99.999%"), (0.019, "1.9%"), (2.5e-7, "0.000025%")),
    (formatting.round_share, (0.243, "24%"), (0.0031, "0.31%")),
    (formatting.format_score, (0.25, 3, False, "+0.250"), (0.25, 3, True, "0.250"), (math.nan, 3, True, "")),
    (formatting.format_pvalue, (-0.1, "0.79"), (-2.0, "0.01"), (-540.2, "6.3e-541"), (-math.inf, "<1e-300")),
    (formatting.count, (1, "row", "1 row"), (2500, "feature", "2,500 features")),
    (formatting.to_single_line, ("a name\nin two lines", "a name in two lines")),
    (formatting.printable, ("a \x1b[31mred name", r"a \x1b[31mred name")),
    (formatting.encodable, ("a \ud800", r"a \ud800")),
    (formatting.shorten, ("a name that goes on and on and on", 12, "a name…nd on")),
    (formatting.short_labels, (NAMES, 12, ["gene o…a set", "gene…set (1)", "gene…set (2)"])),
    (formatting.text_table, (["feature", "score"], [["age", "+0.5"], ["height", "-0.25"]], "<", TABLE)),
    (validation.check_sample_weight, ([1, 0, 4, 2], 4, [0.25, 0.0, 1.0, 0.5])),
    (validation.count_classes, ([True, False], 0), (["yes", None, "no"], 2), (list("abcde"), 3)),
    (validation.find_integer_classes, ([0.0, 1.0, 2.0, 1.0], [0.0, 1.0, 2.0]), ([0, 1, 1], [])),
    (split_groups, (np.array([0, 3, 3, 5]), [(0, slice(0, 3)), (2, slice(3, 5))])),
    (split_rows, (np.array([1, 3, 9, 10]), EDGES, [(0, [1, 3]), (2, slice(1, 3))])),
    (cut, (slice(3, 21), 8, 4, [slice(3, 8), slice(8, 16), slice(16, 21)])),
    (cut, (np.array([0, 1, 2, 5, 6, 7, 8, 9]), 4, 4, [[0, 1, 2], [5, 6, 7], [8, 9]])),
    (Pieces.cut, ([0, 100, 100, 160], 128, 1000, ([0, 64, 100, 160], [0, 2, 2, 3]))),
    (PAIRS.factors, (np.arange(1, 6), [[1, 2, 0, 0, 1], [3, 3, 1, 2, 2]])),
    (whole, ("2GB", 2_000_000_000), ("1.5 GiB", 1_610_612_736), ("4096", 4096)),
    (summarize_response, (np.array(["No", "Yes", "No"]), "Yes 33%, No 67%")),
    (summarize_response, (np.array([1.0, 2.0, 6.0]), "mean 3, from 1 to 6")),
    (name_options, (PARAMETERS, "year=2020/x.csv: set --pvalues, or --row-order random")),
    (student_quantile, (1.959964, np.array([10.0, np.inf]), [pytest.approx(2.23, abs=0.005), 1.959964])),
    (find_place, ("price", (None, "price")), ("chr1:12345", (None, "chr1:12345"))),
    (files.is_url, ("s3://bucket/x.zarr", True), ("x.zarr", False)),
    (files.split_path, ("s3://bucket/data.h5:/counts", ("s3://bucket/data.h5", "counts"))),
    (opened.choose_columns, (SNPS, CHOICE, "data.csv", [2, 3])),
    (opened.find_column, (["age", "price"], "price", "data.csv", 1), (["age", "price"], "1", "data.csv", 0)),
    (opened.as_ids, ([np.array([7.0, 8.0])], ["7", "8"]), ([["a", "a"], [1, 2]], ["a\t1", "a\t2"])),
    (plink.complete_ids, (["rs1", "."], PLACES, "x.bim", ["rs1", ".:17:4000"])),
    (opened.DEFAULTS.may_hold_ids, ("customer_id", True), ("orderId", True), ("UUID", True)),
    (opened.DEFAULTS.may_hold_ids, ("paid", False), ("monkey", False)),
    (tables.list_some, (list("abcdefg"), "a, b, c, d, e and 2 more")),
    (opened.match_names, (["y", "Patient", "visit"], ["patient", "visit"], ["Patient", "visit"])),
    (opened.match_names, (["y"], ["patient"], [])),
    (text.find_delimiter, (CSV, "a,b;c", ","), (CSV, "1,5;2", ";"), (CSV, "7 8", " "), (CSV, "y", "\t")),
    (text.separate_by_tabs, (b" a  b\r\n1\t 2", b"a\tb\n1\t2")),
]


def plain(value):
    """Arrays and iterators as lists, however deep."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return value
    return (tuple if isinstance(value, tuple) else list)(map(plain, value))


@pytest.mark.parametrize(("function", "cases"), [(function, cases) for function, *cases in EXAMPLES])
def test_examples(function, cases):
    for *given, expected in cases:
        assert plain(function(*given)) == expected


def test_errors_with_a_remedy():
    with pytest.raises(FileNotFoundError, match=r"^nothing/here.npy does not exist: check the name and"):
        opening.find_format("nothing/here.npy")
    remedy = r"^reading Zarr needs no-such-library: pip install 'banditsis\[zarr\]'"
    with pytest.raises(ImportError, match=remedy):
        files.import_optional("no_such_library", "Zarr", "zarr")
