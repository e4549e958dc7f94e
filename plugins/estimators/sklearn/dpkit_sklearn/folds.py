r"""The cost of a private search over candidates: each record is in all training sets but one.

*Mechanism.* Each record draws one of k folds, uniformly and independently of everything. Each of C candidates
is fitted k times, by a private run on the records outside one fold. Each record in the fold gives the fitted
model a gain: 1 - min(1, ((y - prediction) / bound)^2), rounded down to a multiple of 2^-16, or 0 if the fit
was refused or the prediction is not finite. For several classes, it is 1 minus half the squared distance of
the probabilities from the class. A candidate's score is the sum of its gains over all records, and one
private selection releases a candidate. Models and scores are discarded.

*Theorem.* If every fit is M_c-private for its plan's events, the whole costs no more than

    k - 1 times the events of each candidate's fit, and the selection,

at scores with L-infinity sensitivity 1; their range sensitivity is 1 under add/remove and 2 under
replace-one. Under add/remove there is an additional delta of 2^-99, for tables of 100 records or more.

*Proof.* Let D' be D with one record more, r, or with r in another one's place. Couple the folds of all other
records, which changes neither distribution, because folds are drawn independently; and fix the fold m of r,
the same for both under replace-one. Given these,

1. training tables: the one outside fold m does not contain r, so its C fits have the same distribution. The
other k - 1 differ
   by r, so each of their C (k - 1) fits is one run of its plan on neighboring tables, and they compose as any
   sequence of mechanisms does (Dong, Roth and Su 2022, Theorem 4; Mironov 2017, Proposition 1).
2. scores: given all fitted models and folds, a score is a sum over records of a function of the record. r
   adds its gain in fold m, from 0 to 1, to each: all scores rise, by at most 1. Where r replaces another, a
   score moves by the difference of two gains, at most 1 either way, and two scores by at most 2 apart.

The bound does not depend on m. The output is a mixture over m and the other folds with the same weights for D
and D', and neither a hockey-stick divergence nor a moment of the likelihood ratio of two mixtures with the
same weights exceeds the largest of their components. Under add/remove, D is the same for all m.

*Empty tables.* A run refuses a table without records, and no event accounts for that refusal. For D with n
records, all training tables of D and D' have one unless all n are in one fold: k^(1 - n) <= 2^-99 for n >=
100. For replace-one, both are refused alike.

*Units.* Where the schema has a unit, each unit draws one fold, for all its records, and D' is D with all
records of one unit u more, of which m are kept at most. Couple the folds of all other units, and fix that of
u. What is kept of other units is the same, so

1. training tables: the one outside the fold of u is the same in D and D'. The other k - 1 differ by up to m
   records, so each fit costs its events for m records at once (``dpkit_core.privacy.units``). A coin for each
   record would leave records of u in all k tables, and cost k times that.
2. scores: u adds up to m gains to each, so that all rise by at most m: the selection for m records at once.

A training table of D, which has U units, is empty if all are in one fold: k^(1 - U) <= 2^-99 for U >= 100.
With n kept records U may be n / m, rounded up: the bound is k^(1 - n / m) then, which n = 100 does not make
small (.016 at k = 2, m = 16, and 1 at m = 100); 100 m records would. So units are counted, not records. The
event of 2^-99 is in the sequence of events about a record, and is charged m-fold like the rest.

*What this does not cover.* Folds of equal size, or by position, or by a shuffle: removing one record would
change the folds of others under add/remove. Nor is the cost that of k fits, as for cross-validation without
knowledge of the folds.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Accountant,
    AnyDataset,
    Block,
    Certificate,
    Column,
    Dataset,
    Matrix,
    Meter,
    Neighboring,
    Plan,
    Randomness,
    Release,
    Sampler,
    Schema,
    Scorer,
    Sensitivity,
    StagePlan,
    Sum,
    Vector,
    __version__,
    compose,
    fixed_scores,
)
from dpkit_core.arrays import Booleans, Integers
from dpkit_core.data.columns import Unit
from dpkit_core.errors import CannotCompose, InvalidData
from dpkit_core.pipeline.choose import fallback, preferred, unknown_to
from dpkit_core.pipeline.parts import Part, make_part
from dpkit_core.pipeline.plan import protected
from dpkit_core.privacy.budget import Budget, rounded_up
from dpkit_core.privacy.events import ApproxDP, Event, priced
from dpkit_core.privacy.units import grouped
from dpkit_core.release.certificate import StageEvent, Witness

PROOF = "dpkit_sklearn.folds"

#: A gain is a whole number of these, so that sums of up to 2^37 records are exact in float64.
STEPS = 2**16

#: The number of records, or of units, from which on the bound on an empty training table is proved.
LEAST_RECORDS = 100
EMPTY = 2.0**-99

#: An event needs an epsilon besides that delta, though none is spent.
NO_EPSILON = 1e-12

FOLDS = "the folds are drawn record by record, and who is in which is not published"
ENOUGH = f"that the table has {LEAST_RECORDS} records or more is public"
FOLDS_BY_UNIT = "the folds are drawn by {}, with all its records in one, and in which is not published"
ENOUGH_UNITS = f"that the table has complete records of {LEAST_RECORDS} different {{}} or more is public"


@attrs.frozen
class TotalGain:
    """Scores candidates by the sum of their columns, of numbers from 0 to 1, in steps of 2^-16.

    Values outside are clipped to 0 or 1.

    *Sensitivity, add/remove.* A record adds from 0 to 1 to each sum: 1, with range 1, since all rise.
    *Replace-one.* The difference of two such contributions: 1, with range 2. All bounds are attained. Sums of
    whole steps are exact below 2^37 records.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = f"{PROOF}.TotalGain"
    reference: ClassVar[str] = "none: a sum of bounded numbers"
    most_records: ClassVar[int] = 2**37

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 1) under add/remove and 1 (range 2) under replace-one."""
        if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(
        self, data: AnyDataset, plan: StagePlan, meter: Meter, /
    ) -> Callable[[Sequence[int]], Vector]:
        """Return the sum of each column."""
        total = data.sum(Sum(_whole, (len(data.features),), bound=STEPS))
        return fixed_scores(np.asarray(total / STEPS, dtype=np.float64))


def _whole(block: Block) -> Integers:
    return np.floor(np.clip(block.X, 0.0, 1.0) * STEPS).sum(axis=0)


_: type[Scorer] = TotalGain


@attrs.frozen
class SearchPlan:
    """What a search will spend, and on what.

    Attributes
    ----------
    candidates
        The parameters of each candidate.
    fits
        The plan of one fit of each candidate.
    refits
        The plan of the last fit for each candidate; empty without a last fit.
    folds
        Number of folds.
    comparison
        The private selection of a candidate.
    accountant
        The accountant of the search.
    schema
        The public facts about the table.
    epsilon, delta
        Cost of fits and comparison together.
    """

    candidates: tuple[Mapping[str, Any], ...]
    fits: tuple[Plan, ...]
    refits: tuple[Plan, ...]
    folds: int
    comparison: Plan
    accountant: Part[Accountant]
    schema: Schema
    delta: float
    epsilon: float

    @classmethod
    def of(
        cls,
        candidates: tuple[Mapping[str, Any], ...],
        fits: tuple[Plan, ...],
        refits: tuple[Plan, ...],
        *,
        folds: int,
        comparison: tuple[str, float],
        accountant: str | None,
        schema: Schema,
        delta: float | None,
    ) -> SearchPlan:
        """Return the plan of a search.

        Parameters
        ----------
        candidates, fits, refits, folds, schema
            As they are kept.
        comparison
            Name of a selector, and the epsilon of the selection of a candidate.
        accountant
            Its name; None for the default.
        delta
            Delta of the total; by default the sum over all fits.

        Raises
        ------
        CannotCompose
            If a fit is not private, or there is no finite total.
        """
        what = f"a search over {len(candidates)} candidates in {folds} folds"
        reasons = [f"candidate {c}: {reason}" for c, plan in enumerate(fits) for reason in plan.reasons]
        if reasons:
            raise CannotCompose(what, reasons)
        selector, epsilon = comparison
        names = [f"candidate {c}" for c in range(len(candidates))]
        compared = compose(scorer=TotalGain(), selector=selector, accountant=accountant).plan(
            gains_schema(names, schema.neighboring, schema.unit), Budget(epsilon), k=1
        )
        if delta is None:
            # A geometric sum whose ratio is 1 + 1e-12: twice the number of its terms is ample.
            empty = EMPTY if schema.records_of_a_unit == 1 else 2 * schema.records_of_a_unit * EMPTY
            delta = (folds - 1) * sum(plan.budget.delta for plan in fits) + empty
        plan = cls(candidates, fits, refits, folds, compared, compared.accountant, schema, delta, 0.0)
        events = plan.charged
        part: Part[Accountant]
        if accountant is None:
            last = [event for refit in refits for event in plan.charged_for(refit)]
            part = _default_accountant([*events, *last], schema.neighboring)
        else:
            part = make_part("accountant", accountant, {"neighboring": schema.neighboring})
        plan = attrs.evolve(plan, accountant=part)
        if (unknown := unknown_to(part, events)) is not None:
            raise CannotCompose(what, [f"accountant {unknown}"])
        total = plan.total_of(events, delta)
        if not np.isfinite(total):
            raise CannotCompose(what, [f"there is no finite epsilon at delta {delta}; allow a larger delta"])
        return attrs.evolve(plan, epsilon=total)

    @property
    def charged(self) -> list[Event]:
        """The events of fits and comparison, each for all records of a unit at once."""
        return [grouped(item.event, self.schema.records_of_a_unit) for item in self.events]

    def charged_for(self, plan: Plan) -> list[Event]:
        """Return the events of another run on the same table, likewise."""
        return [grouped(item.event, self.schema.records_of_a_unit) for item in plan.events]

    def total_of(self, events: list[Event], delta: float) -> float:
        """Return epsilon at ``delta`` of all these events together, as ``charged`` has them."""
        accountant = self.accountant.instance
        for event in events:
            accountant = accountant.compose(priced(event))
        return accountant.epsilon(delta)

    @property
    def events(self) -> tuple[StageEvent, ...]:
        """What one record pays for: all fits but one of each candidate, and the comparison.

        Of a unit, each is charged for its records together.
        """
        each = [
            StageEvent(f"fits of candidate {c}", item.event)
            for c, plan in enumerate(self.fits)
            for _ in range(self.folds - 1)
            for item in plan.events
        ]
        compared = [StageEvent("comparison", item.event) for item in self.comparison.events]
        empty = []
        if self.schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            empty = [StageEvent("folds", ApproxDP(NO_EPSILON, EMPTY, self.schema.neighboring, proof=PROOF))]
        return (*each, *empty, *compared)

    @property
    def together(self) -> Budget:
        """The total with the last fit, for any candidate.

        The candidate follows from what was released. So the largest of the totals for single candidates is
        no bound: after high losses it may be the fit that is worse after high losses, and another one after
        low ones. Unless all plans are equal, the last fit is accounted as a mechanism of the largest epsilon
        and the largest delta of all.
        """
        events = self.charged
        last = max((plan.budget.delta for plan in self.refits), default=0.0)
        delta = self.delta + last
        refits = [self.charged_for(plan) for plan in self.refits] or [[]]
        if all(refit == refits[0] for refit in refits):
            return Budget(self.total_of([*events, *refits[0]], delta), delta)
        largest = max(math.inf if plan.epsilon is None else plan.epsilon for plan in self.refits)
        added = self.epsilon + largest
        any_of_them = ApproxDP(largest, last, self.schema.neighboring, proof=PROOF)
        if self.accountant.instance.supports(any_of_them):
            added = min(added, self.total_of([*events, any_of_them], delta))
        return Budget(math.nextafter(added, math.inf), delta)

    def __str__(self) -> str:
        fits, last = len(self.fits), self.together
        unit = self.schema.unit
        whose = "Each record is" if unit is None else f"The records of one {unit} are"
        once = "is compared once" if unit is None else "are compared once"
        lines = [
            f"{whose} in {self.folds - 1} of {self.folds} fits of each of {fits} candidates, and {once}.",
            *(
                f"Candidate {c}, {shown(params)}: epsilon {rounded_up(plan.epsilon or 0.0, 4)}, delta "
                f"{rounded_up(plan.budget.delta, 3)} for one fit."
                for c, (params, plan) in enumerate(zip(self.candidates, self.fits, strict=True))
            ),
            f"Comparison: epsilon {rounded_up(self.comparison.epsilon or 0.0, 4)}.",
            f"Together: epsilon {rounded_up(self.epsilon, 6)} at delta {rounded_up(self.delta, 3)}, by "
            f"accountant {self.accountant.name}, {protected(self.schema)}.",
        ]
        if self.refits:
            lines.append(
                f"With the last fit, at most: epsilon {rounded_up(last.epsilon, 6)} at delta "
                f"{rounded_up(last.delta, 3)}."
            )
        wrapped = [textwrap.fill(line, 80, initial_indent="  ", subsequent_indent="    ") for line in lines]
        return "\n".join(["Search", *wrapped])

    def certificate(self, releases: tuple[Release, ...] = (), witness: Witness | None = None) -> Certificate:
        """Return the certificate of fits and comparison; before the run, as far as it is known.

        Parameters
        ----------
        releases
            The releases of the runs.
        witness
            The witness of the charge.
        """
        plans = (*self.fits, self.comparison)
        theirs = [release.certificate for release in releases]
        reasons = [reason for each in theirs for reason in each.reasons]
        parts = [record for plan in plans for record in plan.records if record.role != "accountant"]
        assumptions = [sentence for plan in plans for sentence in plan.assumptions]
        if (unit := self.schema.unit) is not None:
            assumptions += [FOLDS_BY_UNIT.format(unit), ENOUGH_UNITS.format(unit)]
        else:
            added = self.schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE
            assumptions += [FOLDS, *([ENOUGH] if added else [])]
        return Certificate(
            private=not reasons,
            reasons=tuple(dict.fromkeys(reasons)),
            epsilon=self.epsilon,
            delta=self.delta,
            neighboring=self.schema.neighboring,
            accountant=self.accountant.name,
            events=self.events,
            parts=(*(part for i, part in enumerate(parts) if part not in parts[:i]), self.accountant.record),
            assumptions=tuple(dict.fromkeys(assumptions)),
            randomness=theirs[0].randomness if theirs else "",
            arithmetic=tuple(dict.fromkeys(word for each in theirs for word in each.arithmetic)),
            schema=self.schema,
            budget=Budget(self.epsilon, self.delta),
            outcome="released",
            dpkit=__version__,
            witness=witness,
        )


def shown(params: Mapping[str, Any]) -> str:
    """Return the parameters of a candidate as text."""
    return ", ".join(f"{name} = {value}" for name, value in params.items()) or "as it is"


def gains_schema(names: list[str], relation: Neighboring, unit: Unit | None = None) -> Schema:
    """Return the schema of a table of gains: one column per candidate, from 0 to 1, and no target."""
    columns = [Column(name, lower=0.0, upper=1.0) for name in names]
    return Schema(tuple(columns), Column("nothing", lower=0.0, upper=1.0), relation, unit=unit)


def fold_schema(schema: Schema) -> Schema:
    """Return the schema of the records outside a fold, whose number is private."""
    return attrs.evolve(schema, records=None)


def folds_of(data: Dataset, folds: int, randomness: Randomness) -> Integers:
    """Return the fold of each record: one draw for each unit, or for each record without one.

    Raises
    ------
    InvalidData
        If there are fewer of them than the proof requires.
    """
    if data.unit is None:
        return drawn_folds(data.records, folds, randomness)
    units, whose = np.unique(data.whose, return_inverse=True)
    of_units = drawn_folds(len(units), folds, randomness, f"complete records of fewer than {{}} {data.unit}")
    found: Integers = of_units[whose]
    return found


def drawn_folds(
    number: int, folds: int, randomness: Randomness, too_few: str = "fewer than {} records"
) -> Integers:
    """Return the fold of each of ``number``, drawn independently of all others and of the data.

    Raises
    ------
    InvalidData
        If there are fewer than the proof requires.
    """
    if number < LEAST_RECORDS:
        raise InvalidData(
            f"the table has {too_few.format(LEAST_RECORDS)}, the least for which folds are proved; fit "
            "one model without a search"
        )
    return Sampler(randomness.stream("folds")).integers(folds, size=number)


def rows(data: Dataset, keep: Booleans) -> Dataset:
    """Return some records."""
    whose = data.whose if data.unit is None else data.whose[keep]
    return attrs.evolve(data, X=data.X[keep], y=data.y[keep], whose=whose)


def gains(release: Release, data: Dataset, bound: float) -> Vector:
    """Return one gain from 0 to 1 for each record, 0 without a prediction.

    Parameters
    ----------
    release
        A released model, or a refusal.
    data
        Records that the model has not seen.
    bound
        The error from which on the gain is 0, in units of the target as the schema transforms it; public.
    """
    if release.model is None:
        return np.zeros(data.records)
    places = {name: j for j, name in enumerate(data.names)}
    X: Matrix = data.X[:, [places[name] for name in release.model.features]]
    with np.errstate(all="ignore"):
        predicted = release.model.predict(X)  # data sets and their targets are transformed already
        if predicted.ndim == 2:  # probabilities of classes, which count from 1
            truth = data.y[:, np.newaxis] == np.arange(1, predicted.shape[1] + 1)
            error = np.square(truth - predicted).sum(axis=1) / 2
        else:
            error = np.square((data.y - predicted) / bound)
    return np.where(np.isfinite(error), 1.0 - np.minimum(error, 1.0), 0.0)


def compare(plan: SearchPlan, table: Matrix, randomness: Randomness | None = None) -> Release:
    """Return the release of the best candidate's name.

    Parameters
    ----------
    plan
        Of the search.
    table
        Gains, one row per record and one column per candidate.
    randomness
        As ``Plan.run`` takes it.
    """
    schema = plan.comparison.schema
    data = Dataset.from_arrays(table, np.zeros(len(table)), attrs.evolve(schema, unit=None))
    # The rows are those of records that are kept, so no unit has more than are allowed.
    return plan.comparison.run(attrs.evolve(data, unit=schema.unit), randomness=randomness)


def _default_accountant(events: Iterable[Event], neighboring: Neighboring) -> Part[Accountant]:
    """Return the accountant of events that are known already."""
    accountant, _ = preferred(neighboring)
    if accountant is not None and unknown_to(accountant, events) is None:
        return accountant
    return fallback(neighboring)
