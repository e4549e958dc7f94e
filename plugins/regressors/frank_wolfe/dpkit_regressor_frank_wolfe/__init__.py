"""Frank-Wolfe on an L1 ball: a sparse model by private choices of its vertices, as a dpkit regressor."""

from dpkit_regressor_frank_wolfe.frank_wolfe import FrankWolfeRegressor

__all__ = ["FrankWolfeRegressor"]
