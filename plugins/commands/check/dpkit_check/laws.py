"""Exact laws of selections on small worlds, and tests that two samples have one law.

A selector that draws only by ``meter.select`` is a decision tree: its law follows by asking it once for
every sequence of answers that the meter could give, with the probability of each answer in closed form. No
sampling, no false alarm, and a ratio of probabilities to twelve digits. So is one that draws coins, orders
and whole numbers by a sampler of its own.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
import numpy as np
import numpy.typing as npt
import scipy

from dpkit_check.instrument import Answers, QuickSampler
from dpkit_core.arrays import Vector
from dpkit_core.noise.sampler import Sampler
from dpkit_core.privacy.events import Event, ExponentialMechanism
from dpkit_core.protocols import Scores

# The most sequences of answers to enumerate, in a few seconds: two picks of five features have twenty. Their
# number is as public as the plan; selectors with more are sampled.
MOST_SEQUENCES = 4000

# Sequences of a part's own coins that are less likely are left out, as where it draws until one is accepted:
# of so many, all together are.
LEAST = 1e-18

Outcome = TypeVar("Outcome", bound=Hashable)
Law = Mapping[Outcome, float]


def gumbel_law(scores: npt.ArrayLike) -> Vector:
    """Return the law of the arg max of ``scores`` plus standard Gumbel noise: their softmax."""
    q = np.asarray(scores, dtype=np.float64)
    weights = np.exp(q - q.max())
    law: Vector = weights / weights.sum()
    return law


def exponential_law(scores: npt.ArrayLike) -> Vector:
    """Return the law of the arg max of ``scores`` plus standard exponential noise (permute-and-flip).

    With u = exp(-noise of i), i wins with probability ``integral of prod_j max(0, 1 - u exp(q_j - q_i)) du``
    over (0, 1): a polynomial where it is not 0, so Gauss-Legendre quadrature is exact.

    >>> exponential_law([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    q = np.asarray(scores, dtype=np.float64)
    nodes, weights = np.polynomial.legendre.leggauss(len(q) // 2 + 1)
    law = np.empty(len(q))
    for i in range(len(q)):
        others = np.exp(np.delete(q, i) - q[i])
        end = min(1.0, 1.0 / others.max(initial=1.0))
        u = end * (nodes + 1) / 2
        law[i] = end / 2 * weights @ np.prod(1 - np.outer(u, others), axis=1)
    return law


def ordered_law(scores: Vector, k: int, law: Callable[[Vector], Vector]) -> dict[tuple[int, ...], float]:
    """Return the law of ``k`` picks in turn, each by ``law`` among those left; -inf marks no candidate."""
    probabilities: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(k):
        longer = {}
        for picks, probability in probabilities.items():
            left = np.isfinite(scores)
            left[list(picks)] = False
            for winner, share in zip(np.flatnonzero(left).tolist(), law(scores[left]), strict=True):
                longer[*picks, winner] = probability * float(share)
        probabilities = longer
    return probabilities


class NotEnumerable(Exception):
    """A part that draws noise with no finite set of answers, or with too many to ask for them all."""


class _Branch(Exception):
    def __init__(self, law: Law[Any]) -> None:
        self.law = law


class _Scripted(Answers):
    """Answers to selections from a script, which ask for more where the script ends."""

    def __init__(self, script: Sequence[tuple[int, ...]], *, own: bool) -> None:
        super().__init__(0)
        self._script = list(script)
        self._own = own

    def answered(self, law: Callable[[], Law[Any]]) -> Any:
        """Return the next answer of the script, of which ``law`` gives the chances."""
        if self._script:
            return self._script.pop(0)
        raise _Branch(law())

    @property
    def coins(self) -> np.random.Generator:
        """The public coins as they fell, which all know; or refuse."""
        if not self._own:
            raise NotEnumerable
        return self.generator

    def noisy(self, value: Any, draw: Callable[[Any], Any]) -> Any:
        """Refuse: there is no finite set of answers."""
        raise NotEnumerable

    def picked(self, scores: Scores, event: Any, draw: Callable[[Scores], Any]) -> tuple[int, ...]:
        """Return the next answer of the script."""
        k = len(draw(scores))
        return self.answered(lambda: self._law_of_picks(scores, event, k))

    def _law_of_picks(self, scores: Scores, event: Any, k: int) -> Law[tuple[int, ...]]:
        scaled = np.asarray(scores.values, dtype=np.float64) / (
            scores.round.sensitivity.range / event.epsilon
        )
        scaled[~np.asarray(scores.candidates, dtype=bool)] = -np.inf
        law = gumbel_law if isinstance(event, ExponentialMechanism) else exponential_law
        return ordered_law(scaled, k, law)

    def custom(self, event: Event) -> Sampler:
        """Return a sampler of choices among finitely many; or refuse: the law of other draws is not known."""
        if not self._own:
            raise NotEnumerable
        return _Choices(self.generator, self)

    def foreign(self, whose: str) -> None:
        """Refuse: the law of somebody else's draw is not known."""
        raise NotEnumerable


@attrs.frozen
class _Choices(QuickSampler):
    """A sampler that has finitely many answers, which are those of a script."""

    script: _Scripted

    @property
    def generator(self) -> np.random.Generator:
        """Refuse: there is no finite set of answers."""
        raise NotEnumerable

    def bernoulli_exp(self, numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Any:
        """Return how coins fall, each true with probability exp(-numerator / denominator)."""
        top, bottom = np.broadcast_arrays(numerator, denominator)
        heads = np.exp(-(top / bottom))

        def law() -> Law[tuple[bool, ...]]:
            sides = [((True, p), (False, 1 - p)) for p in heads.ravel().tolist()]
            possible = [[(side, p) for side, p in coin if p] for coin in sides]
            return _joint(possible)

        return np.array(self.script.answered(law), dtype=np.bool_).reshape(heads.shape)

    def integers(self, bound: npt.ArrayLike, size: Any = None) -> Any:
        """Return whole numbers below ``bound``, uniform and independent."""
        shape = np.shape(bound) if size is None else (size,) if isinstance(size, int) else tuple(size)
        bounds = np.broadcast_to(bound, shape).ravel().tolist()

        def law() -> Law[tuple[int, ...]]:
            _require_few(math.prod(bounds))
            return _joint([[(i, 1 / b) for i in range(b)] for b in bounds])

        return np.array(self.script.answered(law), dtype=np.int64).reshape(shape)

    def permutation(self, items: Any) -> Any:
        """Return the items in any order, all alike."""
        given = np.arange(items) if isinstance(items, int | np.integer) else np.asarray(items)
        return self.subset(given, len(given))

    def subset(self, items: Any, size: int) -> Any:
        """Return some of the items in any order, all alike."""

        def law() -> Law[tuple[int, ...]]:
            _require_few(ways := math.perm(len(items), size))
            return dict.fromkeys(itertools.permutations(range(len(items)), size), 1 / ways)

        return np.asarray(items)[list(self.script.answered(law))]

    def bits(self, count: int) -> int:
        """Return a whole number of so many bits, uniform."""
        _require_few(count)
        return int(self.integers(2**count))


def _require_few(ways: int) -> None:
    if ways > MOST_SEQUENCES:
        raise NotEnumerable


def _joint(choices: Sequence[Iterable[tuple[Any, float]]]) -> dict[tuple[Any, ...], float]:
    """Return the law of independent choices, each of which has few."""
    law: dict[tuple[Any, ...], float] = {(): 1.0}
    for choice in choices:
        law = {(*before, one): p * q for before, p in law.items() for one, q in choice}
        _require_few(len(law))
    return law


def enumerate_law(run: Callable[[Answers], Outcome], *, own: bool = False) -> dict[Outcome, float]:
    """Return the exact law of ``run``, which is given what its meter answers.

    Parameters
    ----------
    run
        What is asked once for each sequence of answers.
    own
        Whether it may also draw coins, orders and whole numbers by a sampler of its own, whose law given the
        public coins, which fall alike each time, is then returned.

    Raises
    ------
    NotEnumerable
        If it draws other noise, or so often that there are too many answers.
    """
    law: dict[Outcome, float] = {}
    scripts: deque[tuple[tuple[Any, ...], float]] = deque([((), 1.0)])
    asked = 0
    while scripts:
        script, probability = scripts.popleft()  # the shortest first: some mechanisms have no longest
        try:
            outcome = run(_Scripted(script, own=own))
        except _Branch as branch:
            further = [((*script, answer), probability * p) for answer, p in branch.law.items()]
            scripts += [(longer, p) for longer, p in further if p > LEAST or not own]
            asked += len(branch.law)
            _require_few(asked)
        else:
            law[outcome] = law.get(outcome, 0.0) + probability
    return law


def max_log_ratio(first: Law[Any], second: Law[Any]) -> float:
    """Return the largest |log P(o) - log Q(o)| over all outcomes: the exact pure epsilon of this pair.

    >>> max_log_ratio({"a": 1.0}, {"a": 0.5, "b": 0.5})
    inf
    """
    worst = 0.0
    for outcome in {*first, *second}:
        p, q = first.get(outcome, 0.0), second.get(outcome, 0.0)
        if p != q:
            worst = max(worst, abs(math.log(p / q)) if min(p, q) > 0 else math.inf)
    return worst


def hockey_stick(first: Law[Any], second: Law[Any], epsilon: float) -> float:
    """Return the exact delta of this pair at ``epsilon``, the larger of both directions."""
    outcomes = {*first, *second}
    return max(
        math.fsum(max(0.0, p.get(o, 0.0) - math.exp(epsilon) * q.get(o, 0.0)) for o in outcomes)
        for p, q in ((first, second), (second, first))
    )


def same_law(first: Sequence[Any] | Vector, second: Sequence[Any] | Vector) -> float:
    """Return a p-value for the hypothesis that both samples have one law.

    Vectors of floats: the two-sample Kolmogorov-Smirnov test of each coordinate, with Bonferroni's
    correction; everything else: the G-test of homogeneity, rare outcomes put together.
    """
    if isinstance(first, np.ndarray) and first.dtype.kind == "f":
        one, other = (np.asarray(sample).reshape(len(sample), -1) for sample in (first, second))
        values = [_kolmogorov_smirnov(one[:, j], other[:, j]) for j in range(one.shape[1])]
        return min(1.0, len(values) * min(values))
    return _g_test(Counter(first), Counter(second))


def _kolmogorov_smirnov(first: Vector, second: Vector) -> float:
    values = np.concatenate((first, second))
    below = [np.searchsorted(np.sort(s), values, side="right") / len(s) for s in (first, second)]
    distance = np.abs(below[0] - below[1]).max()
    return float(scipy.special.kolmogorov(distance * math.sqrt(len(first) * len(second) / len(values))))


def _g_test(first: Counter[Any], second: Counter[Any]) -> float:
    table = np.array([[first[o], second[o]] for o in first | second], dtype=np.float64)
    rare = table.sum(axis=1) < 20  # the chi-square law of G needs cells that are not too small
    table = np.vstack((table[~rare], table[rare].sum(axis=0)))
    table = table[table.sum(axis=1) > 0]
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    g = 2 * scipy.special.xlogy(table, table / expected).sum()
    return float(scipy.special.chdtrc(len(table) - 1, g)) if len(table) > 1 else 1.0
