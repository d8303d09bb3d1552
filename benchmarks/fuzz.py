"""Read and screen thousands of damaged files, and compare what is read with what other libraries read.

python benchmarks/fuzz.py [--count N] [--only CASE[:SEED] …]

The damage of a case and a seed is the same in every run. Inputs are read in processes with a limit of time
and memory. A damaged input may be read as the reference reader reads it, or raise an error of one line.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
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
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import banditsis
from banditsis import Plan, screen
from banditsis.cli.files import run_info
from banditsis.cli.terminal import USER_ERRORS
from banditsis.core.formatting import text_table
from banditsis.core.progress import ProgressBar
from banditsis.formats.dataset import open_data
from fuzz_damage import damage
from fuzz_inputs import CASES, Case, Run, plan_runs, write_inputs
from fuzz_references import Answer, difference

COUNT = 8400  # shared by the cases in proportion to their weights
SECONDS, MEMORY = 20.0, 3 << 30  # limits for one input: of time and of addresses
FIFO_SECONDS = 2.0  # for a FIFO that nobody writes to: what waits for it waits for ever
#: Bytes that reading may add to the memory of a process, besides twice the size of what is read.
BASE = 256 << 20
#: The memory limit that readers are given.
ALLOWED_MEMORY = 128 << 20
PATIENCE = 3  # limits of time to wait for a process that waits itself
RUNS_OF_A_PROCESS = 400
SMALL_CELLS = 1 << 23  # more cells are not compared
ALLOWED = ("right", "error", "bare error", "only ours reads", "only theirs reads")
FAILURES = ("traceback", "crash", "hang", "blow-up", "silent")
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["fuzz", "banditsis.cli.files", "banditsis.formats.hdf5", "banditsis.kernels.cells"]
)


class Outcome(NamedTuple):
    """What became of an input."""

    run: Run
    kind: str
    damage: str
    error: str


#: Reads the input of a run below a folder; yields kinds of outcomes and errors, the last of which counts.
Check = Callable[[Run, Path], Iterator[tuple[str, str]]]


# In the processes


def read_ours(case: Case, path: Path, root: Path) -> Answer:
    """What banditsis reads."""
    data, target = (text.format(root=root, path=path) for text in (case.data, case.target))
    limit = case.memory_limit or ALLOWED_MEMORY
    if case.structure == "folder":
        with contextlib.redirect_stdout(io.StringIO()):
            run_info(data, None, None, verify=True, as_json=False, memory_limit=limit)
    source, y, *_ = open_data(data, target, memory_limit=limit)
    n, p = source.shape
    order = slice(None) if source.original_rows is None else source.original_rows
    found: Answer = {"y": y[order], "names": source.names, "shape": (n, p)}  # as rows are stored
    if n * p <= SMALL_CELLS:
        found["X"] = source.read(slice(0, n), None)
        found["column"] = source.read(slice(0, n), np.array([p // 2]))
        found["rows"] = source.read(np.unique([0, n // 2, n - 1]), None)
    try:
        found["scores"] = screen(source, y, Plan.exact(n, p, p), n_jobs=1).scores
    except Exception as error:
        if not isinstance(error, USER_ERRORS) or isinstance(error, MemoryError) or not str(error).strip():
            raise
        found["error"] = error
    return found


def read_theirs(case: Case, path: Path) -> Answer:
    """What the reference reader reads; the target of some cases is in a file that is not damaged."""
    found = case.reference(path)
    if "X" in found and "y" not in found:
        found["y"] = np.load(path.parent.parent / "y.npy")
        if len(found["y"]) != len(found["X"]):
            raise ValueError("the target has another length")
    return found


def check_run(run: Run, root: Path) -> Iterator[tuple[str, str]]:
    """What became of an input, first if the reference reader cannot read it, then if it can or cannot."""
    case, path = CASES[run.case], root / run.folder / CASES[run.case].name
    Path("/proc/self/clear_refs").write_text("5")  # the highest use of memory begins here
    before, ours, error, refused = resident("VmRSS"), None, "", ""
    try:
        ours = read_ours(case, path, root)
    except MemoryError:
        yield "blow-up", traceback.format_exc()
        return
    except Exception as caught:
        error = traceback.format_exc()
        if not isinstance(caught, USER_ERRORS) or not str(caught).strip():
            yield "traceback", error
            return
        refused = "error" if is_explained(caught, path) else "bare error"
    used = resident("VmHWM") - before
    yield (refused, error) if ours is None else ("only ours reads", "the reference reader crashes or hangs")
    try:
        if any(file.is_fifo() for file in path.parent.rglob("*")):
            raise ValueError("a FIFO")
        theirs = read_theirs(case, path)
        size = theirs["X"].nbytes if "X" in theirs else 0
    except Exception:
        theirs, size = None, 0
        error = error or traceback.format_exc()
    if used > BASE + 2 * size:
        yield "blow-up", f"{used / 1e6:,.0f} MB for {size / 1e6:,.0f} MB\n{error}"
    elif theirs is None:
        yield (refused, error) if ours is None else ("only ours reads", error)
    elif ours is None:
        yield "only theirs reads", error
    else:
        different = difference(ours, theirs)
        yield ("silent", f"different: {different}") if different else ("right", "")


def is_explained(error: Exception, path: Path) -> bool:
    """Whether an error names the file, was raised on purpose, or is that of the system."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = Path(last.filename).is_relative_to(Path(banditsis.__file__).parent)
    is_raised = is_ours and (last.line or "").startswith("raise")
    return is_raised or isinstance(error, OSError) or str(path) in str(error)


