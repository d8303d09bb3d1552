"""Find the features that tell 0.2% of a million transactions from the others, with a few thousand rows.

pip install banditsis, then python examples/rare_class.py (about 15 seconds on 2 cores, 1.5 GB of memory).
The data are simulated: 300 features, of which ten are shifted by a third of a standard deviation in the
2,000 fraudulent transactions.
"""

import numpy as np

from banditsis import SIS, BanditSIS

N, P, KEEP = 1_000_000, 300, 20

rng = np.random.default_rng(0)
X = rng.standard_normal((N, P), dtype=np.float32)
fraud = np.zeros(N, dtype=bool)
fraud[rng.choice(N, N // 500, replace=False)] = True
signal = rng.choice(P, 10, replace=False)
X[np.ix_(fraud, signal)] += np.float32(1 / 3)

exact = SIS(KEEP).fit(X, fraud).result_
print(f"{N:,} rows × {P} features; {fraud.sum():,} rows are fraud ({fraud.mean():.1%})")
print(f"SIS reads everything and keeps {np.isin(signal, exact.selected).sum()} of the 10 features.\n")

for sampling in ("uniform", "stratified"):
    result = BanditSIS(KEEP, budget=0.002, sampling=sampling, random_state=0).fit(X, fraud).result_
    kept = np.isin(signal, result.selected).sum()
    first = result.rounds[0]
    print(f"{sampling:10}: {kept} of 10 kept after reading {result.fraction_read:.2%} of the cells;")
    print(f"{'':10}  the first {first.n_rows:,} rows are worth {first.effective_rows:,.0f} uniform rows,")
    print(f"{'':10}  and |r| ≥ {result.detection_floor():.4f} was kept with probability 95%.")
