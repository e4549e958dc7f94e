"""From a pipeline to the release of a federation: the plan with its spare attempts, the terms, the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from dpkit_core import AnyDataset, Budget, Neighboring, Pipeline, Plan, Randomness, Release, Schema
from dpkit_core.errors import CannotCompose, EngineFailed
from dpkit_core.ledger.ledger import Payer
from dpkit_core.privacy.events import Gaussian, expand, is_exact
from dpkit_engine_federation.party import Identity, Participant
from dpkit_engine_federation.terms import Terms, plan_digest
from dpkit_engine_federation.transport import Transport

_HALVINGS = 16


def federated(pipeline: Pipeline, schema: Schema, budget: Budget, *, spare: int = 2) -> Plan:
    """Return a plan that several parties can run together, with ``spare`` attempts beside its events.

    An attempt costs at most the dearest event of the plan, which is charged for each, void or not.

    Raises
    ------
    CannotCompose
        If a part does not add up over parties, with every reason.
    """
    plan = pipeline.plan(schema, budget)
    problems = list(_problems(plan))
    if problems:
        raise CannotCompose(str(plan.assembly), problems)
    if not spare:
        return plan
    within, beyond = 0.0, budget.epsilon
    best: Plan | None = None
    for _ in range(_HALVINGS):
        middle = (within + beyond) / 2
        candidate = pipeline.plan(schema, attrs.evolve(budget, epsilon=middle)).with_spare(spare, budget)
        if candidate.epsilon is not None and candidate.epsilon <= budget.epsilon:
            within, best = middle, candidate
        else:
            beyond = middle
    if best is None:
        raise CannotCompose(str(plan.assembly), [f"the budget is too small for {spare} spare attempts"])
    return best


def _problems(plan: Plan) -> Iterator[str]:
    """Yield why a plan cannot be run by several parties."""
    regressor = plan.assembly.regressor
    if regressor is None or plan.assembly.selection is not None:
        yield "several parties can fit a model together, and select no features yet"
    elif not getattr(type(regressor.instance), "additive", False):
        yield f"{regressor} does not declare that what it releases adds up over parties (additive)"
    if not all(is_exact(e) and type(e) is Gaussian and e.shape is not None for e in _singles(plan)):
        yield "it plans noise other than Gaussian noise on sums, which parties cannot draw in shares"
    if plan.schema.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
        yield "the relation must be add-remove: parties do not know the number of all records"
    if plan.schema.unit is not None:
        yield "the schema has a unit, whose records may be at several parties"
    if plan.batches != 1 or plan.evaluation is not None:
        yield "neither batches nor an evaluation can be had among several parties"


def _singles(plan: Plan) -> Iterator[object]:
    return (single for stage in plan.stages for single in expand(stage.plan.events))


def agree(
    plan: Plan,
    parties: Mapping[str, str],
    *,
    colluders: int = 1,
    least: int = 3,
    patience: float = 60.0,
    spare: int = 0,
) -> Terms:
    """Return the terms of a plan among parties, name -> fingerprint; see ``Terms``."""
    return Terms(parties, colluders, least, patience, spare, plan_digest(plan))


def join(
    terms: Terms,
    plan: Plan,
    data: AnyDataset,
    *,
    name: str,
    identity: Identity,
    transport: Transport,
    randomness: Randomness | None = None,
    seed: int | None = None,
    paid_by: Payer | None = None,
) -> Release:
    """Return the release of all parties' records, which is the same model at each of them.

    What the plan costs is charged to this party's own account, in full, when all have met and before anything
    is computed.

    Parameters
    ----------
    terms, plan
        What was agreed on.
    data
        This party's own records.
    name, identity
        Which party this is, and its key.
    transport
        How it reaches the others.
    randomness
        Of its shares of noise; a fresh cryptographic source by default.
    seed
        What it adds to the public coins; from the system by default.
    paid_by
        The account that is charged.

    Raises
    ------
    EngineFailed
        If the parties do not meet, or too few are left.
    """
    if plan_digest(plan) != terms.plan:
        raise EngineFailed("the terms are of another plan than this one; nothing is spent")
    try:
        member = Participant(terms, name, identity, transport, seed=seed)
        return plan.run(data, randomness=randomness, paid_by=paid_by, joint=member)
    finally:
        transport.leave(name)
