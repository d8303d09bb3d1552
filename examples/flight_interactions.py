"""Screen 171 features and their 14,535 pairwise products, which are never built, for flight delays.

pip install 'banditsis[examples]', then python examples/flight_interactions.py (about 10 seconds on 2 cores).
"""

import numpy as np
from flights import load
from sklearn.linear_model import LinearRegression

from banditsis import SIS, BanditSIS, Interactions

KEEP = 100

features, delay = load()
names = list(features.columns)
X = np.ascontiguousarray(features.to_numpy())
# Standardise the numeric features: the pressure is always about 1,000, so without this 'pressure × hour=6'
# would be almost the same feature as 'hour=6'. Dummy variables stay 0 and 1: a product is 1 if both are 1.
numeric = [j for j, name in enumerate(names) if "=" not in name]
X[:, numeric] = (X[:, numeric] - X[:, numeric].mean(axis=0)) / X[:, numeric].std(axis=0)
interactions = Interactions(X, names=names)

exact = SIS(KEEP).fit(interactions, delay).result_
quick = BanditSIS(KEEP, alpha=0.2, random_state=0).fit(interactions, delay).result_
shared = set(exact.selected) & set(quick.selected)
print(f"{interactions.shape[0]:,} flights × {interactions.shape[1]:,} features")
print(f"SIS read every cell in {exact.seconds:.2f} s.")
print(f"BanditSIS read {quick.fraction_read:.1%} of the cells in {quick.seconds:.2f} s.")
print(f"{len(shared)} of the {KEEP} selected features are the same.\n")

print("Features most correlated with the delay (SIS):")
for k in exact.selected[:15]:
    print(f"  {exact.name(k):34} {exact.scores[k]:+.3f}")

# Do products improve a linear model? Train on two thirds of the flights and predict the others.
test = np.random.default_rng(0).random(len(delay)) < 1 / 3
main_effects = np.sort(SIS(KEEP).fit(X[~test], delay[~test]).result_.selected)
with_products = np.sort(SIS(KEEP).fit(Interactions(X[~test]), delay[~test]).result_.selected)
print("\nR² on test flights:")
for title, Z in (
    (f"best {KEEP} features", X[:, main_effects]),
    (f"best {KEEP} features and products", interactions.read(slice(0, len(X)), with_products)),
):
    model = LinearRegression().fit(Z[~test], delay[~test])
    print(f"  {title:34} {model.score(Z[test], delay[test]):.3f}")
