r"""How much noise each party adds, and how large a value it may send.

Let k parties be in a room, of which t or fewer collude, the server with them. What a coalition learns about a
record of a party outside it is at least hidden by the shares of the h = k - t others: it can subtract its
own. Each share is a discrete Gaussian N_Z(0, s^2), and the plan claims what one of parameter S does.

*The sum of discrete Gaussians is not one.* Let h > 1 and

    eta = 10 sum_{j=1}^{h-1} exp(-2 pi^2 s^2 j / (j + 1)) <= 10 h exp(-pi^2 s^2).

The sum of h of them has, at every integer, a probability within a factor e^(+-eta) of that of N_Z(0, h s^2)
(Kairouz, Liu and Steinke 2021, "The Distributed Discrete Gaussian Mechanism", where the theorem on sums
compares the laws pointwise). So for d numbers a profile delta(epsilon) of the single law becomes at most
e^(d eta) delta(epsilon - 2 d eta).

*What pays for it.* s = 1 + ceil(S / sqrt(h)), hence s sqrt(h) >= S + 1: the multiplier of the single law is
larger than the claimed one by a relative c >= 1 / S >= 2^-50. With s >= ``LEAST_SHARE`` = 32, pi^2 s^2 >
10^4: for up to 2^10 parties and 2^30 numbers, d eta < 2^-14000. In Renyi divergence of order alpha the second
costs at most 2 d eta alpha / (alpha - 1), the first saves more than c alpha / (2 m^2) for the multiplier m <
2^50. As a profile that is a float64 between 0 and 1, the second costs at most a relative 2^-12000 (its slope
is at most 1), and the first saves a relative 2^-200. For h = 1 there is one law and nothing to pay: s = S.

*On a sample* of rate r, at least 2^-32 (below it nothing is sampled), both laws of a round are mixtures of
moved noise, so they keep the same factor. The second costs what it did. The first saves in Renyi divergence a
relative c of the divergence, which is convex in the precision (``dpkit_core.privacy.accounts``, (*)) and at
least log(1 + r^2 / m^2) > 2^-165; and the profile is r delta(log(1 + (e^epsilon - 1) / r)) or its reverse, of
the same savings.

*No sum wraps.* A value is clamped to 2^61 / k steps *before* noise is added, which is 1-Lipschitz; clamped
after, the noise of one would be cut off while that of the others hides it. So k values add up to at most
2^61, and the noise of k shares of at most 2^50 + 2 each passes 2^61 with probability below e^-4095: the total
is below 2^62, and arithmetic modulo 2^64 is exact. Were it to wrap, that would be post-processing.
"""

from __future__ import annotations

import math

import numpy as np

from dpkit_core import Integers
from dpkit_core.noise.sampler import GRID_LIMIT
from dpkit_engine_federation.terms import MOST_PARTIES

LEAST_SHARE = 32


def share_of(scale: int, members: int, colluders: int) -> int:
    """Return the parameter of each party's discrete Gaussian, in steps.

    >>> share_of(32770, members=1, colluders=0), share_of(32770, members=5, colluders=1)
    (32770, 16386)

    Parameters
    ----------
    scale
        Parameter of the discrete Gaussian that is claimed, in steps.
    members
        Those whose shares are in this very sum.
    colluders
        How many of them may pool what they know.

    Raises
    ------
    ValueError
        If nobody would be left to hide behind, or the share would be too small for the bound above.
    """
    honest = members - colluders
    if not (1 <= honest <= members <= MOST_PARTIES):
        raise ValueError(f"{members} parties of which {colluders} may collude cannot hide a record")
    if honest == 1:
        return scale
    share = math.isqrt(-(-(scale**2) // honest) - 1) + 2
    if share < LEAST_SHARE:
        raise ValueError(
            f"a share of {share} steps is below {LEAST_SHARE}, where sums are no longer Gaussian"
        )
    return share


def clamped(value: Integers, members: int) -> Integers:
    """Return what one of so many parties may add up: no sum of theirs is beyond 2^61.

    >>> clamped(np.array([2**61, -5]), 2).tolist() == [2**60, -5]
    True
    """
    limit = GRID_LIMIT // members
    return np.clip(value, -limit, limit)
