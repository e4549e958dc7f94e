r"""The four kinds of parts and what each promises.

A release is assembled from parts::

    Scorer --scores--> TopKSelector --columns--> Regressor --model
        \_________________ | _____________________/
                          Meter    draws the noise and records the event, in one call

and every published method is one combination: DPKendall with the Tukey mechanism is ``kendall`` + ``peel`` +
``tukey``; the two-stage method of Kifer et al. is ``lasso_votes`` + ``peel``; DP-SIS is ``correlation`` +
``canonical_lipschitz``.

Parts are frozen attrs classes, or dataclasses, whose fields are their options. They inherit from nothing: a
class that has these members is a part. Rules that all parts keep:

1. Planning (``sensitivity``, ``plan``) sees public facts only and raises ``Unsuitable`` with a sentence when
   the part cannot serve; running sees the data. Every sentence that can appear in a release or certificate
   is in the plan.
2. Noise and private randomness come from the meter alone, by the events of the plan, in their order; or they
   are recorded as somebody else's by ``Meter.foreign``.
3. No exception, shape, number of rounds or draws depends on private values. From the moment a part has been
   given data, an error is a failed run, charged, without its text.
4. A part never changes its input and keeps no state between calls.

Class-level facts: ``api`` is the plugin API that the class was written for; ``proof`` says where the argument
for its privacy claim is; ``reference`` names the paper. Optional: ``most_records``, the largest number of
records for which the proof holds as computed. Larger tables are refused before any part is given data, and
the certificate names the assumption.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

import attrs

from dpkit_core.data.schema import Schema
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.privacy.events import (
    CANDIDATE_LIMIT,
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
)
from dpkit_core.validators import exact_text, frozen_mapping, frozen_texts, frozen_tuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dpkit_core.arrays import Matrix, Vector
    from dpkit_core.data.dataset import Dataset

S = TypeVar("S")

API = 2
API_FLOOR = 2


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
                "a part can only run a plan of its own"
            )
        return self.settings


def _finite(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not 0 <= value < math.inf:
        raise ValueError(f"{attribute.name} is {value}; it must be a finite number of at least 0")


@attrs.frozen
class Forecast:
    """What a part expects of a run, from public facts alone, for whoever decides about the budget.

    Attributes
    ----------
    sentence
        Without a full stop, such as "the private test passes with probability .95 from 2 000 records on".
    records
        From about how many records on the budget is well spent; None where that cannot be said. A plan warns
        if the schema's ``records`` or ``records_about`` is below.
    remedy
        What would help with fewer.
    """

    sentence: str = attrs.field(converter=exact_text)
    records: float | None = attrs.field(default=None, validator=attrs.validators.optional(_finite))
    remedy: str = attrs.field(default="", converter=exact_text)


@runtime_checkable
class Forecaster(Protocol):
    """A selector, scorer that releases something, or regressor that foretells what its plan is good for."""

    def forecast(self, plan: StagePlan, schema: Schema, k: int, /) -> Sequence[Forecast]:
        """Return what is expected of a run of ``plan``.

        Parameters
        ----------
        plan
            What this part planned.
        schema
            The public facts.
        k
            How many features are selected, or given to the regressor.
        """
        ...


@attrs.frozen
class SelectionRequest:
    """What a selector is to plan for.

    Attributes
    ----------
    features
        Number of candidates d, at most 2^24.
    picks
        How many to select in each round: ``(k,)`` for fixed scores, ``(1,) * k`` when scores depend on what
        was already picked.
    sensitivities
        The sensitivity of the scores of each round.
    budget
        What the events may cost under ``accountant``.
    accountant
        An accountant that has seen nothing yet.
    returning
        Whether what was picked may be picked again, as while a regressor iterates.

    Raises
    ------
    Unsuitable
        If more features are to be picked than there are, or there are more than 2^24.
    """

    features: int
    picks: tuple[int, ...]
    sensitivities: tuple[Sensitivity, ...]
    budget: Budget
    accountant: Accountant
    returning: bool = False

    def __attrs_post_init__(self) -> None:
        picks = max(self.picks) if self.returning else sum(self.picks)
        if picks > self.features:
            raise Unsuitable(
                f"{picks} picks from {self.features} features; each feature can be picked once, so ask for "
                "fewer"
            )
        if self.features > CANDIDATE_LIMIT:
            raise Unsuitable(
                f"{self.features} features are more than the 2^24 that selections are proved for; drop some"
            )

    @property
    def neighboring(self) -> Neighboring:
        """The relation to be protected."""
        return self.accountant.neighboring


@attrs.frozen
class ScoringRequest:
    """What a scorer with a release of its own is to plan for.

    Attributes
    ----------
    schema
        Public facts about the whole table.
    k
        How many features are going to be picked.
    budget
        What the events may cost under ``accountant``.
    accountant
        An accountant that has seen nothing yet.
    """

    schema: Schema
    k: int
    budget: Budget
    accountant: Accountant

    @property
    def neighboring(self) -> Neighboring:
        """The relation to be protected."""
        return self.accountant.neighboring


@attrs.frozen
class RegressionRequest:
    """What a regressor is to plan for.

    Attributes
    ----------
    schema
        Public facts about the whole table.
    k
        How many columns the data will have, out of the schema's features; not known which, unless all.
    budget
        What the events may cost under ``accountant``.
    accountant
        An accountant that has seen nothing yet.
    batches
        How many batches the records will come in; above 1 for a ``StreamRegressor`` only.
    """

    schema: Schema
    k: int
    budget: Budget
    accountant: Accountant
    batches: int = 1

    @property
    def neighboring(self) -> Neighboring:
        """The relation to be protected."""
        return self.accountant.neighboring


@attrs.frozen(eq=False)
class Scores:
    """The scores of one round, larger is more relevant, as the selector sees them.

    Attributes
    ----------
    values
        One finite score per feature, shape (d,).
    sensitivity
        How far they can move between neighboring datasets.
    candidates
        True for the features that may still be picked, shape (d,); public.
    round
        0 for the first round.
    read
        What makes the scores of the d candidates of noisy ``values``, given these and the deviation of their
        noise; None where ``values`` are the scores. Only selectors that say ``reads`` are given one.
    """

    values: Vector
    sensitivity: Sensitivity
    candidates: npt.NDArray[np.bool_]
    round: int = 0
    read: Callable[[Vector, float], Vector] | None = None


class Custom(Protocol):
    """Exact noise for one custom mechanism; see ``dpkit_core.noise.sampler.Sampler`` for each law.

    What is drawn is recorded, method by method. After the ``with`` block there is nothing more to draw.
    """

    def bernoulli_exp(self, numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return coins that are true with probability exp(-numerator / denominator), exactly."""
        ...

    def discrete_laplace(
        self, scale: int | Fraction, size: int | tuple[int, ...] = ()
    ) -> npt.NDArray[np.int64]:
        """Return integers with probability proportional to exp(-|x| / scale)."""
        ...

    def discrete_gaussian(
        self, sigma: int | Fraction, size: int | tuple[int, ...] = ()
    ) -> npt.NDArray[np.int64]:
        """Return integers with probability proportional to exp(-x^2 / (2 sigma^2))."""
        ...

    def laplace_on_grid(
        self, value: npt.ArrayLike, *, sensitivity: float, noise_multiplier: float
    ) -> npt.NDArray[np.float64]:
        """Return ``value`` with Laplace noise on a public grid."""
        ...

    def gaussian_on_grid(
        self, value: npt.ArrayLike, *, sensitivity: float, noise_multiplier: float
    ) -> npt.NDArray[np.float64]:
        """Return ``value`` with Gaussian noise on a public grid."""
        ...

    def exponential(self, size: int | tuple[int, ...] = ()) -> npt.NDArray[np.float64]:
        """Return standard exponential variables with complete tails."""
        ...

    def gumbel(self, size: int | tuple[int, ...] = ()) -> npt.NDArray[np.float64]:
        """Return standard Gumbel variables with complete tails."""
        ...

    def integers(
        self, bound: npt.ArrayLike, size: int | tuple[int, ...] | None = None
    ) -> npt.NDArray[np.int64]:
        """Return integers from 0 to below ``bound``, uniform."""
        ...

    def permutation(self, items: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the items, or the integers below a number, in random order."""
        ...

    def subset(self, items: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
        """Return ``size`` of the items, every subset alike."""
        ...

    def bits(self, count: int) -> int:
        """Return an integer of so many random bits."""
        ...


class Meter(Protocol):
    """The only source of noise inside a run: it draws the noise and records the event in one call.

    What is recorded is compared with the part's plan at once, exactly: mechanism, multiplier, sensitivity and
    shape. An event that was not planned, or planned for later, voids the run before anything is returned. It
    works for one stage, in one process, and not after the part has returned.
    """

    @property
    def coins(self) -> np.random.Generator:
        """Randomness for choices that do not depend on the data, such as the splits of random trees.

        Costs nothing, because it protects nothing: treat what is drawn here as known to everybody. Assigning
        records to groups by their position in the table is not such a choice under add/remove, where taking
        out one record moves all others: draw that from a custom mechanism's sampler. Under replace-one it is
        such a choice for tables whose order says nothing of their values; where tables may be sorted, let
        nothing that tells of these coins be released.
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

    def sums(
        self,
        contributions: Sequence[npt.ArrayLike],
        groups: npt.NDArray[np.integer],
        *,
        limits: Sequence[int],
        event: Gaussian | NonSphericalGaussian | PoissonSampled,
    ) -> npt.NDArray[np.float64]:
        """Return noisy sums of what the records contribute to their groups, shape (coordinates, groups).

        The planned event is that of ``dpkit_core.mechanisms.sums.sums_event``, possibly inside ``Filtered``.
        Who takes part is up to the meter: where the event is sampled, a record does with the event's rate, by
        secret coins; where it is filtered, a record does while its account allows it; and one that
        contributes more than a limit never does. None of that can be seen.

        Parameters
        ----------
        contributions
            For each coordinate, whole numbers of shape (n,), or one number where all contribute the same. A
            record is charged for what it contributes here.
        groups
            Group of each record, shape (n,), from 0 to below the event's last length. Row i is the same
            record at every call, in the order of arrival, and all that have arrived are there.
        limits
            Largest magnitude of a contribution in each coordinate.
        event
            The planned one.
        """
        ...

    def custom(self, event: Event, *, proof: str, arithmetic: str) -> AbstractContextManager[Custom]:
        """Record ``event``, and give a sampler for a mechanism with noise of its own, inside one ``with``.

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

    def foreign(self, event: Event, *, whose: str, proof: str) -> AbstractContextManager[None]:
        """Record ``event`` for noise that somebody else draws inside the ``with``, such as another library.

        The certificate then says whose noise it is, and claims neither our randomness nor our arithmetic for
        it. Without a proof the event is ``NonPrivate``.

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


class PreparedScores(Protocol):
    """A scorer that has seen the data and can be asked again after each pick."""

    def scores(self, selected: Sequence[int], /) -> Vector:
        """Return the scores of one round.

        Parameters
        ----------
        selected
            Indices of the features picked before, in order; released, so public.

        Returns
        -------
        Vector
            One finite score per feature, shape (d,), larger is more relevant. Entries of selected features
            are ignored; they must be finite all the same.
        """
        ...


class Scorer(Protocol):
    """How relevant is each feature? A scorer releases nothing, so it adds no noise.

    A scorer that also accepts sparse or streamed data says so by the optional class-level fact
    ``forms = ("dense", "sparse", "streamed")``; without it the composer hands it dense data only. One that
    asks for sums (``dpkit_core.data.sums``) accepts them all.
    """

    api: ClassVar[int]

    @property
    def adaptive(self) -> bool:
        """Whether scores depend on the features already selected.

        Read while planning: an adaptive scorer is asked once for each pick, any other once for all picks.
        """
        ...

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return how far the scores of one round move between neighboring datasets.

        Called while planning, once for each round, and never after the data has been given: the number is
        compared with the events of the selector.

        Parameters
        ----------
        schema
            Public facts, ``schema.neighboring`` among them.
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

    def prepare(self, data: Dataset, /) -> PreparedScores:
        """Return the scores of ``data``, ready to be asked.

        Called once in a run, before the first round; work that all rounds share is done here.

        Parameters
        ----------
        data
            All features, in one of the forms that the class names in ``forms``; checked against the schema.

        Returns
        -------
        PreparedScores
            Asked for scores once in each round. It stays inside the run.
        """
        ...


@runtime_checkable
class ReleasingScorer(Protocol):
    """A scorer that plans before it scores, because it needs a private number or the number of picks.

    An optional capability beside ``Scorer``. What it releases, such as a center of the target, is a stage of
    its own, before the selection. A plan with neither events nor settings asks for nothing: there is no such
    stage then, and ``prepare`` is called.
    """

    def plan(self, request: ScoringRequest, /) -> StagePlan:
        """Return the events of the scorer's own release, and what it will read back.

        Called several times before a run, with budgets of other sizes, so that stages can be enlarged
        together.

        Parameters
        ----------
        request
            Public facts, the number of picks to come, and what the events may cost.

        Returns
        -------
        StagePlan
            Without events where the options make a release unnecessary; settings are kept all the same.

        Raises
        ------
        Unsuitable
            If the request cannot be served.
        """
        ...

    def prepare_released(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> PreparedScores:
        """Return what ``prepare`` returns, after the release.

        Called once in a run, instead of ``prepare``.

        Parameters
        ----------
        data
            As for ``prepare``.
        plan
            The last that ``plan`` returned.
        meter
            For the events of the plan, in their order.
        """
        ...


class TopKSelector(Protocol):
    """Given scores with a declared sensitivity, release the indices of the best features."""

    api: ClassVar[int]

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return the events of all rounds, calibrated to the request's budget.

        Called several times before a run, with budgets of other sizes, so that stages can be enlarged
        together.

        Parameters
        ----------
        request
            How many candidates and picks there are, how sensitive the scores of each round are, and what the
            events may cost.

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

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the indices of ``k`` distinct candidates.

        Called once in each round.

        Parameters
        ----------
        scores
            Private values, and the public facts about them.
        k
            How many to pick in this round.
        plan
            The last that ``plan`` returned, for all rounds; ``scores.round`` says which this is.
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
    """

    api: ClassVar[int]

    @property
    def neighboring(self) -> Neighboring:
        """The relation whose guarantees it computes; events of another relation are not supported.

        An accountant is made with ``neighboring=`` of the schema, beside its options.
        """
        ...

    def supports(self, event: Event, /) -> bool:
        """Return whether ``event``, with everything inside it, can be accounted for.

        Called while planning, for every event; an accountant says False to what it does not know, also to
        events of later versions, and never guesses.
        """
        ...

    def compose(self, event: Event, count: int = 1, /) -> Accountant:
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


class RecordAccounts(Protocol):
    """The accounts of all records in one stage. Nothing of them is ever released, not even their number."""

    def join(self, records: int, /) -> None:
        """Open an account for each of so many more records, of which nothing is spent."""
        ...

    def admit(self, costs: npt.NDArray[np.int64], /) -> npt.NDArray[np.bool_]:
        """Return which records take part in a round of these costs, and charge those.

        Costs are in ticks of the largest precision that the event allows (``dpkit_core.privacy.accounts``),
        one for each record in the order of arrival.
        """
        ...


@runtime_checkable
class RecordAccountant(Protocol):
    """An accountant that keeps an account for each record, and so supports ``Filtered``.

    An optional capability beside ``Accountant``: a regressor plans ``Filtered`` where the accountant of its
    request has it. The meter keeps the accounts, and asks them who takes part in each round.
    """

    def open(self, event: Filtered, records: int, /) -> RecordAccounts:
        """Return accounts for so many records, of which nothing is spent, for the rounds of ``event``."""
        ...


class Model(Protocol):
    """A released model. What leaves a run is its document, and a model made of that again.

    A kind of models is read by a class with ``from_document``, which a distribution offers by an entry point
    in the group ``dpkit.models`` whose name is the kind. Without one, the class of the model is asked for its
    ``from_document``; without that, the release holds the document and cannot predict.

    A model that has a prediction for missing values, NaN, says so by the optional class-level fact
    ``takes_missing = True``. A model of a target of several classes has their names, ``classes``, and
    predicts their probabilities. One that is more than a line may have ``in_words() -> Shown``, what a person
    reads of it (``dpkit_core.release.words``).
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
        minus zero zero, before anybody sees it: a reader that needs a whole number converts it.
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

    A regressor that asks for sums alone (``dpkit_core.data.sums``) says ``forms = ("dense", "sparse",
    "streamed")``, an optional class-level fact; without it, the selected columns are held in memory for it.

    A regressor that looks at no features says so by the optional class-level fact ``uses_features = False``;
    a plan that pays for a selection before it then warns.

    A regressor that learns targets of several classes says ``takes_classes = True``, and looks at
    ``schema.outcome.classes``: the target is then the place of a class in that list, from 1, and 0 for a
    value that is none. Of other regressors no such plan is asked. The same fact is for scorers.
    """

    api: ClassVar[int]

    def plan(self, request: RegressionRequest, /) -> StagePlan:
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
            The selected columns, in the order released; all columns where nothing selects.
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


@runtime_checkable
class StreamRegressor(Protocol):
    """A regressor that can be given its records batch by batch, each batch once, as they arrive.

    An optional capability beside ``Regressor``. How many batches there are is public and in the request; how
    many records each has is not, and may be 0.
    """

    def fit_batches(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> Model | Refusal:
        """Return the released model, or a refusal where a private test failed.

        The records of a batch have arrived, for ``Meter.sums``, when the iterator has given it. All batches
        are to be taken.
        """
        ...


@attrs.frozen
class IterateFacts:
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
        For each time that an iterate is handed over, how many single events of the fit precede it.
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

        >>> IterateFacts("squared", 4.0, None, 2, (), Neighboring.ADD_OR_REMOVE_ONE).reach(0.5)
        1.5
        """
        largest = 1.0 if self.loss == "logistic" else length + 1.0
        return largest if self.clip is None else min(largest, self.clip)


@attrs.frozen(eq=False)
class IterateState:
    """One iterate, as a regressor hands it over; in the units of ``IterateFacts``.

    Attributes
    ----------
    step
        How many steps were made; public.
    weights
        The coefficients, shape (d,); public.
    length
        Sum of the magnitudes of the coefficients, the intercept's among them; public.
    gradient
        c, shape (d,); private.
    steepest
        The largest magnitude in the gradient, that of the intercept included; private.
    inner
        The sum of u r; private, and None where residuals are clipped or it is not computed.
    square
        The sum of u^2, likewise.
    squares
        The sum of x_j^2 for each feature, shape (d,), likewise.
    """

    step: int
    weights: Vector
    length: float
    gradient: Vector
    steepest: float
    inner: float | None = None
    square: float | None = None
    squares: Vector | None = None


class Screen(Protocol):
    """What shows an iterate to the scorer and the selector of a loop."""

    def __call__(self, state: IterateState, /) -> tuple[int, ...]:
        """Return the features that are to be dropped from an iterate: a release."""
        ...


@runtime_checkable
class IterateScorer(Protocol):
    """How well can each feature be dropped from an iterate? It adds no noise.

    A scorer of ``dpkit.scorers`` keeps this protocol or ``Scorer``, or both. Its scores are shown to the
    selector inside the loop of an ``IterativeRegressor``; what is selected is dropped from the iterate.
    Beside the features there is a candidate *none*, the last, with index d and score 0, unless a scorer says
    ``none = False``, an optional class-level fact, field or property: then it is there only where no feature
    has a coefficient. Features without a coefficient are no candidates; which ones have is public.

    Scores whose sensitivity is known to be false, of a published method, say so by ``not_private``, sentences
    that the certificate repeats; another optional fact.
    """

    def iterate_sensitivity(self, facts: IterateFacts, /) -> Sensitivity:
        """Return how far the scores of any one iterate move between neighboring datasets, *none* included.

        One number for all iterates of a fit, because it is planned: scores may be in units of a public number
        that differs between iterates, such as ``facts.reach(state.length)``.

        Raises
        ------
        Unsuitable
            If nothing is proved for such iterates.
        """
        ...

    def iterate_scores(self, state: IterateState, facts: IterateFacts, /) -> Vector:
        """Return one finite score per feature, shape (d,): larger is better dropped."""
        ...


@runtime_checkable
class ComponentScorer(Protocol):
    """A scorer of iterates whose scores are read off noisy numbers, of which there may be any number.

    An optional capability beside ``IterateScorer``, for rules that combine several sums: noise for each of
    the sums may be far less than noise for what is made of them. Where ``components`` is not 0,
    ``iterate_scores`` returns so many numbers, whose sensitivity ``iterate_sensitivity`` declares. A
    ``ThresholdSelector`` that says ``reads = True``, a class-level fact, releases them with noise and then
    asks for the scores. Those are read off a release and what is public of the iterate, and cost nothing.
    """

    def components(self, facts: IterateFacts, /) -> int:
        """Return how many numbers are handed over for each iterate; 0 where it is scores."""
        ...

    def read_components(
        self, noisy: Vector, deviation: float, state: IterateState, facts: IterateFacts, /
    ) -> Vector:
        """Return one finite score per feature, shape (d,): above 0 is dropped.

        ``deviation`` is that of the noise on each number; of ``state`` only the public fields are there, and
        the private ones are 0 or None.
        """
        ...


@runtime_checkable
class IterativeRegressor(Protocol):
    """A regressor that shows its iterates to a scorer and a selector, which drop features from them.

    An optional capability beside ``Regressor``. It plans by ``Regressor.plan``, for all features, and its
    events and the selector's are drawn from one meter, in the order that ``IterateFacts.after`` says.
    """

    def iterate_facts(self, schema: Schema, /) -> IterateFacts:
        """Return what is public about the iterates of a fit to all features.

        Raises
        ------
        Unsuitable
            If the regressor cannot serve the schema.
        """
        ...

    def fit_iterates(
        self, data: Dataset, plan: StagePlan, meter: Meter, screen: Screen, /
    ) -> Model | Refusal:
        """Return what ``fit`` returns, after showing iterates to ``screen`` as the facts say.

        The coefficients that ``screen`` returns are to become 0 before the next step; they may come back.
        """
        ...


@runtime_checkable
class ThresholdSelector(Protocol):
    """A selector that releases every candidate above a threshold, however many there are.

    An optional capability beside ``TopKSelector``, used while a regressor iterates. A class-level fact
    ``reads = True`` says that it asks ``Scores.read``, where there is one, for the scores that belong to its
    noisy values: then it serves a ``ComponentScorer``, and the request counts the numbers handed over.
    """

    def plan_above(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event for each round of the request, whose ``picks`` count rounds and nothing else.

        Raises
        ------
        Unsuitable
            If the request cannot be served.
        CalibrationFailed
            If no noise is found whose events stay within the budget.
        """
        ...

    def select_above(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the candidates whose noisy scores are above 0, by index; all, some or none."""
        ...
