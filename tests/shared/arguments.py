"""The form in which a part says where it is proved and whose method it is."""

import importlib
import inspect
import re
from typing import Any

PLACE = re.compile(r"(dpkit_\w+(?:\.\w+)*)(?: \([^)]+\))?")
REFERENCE = re.compile(r"(New here; .*)?[A-Z][^0-9]+ (19|20)\d\d, [A-Z]\S* \S+")


def resolved(place: str) -> Any:
    """Return what a dotted name means: a module, or something in one."""
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError:
        outer, _, name = place.rpartition(".")
        return getattr(resolved(outer), name)


def assert_argued(part: Any) -> None:
    """Assert that the proof of a part begins with places that argue, and that its reference names a work."""
    assert REFERENCE.match(part.reference), f"{part.reference!r} does not name authors, year and title"
    if part.proof.startswith("none: "):
        return
    for place in part.proof.partition("; ")[0].split(", "):
        match = PLACE.fullmatch(place)
        assert match, f"{place!r} is no dotted name, with what it proves in parentheses"
        text = inspect.getdoc(resolved(match[1])) or ""
        assert len(text.splitlines()) > 3, f"{match[1]} argues nothing"
