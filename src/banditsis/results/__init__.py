"""Results of screening runs, and errors that have the result of the finished rounds.

Other packages import from here.
"""

from banditsis.core.parallel import RoundError
from banditsis.results import sentences
from banditsis.results.evidence import (
    About,
    Evidence,
    Round,
    find_versions,
    has_pvalues,
    is_exact,
    rank_features,
    selection_mask,
    strength,
    strength_of,
)
from banditsis.results.features import LEAKAGE, Features, describe_features, list_features, to_lists
from banditsis.results.result import Interrupted, ScreeningResult, attach_partial, keep_significant
from banditsis.results.several import SampleCheck, ScreeningResults, describe_size

__all__ = ["Interrupted", "RoundError", "SampleCheck", "ScreeningResult", "ScreeningResults"]
__all__ += ["About", "Evidence", "Features", "Round"]
__all__ += ["has_pvalues", "is_exact", "rank_features", "selection_mask", "strength", "strength_of"]
__all__ += ["LEAKAGE", "describe_features", "list_features", "to_lists"]
__all__ += ["attach_partial", "describe_size", "find_versions", "keep_significant", "sentences"]
