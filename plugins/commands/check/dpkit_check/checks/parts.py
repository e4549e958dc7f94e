"""What every part promises, whatever its kind: found by looking at its class."""

from __future__ import annotations

import base64
import functools
import inspect
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

import attrs

from dpkit_check import elsewhere
from dpkit_check.check import check
from dpkit_check.trial import AnyPart, CheckFailed, Evidence, Factory, NotApplicable, Trial, require
from dpkit_core.pipeline.parts import option_fields
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.plugins.signatures import departures, is_supported
from dpkit_core.protocols import API, API_FLOOR
from dpkit_core.text import number_of

# Each takes longer to import than everything that a part needs.
SLOW_TO_IMPORT = elsewhere.SLOW_TO_IMPORT

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
    require(is_supported(api), f"api is {api!r}; it must be {API_FLOOR} to {API}")
    faults = [fault for kind in _kinds(cls) for fault in departures(cls, PARTS[kind].protocol_of(cls))]
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
    found = _elsewhere(_Request.of(make))
    if found is None:
        raise NotApplicable(f"module {module} cannot be imported by name in a process of its own")
    require(not found["slow"], f"importing {module} loads {', '.join(found['slow'])}")
    return Evidence(f"{module} loads none of {', '.join(SLOW_TO_IMPORT)}")


@check("privacy")
def check_nothing_leaves_beside_the_release(make: Factory[AnyPart], trial: Trial) -> Evidence:
    """Composed and run in a process of its own, it writes no file, starts nothing, and logs the same for all.

    Nor does it write to the descriptors of standard output and error, past the streams of the same names,
    which a run keeps from everybody. What one run leaves behind in a module does not change the next, and is
    the same for a neighbor.

    If this fails: whatever depends on records leaves through the release alone. Log public facts only, write
    no file, keep nothing from run to run.
    """
    told = _told(make)
    require(not told["opened"], f"while it ran, it {'; '.join(told['opened'][:3])}")
    require(not told["environment"], f"it changed the environment: {', '.join(told['environment'])}")
    logged, results = told["logged"], told["results"]
    for name, text in told["wrote"].items():
        require(not text, f"{name}: it wrote {text[:60]!r} to the descriptor of standard output or error")
    for name in results:
        stem, _, table = name.rpartition(": ")
        if table == "a neighbor":
            one, other = logged[f"{stem}: a table"], logged[name]
            require(one == other, f"{stem}: it logs {one} for one table and {other} for its neighbor")
            mine, its = told["kept"][f"{stem}: a table"], told["kept"][name]
            for variable in mine.keys() & its.keys():
                require(
                    mine[variable] == its[variable],
                    f"{stem}: after a run {variable} is {mine[variable]:.60}, after one on a neighbor "
                    f"{its[variable]:.60}",
                )
        if table == "a table again":
            one, other = results[f"{stem}: a table"], results[name]
            require(one == other, f"{stem}: after a run on another table, {one} became {other}")
    return Evidence(f"{number_of(len(results), 'run')} in a process of its own", len(results))


@check("composition")
def check_it_is_the_same_where_nobody_tests(make: Factory[AnyPart], trial: Trial) -> Evidence:
    """A process that has not heard of the kit gets the same plans and, by one seed, the same releases.

    If this fails: the part knows that it is tested: by loaded modules, the stack, arguments, the environment,
    or what it kept from earlier runs.
    """
    cls = class_of(make)
    theirs = _told(make)["results"]
    if not any(theirs.values()):
        raise NotApplicable("it composes with no small part")
    ours = json.loads(json.dumps(elsewhere.told(make, kind_of(make), once=True)["results"]))
    for name, result in ours.items():
        require(
            result == theirs[name],
            f"{name}: {cls.__qualname__} gave {result} under the kit, and {theirs[name]} in another process",
        )
    return Evidence(f"{len(ours)} plans, totals and releases", len(ours))


@attrs.frozen
class _Request:
    """What a process of its own is asked: which module to import, and the part as a pickle."""

    module: str
    file: str
    part: str
    kind: str

    @classmethod
    def of(cls, make: Factory[AnyPart]) -> Self:
        module = class_of(make).__module__
        try:
            part = base64.b64encode(pickle.dumps(make)).decode()
        except (pickle.PicklingError, AttributeError, TypeError):
            part = ""
        kind = _kinds(class_of(make))[0]
        return cls(module, getattr(sys.modules.get(module), "__file__", None) or "", part, kind)


def _told(make: Factory[AnyPart]) -> dict[str, Any]:
    found = _elsewhere(_Request.of(make))
    if found is None or found.get("told") is None:
        raise NotApplicable("the part cannot be made in a process of its own")
    told: dict[str, Any] = found["told"]
    return told


@functools.lru_cache(maxsize=8)
def _elsewhere(request: _Request) -> dict[str, Any] | None:
    """Return what a process that has not heard of the kit says; None where it cannot import the part."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    asked = {**attrs.asdict(request), "path": [entry or os.getcwd() for entry in sys.path]}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", Path(elsewhere.__file__).read_text(encoding="utf-8")],
            input=json.dumps(asked) + "\n",
            env={**environment, "TMPDIR": folder},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode or not done.stdout.strip():
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _kinds(cls: type[object]) -> list[str]:
    found = [kind for kind, method in _SIGNS.items() if callable(getattr(cls, method, None))]
    of_iterates = callable(getattr(cls, _ITERATES, None)) and "scorer" not in found
    return ["scorer", *found] if of_iterates else found
