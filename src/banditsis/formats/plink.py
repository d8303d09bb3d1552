"""PLINK genotypes: ``.bed`` with its ``.bim`` (SNPs) and ``.fam`` (samples)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.arrays import Array, Columns, Floats, Rows
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.registry import Opened, import_optional, take_apart
from banditsis.formats.tables import check_unique_names
from banditsis.formats.text import is_number
from banditsis.sources.blocks import BlockSource

SAMPLES_AT_ONCE = 4 * 8192  # genotypes of one SNP that a read of 8 KB returns
MISSING_PHENOTYPE = -9.0


class PlinkSource(BlockSource):
    """Genotypes as counts of the first allele: 0, 1, 2, or NaN if missing.

    The file stores SNP after SNP, so reading a few samples of a small file costs nearly as much as all.

    Parameters
    ----------
    bed : bed_reader.open_bed
        The file.
    names : list of str
        Names of the SNPs.
    """

    def __init__(self, bed: Any, names: list[str]) -> None:
        self.bed, self.names = bed, names
        self.shape, self.dtype = (int(bed.iid_count), int(bed.sid_count)), np.dtype(np.float32)
        self.chunk = min(self.shape[0], SAMPLES_AT_ONCE), 1

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        index = rows, slice(None) if columns is None else columns
        try:
            block = self.bed.read(index=index, dtype="float32", order="F", num_threads=1)
        except (OSError, ValueError, RuntimeError) as error:
            raise ValueError(f"{self.bed.location} cannot be read: {error}") from error
        return np.asarray(block)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return super().bytes_touched(n_rows, n_columns, scattered=scattered) / (4 * self.dtype.itemsize)


def open_plink(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open genotypes; the target is the phenotype of the ``.fam`` file (``phenotype``), or a SNP."""
    library = import_optional("bed_reader", "plink")
    n, p = (_count_lines(path.with_suffix(ending)) for ending in (".fam", ".bim"))
    _check_mode(path)
    _check_size(path, n, p)
    try:
        bed = library.open_bed(path, iid_count=n, sid_count=p, num_threads=1)
        annotations = {
            "chromosome": share_texts(bed.chromosome.tolist()),
            "position": bed.bp_position,
            "a1": share_texts(bed.allele_1.tolist()),
            "a2": share_texts(bed.allele_2.tolist()),
        }
        names = complete_ids(bed.sid.tolist(), annotations)
        ids = np.char.add(np.char.add(bed.fid, "\t"), bed.iid)
    except (OSError, ValueError, OverflowError, RuntimeError) as error:
        raise ValueError(f"{path}, or its .bim or .fam, cannot be read: {error}") from error
    check_unique_names(names, path)
    phenotype = {
        name: lambda: as_phenotype(path.with_suffix(".fam"), bed.pheno)
        for name in apart
        if name.lower() in ("phenotype", "pheno") and name not in names
    }
    source = PlinkSource(bed, names)
    source.annotations = annotations
    return take_apart(source, apart, path, options, ids, phenotype)


def _count_lines(path: Path) -> int:
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing: PLINK's .bed, .bim and .fam files must be in one folder."
        )
    with open(path, "rb") as file:
        total = sum(1 for _ in file)
    if total == 0:
        raise ValueError(f"{path} is empty.")
    return total


def _check_mode(path: Path) -> None:
    """Raise if the third byte does not say that SNP follows SNP."""
    with open(path, "rb") as file:
        mode = file.read(3)[2:]
    if mode == b"\0":
        raise ValueError(
            f"{path} stores sample after sample, as PLINK did before 2008: convert it with "
            f"`plink --bfile {path.stem} --make-bed --out converted`."
        )
    if mode != b"\1":
        raise ValueError(f"{path} is not a valid PLINK file: its third byte must be 1, or 0 in old files.")


def _check_size(path: Path, n: int, p: int) -> None:
    size = path.stat().st_size
    expected = 3 + p * -(-n // 4)
    if size != expected:
        raise ValueError(
            f"{path} has {size:,} bytes; {n:,} samples (.fam) and {p:,} SNPs (.bim) need {expected:,}: it is "
            f"{'truncated' if size < expected else 'too long'}, or belongs to other .bim and .fam files."
        )


def share_texts(texts: Iterable[str]) -> Array:
    """Texts as an array of objects in which equal ones are the same object, which saves memory."""
    return np.array([sys.intern(text) for text in texts], dtype=object)


def complete_ids(ids: Sequence[str], annotations: Mapping[str, Array]) -> list[str]:
    """Ids of variants; chromosome, position and alleles are added to an id that is missing or repeated.

    Examples
    --------
    >>> complete_ids(["rs1", "."], {"chromosome": np.array(["1", "17"]), "position": np.array([6, 4000])})
    ['rs1', '.:17:4000']
    """
    count = Counter(ids)
    return [
        name
        if count[name] == 1 and name != "."
        else ":".join([name, *(str(values[j]) for values in annotations.values())])
        for j, name in enumerate(ids)
    ]


def as_phenotype(path: Path, text: Array) -> Floats:
    """The phenotype in a ``.fam`` or ``.psam`` file as numbers, NaN if missing."""
    values = np.array([float(value) if is_number(value) else np.nan for value in text])
    values[values == MISSING_PHENOTYPE] = np.nan
    known = values[~np.isnan(values)]
    if known.size == 0:
        raise ValueError(f"{path} has no phenotype: use another file as target.")
    if set(known.tolist()) <= {0.0, 1.0, 2.0} and 2.0 in known:  # controls, cases, and 0 for unknown
        values[values == 0] = np.nan
    return values
