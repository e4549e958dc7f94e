r"""A stable histogram: noisy counts of the values that occur, of which those above a threshold are released.

*Counts.* Of each unit at most m different values count, m being the schema's ``most_records``, by a rule that
looks at its own records alone (``Entries.counts``). Each of its t <= m values gets the share 1 / sqrt(t), in
whole multiples of 2^-20, rounded down. Without a unit a record is one, and t is at most 1.

*Sensitivity.* One unit adds a vector of length sqrt(t (1 / sqrt(t))^2) = 1 at most in L2, whatever m is. A
record that is replaced takes 1 from one value and adds 1 to another: sqrt(2).

*Mechanism.* Every value that occurs gets discrete Gaussian noise N_Z(0, sigma^2), sigma >= s times the
sensitivity; those whose noisy count is above the threshold T are released, in the order of noisy counts.

*Leak.* Let a unit have j <= t values that nobody else has. Each passes with probability at most q_t = P(N_Z >
T - 1 / sqrt(t)), so one of them does with probability t q_t at most. With k the least whole number above the
margin, k >= 1, in multiples of 2^-20,

    P(N_Z >= k) = sum_{x >= k} e^(-x^2 / 2 sigma^2) / sum_x e^(-x^2 / 2 sigma^2) <= P(N(0, sigma^2) >= k - 1),

for the summands fall from 0 on, and the denominator is at least sqrt(2 pi) sigma by Poisson's summation
formula. ``threshold`` makes T so that t P(N(0, sigma^2) >= T - 1 / sqrt(t)) <= p for all t up to m.

*Theorem.* For tables that differ in all records of a unit the release is a post-processing of two independent
mechanisms: Gaussian noise of multiplier s, and one that is (0, p)-DP. Proof. Let K be the values that both
tables have; D has A besides, D' has B, and one of them is empty unless a record is replaced. What is released
of D is a function of a coin, "a value of A passed", of probability q_A <= p, of which values of A did, and of
the noisy counts of K; noise on A is independent of noise on K. Likewise for D' and B. The counts of K move by
at most the sensitivity. The coins, with what they show, are the pair (A with q_A, else nothing) and (B with
q_B, else nothing), of total variation max(q_A, q_B) <= p. []

That is the event ``StableHistogram``: a claim about all records of a unit, for every m at once. Which values
occur is private, and so is how many numbers are drawn; nothing but the list tells.

*Sizes.* sigma is from 2^15 to 2^50 multiples of 2^-20, so that the discrete noise is as private as the
continuous one (``dpkit_core.privacy.profiles``). Counts of at most 2^32 records are below 2^52 multiples, and
noise saturates at 2^62.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

import attrs
import numpy as np
import numpy.typing as npt
import scipy

from dpkit_command_categories.entries import UNIT, Entries, Places
from dpkit_command_categories.listed import Categories, Listed
from dpkit_core import Forecast, Meter, Neighboring, Request, Sampler, StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Event, StableHistogram

#: The part of the budget's delta that may leak; the rest is for the noise. Any share from .1 to .9 gives
#: thresholds within 3 % of each other, because quantiles hardly move.
LEAK_SHARE = 0.5
LARGEST_LEAK = 0.25

#: Bounds for sigma, in multiples of 1 / UNIT.
FINEST, COARSEST = 2**15, 2**50

#: Covers the rounding of the threshold, of quantiles and of square roots.
SLACK = 2.0**-30

#: The probability with which a forecast says that a value is found.
FOUND = 0.95

ARITHMETIC = (
    "exact discrete Gaussian noise on counts in multiples of 2^-20; how long it takes depends on how many "
    "values occur"
)


@attrs.frozen
class ListingSettings:
    """The calibrated numbers for each column; public.

    Attributes
    ----------
    event
        What one list costs.
    sigma, threshold
        Parameter of the noise and what a noisy count has to exceed, in multiples of 1 / ``UNIT``.
    """

    event: StableHistogram
    sigma: int
    threshold: int


@attrs.frozen
class CommonValues:
    """Lists the values of each column that are common enough to be told from the noise.

    Neighboring relation: both; units with any number of records. Sensitivity: 1 in L2 for all records of a
    unit, sqrt(2) for a record that is replaced; the proof is in this module.

    Events: one ``StableHistogram`` a column, with equal shares of the budget.

    Attributes
    ----------
    frequencies
        Whether the noisy counts are released beside the values, which costs nothing more.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = (Entries.form,)
    most_records: ClassVar[int] = 2**32
    proof: ClassVar[str] = "dpkit_command_categories.histogram"
    reference: ClassVar[str] = (
        "Korolova, Kenthapadi, Mishra and Ntoulas 2009, Releasing Search Queries and Clicks Privately, "
        "doi:10.1145/1526709.1526733"
    )

    frequencies: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    def plan(self, request: Request, /) -> StagePlan:
        """Return one event for each column.

        Raises
        ------
        Unsuitable
            If there is no delta, or the accountant does not support the event.
        """
        columns, relation = len(request.schema.columns), request.neighboring
        if request.budget.delta <= 0:
            raise Unsuitable(
                "values that occur are found with a delta above 0 only; give one well below 1 / records"
            )
        leak = min(request.budget.delta * LEAK_SHARE, LARGEST_LEAK) / columns
        moved = math.sqrt(2) if relation is Neighboring.REPLACE_ONE else 1.0

        def event(precision: float) -> StableHistogram:
            multiplier = max(1 / precision, 2 * FINEST / UNIT)
            return StableHistogram(multiplier, leak, relation, sensitivity=moved)

        def events(precision: float) -> list[Event]:
            return [event(precision)] * columns

        one = event(calibrate_events(events, request))
        sigma = math.ceil(Fraction(one.noise_multiplier) * Fraction(moved) * UNIT)
        if sigma > COARSEST:
            raise Unsuitable("the budget needs more noise than 64-bit integers can carry; give a larger one")
        limit = threshold(sigma, leak, request.schema.records_of_a_unit)
        return StagePlan([one] * columns, ListingSettings(one, sigma, limit), arithmetic=[ARITHMETIC])

    def forecast(self, plan: StagePlan, request: Request, /) -> Sequence[Forecast]:
        """Return how common a value must be to be found, most of the time."""
        settings = plan.settings_as(ListingSettings)
        unit = request.schema.unit
        needed = (settings.threshold + settings.sigma * float(scipy.special.ndtri(FOUND))) / UNIT
        whose = "records have it" if unit is None else f"different {unit} have it and no other value"
        return [Forecast(f"a value is listed with probability {FOUND} if {math.ceil(needed)} {whose}")]

    def fit(self, data: Entries, plan: StagePlan, meter: Meter, /) -> Categories:
        """Return the common values of each column, the most common first."""
        settings = plan.settings_as(ListingSettings)
        listed = []
        for j, column in enumerate(data.schema.columns):
            counts = data.counts(j)
            occurs = np.flatnonzero(counts)
            with meter.custom(settings.event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
                passed, noisy = above(counts[occurs], settings, sampler)
            found = sorted(
                (-int(count), data.texts[j][occurs[i]]) for i, count in zip(passed, noisy, strict=True)
            )
            listed.append(
                Listed(
                    column.name,
                    settings.sigma / UNIT,
                    settings.threshold / UNIT,
                    tuple(text for _, text in found),
                    tuple(round(-count / UNIT, 2) for count, _ in found) if self.frequencies else None,
                )
            )
        return Categories(tuple(listed))


def threshold(sigma: int, leak: float, most: int) -> int:
    """Return what a noisy count has to exceed, in multiples of 1 / ``UNIT``, so that at most ``leak`` leaks.

    The largest over t = 1, ..., most of 1 / sqrt(t) and the quantile of the noise at leak / t, rounded up.

    >>> round(threshold(4 * UNIT, 1e-7, 1) / UNIT, 1), round(threshold(4 * UNIT, 1e-7, 16) / UNIT, 1)
    (21.8, 23.0)
    """
    values = np.arange(1, most + 1)
    margins = sigma * -scipy.special.ndtri(leak / values)
    return math.ceil(float((UNIT / np.sqrt(values) + margins).max()) * (1 + SLACK)) + 1


def above(counts: Places, settings: ListingSettings, sampler: Sampler) -> tuple[npt.NDArray[np.intp], Places]:
    """Return which noisy counts are above the threshold, and these."""
    noisy = counts + sampler.discrete_gaussian(settings.sigma, len(counts))
    passed = np.flatnonzero(noisy > settings.threshold)
    return passed, noisy[passed]
