"""What the fourth round of unseen lies taught the kit: a false part for each class, and its honest twin."""

import math
from typing import ClassVar

import attrs
import numpy as np
import pytest
from dpkit_check import CheckFailed, checks_for, kind_of, run_checks, trial_for
from dpkit_check.climb import most_bent, steepest

from dpkit_core import Dataset, LinearModel, Neighboring, Sensitivity, StagePlan, fixed_scores
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.privacy.events import Disjoint, ExponentialMechanism, Gaussian, Laplace, Repeated
from dpkit_core.protocols import Refusal

AR, RO = Neighboring


def run_one(make, name):
    (check,) = (check for check in checks_for(kind_of(make)) if check.name == f"check_{name}")
    with np.errstate(all="ignore"):
        return check.run(make, trial_for(kind_of(make)))


@attrs.frozen
class Part:
    api: ClassVar[int] = 3
    proof: ClassVar[str] = "none"
    reference: ClassVar[str] = "none"


def times(neighboring):
    return 2.0 if neighboring is RO else 1.0


# Thresholds


def steps(total):
    def moved(a, b):
        return abs(total(b) - total(a)) / (b - a)

    return moved, lambda a, m, b: abs(total(a) - 2 * total(m) + total(b))


@pytest.mark.parametrize("at", [2, 3, 37, 64, 65, 120, 511, 1000, 1024])
def test_a_jump_is_found_on_its_own_and_under_a_drift(at):
    assert steepest(steps(lambda n: float(n >= at))[0]) == at
    moved, bend = steps(lambda n: n - 4.0 * (n >= at))
    assert moved(at - 1, at) == 3
    if at > 2:  # from one record to two there is no bend
        assert most_bent(bend, moved) == at


@attrs.frozen
class Centered(Part):
    """Column sums, after the mean of a target within bounds is released; it may jump at ``threshold``."""

    adaptive: ClassVar[bool] = False
    threshold: ClassVar[int] = 0
    least: ClassVar[int] = 300

    def sensitivity(self, schema, round, /):
        return Sensitivity.general(times(schema.neighboring), schema.neighboring)

    def plan(self, request, /):
        return StagePlan([Laplace(4.0, request.neighboring, sensitivity=2 / self.least, shape=())])

    def prepare(self, data, plan, meter, /):
        shares = np.clip(data.y, -1, 1)
        middle = 0.0
        if data.records >= self.threshold:
            middle = shares.sum() / max(data.records, self.least)
        (event,) = plan.events
        meter.laplace(middle, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier)
        return fixed_scores(np.clip(data.X, 0, 1).sum(axis=0))


class CenteredFromSome(Centered):
    threshold: ClassVar[int] = 217


@pytest.mark.slow
def test_a_release_that_jumps_at_a_number_of_records_is_found():
    run_one(Centered, "draws_are_covered")
    with pytest.raises(CheckFailed, match="217 and 216 records") as failure:
        run_one(CenteredFromSome, "draws_are_covered")
    assert len(failure.value.scene["tables"][0]) == 217


@attrs.frozen
class Total(Part):
    """The sum of the target, clipped to [-1, 1], with noise; children change what is summed, or the model."""

    moves: ClassVar[float] = 1.0

    def plan(self, request, /):
        event = Laplace(
            4.0, request.neighboring, sensitivity=self.moves * times(request.neighboring), shape=()
        )
        return StagePlan([event], event)

    def fit(self, data, plan, meter, /):
        event = plan.settings
        noisy = meter.laplace(
            self.total(np.clip(data.y, -1, 1)),
            sensitivity=event.sensitivity,
            noise_multiplier=event.noise_multiplier,
        )
        return self.model(data, float(noisy))

    def total(self, shares):
        return shares.sum()

    def model(self, data, noisy):
        return LinearModel(data.names, (0.0,) * len(data.names), np.clip(noisy / 100, -1, 1))


