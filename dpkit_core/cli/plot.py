"""``dpkit plot``: pictures of the results of ``dpkit bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpkit_core.cli._options import note


def plot(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A folder that `dpkit bench` wrote.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Where pictures go.", show_default="RESULTS/plots"),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="NAME", help="What to draw.", show_default="the suite's first"),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="COMPOSITION",
            help="What heat maps compare the others with.",
            show_default="the first",
        ),
    ] = None,
) -> None:
    """Draw RESULTS: metric against epsilon, ranks, positives, differences, time against records.

    Each picture is written as PNG and SVG.
    """
    from dpkit_core.bench.plots import draw
    from dpkit_core.bench.results import Results

    found = Results(results)
    rows = found.rows()
    drawn = draw(
        rows,
        output or results / "plots",
        metric=metric or next(iter(found.suite().get("metrics", [])), None),
        against=against,
        published=found.published(),
    )
    for path in drawn:
        note(f"wrote {path}")
