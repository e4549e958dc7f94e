"""Functions of other libraries as parts of a few lines, and what dpkit's kit finds in them.

    python docs/results/elsewhere/parts.py diffprivlib

runs those attacks of the kit that can see noise which is not dpkit's on each function of a library that is
installed beside dpkit, and prints a line of JSON for each. What a wrapper plans is the library's own claim,
under each relation that it is asked for. dpkit's house rules, such as docstrings, are not asked of others.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, ClassVar, Self

import attrs
import numpy as np
from dpkit_check import kind_of, run_checks

from dpkit_core import (
    Dataset,
    Door,
    Handed,
    LinearModel,
    Matrix,
    Meter,
    Neighboring,
    Request,
    Scores,
    SelectionRequest,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable, UnsupportedEvent
from dpkit_core.privacy.events import (
    ApproxDP,
    Event,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
)

CLAIM = "the library's own claim"

#: Kind of part -> the attacks that are asked.
ASKED = {
    "regressor": ("neighbors_cannot_be_told_apart", "doors_are_covered", "forked_workers_differ"),
    "selector": ("selection_hides_the_scores", "forked_workers_differ"),
    "accountant": ("never_below_the_exact_law", "mixtures_are_never_below"),
}


@attrs.frozen
class Facts:
    """What a function is told: the budget by an event, and public bounds."""

    event: PureDP | ApproxDP
    bounds: Matrix
    target: tuple[float, float]

    @property
    def epsilon(self) -> float:
        """The epsilon that the function is given."""
        return self.event.epsilon


@attrs.frozen
class Wrapped:
    """A regression, mean or quantile of another library, whose releases are the numbers of a line.

    A subclass names the library and returns slopes and a level.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = CLAIM
    reference: ClassVar[str] = "its documentation"
    library: ClassVar[str] = ""
    pure: ClassVar[bool] = True
    relations: ClassVar[tuple[Neighboring, ...]] = tuple(Neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        """Return the event that the library claims."""
        schema, relation = request.schema, request.neighboring
        if relation not in self.relations:
            raise Unsuitable(f"{self.library} claims nothing under {relation.value}")
        if schema.target.bounds is None or any(feature.bounds is None for feature in schema.features):
            raise Unsuitable("bounds are needed; give them in the schema")
        delta = 0.0 if self.pure else request.budget.delta / 2
        if not self.pure and not delta:
            raise Unsuitable("a delta is needed; give one in the budget")

        def events(epsilon: float) -> list[PureDP | ApproxDP]:
            if self.pure:
                return [PureDP(epsilon, relation, proof=CLAIM)]
            return [ApproxDP(epsilon, delta, relation, proof=CLAIM)]

        (event,) = events(calibrate_events(events, request))
        bounds = np.array([feature.bounds for feature in schema.features], dtype=float).reshape(-1, 2)
        return StagePlan([event], Facts(event, bounds, schema.target.bounds), foreign=[self.whose()])

    def whose(self) -> str:
        """Return the library and its version."""
        return f"{self.library} {version(self.library)}"

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return what the library releases."""
        facts = plan.settings_as(Facts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with meter.foreign(facts.event, whose=self.whose(), proof=CLAIM) as lent:
                slopes, level = self.release(np.array(data.X), np.array(data.y), facts, lent)
        return LinearModel(data.names, np.ravel(np.asarray(slopes, dtype=float)), float(np.ravel(level)[0]))

    def release(self, X: Matrix, y: Vector, facts: Facts, lent: Any) -> tuple[Any, Any]:
        """Return slopes and a level."""
        raise NotImplementedError


def flat(X: Matrix, level: float) -> tuple[Any, Any]:
    """Return a single number as a line without slopes."""
    return np.zeros(X.shape[1]), level


# --- diffprivlib: its functions take randomness, and draw it in their mechanisms ----------------------------


def handed(mechanism: Any, value: float) -> Handed:
    """Return what a Laplace mechanism of diffprivlib protects."""
    ends = getattr(mechanism, "lower", -math.inf), getattr(mechanism, "upper", math.inf)
    return Handed(value, float(mechanism.sensitivity), mechanism.epsilon, mechanism.delta, *ends)


LAPLACES = tuple(
    Door(f"diffprivlib.mechanisms.laplace:{name}.randomise", handed)
    for name in ("Laplace", "LaplaceTruncated", "LaplaceFolded")
)


@attrs.frozen
class DiffprivlibMean(Wrapped):
    """tools.mean."""

    library = "diffprivlib"
    relations = (Neighboring.REPLACE_ONE,)  # its noise is of scale (upper - lower) / (n epsilon)

    def release(self, X, y, facts, lent):
        """Return a mean."""
        from diffprivlib.tools import mean  # noqa: PLC0415

        return flat(X, mean(y, epsilon=facts.epsilon, bounds=facts.target, random_state=lent.random_state()))


@attrs.frozen
class DiffprivlibLinearRegression(Wrapped):
    """models.LinearRegression."""

    library = "diffprivlib"
    doors: ClassVar[tuple[Door, ...]] = LAPLACES

    def release(self, X, y, facts, lent):
        """Return the coefficients."""
        from diffprivlib.models import LinearRegression  # noqa: PLC0415

        model = LinearRegression(
            epsilon=facts.epsilon,
            bounds_X=(facts.bounds[:, 0], facts.bounds[:, 1]),
            bounds_y=facts.target,
            random_state=lent.random_state(),
        ).fit(X, y)
        return model.coef_, model.intercept_


# --- InterpretML --------------------------------------------------------------------------------------------


@attrs.frozen
class DPEBM(Wrapped):
    """privacy.DPExplainableBoostingRegressor: what its curves say at the corners of the bounds."""

    library = "interpret-core"
    pure = False

    def release(self, X, y, facts, lent):
        """Return differences of predictions, from those at all lower bounds."""
        from interpret.privacy import DPExplainableBoostingRegressor  # noqa: PLC0415

        model = DPExplainableBoostingRegressor(
            epsilon=facts.epsilon, delta=facts.event.delta, max_rounds=5, outer_bags=1, n_jobs=1,
            validation_size=0, feature_types=["continuous"] * X.shape[1], privacy_bounds=facts.bounds,
            privacy_target_min=facts.target[0], privacy_target_max=facts.target[1],
        ).fit(X, y)  # fmt: skip
        low, high = facts.bounds.T
        at = np.vstack([low, np.tile(low, (len(low), 1)) + np.diag(high - low)])
        first, *others = model.predict(at)
        return np.array(others) - first, first


# --- OpenDP -------------------------------------------------------------------------------------------------


def opendp() -> Any:
    """Return OpenDP with the features that its regression needs."""
    import opendp.prelude as dp  # noqa: PLC0415 - takes seconds

    dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")
    return dp


@functools.cache
def scaled(make: Any, *facts: Any, d_in: float, d_out: float) -> Any:
    """Return the measurement of the least scale by which its own privacy map allows a budget."""
    dp = opendp()
    scale = dp.binary_search(lambda s: make(s, *facts).map(d_in) <= d_out, bounds=(1e-6, 1e9))
    return make(scale, *facts)


def numbers(dp: Any) -> tuple[Any, Any]:
    """Return vectors of numbers, of which records come and go."""
    return dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()


def opendp_sum(scale: float, bounds: tuple[float, float]) -> Any:
    """Return clamp, sum and Laplace noise."""
    dp = opendp()
    return numbers(dp) >> dp.t.then_clamp(bounds) >> dp.t.then_sum() >> dp.m.then_laplace(scale)


def opendp_median(scale: float, bounds: tuple[float, float]) -> Any:
    """Return a private quantile among 21 candidates."""
    dp = opendp()
    candidates = np.linspace(*bounds, 21)
    return numbers(dp) >> dp.m.then_private_quantile(
        dp.max_divergence(), candidates=candidates, alpha=0.5, scale=scale
    )


def opendp_line(scale: float, x_bounds: tuple[float, float], bounds: tuple[float, float]) -> Any:
    """Return the measurement of a Theil-Sen line."""
    dp = opendp()
    return dp.sklearn.linear_model.LinearRegression(
        dp.max_divergence(), x_bounds=[x_bounds], y_bounds=bounds, scale=scale, candidates_count=2
    ).measurement


def opendp_top(scale: float, k: int) -> Any:
    """Return a noisy top k."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    return space >> dp.m.then_noisy_top_k(dp.max_divergence(), k=k, scale=scale)


@attrs.frozen
class OpenDPMean(Wrapped):
    """Clamp, sum, Laplace noise; over 20."""

    library = "opendp"
    relations = (Neighboring.ADD_OR_REMOVE_ONE,)

    def release(self, X, y, facts, lent):
        """Return a sum."""
        bounds = tuple(map(float, facts.target))
        return flat(X, scaled(opendp_sum, bounds, d_in=1, d_out=facts.epsilon)(y.tolist()) / 20)


@attrs.frozen
class OpenDPMedian(Wrapped):
    """then_private_quantile."""

    library = "opendp"
    relations = (Neighboring.ADD_OR_REMOVE_ONE,)

    def release(self, X, y, facts, lent):
        """Return a median."""
        bounds = tuple(map(float, facts.target))
        return flat(X, scaled(opendp_median, bounds, d_in=1, d_out=facts.epsilon)(y.tolist()))


@attrs.frozen
class OpenDPLinearRegression(Wrapped):
    """sklearn.linear_model.LinearRegression, of the first feature."""

    library = "opendp"
    relations = (Neighboring.ADD_OR_REMOVE_ONE,)

    def release(self, X, y, facts, lent):
        """Return slope and intercept."""
        ends = tuple(map(float, facts.bounds[0])), tuple(map(float, facts.target))
        line = scaled(opendp_line, *ends, d_in=1, d_out=facts.epsilon)
        slope, level = line(np.column_stack([X[:, 0], y]))
        return np.append(slope, np.zeros(X.shape[1] - 1)), level


@attrs.frozen
class OpenDPTopK:
    """then_noisy_top_k."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = CLAIM
    reference: ClassVar[str] = "its documentation"
    library: ClassVar[str] = "opendp"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return an event for each round."""

        def events(epsilon: float) -> list[PureDP]:
            return [PureDP(epsilon, request.neighboring, proof=CLAIM) for _ in request.picks]

        planned = events(calibrate_events(events, request))
        return StagePlan(planned, foreign=[f"opendp {version('opendp')}"])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> tuple[int, ...]:
        """Return the places of what OpenDP picks."""
        event: Any = plan.events[scores.round.index]
        free = np.flatnonzero(scores.candidates)
        distance = float(scores.round.sensitivity.linf)
        top = scaled(opendp_top, scores.round.picks, d_in=distance, d_out=event.epsilon)
        with meter.foreign(event, whose=plan.foreign[0], proof=CLAIM):
            picks = top(scores.values[free].tolist())
        return tuple(int(free[place]) for place in picks)


# --- accountants: they keep events with their counts, and ask the library when they are asked ---------------


def pairs(event: Event, count: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield the events within an event, with how often each happens."""
    match event:
        case Repeated():
            yield from pairs(event.event, count * event.count)
        case Sequence():
            for each in event.events:
                yield from pairs(each, count)
        case _:
            yield event, count


@attrs.frozen
class Asked:
    """An accountant of another library, for add-remove."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = CLAIM
    reference: ClassVar[str] = "its documentation"
    library: ClassVar[str] = ""

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    spent: tuple[tuple[Event, int], ...] = attrs.field(default=(), metadata={"state": True})

    def knows(self, event: Event) -> bool:
        """Return whether the library has a mechanism for an event."""
        return isinstance(event.event if isinstance(event, PoissonSampled) else event, Gaussian)

    def supports(self, event: Event, /) -> bool:
        """Return whether the library can account for all that is within an event."""
        return self.neighboring is Neighboring.ADD_OR_REMOVE_ONE and all(
            getattr(each, "neighboring", None) is self.neighboring and self.knows(each)
            for each, _ in pairs(event)
        )

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after further runs."""
        if not self.supports(event):
            raise UnsupportedEvent(f"{self.library} cannot account for {event}")
        total = dict(self.spent)
        for each, times in pairs(event, count):
            total[each] = total.get(each, 0) + times
        return attrs.evolve(self, spent=tuple(total.items()))

    def epsilon(self, delta: float, /) -> float:
        """Return what the library says of a delta."""
        if not 0 <= delta < 1:
            raise ValueError(f"delta is {delta}; it must be at least 0 and below 1")
        if not self.spent:
            return 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return max(0.0, float(self.ask_epsilon(delta))) if delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return what the library says of an epsilon."""
        if not 0 <= epsilon < math.inf:
            raise ValueError(f"epsilon is {epsilon}; it must be at least 0 and finite")
        if not self.spent:
            return 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return min(1.0, max(0.0, float(self.ask_delta(epsilon))))

    def ask_epsilon(self, delta: float) -> float:
        """Ask the library."""
        raise NotImplementedError

    def ask_delta(self, epsilon: float) -> float:
        """Ask the library."""
        raise NotImplementedError

    def gaussians(self) -> Iterator[tuple[float, float, int]]:
        """Yield noise multiplier, rate of the sample and count."""
        for event, count in self.spent:
            sampled = isinstance(event, PoissonSampled)
            noise: Any = event.event if sampled else event  # type: ignore[union-attr]
            yield noise.noise_multiplier, event.rate if sampled else 1.0, count  # type: ignore[union-attr]


@attrs.frozen
class DpAccountingRdp(Asked):
    """dp_accounting.rdp.RdpAccountant."""

    library = "dp-accounting"

    def knows(self, event: Event) -> bool:
        """Return whether it is a Gaussian, a sample of one, or Laplace noise."""
        return isinstance(event, Laplace) or super().knows(event)

    def asked(self) -> Any:
        """Return the library's accountant after all events."""
        import dp_accounting as theirs  # noqa: PLC0415
        from dp_accounting.rdp import RdpAccountant  # noqa: PLC0415

        def event_of(event: Any) -> Any:
            match event:
                case Gaussian():
                    return theirs.GaussianDpEvent(event.noise_multiplier)
                case Laplace():
                    return theirs.LaplaceDpEvent(event.noise_multiplier)
                case _:
                    return theirs.PoissonSampledDpEvent(event.rate, event_of(event.event))

        made = RdpAccountant()
        for event, count in self.spent:
            made.compose(event_of(event), count)
        return made

    def ask_epsilon(self, delta: float) -> float:
        """Return its epsilon."""
        return self.asked().get_epsilon(delta)

    def ask_delta(self, epsilon: float) -> float:
        """Return its delta."""
        return self.asked().get_delta(epsilon)


@attrs.frozen
class OpacusGdp(Asked):
    """opacus.accountants.analysis.gdp, which composes one setting with itself, without torch."""

    library = "opacus"

    def supports(self, event: Event, /) -> bool:
        """Return whether there is one setting, as the library demands."""
        return super().supports(event) and len({each for each, _ in (*self.spent, *pairs(event))}) == 1

    def ask_epsilon(self, delta: float) -> float:
        """Return the least epsilon to 2^-60 whose delta the library says is no larger."""
        low, high = 0.0, 1e4
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.ask_delta(middle) <= delta else (middle, high)
        return high

    def ask_delta(self, epsilon: float) -> float:
        """Return its delta."""
        ((noise, rate, count),) = self.gaussians()
        gdp = opacus("gdp")
        mu = gdp.compute_mu_poisson(steps=count, noise_multiplier=noise, sample_rate=rate)
        return float(gdp.delta_eps_mu(eps=epsilon, mu=mu))


@functools.cache
def opacus(name: str) -> Any:
    """Return a module of Opacus's analysis, which needs no torch, past packages that import it."""
    import types  # noqa: PLC0415
    from importlib.metadata import distribution  # noqa: PLC0415

    for package in ("opacus", "opacus.accountants", "opacus.accountants.analysis"):
        module = types.ModuleType(package)
        module.__path__ = [str(distribution("opacus").locate_file(package.replace(".", "/")))]
        sys.modules.setdefault(package, module)
    return importlib.import_module(f"opacus.accountants.analysis.{name}")


PARTS: tuple[type[Any], ...] = (
    OpenDPLinearRegression,
    OpenDPMean,
    OpenDPMedian,
    OpenDPTopK,
    DiffprivlibLinearRegression,
    DiffprivlibMean,
    DPEBM,
    DpAccountingRdp,
    OpacusGdp,
)


def main(chosen: str) -> None:
    """Run the kit on each part of a library, or on one part, and print what it found."""
    for part in PARTS:
        if chosen not in (part.library, part.__name__):
            continue
        report = run_checks(part, only=[f"check_{name}" for name in ASKED[kind_of(part)]])
        failed = [result for result in report.results if result.status == "failed"]
        samples = sum(result.samples for result in report.results)
        if failed:
            told = failed[0].detail.rpartition("): ")[2].partition(", between ")[0]
        elif kind_of(part) == "accountant":
            told = f"{samples} totals compared with exact laws"
        else:
            told = "; ".join(
                r.detail for r in report.results if r.group == "privacy" and r.status == "passed"
            )
            told = f"{told.partition(' and delta at least 0 ')[0]}, {samples} runs"
        found = {
            "part": part.__name__,
            "library": f"{part.library} {version(part.library)}",
            "verdict": report.verdict,
            "told": told,
            "by": {result.check: result.detail for result in failed},
            "seconds": round(report.seconds),
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
