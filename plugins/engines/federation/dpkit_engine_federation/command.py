"""``dpkit federate``: several parties fit one model, and none shows its records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from dpkit_cli.options import (
    ForceOption,
    Format,
    FormatOption,
    LedgerOptions,
    OutputOption,
    ReadingOptions,
    aside,
    grouped,
    note,
)

if TYPE_CHECKING:
    from dpkit_core import AnyDataset, Plan, Release
    from dpkit_engine_federation.keys import Identity
    from dpkit_engine_federation.terms import Terms
    from dpkit_engine_federation.transport import Transport

federate = typer.Typer(help="Fit one model to the records of several parties.", no_args_is_help=True)

TermsArgument = Annotated[
    Path, typer.Argument(metavar="TERMS", help="What `dpkit federate plan` wrote, the same for all.")
]
WaitOption = Annotated[
    float, typer.Option(metavar="SECONDS", help="How long to wait for all parties at the beginning.")
]


@federate.callback()
def _federate() -> None:
    """Fit one model to the records of several parties."""


@federate.command("plan")
def plan(
    saved: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan written by `dpkit compose --save`.")],
    *,
    party: Annotated[
        list[str],
        typer.Option(metavar="NAME=KEY", help="A party and its public key, NAME.pub. Once for each."),
    ],
    server: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the server will be.")],
    server_key: Annotated[Path, typer.Option(metavar="KEY", help="The server's public key.")],
    colluders: Annotated[
        int,
        typer.Option(help="How many other parties, together with the server, each record is protected from."),
    ] = 1,
    least: Annotated[int, typer.Option(help="The run ends if fewer parties are left.")] = 3,
    patience: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long to wait for a party before the others go on.")
    ] = 60.0,
    spare: Annotated[int, typer.Option(help="How many repeated attempts the budget pays for.")] = 2,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the terms.")
    ] = Path("terms.toml"),
    force: ForceOption = False,
) -> None:
    """Write the terms of a federation: PLAN, who takes part, and against whom each is protected.

    Give the file to all parties and to the server. Touches no records.
    """
    from dpkit_cli import render
    from dpkit_cli.planfile import read_plan

    from dpkit_core.errors import InvalidOption
    from dpkit_core.files.writing import reserved
    from dpkit_engine_federation.joining import agree
    from dpkit_engine_federation.keys import read_public

    parties: dict[str, str] = {}
    for text in party:
        name, equals, path = text.partition("=")
        if not equals:
            raise InvalidOption(f"--party {text!r} is not NAME=KEY, such as north=north.pub")
        if name in parties:
            raise InvalidOption(f"--party gives {name} twice; give each party once")
        parties[name] = read_public(path)
    with reserved(output, replace=force) as file:
        terms = agree(
            read_plan(saved, report=note),
            parties,
            server=read_public(server_key),
            address=server,
            colluders=colluders,
            least=least,
            patience=patience,
            spare=spare,
        )
        file.write(terms.to_toml())
    note(f"wrote {output}")
    render.lines(terms.in_words())


@federate.command("serve")
def serve(
    terms: TermsArgument,
    key: Annotated[Path, typer.Option(metavar="KEY", help="The server's private key, NAME.key.")],
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Where to listen.", show_default="the port of TERMS, at all addresses"
        ),
    ] = None,
    wait: WaitOption = 600.0,
) -> None:
    """Relay what the parties of TERMS send, until all have left.

    The server sees who is there, how much is sent, and noisy totals. It keeps them in a file beside
    TERMS, by which a server that died goes on, and which is deleted in the end.
    """
    from dpkit_engine_federation.keys import Identity
    from dpkit_engine_federation.network import serving
    from dpkit_engine_federation.terms import Terms

    agreed = Terms.read(terms)
    journal = terms.with_name(agreed.journal)
    where = listen or f"[::]:{agreed.address.rpartition(':')[2]}"
    known = journal.exists()
    serve_all = serving(agreed, Identity.read(key), listen=where, wait=wait, report=note, journal=journal)
    with serve_all as (relay, port):
        note(f"listening at port {port} for {', '.join(agreed.parties)}")
        if known:
            note(f"resuming the run in {journal}; delete the file to start over")
        while not relay.over(1.0):
            pass
    journal.unlink(missing_ok=True)
    note("all have left")


@federate.command("join")
@grouped
def join(
    terms: TermsArgument,
    data: Annotated[str, typer.Argument(metavar="DATA", help="This party's own table, as for compose.")],
    *,
    key: Annotated[Path, typer.Option(metavar="KEY", help="This party's private key, NAME.key.")],
    agree: Annotated[
        str | None,
        typer.Option(
            metavar="DIGEST",
            help="Agree to the terms with this digest, which a person has read; else a person is asked.",
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where the server is, if not where TERMS say."),
    ] = None,
    mailbox: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Reach the others by files in this empty folder, which somebody else carries; no server "
            "is asked.",
        ),
    ] = None,
    wait: WaitOption = 600.0,
    ledger: LedgerOptions,
    reading: ReadingOptions,
    output: OutputOption = Path("release.json"),
    force: ForceOption = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Join the federation of TERMS with the records in DATA.

    Prints the terms and asks before anything is sent. All parties end with one model, and each with a
    certificate of its own. The whole plan is charged when all have met. With a mailbox, --wait is for
    each answer.

    Exit codes as for compose.
    """
    from dpkit_cli.execute import execute
    from dpkit_cli.outputs import outputs
    from dpkit_cli.request import agreed_on

    from dpkit_engine_federation import joining
    from dpkit_engine_federation.keys import Identity
    from dpkit_engine_federation.terms import Terms

    agreed, identity = Terms.read(terms), Identity.read(key)
    transport = _transport(agreed, identity, mailbox=mailbox, server=server, wait=wait)
    planned = joining.plan_of(agreed)
    paid_by = ledger.payer(planned.budget)
    with outputs(output, force=force, inputs=(terms, key, data)) as files:
        with aside():
            found = agreed_on(planned, [data], reading=reading.read_options(), report=note)
        _require_agreement(agreed, planned, agree)

        def run(records: AnyDataset, **options: Any) -> Release:
            note("waiting for the others")
            return joining.join(
                records, agreed, identity=identity, transport=transport, plan=planned, **options
            )

        execute(found, files, seed=None, format=format, paid_by=paid_by, sign=ledger.sign, run=run)


