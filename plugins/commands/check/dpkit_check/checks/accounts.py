"""What an accountant promises that keeps accounts of records: nobody spends more than is claimed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from dpkit_check.check import check
from dpkit_check.trial import Evidence, Factory, NotApplicable, Trial, require
from dpkit_core.arrays import Booleans, Integers
from dpkit_core.privacy.accounts import TICKS
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Filtered, Gaussian, PoissonSampled
from dpkit_core.privacy.renyi import curve_of
from dpkit_core.protocols import Accountant, RecordAccountant
from dpkit_core.text import number_of

History = list[tuple[Integers, Booleans]]

ORDERS = tuple(float(order) for order in (2, 3, 4, 6, 8, 16, 32, 64, 128, 256))

RECORDS, ROUNDS = 40, 60

# Costs are whole parts of a round's largest, so that few curves are enough, or above it.
_PARTS = 16
_BEYOND = (TICKS + 1, 2 * TICKS, 9 * TICKS)


@check("privacy", kinds=("accountant",))
def check_no_record_overspends(make: Factory[Accountant], trial: Trial) -> Evidence:
    """Whatever records contribute, and whenever they come, what each spent is within what the event claims.

    Spent is the sum of the Renyi divergences of the rounds in which it took part, at the record's own
    precision, at many orders; who contributes more than the event allows takes no part.

    If this fails: charge everybody who takes part, whether sampled or not, its whole cost, rounded up; keep
    accounts when records join; compare what a record would have spent, not what it has.
    """
    rng = np.random.default_rng(trial.seed)
    tried, nearest = 0, 0.0
    for accountant, event in _cases(make):
        claim = event.charged * _curve(event, TICKS)
        for name, spending in _SPENDINGS.items():
            for _ in range(trial.effort):
                history = _played(accountant, event, spending, rng)
                spent = _spent(history, event)
                worst = float((spent / claim).max(initial=0.0))
                require(
                    worst <= 1 + 1e-9,
                    f"{event}: a record that contributes {name} spent {worst:.6g} of what is claimed",
                )
                nearest, tried = max(nearest, worst), tried + 1
    require(nearest > 0.9, f"no record could spend more than {nearest:.3g} of what is paid for")
    return Evidence(
        f"{number_of(tried, 'stream')} of records; the largest spent {nearest:.6g} of the claim", tried
    )


@check("composition", kinds=("accountant",))
def check_accounts_are_separate(make: Factory[Accountant], trial: Trial) -> Evidence:
    """Whether a record takes part depends on its own costs alone; who is left out is not charged.

    A record alone is treated as it is among others, and those that join change nothing for those before.

    If this fails: one account for each record, by position. Anything shared by records, such as a total, a
    count or a maximum, tells of one record by what happens to another.
    """
    rng = np.random.default_rng(trial.seed)
    compared = 0
    for accountant, event in _cases(make):
        history = _played(accountant, event, _uneven, rng)
        records = history[-1][0].size
        for record in rng.choice(records, size=8, replace=False):
            alone = None
            for costs, active in history:
                if costs.size <= record:
                    continue
                alone = accountant.open(event, 1) if alone is None else alone
                taken = bool(alone.admit(costs[record : record + 1])[0])
                require(taken == active[record], f"{event}: a record is treated otherwise among others")
                compared += 1
        accounts = accountant.open(event, 1)
        part = event.charged * TICKS - TICKS // 2  # leaves half of a round
        while part > 0:
            accounts.admit(np.array([min(part, TICKS)]))
            part -= TICKS
        seen = [bool(accounts.admit(np.array([cost]))[0]) for cost in (TICKS, TICKS, 3 * TICKS // 8)]
        require(seen == [False, False, True], f"{event}: who is left out is charged, or never comes back")
    return Evidence(number_of(compared, "decision"), compared)


def _cases(make: Factory[Accountant]) -> Iterator[tuple[RecordAccountant, Filtered]]:
    accountant: object = make(neighboring=Neighboring.ADD_OR_REMOVE_ONE)
    if not isinstance(accountant, RecordAccountant):
        raise NotApplicable("it keeps no accounts of records")
    for charged in (1, 3, 20):
        yield accountant, Filtered(Gaussian(4.0), ROUNDS, charged)
        yield accountant, Filtered(PoissonSampled(0.1, Gaussian(0.8)), ROUNDS, charged)


def _played(
    accountant: RecordAccountant,
    event: Filtered,
    spending: Callable[[np.random.Generator, History, int], Integers],
    rng: np.random.Generator,
) -> History:
    """Return the costs of each round and who took part, with records that join on the way."""
    accounts, records = accountant.open(event, RECORDS), RECORDS
    history: History = []
    for turn in range(ROUNDS):
        if turn % 15 == 14:
            joining = int(rng.integers(3))
            accounts.join(joining)
            records += joining
        costs = spending(rng, history, records)
        active = np.asarray(accounts.admit(costs.copy()))
        require(
            active.shape == (records,),
            f"{event}: admit returned {active.shape} for {number_of(records, 'record')}",
        )
        history.append((costs, active))
    return history


def _spent(history: History, event: Filtered) -> npt.NDArray[np.float64]:
    """Return what each record spent at each order; infinity where it took part beyond what is allowed."""
    total = np.zeros((history[-1][0].size, len(ORDERS)))
    for costs, active in history:
        for cost in np.unique(costs[active]):
            total[np.flatnonzero(active & (costs == cost))] += (
                np.inf if cost > TICKS else _curve(event, int(cost))
            )
    return total


@functools.lru_cache(maxsize=256)
def _curve(event: Filtered, cost: int) -> npt.NDArray[np.float64]:
    """Return the divergences of one round for a record of this cost."""
    if cost == 0:
        return np.zeros(len(ORDERS))
    rate, noise = 1.0, event.event
    if isinstance(noise, PoissonSampled):
        rate, noise = noise.rate, noise.event
    assert isinstance(noise, Gaussian)
    own = Gaussian(noise.noise_multiplier / np.sqrt(cost / TICKS))
    return curve_of(own if rate == 1 else PoissonSampled(rate, own), ORDERS).divergences


def _uneven(rng: np.random.Generator, history: History, records: int) -> Integers:
    costs = rng.integers(0, _PARTS, size=records, endpoint=True) * (TICKS // _PARTS)
    beyond = rng.random(records) < 0.05
    costs[beyond] = rng.choice(_BEYOND, size=int(beyond.sum()))
    return costs


def _everything(rng: np.random.Generator, history: History, records: int) -> Integers:
    return np.full(records, TICKS)


def _small(rng: np.random.Generator, history: History, records: int) -> Integers:
    return np.full(records, TICKS // 4)


def _more_when_admitted(rng: np.random.Generator, history: History, records: int) -> Integers:
    costs = np.full(records, TICKS)
    if history:
        before = history[-1][1]
        costs[: before.size][~before] = TICKS // _PARTS
    return costs


_SPENDINGS = {
    "unlike parts of what is allowed, and sometimes more": _uneven,
    "all that is allowed": _everything,
    "a quarter of what is allowed": _small,
    "more after rounds in which it took part": _more_when_admitted,
}
