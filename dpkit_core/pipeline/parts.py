"""The parts of a pipeline: instances, where they came from, and what a certificate says of them."""

from __future__ import annotations

import dataclasses
import enum
import math
import numbers
import reprlib
from collections.abc import Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from dpkit_core.data.engine import Engine
from dpkit_core.data.schema import Schema
from dpkit_core.errors import InvalidOption
from dpkit_core.pipeline.policy import Policy
from dpkit_core.plugins.kinds import ComponentRef
from dpkit_core.plugins.promises import MOVING, PROTOCOLS, Iterating, Reading, is_supported, lacking, members
from dpkit_core.plugins.registry import Registry, libraries_of, load_target, offered_as
from dpkit_core.plugins.resources import find_resource, resources
from dpkit_core.privacy.budget import Budget
from dpkit_core.protocols import (
    API,
    Accountant,
    Iterates,
    Regressor,
    Request,
    Round,
    Scorer,
    SelectionRequest,
    StagePlan,
    TopKSelector,
)
from dpkit_core.release.certificate import PartRecord
from dpkit_core.validators import exact_text

Component: TypeAlias = Scorer | TopKSelector | Regressor | Accountant
"""What a part is an instance of: a class that keeps one of the protocols."""

C = TypeVar("C", bound=Component)
Made = TypeVar("Made", bound=Component | Engine)
C_co = TypeVar("C_co", bound=Component | Engine, covariant=True)

#: How many features are selected by default.
DEFAULT_K = 5

_MISSING = object()
_FACTORY: type[Any] = type(attrs.Factory(list))  # to a type checker, a function


@attrs.frozen
class Part(Generic[C_co]):
    """One part of a pipeline: the instance and where it came from."""

    role: str
    instance: C_co
    name: str
    distribution: str
    version: str

    @property
    def record(self) -> PartRecord:
        """What a certificate says of the part."""
        return PartRecord(
            self.role,
            self.name,
            self.distribution,
            self.version,
            options_of(self.instance),
            _text(self.instance, "proof"),
            _text(self.instance, "reference"),
            libraries_of(self.distribution),
        )

    @property
    def most_records(self) -> int | None:
        """The largest number of records that its proof covers, where it says one."""
        most = getattr(self.instance, "most_records", None)  # it may follow from public options
        return most if type(most) is int else None

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


def _text(instance: object, fact: str) -> str:
    value = getattr(type(instance), fact, "")
    return exact_text(value) if isinstance(value, str) else ""


@attrs.frozen
class Selection:
    """The two parts of a pipeline that select features; they come together or not at all."""

    scorer: Part[Scorer]
    selector: Part[TopKSelector]


@attrs.frozen
class Iteration:
    """The parts of a pipeline whose regressor shows its iterates to the scorer and the selector."""

    scorer: Part[Scorer]
    selector: Part[TopKSelector]
    regressor: Part[Regressor]

    @property
    def not_private(self) -> tuple[str, ...]:
        """Why what is selected by the scores is not private, if it is not."""
        return tuple(map(exact_text, getattr(self.scorer.instance, "not_private", ())))

    def components(self, facts: Iterates) -> int:
        """Return how many numbers, off which scores are read, there are for each iterate; 0 for scores."""
        scorer = self.scorer.instance
        return int(scorer.components(facts)) if isinstance(scorer, Reading) else 0

    @property
    def none(self) -> bool:
        """Whether dropping nothing is a candidate where something could be dropped."""
        return bool(getattr(self.scorer.instance, "none", True))


