"""``dpkit ledger``: accounts shared by several runs, what they have spent, and audits of that."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from dpkit_cli.options import Format, FormatOption, aside, note

from dpkit_core.privacy.filters import FILTERS, filter_to_document
from dpkit_core.text import number_of

if TYPE_CHECKING:
    from dpkit_command_ledger.audit import LedgerReport
    from dpkit_core.ledger.entries import Entry
    from dpkit_core.ledger.ledger import Ledger, Statement

ledger = typer.Typer(
    help="Keep a budget over many runs: create an account, show what is spent, audit releases.",
    no_args_is_help=True,
)

#: How many runs, or entries, are shown by default.
_SHOWN = 50
_PAGE = 1000

_Where = Annotated[
    str, typer.Argument(metavar="LEDGER", help="A SQLite file, or the URL of another backend.")
]


_NewAccount = Annotated[
    str,
    typer.Option(
        "--account",
        metavar="NAME",
        help="Your name for the data: one account for each table, not for each user.",
    ),
]
_AccountSchema = Annotated[
    Path,
    typer.Option(
        "--schema", metavar="FILE", help="Public facts about the whole table; runs may use some columns."
    ),
]
_Measure = Annotated[
    str,
    typer.Option(
        "--measure",
        metavar="|".join(FILTERS),
        help="How runs are added up: basic can be checked by hand; renyi has room for many small runs, and "
        "gdp for more of them if noise is Gaussian.",
    ),
]
_Names = Annotated[
    Path | None,
    typer.Option(
        "--table",
        metavar="DATA",
        help="A table whose column names replace '*' in the schema; nothing else is read.",
    ),
]


@ledger.command("create")
def create(
    where: _Where,
    *,
    account: _NewAccount,
    schema: _AccountSchema,
    epsilon: Annotated[
        float,
        typer.Option("--epsilon", metavar="E", help="Privacy loss allowed for all runs together, forever."),
    ],
    delta: Annotated[
        float,
        typer.Option("--delta", metavar="D", help="Probability of exceeding that: far below 1 / records."),
    ],
    measure: _Measure = "basic",
    table: _Names = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="COLUMN", help="The target, unless the schema names it."),
    ] = None,
) -> None:
    """Open an account in LEDGER, creating the ledger if there is none. Its budget can never be changed."""
    from dpkit_cli.facts import Facts

    from dpkit_core.ledger.accounts import Account
    from dpkit_core.ledger.ledger import Ledger
    from dpkit_core.pipeline.policy import Policy
    from dpkit_core.plugins.sources import open_source
    from dpkit_core.privacy.budget import Budget
    from dpkit_core.privacy.filters import filter_for

    budget = Budget(epsilon, delta)
    source = None if table is None else open_source(table)
    facts = Facts(schema, target).about(source, note)
    opened = Account(account, facts, budget, filter_for(measure, budget))
    Policy.of_site().require_account(opened)
    book = Ledger.create_or_open(where)
    book.add(opened)
    note(f"opened account {account} in {book.store.shown}, ledger {book.id}")


@ledger.command("show")
def show(
    where: _Where,
    *,
    account: Annotated[
        str | None,
        typer.Option("--account", metavar="NAME", help="Only this account, with each of its runs."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="PLAN", help="Also show what one more run of this plan would cost."),
    ] = None,
    limit: Annotated[
        str,
        typer.Option(
            "--limit",
            metavar="N",
            help="Show this many runs (in JSON, entries), newest first; 0 or all shows every one.",
        ),
    ] = str(_SHOWN),
    format: FormatOption = Format.TABLE,
) -> None:
    """Show what accounts have spent: on which runs, when, by whom, and what is left."""
    from dpkit_core.ledger.ledger import Ledger

    most = _limit(limit)
    book = Ledger.open(where)
    statements = book.accounts() if account is None else (book.statement(account),)
    prices = [] if plan is None else [_price(book, statements, plan)]
    if format is Format.JSON:
        _print_json(book, statements, account, most, prices)
        return
    _show_accounts(book, statements)
    for entry in itertools.islice(book.newest(page=1), 1):
        if entry.kind == "moved":
            note(f"the ledger was moved to {entry.facts.get('to')}; nothing is charged here")
    for each in statements if account is not None or len(statements) == 1 else ():
        _show_runs(book, each, most)
    for price in prices:
        _show_price(price)


def _limit(text: str) -> int | None:
    """Return the largest number shown; None for no limit."""
    from dpkit_core.errors import InvalidOption

    if text == "all":
        return None
    if not (text.isascii() and text.isdecimal()):
        raise InvalidOption(f"--limit is {text!r}; give a whole number, or all")
    return int(text) or None


def _print_json(
    book: Ledger,
    statements: Sequence[Statement],
    account: str | None,
    most: int | None,
    prices: Sequence[dict[str, Any]],
) -> None:
    """Print one object; its entries are read while they are printed, since there may be many."""
    import json

    total = sum(book.count(each.account.name) for each in statements)
    shown = total if most is None else min(most, total)
    document = {
        "ledger": book.id,
        "accounts": [_statement(each) for each in statements],
        **({"price": prices[0]} if prices else {}),
        "not_shown": total - shown,
    }
    print(json.dumps(document, indent=2).removesuffix("\n}"), end=',\n  "entries": [')
    page = _PAGE if most is None else min(most, _PAGE)
    entries = (entry for entry in book.newest(account, page=page) if entry.account)
    for number, entry in enumerate(itertools.islice(entries, shown)):
        # A line for each: json indents in Python, ten times as slowly.
        print("," if number else "", f"    {json.dumps(_entry(entry))}", sep="\n", end="")
    print("\n  ]\n}" if shown else "]\n}")


def _statement(statement: Statement) -> dict[str, Any]:
    account = statement.account
    return {
        "account": account.name,
        "measure": filter_to_document(account.measure),
        "budget": {"epsilon": account.budget.epsilon, "delta": account.budget.delta},
        "neighboring": account.schema.neighboring.value,
        "units": list(account.measure.units),
        "total": list(statement.total),
        "limits": list(account.limits),
        "spent": statement.in_words(),
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "sequence": entry.sequence,
        "kind": entry.kind,
        "account": entry.account,
        "charge": entry.charge,
        "total": list(entry.ticks),
        "hash": entry.hash,
        **entry.facts,
    }


def _show_accounts(book: Ledger, statements: Sequence[Statement]) -> None:
    from dpkit_cli import render

    from dpkit_core.privacy.budget import attack_in_words

    head = book.head()
    render.heading(f"Ledger {book.id}: {number_of(head.sequence, 'entry', 'entries')}, head {head.hash[:16]}")
    render.table(
        ("account", "measure", "spent", "of the budget"),
        [
            (each.account.name, each.account.measure.name, each.in_words(), _percent(each))
            for each in statements
        ],
        numeric=("of the budget",),
    )
    for each in statements:
        budget, relation = each.account.budget, each.account.schema.neighboring
        seen = "everything that this account will ever pay for"
        words = attack_in_words(budget.epsilon, budget.delta, relation, seen, each.account.schema.unit)
        render.lines([f"{each.account.name}: {words}."])


def _percent(statement: Statement) -> str:
    share = statement.account.measure.share(statement.total, statement.account.limits)
    return "all" if share is None else f"{float(100 * share):.3g} %"


def _show_runs(book: Ledger, statement: Statement, most: int | None) -> None:
    from dpkit_cli import render

    name = statement.account.name
    total = book.count(name, "reserved")
    shown = total if most is None else min(most, total)
    print()
    which = "" if shown == total else f", the newest {shown} of them shown"
    render.heading(f"Runs paid by {name}: {total}{which}")
    if shown:
        # Most runs have two entries.
        page = _PAGE if most is None else min(2 * most, _PAGE)
        rows = itertools.islice(_runs(book.newest(name, page=page)), shown)
        render.table(
            ("entry", "when (UTC)", "who", "plan", "epsilon, delta", "outcome"), rows, numeric=("entry",)
        )
    if shown < total:
        are = "1 earlier run is" if total - shown == 1 else f"{total - shown} earlier runs are"
        render.lines([f"{are} not shown; --limit all shows every one."])


def _runs(newest: Iterable[Entry]) -> Iterator[tuple[str, ...]]:
    """Yield one row for each run; its outcome is a later entry, hence met first."""
    outcomes: dict[str, str] = {}
    for entry in newest:
        if entry.kind != "reserved":
            outcomes[entry.charge] = entry.kind
            continue
        facts = entry.facts
        about = facts["about"]
        yield (
            str(entry.sequence),
            str(about.get("at", ""))[:16].replace("T", " "),
            str(about.get("by", "")).partition("@")[0],
            " + ".join(part.split(":")[-1].split()[0] for part in about.get("parts", ())),
            f"{facts['epsilon']:.6g}, {facts['delta']:.3g}",
            outcomes.pop(entry.charge, entry.kind),
        )


def _price(book: Ledger, statements: Sequence[Statement], path: Path) -> dict[str, Any]:
    """Return what one more run of a plan would cost the account that pays."""
    from dpkit_cli.planfile import read_plan

    from dpkit_core.errors import InvalidOption
    from dpkit_core.ledger.entries import Charge
    from dpkit_core.pipeline.payment import claim_of
    from dpkit_core.privacy.filters import add

    if len(statements) != 1:
        raise InvalidOption(
            "the ledger has several accounts; name the one that pays for the plan with --account"
        )
    with aside():
        plan = read_plan(path)
    (statement,) = statements
    account = statement.account
    cost = book.price(Charge(account.name, claim_of(plan), plan.schema, ""))
    total, runs = statement.total, 0
    while runs < _MANY and account.measure.admits(total := add(total, cost), account.limits):
        runs += 1
    after = add(statement.total, cost)
    return {
        "account": account.name,
        "cost": list(cost),
        "after": list(after),
        "after_in_words": account.measure.in_words(after, account.limits),
        "runs": runs,
    }


_MANY = 1000


def _show_price(price: dict[str, Any]) -> None:
    from dpkit_cli import render

    count = f"{_MANY} or more" if price["runs"] == _MANY else str(price["runs"])
    print()
    render.lines(
        [f"After one more run of the plan: {price['after_in_words']}.", f"Such runs that still fit: {count}."]
    )


@ledger.command("move")
def move(
    where: _Where,
    to: Annotated[
        str,
        typer.Argument(metavar="PLACE", help="A file that does not exist, or the URL of another backend."),
    ],
) -> None:
    """Move LEDGER to another PLACE with all its entries; nothing is charged in the old place any more.

    It is audited first, and moved only if it is sound. Do it while no run is in progress.
    """
    from dpkit_command_ledger.audit import audit as examine
    from dpkit_command_ledger.moving import move_to
    from dpkit_core.errors import InvalidLedger
    from dpkit_core.ledger.ledger import Ledger

    book = Ledger.open(where)
    found = examine(book)
    if not found.sound:
        raise InvalidLedger(
            f"{book.store.shown} is not consistent, so it is not moved; `dpkit ledger audit` shows the faults"
        )
    moved = move_to(book, to)
    note(f"moved ledger {moved.id} to {moved.store.shown}; {book.store.shown} no longer charges anything")


@ledger.command("audit")
def audit(
    where: _Where,
    releases: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RELEASE]...", help="More releases, as a shell writes them for --against *.json."
        ),
    ] = None,
    *,
    against: Annotated[
        list[Path] | None,
        typer.Option("--against", metavar="RELEASE", help="A release that the ledger should have paid for."),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Recompute LEDGER, and check whether it has paid for these exact releases.

    Exit code 0 if it is sound, 2 otherwise.
    """
    import json

    import attrs

    from dpkit_command_ledger.audit import audit as examine
    from dpkit_core.errors import InvalidRelease
    from dpkit_core.files.documents import read_json
    from dpkit_core.ledger.ledger import Ledger

    paths = [*(against or ()), *(releases or ())]
    documents = ((str(path), read_json(path, "release", InvalidRelease)) for path in paths)
    found = examine(Ledger.open(where), documents)
    if format is Format.JSON:
        print(json.dumps(attrs.asdict(found) | {"sound": found.sound}, indent=2))
    else:
        _show_audit(found, len(paths))
    if not found.sound:
        raise typer.Exit(2)


def _show_audit(found: LedgerReport, releases: int) -> None:
    from dpkit_cli import render

    render.heading(f"{number_of(found.head.sequence, 'entry', 'entries')}, head {found.head.hash}")
    render.lines([f"{finding.fault}: {finding.sentence}." for finding in found.findings])
    are = "release is" if releases == 1 else "releases are"
    render.lines(
        [
            f"{len(found.confirmed)} of {releases} {are} charged here, settled, and what was released."
            if releases
            else "Compared with no release: a restored backup or a second copy would not be noticed.",
            "sound" if found.sound else "NOT sound",
        ]
    )
