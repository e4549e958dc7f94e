"""Every error dpkit raises on purpose, one tree.

A message says what is wrong, names both sides, and suggests a remedy. The command line prints it
without a traceback and exits with 2 where nothing has been spent, and with 4 at a ``BudgetSpent``.
"""

from __future__ import annotations

from collections.abc import Sequence


class DpkitError(Exception):
    """Base of all errors meant for people to read."""


class InvalidBudget(DpkitError):
    """An epsilon or delta that no mechanism can honor."""


class InvalidSchema(DpkitError):
    """Public facts that contradict each other or cannot be read, with everything wrong with them."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything wrong, one sentence each."""
        return tuple(dict.fromkeys(map(str, self.args)))

    def __str__(self) -> str:
        problems = self.problems
        if len(problems) < 2:
            return "".join(problems)
        return "\n".join([f"the schema has {len(problems)} problems:", *(f"  - {p}" for p in problems)])


class InvalidData(DpkitError):
    """A table that does not fit its schema, or holds values no part can use."""


class UnusedColumns(UserWarning):
    """Columns that were given but not needed; a warning, because nothing is wrong."""


class InvalidOption(DpkitError):
    """An option that a part does not have, or a value that it does not accept."""


class InvalidRelease(DpkitError):
    """A release or plan file that cannot be read or does not add up."""


class InvalidRecipe(DpkitError):
    """A recipe that cannot be read, or that names what does not exist."""


def install(what: str = "") -> str:
    """Return how to install dpkit or a part of it, for messages and pages.

    See ``docs/howto/install.md``.

    Parameters
    ----------
    what
        Extras, such as ``[report]``, or the folder of a plugin, such as ``/plugins/scorers/kendall``.

    Examples
    --------
    >>> print(install("[report]"))
    uv pip install 'CLONE[report]', where CLONE is your clone of dpkit, which no package index has yet
    """
    return f"uv pip install 'CLONE{what}', where CLONE is your clone of dpkit, which no package index has yet"


class MissingDependency(DpkitError):
    """An optional library that the requested work needs."""

    def __init__(self, library: str, purpose: str, install: str) -> None:
        super().__init__(f"{purpose} needs {library}, which is not installed: {install}")


class UnknownName(DpkitError):
    """A component name that no installed distribution offers."""


class AmbiguousName(DpkitError):
    """A component name that two installed distributions offer."""


class BrokenPlugin(DpkitError):
    """An installed component that fails to load."""


class IncompatiblePlugin(DpkitError):
    """An installed component written for another plugin API, or with other signatures."""


class Unsuitable(DpkitError):
    """A part's reason, given while planning, why it cannot serve a request; the composer collects these."""


class UnsupportedEvent(DpkitError):
    """An event that an accountant cannot account for."""


class CalibrationFailed(DpkitError):
    """No noise scale in the searched range meets the budget."""


class Declined(DpkitError):
    """A run that was declined before any part was given data: nothing is spent."""


class OverBudget(Declined):
    """A run that its account cannot pay for: nothing is charged."""


class LikelyWasted(Declined):
    """The plan warns that its budget is likely to be wasted, and nobody said to run it anyway."""


class AgainstPolicy(Declined):
    """A run that a rule of the site forbids."""


class AlreadyCharged(Declined):
    """A charge whose identity another run has used: it is spent, and cannot pay for a second run."""


class LedgerUnavailable(DpkitError):
    """A ledger that cannot be read or written at the moment, so no run may begin."""


class InvalidPolicy(DpkitError):
    """Rules of the site that cannot be read, or that contradict each other: no run may begin."""


class InvalidLedger(DpkitError):
    """A ledger that is missing, damaged, altered, or used in a way that it does not allow."""


class CannotCompose(DpkitError):
    """All the reasons why these parts cannot work together on this schema and budget."""

    def __init__(self, what: str, problems: Sequence[str]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        super().__init__(f"cannot compose {what}:\n{lines}" if what else f"nothing to compose:\n{lines}")


class BudgetSpent(DpkitError):
    """Base of the errors of a run that used the data: there is no release, and its plan counts as spent.

    The message of an error that a part caused is fixed, whatever it did: the part's own message, written
    after it has seen the data, may reveal something about them. It is in the notes and the cause of the
    exception.
    """


class PlanViolation(BudgetSpent):
    """A part that departed from its plan: the run is void and returns nothing."""


class Vetoed(BudgetSpent):
    """An observer that stopped a release before it left the process."""


class PartFailed(BudgetSpent):
    """A part that raised while it ran. Whether it does may depend on the data, so the run is charged."""


class EngineFailed(DpkitError):
    """An engine that does not answer. Nothing is spent, unless it is an ``EngineLost``."""


class EngineLost(EngineFailed, BudgetSpent):
    """An engine that lost the records while a part asked for sums over them: the run is charged."""


class ReleaseNotWritten(BudgetSpent):
    """A release that is paid for and could not be written to its file."""


class ReleaseNotShown(BudgetSpent):
    """A release that was written to its file but could not be written to standard output."""


class Interrupted(BudgetSpent):
    """A run that was stopped by ctrl-C or a signal after its budget had begun to be spent."""
