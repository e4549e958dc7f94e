"""Private selection, regression and classification as scikit-learn estimators.

Each ``fit`` is a run: it spends ``epsilon`` and ``delta`` of its table's budget.
"""

from dpkit_sklearn.classifier import PrivateClassifier as PrivateClassifier
from dpkit_sklearn.export import as_estimator as as_estimator
from dpkit_sklearn.folds import SearchPlan as SearchPlan
from dpkit_sklearn.notices import ExactScore as ExactScore
from dpkit_sklearn.notices import ExactStep as ExactStep
from dpkit_sklearn.notices import RefusedFit as RefusedFit
from dpkit_sklearn.notices import UnpaidFits as UnpaidFits
from dpkit_sklearn.onnx_export import as_onnx as as_onnx
from dpkit_sklearn.regressor import PrivateRegressor as PrivateRegressor
from dpkit_sklearn.search import PrivateSearchCV as PrivateSearchCV
from dpkit_sklearn.select_k_best import PrivateSelectKBest as PrivateSelectKBest

__all__ = [
    "ExactScore",
    "ExactStep",
    "PrivateClassifier",
    "PrivateRegressor",
    "PrivateSearchCV",
    "PrivateSelectKBest",
    "RefusedFit",
    "SearchPlan",
    "UnpaidFits",
    "as_estimator",
    "as_onnx",
]
