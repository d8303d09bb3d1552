"""Damage of bytes, of text and of JSON, and what stands in the place of a file."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fuzz_references import COMPRESS

Generator = np.random.Generator
#: Changes an input at a path.
Edit = Callable[[Path, Generator], object]
LARGE = [0, -1, 1, 5, 2**31 - 1, 2**31, 2**40, 2**63 - 1]
BOMB = 3 << 28  # bytes that a small file unpacks to
DEEP = 100_000  # brackets


def any_file(path: Path, rng: Generator, pattern: str = "*") -> Path:
    """The file at a path or in a folder, or one next to it with the same stem (PLINK)."""
    below = path.rglob(pattern) if path.is_dir() else path.parent.glob(pattern)
    found = sorted(file for file in below if file.is_file())
    return found[rng.integers(len(found))]


# What stands in the place of a file


def replace(make: Callable[[Path], object]) -> Edit:
    def edit(path: Path, rng: Generator) -> str:
        file = any_file(path, rng)
        file.unlink()
        make(file)
        return file.name

    edit.__name__ = f"replace by {getattr(make, '__name__', 'link')}"
    return edit


def loop(file: Path) -> None:
    file.symlink_to(file)


def nothing(file: Path) -> None:
    pass


def empty(file: Path) -> None:
    file.touch()


def link_outside(file: Path) -> None:
    file.symlink_to("/etc/passwd")


# Bytes


def damage_bytes(folder: Path, rng: Generator) -> str:
    """Damage the bytes of one file, more often of one with metadata."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    kind = str(rng.choice(list(BYTES), p=[share for share, _ in BYTES.values()]))
    metadata = [path for path in paths if path.suffix == ".json" or path.name in (".zarray", ".zattrs")]
    if metadata and rng.random() < (0.9 if kind == "change a number" else 0.3):
        paths = metadata
    path = paths[rng.integers(len(paths))]
    if data := path.read_bytes():
        path.write_bytes(BYTES[kind][1](data, rng))
    return f"{kind} {path.relative_to(folder)}"


def place(data: bytes, rng: Generator) -> int:
    """A position; half of them are near the beginning or the end, where metadata are."""
    k, near = rng.integers(4), int(rng.integers(min(len(data), 512)))
    return int(rng.integers(len(data))) if k < 2 else near if k == 2 else len(data) - 1 - near


