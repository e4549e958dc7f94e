"""``dpkit report``: a page about a release, or about a folder of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpkit_core.commands.options import note


def report(
    release: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASE",
            help="A release written by `dpkit compose` or `dpkit run`, or a folder written by `dpkit bench`.",
        ),
    ],
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
) -> None:
    """Write a self-contained web page about RELEASE, to be read in a browser or printed."""
    from dpkit_core.files.writing import reserved

    if release.is_dir():
        from dpkit_command_report.results import page_of_results, read_results

        path = output or release / "report.html"
        text = page_of_results(read_results(release), release.resolve().name)
    else:
        from dpkit_command_report.page import page
        from dpkit_core import Release

        path = output or release.with_suffix(".html")
        text = page(Release.read(release), release.name)
    with reserved(path, replace=force) as file:
        file.write(text)
    note(f"wrote {path}")
