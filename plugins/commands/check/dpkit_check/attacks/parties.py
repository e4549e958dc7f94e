"""An attack on parts that say that several parties can run them together."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from dpkit_check.attacks.answers import require_one_release
from dpkit_check.cases.parts import chooses, class_of, each_variant, kind_of
from dpkit_check.cases.plans import ADD_REMOVE
from dpkit_check.cases.regressors import RegressorCase, regressions
from dpkit_check.cases.scorers import scorings
from dpkit_check.instrument import Asked, Transcript
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.schema import Schema
from dpkit_core.privacy.events import Event, Gaussian, NonSphericalGaussian, PoissonSampled, expand
from dpkit_core.protocols import Scorer

GAUSSIANS = (Gaussian, NonSphericalGaussian)

#: A sum of whole numbers becomes a float64 once in each piece and once in the whole: far less, in units of
#: the sensitivity, than the 2^-15 by which each is rounded to the grid.
ROUNDING = 2.0**-20

#: More groups than a round of any plan of the kit has, so that sums of all pieces have one shape.
GROUPS = 2**10

#: Of a table that is scored.
RECORDS = 40


@attack("numerical", kinds=("regressor", "scorer"))
def check_values_add_up_over_parties(make: Factory[Any], trial: Trial) -> Evidence:
    """What an additive part asks noise for on a table is the sum of what it asks for on three pieces of it.

    Of a scorer, which asks for none: its scores, with the options by which they are additive.

    Only of parts that declare ``additive``, with the first options by which they plan nothing but Gaussian
    noise under add-remove; of a round on a sample, the rows of all records are added up. The pieces, one of
    which is a single record, get the answers of the whole table, as parties get those of all, and must end
    with its model: else a model tells what one party alone knows.

    If this fails: ask for noise on sums over records, before any of ``max``, ``clip``, ``sqrt`` or division;
    what is done to a sum comes after its noise. Never use ``data.records`` or another number that one party
    has: ask for their sum. Or leave ``additive`` out.
    """
    if not getattr(class_of(make), "additive", False):
        raise NotApplicable("the part does not declare that it is additive")
    if kind_of(make) == "scorer":
        return _scores_add_up(make, trial)
    compared = 0
    # Words first, as they choose methods: to plan by all others takes longer than to compare.
    for one in sorted(each_variant(make), key=lambda one: one is not make and not chooses(one, make)):
        for case in regressions(one, every_schema=True):
            if case.request.neighboring is not ADD_REMOVE:
                break  # none after it is; each plan takes as long as a fit
            if all(map(_is_sum, expand(case.plan.events))):
                compared += _added_up(case, trial)
        if compared:
            break
    else:
        if not isinstance(make, type | functools.partial):
            raise NotApplicable("it plans other noise, and is made by a function that takes no options")
        raise CheckFailed(
            "the part declares additive, and under add-remove it plans other than Gaussian noise whatever "
            "its options, so no parties can run it together"
        )
    return Evidence(f"{compared} values of three pieces add up", compared)


def _is_sum(event: Event) -> bool:
    noise = event.event if isinstance(event, PoissonSampled) else event
    return type(noise) in GAUSSIANS


def _scores_add_up(make: Factory[Scorer], trial: Trial) -> Evidence:
    declared = [one for one in each_variant(make) if getattr(one(), "additive", False)]
    if not declared:
        raise NotApplicable("with the options that are tried, the part does not declare that it is additive")
    compared = 0
    for one in declared:
        for case in scorings(one, ADD_REMOVE):
            whole = case.table(RECORDS, trial.seed)
            values = [case.scoring(table)(()) for table in (whole, *_pieces(whole, case.schema))]
            off = np.abs(np.sum(values[1:], axis=0) - values[0]).max()
            if not off <= ROUNDING * np.abs(values).max():
                raise CheckFailed(
                    f"the scores of three pieces of a table add up to others than those of the whole, by "
                    f"{off:.3g} ({case.name})"
                )
            compared += len(values[0])
    if not compared:
        raise CheckFailed("the part declares additive, and accepts no schema of the kit under add-remove")
    return Evidence(f"{compared} scores of three pieces add up", compared)


def _pieces(whole: Dataset, schema: Schema) -> list[Dataset]:
    """Return three pieces of a table, one of which is a single record."""
    middle = 1 + whole.records // 3
    return [
        Dataset.from_arrays(whole.X[places], whole.y[places], schema)
        for places in (slice(0, 1), slice(1, middle), slice(middle, None))
    ]


def _added_up(case: RegressorCase, trial: Trial) -> int:
    """Return how many values of pieces were compared with those of the whole."""
    whole = case.spread(trial.seed)
    asked = Transcript(seed=trial.seed)
    released = case.released(whole, asked)
    parts: list[Transcript] = []
    for piece in _pieces(whole, case.schema):
        parts.append(asked.follower())
        require_one_release(case, (whole, piece), released, case.released(piece, parts[-1]))
    everywhere = (_values(transcript) for transcript in (asked, *parts))
    for number, values in enumerate(zip(*everywhere, strict=True)):
        _require_sum(case, number, values)
    return len(asked.asked)


def _values(transcript: Transcript) -> list[Asked | None]:
    """Return what each draw was asked for; of rounds of sums over groups, what their rows add up to."""
    rounds = iter(transcript.summed_up)
    found = [_round(*next(rounds, (None, None))) if asked is None else asked for asked in transcript.asked]
    return [None] * len(found) if transcript.opaque else found


def _round(columns: list[npt.NDArray[Any]] | None, groups: npt.NDArray[Any] | None) -> Asked | None:
    if columns is None or groups is None:
        return None
    count = max(int(groups.max(initial=0)) + 1, GROUPS)
    rows = [np.broadcast_to(column, groups.shape).astype(float) for column in columns]
    sums = [np.bincount(groups, weights=row, minlength=count) for row in rows]
    return Asked(np.array(sums, dtype=np.float64), "l2", 1.0)


def _require_sum(case: RegressorCase, number: int, values: tuple[Asked | None, ...]) -> None:
    seen = [value for value in values if value is not None]
    if len(seen) < len(values):
        raise NotApplicable("the part draws by itself, so what it asks noise for is not seen")
    whole, total = seen[0], np.sum([part.values for part in seen[1:]], axis=0)
    largest = np.abs([part.values for part in seen]).max(initial=0.0)
    off = np.abs(total - whole.values).max(initial=0.0)
    if not off <= ROUNDING * (whole.sensitivity + largest):
        raise CheckFailed(
            f"draw {number + 1}: what the part asks noise for on three pieces of a table adds up to "
            f"something else than on the whole, by {off:.3g} where a record moves it by "
            f"{whole.sensitivity:.3g} at most ({case.name})"
        )
