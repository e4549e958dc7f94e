"""Exact laws of selections on small worlds, and tests that two samples have one law.

A selector that draws only by ``meter.select`` is a decision tree: its law follows by asking it once for
every sequence of answers that the meter could give, with the probability of each answer in closed form. No
sampling, no false alarm, and a ratio of probabilities to twelve digits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy

from dpkit_check.instrument import Answers
from dpkit_core.arrays import Vector
from dpkit_core.noise.sampler import Sampler
from dpkit_core.privacy.events import Event, ExponentialMechanism
from dpkit_core.protocols import Scores

# The most sequences of answers to enumerate, in a few seconds: two picks of five features have twenty. Their
# number is as public as the plan; selectors with more are sampled.
MOST_SEQUENCES = 4000

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

    def __init__(self, script: Sequence[tuple[int, ...]]) -> None:
        super().__init__(0)
        self._script = list(script)

    @property
    def coins(self) -> np.random.Generator:
        """Refuse: the law of what follows is not known."""
        raise NotEnumerable

    def noisy(self, value: Any, draw: Callable[[Any], Any]) -> Any:
        """Refuse: there is no finite set of answers."""
        raise NotEnumerable

    def picked(self, scores: Scores, event: Any, draw: Callable[[Scores], Any]) -> tuple[int, ...]:
        """Return the next answer of the script."""
        k = len(draw(scores))
        if self._script:
            return self._script.pop(0)
        scaled = np.asarray(scores.values, dtype=np.float64) / (
            scores.round.sensitivity.range / event.epsilon
        )
        scaled[~np.asarray(scores.candidates, dtype=bool)] = -np.inf
        law = gumbel_law if isinstance(event, ExponentialMechanism) else exponential_law
        raise _Branch(ordered_law(scaled, k, law))

    def custom(self, event: Event) -> Sampler:
        """Refuse: the law of a custom draw is not known."""
        raise NotEnumerable

    def foreign(self, whose: str) -> None:
        """Refuse: the law of somebody else's draw is not known."""
        raise NotEnumerable


def enumerate_law(
    run: Callable[[Answers], Outcome],
) -> dict[Outcome, float]:
    """Return the exact law of ``run``, which is given what its meter answers.

    Raises
    ------
    NotEnumerable
        If it draws other noise than that of ``meter.select``, or so often that there are too many answers.
    """
    law: dict[Outcome, float] = {}
    asked = 0
    open_scripts: list[tuple[tuple[tuple[int, ...], ...], float]] = [((), 1.0)]
    while open_scripts:
        script, probability = open_scripts.pop()
        try:
            outcome = run(_Scripted(script))
        except _Branch as branch:
            open_scripts += [((*script, answer), probability * p) for answer, p in branch.law.items()]
            asked += len(branch.law)
            if asked > MOST_SEQUENCES:
                raise NotEnumerable from None
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
