"""Sums of trees as models of dpkit; ``drawing`` has the random trees that parts release sums over."""

from dpkit_model_trees.importances import Importance as Importance
from dpkit_model_trees.importances import Noise as Noise
from dpkit_model_trees.model import ClassTreesModel as ClassTreesModel
from dpkit_model_trees.model import TreesModel as TreesModel

__all__ = ["ClassTreesModel", "Importance", "Noise", "TreesModel"]
