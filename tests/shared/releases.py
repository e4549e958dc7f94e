"""One release of each shape that there is, by accountants whose sums anybody can repeat."""

from __future__ import annotations

import functools
import json
from typing import Any

import attrs
import numpy as np

from dpkit_core import (
    Account,
    Budget,
    Column,
    Dataset,
    Ledger,
    Neighboring,
    Randomness,
    Release,
    Schema,
    compose,
    plan_evaluation,
)
from dpkit_core.data.columns import Unit
from dpkit_core.privacy import events
from dpkit_core.privacy.filters import filter_for
from dpkit_core.privacy.units import grouped
from dpkit_core.release.certificate import StageEvent
from dpkit_core.release.verify import TOTALS

ADDED, REPLACED = Neighboring
BUDGET = Budget(4.0, 1e-5)
SEED = 7
BOX = Schema.numeric("ab", "z", {"a": (0, 1), "b": (0, 1), "z": (0, 1)})
VISITS = attrs.evolve(BOX, unit=Unit(("hospital", "patient"), 3))
REPLACED_BOX = attrs.evolve(BOX, neighboring=REPLACED, records=300)
RETURNS = attrs.evolve(VISITS, target=Column("z", "categorical", categories=("no", "yes")))


def corpus() -> dict[str, Any]:
    """Return name -> release as plain data; runs wrote all but ``events``, ``sums`` and ``groups``."""
    made = {
        "table": _table(),
        "witness": _paid_in("gdp"),
        "renyi": _paid_in("renyi"),
        "transforms": _transforms(),
        "trees": _trees(),
        "classes": _classes(),
        "batches": _batches(),
        "iterates": _iterates(),
        "search": _search(),
        "share": _share(),
        "tight": _run(BOX, k=1, scorer="kendall", selector="peel", regressor="adassp", accountant="tight"),
        "events": _with(_line(), "rdp", EVERY, orders=[2.5, 8.0, 32.0]),
        "sums": _with(_line(), "basic", PAIRS),
        "refused": _refused(),
        "units": _run(VISITS, regressor="adassp", accountant="tight", paid_by=_payer(VISITS)),
        "scored": _run(BOX, regressor="adassp", evaluate=0.2),
        "counted": _run(RETURNS, regressor="adassp", evaluate=0.5, accountant="rdp"),
        "rated": _rated(_run(BOX, regressor="adassp", evaluate=0.2)),
        "optimistic": _rated(_run(RETURNS, regressor="adassp"), "fitted"),
        "seen": _run(BOX, regressor="adassp", in_sample=0.3),
        "others": _rated(_run(REPLACED_BOX, regressor="adassp"), "other"),
        "parties": _parties(),
        "groups": _with(_run(VISITS, regressor="mean"), "rdp", GROUPED),
    }
    documents = {name: json.loads(release.to_json()) for name, release in made.items()}
    documents["events"]["certificate"]["engine"] = {"name": "far", "distribution": "far-away", "version": "1"}
    documents["events"]["certificate"]["assumptions"].append(
        "those who run far, where the records were, and the network to it are trusted"
    )
    documents["events"]["signature"] = {"algorithm": "Ed25519", "key": "0" * 64, "value": "f" * 128}
    return documents


def _uniform(schema: Schema, records: int = 300) -> Dataset:
    rng = np.random.default_rng(SEED)
    d = len(schema.features)
    people = {name: rng.integers(0, 99, records) for name in schema.unit.columns} if schema.unit else None
    X, y = rng.uniform(size=(records, d)), rng.uniform(size=records)
    if schema.target.kind == "categorical":
        y = np.round(y)
    return Dataset.from_arrays(X, y, schema, units=people)


def _run(
    schema: Schema,
    budget: Budget = BUDGET,
    *,
    k: int | None = None,
    evaluate: float | None = None,
    in_sample: float | None = None,
    paid_by: Any = None,
    **parts: Any,
) -> Release:
    pipeline = compose(**{"accountant": "rdp", **parts})
    plan = pipeline.plan(schema, budget, k=k, evaluate=evaluate, in_sample=in_sample)
    return plan.run(_uniform(schema), paid_by=paid_by)


