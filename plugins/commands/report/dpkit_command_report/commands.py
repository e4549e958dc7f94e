"""``dpkit report``: a page about a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpkit_core.commands.options import note


def report(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE", help="Written by `dpkit compose` or `dpkit run`.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write. Default: RELEASE as .html."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a page about RELEASE that a browser shows, without network, and a printer prints."""
    from dpkit_command_report.page import page
    from dpkit_core import Release
    from dpkit_core.files.writing import reserved

    path = output or release.with_suffix(".html")
    text = page(Release.read(release), release.name)
    with reserved(path, replace=force) as file:
        file.write(text)
    note(f"wrote {path}")
