"""PLINK genotypes: ``.bed`` with its ``.bim`` (SNPs) and ``.fam`` (samples)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Floats
from banditsis.formats.opened import OpenedMatrix
from banditsis.formats.options import ReadOptions, as_ids
from banditsis.formats.tables import check_unique_names
from banditsis.formats.text import is_number
from banditsis.sources.genotypes import GenotypeSource
from banditsis.sources.tables import to_numbers

N_COLUMNS = 6  # of .bim and .fam files
HEADER_BYTES = 3  # before the genotypes of a .bed file
MAX_LINE = 1 << 24  # bytes
#: All control characters separate entries, except the end of a line.
BLANKS_AS_TABS = bytes(9 if byte <= 32 and byte != 10 else byte for byte in range(256))
MISSING_PHENOTYPE = -9.0
#: Names of the column of phenotypes.
PHENOTYPES = ("phenotype", "pheno", "PHENOTYPE", "PHENO")


def open_plink(path: Path, options: ReadOptions) -> OpenedMatrix:
    """Open genotypes; the target is the phenotype of the ``.fam`` file (``phenotype``), or a SNP."""
    fam, bim = path.with_suffix(".fam"), path.with_suffix(".bim")
    samples, variants = read_entries(fam), read_entries(bim)
    n, p = len(samples[0]), len(variants[0])
    _check_mode(path)
    _check_size(path, n, p)
    annotations = {
        "chromosome": _share_equal(variants[0]),
        "position": _as_positions(variants[3], bim),
        "a1": _share_equal(variants[4]),
        "a2": _share_equal(variants[5]),
    }
    names = complete_ids(variants[1].to_pylist(), annotations, path)
    source = GenotypeSource(path, (n, p), HEADER_BYTES, names)
    source.annotations = annotations

    def phenotype() -> Array:
        return as_phenotype(fam, samples[5].to_pylist())

    others = {name: phenotype for name in PHENOTYPES if name not in names}
    family, sample = (column.to_pylist() for column in samples[:2])
    return OpenedMatrix(source, path, options, lambda: as_ids([family, sample]), others)


def read_entries(path: Path) -> list[Any]:
    """The columns of a ``.bim`` or ``.fam`` file, which blanks or tabs separate, as Arrow columns of text.

    There may be millions of lines. GEMMA appends further phenotypes to a ``.fam`` file.
    """
    import pyarrow as pa
    from pyarrow import csv

    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing: PLINK's .bed, .bim and .fam files must be in one folder."
        )
    content = path.read_bytes().decode("utf-8", errors="replace").encode().translate(BLANKS_AS_TABS)
    while b"\t\t" in content:
        content = content.replace(b"\t\t", b"\t")
    content = content.replace(b"\t\n", b"\n").replace(b"\n\t", b"\n").strip()
    if not content:
        raise ValueError(f"{path} is empty.")
    width = max(N_COLUMNS, len(content.split(b"\n", 1)[0].split()))
    names = list(map(str, range(width)))
    try:
        table = csv.read_csv(
            pa.BufferReader(content),
            csv.ReadOptions(column_names=names, block_size=MAX_LINE),
            csv.ParseOptions(delimiter="\t", quote_char=False),
            csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except pa.ArrowInvalid as error:
        counts = [len(line.split()) for line in content.split(b"\n")]
        wrong = [f"line {k + 1:,} has {n} entries" for k, n in enumerate(counts) if n not in (0, width)]
        reason = f"{wrong[0]}, and must have {width}." if wrong else str(error)
        raise ValueError(f"{path} cannot be read: {reason}") from error
    return list(table.columns)


def _share_equal(column: Any) -> Array:
    """The texts of a column as an array of objects in which equal ones are the same object."""
    encoded = column.combine_chunks().dictionary_encode()
    texts = np.array(encoded.dictionary.to_pylist(), dtype=object)
    return np.asarray(texts[to_numbers(encoded.indices, encoded.indices.type)])


def _as_positions(column: Any, path: Path) -> Array:
    import pyarrow as pa

    try:
        return to_numbers(column.cast(pa.int32()), pa.int32())
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"{path} cannot be read: a position is not a number of base pairs, {error}."
        ) from error


def _check_mode(path: Path) -> None:
    """Raise if the third byte does not say that SNP follows SNP."""
    with open(path, "rb") as file:
        mode = file.read(HEADER_BYTES)[2:]
    if mode == b"\0":
        raise ValueError(
            f"{path} stores sample after sample, as PLINK did before 2008: convert it with "
            f"`plink --bfile {path.stem} --make-bed --out converted`."
        )
    if mode != b"\1":
        raise ValueError(f"{path} is not a valid PLINK file: its third byte must be 1, or 0 in old files.")


def _check_size(path: Path, n: int, p: int) -> None:
    size = path.stat().st_size
    expected = HEADER_BYTES + p * -(-n // 4)
    if size != expected:
        raise ValueError(
            f"{path} has {size:,} bytes; {n:,} samples (.fam) and {p:,} SNPs (.bim) need {expected:,}: it is "
            f"{'truncated' if size < expected else 'too long'}, or belongs to other .bim and .fam files."
        )


def complete_ids(ids: list[str], annotations: Mapping[str, Array], where: object) -> list[str]:
    """Ids of variants; chromosome, position and alleles are added to an id that is missing or repeated.

    Examples
    --------
    >>> places = {"chromosome": np.array(["1", "17"]), "position": np.array([6, 4000])}
    >>> complete_ids(["rs1", "."], places, "x.bim")
    ['rs1', '.:17:4000']
    """
    different = set(ids)
    if len(different) == len(ids) and "." not in different:
        return ids
    count = Counter(ids)
    names = [
        name
        if count[name] == 1 and name != "."
        else ":".join([name, *(str(values[j]) for values in annotations.values())])
        for j, name in enumerate(ids)
    ]
    check_unique_names(names, where)
    return names


def as_phenotype(path: Path, text: Iterable[str]) -> Floats:
    """The phenotype in a ``.fam`` or ``.psam`` file as numbers, NaN if missing."""
    values = np.array([float(value) if is_number(value) else np.nan for value in text])
    values[values == MISSING_PHENOTYPE] = np.nan
    known = values[~np.isnan(values)]
    if known.size == 0:
        raise ValueError(f"{path} has no phenotype: use another file as target.")
    if set(known.tolist()) <= {0.0, 1.0, 2.0} and 2.0 in known:  # controls, cases, and 0 for unknown
        values[values == 0] = np.nan
    return values
