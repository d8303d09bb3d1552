"""Features whose p-values are checked: those that the p-values of all features would give."""

import numpy as np
import pytest

from banditsis.engine.follow_up import MAX_FDR, MAX_LEVEL, MIN_LEVEL, N_FEATURES, find_level
from banditsis.statistics.null_distributions import BetaNull, NormalNull


def plain_candidates(null, scores, n_features):
    """The definition: significant at a false discovery rate of 10%, or smaller than a level."""
    log10 = null.log10_pvalues(scores)
    known = log10[~np.isnan(log10)]
    level = min(MAX_LEVEL, max(MIN_LEVEL, N_FEATURES / max(known.size, 1)))
    ordered = np.sort(known)
    passed = ordered[ordered <= np.log10(MAX_FDR * np.arange(1, known.size + 1) / n_features)]
    return np.flatnonzero(log10 <= max(np.log10(level), passed.max(initial=-np.inf)))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("p", [1, 30, 3000, 40_000])
def test_candidates_are_those_of_all_pvalues(p, share):
    generator = np.random.default_rng(p)
    present = generator.integers(50, 400, p).astype(float)
    classes = generator.integers(1, 4, p).astype(float)
    nulls = {
        "t": BetaNull(398.0),
        "t, no freedom": BetaNull(-1.0),
        "F": BetaNull(395.0, 4.0),
        "normal": NormalNull(20.0),
        "normal, no scale": NormalNull(0.0),
        "t, pairwise": BetaNull(present - 60, scale=np.sqrt(400 / present)),
        "F, pairwise": BetaNull(present - 60, classes, np.sqrt(400 / present)),
        "normal, pairwise": NormalNull(np.sqrt(present)),
    }
    z = generator.standard_normal(p) + 3 * (generator.random(p) < share)
    scores = np.round(np.tanh(z / 20), 3)  # with ties
    for n_features in (p, 5 * p):
        for gaps in (0.0, 0.2):
            some = np.where(generator.random(p) < gaps, np.nan, scores)
            for name, null in nulls.items():
                expected = plain_candidates(null, some, n_features)
                level, n_small = find_level(null, some, n_features)
                found = np.flatnonzero(null.log10_pvalues(some) <= level)
                np.testing.assert_array_equal(found, expected, err_msg=name)
                assert len(found) == n_small
