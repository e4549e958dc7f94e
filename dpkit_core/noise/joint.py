"""Noise of which several parties draw a share each, so that none of them knows a sum without noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dpkit_core.arrays import Integers
from dpkit_core.noise.randomness import Randomness


class Joint(Protocol):
    """One party among several that run one plan, each on records of its own.

    A stage meter that has one gives it what its part wants to release, and returns what it answers: the sum
    over all parties, with the noise of all. Only Gaussian noise on sums can be had.
    """

    @property
    def coins(self) -> Randomness:
        """Public coins, the same at all parties."""
        ...

    @property
    def inflation(self) -> float:
        """How many times larger the deviation of all parties' noise is than is charged for."""
        ...

    @property
    def spare(self) -> int:
        """How many events at the end of each plan pay for attempts that were void."""
        ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee rests on besides the plan's assumptions, for the certificate.

        The first begins with how many parties may share what they know: verifiers look for it.
        """
        ...

    @property
    def engine(self) -> tuple[str, str, str]:
        """What adds up where the records are: a name, a distribution and its version, for the certificate."""
        ...

    def compared(self, released: str, /) -> tuple[str, ...]:
        """Return sentences for the certificate on whether all parties computed the same.

        ``released`` is the digest of what this party releases, certificate aside: a function of totals that
        all of them have, so it tells them nothing.
        """
        ...

    def total(
        self,
        value: Integers,
        scale: int,
        noise: Callable[[int], Integers],
        attempt: Callable[[], Integers],
        /,
    ) -> Integers:
        """Return the sum of all parties' values and shares of noise.

        Parameters
        ----------
        value
            What this party adds, in steps of the grid, shape (d,).
        scale
            Parameter of the discrete Gaussian that the noise of all is to be as good as, in steps.
        noise
            Returns fresh discrete Gaussian noise of a given parameter, shape (d,).
        attempt
            Called before each attempt after the first, for it is one more release. Returns what this party
            adds to it, of a fresh sample if records are sampled; raises if no attempt is left.

        Raises
        ------
        EngineFailed
            If too few parties are left, or they do not agree.
        """
        ...
