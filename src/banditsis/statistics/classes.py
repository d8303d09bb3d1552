"""Class labels as a response."""

from __future__ import annotations

import numpy as np

from banditsis.arrays import Array


def shown(label: object) -> str:
    """A label as a person writes it, without NumPy's type."""
    return repr(label.item() if isinstance(label, np.generic) else label)


def check_labels(name: str, labels: Array, n: int, kind: str, response: str) -> None:
    """Refuse labels that cannot be classes of n rows; ``kind`` is that of their dtype."""
    where = f" (response{response})" if response else ""
    if len(labels) < 2:
        raise ValueError(
            f"statistic={name!r} needs at least two classes, got one class{where}: {shown(labels[0])}."
        )
    if kind == "f" and not np.array_equal(labels, np.round(labels)):
        raise ValueError(
            f"statistic={name!r} needs class labels, got a continuous response{where}; "
            "use statistic='pearson', or cut the response into classes."
        )
    if len(labels) >= n:
        raise ValueError(
            f"statistic={name!r} needs classes with members, got {len(labels):,} classes in {n:,} rows"
            f"{where}; use statistic='pearson' for a numeric response."
        )
