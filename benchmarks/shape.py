"""Print the size and shape of the code: lines, files, names, and what a call enters.

python benchmarks/shape.py
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import banditsis
from banditsis import BanditSIS
from banditsis.cli.app import app
from banditsis.core.formatting import text_table

PACKAGE = Path(banditsis.__file__).parent
TESTS = PACKAGE.parents[1] / "tests"


class Calls:
    """The named functions of the project that a call enters, in all threads, and how deep they are."""

    def __init__(self) -> None:
        self.functions: set[Any] = set()
        self.depth = 0

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if event != "call" or not self._is_ours(frame):
            return
        self.functions.add(frame.f_code)
        depth, outer = 0, frame
        while outer is not None:
            depth += self._is_ours(outer)
            outer = outer.f_back
        self.depth = max(self.depth, depth)

    @staticmethod
    def _is_ours(frame: FrameType) -> bool:
        code = frame.f_code
        return code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<")

    @property
    def modules(self) -> set[str]:
        return {code.co_filename for code in self.functions}


def count_calls(call: Callable[[], object]) -> tuple[str, str, str]:
    """Modules, functions and depth of a call that was made before."""
    calls = Calls()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        call()  # imports and compiles
        threading.setprofile(calls)
        sys.setprofile(calls)
        try:
            call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return f"{len(calls.modules)}", f"{len(calls.functions)}", f"{calls.depth}"


def count_lines(folder: Path) -> int:
    """Lines of Python."""
    return sum(path.read_text(encoding="utf-8").count("\n") for path in folder.rglob("*.py"))


#: What should have no more, and how many.
LIMITS = {"methods of a class": 15, "lines of a function": 50, "modules that a module imports": 8}


def find_large() -> Iterator[tuple[str, str, int]]:
    """What exceeds one of the :data:`LIMITS`: which of them, where, and how many it has."""
    methods, lines, imports = LIMITS
    for path in sorted(PACKAGE.rglob("*.py")):
        name, others = str(path.relative_to(PACKAGE)), set[str]()
        counts = []
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                n_methods = sum(isinstance(part, ast.FunctionDef) for part in node.body)
                counts.append((methods, f"{name} {node.name}", n_methods))
            elif isinstance(node, ast.FunctionDef):
                first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
                counts.append((lines, f"{name} {node.name}", (node.end_lineno or 0) - first.lineno + 1))
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("banditsis."):
                others.add(node.module or "")
        counts.append((imports, name, len(others)))
        yield from (found for found in counts if found[2] > LIMITS[found[0]])


def main() -> None:
    print(f"lines of src: {count_lines(PACKAGE):,} in {len(list(PACKAGE.rglob('*.py')))} files")
    print(f"lines of tests: {count_lines(TESTS):,}")
    print(f"public names: {len(banditsis.__all__)}")
    packages = Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        packages[parts[0] if len(parts) > 1 else "(top)"] += path.read_text(encoding="utf-8").count("\n")
    print(", ".join(f"{name} {lines:,}" for name, lines in packages.most_common()), "\n")
    X = np.random.default_rng(0).standard_normal((100_000, 500), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/x.parquet"
        pq.write_table(pa.table({f"x{j}": X[:2000, j] for j in range(100)}), path)
        command = ["screen", path, "--target", "x3", "--quiet"]
        rows = [
            ("BanditSIS(50).fit(X, y)", *count_calls(lambda: BanditSIS(50).fit(X, X[:, 3]))),
            ("screen x.parquet", *count_calls(lambda: app(command, standalone_mode=False))),
        ]
    print(text_table(("call", "modules", "functions", "depth"), rows, align="<"), "\n")
    large = list(find_large())
    for kind, limit in LIMITS.items():
        found = [f"{place} ({number})" for other, place, number in large if other == kind]
        print(f"over {limit} {kind}: {len(found)} ({', '.join(found)})")


if __name__ == "__main__":
    main()
