"""PLINK genotypes: ``.bed`` with its ``.bim`` (SNPs) and ``.fam`` (samples)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from banditsis.arrays import Array, Floats
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.registry import Opened, take_apart
from banditsis.formats.tables import check_unique_names
from banditsis.formats.text import is_number
from banditsis.sources.genotypes import GenotypeSource

N_COLUMNS = 6  # of .bim and .fam files
HEADER_BYTES = 3  # before the genotypes of a .bed file
MISSING_PHENOTYPE = -9.0


def open_plink(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open genotypes; the target is the phenotype of the ``.fam`` file (``phenotype``), or a SNP."""
    families, samples, *_, phenotypes = _read_columns(path.with_suffix(".fam"))
    chromosomes, ids, _, positions, first, second = _read_columns(path.with_suffix(".bim"))
    n, p = len(samples), len(ids)
    _check_mode(path)
    _check_size(path, n, p)
    annotations = {
        "chromosome": share_texts(chromosomes),
        "position": _as_positions(path.with_suffix(".bim"), positions),
        "a1": share_texts(first),
        "a2": share_texts(second),
    }
    names = complete_ids(ids, annotations)
    check_unique_names(names, path)
    phenotype = {
        name: lambda: as_phenotype(path.with_suffix(".fam"), phenotypes)
        for name in apart
        if name.lower() in ("phenotype", "pheno") and name not in names
    }
    source = GenotypeSource(path, (n, p), HEADER_BYTES, names)
    source.annotations = annotations
    sample_ids = np.array([f"{family}\t{sample}" for family, sample in zip(families, samples, strict=True)])
    return take_apart(source, apart, path, options, sample_ids, phenotype)


def _read_columns(path: Path) -> list[list[str]]:
    """The first six columns of a ``.bim`` or ``.fam`` file, which blanks or tabs separate.

    GEMMA appends further phenotypes to a ``.fam`` file.
    """
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing: PLINK's .bed, .bim and .fam files must be in one folder."
        )
    content = path.read_bytes()
    if not content.strip():
        raise ValueError(f"{path} is empty.")
    # Splitting each line would be slower: the garbage collector visits every list.
    counts = _count_entries(np.frombuffer(content, np.uint8))
    cells = content.decode("utf-8", errors="replace").split()
    width = max(N_COLUMNS, int(counts[0]))
    if (counts != width).any() or len(cells) != width * len(counts):
        number = int(np.argmax(counts != width))
        raise ValueError(
            f"{path} cannot be read: line {number + 1:,} has {counts[number]} entries, and must have {width}."
        )
    return [cells[k::width] for k in range(N_COLUMNS)]


def _count_entries(content: Array) -> Array:
    """Number of entries in each line of a text, given as bytes."""
    is_blank = content <= ord(" ")
    is_start = ~is_blank
    is_start[1:] &= is_blank[:-1]
    ends = np.flatnonzero(content == ord("\n"))
    if ends.size == 0 or ends[-1] < len(content) - 1:  # the last line has no end
        ends = np.append(ends, len(content) - 1)
    return np.diff(np.searchsorted(np.flatnonzero(is_start), ends), prepend=0)


def _as_positions(path: Path, texts: Iterable[str]) -> Array:
    try:
        return np.array(list(map(int, texts)), np.int32)
    except (ValueError, OverflowError) as error:
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


def share_texts(texts: Iterable[str]) -> Array:
    """Texts as an array of objects in which equal ones are the same object, which saves memory."""
    return np.array(list(map(sys.intern, texts)), dtype=object)


def complete_ids(ids: Sequence[str], annotations: Mapping[str, Array]) -> list[str]:
    """Ids of variants; chromosome, position and alleles are added to an id that is missing or repeated.

    Examples
    --------
    >>> complete_ids(["rs1", "."], {"chromosome": np.array(["1", "17"]), "position": np.array([6, 4000])})
    ['rs1', '.:17:4000']
    """
    if len(set(ids)) == len(ids) and "." not in ids:
        return list(ids)
    count = Counter(ids)
    return [
        name
        if count[name] == 1 and name != "."
        else ":".join([name, *(str(values[j]) for values in annotations.values())])
        for j, name in enumerate(ids)
    ]


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