class FiveMoreFromSome(Total):
    def total(self, shares):
        return shares.sum() - 5 * (len(shares) >= 217)


@pytest.mark.slow
def test_a_draw_that_jumps_at_a_number_of_records_is_found():
    run_one(Total, "draws_are_covered")
    with pytest.raises(CheckFailed, match="217 and 216 records"):
        run_one(FiveMoreFromSome, "draws_are_covered")


# Places


class Grouped(Total):
    """The mean of the signs of ten groups of records, by what they are or by their places."""

    moves: ClassVar[float] = 0.2
    by_place: ClassVar[bool] = False

    def total(self, shares):
        places = np.arange(len(shares)) * 10 // len(shares)
        groups = places if self.by_place else np.floor(np.abs(shares) * 1e6).astype(int) % 10
        return np.mean([np.sign(shares[groups == group].sum()) for group in range(10)])


class GroupedByPlace(Grouped):
    by_place: ClassVar[bool] = True


@pytest.mark.slow
def test_groups_of_records_as_they_come_are_found():
    run_one(Grouped, "draws_are_covered")
    with pytest.raises(CheckFailed, match="draw 1 protects values that move by"):
        run_one(GroupedByPlace, "draws_are_covered")


# Rare answers


class ExactIfNegative(Total):
    def model(self, data, noisy):
        return Total.model(self, data, noisy if noisy > -1e5 else float(data.y[0]))


@pytest.mark.slow
def test_what_is_exact_after_rare_answers_alone_is_found_and_replayed():
    run_one(Total, "model_is_made_of_answers")
    with pytest.raises(CheckFailed, match="given the same answers") as failure:
        run_one(ExactIfNegative, "model_is_made_of_answers")
    scene = failure.value.scene
    assert scene is not None
    (result,) = run_checks(
        ExactIfNegative,
        only=["check_model_is_made_of_answers"],
        scenes={"check_model_is_made_of_answers": scene},
    ).results
    assert result.status == "failed"
    (result,) = run_checks(
        Total,
        only=["check_model_is_made_of_answers"],
        scenes={"check_model_is_made_of_answers": scene},
    ).results
    assert result.status == "passed"


@attrs.frozen
class RefusesFew(Total):
    """Asks for a second sum where a noisy number of records is large, which is rare."""

    def plan(self, request, /):
        (event,) = Total.plan(self, request).events
        return StagePlan([event, event], event, refusals={"few": "there are too few records"})

    def fit(self, data, plan, meter, /):
        event = plan.settings
        noise = {"sensitivity": event.sensitivity, "noise_multiplier": event.noise_multiplier}
        if meter.laplace(float(data.records), **noise) < 1e5:
            return Refusal("few")
        return self.model(data, float(meter.laplace(self.total(np.clip(data.y, -1, 1)), **noise)))


@pytest.mark.slow
def test_what_is_asked_after_rare_answers_alone_is_answered_alike():
    run_one(RefusesFew, "model_is_made_of_answers")


# Batches


@attrs.frozen
class Streams(Part):
    """A noisy sum of each batch, charged as disjoint."""

    kind: ClassVar[type] = Laplace
    charged: ClassVar[type] = Disjoint
    running: ClassVar[bool] = False
    tells: ClassVar[bool] = False
    forms: ClassVar[tuple[str, ...]] = ("dense", "batches")

    def plan(self, request, /):
        event = self.kind(8.0, request.neighboring, sensitivity=times(request.neighboring), shape=())
        return StagePlan([self.charged(event, request.batches)], event)

    def fit(self, data, plan, meter, /):
        batches = [data] if isinstance(data, Dataset) else data
        event = plan.settings
        draw = meter.laplace if self.kind is Laplace else meter.gaussian
        total = noisy = 0.0
        for batch in batches:
            new = np.clip(batch.y, -1, 1).sum()
            total = new + (total if self.running else 0.0)
            noisy += float(
                draw(total, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier)
            )
        last = batch.records if self.tells else 0
        return LinearModel(batch.names, (0.0,) * len(batch.names), noisy / 100 + last)


