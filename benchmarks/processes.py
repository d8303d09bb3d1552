"""Time and memory of whole processes.

They store bytecode, as an installation by pip does: without it, each would compile the modules again.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Cost(NamedTuple):
    """What a process took: seconds, seconds of all its threads, and peak memory in GB."""

    seconds: float
    cpu_seconds: float
    peak: float


def run(command: Sequence[object]) -> Cost:
    """Run a program to its end; what it prints is discarded."""
    arguments = [str(part) for part in command]
    program = shutil.which(arguments[0])
    if program is None:
        raise FileNotFoundError(f"{arguments[0]} is not on the PATH")
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    started = time.perf_counter()
    child = os.posix_spawn(program, arguments, ENVIRONMENT, file_actions=silent)
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - started
    if status:
        raise RuntimeError(f"{' '.join(arguments)} failed")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9)


def compare(commands: Mapping[str, Sequence[object]], repeats: int) -> dict[str, Cost]:
    """The smallest costs of each command, in alternating runs."""
    found = {name: Cost(np.inf, np.inf, np.inf) for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            found[name] = Cost(*map(min, found[name], run(command)))
    return found
