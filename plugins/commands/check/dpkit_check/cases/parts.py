"""What kind of part a class is, and which accountants there are to plan with."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from dpkit_check.options import at_full_size, options_of, variants
from dpkit_check.reference import ReferenceAccountant
from dpkit_check.trial import Factory
from dpkit_core.errors import DpkitError
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.protocols import Accountant

# The method that no other kind has.
_SIGNS = {"scorer": "prepare", "selector": "select", "accountant": "compose", "regressor": "fit"}


def class_of(make: Factory[object]) -> type[object]:
    """Return the class of the parts that ``make`` makes."""
    while isinstance(make, functools.partial):
        make = make.func
    return make if isinstance(make, type) else type(make())


def kind_of(make: Factory[object]) -> str:
    """Return which kind of part ``make`` makes: scorer, selector, accountant or regressor.

    Raises
    ------
    ValueError
        If its class has the methods of no kind, or of several.
    """
    cls = class_of(make)
    found = kinds_of(cls)
    if len(found) != 1:
        raise ValueError(
            f"cannot tell what kind of part {cls.__qualname__} is: it has the methods of "
            f"{' and '.join(found) or 'no kind'}; say which kind is meant"
        )
    return found[0]


def kinds_of(cls: type[object]) -> list[str]:
    """Return the kinds of whose parts a class has the methods."""
    return [kind for kind, method in _SIGNS.items() if callable(getattr(cls, method, None))]


def accountants(names: Sequence[str] = ("basic", "rdp")) -> list[Callable[[Neighboring], Accountant]]:
    """Return what makes accountants: the kit's own, and those of ``names`` that are installed."""
    found = (_installed_accountant(name) for name in names)
    return [ReferenceAccountant, *(maker for maker in found if maker is not None)]


@functools.cache
def installed() -> Registry:
    """Return what is installed, read once for all compositions: that takes longer than to plan one."""
    return Registry()


@functools.lru_cache(maxsize=16)
def _installed_accountant(name: str) -> Callable[[Neighboring], Accountant] | None:
    """Return what makes an accountant; to look for it costs more than most plans."""
    registry = installed()
    try:
        return registry.load(registry.find("accountants", name))
    except DpkitError:
        return None  # not installed, or broken: its own check says so


def each_variant(make: Factory[Any]) -> tuple[Factory[Any], ...]:
    """Return what makes the part, and what makes it with another value of one option."""
    return (make, *(other for _, other in variants(make)))


def chooses(one: Factory[Any], make: Factory[Any]) -> bool:
    """Return whether words are all that ``one`` sets otherwise than ``make``: another method."""
    known = options_of(make)
    set_anew = [value for name, value in options_of(one).items() if name not in known or known[name] != value]
    return bool(set_anew) and all(isinstance(value, str) for value in set_anew)


#: Pairs of options that are tried with other values at once.
_TOGETHER = 12


def together(make: Factory[Any]) -> list[Factory[Any]]:
    """Return what makes the part with other values of two options at once, and of all that go together."""
    known = options_of(make)
    others: dict[str, Any] = {}
    for one in each_variant(make)[1:]:
        if at_full_size(one()):
            continue
        for name, value in options_of(one).items():
            if name not in known or known[name] != value:
                others.setdefault(name, value)
    pairs = [*itertools.islice(itertools.combinations(others, 2), _TOGETHER)]
    found = [made for names in pairs if (made := _made(make, {name: others[name] for name in names}))]
    most: Factory[Any] | None = None
    for name, value in others.items() if len(others) > 2 else ():
        most = _made(most or make, {name: value}) or most
    return [*found, *([most] if most else [])]


def _made(make: Factory[Any], options: dict[str, Any]) -> Factory[Any] | None:
    """Return what makes the part with these options; None where it does not accept them."""
    other = functools.partial(make, **options)
    try:
        other()
    except Exception:  # the part says which values it accepts
        return None
    return other


def two_options(make: Factory[Any]) -> list[Factory[Any]]:
    """Return what makes the part by each word of an option that lists words, with another value besides.

    Such an option may choose another method, and each method reads options that others do not.
    """
    known, found = [one() for one in each_variant(make)], list[Factory[Any]]()
    for one in each_variant(make)[1:]:
        if not chooses(one, make):
            continue
        for other in each_variant(one):
            if all(other() != part for part in known) and not at_full_size(other()):
                known.append(other())
                found.append(other)
    return found
