"""Lines between clips as models of dpkit; ``intervals`` says how certain their coefficients are."""

from dpkit_model_lines.model import RowClippedLinearModel as RowClippedLinearModel
from dpkit_model_lines.model import WinsorizedLinearModel as WinsorizedLinearModel
from dpkit_model_lines.moments import NoisyMoments as NoisyMoments

__all__ = ["NoisyMoments", "RowClippedLinearModel", "WinsorizedLinearModel"]
