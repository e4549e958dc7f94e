"""Attacks on what a class declares: its members, options and documentation, and what it imports."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import pickle

import attrs

from dpkit_check.attacks.elsewhere import SLOW_TO_IMPORT, imported
from dpkit_check.cases.parts import class_of, kinds_of
from dpkit_check.options import fields_of
from dpkit_check.trial import AnyPart, Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_core.pipeline.parts import option_fields
from dpkit_core.plugins.promises import faults_of, is_supported
from dpkit_core.protocols import API, API_FLOOR


@attack("static")
def check_protocol(make: Factory[AnyPart], trial: Trial) -> Evidence:
    """The class has every member of its protocol, with the right signatures, and a supported ``api``.

    If this fails: add or rename the members named in the message. Parameters may have any names, but their
    number and order are fixed. ``api`` is a class-level integer: the plugin API that the class targets.
    """
    cls = class_of(make)
    api = getattr(cls, "api", None)
    require(is_supported(api), f"api is {api!r}; it must be {API_FLOOR} to {API}")
    faults = [fault for kind in kinds_of(cls) for fault in faults_of(cls, kind)]
    require(not faults, "; ".join(faults))
    return Evidence(f"plugin API {api}")


@attack("static")
def check_options_are_frozen_data(make: Factory[AnyPart], trial: Trial) -> Evidence:
    """An attrs class or a dataclass is frozen: equal if its options are, picklable, immutable.

    A plain class has no options that a certificate could show, so nothing is asked of it here.

    If this fails: decorate the class with ``attrs.frozen`` and declare each option as a field. Keep no state
    between calls: return what depends on the data from ``prepare``, ``select`` or ``fit``.
    """
    part, twin = make(), make()
    cls = type(part)
    if not (attrs.has(cls) or dataclasses.is_dataclass(cls)):
        return Evidence("a plain class, without options")
    require(part == twin, "two parts with the same options are not equal")
    with contextlib.suppress(TypeError):  # an option may be a list; nothing needs its hash
        require(hash(part) == hash(twin), "two equal parts have different hashes")
    require(pickle.loads(pickle.dumps(part)) == part, "a part is not equal to its pickled copy")
    for field in fields_of(cls):
        try:
            setattr(part, field.name, getattr(part, field.name))
        except AttributeError:  # that of attrs and that of dataclasses are of this kind
            continue
        require(False, f"option {field.name} can be changed after the part is made; use @attrs.frozen")
    return Evidence(f"options: {', '.join(f.name for f in option_fields(cls)) or 'none'}")


@attack("static")
def check_documented(make: Factory[AnyPart], trial: Trial) -> Evidence:
    """The class documents what it does, where its privacy is proved, and which paper it comes from.

    If this fails: write a docstring (neighboring relation, sensitivity or events, errors), and the
    class-level strings ``proof`` and ``reference``. Both are copied into every certificate.
    """
    cls = class_of(make)
    require(inspect.getdoc(cls), f"{cls.__qualname__} has no docstring")
    proof, reference = (getattr(cls, name, None) for name in ("proof", "reference"))
    for name, value in (("proof", proof), ("reference", reference)):
        require(isinstance(value, str) and value.strip(), f"{name} is {value!r}; it must be a sentence")
    return Evidence(f"proof: {proof}")


@attack("static")
def check_import_is_cheap(make: Factory[AnyPart], trial: Trial) -> Evidence:
    """Importing the part's module loads no library that takes longer to import than dpkit itself.

    If this fails: import the library inside the function that needs it; scipy.special and scipy.linalg are
    cheap, scipy.stats is not.
    """
    module = class_of(make).__module__
    found = imported(make)
    if found is None:
        raise NotApplicable(f"module {module} cannot be imported by name in a separate process")
    require(not found["slow"], f"importing {module} loads {', '.join(found['slow'])}")
    return Evidence(f"{module} loads none of {', '.join(SLOW_TO_IMPORT)}")
