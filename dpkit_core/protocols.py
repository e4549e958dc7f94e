r"""The four kinds of parts, and everything that the author of a part may use, on one page.

A release is assembled from parts, and every published method is one combination, such as ``kendall`` +
``peel`` + ``tukey`` for DPKendall::

    Scorer --scores--> TopKSelector --columns--> Regressor --model
        \_________________ | _____________________/
                          Meter    draws the noise and records the event, in one call

A part inherits from nothing: a frozen attrs class or dataclass, whose fields are its options, or a plain one.

1. Planning (``sensitivity``, ``plan``) sees public facts only, and raises ``Unsuitable`` with a sentence when
   the part cannot serve. Every sentence that can appear in a release or certificate is in the plan.
2. Noise and private randomness come from the meter alone, by the events of the plan, in their order; or they
   are recorded as another library's by ``Meter.foreign``.
3. No exception, shape, number of rounds or draws depends on private values. From the moment a part has been
   given data, an error is a failed run, charged, without its text.
4. A part never changes its input and keeps no state between calls.
5. An event in a sequence is a step: covered for all neighbors, given what was released before it. A claim
   about a whole is one event; else it would say too little of a person who has several records.

Class-level facts: ``api``, the plugin API it was written for; ``proof``, where its privacy claim is argued;
``reference``, the paper. Optional: ``forms``, of ``"dense"``, ``"sparse"``, ``"streamed"``, ``"batches"``,
``"iterates"``; ``takes_classes``; ``uses_features``; ``additive``; ``most_records``, where the proof ends.

The page, in short; ``help(dpkit_core.Scorer)`` and so on have the terms, units and errors::

    class Request:                  # what a scorer or a regressor is to plan for
        schema: Schema
        k: int                      # features to be picked; columns that the regressor will be given
        budget: Budget              # what the events may cost, as composed by ``accountant``
        accountant: Accountant      # has composed nothing yet; its relation is ``neighboring``
        batches: int = 1            # above 1 for "batches" in ``forms`` only
        iterates: Iterates | None = None    # the regressor's, where they are screened
        neighboring -> Neighboring
        keeps_accounts -> bool      # whether Filtered may be planned

    class SelectionRequest:         # what a selector is to plan for; no schema, so no names
        rounds: tuple[Round, ...]
        budget: Budget
        accountant: Accountant
        neighboring -> Neighboring
        picks -> tuple[int, ...]    # of each round; Unsuitable where there is a threshold

    class Round:                    # one round of a selection
        scores: int                 # how many numbers the selector is given
        candidates: int             # how many of them may still be picked, at most
        picks: int | None           # None: release every candidate above 0
        sensitivity: Sensitivity
        index: int = 0

    class StagePlan:                # what a part will emit, and every sentence that it can release
        events: tuple[Event, ...]
        settings: object = None     # calibrated numbers, read back by ``settings_as(kind)``
        assumptions: tuple[str, ...] = ()
        refusals: Mapping[str, str] = {}    # code -> sentence
        arithmetic: tuple[str, ...] = ()
        foreign: tuple[str, ...] = ()

    class Forecast:                 # what to expect of a run, from public facts
        sentence: str
        records: float | None = None
        remedy: str = ""

    class Scores:                   # one round, as its selector sees it
        values: Vector              # shape (d,), larger is better; private
        round: Round
        candidates: NDArray[bool]   # shape (d,); public
        read: Callable[[Vector, float], Vector] | None = None   # noisy values, deviation -> scores

    class Meter:                    # the only source of noise; an unplanned event voids the run
        coins -> Generator          # public randomness
        inflation -> float          # of Gaussian noise among several parties, else 1
        laplace(value, *, sensitivity, noise_multiplier) -> Matrix
        gaussian(value, *, sensitivity, noise_multiplier) -> Matrix
        select(scores, k, *, event, constant_work=False) -> tuple[int, ...]
        kept_sums(kept, of, *, limits, event) -> Matrix     # over groups of what ``data.keep`` returned
        custom(event, *, proof, arithmetic) -> ContextManager[Sampler]
        foreign(event, *, whose, proof) -> ContextManager[Lent]  # .random_state(), .generator()
        screen(iterate, /) -> tuple[int, ...]   # features to drop, only for a request with iterates

    class Scorer:                   # how relevant is each feature?
        adaptive -> bool            # whether scores depend on earlier picks
        sensitivity(facts: Schema, round_index: int, /) -> Sensitivity
        prepare(data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]
        plan(request: Request, /) -> StagePlan          # optional: it releases something itself
        components(facts: Iterates, /) -> int           # optional, for "iterates" in ``forms``; also
        none, not_private                               # class-level facts of a scorer of iterates

    class TopKSelector:             # given scores of declared sensitivity, release the best candidates
        plan(request: SelectionRequest, /) -> StagePlan
        select(scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]
        reads                       # optional class-level fact: it asks ``Scores.read``

    class Accountant:               # composes events into (epsilon, delta), rounded up; immutable
        neighboring -> Neighboring
        supports(event: Event, /) -> bool
        compose(event: Event, count: int = 1, /) -> Self
        epsilon(delta: float, /) -> float
        delta(epsilon: float, /) -> float
        keeps_accounts              # optional class-level fact: Filtered may be planned

    class Regressor:                # fits a model to the selected columns
        plan(request: Request, /) -> StagePlan
        fit(data: Dataset, plan: StagePlan, meter: Meter, /) -> Model | Refusal
        iterates(schema: Schema, /) -> Iterates         # optional: it can be screened while it fits

    forecast(plan, request, /) -> Sequence[Forecast]    # optional member of any of these but accountants

    class Model:                    # a released model: what leaves the run is its document
        features -> tuple[str, ...]
        predict(X: Matrix, /) -> Vector
        to_document() -> Mapping[str, Any]

    class Refusal:                  # no model, because a private test said no
        code: str                   # one of ``StagePlan.refusals``

    class Iterates:                 # public facts about the iterates of a fit
        loss: str
        radius: float
        clip: float | None
        features: int
        after: tuple[int, ...]      # how many events precede each
        neighboring: Neighboring
        records: int | None = None

    class Iterate:                  # ``facts`` to ``length`` are public, all that follows is private
        facts: Iterates
        step: int
        weights: Vector
        length: float
        gradient: Vector
        steepest: float
        inner: float | None = None
        square: float | None = None
        squares: Vector | None = None
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import attrs

from dpkit_core.data.schema import Schema
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.privacy.events import (
    CANDIDATE_LIMIT,
    Event,
    ExponentialMechanism,
    Gaussian,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
)
from dpkit_core.validators import exact_text, finite, frozen_mapping, frozen_texts, frozen_tuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dpkit_core.arrays import Matrix, Vector
    from dpkit_core.data.dataset import Dataset
    from dpkit_core.data.kept import Kept
    from dpkit_core.data.sums import State
    from dpkit_core.noise.foreign import Lent
    from dpkit_core.noise.sampler import Sampler

S = TypeVar("S")

API = 3
API_FLOOR = 3

#: ``help`` of this module is the page above; ``help`` of each class below says more.
__all__ = ["API", "API_FLOOR"]


@attrs.frozen
class StagePlan:
    """What one part will do: its events in order, and the settings that it will read back when it runs.

    It also holds every sentence that the part can put into a release or a certificate, so that none can be
    made of private values.

    Attributes
    ----------
    events
        Every event that the part will emit, in order. The meter accepts these and no others. Noise says its
        sensitivity and shape, a selection its sensitivity and candidates, a generic event its proof.
    settings
        A frozen attrs object (or None) with the calibrated numbers; public.
    assumptions
        Sentences that the privacy claim rests on beyond the schema; repeated in the certificate.
    refusals
        Code -> sentence, for each reason for which a regressor may return a ``Refusal``.
    arithmetic
        How noise by ``Meter.custom`` is rounded: every sentence that it will be given.
    foreign
        Whose noise is recorded by ``Meter.foreign``: every name that it will be given.
    """

    events: tuple[Event, ...] = attrs.field(converter=frozen_tuple)
    settings: object = None
    assumptions: tuple[str, ...] = attrs.field(default=(), converter=frozen_texts)
    refusals: Mapping[str, str] = attrs.field(factory=dict, converter=frozen_mapping)
    arithmetic: tuple[str, ...] = attrs.field(default=(), converter=frozen_texts)
    foreign: tuple[str, ...] = attrs.field(default=(), converter=frozen_texts)

    def settings_as(self, kind: type[S]) -> S:
        """Return the settings that a part reads back, of the class that it planned with.

        Raises
        ------
        TypeError
            If the settings are of another class: the plan is not this part's.
        """
        if not isinstance(self.settings, kind):
            raise TypeError(
                f"the plan has settings {self.settings!r} where {kind.__name__} was expected; "
                "a part can only run its own plan"
            )
        return self.settings


@attrs.frozen
class Forecast:
    """What a part expects of a run, from public facts alone, for those who decide about the budget.

    Attributes
    ----------
    sentence
        Without a full stop, such as "the private test passes with probability .95 from 2 000 records on".
    records
        From about how many records on the budget is well spent; None if unknown. A plan warns
        if the schema's ``records`` or ``records_about`` is below.
    remedy
        What would help with fewer.
    """

    sentence: str = attrs.field(converter=exact_text)
    records: float | None = attrs.field(default=None, validator=attrs.validators.optional(finite))
    remedy: str = attrs.field(default="", converter=exact_text)


@attrs.frozen
class Request:
    """What a scorer or a regressor is to plan for.

    Attributes
    ----------
    schema
        Public facts about the whole table.
    k
        Of a scorer: how many features will be picked. Of a regressor: how many columns the data will have,
        out of the schema's features; not known which, unless all.
    budget
        What the events may cost under ``accountant``.
    accountant
        An accountant that has composed nothing yet.
    batches
        How many batches the records will come in; above 1 only for a regressor that has ``"batches"`` in
        ``forms``.
    iterates
        The regressor's own, where a scorer and a selector will screen them: it must then show them to
        ``Meter.screen`` as planned. None otherwise.
    """

    schema: Schema
    k: int
    budget: Budget
    accountant: Accountant
    batches: int = 1
    iterates: Iterates | None = None

    @property
    def neighboring(self) -> Neighboring:
        """The relation to be protected."""
        return self.accountant.neighboring

    @property
    def keeps_accounts(self) -> bool:
        """Whether each record has an account under this accountant, so that ``Filtered`` may be planned."""
        return keeps_accounts(self.accountant)


@attrs.frozen
class Round:
    """One round of a selection, as planned.

    Attributes
    ----------
    scores
        How many numbers the selector will be given: one score for each feature; while a regressor iterates,
        also one for dropping none, or the components that scores are read off.
    candidates
        How many candidates there are at most.
    picks
        How many to pick. None to release every candidate whose score is above 0, however many there are: only
        while a regressor iterates. A selector without a threshold raises ``Unsuitable``.
    sensitivity
        How far the scores move between neighboring datasets.
    index
        0 for the first round.

    Raises
    ------
    Unsuitable
        If there are more picks than candidates, or more than 2^24 scores.
    """

    scores: int
    candidates: int
    picks: int | None
    sensitivity: Sensitivity
    index: int = 0

    def __attrs_post_init__(self) -> None:
        if self.picks is not None and self.picks > self.candidates:
            raise Unsuitable(
                f"{self.picks} picks from {self.candidates} features; each feature can be picked once, so "
                "ask for fewer"
            )
        if self.scores > CANDIDATE_LIMIT:
            raise Unsuitable(
                f"{self.scores} features are more than the 2^24 that selections are proved for; drop some"
            )


@attrs.frozen
class SelectionRequest:
    """What a selector is to plan for. It has no schema: a selector that sees no names cannot lie by them.

    Attributes
    ----------
    rounds
        In order. Fixed scores have one round; scores that change with each pick have a round for each.
    budget
        What the events may cost under ``accountant``.
    accountant
        An accountant that has composed nothing yet.
    """

    rounds: tuple[Round, ...] = attrs.field(converter=frozen_tuple)
    budget: Budget
    accountant: Accountant

    @property
    def neighboring(self) -> Neighboring:
        """The relation to be protected."""
        return self.accountant.neighboring

    @property
    def picks(self) -> tuple[int, ...]:
        """How many features each round picks, for a selector without a threshold.

        Raises
        ------
        Unsuitable
            If a round is to release every candidate above 0.
        """
        picks = tuple(round_.picks for round_ in self.rounds if round_.picks is not None)
        if len(picks) < len(self.rounds):
            raise Unsuitable(
                "it picks a given number of features and has no threshold; use a selector that has one, such "
                "as gaussian_threshold"
            )
        return picks


@attrs.frozen(eq=False)
class Scores:
    """The scores of one round, larger is more relevant, as the selector sees them.

    Attributes
    ----------
    values
        One finite score per feature, shape (d,); or the components that scores are read off.
    round
        What was planned for this round, with the sensitivity of ``values``.
    candidates
        True for the features that may still be picked, shape (d,); public.
    read
        What makes the scores of the d candidates of noisy ``values``, given these and the deviation of their
        noise; None where ``values`` are the scores. Only selectors with ``reads = True`` are given one.
    """

    values: Vector
    round: Round
    candidates: npt.NDArray[np.bool_]
    read: Callable[[Vector, float], Vector] | None = None


class Meter(Protocol):
    """The only source of noise inside a run: it draws the noise and records the event in one call.

    What is recorded is compared with the part's plan at once, exactly: mechanism, multiplier, sensitivity and
    shape. An event that was not planned, or planned for later, voids the run before anything is returned. It
    works for one stage, in one process, and not after the part has returned.
    """

    @property
    def coins(self) -> np.random.Generator:
        """Randomness for choices that do not depend on the data, such as the splits of random trees.

        Costs nothing, because it protects nothing: treat what is drawn here as public. Assigning records to
        groups by their position in the table is not such a choice under add/remove, where taking
        out one record moves all others: draw that from a custom mechanism's sampler. Under replace-one it is
        such a choice for tables whose order reveals no values; where tables may be sorted, release
        nothing that reveals these coins.
        """
        ...

    @property
    def inflation(self) -> float:
        """How many times larger the deviation of ``gaussian``'s noise is than asked for; 1 in one place.

        Among several parties each knows its own share, so together they add more than is charged. Public; it
        grows when a party is lost. A part that compares what it was given with the noise multiplies by it.
        """
        ...

    def laplace(
        self, value: npt.ArrayLike, *, sensitivity: float, noise_multiplier: float
    ) -> npt.NDArray[np.float64]:
        """Return ``value`` with Laplace noise of scale ``sensitivity * noise_multiplier`` on each entry.

        Parameters
        ----------
        value
            Finite, of the shape that the planned ``Laplace`` event says.
        sensitivity
            L1 sensitivity of the whole array under the plan's relation; that of the planned event.
        noise_multiplier
            That of the planned event.
        """
        ...

    def gaussian(
        self, value: npt.ArrayLike, *, sensitivity: float, noise_multiplier: float
    ) -> npt.NDArray[np.float64]:
        """Return ``value`` with Gaussian noise of deviation ``sensitivity * noise_multiplier`` on each entry.

        Parameters
        ----------
        value
            Finite, of the shape that the planned ``Gaussian`` event says.
        sensitivity
            L2 sensitivity of the whole array under the plan's relation; that of the planned event.
        noise_multiplier
            That of the planned event.
        """
        ...

    def select(
        self,
        scores: Scores,
        k: int,
        *,
        event: ExponentialMechanism | PermuteAndFlip,
        constant_work: bool = False,
    ) -> tuple[int, ...]:
        """Return the indices of ``k`` candidates, best noisy score first; records ``event`` ``k`` times.

        The event's sensitivity is the range sensitivity of ``scores``, and its ``candidates`` their number.
        The scores that a selector is given keep the sensitivity that the scorer declared.

        Gumbel noise of scale ``range sensitivity / epsilon`` makes each pick an exponential mechanism over
        what the picks before left; exponential noise of the same scale makes it permute-and-flip (McKenna
        and Sheldon 2020). Fresh noise is drawn for each pick; with Gumbel noise that has the law of keeping
        the ``k`` best of one draw (Durfee and Rogers 2019, Lemma 4.2). From 2^16 candidates on, the running
        time depends on the scores unless ``constant_work``; ``dpkit_core.noise.selection`` says how.
        """
        ...

    def kept_sums(
        self,
        kept: Sequence[Kept[State]],
        of: Callable[[State], tuple[Sequence[npt.ArrayLike], npt.NDArray[np.integer]]],
        *,
        limits: Sequence[int],
        event: Gaussian | NonSphericalGaussian | PoissonSampled,
    ) -> npt.NDArray[np.float64]:
        """Return noisy sums of what records contribute to their groups, shape (coordinates, groups).

        The planned event is that of ``dpkit_core.mechanisms.sums.sums_event``, possibly inside ``Filtered``.
        Who takes part is up to the meter: where the event is sampled, a record does with the event's rate, by
        secret coins; where it is filtered, a record does while its account allows it; and one that
        contributes more than a limit never does. None of that can be seen.

        Parameters
        ----------
        kept
            What ``data.keep`` returned, of each batch that is added up, in the order of arrival. All rounds
            of one filter must be of what one ``keep`` returned of each: another may have another order.
        of
            Returns of what is kept: for each coordinate whole numbers of shape (n,), or one number where all
            records contribute the same; and the group of each record, from 0 to below the event's last
            length. A record is charged for what it contributes here.
        limits
            Largest magnitude of a contribution in each coordinate.
        event
            The planned one.
        """
        ...

    def custom(self, event: Event, *, proof: str, arithmetic: str) -> AbstractContextManager[Sampler]:
        """Record ``event``, and give a sampler for a mechanism with custom noise, inside one ``with``.

            with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
                noise = sampler.discrete_gaussian(scale, size)

        Where the event is Laplace or Gaussian noise, as many integers of that law are drawn as its shape has.

        Parameters
        ----------
        event
            A planned event, or several in a ``Repeated`` or ``Sequence``, that covers everything done with
            the sampler.
        proof
            Where the argument is that ``event`` covers it.
        arithmetic
            How rounding is treated; one of the sentences in the plan.
        """
        ...

    def foreign(self, event: Event, *, whose: str, proof: str) -> AbstractContextManager[Lent]:
        """Record ``event`` for noise that another library draws inside the ``with``.

            with meter.foreign(event, whose=whose, proof=proof) as lent:
                model = Theirs(epsilon=event.epsilon, random_state=lent.random_state()).fit(X, y)

        The certificate then says whose noise it is, and does not claim our arithmetic for it; our randomness
        only where it was taken. Without a proof the event is ``NonPrivate``. A part may name, as class-level
        ``doors``, the functions in which the library draws (``dpkit_core.Door``): the kit answers there.

        Parameters
        ----------
        event
            A planned event, or several in a ``Repeated`` or ``Sequence``, that covers what is released.
        whose
            Who draws it, with a version; one of the names in the plan.
        proof
            Where the argument is that ``event`` covers it.
        """
        ...

    def screen(self, iterate: Iterate, /) -> tuple[int, ...]:
        """Return the features to be dropped from an iterate: a release, drawn by the events planned for it.

        Only for a regressor whose request had ``iterates``, once after each number of events that they say.
        The coefficients of these features are to become 0 before the next step; they may come back.
        """
        ...


class Scorer(Protocol):
    """Scores how relevant each feature is; or, in an iterate of a regressor, how well it can be dropped.

    Scores stay inside the run, and a selector releases what follows from them. Optional members:

    ``forms``
        Class-level fact: which of ``"dense"``, ``"sparse"``, ``"streamed"`` data and ``"iterates"`` the
        scorer accepts; dense data by default. One that asks for sums (``dpkit_core.data.sums``) accepts all
        data.
    ``plan(request: Request) -> StagePlan``
        The events of a release of the scorer's own, such as a center of the target, before the selection, and
        what ``prepare`` reads back. Called several times before a run, with budgets of other sizes. Without
        events and settings there is no such stage. Not asked of a scorer of iterates.
    ``takes_classes = True``, ``forecast(plan, request)``
        As for a ``Regressor``.

    A scorer of iterates is given ``Iterates`` for the schema and an ``Iterate`` for the data. Besides the
    features there is a candidate *none*, the last, with score 0; features without a coefficient are no
    candidates. Its optional members:

    ``none = False``
        Dropping nothing is a candidate only where no feature has a coefficient.
    ``not_private``
        Sentences that the certificate repeats, for a published method whose sensitivity is known to be false.
    ``components(facts: Iterates) -> int``
        Where not 0, scores are read off this many noisy numbers, by a selector with a threshold: noise for
        each of several sums may be far less than noise for what is made of them. What ``prepare`` returns
        then gives these numbers, whose sensitivity ``sensitivity`` declares, and has a method
        ``read(noisy, deviation) -> Vector`` that returns one finite score per feature, above 0 to be dropped.
        ``read`` is asked of a copy of the scorer that was prepared with the public fields of the iterate: its
        private ones are 0 or None there.
    """

    api: ClassVar[int]

    @property
    def adaptive(self) -> bool:
        """Whether scores depend on the features already selected.

        Read while planning: an adaptive scorer is asked once for each pick, any other once for all picks.
        """
        ...

    def sensitivity(self, facts: Schema, round_index: int, /) -> Sensitivity:
        """Return how far the scores of one round move between neighboring datasets.

        Called while planning, once for each round, and never after the data has been given: the number is
        compared with the events of the selector.

        Parameters
        ----------
        facts
            Public facts, ``facts.neighboring`` among them. ``Iterates`` for a scorer of iterates, whose one
            number holds for all iterates of a fit, *none* included: scores may be in units of a public number
            that differs between iterates, such as ``facts.reach(iterate.length)``.
        round_index
            0 for the first round; 1 for the scores after the first pick, and so on.

        Returns
        -------
        Sensitivity
            Holds for every dataset that fits the schema and every fixed list of features selected before.

        Raises
        ------
        Unsuitable
            If the public facts do not bound the scores, such as for columns without bounds.
        """
        ...

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores of ``data``, ready to be asked.

        Called once in a run, before the first round, for work that all rounds share; of a scorer of iterates
        once for each iterate.

        Parameters
        ----------
        data
            All features, in one of the scorer's ``forms``; checked against the schema. Or an ``Iterate``.
        plan
            The last that ``plan`` returned; without events and settings where there is none.
        meter
            For the events of the plan, in their order: a scorer without a plan draws nothing.

        Returns
        -------
        Callable
            Maps the indices of the features picked before, in the order released, to one finite score per
            feature, shape (d,), larger is more relevant. Entries of features picked before are ignored.
        """
        ...


