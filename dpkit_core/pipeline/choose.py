r"""What is composed where nobody names a part: which recipe, how many features, which accountant.

All are rules of public facts alone, so the same facts always give the same choice, and each says why. Recipe
and k were set by what was measured (``docs/results/shapes.md``).

*Recipe.* ``trees`` for a target of categories, because it predicts probabilities. For a number: ``trees`` as
well, which knows more shapes than a line, unless the schema says that there are too few records for the
budget, fewer than ``TREES_FROM`` / epsilon for each record of a unit that counts: then ``winsorized``, a line
through all columns, which is refused sooner than misled by noise. With public bounds of the target no line is
refused, and noise misleads trees less, down to ``BOUNDED_TREES_FROM`` / epsilon. For records that come in
batches ``s-gbdt``, which learns from one batch after the other.

*k.* All features, unless the schema says about how many records there are and these are fewer than ``ROOM``
times what a forecast of the plan for all of them wants: then the largest k of ``CHOICES`` for which they are
enough, and if they are for none, the one whose forecasts want least. What a part foretells
(``dpkit_core.Forecast``) decides, so parts of third parties take part in the rule. Where all features are
taken, nothing is spent on selecting them.

*Accountant.* ``tight`` where it is installed, the site's policy allows it, and it composes every planned
event; else ``rdp``. ``tight`` is never above ``rdp`` (``dpkit_core.privacy.tight``), and so never asks for
more noise for the same events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import attrs

from dpkit_core.errors import DpkitError, InvalidOption
from dpkit_core.pipeline.parts import Part, make_part
from dpkit_core.pipeline.units import for_units
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Event, priced, walk
from dpkit_core.protocols import Accountant

if TYPE_CHECKING:
    from dpkit_core.data.schema import Schema
    from dpkit_core.pipeline.plan import Plan
    from dpkit_core.privacy.budget import Budget

#: The accountant that is tried first, and the one that is taken where it cannot be had.
PREFERRED = "tight"
FALLBACK = "rdp"

#: Records times epsilon from which on trees are recommended for numbers, for each record of a unit.
TREES_FROM = 500.0

#: The same with public bounds of the target. In twenty tables of 100 records at epsilon 1, trees had a mean
#: R^2 of -1.5 and lines -.5; of 150 records, .16 and -.6.
BOUNDED_TREES_FROM = 150.0

#: How many features ``auto`` may select, apart from all.
CHOICES = (20, 10, 5, 3, 2, 1)

#: How many times what forecasts want there must be: they take columns to be better than most are
#: (``docs/results/features.md``).
ROOM = 1.25

AUTO = "auto"


@attrs.frozen
class Recommendation:
    """A recipe for some public facts.

    Attributes
    ----------
    recipe
        Its name.
    why
        A sentence without a full stop.
    """

    recipe: str
    why: str

    def __str__(self) -> str:
        return f"Recommended for these public facts: recipe {self.recipe}, because {self.why}."


def recommend(schema: Schema, budget: Budget, *, selecting: bool = False, batches: int = 1) -> Recommendation:
    """Return the recipe that suits the public facts and the budget.

    Parameters
    ----------
    schema
        Public facts: the kind of the target, and ``records`` or ``records_about`` if there is one.
    budget
        What may be spent; with a delta.
    selecting
        Whether only some features are to be used.
    batches
        How many tables the records come in, one after the other.

    Raises
    ------
    InvalidOption
        If delta is 0: what is recommended adds Gaussian noise.

    Examples
    --------
    >>> from dpkit_core import Budget, Schema
    >>> recommend(Schema.numeric(["a", "b"], "y"), Budget(1.0, 1e-6)).recipe
    'trees'
    """
    if budget.delta == 0:
        raise InvalidOption(
            "no recipe is recommended for delta 0, where Gaussian noise cannot be drawn; give a delta, such "
            "as 1e-6, or name the parts"
        )
    if batches > 1:
        return Recommendation("s-gbdt", "it learns from records that come in batches")
    # Noise for m records of a unit is about that for one at epsilon / m.
    each = schema.records_of_a_unit
    product = math.inf if schema.size is None else schema.size * budget.epsilon
    bounded = schema.target.bounds is not None
    facts = f"about {schema.size} records" + (f", {each} of each {schema.unit}," if each > 1 else "")
    facts += f" at epsilon {budget.epsilon:g}"
    if schema.target.kind == "categorical":
        recipe, why = "trees", "the target is a category, and trees predict probabilities"
    elif product < (BOUNDED_TREES_FROM if bounded else TREES_FROM) * each:
        recipe, why = "winsorized", f"{facts} are too few for trees, and "
        why += "noise misleads a line less" if bounded else "a line is refused where noise hides the target"
    elif product < TREES_FROM * each:
        recipe, why = "trees", f"{facts} are few, and noise misleads trees less than a line"
    else:
        known = (
            "the schema does not say (records_about) that records are few, and trees"
            if schema.size is None
            else f"{facts} are enough for trees, and they"
        )
        recipe, why = "trees", f"{known} learn what a line cannot"
    return Recommendation(f"k-{recipe}" if selecting else recipe, why)


def chosen_k(features: int, planned: Callable[[int], Plan]) -> Plan:
    """Return the plan for the number of features that the rule in the notes of the module says.

    Parameters
    ----------
    features
        How many there are.
    planned
        Returns the plan for a number of features; for all of them, without a selection.
    """
    wanting: list[Plan] = []
    for k in (features, *(k for k in CHOICES if k < features)):
        plan = planned(k)
        if _has_enough(plan):
            return plan
        wanting.append(plan)
    return min(wanting, key=_wanted)


def k_in_words(plan: Plan) -> str:
    """Return how many features a plan for ``auto`` uses, and why, in a sentence."""
    every, size = len(plan.schema.features), plan.schema.size
    taken = f"{plan.k} of {every}" if plan.k < every else f"all of {every}, without a selection"
    if size is None:
        return (
            f"k by the public facts: {taken}, because the schema does not say (records_about) that records "
            "are few."
        )
    if not _has_enough(plan):
        return f"k by the public facts: {taken}; {size} records are few for any number, least for this."
    if plan.k < every:
        return f"k by the public facts: {taken}; for more, {size} records are few, by the forecasts."
    return f"k by the public facts: {taken}, because {size} records are enough, by the forecasts."


def _has_enough(plan: Plan) -> bool:
    """Return whether nothing public says that there are too few records for a plan."""
    return plan.schema.size is None or ROOM * _wanted(plan) <= plan.schema.size


def _wanted(plan: Plan) -> float:
    """Return how many records the forecasts of a plan want."""
    return max((found.forecast.records or 0.0 for found in plan.forecasts), default=0.0)


def preferred(neighboring: Neighboring) -> tuple[Part[Accountant] | None, str]:
    """Return the accountant that is tried first, or None with the reason why it cannot be had here."""
    try:
        return _named(PREFERRED, neighboring), ""
    except DpkitError as error:  # not installed, or not allowed; a policy that cannot be read is told below
        return None, f"{PREFERRED} cannot be had: {error}"


def fallback(neighboring: Neighboring) -> Part[Accountant]:
    """Return the accountant that is taken where the preferred one is not."""
    return _named(FALLBACK, neighboring)


def unknown_to(
    accountant: Part[Accountant], events: Iterable[Event], records_of_a_unit: int = 1
) -> str | None:
    """Return why an accountant does not compose these events, for units of so many records."""
    charging = for_units(accountant.instance, records_of_a_unit)
    for event in events:
        if not charging.supports(priced(event)):
            return f"{accountant.name} does not compose {' of '.join(_kinds(event))}"
    return None


def _named(name: str, neighboring: Neighboring) -> Part[Accountant]:
    return make_part("accountant", name, {"neighboring": neighboring})


def _kinds(event: Event) -> list[str]:
    return list(dict.fromkeys(type(inner).__name__ for inner in walk(event)))
