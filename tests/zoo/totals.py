"""Lies about what is kept: books that change, depend on order or say two things, and events left unspent."""

from __future__ import annotations

from typing import Any

import attrs

from dpkit_core.mechanisms.picks import plan_picks
from dpkit_core.privacy.composition import pair_of
from dpkit_core.privacy.events import ExponentialMechanism
from zoo.rows import lie, whole
from zoo.twins import Curves, Peel, Picks, Sums, an_exponential


@lie("supports_tells_the_truth")
class SaysThatItSupports(Sums):
    """Every event is said to be supported, also those without an epsilon."""

    def supports(self, event, /):
        return True


@lie("supports_tells_the_truth", "slow")
class PassesOver(Sums):
    """Events without an epsilon are passed over at no cost, rather than refused."""

    def compose(self, event, count=1, /):
        refused = event.neighboring is not self.neighboring
        return super().compose(event, count) if refused or self.supports(event) else self


@lie("repetition_is_a_loop")
class LastCountsTwice(Sums):
    """The last event is counted twice, which is an upper bound, and another one in another order."""

    def totals(self):
        total, leaked = super().totals()
        return total + (self.pair(self.spent[-1][0])[0] if self.spent else 0.0), leaked


@lie("never_below_the_exact_law")
class HalfOfTheLeak(Sums):
    """Asked for delta, it says half of what it must be given to say an epsilon."""

    def delta(self, epsilon, /):
        said = super().delta(epsilon)
        return said / 2 if said < 1 else said


@lie("every_branch_keeps_the_law")
class DearerAtLargeDelta(Curves):
    """Above a delta of a thousandth epsilon is doubled."""

    def epsilon(self, delta, /):
        return super().epsilon(delta) * (2 if delta > 1e-3 else 1)


@whole("dry_runs_change_nothing")
class OneBook(Sums):
    """All accountants that come from one share a list of what was spent."""

    book: Any = attrs.field(factory=list, kw_only=True, eq=False, metadata={"state": True})

    def compose(self, event, count=1, /):
        after = super().compose(event, count)
        self.book.append((event, count))
        return after

    def totals(self):
        costs = [(*pair_of(event), count) for event, count in self.book]
        return sum(e * n for e, _, n in costs), self.leaked(d * n for _, d, n in costs)


@whole("dry_runs_change_nothing", "slow")
class NewWhenSent(Sums):
    """Copied, or sent to another process, it has spent nothing."""

    def __reduce__(self):
        return type(self), (self.neighboring,)


@whole("noise_is_the_same_for_neighbors")
class PaysForOneMore(Picks):
    """One pick more than is made is planned, and never drawn."""

    proof, reference = Peel.proof, Peel.reference

    def plan(self, request, /):
        plan = plan_picks(request, ExponentialMechanism)
        return attrs.evolve(plan, events=(*plan.events, plan.events[-1]))

    def picked(self, scores, k, plan, meter):
        epsilon = plan.settings.epsilon_per_pick
        event = an_exponential(epsilon, scores.round.sensitivity, scores.values.size)
        return meter.select(scores, k, event=event)
