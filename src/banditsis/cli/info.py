"""``banditsis info``: the format and layout of a file, and the cost of screening it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np

from banditsis.cli.plan import costs_table
from banditsis.cli.terminal import print_output
from banditsis.core.formatting import count, format_bytes, to_single_line
from banditsis.core.progress import ProgressBar
from banditsis.engine.design import plan_bytes, resolve_row_order
from banditsis.formats.dataset import open_dataset
from banditsis.formats.opening import FORMATS, find_format
from banditsis.formats.options import ReadOptions
from banditsis.index.folder import verify as find_damaged_files
from banditsis.index.reader import IndexSource
from banditsis.plans import Plan, default_size, make_plan
from banditsis.sources.base import Source, SourceView
from banditsis.sources.tables import TableSource

MAX_NAMES = 5
#: What the records of an index tell.
RECORD = ("seed", "source", "checksum")


def run(
    data: str,
    target: str | None = None,
    keep: int | None = None,
    verify: bool = False,
    as_json: bool = False,
    **reading: Any,
) -> None:
    """Print what a file contains; ``verify`` reads an index completely."""
    opened = open_dataset(data, target, ReadOptions(command_line=True, **reading))
    if verify:
        _verify(data, opened.features)
    record = _describe(data, opened.features) | {"ids": opened.ids is not None}
    record |= {"costs": _costs(opened.features, keep)} | ({} if target is None else {"target": target})
    record |= {"verified": True} if verify else {}
    if as_json:
        print_output(json.dumps(record, indent=2))
        return
    for name, text in _lines(record).items():
        print_output(f"{name + ':':<12}{to_single_line(text)}", indent=12)
    if costs := record["costs"]:
        print_output(f"\nCost of screening, keeping {count(costs[0]['keep'], 'feature')}:\n")
        print_output(costs_table({cost["plan"]: cost for cost in costs}))


def _verify(path: str, source: Source) -> None:
    if not isinstance(source, IndexSource):
        raise ValueError(f"{path} has no checksums: only indexes have them.")
    with ProgressBar("verifying", "bytes") as bar:
        damaged = find_damaged_files(path, bar)
    if damaged:
        files = ", ".join(damaged[:3]) + (", …" if len(damaged) > 3 else "")
        raise ValueError(f"{path} is damaged: the checksum of {files} is wrong; build it again with --force.")


def _describe(path: str, source: Source) -> dict[str, Any]:
    """What a file contains, as plain data."""
    n, p = source.shape
    dtypes = _stored_dtypes(source)
    record = {
        "path": path,
        "format": find_format(path),
        "n_rows": n,
        "n_features": p,
        "dtype": " and ".join(dtype.name for dtype in dtypes) or "text",
        "bytes": n * sum(number * dtype.itemsize for dtype, number in dtypes.items()),
        "chunk": list(source.chunk),
        "memory_order": _memory_order(source),
        "block_rows": source.block_rows,
        "shuffled": source.shuffled,
        "first_names": None if source.names is None else list(map(source.name, range(min(p, MAX_NAMES)))),
        "target": None,
        "notes": list(source.notes),
    }
    if isinstance(source, IndexSource):
        records = [part.record for part in source.parts]
        record |= {name: [getattr(part, name) for part in records] for name in RECORD}
        record["target"] = source.target
    return record


def _stored_dtypes(source: Source) -> dict[np.dtype, int]:
    """The types of the stored numbers, the most frequent first, and how many features have each."""
    base = source
    while isinstance(base, SourceView):
        base = base.base
    stored = base.stored if isinstance(base, TableSource) else [base.dtype] * source.shape[1]
    return dict(Counter(dtype for dtype in stored if dtype is not None).most_common())


def _memory_order(source: Source) -> str:
    """Whether the cells of a row or of a column are stored together."""
    if source.by_row is not None:
        return "rows" if source.by_row else "columns"
    height, width = source.chunk
    return "columns" if height > width else "rows" if width > height else "blocks"


def _costs(source: Source, keep: int | None) -> list[dict[str, Any]]:
    """Cells, bytes and detection floor of some plans."""
    n, p = source.shape
    d = default_size(n, p) if keep is None else keep
    plans = {"exact": Plan.exact(n, p, d), "default": make_plan(n, p, d)} if n >= 4 else {}
    if 0.01 * n >= 4:
        plans["optimal, 1%"] = Plan.optimal(n, p, d, 0.01)
    costs = []
    for name, plan in plans.items():
        row_order, adapted, _ = resolve_row_order(source, plan, "auto")
        touched = plan_bytes(source, adapted, scattered=row_order == "random")
        has_floor = adapted.steps[0].n_rows >= n or row_order == "random" or source.shuffled
        cost = {
            "plan": name,
            "keep": plan.n_keep,
            "row_order": row_order,
            "cells": adapted.cells,
            "fraction": adapted.fraction,
            "bytes": round(min(touched, source.bytes_touched(n, p, scattered=False))),
            "detection_floor": adapted.detection_floor() if has_floor else None,
        }
        costs.append(cost)
    return costs


def _lines(record: dict[str, Any]) -> dict[str, str]:
    height, width = record["chunk"]
    names = [*map(to_single_line, record["first_names"] or ["none"])]
    more = ["…"] if record["first_names"] and record["n_features"] > MAX_NAMES else []
    shuffled = "yes" if record["shuffled"] else "no; `banditsis index` makes a copy that is"
    if "seed" in record:
        checked = " (verified)" if "verified" in record else ""
        shuffled = f"yes, from {' and '.join(record['source'])}{checked}"
    no_target = "not given; if it is a column of the data, it counts as a feature: set --target"
    return {
        "data": f"{record['path']} ({FORMATS[record['format']].label})",
        "shape": f"{count(record['n_rows'], 'row')} × {count(record['n_features'], 'feature')}",
        "cells": f"{record['dtype']}, {format_bytes(record['bytes'])}",
        "stored by": f"{record['memory_order']}, in chunks of {height:,} × {width:,}",
        "shuffled": shuffled,
        "names": ", ".join([*names, *more]),
        "sample ids": "yes" if record["ids"] else "no",
        "target": record["target"] or no_target,
        **({"note": " ".join(record["notes"])} if record["notes"] else {}),
    }
