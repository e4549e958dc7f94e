"""``dpkit list``: what is installed. Reads metadata and files only; imports no part, no NumPy, no rich."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import typer

from dpkit_cli.options import Format, FormatOption, print_json
from dpkit_core import __version__
from dpkit_core.errors import install
from dpkit_core.plugins.kinds import KINDS, ComponentRef, kind_named
from dpkit_core.plugins.registry import Registry, first_party
from dpkit_core.plugins.resources import described, resources

# Columns that a summary has on the narrowest of terminals.
_NARROWEST = 24


def _kinds(incomplete: str) -> list[str]:
    return [word for kind in KINDS if (word := f"{kind.name}s").startswith(incomplete)]


def list_parts(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help="scorers, selectors, regressors or accountants; all parts by default. Also sources, "
            "recipes, suites, generators, models, commands, observers, pages and reports.",
            autocompletion=_kinds,
        ),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """List the installed parts, or what else distributions offer, such as recipes, without importing any."""
    named = None if kind is None else kind_named(kind)
    others = named is not None and not named.part
    refs = tuple(map(described, resources(named.name))) if named and others else Registry().refs(kind)
    if format is Format.JSON:
        print_json([_document(ref) for ref in refs])
        return
    if refs:
        print(*_listing(refs, _width()), sep="\n")
    else:
        what = "parts" if named is None else f"{named.name}s"
        first = "" if others else f"; this installs the first ones: {install('[starter]')}"
        print(f"no {what} are installed{first}")
    if kind is None:
        _mention_observers()


def _mention_observers() -> None:
    """Print the observers, if there are any: every run calls them, although no option names them."""
    observers = resources("hooks")
    if observers:
        names = ", ".join(ref.name for ref in observers)
        print(f"\nObservers of every run (see `dpkit list observers`): {names}")


def _document(ref: ComponentRef) -> dict[str, str]:
    return {
        "kind": ref.kind,
        "name": ref.name,
        "distribution": ref.distribution,
        "version": ref.version,
        "summary": ref.summary,
        "qualified": ref.qualified,
    }


def _listing(refs: Sequence[ComponentRef], width: int | None) -> Iterator[str]:
    """Yield a heading for each kind and an entry for each name; summaries are wrapped between words.

    What came with dpkit is of its version. Anything else says which distribution it is from.
    """
    own = first_party()
    indent = 2 + max(len(ref.name) for ref in refs) + 2
    for kind, members in itertools.groupby(refs, key=lambda ref: ref.kind):
        yield f"{kind_named(kind).name}s"
        if kind == "sources":
            yield from _sources(members, width)
            continue
        for ref in members:
            known = ref.version == __version__ and ref.distribution in own
            notes = [ref.summary] if known else [ref.summary, f"from {ref.distribution} {ref.version}"]
            lines = [line for text in notes for line in _wrapped(text, width and width - indent)]
            yield f"  {ref.name.ljust(indent - 4)}  {lines[0]}".rstrip()
            yield from (" " * indent + line for line in lines[1:])


def _sources(refs: Iterable[ComponentRef], width: int | None) -> Iterator[str]:
    """Yield each source once, with the names that lead to it: ends of files and beginnings of addresses."""
    names: dict[tuple[str, ...], list[str]] = {}
    for ref in refs:
        names.setdefault((ref.summary, ref.distribution, ref.version), []).append(ref.name)
    for (summary, distribution, version), those in names.items():
        whose = distribution if version == __version__ else f"{distribution} {version}"
        yield from ("  " + line for line in _wrapped(f"{', '.join(those)}  ({whose})", width and width - 2))
        yield from ("      " + line for line in _wrapped(summary, width and width - 6))


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None:
        return [text]
    room = max(width, _NARROWEST)
    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]


def _width() -> int | None:
    """Return the columns to write in; None where neither a terminal nor the environment says so."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return None
