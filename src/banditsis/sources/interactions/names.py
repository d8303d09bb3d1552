"""Names of columns and of products of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from banditsis.arrays import Indices
from banditsis.sources.interactions.calibration import list_pairs


class PairNames(Sequence[str]):
    """Names of features, made when they are asked for; a result that keeps them does not keep the data."""

    def __init__(self, base: Sequence[str] | None, offsets: Indices, lead: int) -> None:
        self.base, self.offsets, self.lead = base, offsets, lead

    def __len__(self) -> int:
        return int(self.offsets[-1])

    @overload
    def __getitem__(self, feature: int) -> str: ...
    @overload
    def __getitem__(self, feature: slice) -> list[str]: ...
    def __getitem__(self, feature: int | slice) -> str | list[str]:
        if isinstance(feature, slice):
            return [self[k] for k in range(*feature.indices(len(self)))]
        k = int(feature) + (len(self) if feature < 0 else 0)
        if not 0 <= k < len(self):
            raise IndexError(f"feature {feature} of {len(self):,}.")
        first, second = (int(side[0]) for side in list_pairs(np.array([k]), self.offsets, self.lead))
        if second == len(self.offsets) - 1:
            return self._base_name(first)
        if first == second:
            return f"{self._base_name(first)}²"
        return f"{self._base_name(first)} × {self._base_name(second)}"

    def _base_name(self, column: int) -> str:
        return f"x{column}" if self.base is None else str(self.base[column])
