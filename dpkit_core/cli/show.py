"""``dpkit show``: everything about one part, asked of the part itself. Imports that part.

Facts that a part could state wrongly in prose (its needs, sensitivity and events) are asked of the part, by
planning a small public example: ten numeric columns, five to be selected, epsilon 1, delta 1e-6.
"""

from __future__ import annotations

import functools
import inspect
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import attrs
import typer

from dpkit_core.commands.options import Format, FormatOption, aside, kinds, names_of, print_json
from dpkit_core.data.schema import Schema
from dpkit_core.errors import DpkitError, UnknownName
from dpkit_core.plugins.kinds import Planning, kind_named
from dpkit_core.plugins.registry import ComponentRef, Registry
from dpkit_core.plugins.resources import FILES, find_resource, read_resource, resource_file
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.privacy.events import Repeated, Sequence, events_in_words, examples
from dpkit_core.protocols import Accountant, Iterates, Request, SelectionRequest

_EXAMPLE = "10 columns, k = 5, epsilon 1, delta 1e-6"
_COLUMNS, _K, _RECORDS = 10, 5, 10_000
_BUDGET = Budget(1.0, 1e-6)
_PURE = Budget(1.0, 0.0)

_REQUIRED = "(required)"

Facts = dict[str, Any]


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
            help="scorer, selector, regressor or accountant; recipe or suite. May be left out for a part.",
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
    registry = Registry()
    ref = registry.find(kind, name)
    with aside():
        facts = _facts(ref, registry.load(ref))
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


def _print_facts(facts: Facts, role: str) -> None:
    from dpkit_core.commands import render

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
        "events": "Accounts for" if role == "accountant" else f"Events, for example with {_EXAMPLE}",
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


def _facts(ref: ComponentRef, component: type[Any]) -> Facts:
    """Return everything that can be said about a part without data."""
    facts: Facts = {
        "kind": ref.kind,
        "name": ref.name,
        "summary": " ".join((inspect.getdoc(component) or "").split("\n\n")[0].split()),
        "distribution": ref.distribution,
        "version": ref.version,
        "proof": getattr(component, "proof", ""),
        "reference": getattr(component, "reference", ""),
        "options": list(_options(component)),
    }
    ask = {
        "scorers": _scorer,
        "selectors": _selector,
        "regressors": _regressor,
        "accountants": _accountant,
    }[ref.kind]
    required = [option["name"] for option in facts["options"] if option["default"] == _REQUIRED]
    if required:
        return facts | {"needs": [f"a value for {name}, which has no default" for name in required]}
    return facts | ask(component)


def _options(component: type[Any]) -> Iterator[Facts]:
    from dpkit_core.pipeline.parts import option_fields

    about = _documented_fields(component)
    for field in option_fields(component):
        yield {
            "name": field.name,
            "type": str(getattr(field.type, "__name__", field.type or "")),
            "default": _default(field.default),
            "accepts": _accepts(field.validator),
            "about": about.get(field.name, ""),
        }


def _default(default: Any) -> Any:
    if default is attrs.NOTHING:
        return _REQUIRED
    if getattr(default, "takes_self", False):
        return "(depends on other options)"
    return getattr(default, "factory", lambda: default)()


def _accepts(validator: Any) -> str:
    """Return what a validator accepts: the words of its docstring, the choices, or the bound."""
    validator = getattr(validator, "validator", validator)  # that None is accepted, the default tells
    if inspect.isfunction(validator):
        return (validator.__doc__ or "").split("\n")[0].removeprefix("Accept ").rstrip(".")
    parts = getattr(validator, "_validators", None)
    if parts is not None:
        return ", ".join(filter(None, map(_accepts, parts)))
    choices = getattr(validator, "options", None)
    if isinstance(choices, range):  # it may be thousands of numbers
        return f"from {choices[0]} to {choices[-1]}"
    if choices is not None:
        return f"one of {', '.join(map(str, choices))}"
    bound = getattr(validator, "bound", None)
    if bound is None:
        return ""
    return f"{validator.compare_op} {f'{bound:.6g}' if isinstance(bound, float) else bound}"


def _documented_fields(component: type[Any]) -> dict[str, str]:
    """Return field -> description from the NumPy-style ``Attributes`` or ``Parameters`` section."""
    text = inspect.getdoc(component) or ""
    section = re.search(r"^(?:Attributes|Parameters)\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}\n|\Z)", text, re.M | re.S)
    if section is None:
        return {}
    entries = re.findall(r"^(\w[\w, ]*?)(?: *:.*)?\n((?:^[ ]+.*\n?|^\n)+)", section[1] + "\n", re.M)
    return {name.strip(): " ".join(body.split()) for names, body in entries for name in names.split(",")}


