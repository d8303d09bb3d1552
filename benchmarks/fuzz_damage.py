"""Ways to damage an input for the fuzz test, by its structure."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import fuzz_bytes as general
from fuzz_bytes import Edit, Generator
from fuzz_inputs import Case
from fuzz_numpy import HEADERS, NPZ, edit_npy, edit_npz, header, name_target, reseal
from fuzz_parquet import (
    PANDAS,
    edit_checked_page,
    edit_footer,
    edit_page,
    one_value_in_a_page,
    pandas_metadata,
    swap_pages,
)
from fuzz_stores import H5AD, HDF5, ZARR, edit_chunk

# All


def mode_byte(path: Path, rng: Generator) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:2] + b"\0" + data[3:])


def edit_side_file(path: Path, rng: Generator) -> str:
    return general.edit_text(path.with_suffix((".bim", ".fam")[rng.integers(2)]), rng)


def drop_sample(path: Path, rng: Generator) -> None:
    fam = path.with_suffix(".fam")
    fam.write_text("\n".join(fam.read_text().split("\n")[1:]))


EVERYWHERE = [general.replace(make) for make in (os.mkfifo, Path.mkdir, general.loop, general.nothing)]
EVERYWHERE += [general.replace(make) for make in (general.empty, general.link_outside)]
TEXTS = (
    b"",
    b"\n" * 1000,
    b"1 1:2 300000000:1\n",
    b"a,b\n" + b"1,2\n" * 300 + b"3\n",
    b"%%MatrixMarket matrix array real general\n300000 300000\n1\n",
)
TEXTS += (
    b"%%MatrixMarket matrix coordinate real general\n5 300000000 1\n1 1 1\n",
    b"x," * 20_000 + b"y\n" + b"1," * 20_000 + b"2\n",
)
TEXTS += (
    b"1 1:1 1:2\n",
    b"1 4294967297:1\n",
    b"1 -1:1\n",
    b'"' * 100_000,
    b"x3\n" + b"1\n" * 299,
    b"x3,b\n" + b"1,$5\n" * 300,
    b"x3;b\n" + b"1;2,5\n" * 300,
    b"x3,b\n",
    b"x3,b\n" + b"1,1_000\n" * 300,
    b"x3,b\n" + b"1,\n" * 1000 + b"1,late\n",
)
SPECIAL: dict[str, list[Edit]] = {
    "": EVERYWHERE,
    "text": [*general.write_instead(*TEXTS), general.unpack_to_much],
    "parquet": [*map(pandas_metadata, PANDAS), one_value_in_a_page],
    "arrow": list(map(pandas_metadata, PANDAS)),
    "hdf5": HDF5,
    "h5ad": HDF5 + H5AD,
    "zarr": [*ZARR, general.deep_json],
    "npy": [header(*pair) for pair in HEADERS],
    "npz": [*NPZ],
    "plink": [mode_byte, drop_sample],
    "folder": [
        general.deep_json,
        *map(name_target, ("http://127.0.0.1:9/y.csv", "/etc/passwd", "../y.npy", "x3:1")),
    ],
}
VARIED: dict[str, list[Edit]] = {
    "text": [general.edit_text],
    "parquet": [edit_footer, edit_footer, edit_page, edit_checked_page, swap_pages],
    "arrow": [general.edit_bytes(general.change_word)],
    "hdf5": [general.edit_bytes(general.change_word)],
    "h5ad": [general.edit_bytes(general.change_word)],
    "zarr": [general.edit_json, general.edit_json, edit_chunk],
    "npy": [edit_npy],
    "npz": [edit_npz],
    "plink": [edit_side_file],
    "folder": [reseal, reseal, general.edit_json],
}


def damage(case: Case, folder: Path, seed: int, key: int) -> str:
    """Damage the input of a case, and return how: first each special way once, then random ones."""
    rng, path = np.random.default_rng([key, seed]), folder / case.name
    special, varied = [*SPECIAL[""], *SPECIAL.get(case.structure, [])], VARIED.get(case.structure, [])
    if seed < len(special):
        edit = special[seed]
    elif varied and rng.random() < 0.6:
        edit = varied[rng.integers(len(varied))]
    else:
        return general.damage_bytes(folder, rng)
    return f"{edit.__name__.replace('_', ' ')} {edit(path, rng) or ''}".strip()
