"""``dpkit list``: what is installed. Reads metadata and recipes only; imports no part, no NumPy, no rich."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import attrs
import typer

from dpkit_core.cli._options import Format, FormatOption, kinds
from dpkit_core.offers import KINDS as OFFERS
from dpkit_core.offers import offers, read_offer
from dpkit_core.registry import ComponentRef, Registry


def _kinds(incomplete: str) -> list[str]:
    return kinds(incomplete) + [kind for kind in OFFERS if kind.startswith(incomplete)]


def list_parts(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help="scorers, selectors, regressors or accountants; all parts by default. Also recipes, suites "
            "and generators.",
            autocompletion=_kinds,
        ),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """List the installed parts, without importing any; or recipes, suites, generators of tables."""
    refs = _offered(kind) if kind in OFFERS else Registry().refs(kind)
    if format is Format.JSON:
        print(json.dumps([_document(ref) for ref in refs], indent=2))
    elif refs:
        print(_aligned([("KIND", "NAME", "DISTRIBUTION", "SUMMARY"), *map(_row, refs)]))
    else:
        print(f"no {kind or 'parts'} installed; `pip install 'dpkit[starter]'` installs the first ones")


def _offered(kind: str) -> tuple[ComponentRef, ...]:
    """Return what is installed of a kind that is data: each with its own summary, not its distribution's."""
    refs = offers(kind)
    if kind == "generators":
        return refs
    return tuple(attrs.evolve(ref, summary=read_offer(ref).get("summary", "")) for ref in refs)


def _document(ref: ComponentRef) -> dict[str, str]:
    return {
        "kind": ref.kind,
        "name": ref.name,
        "distribution": ref.distribution,
        "version": ref.version,
        "summary": ref.summary,
        "qualified": ref.qualified,
    }


def _row(ref: ComponentRef) -> tuple[str, ...]:
    return ref.kind, ref.name, f"{ref.distribution} {ref.version}", ref.summary


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
