"""Compare a lasso after screening with a lasso alone: similar R² in a fraction of the time.

pip install 'banditsis[examples]', then python examples/lasso_pipeline.py (about half a minute on 2 cores).
"""

import time

import numpy as np
import pandas as pd
from flights import load, load_planes
from sklearn.linear_model import LassoCV
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from banditsis import SIS, BanditSIS

N_FLIGHTS, KEEP = 20_000, 150

# Time, place and weather, and a dummy variable for each plane. Most planes are unrelated to the delay.
features, delay = load()
rows = np.sort(np.random.default_rng(0).choice(len(features), N_FLIGHTS, replace=False))
planes = pd.get_dummies(load_planes()[rows], dtype=np.float32)
X = np.hstack([features.to_numpy()[rows], planes.to_numpy()])
X_train, X_test, y_train, y_test = train_test_split(X, delay[rows], test_size=0.3, random_state=0)

lasso = LassoCV(cv=3, alphas=12, eps=0.04, n_jobs=2)
models = {
    "lasso alone": make_pipeline(StandardScaler(), lasso),
    f"SIS({KEEP}) → lasso": make_pipeline(SIS(KEEP), StandardScaler(), lasso),
    f"BanditSIS({KEEP}) → lasso": make_pipeline(BanditSIS(KEEP, random_state=0), StandardScaler(), lasso),
}
print(f"{len(X_train):,} flights × {X.shape[1]:,} features; R² on {len(X_test):,} test flights")
print(f"{'model':24} {'R²':>6} {'features':>9} {'seconds':>8}")
for name, model in models.items():
    started = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - started
    used = np.count_nonzero(model[-1].coef_)
    print(f"{name:24} {r2_score(y_test, model.predict(X_test)):6.3f} {used:9,} {seconds:8.1f}")
