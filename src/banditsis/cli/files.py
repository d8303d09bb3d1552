"""``banditsis info`` and ``banditsis index``: what a file contains and what it costs to screen; its index."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from banditsis.cli import plan as plans
from banditsis.cli import terminal
from banditsis.core.formatting import count, format_bytes, format_duration, to_single_line
from banditsis.core.progress import ProgressBar
from banditsis.engine.sampling import plan_bytes, resolve_row_order
from banditsis.formats import dataset, opening
from banditsis.index import folder, reader, writer
from banditsis.plans import Plan, default_size, make_plan
from banditsis.sources import base, tables, views

MAX_NAMES = 5


def run_index(
    data: str, out: Path | None, append: Path | None, seed: int, quiet: bool, **options: Any
) -> None:
    """Index a file; the other ``options`` are those of :func:`banditsis.build_index`."""
    destination = out or append
    if destination is None or (out and append):
        raise terminal.UsageError("set --out to the index to write, or --append to an existing one.")
    started, options["append"] = time.perf_counter(), append is not None
    try:
        with ProgressBar("indexing", "bytes", shown=False if quiet else None) as bar:
            writer.build_index(data, destination, random_state=seed, progress=bar, **options)
    except KeyboardInterrupt:
        terminal.fail("interrupted: nothing was written; run the same command again.")
    if not quiet:
        size = sum(file.stat().st_size for file in destination.rglob("*") if file.is_file())
        seconds = format_duration(time.perf_counter() - started)
        terminal.print_message(f"Wrote {destination}, {format_bytes(size)}, in {seconds}.")
        terminal.print_message(f"Next: banditsis info {destination}")


def run_info(
    data: str, target: str | None, keep: int | None, verify: bool, as_json: bool, **reading: Any
) -> None:
    """Print what a file contains; ``verify`` reads an index completely."""
    opened = dataset.open_data(data, target, **reading)
    source = opened.features
    if verify:
        _verify(data, source)
    found = {"verified": verify, "ids": opened.ids is not None, "costs": _costs(source, keep)}
    record = _describe(data, source, target) | found
    if as_json:
        terminal.print_output(json.dumps(record, indent=2))
        return
    for name, text in _lines(record).items():
        terminal.print_output(f"{name + ':':<12}{to_single_line(text)}", indent=12)
    if costs := record["costs"]:
        terminal.print_output(f"\nCost of screening, keeping {count(costs[0]['keep'], 'feature')}:\n")
        terminal.print_output(plans.costs_table({cost["plan"]: cost for cost in costs}))


def _verify(path: str, source: base.Source) -> None:
    if not isinstance(source, reader.IndexSource):
        raise ValueError(f"{path} has no checksums: only indexes have them.")
    with ProgressBar("verifying", "bytes") as bar:
        damaged = folder.verify(path, bar)
    if damaged:
        files = ", ".join(damaged[:3]) + (", …" if len(damaged) > 3 else "")
        raise ValueError(f"{path} is damaged: the checksum of {files} is wrong; build it again with --force.")


def _describe(path: str, source: base.Source, target: str | None) -> dict[str, Any]:
    """What a file contains, as plain data."""
    n, p = source.shape
    stored, (height, width) = source, source.chunk
    while isinstance(stored, views.Subset):
        stored = stored.base
    types = stored.stored if isinstance(stored, tables.TableSource) else [stored.dtype] * p
    dtypes = Counter(dtype for dtype in types if dtype is not None).most_common()
    by_row = source.by_row if height == width or source.by_row is not None else width > height
    records = [part.record for part in source.parts] if isinstance(source, reader.IndexSource) else []
    return {
        "path": path,
        "format": opening.find_format(path),
        "n_rows": n,
        "n_features": p,
        "dtype": " and ".join(dtype.name for dtype, _ in dtypes) or "text",
        "bytes": n * sum(number * dtype.itemsize for dtype, number in dtypes),
        "chunk": [height, width],
        "memory_order": "blocks" if by_row is None else "rows" if by_row else "columns",
        "block_rows": source.block_rows,
        "shuffled": source.shuffled,
        "first_names": None if source.names is None else list(map(source.name, range(min(p, MAX_NAMES)))),
        "target": target or getattr(source, "target", None),
        "notes": list(map(terminal.name_options, source.notes)),
        **{name: [getattr(record, name) for record in records] for name in ("seed", "source", "checksum")},
    }


def _costs(source: base.Source, keep: int | None) -> list[dict[str, Any]]:
    """Cells, bytes and detection floor of some plans."""
    n, p = source.shape
    d = default_size(n, p) if keep is None else keep
    plans = {"exact": Plan.exact(n, p, d), "default": make_plan(n, p, d)} if n >= 4 else {}
    if 0.01 * n >= 4:
        plans["optimal, 1%"] = Plan.optimal(n, p, d, 0.01)
    costs, everything = [], source.bytes_touched(n, p, scattered=False)
    for name, plan in plans.items():
        row_order, adapted, _ = resolve_row_order(source, plan, "auto")
        touched = plan_bytes(source, adapted, scattered=row_order == "random")
        has_floor = adapted.steps[0].n_rows >= n or row_order == "random" or source.shuffled
        cost = {"plan": name, "keep": plan.n_keep, "row_order": row_order, "cells": adapted.cells}
        cost |= {"fraction": adapted.fraction, "bytes": round(min(touched, everything))}
        costs.append(cost | {"detection_floor": adapted.detection_floor() if has_floor else None})
    return costs


def _lines(record: dict[str, Any]) -> dict[str, str]:
    height, width = record["chunk"]
    names = [*map(to_single_line, record["first_names"] or ["none"])]
    more = ["…"] if record["first_names"] and record["n_features"] > MAX_NAMES else []
    shuffled = "yes" if record["shuffled"] else "no; `banditsis index` makes a copy that is"
    if record["source"]:
        checked = " (verified)" if record["verified"] else ""
        shuffled = f"yes, from {' and '.join(record['source'])}{checked}"
    no_target = "not given; if it is a column of the data, it counts as a feature: set --target"
    return {
        "data": f"{record['path']} ({opening.FORMATS[record['format']].label})",
        "shape": f"{count(record['n_rows'], 'row')} × {count(record['n_features'], 'feature')}",
        "cells": f"{record['dtype']}, {format_bytes(record['bytes'])}",
        "stored by": f"{record['memory_order']}, in chunks of {height:,} × {width:,}",
        "shuffled": shuffled,
        "names": ", ".join([*names, *more]),
        "sample ids": "yes" if record["ids"] else "no",
        "target": record["target"] or no_target,
        **({"note": " ".join(record["notes"])} if record["notes"] else {}),
    }
