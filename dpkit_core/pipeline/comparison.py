"""Plans side by side: what each would release, of one table, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from dpkit_core.errors import InvalidOption
from dpkit_core.pipeline.parts import require_type
from dpkit_core.pipeline.plan import Plan, stage_rows
from dpkit_core.privacy.budget import rounded_up
from dpkit_core.text import Section, Shown, number_of

HEADER = ("plan", "epsilon", "delta", "stage", "epsilon alone", "share")
IN_FULL = (*HEADER, "part", "releases")


@attrs.frozen
class Comparison:
    """Plans of one schema, to be printed or shown in a notebook side by side.

    Parameters
    ----------
    plans
        Each with the name that it is to have in the table.

    Raises
    ------
    InvalidOption
        If the plans are for different schemas, or there are none.

    Examples
    --------
    >>> from dpkit_core import Budget, Schema, compose
    >>> schema = Schema.numeric(["carat", "depth"], target="price")
    >>> mean = compose(regressor="mean", accountant="basic")
    >>> plans = {f"epsilon {e}": mean.plan(schema, Budget(e)) for e in (0.5, 1.0)}
    >>> print(Comparison(plans).rows[1][:6])
    ('epsilon 1.0', '1', '0', 'regression', '1', '100%')
    """

    plans: Mapping[str, Plan] = attrs.field(converter=dict)

    def __attrs_post_init__(self) -> None:
        if not self.plans:
            raise InvalidOption("there is nothing to compare; give plans with their names")
        for name, plan in self.plans.items():
            require_type(f"plan {name!r}", plan, Plan, "make one with Pipeline.plan")
        first, *others = self.plans
        for name in others:
            if self.plans[name].schema != self.plans[first].schema:
                raise InvalidOption(
                    f"plans {first!r} and {name!r} are for different schemas; compare plans of one table, "
                    "made from one schema"
                )

    @property
    def title(self) -> str:
        """What the plans have in common."""
        schema = next(iter(self.plans.values())).schema
        return (
            f"Plans of one table: {number_of(len(schema.features), 'feature')}, target {schema.target.name}, "
            f"{schema.neighboring.value} neighbors"
        )

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """One row for each stage of each plan, with the columns of ``IN_FULL``."""
        return tuple(
            (
                name,
                _epsilon(plan),
                rounded_up(plan.budget.delta, 3),
                stage,
                alone,
                share,
                part,
                releases,
            )
            for name, plan in self.plans.items()
            for stage, part, releases, alone, share in stage_rows(plan)
        )

    def __str__(self) -> str:
        released = [
            f"{name}: {part}: {'; '.join(releases.splitlines())}." for name, *_, part, releases in self.rows
        ]
        rows = tuple(row[: len(HEADER)] for row in self.rows)
        return str(Section(self.title, Shown(HEADER, rows, tuple(released))))

    def _repr_html_(self) -> str:
        return Section(self.title, Shown(IN_FULL, self.rows))._repr_html_()


def _epsilon(plan: Plan) -> str:
    return "not private" if plan.epsilon is None else rounded_up(plan.epsilon, 6)
