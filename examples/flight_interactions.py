"""What makes flights late? 171 features and all their 14,535 products, none of which is ever built.

pip install 'banditsis[examples]', then python examples/flight_interactions.py (some 10 seconds on 2 cores).
"""

import numpy as np
from flights import load
from sklearn.linear_model import LinearRegression

from banditsis import SIS, BanditSIS, Interactions

KEEP = 100

features, delay = load()
names = list(features.columns)
X = np.ascontiguousarray(features.to_numpy())
# Numbers are standardised, or 'pressure × hour=6' would be little more than 'hour=6', since the pressure is
# always about 1,000. Categories stay 0 and 1: a product of two is 1 where both hold.
numbers = [j for j, name in enumerate(names) if "=" not in name]
X[:, numbers] = (X[:, numbers] - X[:, numbers].mean(axis=0)) / X[:, numbers].std(axis=0)
crossed = Interactions(X, names=names)

exact = SIS(KEEP).fit(crossed, delay).result_
quick = BanditSIS(KEEP, alpha=0.2, random_state=0).fit(crossed, delay).result_
shared = set(exact.selected) & set(quick.selected)
print(f"{crossed.shape[0]:,} flights × {crossed.shape[1]:,} features")
print(
    f"SIS read every cell in {exact.seconds:.2f} s; BanditSIS {quick.fraction_read:.1%} of them in ", end=""
)
print(f"{quick.seconds:.2f} s, and found {len(shared)} of the same {KEEP}.\n")

print("What comes with delays most, exact:")
for k in exact.selected[:15]:
    print(f"  {exact.name(k):34} {exact.scores[k]:+.3f}")

# Do products help a plain linear model? Learn from two thirds of the flights, predict the others.
test = np.random.default_rng(0).random(len(delay)) < 1 / 3
plain = np.sort(SIS(KEEP).fit(X[~test], delay[~test]).result_.selected)
chosen = np.sort(SIS(KEEP).fit(Interactions(X[~test]), delay[~test]).result_.selected)
for title, some in (
    (f"the best {KEEP} features", X[:, plain]),
    (f"the best {KEEP} features and products", crossed.read(slice(0, len(X)), chosen)),
):
    model = LinearRegression().fit(some[~test], delay[~test])
    print(f"\nR² on other flights, {title}: {model.score(some[test], delay[test]):.3f}", end="")
print()
