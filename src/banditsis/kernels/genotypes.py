"""Genotypes that are packed in bytes, two bits for each of four samples; 1 is a missing genotype."""

from __future__ import annotations

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise


@elementwise
def subtract_missing(packed: Array, values: Array, out: Array) -> None:
    """Subtract the rows of ``values`` (samples, s) with a missing genotype in line k from ``out[k]``."""
    for k in range(packed.shape[0]):
        line, total = packed[k], out[k]
        for b in range(line.size):
            byte = line[b]
            if byte & ~(byte >> 1) & 0x55:
                for t in range(4):
                    if (byte >> 2 * t) & 3 == 1:
                        row = values[4 * b + t]
                        for r in range(row.size):
                            total[r] -= row[r]
