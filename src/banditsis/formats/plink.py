"""PLINK genotypes: ``.bed`` with its ``.bim`` (SNPs) and ``.fam`` (samples)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.arrays import Array, Columns, Floats, Rows
from banditsis.formats.registry import Opened, import_optional, split_target_column
from banditsis.formats.tables import check_unique_names
from banditsis.sources.blocks import BlockSource

#: Samples whose genotypes of one SNP come together: four to a byte, 8 KB in a read.
SAMPLES_AT_ONCE = 4 * 8192
PHENOTYPE = ("phenotype", "pheno")
MISSING = -9.0  # as a phenotype


class PlinkSource(BlockSource):
    """Genotypes, as counts of the first allele: 0, 1, 2, or NaN where they are missing.

    SNPs lie one after the other, so a few samples of a small file cost nearly as much as all of them.

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


def open_plink(path: Path, target: str | None = None, **options: Any) -> Opened:
    """Open genotypes; the target is the phenotype of the ``.fam`` file (``phenotype``), or a SNP."""
    library = import_optional("bed_reader", "plink")
    n, p = (_count_lines(path.with_suffix(ending)) for ending in (".fam", ".bim"))
    _check_size(path, n, p)
    try:
        bed = library.open_bed(path, num_threads=1)
        names, ids = _names(bed), np.char.add(np.char.add(bed.fid, "\t"), bed.iid)
    except (OSError, ValueError, RuntimeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}, or its .bim or .fam, cannot be read: {error}") from error
    check_unique_names(names, path)
    source = PlinkSource(bed, names)
    if target is None:
        return Opened(source, None, ids)
    if target.lower() in PHENOTYPE and target not in names:
        return Opened(source, _phenotype(path, bed.pheno), ids)
    return split_target_column(source, target, path, ids)


def _count_lines(path: Path) -> int:
    """Lines of a text file, which need not end in a newline."""
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing: PLINK's .bed, .bim and .fam belong together, in one folder."
        )
    total, last = 0, b"\n"
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            total, last = total + block.count(b"\n"), block[-1:]
    total += last != b"\n"
    if total == 0:
        raise ValueError(f"{path} is empty.")
    return total


def _check_size(path: Path, n: int, p: int) -> None:
    with open(path, "rb") as file:
        magic, size = file.read(3), path.stat().st_size
    if magic[:2] != b"\x6c\x1b":
        raise ValueError(f"{path} is no PLINK .bed file: it does not begin as one.")
    if magic[2:] != b"\x01":
        raise ValueError(f"{path} is in PLINK's old order, by sample: write it again with plink --make-bed.")
    expected = 3 + p * -(-n // 4)
    if size != expected:
        raise ValueError(
            f"{path} has {size:,} bytes; {n:,} samples (.fam) and {p:,} SNPs (.bim) make {expected:,}: it is "
            f"{'cut short' if size < expected else 'too long'}, or belongs to other .bim and .fam files."
        )


def _names(bed: Any) -> list[str]:
    """SNP ids; with chromosome, position and alleles where an id is missing or used twice."""
    count = Counter(bed.sid.tolist())
    if count.most_common(1)[0][1] == 1 and "." not in count:
        return list(map(str, bed.sid))
    parts = zip(bed.sid, bed.chromosome, bed.bp_position, bed.allele_1, bed.allele_2, strict=True)
    return [
        str(sid) if count[str(sid)] == 1 and sid != "." else f"{sid}:{where}:{position}:{first}:{second}"
        for sid, where, position, first, second in parts
    ]


def _phenotype(path: Path, text: Array) -> Floats:
    """The phenotype as numbers, NaN where it is missing."""
    values = np.array([_number(value) for value in text])
    values[values == MISSING] = np.nan
    known = values[~np.isnan(values)]
    if known.size == 0:
        raise ValueError(f"{path.with_suffix('.fam')} holds no phenotype: give a file of its own as target.")
    if set(known.tolist()) <= {0.0, 1.0, 2.0} and 2.0 in known:  # cases and controls, 0 if unknown
        values[values == 0] = np.nan
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan
