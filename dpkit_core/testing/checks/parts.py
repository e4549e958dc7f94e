"""What every part promises, whatever its kind: found by looking at its class."""

from __future__ import annotations

import functools
import inspect
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import attrs

from dpkit_core.composer import option_fields
from dpkit_core.protocols import API, API_FLOOR, Accountant, Regressor, Scorer, TopKSelector
from dpkit_core.signatures import departures
from dpkit_core.testing.trial import Evidence, Factory, NotApplicable, Trial, require

PROTOCOLS: Mapping[str, type[Any]] = {
    "scorer": Scorer,
    "selector": TopKSelector,
    "accountant": Accountant,
    "regressor": Regressor,
}

# Each takes longer to import than everything that a part needs.
SLOW_TO_IMPORT = ("scipy.stats", "sklearn", "pandas", "matplotlib", "dp_accounting")

# The method that no other kind has.
_SIGNS = {"scorer": "prepare", "selector": "select", "accountant": "compose", "regressor": "fit"}


def class_of(make: Factory) -> type[Any]:
    """Return the class of the parts that ``make`` makes."""
    while isinstance(make, functools.partial):
        make = make.func
    return make if isinstance(make, type) else type(make())


def kind_of(make: Factory) -> str:
    """Return which kind of part ``make`` makes: scorer, selector, accountant or regressor.

    Raises
    ------
    ValueError
        If its class has the methods of no kind, or of several.
    """
    cls = class_of(make)
    kinds = [kind for kind, method in _SIGNS.items() if callable(getattr(cls, method, None))]
    if len(kinds) != 1:
        raise ValueError(
            f"cannot tell what kind of part {cls.__qualname__} is: it has the methods of "
            f"{' and '.join(kinds) or 'no kind'}; say which kind is meant"
        )
    return kinds[0]


def check_protocol(make: Factory, trial: Trial) -> Evidence:
    """The class has every member of its protocol, callable as the protocol says, and a supported ``api``.

    If this fails: add or rename the members named in the message. Parameter names are free, their number and
    order are not. ``api`` is a class-level integer: the plugin API that the class was written for.
    """
    cls = class_of(make)
    api = getattr(cls, "api", None)
    require(
        isinstance(api, int) and API_FLOOR <= api <= API, f"api is {api!r}; it must be {API_FLOOR} to {API}"
    )
    faults = [fault for kind in _kinds(cls) for fault in departures(cls, PROTOCOLS[kind])]
    require(not faults, "; ".join(faults))
    return Evidence(f"plugin API {api}")


def check_options_are_frozen_data(make: Factory, trial: Trial) -> Evidence:
    """A part is a frozen attrs object: equal options, equal parts; hashable; can be pickled; cannot change.

    If this fails: decorate the class with ``attrs.frozen`` and declare each option as a field. Keep nothing
    between calls: what is worked out from the data belongs to what ``prepare``, ``select`` or ``fit``
    returns.
    """
    part, twin = make(), make()
    require(attrs.has(type(part)), f"{type(part).__qualname__} is not an attrs class; use @attrs.frozen")
    require(part == twin, "two parts with the same options are not equal")
    require(hash(part) == hash(twin), "two equal parts have different hashes")
    require(pickle.loads(pickle.dumps(part)) == part, "a part is not equal to its pickled copy")
    for field in attrs.fields(type(part)):
        try:
            setattr(part, field.name, getattr(part, field.name))
        except attrs.exceptions.FrozenInstanceError:
            continue
        require(False, f"option {field.name} can be changed after the part is made; use @attrs.frozen")
    return Evidence(f"options: {', '.join(f.name for f in option_fields(type(part))) or 'none'}")


def check_documented(make: Factory, trial: Trial) -> Evidence:
    """The class says what it does, where its privacy is proved, and which paper it comes from.

    If this fails: write a docstring (neighboring relation, sensitivity or events, errors), and the
    class-level strings ``proof`` and ``reference``. Both are copied into every certificate.
    """
    cls = class_of(make)
    require(inspect.getdoc(cls), f"{cls.__qualname__} has no docstring")
    for name in ("proof", "reference"):
        value = getattr(cls, name, None)
        require(isinstance(value, str) and value.strip(), f"{name} is {value!r}; it must be a sentence")
    return Evidence(f"proof: {cls.proof}")


def check_import_is_cheap(make: Factory, trial: Trial) -> Evidence:
    """Importing the part's module loads none of the libraries that take longer to import than dpkit itself.

    If this fails: import the library inside the function that needs it; scipy.special and scipy.linalg are
    cheap, scipy.stats is not.
    """
    module = class_of(make).__module__
    code = (
        f"import sys, json, importlib; importlib.import_module({module!r}); "
        f"print(json.dumps([m for m in {SLOW_TO_IMPORT!r} if m in sys.modules]))"
    )
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotApplicable(f"module {module} cannot be imported by name in a process of its own")
    loaded = json.loads(done.stdout.splitlines()[-1])
    require(not loaded, f"importing {module} loads {', '.join(loaded)}")
    return Evidence(f"{module} loads none of {', '.join(SLOW_TO_IMPORT)}")


def _kinds(cls: type[Any]) -> list[str]:
    return [kind for kind, method in _SIGNS.items() if hasattr(cls, method)]
