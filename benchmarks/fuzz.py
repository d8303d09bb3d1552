"""Screen thousands of damaged files: none may crash, hang, end in a traceback, or change unnoticed.

python benchmarks/fuzz.py [--count N] [--only K …]

Input number K is the same in every run. Inputs are screened in processes with a limit of time and memory. A
damaged input may give another answer only if its format has no checksum that shows the damage.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis import Plan, screen
from banditsis.cli.errors import USER_ERRORS
from banditsis.cli.info import run as run_info
from banditsis.core.formatting import text_table
from banditsis.core.progress import ProgressBar
from banditsis.formats.targets import open_data
from fuzz_inputs import CASES, STORE, Case, damage, write_inputs

COUNT = 3600  # 60 of each kind, times its weight
SECONDS, MEMORY = 20.0, 2 << 30  # limits for one input
ALLOWED = ("same", "error", "only --verify", "different")
#: Inputs on which libhdf5 can loop forever: damaged heaps of text in sparse AnnData files.
HANGS = ("h5ad CSR", "h5ad CSC")
FAILURES = ("crash", "traceback", "time-out", "memory", "silent")
NUMBERED = [name for name, case in CASES.items() for _ in range(case.weight)]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(  # so that a new process starts quickly
    [
        "banditsis.cli.info",
        "banditsis.screening",
        "banditsis.index.writer",
        "banditsis.formats.hdf5",
        "pyarrow.feather",
        "pyarrow.parquet",
        "h5py",
        "zarr",
        "bed_reader",
        "pandas",
        "sklearn.datasets",
        "scipy.io",
        "scipy.stats",
    ]
)

#: Screens the input of a number in a folder; returns the kind of outcome, and the traceback of an error.
Work = Callable[[int, Path], tuple[str, str]]


class Outcome(NamedTuple):
    """What became of an input."""

    number: int
    kind: str
    damage: str
    error: str

    @property
    def case(self) -> str:
        return NUMBERED[self.number % len(NUMBERED)]


def screen_damaged(number: int, root: Path) -> tuple[str, str]:
    """Screen an input that has been damaged."""
    name = NUMBERED[number % len(NUMBERED)]
    case, expected = CASES[name], expected_answer(name, root)
    path, answer, errors = root / str(number) / case.name, "", []
    for step in (find_answer, show_info):
        try:
            answer += step(case, path, root)
        except MemoryError:
            return "memory", traceback.format_exc()
        except Exception as error:
            if not isinstance(error, USER_ERRORS) or not str(error).strip():
                return "traceback", traceback.format_exc()
            errors.append(traceback.format_exc())
    if errors:
        return "only --verify" if answer not in ("", expected) else "error", errors[0]
    if answer == expected:
        return "same", ""
    return ("silent", "another answer without an error") if shows_damage(case, path) else ("different", "")


@cache
def expected_answer(name: str, root: Path) -> str:
    """The answer for an undamaged input."""
    with tempfile.TemporaryDirectory(dir=root) as folder:
        shutil.copytree(root / name, folder, dirs_exist_ok=True)
        path = Path(folder) / CASES[name].name
        return find_answer(CASES[name], path, root) + show_info(CASES[name], path, root)


def find_answer(case: Case, path: Path, root: Path) -> str:
    """Open and screen an input; return what was read and the result."""
    if case.pack is not None:
        case.pack(path)
    data, target = (text.format(root=root, path=path) for text in (case.data, case.target))
    source, y, *_ = open_data(data, target, memory_limit=case.memory_limit)
    n, p = source.shape
    cells = source.read(np.unique([0, n // 2, n - 1]), np.unique([0, p // 2, p - 1]))
    result = screen(source, y, Plan.exact(n, p, p), n_jobs=1)
    names = [source.name(j) for j in result.selected[:5]]
    return repr((n, p, names, cells.tolist(), result.selected.tolist(), result.scores.tolist()))


def show_info(case: Case, path: Path, root: Path) -> str:
    data, verify = Path(case.data.format(root=root, path=path)), case.check is STORE["check"]
    with contextlib.redirect_stdout(io.StringIO()):
        run_info(data, verify=verify, memory_limit=case.memory_limit)
    return ""


def shows_damage(case: Case, path: Path) -> bool:
    """Whether the checksums of a format show the damage."""
    if case.check is None:
        return False
    try:
        case.check(path)
    except Exception:
        return True
    return False


def serve(connection: Any, work: Work, root: Path, quiet: bool) -> None:
    """Answer numbers with outcomes until the connection is closed."""
    warnings.simplefilter("ignore")
    if quiet:  # libraries print to the terminal themselves
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection.send("ready")
    with contextlib.suppress(EOFError):
        while True:
            number = connection.recv()
            failure = prepare(number, root)
            connection.send("started")
            connection.send(failure or work(number, root))


def prepare(number: int, root: Path) -> tuple[str, str] | None:
    """Screen the undamaged input, once, so kernels are compiled; return a failure if there is one."""
    try:
        expected_answer(NUMBERED[number % len(NUMBERED)], root)
    except Exception:
        return "traceback", f"the undamaged input fails:\n{traceback.format_exc()}"
    return None


class Worker(threading.local):
    """The process of a thread; it is started again after a crash or a time-out."""

    def __init__(self, *args: Any) -> None:
        self.args, self.process = args, None

    def start(self) -> None:
        self.connection, other = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=serve, args=(other, *self.args), daemon=True)
        self.process.start()
        other.close()
        self.connection.recv()

    def __call__(self, number: int, seconds: float) -> tuple[str, str]:
        if self.process is None:
            self.start()
        try:
            self.connection.send(number)
            self.connection.recv()  # when it has started
            if self.connection.poll(seconds):
                return self.connection.recv()
            kind, error = "time-out", f"not finished after {seconds:g} seconds"
            self.process.kill()
        except (EOFError, ConnectionError):
            kind, error = "crash", ""
        self.process.join()
        code, self.process = self.process.exitcode, None
        return kind, error or (signal.Signals(-code).name if code < 0 else f"exit code {code}")


def run(
    numbers: Sequence[int],
    root: Path,
    work: Work = screen_damaged,
    *,
    seconds: float = SECONDS,
    keep: bool = False,
) -> Iterator[Outcome]:
    """Damage and screen inputs in two processes; keep the damaged files if desired."""
    write_inputs(root, sorted({NUMBERED[number % len(NUMBERED)] for number in numbers}))
    worker = Worker(work, root, not keep)

    def attempt(number: int) -> Outcome:
        folder = root / str(number)
        shutil.copytree(root / NUMBERED[number % len(NUMBERED)], folder)
        done = damage(folder, np.random.default_rng(number))
        kind, error = worker(number, seconds)
        if not keep:
            shutil.rmtree(folder)
        return Outcome(number, kind, done, error)

    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(attempt, numbers)


def tabulate(outcomes: Sequence[Outcome]) -> str:
    kinds = [*ALLOWED, *FAILURES]
    counts = Counter((outcome.case, outcome.kind) for outcome in outcomes)
    names = [name for name in CASES if any(counts[name, kind] for kind in kinds)]
    rows = [[name, *(counts[name, kind] for kind in kinds)] for name in names]
    rows.append(["all", *(sum(counts[name, kind] for name in names) for kind in kinds)])
    lines = [[str(row[0]), f"{sum(row[1:]):,}", *(f"{k:,}" if k else "" for k in row[1:])] for row in rows]
    return text_table(["input", "number", *kinds], lines, align="<")


def failed(outcome: Outcome) -> bool:
    """Whether an outcome is a defect of ours."""
    hangs = outcome.kind == "time-out" and outcome.case.startswith(HANGS)
    return outcome.kind in FAILURES and not hangs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT, help=f"number of inputs (default: {COUNT:,})")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of inputs, whose files are kept")
    parser.add_argument("--failures", type=int, default=20, help="failures to list (default: 20)")
    options = parser.parse_args()
    os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker"  # which misses what a crash left behind
    numbers = options.only or range(options.count)
    root, outcomes = Path(tempfile.mkdtemp(prefix="fuzz-")), []
    try:
        with ProgressBar("screening damaged files", "files") as bar:
            for outcome in run(numbers, root, keep=options.only is not None):
                outcomes.append(outcome)
                bar(len(outcomes), len(numbers))
    finally:
        if options.only is None:
            shutil.rmtree(root)
    for outcome in outcomes if options.only else ():
        print(f"{root / str(outcome.number)}: {outcome.damage}: {outcome.kind}\n{outcome.error}")
    print(tabulate(outcomes))
    failures = [outcome for outcome in outcomes if failed(outcome)]
    for outcome in failures[: options.failures]:
        last = (outcome.error.strip().splitlines() or [""])[-1]
        print(f"\n{outcome.case}: {outcome.kind} after {outcome.damage}: {last}")
        print(f"  {sys.executable} benchmarks/fuzz.py --only {outcome.number}")
    if failures:
        sys.exit(f"\n{len(failures):,} of {len(outcomes):,} damaged inputs failed.")


if __name__ == "__main__":
    main()
