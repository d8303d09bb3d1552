"""Invalid files for the I/O benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

HEADER = "a,b,y\n"


def faults(folder: Path) -> Iterator[tuple[str, list[object]]]:
    """Write invalid files, and yield the name of each and the arguments for screening it."""
    rng = np.random.default_rng(0)
    lines = "".join(f"{a:.3f},{b:.3f},{c:.3f}\n" for a, b, c in rng.standard_normal((50, 3)))
    y = folder / "y.npy"
    np.save(y, rng.standard_normal(50))
    yield from _text(folder, lines)
    yield from _binary(folder, rng, y)


def _text(folder: Path, lines: str) -> Iterator[tuple[str, list[object]]]:
    contents = {
        "empty.csv": b"",
        "header_only.csv": HEADER.encode(),
        "duplicate.csv": ("a,a,y\n" + lines).encode(),
        "not_utf8.csv": "größe,b,y\n".encode("latin-1") + lines.encode(),
        "mixed.csv": (HEADER + lines + "0.1,many,0.3\n").encode(),
        "ragged.csv": (HEADER + lines + "0.1,0.2\n").encode(),
        "all_nan.csv": (HEADER + "1.0,nan,1.0\n2.0,nan,3.0\n1.5,nan,2.5\n" * 10).encode(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        yield name, [folder / name, "--target", "y"]
    (folder / "fine.csv").write_bytes((HEADER + lines).encode())
    yield "no such target", [folder / "fine.csv", "--target", "price"]
    yield "a target of another length", [folder / "fine.csv", "--target", folder / "y_short.npy"]


def _binary(folder: Path, rng: np.random.Generator, y: Path) -> Iterator[tuple[str, list[object]]]:
    import pandas as pd

    X = rng.standard_normal((50, 4))
    pd.DataFrame(X, columns=list("abcd")).to_parquet(folder / "fine.parquet")
    np.save(folder / "fine.npy", X)
    for name in ("fine.parquet", "fine.npy"):
        content = (folder / name).read_bytes()
        broken = {
            "truncated": content[: len(content) // 2],
            "corrupted": bytes(reversed(content)),
            "empty": b"",
        }
        for kind, damaged in broken.items():
            path = folder / f"{kind}_{name}"
            path.write_bytes(damaged)
            yield path.name, [path, "--target", y]
    (folder / "parquet.npy").write_bytes((folder / "fine.parquet").read_bytes())
    yield "wrong extension", [folder / "parquet.npy", "--target", y]
    np.save(folder / "all_nan.npy", np.full((50, 3), np.nan))
    yield "all_nan.npy", [folder / "all_nan.npy", "--target", y]
    np.save(folder / "mixed.npy", np.array([[1.0, "x"]] * 50, dtype=object), allow_pickle=True)
    yield "mixed.npy", [folder / "mixed.npy", "--target", y]
    (folder / "broken.zarr").mkdir()
    (folder / "broken.zarr" / "zarr.json").write_text("{")
    yield "broken.zarr", [folder / "broken.zarr", "--target", y]
    for name in ("broken.h5", "broken.h5ad", "broken.bed", "broken.arrow", "broken.mtx"):
        (folder / name).write_bytes(rng.bytes(200))
        yield name, [folder / name, "--target", y]
    yield "nothing.parquet", [folder / "nothing.parquet", "--target", y]
