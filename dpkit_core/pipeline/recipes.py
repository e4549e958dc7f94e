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
from dpkit_core.files.documents import from_document, read_toml
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
        if not document.get("parts"):
            raise InvalidRecipe(f"{what} names no parts; it needs a table [parts] with {', '.join(PARTS)}")
        recipe = from_document(cls, document, what, InvalidRecipe, name=name)
        for role in recipe.parts:
            if role not in PARTS:
                raise InvalidRecipe(f"{what} has a part {role!r}; parts are {', '.join(PARTS)}")
        for role in recipe.options:
            if role not in recipe.parts:
                raise InvalidRecipe(f"{what} has options for {role!r}, which is not among its parts")
        share = recipe.select_share
        if share is not None and not 0 < share < 1:
            raise InvalidRecipe(f"{what} has select_share = {share!r}; it must be above 0 and below 1")
        return recipe

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
