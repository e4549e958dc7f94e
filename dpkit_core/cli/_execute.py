"""The end of ``compose`` and ``run``: spend what a plan says, write the release, show it."""

from __future__ import annotations

import contextlib
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from dpkit_core.cli._options import until_nobody_reads
from dpkit_core.cli._process import undisturbed, unheard
from dpkit_core.commands import render
from dpkit_core.commands.options import Format, note
from dpkit_core.errors import (
    Interrupted,
    InvalidOption,
    MissingDependency,
    ReleaseNotShown,
    ReleaseNotWritten,
    install,
)
from dpkit_core.files.writing import Output, reserved
from dpkit_core.ledger.ledger import Ledger, Payer
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.payment import price_in_words
from dpkit_core.pipeline.plan import (
    Plan,
    Records,
    accountant_lines,
    budget_line,
    forecast_lines,
    reading_lines,
    stage_rows,
    title,
    warning_lines,
)
from dpkit_core.pipeline.policy import Policy
from dpkit_core.plugins.registry import load_target
from dpkit_core.plugins.resources import find_resource, resources
from dpkit_core.privacy.budget import Budget
from dpkit_core.privacy.events import event_to_json
from dpkit_core.release.keys import SigningKey
from dpkit_core.release.release import Release

REFUSED = 3

# As wide as the longest name of a part of dpkit's: on 80 columns, what is released has to share the rest.
_PART = 24


def require_elsewhere(path: Path, inputs: Iterable[Path | None]) -> None:
    """Raise if what is to be written is also read."""
    if path.exists() and any(other and other.exists() and path.samefile(other) for other in inputs):
        raise InvalidOption(f"cannot write {path}: it is also read here; write elsewhere")


@contextmanager
def claimed(path: Path, *, force: bool, inputs: Iterable[Path | None] = ()) -> Iterator[Output]:
    """Reserve the file of a release, so that no other run takes it."""
    require_elsewhere(path, inputs)
    if path.is_file() and not force:
        raise InvalidOption(
            f"{path} exists, and a release that is lost stays paid for; write elsewhere with --output, or "
            "overwrite it with --force"
        )
    with reserved(path, replace=force) as output:
        yield output


@contextmanager
def page_about(path: Path | None, *, force: bool) -> Iterator[Callable[[Release, str], None] | None]:
    """Reserve the file of a page, and give who writes it about a release; None if there is to be none.

    Raises
    ------
    MissingDependency
        If nothing that is installed writes pages; nothing is spent.
    InvalidOption
        If the file cannot be written.
    """
    if path is None:
        yield None
        return
    pages = resources("pages")
    if not pages:
        raise MissingDependency("dpkit-command-report", "a page about a release", install("[report]"))
    text_of = load_target(find_resource("pages", "release", among=pages))
    with reserved(path, replace=force) as output:

        def write(release: Release, name: str) -> None:
            try:
                output.write(text_of(release, name))
            except OSError as error:
                note(f"the page {path} is not written: {error.strerror or error}; `dpkit report` writes it")
            else:
                note(f"wrote {path}")

        yield write


def payer(
    ledger: str | None, account: str | None, charge: str | None, *, budget: Budget | None = None
) -> Payer | None:
    """Return who is to pay, in the ledger that is given or that the site demands; None if nobody has to.

    A ``budget`` that the site does not allow is refused here, before a part is loaded or a table read.
    """
    policy = Policy.of_site()
    if budget is not None:
        policy.require_budget(budget)
    ledger = policy.ledger if ledger is None else ledger
    if ledger is None or account is None:
        for option, value in (("--ledger", ledger), ("--account", account), ("--charge", charge)):
            if value is not None and value is not ledger:
                raise InvalidOption(f"{option} is given without --ledger, which says where the account is")
        if ledger is None:
            return None
        names = [each.account.name for each in Ledger.open(ledger).accounts()]
        raise InvalidOption(
            f"which account of the ledger is to pay? Give --account: "
            f"{' or '.join(names) or 'there is none yet'}"
        )
    return Ledger.open(ledger).payer(account, charge=charge)


