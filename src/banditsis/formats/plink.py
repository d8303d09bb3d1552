"""PLINK genotypes: ``.bed`` with its ``.bim`` (SNPs) and ``.fam`` (samples)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from banditsis.core.arrays import Array, Floats
from banditsis.formats.files import check_is_file, readable
from banditsis.formats.opened import OpenedMatrix, ReadOptions, as_ids, check_unique_names
from banditsis.formats.text import separate_by_tabs, to_number
from banditsis.sources.genotypes import GenotypeSource
from banditsis.sources.tables import to_numbers

N_COLUMNS = 6  # of .bim and .fam files
HEADER_BYTES = 3  # before the genotypes of a .bed file
MAX_LINE = 1 << 24  # bytes
MISSING_PHENOTYPE = -9.0


def open_plink(path: Path, options: ReadOptions) -> OpenedMatrix:
    """Open genotypes; the target is the phenotype of the ``.fam`` file (``phenotype``), or a SNP."""
    fam, bim = path.with_suffix(".fam"), path.with_suffix(".bim")
    samples, variants = read_entries(fam), read_entries(bim)
    n, p = len(samples[0]), len(variants[0])
    with open(path, "rb") as file:
        mode = file.read(HEADER_BYTES)[2:]
    if mode != b"\1":
        raise ValueError(
            f"{path} is not a valid PLINK file: its third byte must be 1. Files with sample after sample, as "
            f"before 2008, are converted with `plink --bfile {path.stem} --make-bed --out converted`."
        )
    size, expected = path.stat().st_size, HEADER_BYTES + p * -(-n // 4)
    if size != expected:
        raise ValueError(
            f"{path} has {size:,} bytes; {n:,} samples (.fam) and {p:,} SNPs (.bim) need {expected:,}: it is "
            f"{'truncated' if size < expected else 'too long'}, or belongs to other .bim and .fam files."
        )

    def share(column: int) -> Array:  # equal texts are the same object, which saves memory
        return np.array([*map(sys.intern, variants[column].to_pylist())], dtype=object)

    with readable(bim, "PLINK"):
        positions = to_numbers(variants[3].cast(pa.int32()), pa.int32())
    annotations = {"chromosome": share(0), "position": positions, "a1": share(4), "a2": share(5)}
    names = complete_ids(variants[1].to_pylist(), annotations, path)
    source = GenotypeSource(path, (n, p), HEADER_BYTES, names)
    source.annotations = annotations
    others = {"phenotype": lambda: as_phenotype(fam, samples[5].to_pylist())}
    family, sample = (column.to_pylist() for column in samples[:2])
    return OpenedMatrix(source, path, options, lambda: as_ids([family, sample]), others)


def read_entries(path: Path) -> list[Any]:
    """The columns of a ``.bim`` or ``.fam`` file, separated by blanks or tabs, as Arrow columns of text."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: the .bed, .bim and .fam files must be in one folder.")
    check_is_file(path)
    content = separate_by_tabs(path.read_bytes().decode("utf-8", "replace").encode()).strip()
    width = max(N_COLUMNS, len(content.split(b"\n", 1)[0].split()))  # GEMMA appends phenotypes
    names = list(map(str, range(width)))
    with readable(path, "PLINK"):  # by pyarrow, because there may be millions of lines
        table = csv.read_csv(
            pa.BufferReader(content),
            csv.ReadOptions(column_names=names, block_size=MAX_LINE),
            csv.ParseOptions(delimiter="\t", quote_char=False),
            csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    return list(table.columns)


def complete_ids(ids: list[str], annotations: Mapping[str, Array], where: object) -> list[str]:
    """Ids of variants; chromosome, position and alleles are added to an id that is missing or repeated."""
    if len(set(ids)) == len(ids) and "." not in ids:
        return ids
    count, names = Counter(ids) | {".": 2}, list(ids)
    for j in (j for j, name in enumerate(ids) if count[name] > 1):
        names[j] = ":".join([ids[j], *(str(values[j]) for values in annotations.values())])
    check_unique_names(names, where)
    return names


def as_phenotype(path: Path, text: Iterable[str]) -> Floats:
    """The phenotype in a ``.fam`` file as numbers, NaN if missing."""
    values = np.array([to_number(value) for value in text], np.float64)
    values[values == MISSING_PHENOTYPE] = np.nan
    known = values[~np.isnan(values)]
    if known.size == 0:
        raise ValueError(f"{path} has no phenotype: use another file as target.")
    if set(known.tolist()) <= {0.0, 1.0, 2.0} and 2.0 in known:  # controls, cases, and 0 for unknown
        values[values == 0] = np.nan
    return values
