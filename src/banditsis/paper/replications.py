"""Run replications in parallel and store each one when it finishes. An interrupted run can be resumed."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, TypeAlias

from banditsis import __version__
from banditsis.formatting import write_text
from banditsis.parallel import count_jobs

#: Identifies a replication, for example ("M1", 17).
Task: TypeAlias = tuple[Any, ...]
#: A row of the CSV file: the columns of the task, then the measurements.
Row: TypeAlias = dict[str, Any]

DEFAULT_OUT = "paper-results"


def run_replications(
    name: str,
    work: Callable[[Task], Row],
    tasks: Sequence[Task],
    *,
    keys: Sequence[str],
    settings: dict[str, Any],
    out: str | Path,
    jobs: int | None = None,
) -> list[Row]:
    """Run the tasks that are not stored yet, and return the rows of all tasks in order.

    Each row is appended to ``<name>.csv`` when its task finishes. A later call with the same settings runs
    only the missing tasks. Different settings raise FileExistsError.

    ``work`` maps a task to a row, which must not depend on the process or the order of tasks. ``keys`` are
    the columns of a row that hold its task, and ``settings`` is everything else that rows depend on. ``jobs``
    is the number of processes, all cores by default; 1 runs the tasks in this process. With more than one,
    ``work`` must be importable.

    Examples
    --------
    >>> import tempfile
    >>> def square(task):
    ...     return {"number": task[0], "square": task[0] ** 2}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run_replications(
    ...         "squares", square, [(3,), (4,)], keys=["number"], settings={}, out=folder, jobs=1
    ...     )
    [{'number': 3, 'square': 9}, {'number': 4, 'square': 16}]
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.csv"
    _check_settings(path, {"experiment": name, "version": __version__, **settings})
    done = {_task(row, keys): row for row in read_rows(path)}
    missing = [task for task in tasks if task not in done]
    if missing:
        try:
            with (
                path.open("a", encoding="utf-8", newline="") as file,
                closing(_run(work, missing, count_jobs(jobs))) as rows,
                _progress_bar(name, len(tasks), len(tasks) - len(missing)) as advance,
            ):
                for row in rows:
                    file.write(_format_csv([row], header=file.tell() == 0))
                    file.flush()
                    done[_task(row, keys)] = row
                    advance()
        except KeyboardInterrupt:
            n_done = sum(task in done for task in tasks)
            print(
                f"\nInterrupted: {n_done:,} of {len(tasks):,} replications are stored in {path}. "
                "Run the same command again to resume.",
                file=sys.stderr,
            )
            raise
        # Sort by task, so the file does not depend on the order in which processes finished.
        stored = {task: done[task] for task in tasks} | done
        write_rows(path, list(stored.values()))
    return [done[task] for task in tasks]


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a CSV file. An incomplete last line is removed from the file."""
    if not path.exists():
        return []
    content = path.read_bytes()
    complete = content[: content.rfind(b"\n") + 1]
    if len(complete) < len(content):
        os.truncate(path, len(complete))
    lines = csv.DictReader(complete.decode("utf-8").splitlines())
    return [{key: _parse(text) for key, text in line.items()} for line in lines]


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """Write rows to a CSV file, atomically."""
    return write_text(path, _format_csv(rows, header=True))


def _format_csv(rows: Sequence[Row], *, header: bool) -> str:
    lines = [list(rows[0])] if header else []
    lines += [[str(value) for value in row.values()] for row in rows]
    return "".join(",".join(line) + "\n" for line in lines)


def _parse(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _task(row: Row, keys: Sequence[str]) -> Task:
    return tuple(row[key] for key in keys)


def _check_settings(path: Path, settings: dict[str, Any]) -> None:
    """Store the settings, or raise if the stored replications have different ones."""
    settings_path = path.with_name(f"{path.stem}.settings.json")
    if not path.exists() or path.stat().st_size == 0:
        write_text(settings_path, json.dumps(settings, indent=1) + "\n")
        return
    stored = json.loads(settings_path.read_text("utf-8")) if settings_path.exists() else {}
    current = json.loads(json.dumps(settings))
    differences = [
        f"{key} {stored.get(key, 'unknown')} there and {current.get(key)} here"
        for key in {**stored, **current}
        if stored.get(key) != current.get(key)
    ]
    if differences:
        raise FileExistsError(
            f"{path} holds replications with different settings ({', '.join(differences)}): choose another "
            f"output folder, or delete {path.name} to start again."
        )


def _run(work: Callable[[Task], Row], tasks: Sequence[Task], jobs: int) -> Generator[Row, None, None]:
    """Yield rows as they finish."""
    if jobs == 1:
        yield from map(work, tasks)
        return
    # Spawn: forking a process that has threads, such as the progress bar's, can deadlock.
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), get_context("spawn"), _start_worker)
    try:
        for future in as_completed([pool.submit(work, task) for task in tasks]):
            yield future.result()
    except BrokenProcessPool:
        raise RuntimeError(
            "a worker process died; finished replications are kept. In a script, put the call under "
            "`if __name__ == '__main__':`, or use jobs=1."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and stops its workers
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Exit when the parent ends. A parent that is killed cannot stop its workers itself."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _progress_bar(name: str, total: int, done: int) -> Iterator[Callable[[], None]]:
    """Show a bar with the remaining time. Yields a function that advances it by one."""
    from rich import progress
    from rich.console import Console

    with progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("replications,"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("left"),
        console=Console(stderr=True),
    ) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda: bar.advance(task)
