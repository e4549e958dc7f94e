"""From parts to a release: compose, plan, run.

    pipeline = compose(scorer="kendall", selector="peel", regressor="tukey")
    plan = pipeline.plan(schema, Budget(1.0, 1e-6), k=5)     touches no data; finds every mismatch at once
    release = plan.run(dataset)                              spends what the plan says, nothing else

``dpkit_core.pipeline.planner`` says how the budget is divided, and
``dpkit_core.pipeline.runner`` what happens in a run.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from dpkit_core.data.engine import Engine
from dpkit_core.data.schema import Schema
from dpkit_core.errors import CannotCompose, InvalidOption
from dpkit_core.pipeline.choose import AUTO, FALLBACK, chosen_k
from dpkit_core.pipeline.parts import Assembly, Wanted, make_engine, make_part, require_type
from dpkit_core.pipeline.plan import Plan
from dpkit_core.pipeline.planner import DEFAULT_SELECT_SHARE, make_plan
from dpkit_core.pipeline.policy import Policy
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.budget import Budget
from dpkit_core.protocols import Accountant, Regressor, Scorer, TopKSelector


@attrs.frozen
class Pipeline:
    """Parts that are to work together. Built by ``compose``."""

    assembly: Assembly

    def __str__(self) -> str:
        return str(self.assembly)

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms of data that its parts accept."""
        return self.assembly.forms

    def plan(
        self,
        schema: Schema,
        budget: Budget,
        *,
        k: int | str | None = None,
        select_share: float = DEFAULT_SELECT_SHARE,
        batches: int = 1,
        evaluate: float | None = None,
        in_sample: float | None = None,
        engine: Engine | str | None = None,
    ) -> Plan:
        """Return what each part will spend; touches no data.

        Parameters
        ----------
        schema
            Public facts about the table.
        budget
            What all parts together may cost.
        k
            Number of features to select; 5, or all where there are fewer. ``"auto"`` for as many as the rule
            of ``dpkit_core.pipeline.choose`` says, which may be all of them, without a selection.
        select_share
            Fraction of the budget for the selection, where a regression follows it.
        batches
            How many batches the records will come in, one after the other, to a regressor that learns from
            streams.
        evaluate
            Share of the records, such as .1, that are held out from all parts and score the model, which
            costs nothing beside as much Gaussian noise of a fit; None for no score.
        in_sample
            Fraction of the budget, such as .3, for a score on the records of the fit: optimistic, and less
            noisy than one on few held out. None for no score.
        engine
            What will have the records, an instance or the name of an installed one: parts that need the
            records in one place are refused. None for this process.

        Raises
        ------
        CannotCompose
            With every reason, not only the first.
        InvalidOption
            If an argument is of another type.
        AgainstPolicy
            If the site allows no such budget.
        """
        require_type("schema", schema, Schema, "make one with Schema.numeric or Schema.read")
        require_type("budget", budget, Budget, "give Budget(epsilon, delta), as in Budget(1.0, 1e-6)")
        if k is not None and k != AUTO:
            require_type("k", k, numbers.Integral, "give a whole number of at least 1, or 'auto'")
            k = int(k)  # numpy has integers of its own
        Policy.of_site().require_budget(budget)
        require_type("select_share", select_share, numbers.Real, "give a number between 0 and 1")
        for name, share, example in (("evaluate", evaluate, 0.1), ("in_sample", in_sample, 0.3)):
            if share is not None:
                require_type(name, share, numbers.Real, f"give a number between 0 and 1, such as {example}")
        require_type("batches", batches, numbers.Integral, "give a whole number of at least 1")
        wanted = Wanted(
            self.assembly,
            schema,
            budget,
            k=None,
            select_share=select_share,
            batches=batches,
            evaluate=evaluate,
            in_sample=in_sample,
            engine=None if engine is None else make_engine(engine),
        )

        def planned(k: int | None, assembly: Assembly = self.assembly) -> Plan:
            try:
                return make_plan(attrs.evolve(wanted, k=k, assembly=assembly))
            except SystemExit as error:  # of an accountant: a part does not end the program
                raise CannotCompose(str(assembly), ["a part tried to end the program"]) from error

        return planned(k) if not isinstance(k, str) else self._with_chosen_k(len(schema.features), planned)

    def _with_chosen_k(self, every: int, planned: Callable[..., Plan]) -> Plan:
        """Return the plan for as many features as public facts say; ``planned`` takes k, and other parts."""
        if self.assembly.selection is None or self.assembly.regressor is None or self.assembly.iteration:
            raise InvalidOption(
                f"k is 'auto' for {self.assembly}; the rule needs a scorer and a selector, and a regressor "
                "that uses what they pick. Give a number, or leave k out"
            )
        without = attrs.evolve(self.assembly, scorer=None, selector=None)
        return chosen_k(every, lambda k: planned(None, without) if k == every else planned(k))


def compose(
    *,
    scorer: Scorer | str | None = None,
    selector: TopKSelector | str | None = None,
    regressor: Regressor | str | None = None,
    accountant: Accountant | str | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    registry: Registry | None = None,
) -> Pipeline:
    """Return a pipeline of parts, each given as an instance or by the name of an installed component.

    Parameters
    ----------
    scorer, selector
        Both or neither; without them the regressor uses every feature.
    regressor
        May be left out for a selection alone.
    accountant
        A fresh accountant of the schema's relation, or a name. Where it is left out, ``tight`` if that
        composes every event that is planned, else ``rdp``; the plan says which, and why.
    options
        For parts given by name: role -> option -> value.
    registry
        One that has read the environment already, where several pipelines are made.

    Raises
    ------
    UnknownName, AmbiguousName
        If no part, or more than one, has a name.
    InvalidOption
        If something is neither a name nor a part, or an option does not fit.
    """
    given = {"scorer": scorer, "selector": selector, "regressor": regressor}
    settings = _settings(options or {})
    for role, values in settings.items():
        instance = accountant if role == "accountant" else given.get(role)
        if role not in PARTS:
            raise InvalidOption(f"no part is called {role!r}; parts are {', '.join(PARTS)}")
        if values and not isinstance(instance, str) and (role, instance) != ("accountant", None):
            raise InvalidOption(
                f"options {sorted(values)} are given for {role}, "
                + ("which is not part of this pipeline" if instance is None else "which is an instance")
            )
    if accountant is None and settings.get("accountant"):
        accountant = FALLBACK  # the one of both that has options
    registry = registry or Registry()
    assembly = Assembly(
        None if scorer is None else make_part("scorer", scorer, settings.get("scorer"), registry),
        None if selector is None else make_part("selector", selector, settings.get("selector"), registry),
        None if regressor is None else make_part("regressor", regressor, settings.get("regressor"), registry),
        accountant
        if accountant is None or isinstance(accountant, str)
        else make_part("accountant", accountant, None, registry),
        settings.get("accountant", {}),
    )
    return Pipeline(assembly)


def _settings(options: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    remedy = 'give role -> option -> value, as in {"scorer": {"penalty": "mean"}}'
    require_type("options", options, Mapping, remedy)
    for role, values in options.items():
        require_type(f"options of {role}", values, Mapping, remedy)
    return {role: dict(values) for role, values in options.items()}
