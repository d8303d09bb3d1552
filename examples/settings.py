"""Compare the settings alpha, budget and min_correlation on the same data.

pip install 'banditsis[examples]', then python examples/settings.py (about 10 seconds on 2 cores).
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
print(f"{'setting':20} {'rounds':>6} {'cells read':>10} {'floor':>6} {'as in SIS':>12} {'best':>8}")
exact = None
for name, selector in settings.items():
    result = selector.fit(X, delay).result_
    exact = result if exact is None else exact
    n_shared = len(set(result.selected) & set(exact.selected))
    best = features.columns[result.selected[0]]
    print(
        f"{name:20} {len(result.rounds):6} {result.fraction_read:10.1%} {result.detection_floor():6.3f} "
        f"{f'{n_shared} of {KEEP}':>12} {best:>8}"
    )
print(
    "\nfloor: a feature with |r| at or above it was kept with probability 95%. All correlations here are at"
    f"\nmost {abs(exact.scores).max():.2f}, so plans that read few rows cannot separate them."
)
