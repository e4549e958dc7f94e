"""``dpkit evaluate``: how good a released model is, by the records of a table, for a budget of its own."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, ClassVar

import attrs
import typer
from dpkit_cli.options import (
    AnywayOption,
    ForceOption,
    Format,
    FormatOption,
    LedgerOptions,
    OutputOption,
    ReadingOptions,
    SeedOption,
    aside,
    grouped,
    names_of,
    note,
)

from dpkit_core.privacy.budget import Budget
from dpkit_core.release.evaluation import FITTED, HELD_OUT, OTHER


class Which(enum.StrEnum):
    """Which records of the table score the model."""

    HELD_OUT = HELD_OUT
    FITTED = FITTED
    OTHER = OTHER


@attrs.frozen
class ScoringOptions:
    """By which records a model is scored, and how the cost is counted."""

    panel: ClassVar[None] = None
    delta: Annotated[float, typer.Option(metavar="D", help="As for compose.")] = 1e-6
    of: Annotated[
        Which | None,
        typer.Option(
            "--of",
            help="By which records: held-out, those that the release held out; fitted, those that the model "
            "was fitted to, which is optimistic; other, those of a table that, as you say, shares none.",
            show_default="held-out if the release held some out, else fitted",
        ),
    ] = None
    accountant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Computes the total from the events.",
            autocompletion=names_of("accountants"),
            show_default="as for compose",
        ),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop. Nothing is spent.")] = (
        False
    )

    @property
    def records(self) -> str | None:
        """The word of ``plan_evaluation`` for the records; None where the release decides."""
        return None if self.of is None else self.of.value


@grouped
def evaluate(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE", help="A release that has a model; it is left as it is.")
    ],
    data: Annotated[str, typer.Argument(metavar="DATA", help="The private table, as for compose.")],
    *,
    epsilon: Annotated[
        float,
        typer.Option(
            metavar="E",
            help="What the score may cost, on top of what the model has cost.",
            show_default=False,
        ),
    ],
    scoring: ScoringOptions,
    ledger: LedgerOptions,
    reading: ReadingOptions,
    seed: SeedOption = None,
    output: OutputOption = Path("evaluation.json"),
    force: ForceOption = False,
    anyway: AnywayOption = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Score the model of RELEASE on the records of DATA, privately: capped R2, or accuracy, with an interval.

    This is a run of its own, which costs what --epsilon says. `dpkit compose --evaluate` holds records out
    and scores the model by them at no cost.

    Exit codes as for compose.
    """
    from dpkit_cli.execute import execute
    from dpkit_cli.outputs import outputs
    from dpkit_cli.request import agreed_on

    from dpkit_core import Release, plan_evaluation

    budget = Budget(epsilon, scoring.delta)
    paid_by = ledger.payer(budget)
    written = None if scoring.dry_run else output
    with outputs(written, force=force, inputs=(release, data)) as files:
        with aside():
            found = Release.read(release)
            plan = plan_evaluation(found, budget, scoring.records, accountant=scoring.accountant)
            agreed = agreed_on(plan, data, reading=reading.read_options(), report=note, chooser="the release")
        execute(agreed, files, seed=seed, format=format, paid_by=paid_by, sign=ledger.sign, anyway=anyway)
