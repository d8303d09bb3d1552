"""``banditsis info``: what a file is, and what screening it will cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from banditsis.cli.display import byte_progress
from banditsis.engine.sampling import plan_bytes, resolve_row_order
from banditsis.formats.registry import find_format, format_label, open_file
from banditsis.formatting import count, format_bytes, to_single_line
from banditsis.plans.plan import Plan, default_size
from banditsis.sources.base import Source
from banditsis.store.metadata import verify
from banditsis.store.reader import ShuffledSource

SOME_NAMES = 5


def run_info(path: Path, keep: int | None, as_json: bool, verified: bool, memory_limit: int | None) -> None:
    """Show what a file is; read all of a shuffled store if it shall be verified."""
    format_name = find_format(path)
    opened = open_file(path, None, memory_limit=memory_limit)
    source = opened.source
    if verified:
        _verify(path, source, not as_json)
    record = describe(path, format_name, source, opened.ids is not None, keep)
    if verified:
        record["verified"] = True
    if as_json:
        print(json.dumps(record, ensure_ascii=False, indent=2))
    else:
        _show(record, Console(highlight=False))


def _verify(path: Path, source: Source, visible: bool) -> None:
    if not isinstance(source, ShuffledSource):
        raise ValueError(f"{path} carries no checksums to verify: stores that `banditsis shuffle` wrote do.")
    total = sum(written.size for written in source.record.files.values())
    done = 0
    with byte_progress(visible, "verifying") as tell:

        def tick(size: int) -> None:
            nonlocal done
            done += size
            if tell is not None:
                tell(done, total)

        wrong = verify(path, source.record, tick)
    if wrong:
        some = ", ".join(wrong[:3]) + (", …" if len(wrong) > 3 else "")
        raise ValueError(
            f"{path} is damaged: the checksum of {some} is wrong; shuffle the data again, with --force."
        )


def describe(path: Path, format_name: str, source: Source, has_ids: bool, keep: int | None) -> dict[str, Any]:
    """What a file is, as plain data."""
    n, p = source.shape
    names = None if source.names is None else [source.name(j) for j in range(min(p, SOME_NAMES))]
    return {
        "path": str(path),
        "format": format_name,
        "n_rows": n,
        "n_features": p,
        "dtype": source.dtype.name,
        "bytes": n * p * source.dtype.itemsize,
        "chunk": list(source.chunk),
        "memory_order": memory_order(source),
        "block_rows": source.block_rows,
        "shuffled": source.shuffled,
        "first_names": names,
        "ids": has_ids,
        "target": source.record.target if isinstance(source, ShuffledSource) else None,
        **(_store(source) if isinstance(source, ShuffledSource) else {}),
        "notes": list(source.notes),
        "costs": _costs(source, keep),
    }


def memory_order(source: Source) -> str:
    """Whether rows or columns lie together."""
    if isinstance(source, ShuffledSource):
        return "rows first, then columns"
    by_row = source.by_row
    if by_row is None:
        height, width = source.chunk
        return "columns" if height > width else "rows" if width > height else "blocks"
    return "rows" if by_row else "columns"


def _store(source: ShuffledSource) -> dict[str, Any]:
    record = source.record
    return {
        "seed": record.seed,
        "source": record.source,
        "checksum": record.checksum,
        "compressor": None if record.compressor is None else record.compressor["configuration"]["cname"],
        "stored_bytes": sum(written.size for written in record.files.values()),
        "segments": [
            {"rows": [s.start, s.stop], "chunk": list(s.chunk), "shard": list(s.shard)}
            for s in source.segments
        ],
    }


def _costs(source: Source, keep: int | None) -> list[dict[str, Any]]:
    """Cells and bytes of exact screening and of usual plans."""
    n, p = source.shape
    if n < 4:
        return []
    d = default_size(n, p) if keep is None else keep
    plans = {"exact": Plan.exact(n, p, d), "paper, α = 0.5": Plan.paper(n, p, d)}
    if 0.01 * n >= 4:
        plans["optimal, 1%"] = Plan.optimal(n, p, d, 0.01)
    costs = []
    for name, plan in plans.items():
        order, settled, _ = resolve_row_order(source, plan, "auto")
        touched = plan_bytes(source, settled, scattered=order == "random")
        everything = source.bytes_touched(n, p, scattered=False)
        sampled = settled.steps[0].n_rows >= n or order == "random" or source.shuffled
        costs.append(
            {
                "plan": name,
                "keep": plan.n_keep,
                "row_order": order,
                "cells": settled.cells,
                "fraction": settled.fraction,
                "bytes": round(min(touched, everything)),
                "detection_floor": settled.detection_floor() if sampled else None,
            }
        )
    return costs


def _show(record: dict[str, Any], console: Console) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in _lines(record).items():
        table.add_row(name, Text(value))
    console.print(table)
    if record["costs"]:
        kept = count(record["costs"][0]["keep"], "feature")
        console.print(f"\n[bold]What screening will cost[/], keeping {kept}")
        console.print(_costs_table(record["costs"]))


def _lines(record: dict[str, Any]) -> dict[str, str]:
    rows, columns = record["chunk"]
    names = record["first_names"]
    lines = {
        "data": f"{record['path']} ({format_label(record['format'])})",
        "shape": f"{count(record['n_rows'], 'row')} × {count(record['n_features'], 'feature')}",
        "cells": f"{record['dtype']}, {format_bytes(record['bytes'])}",
        "lie by": record["memory_order"],
        "together": f"{count(rows, 'row')} × {count(columns, 'column')}",
        "shuffled": "yes" if record["shuffled"] else "no (banditsis shuffle does it once)",
        "names": "none"
        if names is None
        else ", ".join(map(to_single_line, names)) + (", …" if record["n_features"] > 5 else ""),
        "sample ids": "yes" if record["ids"] else "no",
        "target": record["target"] or "none carried along: any column, or another file",
    }
    if record["notes"]:
        lines["note"] = " ".join(record["notes"])
    if "seed" in record:
        packed = record["compressor"] or "not compressed"
        lines["together"] = ", ".join(
            f"{s['chunk'][0]:,}×{s['chunk'][1]:,} from row {s['rows'][0]:,}" for s in record["segments"]
        )
        lines["stored"] = f"{format_bytes(record['stored_bytes'])}, {packed}"
        lines["shuffled"] = f"yes, from {record['source']} with seed {record['seed']}"
        lines["checksum"] = record["checksum"][:16] + (" (verified)" if record.get("verified") else "")
    return lines


def _costs_table(costs: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("plan")
    for heading in ("row order", "cells", "of all", "bytes", "detection floor"):
        table.add_column(heading, justify="right")
    for cost in costs:
        table.add_row(
            cost["plan"],
            cost["row_order"],
            f"{cost['cells']:,}",
            f"{cost['fraction']:.2%}",
            format_bytes(cost["bytes"]),
            "withheld" if cost["detection_floor"] is None else f"{cost['detection_floor']:.3g}",
        )
    return table
