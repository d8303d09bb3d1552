"""The same data under alpha, budget and min_correlation: what each reads, promises and finds.

pip install 'banditsis[examples]', then python examples/settings.py (some 10 seconds on 2 cores).
"""

import numpy as np
from flights import load

from banditsis import SIS, BanditSIS

KEEP = 20

features, delay = load()
X = np.ascontiguousarray(features.to_numpy())
settings = {
    "SIS": SIS(KEEP),
    "alpha=1.1": BanditSIS(KEEP, alpha=1.1, random_state=0),
    "alpha=0.5": BanditSIS(KEEP, alpha=0.5, random_state=0),
    "alpha=0.2": BanditSIS(KEEP, alpha=0.2, random_state=0),
    "budget=0.02": BanditSIS(KEEP, budget=0.02, random_state=0),
    "budget=0.10": BanditSIS(KEEP, budget=0.10, random_state=0),
    "min_correlation=0.1": BanditSIS(KEEP, min_correlation=0.1, random_state=0),
}

print(f"{X.shape[0]:,} flights × {X.shape[1]} features, {KEEP} to keep")
print(f"{'setting':20} {'rounds':>6} {'cells read':>10} {'floor':>6} {'of the exact':>12} {'best':>8}")
exact = None
for name, selector in settings.items():
    result = selector.fit(X, delay).result_
    exact = result if exact is None else exact
    agreed = len(set(result.selected) & set(exact.selected))
    best = features.columns[result.selected[0]]
    print(
        f"{name:20} {len(result.rounds):6} {result.fraction_read:10.1%} {result.detection_floor():6.3f} "
        f"{f'{agreed} of {KEEP}':>12} {best:>8}"
    )
print(
    "\nfloor: a feature with |r| at or above it was kept with probability 95%; all correlations here are"
    f"\nbelow {abs(exact.scores).max():.2f}, so that few rows cannot tell them apart, and the floor says so."
)
