"""Pieces of inline SVG. Colours are classes of the page's style, so charts follow its light or dark theme.

In charts of rows, horizontal positions are percentages, so they fit any width while text keeps its size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from banditsis.core.arrays import Array

#: Marks of features, by what is known about them; shapes differ as well as colours.
MARKS = {
    "signal": '<circle r="4.5"/>',
    "noise": '<path d="M0-5.5 5.5 0 0 5.5-5.5 0z"/>',
    "unknown": '<path d="M-4-4h8v8h-8z"/>',
}


@dataclass(frozen=True)
class Scale:
    """A linear scale from values to positions in percent, with room for marks at both ends."""

    low: float
    high: float

    @classmethod
    def covering(cls, values: Array) -> Scale:
        """The scale from the smallest to the largest finite value, including 0."""
        finite = np.append(values[np.isfinite(values)], 0.0)
        low, high = float(finite.min()), float(finite.max())
        return cls(low, high if high > low else low + 1.0)

    def __call__(self, value: float) -> str:
        return f"{3 + 94 * (value - self.low) / (self.high - self.low):.2f}%"

    def ticks(self, n: int = 5) -> list[float]:
        """About n round values."""
        raw = (self.high - self.low) / n
        unit = 10.0 ** math.floor(math.log10(raw))
        step = unit * next(factor for factor in (1, 2, 5, 10) if raw <= factor * unit * 1.0001)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def vertical(kind: str, at: str) -> str:
    """A vertical line over the whole height."""
    return f'<line class="{kind}" x1="{at}" x2="{at}" y1="0" y2="100%"/>'


def horizontal(kind: str, start: str, end: str) -> str:
    """A horizontal line at half the height."""
    return f'<line class="{kind}" x1="{start}" x2="{end}" y1="50%" y2="50%"/>'


def mark(kind: str, at: str) -> str:
    """The mark of a feature, at half the height."""
    return f'<svg class="mark {kind}" x="{at}" y="50%">{MARKS[kind]}</svg>'


def strip(content: str) -> str:
    """A strip of a chart, as wide as its cell."""
    return f'<svg class="strip" aria-hidden="true">{content}</svg>'


def key(kind: str) -> str:
    """A mark for the legend."""
    return f'<svg class="key mark {kind}" viewBox="-7 -7 14 14" aria-hidden="true">{MARKS[kind]}</svg>'
