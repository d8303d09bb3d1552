"""Measurements with goals, printed line by line and as a Markdown table."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass
class Figure:
    """One measurement."""

    what: str
    measured: str
    goal: str
    met: bool


def at_least(what: str, value: float, goal: float, unit: str = "") -> Figure:
    return Figure(what, f"{value:.2f}{unit}", f"≥ {goal:g}{unit}", value >= goal)


def at_most(what: str, value: float, goal: float, unit: str = "") -> Figure:
    return Figure(what, f"{value:.2f}{unit}", f"≤ {goal:g}{unit}", value <= goal)


def collect(figures: Iterable[Figure]) -> list[Figure]:
    """Print each figure when it is measured, and return all."""
    collected = []
    for figure in figures:
        collected.append(figure)
        print(
            f"{figure.what}: {figure.measured} ({figure.goal}) {'' if figure.met else 'MISSED'}", flush=True
        )
    return collected


def table(figures: Iterable[Figure]) -> str:
    lines = ["| Benchmark | Measured | Target | |", "|---|---:|---:|---|"]
    lines += [f"| {f.what} | {f.measured} | {f.goal} | {'✓' if f.met else 'missed'} |" for f in figures]
    return "\n".join(lines)


def replace_between(path: Path, marker: str, text: str) -> None:
    """Write text between the two lines of a file that consist of a marker."""
    before, _, after = path.read_text().split(marker)
    path.write_text(f"{before}{marker}\n{text}\n{marker}{after}")


def publish(figures: Iterable[Figure], command: str, write: Path | None, marker: str) -> None:
    """Print the table of a command and, if a file is given, write it between its markers."""
    text = f"{table(figures)}\n\nMeasured by `make {command}` on {machine()}; best of several turns."
    print(f"\n{text}")
    if write:
        replace_between(write, marker, text)


def machine() -> str:
    cores, python = len(os.sched_getaffinity(0)), platform.python_version()
    return f"{cores} cores of {platform.machine()}, Python {python}, NumPy {np.__version__}"