def signer(path: Path | None) -> SigningKey | None:
    """Return the key that signs, read before anything is spent; None if nobody signs."""
    return None if path is None else SigningKey.read(path)


def execute(
    plan: Plan,
    data: Records,
    *,
    seed: int | None,
    output: Output,
    path: Path,
    format: Format,
    paid_by: Payer | None = None,
    signer: SigningKey | None = None,
    page: Callable[[Release, str], None] | None = None,
) -> None:
    """Run the plan, write the release, print it, and exit with 3 if the mechanism refused.

    ``path`` is what the user calls the file of ``output``; ``signer`` signs what is written, and ``page``
    writes a page about it.
    """
    randomness = Randomness.from_os() if seed is None else Randomness.from_seed(seed)
    output.make_room(_room(plan))
    try:
        # Standard output belongs to the result, whatever a part prints.
        with contextlib.redirect_stdout(sys.stderr), render.progress() as progress:
            observers = Observers.installed(report=note)
            with unheard():
                release = plan.run(
                    data, randomness=randomness, observers=observers, progress=progress, paid_by=paid_by
                )
        with undisturbed():
            if signer is not None:
                release = signer.sign(release)
            _write(release, output, path)
    except KeyboardInterrupt as interrupt:
        raise Interrupted(
            "interrupted while the plan was run: nothing is released, and the planned budget counts as spent"
        ) from interrupt
    note(f"wrote {path}")
    if page is not None:
        page(release, path.name)
    try:
        with until_nobody_reads():
            if format is Format.JSON:
                _print_document(release)
            else:
                show_release(release)
    except KeyboardInterrupt:
        note(f"stopped printing; the release is whole in {path}")
    except OSError as error:
        raise ReleaseNotShown(
            f"standard output: {error.strerror or error}. The release is whole in {path}"
        ) from error
    if release.refusal is not None:
        raise typer.Exit(REFUSED)


def _write(release: Release, output: Output, path: Path) -> None:
    try:
        output.write(release.to_json())
    except OSError as error:  # it is paid for: at least it is shown, to the last digit
        where = "Keep what is printed" if output.left is None else f"It is whole in {output.left}"
        with contextlib.suppress(OSError), until_nobody_reads():
            _print_document(release)
        raise ReleaseNotWritten(
            f"cannot write {path}: {error.strerror or error}. The release is paid for. {where}"
        ) from error


def _print_document(release: Release) -> None:
    print(release.to_json(), end="")


def _room(plan: Plan) -> int:
    """Return about how many bytes the release will have: what the plan says, and a model of all features."""
    document = {
        "schema": plan.schema.to_document(),
        "events": [event_to_json(item.event) for item in plan.events],
    }
    return 2 * len(json.dumps(document, indent=2)) + 256 * len(plan.schema.features) + 2**14


def show_plan(plan: Plan, paid_by: Payer | None, *, because: Sequence[str] = ()) -> None:
    """Print what each part will spend, and what the account that pays will have spent then.

    ``because`` says why these parts were composed, where nobody named them.
    """
    price = [] if paid_by is None else [f"{price_in_words(plan, paid_by)}."]
    with until_nobody_reads():
        render.heading(title(plan))
        render.table(
            ("stage", "part", "releases", "epsilon\nalone", "share"),
            [(stage, textwrap.fill(part, _PART), *rest) for stage, part, *rest in stage_rows(plan)],
            numeric=("epsilon\nalone", "share"),
            whole=("stage", "part"),
        )
        print()
        lines = [
            *reading_lines(plan),
            budget_line(plan),
            *accountant_lines(plan),
            *forecast_lines(plan),
            *warning_lines(plan),
        ]
        render.lines([*because, *lines, *price])
        print()


def show_release(release: Release) -> None:
    """Print what was released, and the certificate in words."""
    for number, section in enumerate(release.sections()):
        if number:
            print()
        render.heading(section.heading)
        table = section.table
        if table.header:
            render.table(table.header, table.rows, numeric=table.header[1:])
        render.lines(table.sentences)