def resident(name: str) -> int:
    """Bytes of this process in memory, now (VmRSS) or at most (VmHWM)."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) * 1024


@cache
def check_undamaged(name: str, root: Path) -> None:
    """Read the undamaged input, so kernels are compiled."""
    with tempfile.TemporaryDirectory(dir=root) as folder:
        shutil.copytree(root / name, folder, dirs_exist_ok=True)
        path = Path(folder) / CASES[name].name
        if different := difference(read_ours(CASES[name], path, root), read_theirs(CASES[name], path)):
            raise ValueError(f"the undamaged input {name} is read as another one: {different}")


def serve(connection: Any, root: Path, check: Check, quiet: bool) -> None:
    """Answer runs with outcomes until the connection is closed."""
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
            run = connection.recv()
            try:
                check_undamaged(run.case, root)
            except Exception:
                connection.send(("traceback", f"the undamaged input fails:\n{traceback.format_exc()}"))
                connection.send(None)
                continue
            connection.send("started")
            for outcome in check(run, root):
                connection.send(outcome)
            connection.send(None)


# In the main process


class Worker(threading.local):
    """The process of a thread; it is started again after a crash or a time-out, and from time to time."""

    def __init__(self, *args: Any) -> None:
        self.args, self.process, self.left = args, None, 0

    def start(self) -> None:
        self.connection, other = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=serve, args=(other, *self.args), daemon=True)
        self.process.start()
        other.close()
        self.connection.recv()
        self.left = RUNS_OF_A_PROCESS

    def stop(self) -> None:
        self.connection.close()
        self.process.join(5)
        self.process.kill()
        self.process = None

    def poll(self, seconds: float) -> bool:
        """Wait for an answer; longer if other processes have used the time, but not for ever."""
        start = self.seconds_used()
        for _ in range(PATIENCE):
            if self.connection.poll(seconds) or self.seconds_used() - start > 0.9 * seconds:
                break
        return self.connection.poll(0)

    def seconds_used(self) -> float:
        """Seconds of the processor that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __call__(self, run: Run, seconds: float) -> tuple[str, str]:
        if self.process is not None and self.left == 0:
            self.stop()
        if self.process is None:
            self.start()
        self.left -= 1
        outcome = None
        try:
            self.connection.send(run)
            if isinstance(started := self.connection.recv(), tuple):
                outcome = started
            while True:
                if not self.poll(seconds):
                    break
                if (message := self.connection.recv()) is None:
                    return outcome
                outcome = message
            kind, error = "hang", f"not finished after {seconds:g} seconds"
            self.process.kill()
        except (EOFError, ConnectionError):
            kind, error = "crash", ""
        self.process.join()
        code, self.process = self.process.exitcode, None
        if outcome is not None:  # the reference reader crashed
            return outcome
        return kind, error or (signal.Signals(-code).name if code < 0 else f"exit code {code}")


def run_all(
    runs: Sequence[Run], root: Path, check: Check = check_run, *, seconds: float = SECONDS, keep: bool = False
) -> Iterator[Outcome]:
    """Damage and read inputs in two processes; keep the damaged files if desired."""
    write_inputs(root, dict.fromkeys(run.case for run in runs))
    worker = Worker(root, check, not keep)

    def attempt(run: Run) -> Outcome:
        folder = root / run.folder
        shutil.copytree(root / run.case, folder)
        done = damage(CASES[run.case], folder, run.seed, zlib.crc32(run.case.encode()))
        kind, error = worker(run, min(seconds, FIFO_SECONDS) if "mkfifo" in done else seconds)
        if not keep:
            shutil.rmtree(folder)
        return Outcome(run, kind, done, error)

    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(attempt, runs)


def tabulate(outcomes: Sequence[Outcome]) -> str:
    kinds = [*ALLOWED, *FAILURES]
    counts = Counter((outcome.run.case, outcome.kind) for outcome in outcomes)
    names = [name for name in CASES if any(counts[name, kind] for kind in kinds)]
    rows = [[name, *(counts[name, kind] for kind in kinds)] for name in names]
    rows.append(["all", *(sum(counts[name, kind] for name in names) for kind in kinds)])
    lines = [[str(row[0]), f"{sum(row[1:]):,}", *(f"{k:,}" if k else "" for k in row[1:])] for row in rows]
    return text_table(["input", "number", *kinds], lines, align="<")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT, help=f"number of inputs (default: {COUNT:,})")
    parser.add_argument("--only", nargs="+", metavar="CASE[:SEED]", help="some inputs, whose files are kept")
    parser.add_argument("--save", type=Path, help="write all outcomes to this file, as lines of JSON")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # which the server of processes does not take over
    os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker"  # which misses what a crash left behind
    runs = plan_runs(options.count, options.only)
    root, outcomes, single = Path(tempfile.mkdtemp(prefix="fuzz-")), [], len(runs) <= 5
    try:
        with ProgressBar("reading damaged files", "files") as bar:
            for outcome in run_all(runs, root, keep=single):
                outcomes.append(outcome)
                bar(len(outcomes), len(runs))
                if options.save:
                    with options.save.open("a") as file:
                        print(json.dumps([str(outcome.run), *outcome[1:]]), file=file)
    finally:
        if not single:
            shutil.rmtree(root)
    for outcome in outcomes if single else ():
        print(f"{root / outcome.run.folder}: {outcome.damage}: {outcome.kind}\n{outcome.error}")
    print(tabulate(outcomes))
    failures = [outcome for outcome in outcomes if outcome.kind in FAILURES]
    for outcome in failures:
        last = (outcome.error.strip().splitlines() or [""])[-1]
        print(f"\n{outcome.kind} after {outcome.damage}: {last[:200]}")
        print(f"  {sys.executable} benchmarks/fuzz.py --only '{outcome.run}'")
    if failures:
        sys.exit(f"\n{len(failures):,} of {len(outcomes):,} damaged inputs failed.")


if __name__ == "__main__":
    main()