class TopKSelector(Protocol):
    """Given scores with a declared sensitivity, release the indices of the best features.

    Optional class-level fact: ``reads = True`` for a selector that asks ``Scores.read``, where there is one,
    for the scores that belong to its noisy values. Optional member: ``forecast``, as for a ``Regressor``.
    """

    api: ClassVar[int]

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return the events of all rounds, calibrated to the request's budget.

        Called several times before a run, with budgets of other sizes, so that stages can be enlarged
        together.

        Parameters
        ----------
        request
            The rounds, how sensitive their scores are, and what the events may cost.

        Returns
        -------
        StagePlan
            One plan for all rounds.

        Raises
        ------
        Unsuitable
            If the request cannot be served, such as by an accountant that does not know the event.
        CalibrationFailed
            If no noise is found whose events stay within the budget.
        """
        ...

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the indices of ``scores.round.picks`` distinct candidates; None means all above 0.

        Called once in each round.

        Parameters
        ----------
        scores
            Private values, and the public facts about them.
        plan
            The last that ``plan`` returned, for all rounds; ``scores.round.index`` says which this is.
        meter
            For the events of the plan, in their order; one for all rounds.

        Returns
        -------
        Sequence[int]
            In the order released: best noisy score first where the mechanism draws an order, by index where
            it draws a set. Sorting a set by the true scores is an unpaid release.
        """
        ...


