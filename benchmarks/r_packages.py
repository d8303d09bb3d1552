"""The same screening by R's SIS, MFSIS and VariableScreening: processor time, and features that agree.

python benchmarks/r_packages.py [--repeats 3] [--write docs/speed.md]

Needs Rscript and at least one of these packages of CRAN. R's SIS also fits a lasso to what it selects.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from banditsis import SIS
from banditsis.core.formatting import format_duration
from reporting import machine, replace_between
from timing import interleaved

MARKER = "<!-- R: written by benchmarks/r_packages.py -->"
SCRIPT = """
arguments <- commandArgs(TRUE)
n <- as.integer(arguments[1]); p <- as.integer(arguments[2]); d <- as.integer(arguments[3])
x <- matrix(readBin("x.bin", "double", n * p), n, p)
y <- readBin("y.bin", "double", n)
invisible(requireNamespace(arguments[5]))
best <- Inf
for (repeat_ in seq_len(as.integer(arguments[4]))) {
  used <- system.time(chosen <- %s)
  best <- min(best, used[["user.self"]] + used[["sys.self"]])
}
cat(best, "\\n", chosen, "\\n")
"""


class Task(NamedTuple):
    """A call of R whose value are the indices that it selects, and the same in Python."""

    package: str
    call: str
    statistic: str
    response: str
    n: int
    p: int
    d: int = 20


SIS_CALL = 'SIS::SIS(x, y, family = "{}", penalty = "lasso", tune = "bic", iter = FALSE, nsis = d)$sis.ix0'
IID_CALL = 'order(VariableScreening::screenIID(x, y, "{}")$rank)[1:d]'
TASKS = (
    Task("SIS", SIS_CALL.format("gaussian"), "pearson", "linear", 1_000, 5_000),
    Task("SIS", SIS_CALL.format("binomial"), "logistic", "classes", 1_000, 5_000),
    Task("VariableScreening", IID_CALL.format("DC-SIS"), "distance", "linear", 1_000, 500),
    Task("MFSIS", "MFSIS::DCSIS(x, y, d)", "distance", "linear", 300, 200),
)


class Row(NamedTuple):
    """Best times of a task in R and here, in seconds, and the number of features that both select."""

    task: Task
    theirs: float
    ours: float
    shared: int


def make(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Noise, and a response with which the first d features are associated more and more."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((task.n, task.p))
    y = X[:, : task.d] @ np.linspace(0.5, 1, task.d) + 2 * rng.standard_normal(task.n)
    return X, (y > 0).astype(float) if task.response == "classes" else y


def is_installed(package: str) -> bool:
    test = f'quit(status = as.integer(!requireNamespace("{package}", quietly = TRUE)))'
    return not subprocess.run(["Rscript", "-e", test], capture_output=True, check=False).returncode


def measure(task: Task, repeats: int) -> Row:
    X, y = make(task)
    with tempfile.TemporaryDirectory() as folder:
        X.T.tofile(Path(folder) / "x.bin")  # by column, as R has it
        y.tofile(Path(folder) / "y.bin")
        (Path(folder) / "script.R").write_text(SCRIPT % task.call)
        sizes = [str(number) for number in (task.n, task.p, task.d, repeats)]
        command = ["Rscript", "script.R", *sizes, task.package]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    seconds, chosen = done.stdout.strip().splitlines()[-2:]
    theirs = np.array(chosen.split(), dtype=int) - 1  # R counts from 1
    selector = SIS(task.d, statistic=task.statistic, n_jobs=1)
    with threadpool_limits(1):
        best = interleaved(repeats, clock=time.process_time, ours=lambda: selector.fit(X, y))
    shared = len(np.intersect1d(theirs, selector.result_.selected))
    return Row(task, float(seconds), best["ours"], shared)


def rows(repeats: int) -> Iterator[Row]:
    available = {package: is_installed(package) for package in dict.fromkeys(task.package for task in TASKS)}
    print(available)
    for task in TASKS:
        if available[task.package]:
            row = measure(task, repeats)
            print(row, flush=True)
            yield row


def table(measured: list[Row]) -> str:
    lines = ["| Task | n × p | R | here | ratio | Same features |", "|---|---:|---:|---:|---:|---:|"]
    for row in measured:
        task = row.task
        times = f"{format_duration(row.theirs)} | {format_duration(row.ours)} | {row.theirs / row.ours:,.0f}"
        what = f"{task.package}, `{task.statistic}`"
        lines.append(f"| {what} | {task.n:,} × {task.p:,} | {times} | {row.shared} of {task.d} |")
    made = f"Processor time of one thread, by `python benchmarks/r_packages.py` on {machine()}."
    return "\n".join(lines) + f"\n\n{made}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    text = table(list(rows(options.repeats)))
    print(f"\n{text}")
    if options.write:
        replace_between(options.write, MARKER, text)


if __name__ == "__main__":
    main()
