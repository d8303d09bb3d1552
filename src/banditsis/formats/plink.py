"""PLINK genotypes: ``.bed`` with its ``.bim`` (SNPs) and ``.fam`` (samples)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from banditsis.core.arrays import Array, Floats
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.registry import Opened, take_apart
from banditsis.formats.tables import check_unique_names
from banditsis.formats.text import is_number
from banditsis.sources.genotypes import GenotypeSource

N_COLUMNS = 6  # of .bim and .fam files
HEADER_BYTES = 3  # before the genotypes of a .bed file
MAX_DIGITS = 9  # of every 32-bit integer
MISSING_PHENOTYPE = -9.0


def open_plink(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open genotypes; the target is the phenotype of the ``.fam`` file (``phenotype``), or a SNP."""
    samples, variants = Entries(path.with_suffix(".fam")), Entries(path.with_suffix(".bim"))
    n, p = len(samples), len(variants)
    _check_mode(path)
    _check_size(path, n, p)
    annotations = {
        "chromosome": variants.shared_texts(0),
        "position": variants.positions(3),
        "a1": variants.shared_texts(4),
        "a2": variants.shared_texts(5),
    }
    names = complete_ids(variants.texts(1), annotations, path)
    phenotype = {
        name: lambda: as_phenotype(samples.path, samples.texts(5))
        for name in apart
        if name.lower() in ("phenotype", "pheno") and name not in names
    }
    source = GenotypeSource(path, (n, p), HEADER_BYTES, names)
    source.annotations = annotations
    sample_ids = np.array(list(map("\t".join, zip(samples.texts(0), samples.texts(1), strict=True))))
    return take_apart(source, apart, path, options, sample_ids, phenotype)


class Entries:
    """The entries of a ``.bim`` or ``.fam`` file, which blanks or tabs separate.

    There may be millions of lines, so texts are made only of the columns that are needed. GEMMA appends
    further phenotypes to a ``.fam`` file.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise FileNotFoundError(
                f"{path} is missing: PLINK's .bed, .bim and .fam files must be in one folder."
            )
        content = path.read_bytes()
        if not content.strip():
            raise ValueError(f"{path} is empty.")
        self.path = path
        self._content = np.frombuffer(content if content.endswith(b"\n") else content + b"\n", np.uint8)
        edges = np.flatnonzero(np.diff(self._content <= ord(" "), prepend=True))
        starts, line_ends = edges[::2], np.flatnonzero(self._content == ord("\n"))
        width = max(N_COLUMNS, int(np.searchsorted(starts, line_ends[0])))
        if (
            len(starts) != width * len(line_ends)
            or (starts[width - 1 :: width] > line_ends).any()
            or (starts[width::width] < line_ends[:-1]).any()
        ):
            counts = np.diff(np.searchsorted(starts, line_ends), prepend=0)
            raise self._irregular(counts, width)
        self._starts, self._ends = starts.reshape(-1, width), edges[1::2].reshape(-1, width)

    def _irregular(self, counts: Array, width: int) -> ValueError:
        number = int(np.argmax(counts != width))
        return ValueError(
            f"{self.path} cannot be read: line {number + 1:,} has {counts[number]} entries, and must have "
            f"{width}."
        )

    def __len__(self) -> int:
        return len(self._starts)

    def texts(self, column: int) -> list[str]:
        """The texts of a column."""
        is_chosen = np.zeros(len(self._content) + 1, np.int8)
        is_chosen[self._starts[:, column]] = 1
        is_chosen[self._ends[:, column] + 1] -= 1  # after the blank behind it
        np.cumsum(is_chosen, dtype=np.int8, out=is_chosen)
        chosen = self._content[is_chosen[:-1].view(bool)].tobytes()
        texts: list[str] = chosen.decode("utf-8", errors="replace").split()
        if len(texts) != len(self):  # other characters that are blanks
            raise ValueError(f"{self.path} cannot be read: column {column + 1} has invalid characters.")
        return texts

    def shared_texts(self, column: int) -> Array:
        """The texts of a column in which few are different."""
        starts, sizes = self._starts[:, column], self._ends[:, column] - self._starts[:, column]
        if sizes.max() > 2:
            return share_texts(self.texts(column))
        second = np.where(sizes == 2, self._content[starts + 1], 0).astype(np.uint16)
        codes = self._content[starts] + (second << 8)
        table = np.empty(1 << 16, object)
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            table[code] = code.to_bytes(2, "little").decode("utf-8", errors="replace").rstrip("\0")
        return np.asarray(table[codes])

    def positions(self, column: int) -> Array:
        """The integers of a column."""
        starts, sizes = self._starts[:, column], self._ends[:, column] - self._starts[:, column]
        positions = np.zeros(len(self), np.int32)
        for k in range(int(sizes.max())):
            digits = self._content[starts + np.minimum(k, sizes - 1)] - np.uint8(ord("0"))
            if k == MAX_DIGITS or digits.max() > 9:
                return self._integers(column)
            positions = np.where(k < sizes, 10 * positions + digits, positions)
        return positions

    def _integers(self, column: int) -> Array:
        """Integers that may be negative, or too large."""
        try:
            return np.array(list(map(int, self.texts(column))), np.int32)
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"{self.path} cannot be read: a position is not a number of base pairs, {error}."
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


def share_texts(texts: Iterable[str]) -> Array:
    """Texts as an array of objects in which equal ones are the same object, which saves memory."""
    return np.array(list(map(sys.intern, texts)), dtype=object)


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