class Accountant(Protocol):
    """Turns events into (epsilon, delta). Immutable: composing returns a new accountant.

    A dry run is therefore a composition whose result is thrown away, and a copy can never spend twice.

    An optional class-level fact, ``keeps_accounts = True``, allows parts to plan ``Filtered``: the meter then
    keeps an account for each record (``dpkit_core.privacy.accounts``).
    """

    api: ClassVar[int]

    @property
    def neighboring(self) -> Neighboring:
        """The relation whose guarantees it computes; events of another relation are not supported.

        An accountant is made with ``neighboring=`` of the schema, in addition to its options.
        """
        ...

    def supports(self, event: Event, /) -> bool:
        """Return whether ``event``, with everything inside it, can be accounted for.

        Called while planning, for every event. An accountant returns False for events that it does not know,
        such as those of later versions, and never guesses.
        """
        ...

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``, each chosen knowing all before.

        Called very often while planning: calibration composes each plan that it tries.

        Raises
        ------
        UnsupportedEvent
            Where ``supports`` is False.
        """
        ...

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta`` for all that was composed.

        Rounding goes up. Infinity where no finite bound is proved, such as for Gaussian noise at ``delta`` 0;
        0 where nothing was composed.
        """
        ...

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon`` for all that was composed; at most 1, rounded up."""
        ...


def keeps_accounts(accountant: Accountant) -> bool:
    """Return whether an accountant allows ``Filtered``: a separate fact from the events it ``supports``."""
    return getattr(type(accountant), "keeps_accounts", False) is True


class Model(Protocol):
    """A released model. What leaves a run is its document, and a model made of that again.

    A kind of models is read by a class with ``from_document``, which a distribution offers by an entry point
    in the group ``dpkit.models`` whose name is the kind. Without one, the class of the model is asked for its
    ``from_document``; without that, the release holds the document and cannot predict.

    A model that has a prediction for missing values, NaN, says so by the optional class-level fact
    ``takes_missing = True``. A model of a target of several classes has their names, ``classes``, and
    predicts their probabilities. One that is more than a line may have ``shown() -> Shown``, what a person
    reads of it (``dpkit_core.text``).
    """

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the feature columns that ``predict`` expects, in order."""
        ...

    def predict(self, X: Matrix, /) -> Vector:
        """Return one prediction per row of ``X`` (n x len(features)); of classes, a row of probabilities."""
        ...

    def to_document(self) -> Mapping[str, Any]:
        """Return the model as plain data that ``json`` can write, with a ``kind``.

        Text, truth, None, finite numbers, and lists and mappings of them. Every number becomes a float, and
        minus zero zero, before anyone sees it: a reader that needs a whole number converts it.
        """
        ...