@attrs.frozen
class Assembly:
    """The parts that are to work together, as they were given.

    ``accountant`` is a name, with ``accountant_options``, where the relation is still to be filled in; None
    where nobody said which (``dpkit_core.pipeline.choose``).
    """

    scorer: Part[Scorer] | None
    selector: Part[TopKSelector] | None
    regressor: Part[Regressor] | None
    accountant: Part[Accountant] | str | None
    accountant_options: Mapping[str, Any]

    def __str__(self) -> str:
        return " + ".join(part.name for part in self.chosen)

    @property
    def chosen(self) -> tuple[Part[Component], ...]:
        """Every part but the accountant."""
        return tuple(part for part in (self.scorer, self.selector, self.regressor) if part)

    @property
    def selection(self) -> Selection | None:
        """The scorer and its selector, if there are both."""
        if self.scorer is None or self.selector is None:
            return None
        return Selection(self.scorer, self.selector)

    @property
    def iteration(self) -> Iteration | None:
        """Its parts, if they are to select while the regressor iterates."""
        scorer, selector, regressor = self.scorer, self.selector, self.regressor
        if scorer is None or selector is None or regressor is None:
            return None
        if not (ITERATES in forms_of(scorer.instance) and isinstance(regressor.instance, Iterating)):
            return None
        return Iteration(scorer, selector, regressor)

    @property
    def gathering(self) -> tuple[Part[Component], ...]:
        """Its parts that need the records in one place, and not only sums over them."""
        sees_data = (None if self.iteration else self.scorer, self.regressor)
        return tuple(part for part in sees_data if part and "streamed" not in forms_of(part.instance))

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms of data that it accepts: its scorer's; all without a scorer that sees data.

        A regressor that does not accept the form at hand gets the columns that it is to use in memory. One
        that has a form of its own, not of numbers, accepts no other.
        """
        if self.scorer is None or self.iteration is not None:
            fits = () if self.regressor is None else forms_of(self.regressor.instance)
            return tuple(form for form in fits if form not in (*FORMS, BATCHES, ITERATES)) or FORMS
        return tuple(form for form in forms_of(self.scorer.instance) if form in FORMS)


@attrs.frozen
class Wanted:
    """What a plan is asked for: parts, public facts, a budget, and the settings of ``Pipeline.plan``."""

    assembly: Assembly
    schema: Schema
    budget: Budget
    k: int | None
    select_share: float
    batches: int = attrs.field(converter=int)  # numpy has numbers of its own
    evaluate: float | None = attrs.field(converter=attrs.converters.optional(float))
    in_sample: float | None = attrs.field(converter=attrs.converters.optional(float))
    engine: Part[Engine] | None

    @property
    def nearest_k(self) -> int:
        """How many features the regressor gets, by the nearest k that is right: parts have reasons, too.

        All where nothing selects before it fits.
        """
        features = len(self.schema.features)
        if self.assembly.selector is None or self.assembly.iteration is not None:
            return features
        return min(DEFAULT_K if self.k is None else max(self.k, 1), features)


FORMS = ("dense", "sparse", "streamed")
ITERATES = "iterates"
BATCHES = "batches"


@attrs.frozen
class Stage:
    """One stage of a plan: one part that releases something, by which events, and what they may cost.

    Attributes
    ----------
    name
        ``scoring``, ``selection`` or ``regression``.
    part
        The part that releases something here.
    share
        Its fraction of the budget before joint composition.
    request
        What it was asked to plan for; its budget is what the events may cost when accounted alone.
    plan
        Its events and settings.
    """

    name: str
    part: Part[Component]
    share: float
    request: Request | SelectionRequest
    plan: StagePlan

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds of a selection; none of another stage."""
        return self.request.rounds if isinstance(self.request, SelectionRequest) else ()


def forms_of(part: Component) -> tuple[str, ...]:
    """Return the forms of data that a part accepts, ``ITERATES`` and ``BATCHES`` among them."""
    return tuple(getattr(type(part), "forms", FORMS[:1]))


@attrs.frozen
class Option:
    """One option of a part, whichever way its class declares it.

    Attributes
    ----------
    name
        Of the field.
    type
        Its annotation.
    default
        Its default, an ``attrs.Factory``, or ``attrs.NOTHING``.
    validator
        What checks it; None where it is not declared with attrs.
    """

    name: str
    type: Any
    default: Any
    validator: Any = None


def option_fields(component: type[Any]) -> tuple[Option, ...]:
    """Return the options of a class: its fields, but for the relation and those with metadata ``state``.

    Those of an attrs class or a dataclass; a class that is neither has none.
    """
    fields: tuple[Any, ...] = ()
    if attrs.has(component):
        fields = attrs.fields(component)
    elif dataclasses.is_dataclass(component):
        fields = dataclasses.fields(component)
    return tuple(
        Option(field.name, field.type, _default(field), getattr(field, "validator", None))
        for field in fields
        if field.init and field.name != "neighboring" and not field.metadata.get("state")
    )


def _default(field: Any) -> Any:
    if getattr(field, "default_factory", dataclasses.MISSING) is not dataclasses.MISSING:
        return attrs.Factory(field.default_factory)
    return attrs.NOTHING if field.default is dataclasses.MISSING else field.default


def options_of(instance: object) -> dict[str, Any]:
    """Return the options of a part that differ from their defaults, as plain data.

    Raises
    ------
    InvalidOption
        If an option is no plain data, so that no certificate could hold it.
    """
    return {
        option.name: _plain(f"option {option.name} of {type(instance).__name__}", value)
        for option in option_fields(type(instance))
        if not _equal(value := getattr(instance, option.name), _made(option.default, instance))
    }


def _made(default: Any, instance: object) -> object:
    if not isinstance(default, _FACTORY):
        return default
    return default.factory(instance) if default.takes_self else default.factory()


def _equal(value: object, default: object) -> bool:
    equal: object = value == default  # arrays have no single answer, and are no plain data either
    return equal is True