def _rated(release: Release, records: str | None = None) -> Release:
    """Return the evaluation of a release in a run of its own."""
    plan = plan_evaluation(release, BUDGET, records, accountant="rdp")
    return plan.run(_uniform(plan.schema))


def _table() -> Release:
    columns = (
        Column("a", lower=0, upper=1, missing="indicator"),
        Column("b", "categorical", categories=("x", "y")),
        Column("d", "date", 0, 9, format="%d.%m.%Y"),
        Column("e", symbol="€", decimal=",", thousands="."),
    )
    schema = Schema(columns, Column("z", lower=0, upper=1), assertions=("it is made up",), records_about=500)
    return _run(
        schema,
        k=2,
        scorer="kendall",
        selector="peel",
        regressor="winsorized_least_squares",
        paid_by=_payer(schema),
    )


def _payer(schema: Schema, measure: str = "basic") -> Any:
    ledger, budget = Ledger.in_memory(), Budget(9.0, 1e-3)
    ledger.add(Account("table", schema, budget, filter_for(measure, budget)))
    return ledger.payer("table")


def _paid_in(measure: str) -> Release:
    return _run(BOX, regressor="mean", paid_by=_payer(BOX, measure))


def _transforms() -> Release:
    columns = (
        Column("a", lower=0, upper=9, clip=True, yeo_johnson=0.5, scale=True),
        Column("b", "categorical", categories=("x", "y"), missing="constant", fill="x"),
        Column("c", "categorical", categories=("u",), missing="indicator"),
        Column("d", "date", 0, 9, missing="constant", fill=3.0),
        Column("e", missing="constant", fill=1.5),
    )
    schema = Schema(columns, Column("z", lower=0, upper=2, yeo_johnson=0.0), REPLACED, records=300)
    return _run(schema, k=3, scorer="kendall", selector="joint")


def _trees() -> Release:
    return _run(BOX, regressor="boosted_trees", options={"regressor": {"trees": 2, "depth": 2}})


def _classes() -> Release:
    colors = Column("color", "categorical", categories=("red", "green", "blue"))
    schema = Schema((Column("a", lower=0, upper=1),), colors)
    rng = np.random.default_rng(SEED)
    data = Dataset.from_arrays(rng.uniform(size=(400, 1)), rng.choice(colors.categories, 400), schema)
    pipeline = compose(
        regressor="boosted_trees", accountant="rdp", options={"regressor": {"trees": 2, "depth": 1}}
    )
    return pipeline.plan(schema, BUDGET).run(data)


def _batches() -> Release:
    pipeline = compose(
        regressor="sgbdt",
        accountant="individual_filter",
        options={"regressor": {"rounds": 3, "depth": 1, "rate": 0.5}},
    )
    rng = np.random.default_rng(SEED)
    batches = [
        Dataset.from_arrays(rng.uniform(size=(200, 2)), rng.uniform(size=200), BOX, batch=True)
        for _ in range(2)
    ]
    return pipeline.plan(BOX, BUDGET, batches=2).run(batches)


class _Alone:
    """The only one of several parties that came."""

    coins, spare, inflation = Randomness.from_seed(SEED), 1, 1.0
    engine = "federation", "dpkit-engine-federation", "1"
    assumptions = ("at most 0 of the 1 parties that hold the records share what they know",)

    def compared(self, released: str, /) -> tuple[str, ...]:
        return ()

    def total(self, value: Any, scale: int, noise: Any, attempt: Any, /) -> Any:
        """Return the value with its noise."""
        return value + noise(scale)


def _parties() -> Release:
    plan = compose(regressor="adassp", accountant="rdp").plan(BOX, attrs.evolve(BUDGET, epsilon=2.5))
    return plan.with_spare(1, BUDGET).run(_uniform(BOX), joint=_Alone())


