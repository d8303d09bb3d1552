"""PLINK 2 genotypes: ``.pgen`` with its ``.pvar`` or ``.pvar.zst`` (variants) and ``.psam`` (samples)."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Rows, as_indices, count_rows
from banditsis.formats.checks import import_optional
from banditsis.formats.opened import OpenedMatrix
from banditsis.formats.options import ReadOptions, as_ids
from banditsis.formats.plink import as_phenotype, complete_ids, share_equal
from banditsis.formats.stores import to_text
from banditsis.formats.text import is_number
from banditsis.sources.blocks import BlockSource

MISSING = -9  # pgenlib's code
#: Columns of a .psam file that are neither ids nor phenotypes.
PEDIGREE = ("SID", "PAT", "MAT")
FAM_COLUMNS = ("FID", "IID", "PAT", "MAT", "SEX", "PHENO1")  # of a .psam file without a header


class PgenSource(BlockSource):
    """Genotypes as counts or dosages of the alternate alleles: 0 to 2, or NaN if missing.

    A file that was made from a ``.bed`` file gives the same counts: PLINK 2 takes the first allele of a
    ``.bim`` file as the alternate allele. A variant is stored as one record, which is always read completely.

    Parameters
    ----------
    path : Path
        The ``.pgen`` file.
    shape : tuple of int
        Numbers of samples and variants.
    names : list of str
        Names of the variants.
    offsets : ndarray of int, optional
        Numbers of alleles before each variant and in total, if a variant has more than two alleles.
    """

    def __init__(
        self, path: Path, shape: tuple[int, int], names: list[str], offsets: Array | None = None
    ) -> None:
        self.path, self.shape, self.names, self.offsets = path, shape, names, offsets
        self.dtype, self.chunk = np.dtype(np.float32), (shape[0], 1)
        self._local = threading.local()  # a reader has buffers that threads cannot share

    @property
    def _reader(self) -> Any:
        if not hasattr(self._local, "reader"):
            import pgenlib

            n, p = self.shape
            self._local.reader = pgenlib.PgenReader(
                str(self.path).encode(), raw_sample_ct=n, variant_ct=p, allele_idx_offsets=self.offsets
            )
        return self._local.reader

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        variants = as_indices(slice(0, self.shape[1]) if columns is None else columns).astype(np.uint32)
        n_rows = count_rows(rows)
        block = np.empty((len(variants), n_rows), np.float32)
        if block.size == 0:
            return block.T
        subset = None if n_rows == self.shape[0] else as_indices(rows).astype(np.uint32)
        try:
            reader = self._reader
            reader.change_sample_subset(subset)
            reader.read_dosages_list(variants, block, allele_idx=0)  # of the reference allele
        except (RuntimeError, AssertionError) as error:
            raise ValueError(
                f"{self.path} cannot be read ({_text(error)}): it is truncated or damaged, or belongs to "
                "other .pvar and .psam files."
            ) from error
        block[block == MISSING] = np.nan
        return np.subtract(2, block, out=block).T

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        n, p = self.shape
        cells = super().bytes_touched(n_rows, n_columns, scattered=scattered) / self.dtype.itemsize
        return cells * self.path.stat().st_size / (n * p)


def open_pgen(path: Path, options: ReadOptions) -> OpenedMatrix:
    """Open genotypes; the target is a phenotype of the ``.psam`` file, or a variant."""
    library = import_optional("pgenlib", "PLINK 2 (.pgen)", "pgen")
    names, offsets, annotations = _read_variants(library, _find_part(path, ".pvar", ".pvar.zst"))
    samples = _find_part(path, ".psam")
    columns = _read_samples(samples)
    ids = [columns[name].tolist() for name in ("FID", "IID") if name in columns]
    source = PgenSource(path, (len(ids[0]), len(names)), names, offsets)
    source.annotations = annotations
    source.read(slice(0, 1), slice(len(names) - 1, len(names)))  # raises if the file is truncated
    others = {
        name: partial(_read_phenotype, samples, values)
        for name, values in columns.items()
        if name not in ("FID", "IID", *PEDIGREE)
    }
    return OpenedMatrix(source, path, options, lambda: as_ids(ids), others)


def _find_part(path: Path, *endings: str) -> Path:
    for ending in endings:
        part = path.with_suffix(ending)
        if part.exists():
            return part
    raise FileNotFoundError(
        f"{path.with_suffix(endings[0])} is missing: PLINK 2's .pgen, .pvar and .psam files must be in one "
        "folder."
    )


def _read_variants(library: Any, path: Path) -> tuple[list[str], Array | None, dict[str, Array]]:
    """Names of the variants, the offsets of their alleles if some have more than two, and annotations.

    Alternate alleles are counted together, so ``a1`` lists all of them.
    """
    try:
        with library.PvarReader(str(path).encode()) as reader:
            variants = range(reader.get_variant_ct())
            ids = [to_text(reader.get_variant_id(j)) for j in variants]
            alleles = [
                [to_text(reader.get_allele_code(j, k)) for k in range(reader.get_allele_ct(j))]
                for j in variants
            ]
            annotations = {
                "chromosome": share_equal(to_text(reader.get_variant_chrom(j)) for j in variants),
                "position": np.array([reader.get_variant_pos(j) for j in variants], np.int32),
                "a1": share_equal(",".join(codes[1:]) for codes in alleles),
                "a2": share_equal(codes[0] for codes in alleles),
            }
            names = complete_ids(ids, annotations, path)
            offsets = reader.get_allele_idx_offsets() if reader.get_max_allele_ct() > 2 else None
    except (RuntimeError, AssertionError, MemoryError) as error:
        raise ValueError(f"{path} cannot be read: {_text(error)}") from error
    if not names:
        raise ValueError(f"{path} has no variants.")
    return names, offsets, annotations


def _read_samples(path: Path) -> dict[str, Array]:
    """The columns of a .psam file, as text."""
    with open(path, encoding="utf-8", errors="replace") as file:
        rows = [line.split() for line in file if line.strip() and not line.startswith("##")]
    if rows and rows[0][0].startswith("#"):
        header = [rows[0][0][1:], *rows[0][1:]]
        rows = rows[1:]
    else:
        header = list(FAM_COLUMNS[: len(rows[0]) if rows else None])
    if not rows:
        raise ValueError(f"{path} has no samples.")
    if "IID" not in header:
        raise ValueError(f"{path} has no column IID: its header has {', '.join(header)}.")
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise ValueError(
                f"{path} has {len(row)} entries for sample {number:,}; its {len(header)} columns are "
                f"{', '.join(header)}."
            )
    return {name: np.array(cells) for name, cells in zip(header, zip(*rows, strict=True), strict=True)}


def _read_phenotype(path: Path, text: Array) -> Array:
    """A phenotype as numbers, or as text if it is categorical; NaN or None if missing."""
    is_missing = np.isin(np.char.lower(text), ("na", "nan", "none", str(MISSING)))
    if all(is_number(value) for value in text[~is_missing]):
        return as_phenotype(path, text)
    values = text.astype(object)
    values[is_missing] = None
    return values


def _text(error: BaseException) -> str:
    """The message of an error of pgenlib, which is text or bytes."""
    message = error.args[0] if error.args else type(error).__name__
    return to_text(message).strip().rstrip(".")
