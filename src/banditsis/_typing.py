"""Names for types that are used everywhere."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]
#: Rows of a source: a run of neighbours, or sorted indices.
Rows: TypeAlias = "slice | Indices"
#: Columns of a source: sorted indices, or all.
Columns: TypeAlias = "Indices | None"