def _iterates() -> Release:
    options = {"regressor": {"rounds": 4, "every": 2}}
    return _run(BOX, scorer="screening", selector="peel", regressor="frank_wolfe", options=options)


def _search() -> Release:
    from dpkit_sklearn import PrivateRegressor, PrivateSearchCV

    estimator = PrivateRegressor(regressor="mean", accountant="basic", epsilon=1.0, delta=0.0, schema=BOX)
    search = PrivateSearchCV(estimator, {"epsilon": [1.0, 0.5]}, cv=3, accountant="basic", refit=False)
    data = _uniform(BOX)
    release: Release = search.fit(data.X, data.y).release_
    return release


def _share() -> Release:
    parts = {
        "scorer": "correlation",
        "selector": "permute_and_flip",
        "regressor": "mean",
        "accountant": "basic",
    }
    plan = compose(**parts).plan(BOX, BUDGET, k=1, select_share=0.3)
    return plan.run(_uniform(BOX), randomness=Randomness.from_seed(SEED))


def _refused() -> Release:
    return _run(BOX, Budget(0.05, 1e-9), regressor="tukey")


def _line() -> Release:
    return _run(BOX, regressor="adassp")


_NOISE = events.Gaussian(30.0, sensitivity=1.0, shape=(2,))
_PURE = events.PureDP(0.01, proof="somewhere")

PAIRS: tuple[events.Event, ...] = (
    events.Laplace(40.0, sensitivity=1.0, shape=()),
    events.PermuteAndFlip(0.02, sensitivity=2.0, candidates=3),
    events.ApproxDP(0.01, 1e-9, proof="somewhere"),
    events.PoissonSampled(0.25, events.Sequence((_PURE, events.ApproxDP(0.02, 1e-9, proof="somewhere")))),
    events.Disjoint(_PURE, 4),
    events.Repeated(events.ExponentialMechanism(0.02, sensitivity=1.0, candidates=5), 3),
)

EVERY: tuple[events.Event, ...] = (
    *PAIRS,
    _NOISE,
    events.NonSphericalGaussian((20.0, 40.0), sensitivities=(1.0, 2.0), shape=(2, 3)),
    events.Renyi((2.0, 64.0, float("inf")), (1e-4, 1e-3, 0.1), proof="somewhere"),
    events.StableHistogram(30.0, 1e-9, sensitivity=1.0),
    events.PoissonSampled(0.1, _NOISE),
    events.Filtered(events.PoissonSampled(0.2, _NOISE), 6, 4),
    events.Filtered(_NOISE, 3, 2),
    events.Apart((events.Repeated(_NOISE, 2), events.Sequence((_NOISE, _PURE))), units=True),
    events.Sequence((_NOISE, events.Laplace(2000.0, sensitivity=1.0, shape=()))),
)

GROUPED = (
    *(event for event in EVERY if not isinstance(event, events.Renyi)),
    events.Disjoint(events.Repeated(_NOISE, 2), 4),
    events.Disjoint(events.ApproxDP(0.01, 1e-9, proof="somewhere"), 2),
)


def _with(release: Release, accountant: str, listed: tuple[events.Event, ...], **options: Any) -> Release:
    """Return a wholly consistent lie: the release with other events and what they compose to."""
    certificate = release.certificate
    home = f"dpkit-accountant-{accountant}"
    part = attrs.evolve(certificate.parts[-1], name=accountant, distribution=home, options=options)
    total = functools.partial(TOTALS[accountant], **options)
    charged = [grouped(event, certificate.schema.records_of_a_unit) for event in listed]
    facts = {
        "events": tuple(StageEvent("regression", event) for event in listed),
        "accountant": accountant,
        "parts": (*certificate.parts[:-1], part),
        "epsilon": total(charged, certificate.neighboring, certificate.delta),
    }
    return attrs.evolve(release, certificate=attrs.evolve(certificate, **facts))
