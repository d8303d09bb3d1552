"""Where features live, one kind of source a file. Packages above import from here what all sources share."""

from banditsis.sources.base import Calibration, Source, SumContext
from banditsis.sources.blocks import cut
from banditsis.sources.products import flatten
from banditsis.sources.views import take_original_rows

__all__ = ["Calibration", "Source", "SumContext", "cut", "flatten", "take_original_rows"]
