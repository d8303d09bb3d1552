"""Run replications in parallel. Each one is kept when it finishes, so an interrupted run can be resumed."""

from __future__ import annotations

import csv
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from joblib import Memory, Parallel, delayed
from rich.console import Console
from rich.progress import track

from banditsis.core.formatting import write_text
from banditsis.core.parallel import count_jobs
from banditsis.core.validation import check_integer

#: Identifies a replication, for example ("M1", 17).
Task: TypeAlias = tuple[Any, ...]
#: A row of the CSV file: the columns of the task, then the measurements.
Row: TypeAlias = dict[str, Any]

DEFAULT_OUT = Path("paper-results")


@dataclass(frozen=True)
class Options:
    """The options of every experiment; the results do not depend on ``jobs``."""

    replications: int | None = None
    jobs: int | None = None
    seed: int = 0
    out: Path = DEFAULT_OUT
    quick: bool = False
    movielens: Path | None = None

    def count(self, default: int, quick: int, most: int | None = None) -> int:
        """Number of replications, if these are the defaults."""
        check_integer("seed", self.seed, 0)
        given = self.replications if self.replications is not None else quick if self.quick else default
        return check_integer("replications", given, 1, most)


def remember(work: Callable[..., Any], out: Path, ignore: Sequence[str] = ()) -> Callable[..., Any]:
    """The function, with its results kept in the output folder by the arguments that are not ignored."""
    out.mkdir(parents=True, exist_ok=True)
    kept: Callable[..., Any] = Memory(out / "cache", verbose=0).cache(work, ignore=list(ignore))
    return kept


def run_replications(
    name: str,
    work: Callable[..., Row],
    tasks: Sequence[Task],
    *,
    out: Path,
    jobs: int | None = None,
    ignore: Sequence[str] = (),
    **options: Any,
) -> list[Row]:
    """Compute ``work(task, **options)`` for all tasks, and write the rows to ``<name>.csv``.

    A later call computes only what no earlier one did with the same arguments; those in ``ignore`` do not
    matter. ``jobs`` is the number of processes, all cores by default.
    """
    kept, rows = remember(work, out, ignore), list[Row]()
    # An interrupt is for this process, which ends the others: they would print where they were.
    ignore_interrupts = {"initializer": signal.signal, "initargs": (signal.SIGINT, signal.SIG_IGN)}
    n_jobs = count_jobs(jobs)
    parallel = Parallel(n_jobs, return_as="generator", **(ignore_interrupts if n_jobs > 1 else {}))
    try:
        with closing(parallel(delayed(kept)(task, **options) for task in tasks)) as finished:
            rows.extend(track(finished, name, len(tasks), console=Console(stderr=True)))
    except KeyboardInterrupt:
        print(
            f"\nInterrupted: at least {len(rows):,} of {len(tasks):,} replications are kept in {out}. "
            "Run the same command again to resume.",
            file=sys.stderr,
        )
        raise
    write_rows(out / f"{name}.csv", rows)
    return rows


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{key: _parse(text) for key, text in line.items()} for line in csv.DictReader(file)]


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """Write rows to a CSV file, atomically."""
    lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    return write_text(path, "".join(",".join(line) + "\n" for line in lines))


def _parse(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
