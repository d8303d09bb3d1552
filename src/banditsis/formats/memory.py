"""How much memory may be used for what has to be held there."""

from __future__ import annotations

import os
from pathlib import Path


def allowed_memory(limit: int | None) -> int:
    """The user's limit in bytes, or half of the memory that is free."""
    return _free_memory() // 2 if limit is None else limit


def _free_memory() -> int:
    """Bytes that programs may use, as far as the system tells."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return 1 << 32
