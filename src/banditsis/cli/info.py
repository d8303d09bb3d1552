"""``banditsis info``: the format and layout of a file, and the cost of screening it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np

from banditsis.cli.terminal import print_output
from banditsis.core.formatting import count, format_bytes, format_share, text_table, to_single_line
from banditsis.core.progress import ProgressBar, add_up
from banditsis.engine.sampling import plan_bytes, resolve_row_order
from banditsis.formats.options import ReadOptions
from banditsis.formats.registry import find_format, format_label, local_path
from banditsis.formats.targets import open_dataset
from banditsis.index.folder import verify as find_damaged_files
from banditsis.index.reader import ShuffledSource
from banditsis.plans.plan import Plan, default_size
from banditsis.sources.base import Source, SourceView
from banditsis.sources.tables import TableSource

MAX_NAMES = 5


def run_info(
    path: str,
    keep: int | None,
    options: ReadOptions,
    *,
    target: str | None = None,
    as_json: bool,
    verify: bool,
) -> None:
    """Print what a file contains; ``verify`` reads a shuffled store completely."""
    data = open_dataset(path, target, options)
    if verify:
        _verify(path, data.features)
    record = describe(path, data.features, data.ids is not None, keep, target)
    if verify:
        record["verified"] = True
    if as_json:
        print_output(json.dumps(record, indent=2))
        return
    for name, text in _lines(record).items():
        print_output(f"{name + ':':<12}{to_single_line(text)}", indent=12)
    if record["costs"]:
        print_output(f"\nCost of screening, keeping {count(record['costs'][0]['keep'], 'feature')}:\n")
        print_output(_costs_table(record["costs"]))


def _verify(path: str, source: Source) -> None:
    if not isinstance(source, ShuffledSource):
        raise ValueError(f"{path} has no checksums: only folders written by `banditsis shuffle` have them.")
    total = sum(written.size for written in source.record.files.values())
    with ProgressBar("verifying", "bytes", transient=True) as bar:
        damaged = find_damaged_files(path, source.record, add_up(bar, total))
    if damaged:
        files = ", ".join(damaged[:3]) + (", …" if len(damaged) > 3 else "")
        raise ValueError(
            f"{path} is damaged: the checksum of {files} is wrong; shuffle the data again, with --force."
        )


def describe(
    path: str, source: Source, has_ids: bool, keep: int | None, target: str | None = None
) -> dict[str, Any]:
    """Return the description of a file as plain data."""
    n, p = source.shape
    dtypes = _stored_dtypes(source)
    names = None if source.names is None else [source.name(j) for j in range(min(p, MAX_NAMES))]
    return {
        "path": path,
        "format": find_format(path),
        "n_rows": n,
        "n_features": p,
        "dtype": " and ".join(dtype.name for dtype in dtypes) or "text",
        "bytes": n * sum(number * dtype.itemsize for dtype, number in dtypes.items()),
        "stored_bytes": _size_on_disk(path),
        "chunk": list(source.chunk),
        "memory_order": memory_order(source),
        "block_rows": source.block_rows,
        "shuffled": source.shuffled,
        "first_names": names,
        "ids": has_ids,
        "target": source.record.target if target is None and isinstance(source, ShuffledSource) else target,
        **(_describe_store(source) if isinstance(source, ShuffledSource) else {}),
        "notes": list(source.notes),
        "costs": _costs(source, keep),
    }


def _stored_dtypes(source: Source) -> dict[np.dtype, int]:
    """The types of the stored numbers, the most frequent first, and how many features have each."""
    base = source
    while isinstance(base, SourceView):
        base = base.base
    stored = base.stored if isinstance(base, TableSource) else [base.dtype] * source.shape[1]
    return dict(Counter(dtype for dtype in stored if dtype is not None).most_common())


def _size_on_disk(path: str) -> int | None:
    """Bytes of a local file, or of all files of a folder."""
    file = local_path(path)
    if file is None:
        return None
    return sum(
        part.stat().st_size for part in (file.rglob("*") if file.is_dir() else [file]) if part.is_file()
    )


def memory_order(source: Source) -> str:
    """Return whether the cells of a row or of a column are stored together."""
    if isinstance(source, ShuffledSource):
        return "rows first, then columns"
    if source.by_row is not None:
        return "rows" if source.by_row else "columns"
    height, width = source.chunk
    return "columns" if height > width else "rows" if width > height else "blocks"


def _describe_store(source: ShuffledSource) -> dict[str, Any]:
    record = source.record
    return {
        "seed": record.seed,
        "source": record.source,
        "stratum_sizes": list(record.stratum_sizes),
        "checksum": record.checksum,
        "head_sizes": list(record.head_sizes),
    }


def _costs(source: Source, keep: int | None) -> list[dict[str, Any]]:
    """Return cells, bytes and detection floor of some plans."""
    n, p = source.shape
    if n < 4:
        return []
    d = default_size(n, p) if keep is None else keep
    plans = {"exact": Plan.exact(n, p, d), "default": Plan.paper(n, p, d).with_few_steps()}
    if 0.01 * n >= 4:
        plans["optimal, 1%"] = Plan.optimal(n, p, d, 0.01)
    return [{"plan": name, "keep": plan.n_keep, **_cost(source, plan)} for name, plan in plans.items()]


def _cost(source: Source, plan: Plan) -> dict[str, Any]:
    n, p = source.shape
    row_order, adapted, _ = resolve_row_order(source, plan, "auto")
    touched = plan_bytes(source, adapted, scattered=row_order == "random")
    has_floor = adapted.steps[0].n_rows >= n or row_order == "random" or source.shuffled
    return {
        "row_order": row_order,
        "cells": adapted.cells,
        "fraction": adapted.fraction,
        "bytes": round(min(touched, source.bytes_touched(n, p, scattered=False))),
        "detection_floor": adapted.detection_floor() if has_floor else None,
    }


def _lines(record: dict[str, Any]) -> dict[str, str]:
    rows, columns = record["chunk"]
    names = ", ".join(map(to_single_line, record["first_names"] or ["none"]))
    more = record["first_names"] is not None and record["n_features"] > MAX_NAMES
    lines = {
        "data": f"{record['path']} ({format_label(record['format'])})",
        "shape": f"{count(record['n_rows'], 'row')} × {count(record['n_features'], 'feature')}",
        "cells": f"{record['dtype']}, {format_bytes(record['bytes'])}",
        "stored by": record["memory_order"],
        "chunks": f"{count(rows, 'row')} × {count(columns, 'column')}",
        "shuffled": "yes" if record["shuffled"] else "no; `banditsis shuffle` makes a shuffled copy",
        "names": names + (", …" if more else ""),
        "sample ids": "yes" if record["ids"] else "no",
        "target": record["target"]
        or "not given; if it is a column of the data, it counts as a feature: set --target",
    }
    if record["stored_bytes"] is not None:
        lines["on disk"] = format_bytes(record["stored_bytes"])
    if "seed" in record:
        strata = record["stratum_sizes"]
        lines["chunks"] = f"the first {sum(record['head_sizes']):,} rows by row, all rows by column"
        lines["shuffled"] = f"yes, from {record['source']} with seed {record['seed']}"
        if strata:
            sizes = ", ".join(f"{size:,}" for size in strata)
            lines["strata"] = f"{len(strata)}, made from {record['target']}, of {sizes} rows"
        lines["checksum"] = record["checksum"][:16] + (" (verified)" if record.get("verified") else "")
    if record["notes"]:
        lines["note"] = " ".join(record["notes"])
    return lines


def _costs_table(costs: list[dict[str, Any]]) -> str:
    headings = ["plan", "row order", "cells", "fraction", "bytes read", "detection floor"]
    rows = [
        [
            cost["plan"],
            cost["row_order"],
            f"{cost['cells']:,}",
            format_share(cost["fraction"]),
            format_bytes(cost["bytes"]),
            "unknown" if cost["detection_floor"] is None else f"{cost['detection_floor']:.3g}",
        ]
        for cost in costs
    ]
    return text_table(headings, rows, align="<<")
