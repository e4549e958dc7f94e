"""The best class by visiting all of them: the work depends on d and k alone."""

from __future__ import annotations

import numpy as np

from dpkit_core import Sampler
from dpkit_core.arrays import Floats
from dpkit_core.noise.selection import Noise
from dpkit_selector_canonical_lipschitz.classes import (
    Utilities,
    UtilityClass,
    log_class_sizes,
)

#: Worst ranks handled at once: a few arrays of this length stay in the processor's cache.
CHUNK = 2**14


def dense_class(utilities: Utilities, noise: Noise, sampler: Sampler) -> UtilityClass:
    """Return the class with the best noisy set.

    The best noise of M sets is a function of z = E / M, for one standard exponential E.

    Arithmetic, for ``class_slack``. A log size is a sum of at most k logs, each with an absolute error of 9
    and a relative error of 8 roundings, none negative, so it is within (k + 8)(S + 1) 2^-53.
    """
    k, d, scores = utilities.k, utilities.d, utilities.ordered.all()
    best, pick = float(_as_noise(-sampler.gumbel(1), noise)[0]), UtilityClass(k - 1, k - 1)
    for start in range(k, d, CHUNK):
        worst = np.arange(start, min(start + CHUNK, d))
        tails = utilities.tails(scores[start : start + CHUNK])
        for missing, log_sizes in log_class_sizes(worst, k):
            log_z = -sampler.gumbel(worst.size) - log_sizes
            values = np.maximum(-(utilities.heads[missing] + tails), utilities.floor)
            values += _as_noise(log_z, noise)
            leader = int(values.argmax())
            if values[leader] > best:
                best, pick = float(values[leader]), UtilityClass(missing, int(worst[leader]))
    return pick


def _as_noise(log_z: Floats, noise: Noise) -> Floats:
    if noise == "gumbel":
        return -log_z
    # Below -37, -log(1 - e^-z) is -log z to within e^-37 / 2.
    # kit: unreachable, drawn with probability e^-37
    far = log_z < -37
    return np.where(far, -log_z, -np.log(-np.expm1(-np.exp(np.where(far, 0.0, log_z)))))
