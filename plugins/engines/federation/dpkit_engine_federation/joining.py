"""From a plan to the release of a federation: terms, the plan with spare attempts, the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from dpkit_cli.planfile import plan_document, plan_from_document

from dpkit_core import AnyDataset, Neighboring, Pipeline, Plan, Randomness, Release
from dpkit_core.errors import CannotCompose, Declined, InvalidOption, InvalidRelease
from dpkit_core.files.documents import digest
from dpkit_core.ledger.ledger import Payer
from dpkit_core.pipeline.runner import rehearse
from dpkit_core.privacy.events import (
    Gaussian,
    NonSphericalGaussian,
    PoissonSampled,
    expand,
    is_exact,
)
from dpkit_engine_federation.keys import Identity
from dpkit_engine_federation.party import Participant
from dpkit_engine_federation.terms import Terms
from dpkit_engine_federation.transport import Transport

# The budget is used to a thousandth: each halving is a plan.
_HALVINGS = 10


def agree(
    plan: Plan,
    parties: Mapping[str, str],
    *,
    server: str,
    address: str = "",
    colluders: int = 1,
    least: int = 3,
    patience: float = 60.0,
    spare: int = 2,
) -> Terms:
    """Return the terms of a plan among parties, name -> public key; the rest is as of ``Terms``.

    The plan is made again for less, so that with ``spare`` attempts it costs what its budget allows. An
    attempt costs at most the dearest event of the plan, on a sample or not, and both are charged for each.
    There are no more of them than parties that may be missing, and none where features are selected first:
    which of two stages an attempt is made in is not known.

    Raises
    ------
    CannotCompose
        If a part does not add up over parties, with every reason.
    InvalidOption
        If the terms protect nobody.
    """
    if problems := list(_problems(plan)):
        raise CannotCompose(str(plan.assembly), problems)
    # Each void attempt is one without a party.
    spare = 0 if plan.assembly.selection is not None else min(spare, max(len(parties) - least, 0))
    terms = Terms(
        parties, server, address, colluders, least, patience, spare, budget=plan.budget, plan={"events": []}
    )
    return attrs.evolve(terms, plan=plan_document(_leaving_room(plan, spare)))


def _leaving_room(plan: Plan, spare: int) -> Plan:
    """Return the plan, made again for so much less that spare attempts fit into its budget."""
    if not spare:
        return plan
    pipeline, within, beyond = Pipeline(plan.assembly), 0.0, plan.budget.epsilon
    best: Plan | None = None
    for _ in range(_HALVINGS):
        middle = (within + beyond) / 2
        candidate = pipeline.plan(plan.schema, attrs.evolve(plan.budget, epsilon=middle))
        total = candidate.with_spare(spare, plan.budget).epsilon
        if total is not None and total <= plan.budget.epsilon:
            within, best = middle, candidate
        else:
            beyond = middle
    if best is None:
        raise CannotCompose(str(plan.assembly), [f"the budget is too small for {spare} spare attempts"])
    return best


def _problems(plan: Plan) -> Iterator[str]:
    """Yield why a plan cannot be run by several parties."""
    for part in plan.parts[:-1]:
        if not getattr(part.instance, "additive", False):
            yield (
                f"{part} does not declare that what it releases, with these options, adds up over parties "
                "(additive)"
            )
    if plan.iterates is not None:
        yield "several parties cannot drop features while they fit"
    if not all(_is_sum(event) for event in _singles(plan)):
        yield "it plans noise other than Gaussian noise on sums, which parties cannot draw in shares"
    if plan.schema.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
        yield "the relation must be add-remove: parties do not know the number of all records"
    if plan.schema.unit is not None:
        yield "the schema has a unit, whose records may be at several parties"
    if plan.batches != 1 or plan.evaluation is not None:
        yield "several parties can run neither batches nor an evaluation"


def _is_sum(event: object) -> bool:
    """Return whether an event is Gaussian noise on as many numbers as it says, or that on a sample.

    Of one on a sample the meter gives nothing but sums of rows, whose sample it draws itself.
    """
    if isinstance(event, PoissonSampled):
        return is_exact(event) and _is_sum(event.event)
    if not isinstance(event, Gaussian | NonSphericalGaussian):
        return False
    return is_exact(event) and event.shape is not None


def _singles(plan: Plan) -> Iterator[object]:
    return (single for stage in plan.stages for single in expand(stage.plan.events))


def plan_of(terms: Terms) -> Plan:
    """Return the plan of the terms with its spare attempts, made again by the parts that are installed here.

    Raises
    ------
    Declined
        If these are of other versions, whose sums need not fit those of the others.
    CannotCompose, InvalidRelease
        If the plan is none for several parties, or not what these parts plan.
    """

    def refuse(difference: str) -> None:
        raise Declined(f"{difference}. All parties need the same versions; nothing is spent")

    plan = plan_from_document(terms.plan, "the plan in the terms", report=refuse)
    if problems := list(_problems(plan)):
        raise CannotCompose(str(plan.assembly), problems)
    whole = plan.with_spare(terms.spare, terms.budget) if terms.spare else plan
    within = whole.epsilon is not None and whole.epsilon <= terms.budget.epsilon
    if not within or plan.budget.delta != terms.budget.delta:
        raise InvalidRelease(
            f"the plan and {terms.spare} spare attempts cost epsilon {whole.epsilon}, and the terms allow "
            f"{terms.budget.epsilon:g}; make terms again with `dpkit federate plan`"
        )
    return whole


def _require_plan_of(terms: Terms, plan: Plan) -> None:
    """Raise unless a plan is that of the terms with its spare attempts, for which its last events pay."""
    found, agreed = plan_document(plan), terms.plan
    events = found["events"][: len(agreed["events"])]
    spare = 0 if plan.spare is None else plan.spare.attempts
    if spare != terms.spare or digest([found["schema"], events]) != digest(
        [agreed["schema"], list(agreed["events"])]
    ):
        raise InvalidOption("the plan is not that of the terms; give plan_of(terms), or leave it out")


def join(
    data: AnyDataset,
    terms: Terms,
    *,
    identity: Identity,
    transport: Transport,
    plan: Plan | None = None,
    seed: int | None = None,
    paid_by: Payer | None = None,
    randomness: Randomness | None = None,
    **options: Any,
) -> Release:
    """Return the release of all parties' records, which is the same model at each of them.

    What the plan costs is charged to this party's own account, in full, when all have met and before anything
    is computed.

    Parameters
    ----------
    data
        This party's own records.
    terms
        What was agreed on.
    identity
        The party's key, which says who of the terms it is.
    transport
        How it reaches the others.
    plan
        What ``plan_of`` returned of the terms, if it is at hand.
    seed
        What it adds to the public coins; from the system by default.
    paid_by
        The account that is charged.
    randomness
        Of its shares of noise; a fresh cryptographic source by default.
    options
        What else ``Plan.run`` takes.

    Raises
    ------
    InvalidOption
        If the plan is another one; nothing is spent.
    Declined
        If the account cannot pay, or the parties do not meet; nothing is spent.
    InvalidData
        If the records do not fit the plan; nothing is spent.
    EngineFailed
        If too few are left, or the server is away; what was charged stays charged.
    """
    if plan is None:
        plan = plan_of(terms)
    else:
        _require_plan_of(terms, plan)
    name = terms.name_of(identity.public)
    if name is None:
        raise Declined(f"the terms name other keys, of {', '.join(terms.parties)}; nothing is spent")
    try:
        rehearse(plan, data, randomness=randomness, paid_by=paid_by)
        member = Participant(terms, name, identity, transport, seed=seed)
        return plan.run(data, randomness=randomness, paid_by=paid_by, joint=member, **options)
    finally:
        transport.leave(name)
