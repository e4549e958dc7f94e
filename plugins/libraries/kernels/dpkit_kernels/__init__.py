"""Inner loops of parts in C, for where NumPy would read memory many times over.

Each has a counterpart in NumPy at its caller, which serves where nothing was compiled and gives the same
numbers to the last bit. So no proof depends on which of the two runs, nor on the number of threads. Two
environment variables say what to do: ``DPKIT_KERNELS`` is ``auto``, ``require`` or ``off``, for builds and
for runs, and ``DPKIT_THREADS`` is the number of threads, 1 by default.
"""

from dpkit_kernels.library import COMPILED as COMPILED
from dpkit_kernels.library import STATUS as STATUS

__all__ = ["COMPILED", "STATUS"]
