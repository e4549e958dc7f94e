"""``dpkit report``: a page about a release, or about a folder of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import attrs
import typer
from dpkit_cli.options import grouped, note


@attrs.frozen
class AboutOptions:
    """What the page says besides the release."""

    panel: ClassVar[str] = "On the page"

    purpose: Annotated[
        str, typer.Option("--purpose", metavar="TEXT", help="What the release is for, in your words.")
    ] = ""
    owner: Annotated[
        str, typer.Option("--owner", metavar="TEXT", help="Who answers for it, in your words.")
    ] = ""
    date: Annotated[str, typer.Option("--date", metavar="TEXT", help="Its date, in your words.")] = ""
    evaluation: Annotated[
        Path | None,
        typer.Option("--evaluation", metavar="FILE", help="A score of its model by `dpkit evaluate`."),
    ] = None
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger", metavar="FILE", help="Also list this ledger's other runs on the same table."
        ),
    ] = None
    account: Annotated[
        str | None,
        typer.Option(
            "--account",
            metavar="NAME",
            help="The account of the table in --ledger.",
            show_default="that which paid for the release",
        ),
    ] = None


@grouped
def report(
    release: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASE",
            help="A release written by `dpkit compose` or `dpkit run`, or a folder written by `dpkit bench`.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write. Default: RELEASE as .html, or report.html in the folder.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    about: AboutOptions,
) -> None:
    """Write a self-contained web page about RELEASE, to be read in a browser or printed."""
    from dpkit_core.files.writing import reserved

    if release.is_dir():
        from dpkit_command_report.results import page_of_results, read_results

        path = output or release / "report.html"
        text = page_of_results(read_results(release), release.resolve().name)
    else:
        path, text = output or release.with_suffix(".html"), _page_of_release(release, about)
    with reserved(path, replace=force) as file:
        file.write(text)
    note(f"wrote {path}")


def _page_of_release(path: Path, options: AboutOptions) -> str:
    """Return the page about a release, with what a ledger has of its table if that is asked for."""
    from dpkit_command_report.page import About, page
    from dpkit_core import Ledger, Release
    from dpkit_core.errors import InvalidOption

    reported, history = Release.read(path), None
    if options.ledger is not None:
        witness = reported.certificate.witness
        name = options.account or (None if witness is None else witness.account)
        if name is None:
            raise InvalidOption("no account paid for the release; name that of its table with --account")
        history = Ledger.open(options.ledger), name
    elif options.account is not None:
        raise InvalidOption("--account is given without --ledger, which says where the account is")
    later = None if options.evaluation is None else Release.read(options.evaluation)
    return page(reported, path.name, About(options.purpose, options.owner, options.date, later, history))
