"""Which features stay after a step that keeps a fixed number of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from banditsis.core.arrays import Floats, Indices
from banditsis.plans.detection_floor import is_undecided

#: Of so many features for each that stays, most are ruled out before the strongest are searched for.
MANY, SAMPLE = 64, 1024


class KeepRule:
    """Which features stay after a step: the strongest, as many as the step says.

    A feature with too few informative rows is undecided. Undecided features may take up to half of the
    places, those with the fewest informative rows first, but no place of the ``n_final`` strongest features.
    """

    #: whether the run ends after this step
    ended: bool = False
    #: remarks for the result
    notes: Sequence[str] = ()

    def __init__(self, n_final: int) -> None:
        self.n_final = n_final

    def keep(self, step: Any, strength: Floats, informative: Floats | None) -> tuple[Indices, float]:
        """Positions of the features that stay, in order, and the strength that the others did not reach.

        Parameters
        ----------
        step : Step
            With the number of features to keep.
        strength : ndarray
            Of each remaining feature.
        informative : ndarray or None
            Number of informative rows of each; None if it is not known.
        """
        n_keep, undecided = int(step.n_keep), np.empty(0, np.intp)
        if informative is not None and n_keep < len(strength):
            places = max(0, n_keep - max(self.n_final, n_keep // 2))
            undecided = np.flatnonzero(is_undecided(informative, step.n_rows))
            known = np.rint(informative[undecided])  # small differences between sources do not matter
            undecided = undecided[np.lexsort((-strength[undecided], known))][:places]
        if undecided.size == 0:
            return strongest(strength, n_keep)
        rest = np.delete(np.arange(len(strength)), undecided)
        kept, cutoff = strongest(strength[rest], n_keep - len(undecided))
        return np.sort(np.concatenate([undecided, rest[kept]])), cutoff


def strongest(strength: Floats, n_keep: int) -> tuple[Indices, float]:
    """Positions of the largest values, in order, and the smallest of them; ties go to the lower index.

    >>> strongest(np.array([0.1, 0.5, 0.2, 0.2]), 2)
    (array([1, 2]), 0.2)
    """
    if n_keep == 0:
        return np.arange(0), 1.0
    if len(strength) > MANY * n_keep:  # find out among those that a sample shows to be strong
        sample = strength[:: max(1, len(strength) // SAMPLE)]
        place = min(len(sample) - 1, 4 * (n_keep * len(sample) // len(strength) + 4))
        strong = np.flatnonzero(strength >= np.partition(sample, -place - 1)[-place - 1])
        if n_keep <= len(strong) < len(strength) // 2:
            kept, cutoff = strongest(strength[strong], n_keep)
            return strong[kept], cutoff
    cutoff = np.partition(strength, len(strength) - n_keep)[len(strength) - n_keep]
    keep = strength > cutoff
    ties = np.flatnonzero(strength == cutoff)
    keep[ties[: n_keep - np.count_nonzero(keep)]] = True
    return np.flatnonzero(keep), float(cutoff)
