"""Accountants that charge for units: parts tell them events about one record, and plan for many unawares."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import attrs

from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Event
from dpkit_core.privacy.units import grouped
from dpkit_core.protocols import API, Accountant, keeps_accounts


@attrs.frozen
class AccountantForUnits:
    """An accountant for units of up to ``most_records`` records, which is told events about one record.

    Attributes
    ----------
    inner
        Composes the events grouped.
    most_records
        m, at least 2.
    """

    api: ClassVar[int] = API

    inner: Any
    most_records: int

    @property
    def neighboring(self) -> Neighboring:
        """The relation of the events it is told."""
        relation: Neighboring = self.inner.neighboring
        return relation

    def supports(self, event: Event, /) -> bool:
        """Return whether the event can be grouped, and the inner accountant composes the result."""
        try:
            return bool(self.inner.supports(grouped(event, self.most_records)))
        except UnsupportedEvent:
            return False

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        return attrs.evolve(self, inner=self.inner.compose(grouped(event, self.most_records), count))

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon, for a unit, at ``delta``."""
        return float(self.inner.epsilon(delta))

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta, for a unit, at ``epsilon``."""
        return float(self.inner.delta(epsilon))


class _WithAccounts(AccountantForUnits):
    keeps_accounts: ClassVar[bool] = True


def for_units(accountant: Accountant, most_records: int) -> Accountant:
    """Return an accountant of the same composition for units of which at most ``most_records`` count."""
    if most_records == 1:
        return accountant
    kind = _WithAccounts if keeps_accounts(accountant) else AccountantForUnits
    return kind(accountant, most_records)
