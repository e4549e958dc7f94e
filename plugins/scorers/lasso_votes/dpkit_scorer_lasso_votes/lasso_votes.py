"""Votes of many small Lasso fits: how many have a feature among their largest coefficients."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core import (
    Dataset,
    Matrix,
    Meter,
    Neighboring,
    Request,
    Schema,
    Scorer,
    Sensitivity,
    StagePlan,
    Vector,
    calibrate_events,
    fixed_scores,
)
from dpkit_core.privacy.events import Laplace
from dpkit_core.validators import positive, whole_number
from dpkit_scorer_lasso_votes.groups import deal, draw

# Values are clipped to this magnitude, so that no product of two values overflows.
_LARGEST = 1e100


@attrs.frozen
class LassoVotesSettings:
    """The public settings of one plan.

    Attributes
    ----------
    models
        The number of groups; None if it follows from the number of records.
    group_size
        The mean number of records in a group; None for the square root of the number of records.
    votes
        How many features each group may vote for.
    count
        The event that releases the number of records; None if that number is public or not needed.
    drawn
        Whether groups are drawn at random by row, or by content otherwise.
    """

    models: int | None
    group_size: float | None
    votes: int
    count: Laplace | None
    drawn: bool

    def groups(self, records: float) -> int:
        """Return the number of groups for a number of records, at least 1."""
        if self.models is not None:
            return self.models
        whole = max(0, math.floor(records))
        return max(1, math.isqrt(whole) if self.group_size is None else math.floor(whole / self.group_size))


@attrs.frozen
class LassoVotesScorer:
    r"""Scores a feature by the number of groups whose Lasso fit has it among its largest coefficients.

    The first stage of the two-stage method of Kifer, Smith and Thakurta, called SubLasso by the authors of
    DPKendall. Records are partitioned into groups, a Lasso is fitted to each, and the features with the
    largest coefficients get one vote each; a feature whose coefficient is 0 gets none, a case that the papers
    leave open.

    Parameters
    ----------
    models
        Number of groups; public. By default the square root of the number of records, as in Kifer et al.,
        which under add/remove is released with noise first.
    records_per_vote
        In place of ``models``: the mean group size divided by ``votes``. 1 in DPKendall, whose groups have
        about as many records as there are features to pick.
    alpha
        Penalty: a fit minimizes ``|y - X b|^2 / (2 records) + alpha |b|_1``. 0.1 as in DP-SIS, for columns of
        magnitude 1; the authors of DPKendall use 1.
    votes
        Votes of each group; by default the number of features to pick.
    salt
        Selects the partition by content, under add/remove.

    Notes
    -----
    *Intercept.* A column of ones is fitted and penalized like a feature but gets no vote
    (DPKendall, section 4.2), so none of the budget is spent on it.

    *Sensitivity, add/remove.* A record that joins changes one group (``dpkit_scorer_lasso_votes.groups``), so
    one fit, however it may change, and one set of votes. Each count changes by at most 1. A vote that passes
    from one feature to another changes the difference of their counts by 2. The proof assumes nothing about
    the Lasso, neither convergence nor uniqueness.

    *Replace-one.* The number of records is public, and each record keeps its row. Rows are partitioned into
    groups of equal size at random, independently of the records. So for every partition the replaced record
    changes the one group of its row, and again one fit and one set of votes: 1, with range 2. As this holds
    for every partition, the partition may be public if rows say nothing about values. In a table that is
    sorted by a column, a record with other values shifts all records between its old and its new row, and
    with them all groups of a known partition. Then the partition must be secret: all partitions are equally
    likely, so couple each one with the partition that gives every common record the same group. All groups
    but one then hold the same records in the same order, and the votes follow as before. The partition is
    secret unless the run is seeded, since nothing drawn from these coins is released. Groups by content would
    give 2, with range 4: a record leaves one group and another joins another.

    The published partition, into groups of equal size, is not private under add/remove, where Lemma 4.1 of
    DPKendall is false: one record can move the boundaries of all groups and change every fit.

    *Number of groups.* A function of ``n + Laplace``; n has sensitivity 1.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = (
        "dpkit_scorer_lasso_votes.lasso_votes.LassoVotesScorer, dpkit_scorer_lasso_votes.groups"
    )
    reference: ClassVar[str] = (
        "Kifer, Smith and Thakurta 2012, Private Convex Empirical Risk Minimization and High-dimensional "
        "Regression; Dick, Gillenwater and Joseph 2023, Algorithm 2 (SubLasso)"
    )

    models: int | None = attrs.field(
        default=None,
        # The numbers of groups are 64-bit integers.
        validator=attrs.validators.optional(whole_number(1, 2**63 - 1)),
    )
    records_per_vote: float | None = attrs.field(default=None, validator=attrs.validators.optional(positive))
    alpha: float = attrs.field(default=0.1, converter=float, validator=positive)
    votes: int | None = attrs.field(default=None, validator=attrs.validators.optional(whole_number(1)))
    salt: int = attrs.field(default=0, validator=whole_number(0, 2**64 - 1))

    def __attrs_post_init__(self) -> None:
        if self.models is not None and self.records_per_vote is not None:
            raise ValueError("models and records_per_vote both set the number of groups; give one of them")

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under both relations, in every round: one group changes."""
        return Sensitivity.general(1.0, schema.neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        """Return one event ``Laplace`` if the number of records is private and needed, and the settings.

        Raises
        ------
        Unsuitable
            If the accountant does not support the event.
        """
        count = None

        def count_events(epsilon: float) -> list[Laplace]:
            return [Laplace(1 / epsilon, request.neighboring, sensitivity=1.0, shape=())]

        drawn = request.neighboring is Neighboring.REPLACE_ONE
        if self.models is None and not drawn:
            (count,) = count_events(calibrate_events(count_events, request))
        votes = self.votes or request.k
        group_size = None if self.records_per_vote is None else votes * self.records_per_vote
        settings = LassoVotesSettings(self.models, group_size, votes, count, drawn)
        return StagePlan(() if count is None else (count,), settings)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores of ``data``, after releasing the number of records if that is planned.

        Under replace-one, the partition is drawn from ``meter.coins``.
        """
        settings = plan.settings_as(LassoVotesSettings)
        records = float(len(data.y))
        if settings.count is not None:
            multiplier = settings.count.noise_multiplier
            records = float(meter.laplace(records, sensitivity=1.0, noise_multiplier=multiplier))
        groups = settings.groups(records)
        # The hash and the solver see columns in the order of their names, whatever their order in the table.
        columns = np.argsort(np.array(data.names, dtype=object))
        if settings.drawn:
            dealt = draw(data.X, data.y, columns, groups, meter.coins)
        else:
            dealt = deal(data.X, data.y, columns, groups, self.salt)
        counts = np.zeros(len(columns))
        for group in dealt:
            elected = elect(data.X[np.ix_(group, columns)], data.y[group], self.alpha, settings.votes)
            counts[columns[elected]] += 1
        return fixed_scores(counts)


