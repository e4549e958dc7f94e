"""``dpkit show``: everything about one part, asked of the part itself. Imports that part."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from dpkit_cli.options import Format, FormatOption, aside, kinds, names_of, print_json

from dpkit_core.errors import UnknownName
from dpkit_core.plugins.kinds import kind_named
from dpkit_core.plugins.registry import Registry
from dpkit_core.plugins.resources import FILES, find_resource, read_resource, resource_file


def _names(ctx: typer.Context, incomplete: str) -> list[str]:
    return names_of(str(ctx.params.get("kind")))(incomplete)


def _named(name: str) -> str:
    """Return the kind of the one part of this name, for a name that is given alone."""
    roles = sorted({ref.role for ref in Registry().refs() if ref.answers_to(name)})
    if len(roles) == 1:
        return roles[0]
    if not roles:
        raise UnknownName(
            f"no part has the name {name!r}; `dpkit list` prints the parts, and a recipe or suite "
            f"needs its kind: `dpkit show recipe {name}`"
        )
    choices = " or ".join(f"`dpkit show {role} {name}`" for role in roles)
    raise UnknownName(f"parts of several kinds have the name {name!r}; say which: {choices}")


def show(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="scorer, selector, regressor or accountant; recipe or suite; or the name of a part alone.",
            autocompletion=kinds,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A name that `dpkit list` prints.", autocompletion=_names),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show a part (options, needs, sensitivity, events, proof, distribution), a recipe or a suite."""
    if name is None:
        kind, name = _named(kind), kind
    if kind_named(kind).plural in FILES:
        _show_file(kind, name, format)
        return
    from dpkit_command_show.asking import facts_of

    registry = Registry()
    ref = registry.find(kind, name)
    with aside():
        facts = facts_of(ref, registry.load(ref))
    if format is Format.JSON:
        print_json(facts)
    else:
        _print_facts(facts, ref.role)


def _show_file(kind: str, name: str, format: Format) -> None:
    """Print a recipe or suite as it is written, with where it comes from."""
    ref = find_resource(kind, name)
    if format is Format.JSON:
        print_json({"name": ref.name, "distribution": ref.distribution, **read_resource(ref)})
    else:
        print(f"# {ref.role} {ref.name} ({ref.distribution} {ref.version})")
        print(resource_file(ref).read_text(encoding="utf-8"), end="")


def _print_facts(facts: Mapping[str, Any], role: str) -> None:
    from dpkit_cli import render

    from dpkit_command_show.asking import EXAMPLE

    render.heading(f"{role} {facts['name']} ({facts['distribution']} {facts['version']})")
    render.lines([_plain(facts["summary"])])
    if facts["options"]:
        print()
        render.heading(f"Options, set with --set {role}.OPTION=VALUE")
        rows = [
            (
                option["name"],
                option["type"],
                _shown(option["default"]),
                "\n".join(filter(None, (_plain(option["about"]), option["accepts"]))),
            )
            for option in facts["options"]
        ]
        render.table(("option", "type", "default", "about"), rows)
    titles = {
        "scores": "Scores",
        "needs": "Needs",
        "sensitivity": "Sensitivity (linf: largest change of a score; range: of the difference of two)",
        "events": "Accounts for" if role == "accountant" else f"Events, for example with {EXAMPLE}",
        "proof": "Proof",
        "reference": "Reference",
    }
    for key, title in titles.items():
        if facts.get(key):
            print()
            render.heading(title)
            render.lines(_lines(facts[key], separator=", " if role == "accountant" else None))


def _shown(default: object) -> str:
    """Return a default as people write it, a number with few digits."""
    return f"{default:g}" if isinstance(default, float) else reprlib.repr(default).strip("'")


def _plain(text: str) -> str:
    return text.replace("``", "")


def _lines(fact: Any, path: tuple[str, ...] = (), *, separator: str | None = None) -> Iterator[str]:
    """Yield one line for each fact, behind the words that lead to it; a ``separator`` joins lists."""
    lead = ", ".join(path) + ": " if path else ""
    match fact:
        case Mapping() if all(isinstance(value, float) for value in fact.values()):
            yield lead + ", ".join(f"{key} {value:.6g}" for key, value in fact.items())
        case Mapping() if len(fact) > 1 and all(value == fact[next(iter(fact))] for value in fact.values()):
            # The relation makes no difference.
            yield from _lines(next(iter(fact.values())), path, separator=separator)
        case Mapping():
            for key, value in fact.items():
                yield from _lines(value, (*path, key), separator=separator)
        case []:
            yield lead + "nothing beyond column names"
        case list():
            for item in [separator.join(fact)] if separator else fact:
                yield lead + str(item)
        case _:
            yield lead + str(fact)