@attrs.frozen
class Refusal:
    """An honest outcome without a model: a private test said no. Charged like any other release.

    ``code`` is one of ``StagePlan.refusals``, which has its sentence.
    """

    code: str = attrs.field(converter=exact_text)


class Regressor(Protocol):
    """Fit a model to the selected columns.

    Optional members:

    ``forms``
        Class-level fact: which of ``"dense"``, ``"sparse"``, ``"streamed"`` data the regressor accepts; dense
        data by default. One that asks for sums alone (``dpkit_core.data.sums``) accepts all. With
        ``"batches"`` it also learns from records that arrive batch by batch, each batch once.
    ``uses_features = False``
        It looks at no features: a plan that pays for a selection before it then warns.
    ``takes_classes = True``
        It learns targets of several classes, and looks at ``schema.outcome.classes``: the target is then the
        place of a class in that list, from 1, and 0 for a value that is none. Other regressors are not asked
        to plan for such targets.
    ``additive = True``
        Several parties can fit it together, where it plans Gaussian noise alone, or ``kept_sums`` of a
        sample: what it asks noise for on all records is the sum of what it asks for on those of each
        party, its model follows from the answers alone, and ``Meter.coins`` are public to all of them.
        Noise is ``Meter.inflation`` times as large.
    ``iterates(schema: Schema) -> Iterates``
        What is public about the iterates of a fit to all features, if a scorer and a selector may screen
        them. Its events and the selector's are drawn from one meter, in the order that ``Iterates.after``
        says. Raises ``Unsuitable`` where it cannot serve the schema.
    ``forecast(plan: StagePlan, request: Request) -> Sequence[Forecast]``
        What is expected of a run of ``plan``, which is what ``plan(request)`` returned. A selector's is given
        its ``SelectionRequest``.
    """

    api: ClassVar[int]

    def plan(self, request: Request, /) -> StagePlan:
        """Return the events of the fit, calibrated to the request's budget.

        Called several times before a run, with budgets of other sizes, so that stages can be enlarged
        together.

        Parameters
        ----------
        request
            Public facts, the number of columns, and what the events may cost.

        Returns
        -------
        StagePlan
            With a sentence for each code with which ``fit`` may refuse.

        Raises
        ------
        Unsuitable
            If the request cannot be served, such as for columns without bounds.
        CalibrationFailed
            If no noise is found whose events stay within the budget.
        """
        ...

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Model | Refusal:
        """Return the released model, or a refusal where a private test failed.

        Called once in a run, last.

        Parameters
        ----------
        data
            The selected columns, in the order released; all columns where nothing selects. For a request of
            several batches an iterator of them: the records of a batch have arrived, for
            ``Meter.kept_sums``, when it has given the batch. How many records that are is private, and may be
            0. All batches are to be taken.
        plan
            The last that ``plan`` returned.
        meter
            For the events of the plan, in their order; a refusal may leave events unused.

        Returns
        -------
        Model or Refusal
            A model of some or all of the given columns. What leaves the run is its document, and a model that
            is made of it again. A refusal has one of the plan's codes, and is charged in full.
        """
        ...


