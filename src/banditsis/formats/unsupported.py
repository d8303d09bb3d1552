"""Formats that are recognised only to say what to convert them to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile


class Unsupported(NamedTuple):
    """A format that cannot be read."""

    #: with an article
    label: str
    remedy: str
    extensions: tuple[str, ...] = ()
    #: pattern of the first bytes, which no table of text starts with
    pattern: bytes = rb"(?!)"


_SHEET = "save its sheet as CSV"
_PARQUET = "write it as Parquet, as in pandas.{}(…).to_parquet(…)"
_COPY = "write a table as Parquet, as in duckdb FILE -c \"COPY table TO 'table.parquet'\""
_DUMP = 'write a table as CSV, as in sqlite3 -header -csv FILE "SELECT * FROM table" > table.csv'
_PGEN = "convert it to PLINK 2 .pgen, as in plink2 {} --make-pgen --out data"

UNSUPPORTED = (
    Unsupported("an Arrow stream", "write it as an Arrow file or Parquet", (".arrows",), rb"\xff{4}"),
    Unsupported("a Feather file of version 1", "write it again, as version 2", (), rb"FEA1\0"),
    Unsupported("a VCF file", _PGEN.format("--vcf FILE"), (".vcf", ".vcf.gz"), b"##fileformat=VCF"),
    Unsupported("a BCF file", _PGEN.format("--bcf FILE"), (".bcf",)),
    Unsupported("a BGEN file", _PGEN.format("--bgen FILE ref-first"), (".bgen",), rb".{3}\0.{12}bgen"),
    Unsupported("a part of a PLINK 2 file", "open the .pgen file next to it", (".pvar", ".psam")),
    Unsupported(
        "a netCDF 3 file",
        "write it as netCDF 4, as in xarray.open_dataset(…).to_netcdf(…, format='NETCDF4')",
        (),
        rb"CDF[\x01\x02\x05]",
    ),
    Unsupported(
        "an R file",
        "write it as Parquet in R, as in arrow::write_parquet(…)",
        (".rds", ".rda", ".rdata"),
    ),
    Unsupported("an Excel workbook", _SHEET, (".xls", ".xlsb"), rb"\xd0\xcf\x11\xe0"),
    Unsupported("a DuckDB file", _COPY, (".duckdb", ".ddb"), rb".{8}DUCK.{2}\0{6}"),
    Unsupported("an SQLite file", _DUMP, (".sqlite", ".sqlite3"), rb"SQLite format 3\0"),
    Unsupported("an ORC file", _PARQUET.format("read_orc"), (".orc",)),
    Unsupported("a JSON file", _PARQUET.format("read_json"), (".json", ".jsonl", ".ndjson")),
    Unsupported("a pickle", _PARQUET.format("read_pickle"), (".pkl", ".pickle")),
    Unsupported("a Stata file", _PARQUET.format("read_stata"), (".dta",)),
    Unsupported("an SAS file", _PARQUET.format("read_sas"), (".sas7bdat", ".xpt")),
    Unsupported("an SPSS file", _PARQUET.format("read_spss"), (".sav",)),
)
_ZIPS = {  # by what the name of a member starts with
    "xl/": Unsupported("an Excel workbook", _SHEET),
    "word/": Unsupported("a Word document", "save its table as CSV"),
    "content.xml": Unsupported("an OpenDocument file", _SHEET),
}
_ZIP = Unsupported("a zip archive", "unpack it, and open what it contains")


def check_supported(path: Path, head: bytes) -> None:
    """Raise if the extension or the first bytes of a file are those of a format that cannot be read.

    Examples
    --------
    >>> check_supported(Path("x.xls"), b"")
    Traceback (most recent call last):
    ValueError: x.xls is an Excel workbook, which cannot be read: save its sheet as CSV.
    """
    found = [f for f in UNSUPPORTED if re.match(f.pattern, head, re.DOTALL)]
    found += [f for f in UNSUPPORTED if path.name.lower().endswith(f.extensions or "\n")]
    if head.startswith(b"PK\x03\x04"):
        found += _find_zip(path)
    if found:
        raise ValueError(f"{path} is {found[0].label}, which cannot be read: {found[0].remedy}.")


def _find_zip(path: Path) -> list[Unsupported]:
    """What a zip file contains if it is not arrays of NumPy."""
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except BadZipFile:  # the opener raises the error
        return []
    if names and all(name.endswith(".npy") for name in names):
        return []
    return [*(f for start, f in _ZIPS.items() if any(name.startswith(start) for name in names)), _ZIP]