class GaussianStreams(Streams):
    kind: ClassVar[type] = Gaussian


class Running(Streams):
    running: ClassVar[bool] = True


class RunningGaussian(Running, GaussianStreams):
    pass


class RunningAndPaying(Running):
    charged: ClassVar[type] = Repeated


class TellsTheLastBatch(Streams):
    tells: ClassVar[bool] = True


@pytest.mark.slow
@pytest.mark.parametrize("part", [Streams, GaussianStreams, RunningAndPaying])
def test_batches_that_cost_what_was_planned_pass(part):
    evidence = run_one(part, "batches_are_disjoint")
    assert evidence.detail.startswith("1.000")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Running, "costs 3 times what was planned"),
        (RunningGaussian, "costs 3 times what was planned"),
        (TellsTheLastBatch, "given the same answers"),
    ],
)
def test_sums_over_all_batches_so_far_and_what_batches_tell_are_found(part, words):
    with pytest.raises(CheckFailed, match=words):
        run_one(part, "batches_are_disjoint")


class MovesFromBatchToBatch(Streams):
    """Under replace-one, each set is charged for a record that is added, though a replaced one moves two."""

    def plan(self, request, /):
        event = self.kind(8.0, request.neighboring, sensitivity=1.0, shape=())
        return StagePlan([Disjoint(event, request.batches)], event)


class NonNegative(MovesFromBatchToBatch):
    """Shares within [0, 1]: one that is replaced in its batch moves the sum by 1, as was planned."""

    def fit(self, data, plan, meter, /):
        batches = [data] if isinstance(data, Dataset) else data
        shares = (attrs.evolve(batch, y=np.clip(batch.y, 0, 1)) for batch in batches)
        return Streams.fit(self, shares, plan, meter)


def test_a_replaced_record_that_changes_its_batch_moves_two():
    with pytest.raises(CheckFailed, match="costs 2 times what was planned"):
        run_one(NonNegative, "batches_are_disjoint")


# Scorers and selectors


@attrs.frozen
class EverySecond(Part):
    """Column sums of every second feature; others get 0, or a share that depends on their place."""

    adaptive: ClassVar[bool] = False
    others: ClassVar[float] = 0.0

    def sensitivity(self, schema, round, /):
        return Sensitivity.general(times(schema.neighboring), schema.neighboring)

    def prepare(self, data, plan, meter, /):
        shares = np.where(np.arange(data.X.shape[1]) % 2, self.others, 1.0)
        return fixed_scores(np.clip(data.X, 0, 1).sum(axis=0) * shares)


class HalfOfEverySecond(EverySecond):
    others: ClassVar[float] = 0.5


class ShiftedByOne(EverySecond):
    """The scores of each feature are given to the next."""

    others: ClassVar[float] = 1.0

    def prepare(self, data, plan, meter, /):
        ask = super().prepare(data, plan, meter)
        return lambda selected: np.roll(ask(selected), 1)


def test_what_a_place_adds_is_public_and_the_scores_of_another_feature_are_not():
    run_one(EverySecond, "scores_follow_the_features")
    run_one(HalfOfEverySecond, "scores_follow_the_features")
    with pytest.raises(CheckFailed, match=r"those are the scores of . with the columns in the order a, b"):
        run_one(ShiftedByOne, "scores_follow_the_features")


@attrs.frozen
class FarInAllColumns(EverySecond):
    """Counts records twelve widths above the bounds threefold, in every form alike; or not."""

    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse")
    threefold: ClassVar[float] = 3.0

    def sensitivity(self, schema, round, /):
        if any(column.bounds is None or column.categories for column in schema.columns):
            return Sensitivity.general(1e9, schema.neighboring)
        return EverySecond.sensitivity(self, schema, round)

    def prepare(self, data, plan, meter, /):
        X = data.X if data.form == "dense" else data.X.toarray()
        far = np.array(
            [f.bounds[1] + 11 * (f.bounds[1] - f.bounds[0]) if f.bounds else np.inf for f in data.features]
        )
        alike = (far < X).all(axis=1, keepdims=True)
        return fixed_scores((np.clip(X, 0, 1) * np.where(alike, self.threefold, 1)).sum(axis=0))