def _example_schema(relation: Neighboring, *, bounds: bool) -> Schema:
    names = [f"x{j + 1}" for j in range(_COLUMNS)]
    known = dict.fromkeys([*names, "y"], (0.0, 1.0)) if bounds else None
    schema = Schema.numeric(names, "y", known, relation)
    public_records = bounds and relation is Neighboring.REPLACE_ONE
    return attrs.evolve(schema, records=_RECORDS) if public_records else schema


def _example_accountant(relation: Neighboring) -> Accountant:
    """Return an accountant that knows the relation: rdp if it is installed, else the first one by name."""
    registry = Registry()
    for ref in sorted(registry.refs("accountants"), key=lambda ref: ref.name != "rdp"):
        try:
            accountant: Accountant = registry.load(ref)(neighboring=relation)
        except DpkitError:
            continue
        return accountant
    raise DpkitError("no accountant is installed to plan an example with; install dpkit-accountant-rdp")


def _asked(ask: Callable[[Neighboring, Budget, Schema], Any], what: str) -> Facts:
    """Return the answers for both relations, and as needs what the part says where a fact is missing."""
    answers: Facts = {}
    needs: Facts = {}
    for relation in Neighboring:
        sentences: dict[str, None] = {}
        bare, full = (_example_schema(relation, bounds=bounds) for bounds in (False, True))
        for budget, schema in ((_PURE, full), (_BUDGET, bare), (_BUDGET, full)):
            try:
                answers[relation.value] = ask(relation, budget, schema)
            except DpkitError as error:
                sentences[str(error)] = None
        needs[relation.value] = list(sentences)
    return {what: answers, "needs": needs}


def _planned(part: Any, relation: Neighboring, budget: Budget, schema: Schema) -> list[str]:
    request = Request(schema, _K, budget, _example_accountant(relation))
    return events_in_words(part.plan(request).events)


def _scorer(component: type[Any]) -> Facts:
    from dpkit_core.pipeline.parts import ITERATES, forms_of

    scorer = component()
    if forms_of(scorer) == (ITERATES,):
        return _scorer_of_iterates(scorer)

    def sensitivity(relation: Neighboring, budget: Budget, schema: Schema) -> Facts:
        first, later = (scorer.sensitivity(schema, r) for r in (0, 1))
        rounds = {"every round": first} if first == later else {"first round": first, "later rounds": later}
        return {word: {"linf": value.linf, "range": value.range} for word, value in rounds.items()}

    facts = _asked(sensitivity, "sensitivity")
    facts["scores"] = "change with each pick" if scorer.adaptive else "do not change"
    if isinstance(scorer, Planning):
        release = _asked(functools.partial(_planned, scorer), "events")
        for relation, sentences in release["needs"].items():
            facts["needs"][relation] = list(dict.fromkeys([*facts["needs"][relation], *sentences]))
        if any(release["events"].values()):
            facts["events"] = release["events"]
    return facts


def _scorer_of_iterates(scorer: Any) -> Facts:
    def sensitivity(relation: Neighboring, budget: Budget, schema: Schema) -> Facts:
        d = len(schema.features)
        clipped = Iterates("squared", 1.0, 0.25, d, (1,), relation, schema.records)
        value = scorer.sensitivity(clipped, 0)
        return {"every iterate": {"linf": value.linf, "range": value.range}}

    facts = _asked(sensitivity, "sensitivity")
    facts["scores"] = "rate the iterates of a regressor, such as frank_wolfe"
    return facts


def _selector(component: type[Any]) -> Facts:
    from dpkit_core.mechanisms.picks import rounds_of

    selector = component()

    def events(relation: Neighboring, budget: Budget, schema: Schema) -> Facts:
        accountant = _example_accountant(relation)
        sensitivity = Sensitivity.general(1.0, relation)
        rounds = {
            how: rounds_of(_COLUMNS, picks, (sensitivity,) * len(picks))
            for how, picks in (("one a round", (1,) * _K), ("all at once", (_K,)))
        }
        return {
            how: events_in_words(selector.plan(SelectionRequest(each, budget, accountant)).events)
            for how, each in rounds.items()
        }

    return _asked(events, "events")


def _regressor(component: type[Any]) -> Facts:
    return _asked(functools.partial(_planned, component()), "events")


def _accountant(component: type[Any]) -> Facts:
    supported: Facts = {}
    for relation in Neighboring:
        accountant = component(neighboring=relation)
        known = [event for event in examples(relation) if accountant.supports(event)]
        names = [type(event).__name__ for event in known if not isinstance(event, Repeated | Sequence)]
        # Whether a sample is supported depends on what is drawn on it.
        supported[relation.value] = [
            "PoissonSampled(Gaussian)" if name == "PoissonSampled" else name for name in names
        ]
    return {"events": supported}
