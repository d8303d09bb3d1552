"""Results of screening runs, and errors that have the result of the finished rounds."""

from banditsis.core.parallel import RoundError
from banditsis.results.result import Interrupted, ScreeningResult
from banditsis.results.sample_check import SampleCheck
from banditsis.results.several import ScreeningResults

__all__ = ["Interrupted", "RoundError", "SampleCheck", "ScreeningResult", "ScreeningResults"]