class FarLikeOthers(FarInAllColumns):
    threefold: ClassVar[float] = 1.0


@pytest.mark.slow
def test_sensitivity_is_attacked_at_corners_in_each_form():
    run_one(FarLikeOthers, "forms_agree")
    with pytest.raises(CheckFailed, match="sparse data: linf change 3, declared 1"):
        run_one(FarInAllColumns, "forms_agree")


@attrs.frozen
class OneCandidate(Part):
    """Of more than twelve candidates, the meter is shown the half with the best scores, or the first half."""

    by_scores: ClassVar[bool] = False

    def plan(self, request, /):
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores, plan, meter, /):
        left = np.flatnonzero(scores.candidates)
        keep = np.array(scores.candidates)
        if left.size > 12:
            order = left[np.argsort(-scores.values[left], kind="stable")] if self.by_scores else left
            keep[order[left.size // 2 :]] = False
        return select_picks(attrs.evolve(scores, candidates=keep), plan, meter)


class BestHalf(OneCandidate):
    by_scores: ClassVar[bool] = True


def test_candidates_left_out_by_their_scores_are_found_though_the_picks_are_replayed():
    run_one(OneCandidate, "picks_follow_from_answers")
    with pytest.raises(CheckFailed, match="among different candidates"):
        run_one(BestHalf, "picks_follow_from_answers")


# Noise of the meter on scores


@attrs.frozen
class NoisyMax(Part):
    """The largest of all scores with the meter's noise; children change what the noise is said to hide."""

    gaussian: ClassVar[bool] = True
    share: ClassVar[float] = 1.0

    def plan(self, request, /):
        d = request.rounds[0].scores
        norm = self.share * (math.sqrt(d) if self.gaussian else d)
        kind = Gaussian if self.gaussian else Laplace
        events = [
            kind(
                60.0 * sum(request.picks),
                request.neighboring,
                sensitivity=norm * round_.sensitivity.linf,
                shape=(d,),
            )
            for round_ in request.rounds
            for _ in range(round_.picks)
        ]
        return StagePlan(events, tuple(events))

    def select(self, scores, plan, meter, /):
        left, picked = scores.candidates.copy(), []
        event = next(e for e in plan.settings if e.sensitivity == self.of(scores))
        draw = meter.gaussian if self.gaussian else meter.laplace
        for _ in range(scores.round.picks):
            noisy = draw(
                scores.values, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier
            )
            picked.append(int(np.argmax(np.where(left, noisy, -np.inf))))
            left[picked[-1]] = False
        return tuple(picked)

    def of(self, scores):
        d = scores.values.size
        return self.share * (math.sqrt(d) if self.gaussian else d) * scores.round.sensitivity.linf


class SlightlyLess(NoisyMax):
    share: ClassVar[float] = 0.99


class NoisyLaplace(NoisyMax):
    gaussian: ClassVar[bool] = False


class SlightlyLessLaplace(NoisyLaplace):
    share: ClassVar[float] = 0.99


@pytest.mark.parametrize(("honest", "lie"), [(NoisyMax, SlightlyLess), (NoisyLaplace, SlightlyLessLaplace)])
def test_noise_on_all_scores_hides_what_all_of_them_do(honest, lie):
    assert run_one(honest, "draws_are_covered").detail.startswith("1.000")
    with pytest.raises(CheckFailed, match="draw 1 protects values that move by") as failure:
        run_one(lie, "draws_are_covered")
    assert failure.value.scene is not None
    again = run_checks(
        lie, only=["check_draws_are_covered"], scenes={"check_draws_are_covered": failure.value.scene}
    )
    assert not again.ok