@attrs.frozen
class Iterates:
    """What the public knows of the iterates of a fit, before it begins.

    Everything is in the units of the iteration: features are clipped to [-1, 1], and so is a target of
    squared loss; a target of logistic loss is 0 or 1. With u_i = x_i . w + intercept and r_i the derivative
    of the loss of record i at u_i (u_i - y_i, or sigma(u_i) - y_i), the gradient is c_j = sum of x_ij r_i.

    Attributes
    ----------
    loss
        ``squared`` or ``logistic``.
    radius
        The coefficients of an iterate, its intercept among them, have no larger sum of magnitudes.
    clip
        Residuals are clipped to this in the gradient; None where they are not.
    features
        How many coefficients an iterate has, its intercept aside.
    after
        For each time that an iterate is shown, how many single events of the fit precede it.
    neighboring
        The relation.
    records
        Their number, where it is public.
    """

    loss: str
    radius: float
    clip: float | None
    features: int
    after: tuple[int, ...] = attrs.field(converter=frozen_tuple)
    neighboring: Neighboring
    records: int | None = None

    def reach(self, length: float) -> float:
        """Return the largest residual in the gradient of an iterate whose magnitudes add up to ``length``.

        >>> Iterates("squared", 4.0, None, 2, (), Neighboring.ADD_OR_REMOVE_ONE).reach(0.5)
        1.5
        """
        largest = 1.0 if self.loss == "logistic" else length + 1.0
        return largest if self.clip is None else min(largest, self.clip)


@attrs.frozen(eq=False)
class Iterate:
    """One iterate, as a regressor shows it; in the units of ``Iterates``.

    Attributes
    ----------
    facts
        Those of the request; public, like ``step``, ``weights`` and ``length``.
    step
        How many steps were made.
    weights
        The coefficients, shape (d,).
    length
        Sum of the magnitudes of the coefficients, the intercept's among them.
    gradient
        c, shape (d,); private, like all that follow.
    steepest
        The largest magnitude in the gradient, that of the intercept included.
    inner
        The sum of u r; None where residuals are clipped or it is not computed.
    square
        The sum of u^2, likewise.
    squares
        The sum of x_j^2 for each feature, shape (d,), likewise.
    """

    facts: Iterates
    step: int
    weights: Vector
    length: float
    gradient: Vector
    steepest: float
    inner: float | None = None
    square: float | None = None
    squares: Vector | None = None
