"""How long the rest of a run will take, estimated from the finished trials."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from dpkit_command_bench.suite import TrialSpec

Kind = tuple[str, str]


class TimeEstimate:
    """An estimate from trials of the same table and composition, or else from the time per number.

    Tables of a suite differ in size by orders of magnitude, so the fraction of finished trials would be far
    off. If a composition has only run on other tables, its time per number (records times features) is used;
    if it has not run at all, there is no estimate.
    """

    def __init__(self, pending: Sequence[TrialSpec], workers: int) -> None:
        self.total = len(pending)
        self._workers = workers
        self._left: Counter[Kind] = Counter(map(_kind, pending))
        self._seconds: defaultdict[Kind, list[float]] = defaultdict(list)
        self._rates: defaultdict[str, list[float]] = defaultdict(list)
        self._sizes: dict[str, int] = {}

    def note(self, trial: TrialSpec, seconds: float, size: int) -> None:
        """Learn from a finished trial."""
        self._left[_kind(trial)] -= 1
        self._seconds[_kind(trial)].append(seconds)
        self._rates[trial.composition.name].append(seconds / size)
        self._sizes[trial.table.name] = size

    def drop(self, trial: TrialSpec) -> None:
        """Remove a trial that will not run."""
        self._left[_kind(trial)] -= 1
        self.total -= 1

    def seconds_left(self) -> float | None:
        """Return the seconds until the last trial ends, or None if that is unknown."""
        left = 0.0
        for kind, count in self._left.items():
            if not count:
                continue
            each = self._each(*kind)
            if each is None:
                return None
            left += count * each
        return left / self._workers

    def _each(self, table: str, composition: str) -> float | None:
        if seen := self._seconds.get((table, composition)):
            return _mean(seen)
        rates = self._rates.get(composition)
        if not rates or not self._sizes:
            return None
        # A table not seen yet is assumed to be of average size.
        size = self._sizes.get(table) or _mean(list(map(float, self._sizes.values())))
        return _mean(rates) * size


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _kind(trial: TrialSpec) -> Kind:
    return trial.table.name, trial.composition.name