def _transport(
    terms: Terms, identity: Identity, *, mailbox: Path | None, server: str | None, wait: float
) -> Transport:
    from dpkit_core.errors import InvalidOption

    if mailbox is None:
        from dpkit_engine_federation.network import GrpcTransport

        return GrpcTransport(terms, identity, wait=wait, address=server or "", report=note)
    from dpkit_engine_federation.mailbox import MailboxTransport

    if server is not None:
        raise InvalidOption(f"--mailbox {mailbox} and --server {server} both reach the others; give one")
    return MailboxTransport(mailbox, patience=wait)


def _require_agreement(terms: Terms, plan: Plan, digest: str | None) -> None:
    """Print the terms, and raise unless somebody has agreed to these."""
    from dpkit_core.errors import Declined, InvalidOption

    for sentence in terms.in_words():
        note(sentence)
    if digest is not None:
        if digest != terms.digest:
            raise InvalidOption(
                f"--agree is {digest}, and these terms are {terms.digest}: other terms than were agreed on"
            )
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidOption(
            f"there is no terminal to agree at; read the terms, and give --agree {terms.digest}"
        )
    print(plan, file=sys.stderr)
    note("the public facts that the plan relies on are in [plan.schema] of the terms")
    if not typer.confirm("Do the fingerprints match, and do you agree?", err=True):
        raise Declined("nothing was sent, and nothing is spent")
