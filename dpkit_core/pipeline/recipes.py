"""Recipes: compositions with a name, as data.

    summary = "DPKendall, then the Tukey mechanism"
    reference = "Dick, Gillenwater and Joseph 2023"
    select_share = 0.05

    [parts]
    scorer = "kendall"
    selector = "peel"
    regressor = "tukey"

    [options.scorer]
    penalty = "mean"

A recipe says which parts, with which options, and how the budget is shared between them. It never says how
large the budget is, nor k: those belong to whoever releases something.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from dpkit_core.errors import InvalidRecipe
from dpkit_core.files.documents import Fields, read_toml
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.plugins.resources import find_resource, read_resource

_KEYS = ("summary", "reference", "select_share", "parts", "options")


@attrs.frozen
class Recipe:
    """Parts with options, under a name.

    Attributes
    ----------
    name
        What it is called.
    parts
        Role -> name of an installed part.
    options
        Role -> option -> value, for those that differ from the defaults.
    select_share
        Fraction of the budget for the selection; None for the default.
    summary, reference
        For people.
    """

    name: str
    parts: Mapping[str, str]
    options: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    select_share: float | None = None
    summary: str = ""
    reference: str = ""

    @classmethod
    def from_document(cls, name: str, document: Mapping[str, Any]) -> Recipe:
        """Return the recipe that plain data describes.

        Raises
        ------
        InvalidRecipe
            If a key is unknown, a role does not exist, or options are given for a part that is not named.
        """
        what = f"recipe {name!r}"
        for key in document:
            if key not in _KEYS:
                raise InvalidRecipe(f"{what} has an unknown key {key!r}; it may have {', '.join(_KEYS)}")
        parts, options = document.get("parts"), document.get("options", {})
        if not isinstance(parts, Mapping) or not parts:
            raise InvalidRecipe(f"{what} names no parts; it needs a table [parts] with {', '.join(PARTS)}")
        for role, part in parts.items():
            if role not in PARTS:
                raise InvalidRecipe(f"{what} has a part {role!r}; parts are {', '.join(PARTS)}")
            if not isinstance(part, str):
                raise InvalidRecipe(f"{what} has {role} = {part!r}; a part is named by text")
        if not isinstance(options, Mapping):
            raise InvalidRecipe(f"{what} has options = {options!r}; write tables such as [options.scorer]")
        for role, values in options.items():
            if role not in parts:
                raise InvalidRecipe(f"{what} has options for {role!r}, which is not among its parts")
            if not isinstance(values, Mapping):
                raise InvalidRecipe(
                    f"{what} has options.{role} = {values!r}; write OPTION = VALUE in a table"
                )
        share = document.get("select_share")
        if share is not None and (not isinstance(share, float) or not 0 < share < 1):
            raise InvalidRecipe(f"{what} has select_share = {share!r}; it must be above 0 and below 1")
        words = Fields(document, what, InvalidRecipe)
        return cls(name, parts, options, share, words.text("summary", ""), words.text("reference", ""))

    def to_document(self) -> dict[str, Any]:
        """Return the recipe as plain data, the shape of its TOML file."""
        given = {key: getattr(self, key) for key in _KEYS}
        return {key: value for key, value in given.items() if value or key == "parts"}

    def revised(
        self, parts: Mapping[str, str], options: Mapping[str, Mapping[str, Any]], name: str | None = None
    ) -> Recipe:
        """Return the recipe with other parts and options, which win over its own.

        The options of a part that is replaced go with it.
        """
        kept = {role: values for role, values in self.options.items() if role not in parts}
        merged = {role: {**kept.get(role, {}), **options.get(role, {})} for role in {**kept, **options}}
        return attrs.evolve(self, name=name or self.name, parts={**self.parts, **parts}, options=merged)


def find_recipe(name: str) -> Recipe:
    """Return a recipe by its installed name, or by the path of its file, which ends in ``.toml``."""
    if name.endswith(".toml"):
        path = Path(name)
        return Recipe.from_document(path.stem, read_toml(path, "recipe", InvalidRecipe))
    ref = find_resource("recipes", name)
    return Recipe.from_document(ref.name, read_resource(ref))
