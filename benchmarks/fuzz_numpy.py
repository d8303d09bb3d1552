"""Edits of NumPy arrays and archives of them."""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np

from fuzz_bytes import BOMB, LARGE, Edit, Generator, any_file, change_json, change_word, edit_json, flip_bits
from fuzz_references import CSR, seal

# NumPy

HEADERS = [
    (b"'<f8'", text)
    for text in (
        b"'|O'",
        b"'<f4'",
        b"'>f8'",
        b"'<U2'",
        b"'<M8[s]'",
        b"'V8'",
        b"'<c16'",
        b"'<i8'",
        b"'|b1'",
        b"[('a','<f8')]",
    )
]
HEADERS += [
    (b"300", number)
    for number in (b"0", b"-1", b"299", b"301", b"1000000000", b"99999999999999999999", b"3.0", b"300,1")
]
HEADERS += [
    (b"12", b"1000000000"),
    (b"False", b"True"),
    (b"False", b"1"),
    (b"'shape'", b"'shape '"),
    (b"(", b"(" * 300),
    (b"{", b"{1:"),
]


def edit_npy(path: Path, rng: Generator) -> str:
    """Change the header of an array, or its bytes."""
    old, new = HEADERS[rng.integers(len(HEADERS))]
    path.write_bytes(change_npy(path.read_bytes(), old, new))
    return f"{old.decode()} to {new[:30].decode()}"


def change_npy(data: bytes, old: bytes, new: bytes) -> bytes:
    length = int.from_bytes(data[8:10], "little")
    header = data[10 : 10 + length].replace(old, new, 1).rstrip() + b" " * 20 + b"\n"
    return data[:8] + len(header).to_bytes(2, "little") + header + data[10 + length :]


def header(old: bytes, new: bytes) -> Edit:
    """An edit of the header of an array."""

    def edit(path: Path, rng: Generator) -> str:
        path.write_bytes(change_npy(path.read_bytes(), old, new))
        return f"{old.decode()} to {new[:30].decode()}"

    edit.__name__ = "header"
    return edit


def edit_npz(path: Path, rng: Generator) -> str:
    """Change one member of an archive, which stays valid."""
    with ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = str(rng.choice(list(members)))
    kind = rng.integers(6)
    if kind == 0:
        del members[name]
    elif kind == 1:
        other = str(rng.choice(list(members)))
        members[name], members[other] = members[other], members[name]
    elif kind == 2:
        old, new = HEADERS[rng.integers(len(HEADERS))]
        members[name] = change_npy(members[name], old, new)
    elif kind == 3:
        members[name] = (change_word, flip_bits)[rng.integers(2)](members[name], rng)
    else:
        array = np.load(io.BytesIO(members[name])).ravel()
        array[rng.integers(array.size)] = (
            np.array(LARGE[rng.integers(len(LARGE))]).astype(array.dtype)
            if array.dtype.kind in "fiu"
            else b"x"
        )
        members[name] = npy(array.reshape(np.load(io.BytesIO(members[name])).shape))
    write_npz(path, members)
    return f"{name} {kind}"


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(array))
    return file.getvalue()


def write_npz(path: Path, members: dict[str, bytes]) -> None:
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def sparse(why: str, **changes: Any) -> Edit:
    """An edit that writes a sparse matrix with other members, or without them (None)."""

    def edit(path: Path, rng: Generator) -> str:
        parts = {name: getattr(CSR, name) for name in ("data", "indices", "indptr", "shape")}
        members = {"format": b"csr", **parts, **changes}
        write_npz(path, {f"{name}.npy": npy(value) for name, value in members.items() if value is not None})
        return why

    edit.__name__ = "sparse"
    return edit


def npz_bomb(path: Path, rng: Generator) -> None:
    """An array of zeros that is larger than the limit."""
    with ZipFile(path, "w", ZIP_DEFLATED) as archive, archive.open("X.npy", "w") as file:
        file.write(
            npy(np.zeros((1, 1)))[:128].replace(
                b"(1, 1), }" + b" " * 14, b"(%d, 12), }" % (BOMB // 96) + b" " * 5
            )
        )
        for _ in range(BOMB >> 22):
            file.write(bytes(1 << 22))


NPZ = [
    sparse(f"format {value!r}", format=value) for value in (5, b"x", b"coo", b"bsr", b"dia", np.ones(3), None)
]
NPZ += [
    sparse(f"shape {v}", shape=v)
    for v in ((300, 10**9), (10**9, 12), (-1, 12), (300, 11), (300.5, 12), (300,), 5)
]
NPZ += [sparse("floating indices", indices=CSR.indices + 0.5), sparse("negative index", indices=-CSR.indices)]
NPZ += [
    sparse("short data", data=CSR.data[:-1]),
    sparse("decreasing indptr", indptr=CSR.indptr[::-1]),
    npz_bomb,
]


# Prepared folders


def reseal(path: Path, rng: Generator) -> str:
    """Change something in a prepared folder, and write the checksums that it should have."""
    meta = json.loads((path / "meta.json").read_bytes())
    what = "meta.json"
    if rng.random() < 0.5:
        what += f": {change_json(meta, rng)}"
    else:
        file = any_file(path, rng, "*.n*y" if rng.random() < 0.7 else "names.json")
        what = f"{file.name}: {edit_npy(file, rng) if file.suffix == '.npy' else edit_json(file, rng)}"
        meta["files"][file.name] = [file.stat().st_size, zlib.crc32(file.read_bytes())]
    return what + write_sealed(path, meta)


def write_sealed(path: Path, meta: dict[str, Any]) -> str:
    try:
        meta = seal(meta)
    except Exception:  # meta.json describes nothing that has a checksum
        return ", not sealed"
    finally:
        (path / "meta.json").write_text(json.dumps(meta))
    return ", sealed"


def name_target(target: str) -> Edit:
    def edit(path: Path, rng: Generator) -> str:
        meta = json.loads((path / "meta.json").read_bytes())
        return target + write_sealed(path, meta | {"target": target})

    return edit
