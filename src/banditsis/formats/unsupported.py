"""Formats that are recognised only to say what to convert them to."""

from __future__ import annotations

import re
from pathlib import Path

_PARQUET = "write it as Parquet, as in pandas.{}(…).to_parquet(…)"
_BED = "convert it, as in plink2 {} --make-bed"
_NEVER = rb"(?!)"

#: What a file is, what to do, its extensions, and a pattern of its first bytes, which no table begins with.
UNSUPPORTED = (
    ("an Arrow stream", "write it as an Arrow file or Parquet", (".arrows",), rb"\xff{4}"),
    ("a VCF file", _BED.format("--vcf FILE"), (".vcf", ".vcf.gz"), b"##fileformat=VCF"),
    ("a BGEN file", _BED.format("--bgen FILE ref-first"), (".bgen",), rb".{3}\0.{12}bgen"),
    ("a PLINK 2 file", _BED.format("--pfile x"), (".pgen", ".pvar", ".psam"), rb"\x6c\x1b[\2-\4\x10\x11]"),
    ("a netCDF 3 file", "write it as netCDF 4, as in x.to_netcdf(…, format='NETCDF4')", (), rb"CDF[\1\2\5]"),
    ("an R file", "write it as Parquet, as in arrow::write_parquet(…)", (".rds", ".rda", ".rdata"), _NEVER),
    ("a zip archive", "unpack it, and open what it contains", (".zip",), _NEVER),
    ("an Excel workbook", "save its sheet as CSV", (".xls", ".xlsx", ".xlsb"), rb"\xd0\xcf\x11\xe0"),
    (
        "a DuckDB file",
        "write a table as Parquet, as in duckdb FILE -c \"COPY table TO 'table.parquet'\"",
        (".duckdb", ".ddb"),
        rb".{8}DUCK.{2}\0{6}",
    ),
    (
        "an SQLite file",
        'write a table as CSV, as in sqlite3 -header -csv FILE "SELECT * FROM table" > table.csv',
        (".sqlite", ".sqlite3"),
        rb"SQLite format 3\0",
    ),
    ("a JSON file", _PARQUET.format("read_json"), (".json", ".jsonl", ".ndjson"), _NEVER),
    (
        "a table that only pandas reads",
        _PARQUET.format("read_…"),
        (".orc", ".pkl", ".pickle", ".dta", ".sas7bdat", ".xpt", ".sav"),
        _NEVER,
    ),
)


def check_supported(path: Path, head: bytes) -> None:
    """Raise if the extension or the first bytes of a file are those of a format that cannot be read.

    Examples
    --------
    >>> check_supported(Path("x.xls"), b"")
    Traceback (most recent call last):
    ValueError: x.xls is an Excel workbook, which cannot be read: save its sheet as CSV.
    """
    name = path.name.lower()
    found = [row for row in UNSUPPORTED if re.match(row[3], head, re.DOTALL)]
    found += [row for row in UNSUPPORTED if row[2] and name.endswith(row[2])]
    if found:
        label, remedy = found[0][:2]
        raise ValueError(f"{path} is {label}, which cannot be read: {remedy}.")