def _plain(what: str, value: object) -> Any:  # noqa: PLR0911 - one line for each kind of data
    match value:
        case None | bool():
            return value
        case str():
            return exact_text(value)
        case enum.Enum():
            return _plain(what, value.value)
        case numbers.Integral():
            return int(value)
        case numbers.Real() if math.isfinite(value):
            return float(value)
        case list() | tuple() | set() | frozenset():
            return [_plain(what, item) for item in value]
        case Mapping() if all(isinstance(key, str) for key in value):
            return {key: _plain(what, item) for key, item in value.items()}
        case _ if attrs.has(kind := type(value)):
            return {f.name: _plain(what, getattr(value, f.name)) for f in attrs.fields(kind)}
    raise InvalidOption(
        f"{what} is {reprlib.repr(value)}, which a certificate cannot hold; options are text, finite "
        "numbers, truth values, and lists and mappings of them"
    )


def make_part(
    role: str,
    given: C | str,
    options: Mapping[str, Any] | None = None,
    registry: Registry | None = None,
) -> Part[C]:
    """Return the part for an instance, or for the name of an installed component.

    It is of the type that the caller expects of the role, which is found out here. A ``registry`` that is
    given has read the environment once for several parts.

    Raises
    ------
    InvalidOption
        If the component has no such option or refuses its value.
    AgainstPolicy
        If the site does not allow the component; it is not loaded then.
    """
    registry = registry or Registry()
    _require_part(role, given)
    ref: ComponentRef | None
    if isinstance(given, str):
        ref = registry.find(role, given)
        Policy.of_site().require_part(role, ref.name, ref.distribution, ref.version)
        component = registry.load(ref)
        instance: C = _instantiate(component, f"{role} {ref.name}", dict(options or {}))
    else:
        instance, ref = given, registry.provenance(type(given), role)
    return _part(role, instance, ref)


def make_engine(given: Engine | str, options: Mapping[str, Any] | None = None) -> Part[Engine]:
    """Return the engine for an instance, or for the name of an installed one, like ``make_part``."""
    ref: ComponentRef | None
    if isinstance(given, str):
        ref = find_resource("engine", given)
        Policy.of_site().require_part("engine", ref.name, ref.distribution, ref.version)
        engine: Engine = _instantiate(load_target(ref), f"engine {ref.name}", dict(options or {}))
    elif options or isinstance(given, type) or not callable(getattr(given, "open", None)):
        raise InvalidOption(
            f"engine is {reprlib.repr(given)}; give an engine, such as DaskEngine(), or the name of an "
            "installed one and its options"
        )
    else:
        engine, ref = given, offered_as(given, resources("engine"))
    part = _part("engine", engine, ref)
    if missing := [promise for promise in ("open", "units", "samples") if not hasattr(engine, promise)]:
        raise InvalidOption(
            f"engine {part.name} lacks {' and '.join(missing)}; install a version of it for this dpkit"
        )
    return part


def _part(role: str, instance: Made, ref: ComponentRef | None) -> Part[Made]:
    if ref is None:
        return Part(role, instance, type(instance).__name__, "", "")
    return Part(role, instance, ref.name, ref.distribution, ref.version)


def _require_part(role: str, given: object) -> None:
    if isinstance(given, str):
        return
    if isinstance(given, type):
        raise InvalidOption(
            f"{role} is the class {given.__name__}; give a part, such as {given.__name__}(), or its name"
        )
    protocol = PROTOCOLS[role]
    missing = lacking(given, protocol)
    if missing:
        raise InvalidOption(
            f"{role} is {reprlib.repr(given)}, which lacks {' and '.join(missing)}; give the name of an "
            f"installed {role}, or a part that has {' and '.join(members(protocol))}"
        )
    api = getattr(given, "api", None)
    if not is_supported(api):
        raise InvalidOption(
            f"{role} {type(given).__name__} has api = {api!r}; this dpkit runs parts for plugin API {API}. "
            f"{MOVING}"
        )


def _instantiate(component: type[Any], what: str, options: dict[str, Any]) -> Any:
    known = [field.name for field in option_fields(component)]
    for name in options:
        if name not in known and name != "neighboring":
            raise InvalidOption(f"{what} has no option {name!r}; it has {', '.join(known) or 'no options'}")
    try:
        return component(**options)
    except (TypeError, ValueError) as error:
        # Validators of attrs add their own objects to the arguments of an error.
        reason = error.args[0] if error.args else error
        raise InvalidOption(f"{what} does not accept {options}: {reason}") from error


def require_type(name: str, given: object, expected: type[object], remedy: str) -> None:
    """Raise ``InvalidOption`` unless an argument is of the type expected; true and false are no numbers."""
    if not isinstance(given, expected) or isinstance(given, bool):
        raise InvalidOption(f"{name} is {given!r}, of type {type(given).__name__}; {remedy}")