def elect(X: Matrix, y: Vector, alpha: float, votes: int) -> npt.NDArray[np.int64]:
    """Return the features that one group votes for: the largest nonzero coefficients."""
    magnitudes = np.abs(lasso(X, y, alpha)[:-1])
    best: npt.NDArray[np.int64] = np.argsort(-magnitudes, kind="stable")[:votes]
    return best[magnitudes[best] > 0]


def lasso(X: Matrix, y: Vector, alpha: float) -> Vector:
    """Return the coefficients of a Lasso fit, that of a constant column last."""
    # Imported late, because it takes a second.
    from sklearn import config_context  # noqa: PLC0415
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415
    from sklearn.linear_model import lasso_path  # noqa: PLC0415

    records, features = X.shape
    with_ones = np.ones((records, features + 1), order="F")
    np.clip(X, -_LARGEST, _LARGEST, out=with_ones[:, :-1])
    target = np.clip(y, -_LARGEST, _LARGEST)
    products: dict[str, Any] = {"precompute": False}
    if records > features:
        products = {"precompute": with_ones.T @ with_ones, "Xy": with_ones.T @ target}
    # Never used, but without it NumPy's global generator is read; seeding with 0 takes as long as the fit.
    unused = np.random.RandomState(np.random.SFC64(0))
    # Validating the arguments takes ten times as long as a small fit.
    with warnings.catch_warnings(), config_context(assume_finite=True, skip_parameter_validation=True):
        # A warning would disclose something about the records of one group.
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, path, _ = lasso_path(
            with_ones, target, alphas=[alpha], check_input=False, random_state=unused, **products
        )
    return np.nan_to_num(path[:, 0], posinf=0.0, neginf=0.0)


_: type[Scorer] = LassoVotesScorer
