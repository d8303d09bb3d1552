"""How the cells of Zarr chunks lie in their bytes: compressors, order, shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Decoder = Callable[[Any], Any]


class Layout(NamedTuple):
    """How the cells of a chunk lie in its bytes."""

    chunk: tuple[int, int]  # what is decoded together
    file: tuple[int, int]  # what is stored in one file: a chunk, or a shard of several
    dtype: np.dtype
    by_column: bool
    decoders: tuple[Decoder, ...]
    sharded: bool = False  # a shard may hold a single chunk
    index_at_end: bool = True
    index_checked: bool = False

    @property
    def per_file(self) -> tuple[int, int]:
        """Chunks of a file, down and across."""
        return self.file[0] // self.chunk[0], self.file[1] // self.chunk[1]


def find_layout(array: Any) -> Layout | None:
    """Read the layout from the metadata; None if it has something that only the library knows."""
    meta = array.metadata.to_dict()
    if meta["zarr_format"] == 2:
        if meta.get("filters"):
            return None
        decoders = _decoders([{"name": meta["compressor"]["id"]}] if meta["compressor"] else [])
        chunk = tuple(meta["chunks"])
        if decoders is None:
            return None
        return Layout(chunk, chunk, np.dtype(meta["dtype"]), meta["order"] == "F", decoders)
    if meta["chunk_grid"]["name"] != "regular" or meta.get("storage_transformers"):
        return None
    file = tuple(meta["chunk_grid"]["configuration"]["chunk_shape"])
    codecs = list(meta["codecs"])
    if codecs[0]["name"] != "sharding_indexed":
        return _layout_of(array.dtype, codecs, file, file)
    inner = codecs[0]["configuration"]
    layout = _layout_of(array.dtype, list(inner["codecs"]), tuple(inner["chunk_shape"]), file)
    index = [codec["name"] for codec in inner["index_codecs"]]
    if layout is None or len(codecs) > 1 or index not in (["bytes"], ["bytes", "crc32c"]):
        return None
    at_end = inner.get("index_location", "end") == "end"
    return layout._replace(sharded=True, index_at_end=at_end, index_checked="crc32c" in index)


def _layout_of(dtype: Any, codecs: list[Any], chunk: Any, file: Any) -> Layout | None:
    by_column = codecs[0]["name"] == "transpose" and list(codecs[0]["configuration"]["order"]) == [1, 0]
    if by_column:
        codecs = codecs[1:]
    if not codecs or codecs[0]["name"] != "bytes":
        return None
    endian = codecs[0].get("configuration", {}).get("endian", "little")
    decoders = _decoders(codecs[1:])
    if decoders is None:
        return None
    stored = np.dtype(dtype).newbyteorder("<" if endian == "little" else ">")
    return Layout(chunk, file, stored, by_column, decoders)


def _decoders(codecs: list[Any]) -> tuple[Decoder, ...] | None:
    """What turns stored bytes into those of the cells, last codec first."""
    import numcodecs

    known: dict[str, Decoder] = {
        "zstd": numcodecs.Zstd().decode,
        "gzip": numcodecs.GZip().decode,
        "zlib": numcodecs.Zlib().decode,
        "blosc": numcodecs.Blosc().decode,
        "crc32c": without_checksum,
    }
    names = [codec["name"] for codec in codecs]
    return tuple(known[name] for name in reversed(names)) if set(names) <= set(known) else None


def without_checksum(data: Any) -> Any:
    """Check and take off the four bytes of a CRC-32C."""
    import google_crc32c

    data = memoryview(data)
    if google_crc32c.value(bytes(data[:-4])) != int.from_bytes(data[-4:], "little"):
        raise ValueError("its checksum is wrong")
    return data[:-4]
