r"""The four kinds of parts and what each promises.

A release is assembled from parts::

    Scorer --scores--> TopKSelector --columns--> Regressor --model
        \_________________ | _____________________/
                          Meter    draws the noise and records the event, in one call

and every published method is one combination: DPKendall with the Tukey mechanism is ``kendall`` + ``peel`` +
``tukey``; the two-stage method of Kifer et al. is ``lasso_votes`` + ``peel``; DP-SIS is ``correlation`` +
``canonical_lipschitz``.

Parts are frozen attrs classes whose fields are their options. They inherit from nothing: a class that has
these members is a part. Rules that all parts keep:

1. Planning (``sensitivity``, ``plan``) sees public facts only and raises ``Unsuitable`` with a sentence when
   the part cannot serve; running sees the data.
2. Noise and private randomness come from the meter alone, by the events of the plan, in their order.
3. No exception, shape, number of rounds or draws depends on private values.
4. A part never changes its input and keeps no state between calls.

Class-level facts: ``api`` is the plugin API that the class was written for; ``proof`` says where the argument
for its privacy claim is; ``reference`` names the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import attrs

from dpkit_core.errors import Unsuitable
from dpkit_core.events import Event
from dpkit_core.privacy import Budget, Neighboring, Sensitivity
from dpkit_core.schema import Schema
from dpkit_core.validators import frozen_tuple

if TYPE_CHECKING:
    from dpkit_core.dataset import Dataset, Matrix, Vector
    from dpkit_core.meter import Meter

API = 1
API_FLOOR = 1


@attrs.frozen
class StagePlan:
    """What one part will do: its events in order, and the settings that it will read back when it runs.

    Attributes
    ----------
    events
        Every event that the part will emit, in order. The meter accepts these and no others.
    settings
        A frozen attrs object (or None) with the calibrated numbers; public.
    assumptions
        Sentences that the privacy claim rests on beyond the schema; repeated in the certificate.
    """

    events: tuple[Event, ...] = attrs.field(converter=frozen_tuple)
    settings: Any = None
    assumptions: tuple[str, ...] = attrs.field(default=(), converter=frozen_tuple)


#: Up to so many candidates the rounding of a selection is proved to be covered.
CANDIDATE_LIMIT = 2**24


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

    def __attrs_post_init__(self) -> None:
        picks = sum(self.picks)
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
    """What a scorer with a release of its own is to plan for: ``k`` features are going to be picked."""

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
    """What a regressor is to plan for: ``k`` columns out of the schema's features, not known which."""

    schema: Schema
    k: int
    budget: Budget
    accountant: Accountant

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
    """

    values: Vector
    sensitivity: Sensitivity
    candidates: Any
    round: int = 0


class PreparedScores(Protocol):
    """A scorer that has seen the data and can be asked again after each pick."""

    def scores(self, selected: Sequence[int], /) -> Vector:
        """Return one score per feature, shape (d,), given the indices already selected, in order.

        Entries of selected features are ignored; they must be finite all the same.
        """
        ...


class Scorer(Protocol):
    """How relevant is each feature? A scorer releases nothing, so it adds no noise.

    A scorer that also accepts sparse or streamed data says so by the optional class-level fact
    ``forms = ("dense", "sparse", "streamed")``; without it the composer hands it dense data only.
    """

    api: ClassVar[int]

    @property
    def adaptive(self) -> bool:
        """Whether scores depend on the features already selected."""
        ...

    def sensitivity(self, schema: Schema, round: int, /) -> Sensitivity:
        """Return how far the scores of ``round`` (0 first) move under ``schema.neighboring``.

        Holds for every dataset that fits the schema and every fixed list of selected features.
        """
        ...

    def prepare(self, data: Dataset, /) -> PreparedScores:
        """Return the scores of ``data``, ready to be asked; work shared by all rounds is done here."""
        ...


@runtime_checkable
class ReleasingScorer(Protocol):
    """A scorer that plans before it scores, because it needs a private number or the number of picks.

    An optional capability beside ``Scorer``. What it releases, such as a center of the target, is a stage of
    its own, before the selection. A plan with neither events nor settings asks for nothing: there is no such
    stage then, and ``prepare`` is called.
    """

    def plan(self, request: ScoringRequest, /) -> StagePlan:
        """Return the events of the release, none where the options make it unnecessary, and settings."""
        ...

    def prepare_released(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> PreparedScores:
        """Return what ``prepare`` returns, after the release."""
        ...


class TopKSelector(Protocol):
    """Given scores with a declared sensitivity, release the indices of the best features."""

    api: ClassVar[int]

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return the events of all rounds, calibrated to the request's budget."""
        ...

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the indices of ``k`` distinct candidates.

        Their order is released too: best noisy score first where the mechanism draws an order, by index where
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
        """The relation whose guarantees it computes; events of another relation are not supported."""
        ...

    def supports(self, event: Event, /) -> bool:
        """Return whether ``event``, with everything inside it, can be accounted for."""
        ...

    def compose(self, event: Event, count: int = 1, /) -> Accountant:
        """Return the accountant after ``count`` more times ``event``, adaptively chosen.

        Raises ``UnsupportedEvent`` where ``supports`` is false.
        """
        ...

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``; infinity where there is none."""
        ...

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``; 1 where there is none."""
        ...


class Model(Protocol):
    """A released model. Everything it holds is public."""

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the feature columns that ``predict`` expects, in order."""
        ...

    def predict(self, X: Matrix, /) -> Vector:
        """Return one prediction per row of ``X`` (n x len(features))."""
        ...

    def to_document(self) -> Mapping[str, Any]:
        """Return the model as plain data that ``json`` can write, with a ``kind``."""
        ...


@attrs.frozen
class Refusal:
    """An honest outcome without a model: a private test said no. Charged like any other release."""

    reason: str


class Regressor(Protocol):
    """Fit a model to the selected columns."""

    api: ClassVar[int]

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the events of the fit, calibrated to the request's budget."""
        ...

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Model | Refusal:
        """Return the released model, or a refusal where a private test failed."""
        ...
