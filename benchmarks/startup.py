"""Time to a first answer: the first fit and the first plan of a new installation, and a small file.

python benchmarks/startup.py [--repeats 5] [--write benchmarks/README.md]

Each run is a process of its own. Runs of a new installation have an empty folder for compiled kernels. Times
are those of the processor: on an idle machine about those of the clock, and on a shared one they vary less.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from processes import ENVIRONMENT
from reporting import Figure, at_most, collect, publish

COMMAND = "-m", "banditsis.cli.app"
#: Prints the seconds of a fit, by the processor and by the clock, and those that the result counts.
FIT = """
import sys, time
import numpy as np
from banditsis import SIS, BanditSIS
X = np.random.default_rng(0).standard_normal((2000, 100)).astype(sys.argv[2])
X, y = np.asarray(X, order=sys.argv[3]), X[:, 3] + X[:, 5]
selector = {"SIS": SIS, "BanditSIS": BanditSIS}[sys.argv[1]](10)
started = time.process_time(), time.perf_counter()
selector.fit(X, y)
seconds = time.process_time() - started[0], time.perf_counter() - started[1]
print(*seconds, sum(r.seconds for r in selector.result_.rounds))
"""


def run(*arguments: object, kernels: Path | None = None) -> tuple[float, str]:
    """Seconds and output of a process, by default with an empty folder for compiled kernels."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {**ENVIRONMENT, "NUMBA_CACHE_DIR": str(kernels or empty)}
        command = [sys.executable, *map(str, arguments)]
        started = _seconds_of_children()
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return _seconds_of_children() - started, done.stdout


def _seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds_of(repeats: int, *arguments: object, kernels: Path | None = None) -> float:
    """Best time of a process."""
    return min(run(*arguments, kernels=kernels)[0] for _ in range(repeats))


def first_fits(repeats: int) -> Iterator[Figure]:
    """Fits that compile their kernels; the result must not count that."""
    for method, dtype, order in (("BanditSIS", "f8", "C"), ("BanditSIS", "f4", "F"), ("SIS", "f8", "C")):
        layout = "row-major" if order == "C" else "column-major"
        runs = [
            [float(number) for number in run("-c", FIT, method, dtype, order)[1].split()]
            for _ in range(repeats)
        ]
        name = f"first fit of {method} in a new installation, float{8 * int(dtype[1])}, {layout}"
        yield at_most(name, min(seconds for seconds, _, _ in runs), 3, " s")
        share = min(counted / elapsed for _, elapsed, counted in runs)
        yield at_most(f"{name}: share of the time that its result counts", share, 0.1)


def first_plan(repeats: int) -> Iterator[Figure]:
    options = "--rows", 10**6, "--features", 10**5, "--keep", 100, "--budget", 0.001
    seconds = seconds_of(repeats, *COMMAND, "plan", *options)
    yield at_most("first `banditsis plan --budget` in a new installation, whole process", seconds, 1.5, " s")


def compiled(repeats: int) -> Iterator[Figure]:
    """Processes that load compiled kernels."""
    empty, imported = (seconds_of(repeats, "-c", code) for code in ("pass", "import banditsis"))
    yield at_most("`import banditsis`, above an empty Python", imported - empty, 0.3, " s")
    with tempfile.TemporaryDirectory() as folder:
        data, kernels = Path(folder) / "data.csv", Path(folder) / "kernels"
        values = np.random.default_rng(0).standard_normal((1000, 21))
        np.savetxt(data, values, delimiter=",", header=",".join([*"abcdefghijklmnopqrst", "y"]), comments="")
        for name, goal, command in (
            (
                "`banditsis screen` of a CSV file of 1,000 rows",
                0.9,
                (*COMMAND, "screen", data, "--target", "y"),
            ),
            ("a fit of BanditSIS", 2, ("-c", FIT, "BanditSIS", "f8", "C")),
        ):
            run(*command, kernels=kernels)
            seconds = seconds_of(repeats, *command, kernels=kernels)
            yield at_most(f"{name} with compiled kernels, whole process", seconds, goal, " s")


MARKER = "<!-- measured: written by benchmarks/startup.py -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    figures = collect(chain(*(part(options.repeats) for part in (first_fits, first_plan, compiled))))
    publish(figures, "bench-startup", options.write, MARKER)


if __name__ == "__main__":
    main()
