"""Run replications over processes and write a line for each, so that a stopped run can go on."""

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
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import IO, Any, TypeAlias

from banditsis import __version__
from banditsis.formatting import write_text
from banditsis.parallel import count_jobs

#: What tells replications apart, such as ("M1", 17).
Task: TypeAlias = tuple[Any, ...]
#: A line of the CSV: the task first, then what was measured.
Row: TypeAlias = dict[str, Any]

DEFAULT_OUT = "paper-results"


@dataclass(frozen=True)
class Reproduction:
    """What a reproduction gives back; printing it shows its Markdown.

    Attributes
    ----------
    rows : list of dict
        Every replication, as in the CSV.
    summary : dict
        The figures drawn from them.
    markdown : str
        The report.
    files : tuple of Path
        What was written.
    """

    rows: list[Row]
    summary: dict[str, Any]
    markdown: str
    files: tuple[Path, ...]

    def __str__(self) -> str:
        return self.markdown


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
    """Do what is left of the tasks, and return the rows of all in the order of the tasks.

    Rows go to ``<name>.csv`` in the folder ``out`` as they are finished. A later call with the same settings
    does only the tasks that are not in it; with other settings it refuses.

    Parameters
    ----------
    name : str
        Of the experiment; its files begin with it.
    work : callable
        Turns a task into a row; it must give the same row in whatever process and order it is called, and
        with several jobs it must be importable.
    tasks : sequence of tuple
        What to do.
    keys : sequence of str
        Columns of a row that hold its task.
    settings : dict
        What a row depends on besides its task.
    out : path
        Folder to write to.
    jobs : int, optional
        Number of processes, all cores by default. 1 works in this process.

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
    _claim(path, {"experiment": name, "version": __version__, **settings})
    done = {_task(row, keys): row for row in read_rows(path)}
    left = [task for task in tasks if task not in done]
    if left:
        try:
            with (
                path.open("a", encoding="utf-8", newline="") as file,
                closing(_work_off(work, left, count_jobs(jobs))) as rows,
                _progress(name, len(tasks), len(tasks) - len(left)) as advance,
            ):
                for row in rows:
                    _append(file, row)
                    done[_task(row, keys)] = row
                    advance()
        except KeyboardInterrupt:
            _say_how_to_go_on(sum(task in done for task in tasks), len(tasks), path)
            raise
        _sort(path, done, tasks)
    return [done[task] for task in tasks]


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV; a last line that was cut off in the middle is cut off the file as well."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.truncate(path, len(whole))
    lines = csv.DictReader(whole.decode("utf-8").splitlines())
    return [{key: _value(text) for key, text in line.items()} for line in lines]


def _claim(path: Path, settings: dict[str, Any]) -> None:
    """Note down the settings, or refuse if the folder holds replications with others."""
    note = path.with_name(f"{path.stem}.settings.json")
    if not path.exists() or path.stat().st_size == 0:
        write_text(note, json.dumps(settings, indent=1) + "\n")
        return
    before = json.loads(note.read_text("utf-8")) if note.exists() else {}
    now = json.loads(json.dumps(settings))
    if before != now:
        differing = [k for k in {**before, **now} if before.get(k) != now.get(k)]
        what = ", ".join(f"{k} {before.get(k, 'unknown')} there and {now.get(k)} here" for k in differing)
        raise FileExistsError(
            f"{path} holds replications with other settings ({what}): choose another folder (--out), or "
            f"delete {path.name} there to start again."
        )


def _work_off(work: Callable[[Task], Row], tasks: Sequence[Task], jobs: int) -> Generator[Row, None, None]:
    """Yield rows as they are finished."""
    if jobs == 1:
        yield from map(work, tasks)
        return
    # Fresh processes: forking one that has threads, such as the progress bar's, can hang.
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), get_context("spawn"), _start_worker)
    try:
        for future in as_completed([pool.submit(work, task) for task in tasks]):
            yield future.result()
    except BrokenProcessPool:
        raise RuntimeError(
            "a worker process died; what is finished is kept. In a script, put the call under "
            "`if __name__ == '__main__':`, or use jobs=1."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which stops its workers
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End this process with its parent, which has no time for it when it is killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _task(row: Row, keys: Sequence[str]) -> Task:
    return tuple(row[key] for key in keys)


def _append(file: IO[str], row: Row) -> None:
    if file.tell() == 0:
        file.write(",".join(row) + "\n")
    file.write(",".join(map(str, row.values())) + "\n")
    file.flush()


def _sort(path: Path, done: dict[Task, Row], tasks: Sequence[Task]) -> None:
    """Put the finished file in the order of the tasks, so that it does not show who came first."""
    asked = set(tasks)
    rows = [done[task] for task in tasks] + [row for task, row in done.items() if task not in asked]
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    write_text(path, "\n".join(lines) + "\n")


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _say_how_to_go_on(n_done: int, total: int, path: Path) -> None:
    print(
        f"\nStopped: {n_done:,} of {total:,} replications are kept in {path}. "
        "Run the same again to go on from there.",
        file=sys.stderr,
    )


@contextmanager
def _progress(name: str, total: int, done: int) -> Iterator[Callable[[], None]]:
    """A bar with the time left; gives a function to call when one more is done."""
    from rich import progress as parts
    from rich.console import Console

    with parts.Progress(
        parts.TextColumn("{task.description}"),
        parts.BarColumn(),
        parts.MofNCompleteColumn(),
        parts.TextColumn("replications,"),
        parts.TimeRemainingColumn(),
        parts.TextColumn("left"),
        console=Console(stderr=True),
    ) as bar:
        job = bar.add_task(name, total=total, completed=done)
        yield lambda: bar.advance(job)
