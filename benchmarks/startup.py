"""Time to a first answer: the first fit and the first plan of a new installation, and a small file.

python benchmarks/startup.py [--repeats 5]

Each run is a process of its own. Runs of a new installation have an empty folder for compiled kernels.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from reporting import Figure, at_most, collect, machine, table

COMMAND = "-m", "banditsis.cli.app"
#: Prints the seconds of a first fit, what the result says it took, and the same of a second fit.
FIT = """
import sys, time
import numpy as np
from banditsis import SIS, BanditSIS
X = np.random.default_rng(0).standard_normal((2000, 100)).astype(sys.argv[2])
X, y = np.asarray(X, order=sys.argv[3]), X[:, 3] + X[:, 5]
selector = {"SIS": SIS, "BanditSIS": BanditSIS}[sys.argv[1]](10)
for _ in range(2):
    started = time.perf_counter()
    selector.fit(X, y)
    print(time.perf_counter() - started, selector.result_.seconds)
"""


def run(*arguments: object, kernels: Path | None = None) -> tuple[float, str]:
    """Seconds and output of a process, by default with an empty folder for compiled kernels."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(kernels or empty)}
        command = [sys.executable, *map(str, arguments)]
        started = time.perf_counter()
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return time.perf_counter() - started, done.stdout


def first_fits(repeats: int) -> Iterator[Figure]:
    for method, dtype, order in (("BanditSIS", "f8", "C"), ("BanditSIS", "f4", "F"), ("SIS", "f8", "C")):
        layout = "by row" if order == "C" else "by column"
        runs = [np.loadtxt(run("-c", FIT, method, dtype, order)[1].splitlines()) for _ in range(repeats)]
        (first, said), (second, _) = np.min(runs, axis=0)
        yield at_most(f"first fit of {method}, float{8 * int(dtype[1])} {layout}", first, 3, " s")
        what = f"time in its result / time of a second fit ({1000 * second:.0f} ms)"
        yield at_most(what, said / second, 5)


def first_plan(repeats: int) -> Iterator[Figure]:
    options = "--rows", 10**6, "--features", 10**5, "--keep", 100, "--budget", 0.001
    seconds = min(run(*COMMAND, "plan", *options)[0] for _ in range(repeats))
    yield at_most("first `banditsis plan --budget`, whole process", seconds, 1.5, " s")


def small_file(repeats: int) -> Iterator[Figure]:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        data, kernels = Path(folder) / "data.csv", Path(folder) / "kernels"
        values = rng.standard_normal((1000, 21))
        np.savetxt(data, values, delimiter=",", header=",".join([*"abcdefghijklmnopqrst", "y"]), comments="")
        times = [
            run(*COMMAND, "screen", data, "--target", "y", kernels=kernels)[0] for _ in range(repeats + 1)
        ]
    print(f"`banditsis screen` of a CSV file with 1,000 rows that compiles kernels: {times[0]:.2f} s")
    yield at_most("`banditsis screen` of the same file with compiled kernels", min(times[1:]), 0.9, " s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(machine())
    figures = [f for part in (first_fits, first_plan, small_file) for f in collect(part(repeats))]
    print(table(figures))


if __name__ == "__main__":
    main()
