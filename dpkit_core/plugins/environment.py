"""What the distributions of this environment offer.

Finding it means reading the metadata of every distribution, some hundreds of files, and one command asks for
several kinds. So it is read again only where a folder of the search path has changed since: installers add
and remove folders of metadata there.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import sys
from importlib.metadata import EntryPoint

import attrs

from dpkit_core.plugins.kinds import ComponentRef

_Places = tuple[tuple[str, int | None], ...]  # each folder or archive, and when it changed


def installed(group: str) -> tuple[ComponentRef, ...]:
    """Return what is offered in a group of entry points, in order; nothing is imported."""
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
    return {group: tuple(found.select(group=group)) for group in found.groups}