def flip_bits(data: bytes, rng: Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        changed[place(data, rng)] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def change_bytes(data: bytes, rng: Generator) -> bytes:
    """Replace up to 8 bytes by random ones, or by those of the largest number or of -1."""
    start, length = place(data, rng), int(rng.integers(1, 9))
    new = (rng.bytes(8), b"\xff" * 7 + b"\x7f", b"\xff" * 8)[rng.integers(3)][-length:]
    return data[:start] + new + data[start + length :]


def change_number(data: bytes, rng: Generator) -> bytes:
    """Replace a number of a text by a similar one or by one that no format can mean."""
    numbers = [match.span() for match in re.finditer(rb"\d+", data)]
    if not numbers:
        return change_bytes(data, rng)
    start, stop = numbers[rng.integers(len(numbers))]
    old = int(data[start:stop][:18])
    new = [old + 1, old - 1, old * 10, old // 2, 0, -1, 2**31, 2**63, 10**30][rng.integers(9)]
    return data[:start] + str(new).encode() + data[stop:]


def change_word(data: bytes, rng: Generator) -> bytes:
    """Replace an aligned integer of 4 or 8 bytes that is small, as lengths and offsets are."""
    kind = (np.uint32, np.uint64)[rng.integers(2)]
    words = np.frombuffer(data[: len(data) // 8 * 8], kind).copy()
    small = np.flatnonzero((words > 0) & (words < 1 << 17))
    if small.size == 0:
        return change_bytes(data, rng)
    j = small[rng.integers(small.size)]
    old = int(words[j])
    new = [*LARGE, old - 1, old + 1, 2 * old, old + 8][rng.integers(len(LARGE) + 4)]
    words[j] = new % (1 << 8 * words.itemsize)
    return words.tobytes() + data[len(words.tobytes()) :]


def edit_bytes(change: Callable[[bytes, Generator], bytes]) -> Edit:
    def edit(path: Path, rng: Generator) -> None:
        path.write_bytes(change(path.read_bytes(), rng))

    edit.__name__ = change.__name__
    return edit


def zero_range(data: bytes, rng: Generator) -> bytes:
    start, length = place(data, rng), 1 << int(rng.integers(12))
    return data[:start] + bytes(len(data[start : start + length])) + data[start + length :]


def swap_blocks(data: bytes, rng: Generator) -> bytes:
    size = (8, 64, 512)[rng.integers(3)]
    a, b = sorted(place(data, rng) // size * size for _ in range(2))
    return (
        data[:a] + data[b : b + size] + data[a + size : b] + data[a : a + size] * (b > a) + data[b + size :]
    )


#: share and function of each kind of damage
BYTES: dict[str, tuple[float, Callable[[bytes, Generator], bytes]]] = {
    "flip bits": (0.2, flip_bits),
    "change bytes": (0.2, change_bytes),
    "change a number": (0.15, change_number),
    "change a word": (0.15, change_word),
    "truncate": (0.1, lambda data, rng: data[: place(data, rng)]),
    "extend": (0.05, lambda data, rng: data + (rng.bytes(8), bytes(4096), data)[rng.integers(3)]),
    "zero": (0.06, zero_range),
    "swap": (0.09, swap_blocks),
}


# Text and JSON

TOKENS = [
    b"",
    b"abc",
    b"1e400",
    b"-1e-400",
    b"nan",
    b"inf",
    b"$5",
    b"1,5",
    b'"',
    b'"x',
    b"\0",
    b"\xff",
    b"1_000",
    b"0x1F",
]
TOKENS += [
    b"-1",
    b"0",
    b"9" * 30,
    b"2147483648",
    b"4294967297",
    b"9" * 400,
    b"\r",
    b"\xef\xbb\xbf",
    b"1:",
    b"\t",
    b"%",
    b"true",
]


def edit_text(path: Path, rng: Generator) -> str:
    """Change tokens or lines of a text, and compress it again."""
    opened = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
    content = path.read_bytes()
    if path.suffix == ".zst":
        content = pa.input_stream(str(path), compression="zstd").read()
    data = opened.get(path.suffix, bytes)(content)
    what = str(
        rng.choice(
            ["token", "token", "header", "drop line", "repeat line", "swap lines", "join lines", "long line"]
        )
    )
    lines = data.split(b"\n")
    a, b = (int(k) for k in rng.integers(0, len(lines) - 1, 2))
    if what in ("token", "header"):
        a = a if what == "token" else int(rng.integers(3))
        spans = [match.span() for match in re.finditer(rb"[^\s,:]+", lines[a])] or [(0, 0)]
        start, stop = spans[rng.integers(len(spans))]
        lines[a] = lines[a][:start] + TOKENS[rng.integers(len(TOKENS))] + lines[a][stop:]
    elif what == "drop line":
        del lines[a]
    elif what == "repeat line":
        lines.insert(b, lines[a])
    elif what == "swap lines":
        lines[a], lines[b] = lines[b], lines[a]
    elif what == "join lines":
        lines[a : a + 2] = [b"".join(lines[a : a + 2])]
    else:
        lines[a] = lines[a] * 2000
    changed = b"\n".join(lines)
    path.write_bytes(COMPRESS.get(path.suffix, bytes)(changed))
    return what


def write_instead(*contents: bytes) -> list[Edit]:
    """Edits that replace the content of a file by another one."""

    def make(content: bytes) -> Edit:
        def edit(path: Path, rng: Generator) -> str:
            path.write_bytes(COMPRESS.get(path.suffix, bytes)(content))
            return repr(content[:40])

        edit.__name__ = "write"
        return edit

    return [make(content) for content in contents]


def unpack_to_much(path: Path, rng: Generator) -> None:
    """A compressed text of zeros, one in each line, behind the first lines."""
    if path.suffix in COMPRESS:
        piece = COMPRESS[path.suffix](b"0\n" * (1 << 23))
        path.write_bytes(path.read_bytes() + piece * (BOMB >> 24))


WEIRD = [
    *LARGE,
    10**30,
    1.5,
    float("nan"),
    "",
    "x",
    "../../../etc/passwd",
    "http://127.0.0.1:9/",
    None,
    True,
    [],
    {},
    [[]],
    [1e9],
    "float32",
    "<U9",
    "é",
    ["x"] * 12,
]


def edit_json(path: Path, rng: Generator) -> str:
    """Change one value of a JSON document that stays valid."""
    file = path if path.is_file() else any_file(path, rng, "*.json" if any(path.rglob("*.json")) else ".z*")
    document = json.loads(file.read_bytes())
    where = change_json(document, rng)
    file.write_text(json.dumps(document))
    return f"{file.name}: {where}"


def change_json(document: Any, rng: Generator) -> str:
    places: list[tuple[Any, Any]] = []

    def collect(node: Any) -> None:
        keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        places.extend((node, key) for key in keys)
        for key in list(keys)[:40]:
            collect(node[key])

    collect(document)
    node, key = places[rng.integers(len(places))]
    other, other_key = places[rng.integers(len(places))]
    kind = rng.integers(8)
    if kind == 0:
        del node[key]
    elif kind == 1:
        node[key] = deepcopy(other[other_key])
        return f"{key} from {other_key}"
    elif kind == 2 and isinstance(node, list):
        node.append(node[key])
    else:
        value = WEIRD[rng.integers(len(WEIRD))]
        node[key] = value
        return f"{key} is {str(value)[:30]}"
    return f"{key} dropped or repeated"


def deep_json(path: Path, rng: Generator) -> str:
    file = path if path.is_file() else any_file(path, rng, "*.json" if any(path.rglob("*.json")) else ".z*")
    text = file.read_text().strip()
    file.write_text(
        text[:-1].rstrip() + f', "x": {"[" * DEEP}{"]" * DEEP}}}'
        if text[-1] == "}"
        else "[" * DEEP + "]" * DEEP
    )
    return file.name
