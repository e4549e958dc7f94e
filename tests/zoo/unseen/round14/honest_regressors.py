"""Five honest regressors that look odd, each with why it is honest."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Dataset, LinearModel, Meter, Request, StagePlan
from zoo.unseen.round13.regressors import (
    ARITHMETIC,
    PROOF,
    Noise,
    labels,
    norm,
    one_release,
    require_bounds,
    rows,
    times,
)
from zoo.unseen.round14.regressors import (
    descend,
    flagged_rows,
    line,
    noisy_sums,
    plan_sampled,
    plan_steps,
    plan_votes,
    sampled_sums,
    voted,
)


@attrs.frozen
class ShortTotalRegressor:
    """Four steps of gradient descent; the sum of all gradients is clipped to length 1.

    HONEST: two vectors of length 1 are at most 2 apart, whatever the tables; that is what it claims. Each
    step is taken from released weights.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_steps(request, 2 * norm(1))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return descend(data, plan, meter, 2 * norm(1))


@attrs.frozen
class PaidVotesRegressor:
    """For each feature, the sign of its products with the target, where a noisy margin says that it is sure.

    HONEST: a record moves a margin by 1, or 2 if replaced. Where a margin is above that, neighbors have the
    same sign, and the noisy test is epsilon-DP. Where it is not, the test passes with probability delta / k
    at most, half of exp(-(t - 1) epsilon). So k tests are (k epsilon, delta)-DP.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dwork and Lei 2009"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_votes(request, paid=max(1, request.k))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return voted(data, plan, meter)


@attrs.frozen
class OneOfTwoRegressor:
    """Noisy sums of products, where a column and its indicator share a length of 1.

    HONEST: a value u counts 1 - f where its indicator is f in [0, 1], and (1 - f)^2 u^2 + f^2 is at most
    (1 - f) + f. Not all columns may be given, so it asks for those that come as pairs only where all are.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        every = request.schema.features
        pairs = sum(f.indicator and f.category is None for f in every) if request.k == len(every) else 0
        moved = times(request.neighboring) * norm(request.k - pairs + 1)
        return one_release(request, moved, request.k + 1, more=moved)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        U = flagged_rows(data)
        flags = {f.column: U[:, j] for j, f in enumerate(data.features) if f.indicator}
        shares = [
            U[:, j] * (1 - flags[f.column]) if f.column in flags and not f.indicator else U[:, j]
            for j, f in enumerate(data.features)
        ]
        V = np.column_stack([*shares, np.zeros(data.records)])[:, :-1]
        return line(data, noisy_sums(V, labels(data), noise, meter, noise.more))


@attrs.frozen
class FreshSampleRegressor:
    """Four noisy sums, each over a Poisson sample of an eighth of the records.

    HONEST: each sample is of secret coins that are tossed anew, inside of the event that is charged for it.
    A coin is a whole number below 8 that is 0, so the rate is exact.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Mironov, Talwar and Zhang 2019"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_sampled(request, 4)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise, found = plan.settings_as(Noise), []
        for event in plan.events:
            with meter.custom(event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
                taken = sampler.integers(8, size=data.records) == 0
                found.append(sampled_sums(data, taken, sampler, noise))
        return line(data, np.mean(found, axis=0))


@attrs.frozen
class NoisyBranchRegressor:
    """Noisy sums over a noisy number of records, and a constant of the schema where that is below ten.

    HONEST: all that follows the noise is post-processing, branches too.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        return one_release(request, times(request.neighboring) * norm(request.k + 2), request.k + 2)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        U, v = rows(data), labels(data)
        exact: list[Any] = [*(U * v[:, None]).sum(axis=0), v.sum(), float(data.records)]
        *sums, about = meter.gaussian(
            exact,
            sensitivity=times(noise.neighboring) * norm(len(exact)),
            noise_multiplier=noise.multiplier,
        )
        return line(data, np.array(sums) * (about >= 10), max(10.0, about))


PROOFS = (
    ShortTotalRegressor,
    PaidVotesRegressor,
    OneOfTwoRegressor,
    FreshSampleRegressor,
    NoisyBranchRegressor,
)
