"""The stages of DPKendall's published code: SciPy for each pair, scikit-learn for each small model.

python tests/benchmarks/published.py TABLE K
"""

import sys

import numpy as np
import pandas as pd
from scipy.stats import kendalltau
from sklearn.linear_model import LinearRegression

table = pd.read_parquet(sys.argv[1])
y = table.pop("y").to_numpy()
X, k = table.to_numpy(), int(sys.argv[2])
rng = np.random.default_rng(0)
selected: list[int] = []
penalty = np.zeros(X.shape[1])
label = np.array([abs(kendalltau(x, y).statistic) for x in X.T])
for _ in range(k):
    scores = label - penalty / max(len(selected), 1) + rng.gumbel(size=len(label)) / len(y)
    scores[selected] = -np.inf
    selected.append(int(scores.argmax()))
    if len(selected) < k:
        penalty += [abs(kendalltau(x, X[:, selected[-1]]).statistic) for x in X.T]
models = np.array(
    [
        LinearRegression().fit(X[at : at + k + 3, selected], y[at : at + k + 3]).coef_
        for at in range(0, len(y) - k - 3, k + 3)
    ]
)
# Depths of the models, by the ranks of each coefficient, from which one is drawn.
ranks = models.argsort(axis=0).argsort(axis=0)
print(models[np.minimum(ranks, len(models) - 1 - ranks).min(axis=1).argmax()])
