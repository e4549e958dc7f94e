"""Which parts are installed, and how one of them becomes a class.

A part goes through three steps, and each has a type::

    entry point  --refs, find-->  ComponentRef  --load-->  class

Finding reads metadata and imports nothing, so it is safe and fast whatever is installed. Loading imports
exactly one part, alone: whatever it raises becomes a ``BrokenPlugin`` that names its distribution, and a
class that was written for another plugin API or with other signatures becomes an ``IncompatiblePlugin``.
Other parts never notice.

A distribution offers parts through entry points, one group a kind, the name being the part's name::

    [project.entry-points."dpkit.scorers"]
    kendall = "dpkit_scorer_kendall:KendallScorer"

Two distributions may offer one name. Then neither has precedence, not even a first-party one: which code
protects the data is never guessed, and the user writes the qualified name, ``dpkit-scorer-kendall:kendall``.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint
from typing import Any, TextIO

import attrs

from dpkit_core.errors import AmbiguousName, BrokenPlugin, InvalidOption, UnknownName, install
from dpkit_core.plugins.kinds import PARTS, ComponentRef, Kind, canonical, kind_named

_Places = tuple[tuple[str, int | None], ...]  # each folder or archive, and when it changed


def installed(group: str) -> tuple[ComponentRef, ...]:
    """Return what is offered in a group of entry points, in order; nothing is imported.

    Finding it means reading the metadata of every distribution, some hundreds of files, and one command asks
    for several kinds. So it is read again only where a folder of the search path has changed since:
    installers add and remove folders of metadata there.
    """
    return _installed(group, tuple((place, _changed(place)) for place in sys.path))


def _changed(place: str) -> int | None:
    try:
        return os.stat(place or os.curdir).st_mtime_ns
    except OSError:
        return None


@functools.lru_cache(maxsize=64)
def _installed(group: str, places: _Places) -> tuple[ComponentRef, ...]:
    # A set, because a folder that is on sys.path twice offers everything twice.
    found = {ComponentRef.from_entry_point(point) for point in _entry_points(places).get(group, ())}
    return tuple(sorted(found, key=attrs.astuple))


@functools.lru_cache(maxsize=1)
def _entry_points(places: _Places) -> dict[str, tuple[EntryPoint, ...]]:
    found = importlib.metadata.entry_points()
    groups = (group for group in found.groups if group.startswith("dpkit."))  # selecting one reads them all
    return {group: tuple(found.select(group=group)) for group in groups}


class Registry:
    """The parts that are installed, by kind and name.

    Parameters
    ----------
    entry_points
        Where to look instead of the environment, for tests and for programs with their own set.

    Examples
    --------
    >>> registry = Registry([EntryPoint("mine", "my_package:MyScorer", "dpkit.scorers")])
    >>> registry.find("scorer", "mine").qualified
    'unknown:mine'
    """

    def __init__(self, entry_points: Iterable[EntryPoint] | None = None) -> None:
        self._given = None if entry_points is None else tuple(entry_points)
        self._refs: tuple[ComponentRef, ...] | None = None

    def refs(self, kind: str | None = None) -> tuple[ComponentRef, ...]:
        """Return every part, or those of one kind, in the order of a pipeline and then by name.

        Nothing is imported. The environment is read once, at the first question.
        """
        if self._refs is None:
            self._refs = self._read()
        if kind is None:
            return self._refs
        wanted = _part(kind).plural
        return tuple(ref for ref in self._refs if ref.kind == wanted)

    def find(self, kind: str, name: str) -> ComponentRef:
        """Return the one part of this kind that ``name``, plain or qualified, means; see ``the_one``."""
        role = _part(kind).name
        return the_one(role, name, self.refs(role), self.refs())

    def load(self, ref: ComponentRef) -> type[Any]:
        """Return the class of a part, imported alone and compared with the protocol of its kind.

        Raises
        ------
        BrokenPlugin
            If importing it fails in any way, with the cause kept as ``__cause__``.
        IncompatiblePlugin
            If it targets another plugin API or departs from its protocol.
        """
        # Where nothing is loaded, protocols are not needed, which take half of the time to list parts.
        from dpkit_core.plugins.promises import admit  # noqa: PLC0415

        return admit(ref, load_target(ref))

    def provenance(self, part: object, kind: str) -> ComponentRef | None:
        """Return which installed part a class or instance is, or None where that is unclear.

        The reference whose target is in the class's top-level package and has its name; nothing is imported.
        None if no distribution, or more than one, offers such a target.
        """
        return offered_as(part, self.refs(kind))

    def _read(self) -> tuple[ComponentRef, ...]:
        """Return the parts, in the order of a pipeline."""
        if self._given is None:
            return tuple(ref for kind in PARTS.values() for ref in installed(kind.group))
        given = {ComponentRef.from_entry_point(point) for point in self._given}
        ordered = sorted(given, key=attrs.astuple)
        return tuple(ref for kind in PARTS.values() for ref in ordered if ref.kind == kind.plural)


def offered_as(part: object, refs: Iterable[ComponentRef]) -> ComponentRef | None:
    """Return which of ``refs`` a class or instance is, or None where that is unclear."""
    cls = part if isinstance(part, type) else type(part)
    package = cls.__module__.partition(".")[0]
    matches = [
        ref for ref in refs if ref.module.partition(".")[0] == package and ref.attribute == cls.__qualname__
    ]
    return matches[0] if len({ref.distribution for ref in matches}) == 1 else None


def the_one(
    role: str, name: str, refs: Sequence[ComponentRef], others: Sequence[ComponentRef] = ()
) -> ComponentRef:
    """Return the one of ``refs``, all of one kind, that ``name``, plain or qualified, means.

    Parameters
    ----------
    role
        The name of the kind, such as ``scorer``.
    name
        As an entry point has it, or ``distribution:name``.
    refs
        What is offered.
    others
        Of other kinds, one of which may be meant.

    Raises
    ------
    UnknownName
        With the installed names, the nearest one, and what to install for a first-party name.
    AmbiguousName
        If several distributions offer the name, with the spelling that means each.
    """
    matches = [ref for ref in refs if ref.answers_to(name)]
    if not matches:
        raise UnknownName(_not_found(role, name, refs, others))
    if len(matches) > 1:
        offers = ", ".join(f"{ref.qualified} ({ref.version}, {ref.target})" for ref in matches)
        raise AmbiguousName(
            f"{role} {name!r} has {len(matches)} meanings: {offers}. Write the name with its "
            "distribution, or uninstall what you do not want"
        )
    return matches[0]


def _not_found(role: str, name: str, refs: Sequence[ComponentRef], others: Sequence[ComponentRef]) -> str:
    plain = name.rpartition(":")[2]
    names = sorted({ref.name for ref in refs})
    sentence = f"no {role} {name!r} is installed; installed {role}s: {', '.join(names) or 'none'}."
    for other in (ref for ref in others if ref.answers_to(name)):
        return f"{sentence} {name!r} is one of the {other.kind}: use it as the {other.role}"
    if plain in names:
        spellings = ", ".join(ref.qualified for ref in refs if ref.name == plain)
        return f"{sentence} Did you mean {spellings}?"
    own = first_party_names(role)
    if plain in own:
        return f"{sentence} {_install(role, plain)}"
    for near in difflib.get_close_matches(plain, sorted({*names, *own}), n=1):
        missing = "" if near in names else f" {_install(role, near)}"
        return f"{sentence} Did you mean {near!r}?{missing}"
    return f"{sentence} Install the distribution that offers it"


def required_by(distribution: str) -> frozenset[str]:
    """Return the distributions of dpkit that an installed one requires, those of its extras included."""
    try:
        lines = importlib.metadata.requires(distribution) or ()
    except (importlib.metadata.PackageNotFoundError, ValueError):  # the latter of a name that is none
        return frozenset()
    names = (canonical(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines)
    return frozenset(name for name in names if name.startswith("dpkit-"))


def first_party() -> frozenset[str]:
    """Return the distributions that come with dpkit, installed or not: those in its extras.

    There are none where dpkit itself is importable but not installed.
    """
    return required_by("dpkit")


def libraries_of(distribution: str) -> dict[str, str]:
    """Return the versions of the distributions of dpkit whose code one uses: those it requires, and so on."""
    versions: dict[str, str] = {}
    rest = required_by(distribution)
    while rest:
        for name in rest:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # of an extra
                versions[name] = importlib.metadata.version(name)
        rest = frozenset(more for name in rest for more in required_by(name)) - versions.keys()
    return dict(sorted(versions.items()))


def first_party_names(kind: str) -> tuple[str, ...]:
    """Return the names of what comes with dpkit of one kind as ``dpkit-<role>-<name>``."""
    prefix = f"dpkit-{kind_named(kind).name}-"
    own = (name.removeprefix(prefix) for name in first_party() if name.startswith(prefix))
    return tuple(sorted(name.replace("-", "_") for name in own))


def _part(kind: str) -> Kind:
    return kind_named(kind, PARTS.values())


def _install(role: str, name: str) -> str:
    return f"Install {name!r} with: {install(f'/plugins/{kind_named(role).plural}/{name}')}"


def load_target(ref: ComponentRef, printed: TextIO | None = None) -> Any:
    """Return what the entry point of ``ref`` points to, imported in isolation.

    Parameters
    ----------
    ref
        What to import.
    printed
        Where anything printed while importing goes; standard error by default, because standard output
        belongs to the command that is running.

    Raises
    ------
    BrokenPlugin
        If importing raises anything, ``SystemExit`` included; an interrupt from the keyboard passes.
    """
    stage = f"importing {ref.module}"
    try:
        with contextlib.redirect_stdout(printed or sys.stderr):
            module = importlib.import_module(ref.module)
            stage = f"looking up {ref.attribute} in {ref.module}"
            path = ref.attribute.split(".") if ref.attribute else []
            return functools.reduce(getattr, path, module)
    except InvalidOption as error:  # it works, and was told something else than it takes, as by a variable
        raise BrokenPlugin(f"{ref} cannot be used: {error}") from error
    except (Exception, SystemExit) as error:
        raise BrokenPlugin(
            f"{ref} is installed but failed while {stage}: {type(error).__name__}: {error}. "
            f"Reinstall or upgrade {ref.distribution} with its dependencies, or uninstall it"
        ) from error
