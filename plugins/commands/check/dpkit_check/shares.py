"""What one record costs in all the draws of a run, by how far it moves each of them.

Noise for values that move by a share s of their sensitivity is Laplace noise of epsilon s / m, and Gaussian
noise of mu s / m. Of the first the sums count, of the second the sums of squares. So where draws are charged
as those of sets that have no record in common, all of them together may cost one record what one set does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_check.drive import draws
from dpkit_check.replay import Transcript
from dpkit_core.privacy import events
from dpkit_core.privacy.events import Disjoint, Event
from dpkit_core.protocols import StagePlan

_Costs: TypeAlias = npt.NDArray[np.float64]
"""Of pure and of Gaussian noise: these add up, and are not weighed against each other."""


def shares_moved(first: Transcript, second: Transcript) -> list[float]:
    """Return by which share of its sensitivity each draw moves between two runs."""
    shares = [0.0] * len(first.asked)
    for number, _, moved, sensitivity in first.moves(second):
        shares[number - 1] = max(0.0, moved / sensitivity)
    return shares


def spent_in_sets(plan: StagePlan, shares: Sequence[float]) -> float:
    """Return how many times what is planned for one of several sets their draws cost together, at worst.

    A mechanism may be asked about more than once, or for several picks: then no draw is one event, and
    nothing is said.
    """
    if len(shares) != draws(plan):
        return 0.0
    left = iter(shares)
    return max((_spent(event, left).worst for event in plan.events), default=0.0)


@attrs.frozen(eq=False)
class _Spent:
    """What a record costs in an event at the shares it moves, and at most; and the worst set inside."""

    reached: _Costs
    planned: _Costs
    worst: float = 0.0


def _spent(event: Event, shares: Iterator[float]) -> _Spent:
    """Return what the next draws cost, which are those of ``event``.

    Noise for values that move by a share s of their sensitivity is Laplace noise of epsilon s / m, and
    Gaussian noise of mu s / m: of the first the sums count, of the second the sums of squares.
    """
    match event:
        case events.Laplace():
            spent = _leaf(1 / event.noise_multiplier, 0.0, next(shares, 0.0))
        case events.ExponentialMechanism() | events.PermuteAndFlip():
            spent = _leaf(event.epsilon, 0.0, next(shares, 0.0))
        case events.Gaussian():
            spent = _leaf(0.0, event.noise_multiplier**-2, next(shares, 0.0))
        case events.Repeated():
            spent = _in_all([_spent(event.event, shares) for _ in range(event.count)])
        case events.Sequence():
            spent = _in_all([_spent(inner, shares) for inner in event.events])
        case Disjoint():
            sets = [_spent(event.event, shares) for _ in range(event.parts)]
            together, planned = _in_all(sets), sets[0].planned
            ratio = np.divide(together.reached, planned, out=np.zeros(2), where=planned > 0)
            spent = _Spent(together.reached, planned, max(together.worst, float(ratio.max())))
        case _:
            # What Filtered costs is in the accounts of records; of other noise the values are not seen.
            for _ in events.expand((event,)):
                next(shares, 0.0)
            spent = _Spent(np.zeros(2), np.zeros(2))
    return spent


def _leaf(pure: float, gaussian: float, share: float) -> _Spent:
    planned = np.array([pure, gaussian])
    return _Spent(planned * [share, share**2], planned)


def _in_all(spent: Sequence[_Spent]) -> _Spent:
    return _Spent(
        np.sum([one.reached for one in spent], axis=0),
        np.sum([one.planned for one in spent], axis=0),
        max((one.worst for one in spent), default=0.0),
    )
