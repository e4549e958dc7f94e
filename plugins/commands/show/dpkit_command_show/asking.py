"""What ``dpkit show`` asks of a part.

Facts that a part could state wrongly in prose (its needs, sensitivity and events) are asked of the part, by
planning a small public example: ten numeric columns, five to be selected, epsilon 1, delta 1e-6.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from dpkit_core.data.schema import Schema
from dpkit_core.errors import DpkitError
from dpkit_core.plugins.kinds import ComponentRef
from dpkit_core.plugins.promises import Planning
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.privacy.events import Repeated, Sequence, events_in_words, examples
from dpkit_core.protocols import Accountant, Iterates, Request, SelectionRequest

EXAMPLE = "10 columns, k = 5, epsilon 1, delta 1e-6"
_COLUMNS, _K, _RECORDS = 10, 5, 10_000
_BUDGET = Budget(1.0, 1e-6)
_PURE = Budget(1.0, 0.0)

_REQUIRED = "(required)"

Facts = dict[str, Any]


def facts_of(ref: ComponentRef, component: type[Any]) -> Facts:
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
