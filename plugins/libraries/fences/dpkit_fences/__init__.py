"""Where the values of columns lie: private fences, reaches and quantiles, and scales by public bounds."""

from dpkit_fences.fences import Fences as Fences
from dpkit_fences.scaling import PublicScaling as PublicScaling

__all__ = ["Fences", "PublicScaling"]
