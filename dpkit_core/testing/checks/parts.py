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

import attrs

from dpkit_core.pipeline.parts import option_fields
from dpkit_core.plugins import kinds
from dpkit_core.plugins.kinds import ROLES
from dpkit_core.plugins.signatures import departures
from dpkit_core.protocols import API, API_FLOOR
from dpkit_core.testing.check import check
from dpkit_core.testing.trial import AnyPart, CheckFailed, Evidence, Factory, NotApplicable, Trial, require

# Kind -> protocol; a kind is called by the role of one part.
PROTOCOLS: Mapping[str, type[AnyPart]] = {role: kinds.PROTOCOLS[kind] for role, kind in ROLES.items()}

# Each takes longer to import than everything that a part needs.
SLOW_TO_IMPORT = ("scipy.stats", "sklearn", "pandas", "matplotlib", "dp_accounting")

# The method that no other kind has.
_SIGNS = {"scorer": "prepare", "selector": "select", "accountant": "compose", "regressor": "fit"}

# And that of a scorer of iterates, which need not be a scorer of tables.
_ITERATES = "iterate_scores"


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
    found = _kinds(cls)
    if len(found) != 1:
        raise ValueError(
            f"cannot tell what kind of part {cls.__qualname__} is: it has the methods of "
            f"{' and '.join(found) or 'no kind'}; say which kind is meant"
        )
    return found[0]


@check("static")
def check_protocol(make: Factory[AnyPart], trial: Trial) -> Evidence:
    """The class has every member of its protocol, callable as the protocol says, and a supported ``api``.

    If this fails: add or rename the members named in the message. Parameter names are free, their number and
    order are not. ``api`` is a class-level integer: the plugin API that the class was written for.
    """
    cls = class_of(make)
    api = getattr(cls, "api", None)
    require(
        isinstance(api, int) and API_FLOOR <= api <= API, f"api is {api!r}; it must be {API_FLOOR} to {API}"
    )
    faults = [fault for kind in _kinds(cls) for fault in departures(cls, _protocol(kind, cls))]
    require(not faults, "; ".join(faults))
    return Evidence(f"plugin API {api}")


@check("static")
def check_options_are_frozen_data(make: Factory[AnyPart], trial: Trial) -> Evidence:
    """A part is a frozen attrs object: equal options, equal parts; hashable; can be pickled; cannot change.

    If this fails: decorate the class with ``attrs.frozen`` and declare each option as a field. Keep nothing
    between calls: what is worked out from the data belongs to what ``prepare``, ``select`` or ``fit``
    returns.
    """
    part, twin = make(), make()
    cls = type(part)
    if not attrs.has(cls):
        raise CheckFailed(f"{cls.__qualname__} is not an attrs class; use @attrs.frozen")
    require(part == twin, "two parts with the same options are not equal")
    require(hash(part) == hash(twin), "two equal parts have different hashes")
    require(pickle.loads(pickle.dumps(part)) == part, "a part is not equal to its pickled copy")
    for field in attrs.fields(cls):
        try:
            setattr(part, field.name, getattr(part, field.name))
        except attrs.exceptions.FrozenInstanceError:
            continue
        require(False, f"option {field.name} can be changed after the part is made; use @attrs.frozen")
    return Evidence(f"options: {', '.join(f.name for f in option_fields(cls)) or 'none'}")


@check("static")
def check_documented(make: Factory[AnyPart], trial: Trial) -> Evidence:
    """The class says what it does, where its privacy is proved, and which paper it comes from.

    If this fails: write a docstring (neighboring relation, sensitivity or events, errors), and the
    class-level strings ``proof`` and ``reference``. Both are copied into every certificate.
    """
    cls = class_of(make)
    require(inspect.getdoc(cls), f"{cls.__qualname__} has no docstring")
    proof, reference = (getattr(cls, name, None) for name in ("proof", "reference"))
    for name, value in (("proof", proof), ("reference", reference)):
        require(isinstance(value, str) and value.strip(), f"{name} is {value!r}; it must be a sentence")
    return Evidence(f"proof: {proof}")


@check("static")
def check_import_is_cheap(make: Factory[AnyPart], trial: Trial) -> Evidence:
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


def _protocol(kind: str, cls: type[object]) -> type[object]:
    return kinds.protocol_of(ROLES[kind], cls)


def _kinds(cls: type[object]) -> list[str]:
    found = [kind for kind, method in _SIGNS.items() if callable(getattr(cls, method, None))]
    of_iterates = callable(getattr(cls, _ITERATES, None)) and "scorer" not in found
    return ["scorer", *found] if of_iterates else found
