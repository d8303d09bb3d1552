"""Matrices in text files: Matrix Market and svmlight, read into memory by SciPy and scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from banditsis.formats.opening import open_data
from banditsis.formats.registry import Opened, check_memory, split_target_column


def open_matrixmarket(path: Path, target: str | None = None, **options: Any) -> Opened:
    """Read a ``.mtx`` or ``.mtx.gz`` file, sparse or dense."""
    from scipy.io import mmread

    check_memory(path, path.stat().st_size, options.get("memory_limit"))
    try:
        matrix = mmread(path)
    except (ValueError, OverflowError, EOFError, OSError) as error:
        raise ValueError(f"{path} cannot be read as Matrix Market: {error}") from error
    return open_data(matrix, target)


def open_svmlight(path: Path, target: str | None = None, **options: Any) -> Opened:
    """Read a file of lines ``label feature:value …``; the target, or "label", is the label."""
    from sklearn.datasets import load_svmlight_file

    check_memory(path, path.stat().st_size, options.get("memory_limit"))
    try:
        matrix, labels = load_svmlight_file(str(path))
    except (ValueError, UnicodeDecodeError, EOFError, OSError) as error:
        raise ValueError(f"{path} cannot be read as svmlight: {error}") from error
    source = open_data(matrix, None).source
    if target in (None, "label", "target", "y"):
        return Opened(source, labels)
    return split_target_column(source, target, f"{path}, whose own target is called 'label',")
