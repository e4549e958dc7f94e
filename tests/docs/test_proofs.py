"""The argument for each part is where the part says that it is, and the page of proofs shows it."""

import importlib
import inspect
import re
from typing import Any

import pytest

from dpkit_core.plugins.registry import ComponentRef, Registry

PARTS = [ref for ref in Registry().refs() if ref.distribution.startswith("dpkit-")]
PLACE = re.compile(r"(dpkit_\w+(?:\.\w+)*)(?: \([^)]+\))?")
each_part = pytest.mark.parametrize("ref", PARTS, ids=lambda ref: ref.qualified)


def resolved(place: str) -> Any:
    """Return what a dotted name means: a module, or something in one."""
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError:
        outer, _, name = place.rpartition(".")
        return getattr(resolved(outer), name)


@each_part
def test_the_proof_begins_with_places_that_say_something(ref: ComponentRef) -> None:
    proof = Registry().load(ref).proof
    if proof.startswith("none: "):
        return
    places = proof.partition("; ")[0].split(", ")
    for place in places:
        match = PLACE.fullmatch(place)
        assert match, f"{place!r} is no dotted name, with what it proves in parentheses"
        text = inspect.getdoc(resolved(match[1])) or ""
        assert len(text.splitlines()) > 3, f"{match[1]} argues nothing"


@each_part
def test_the_reference_names_authors_year_and_title(ref: ComponentRef) -> None:
    assert re.match(r"(New here; .*)?[A-Z][^0-9]+ (19|20)\d\d, [A-Z]\S* \S+", Registry().load(ref).reference)
