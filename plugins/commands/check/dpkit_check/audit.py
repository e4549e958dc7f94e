"""Attacks a claimed (epsilon, delta) from outside: lower bounds that hold with a stated confidence.

A mechanism is run many times on both of two neighboring datasets. Half of the outputs choose an event that
separates the two well; the other half, independent of that choice, bounds its two probabilities by the
interval of Clopper and Pearson (1934). Whatever the event, no (epsilon, delta)-DP mechanism has
P(event) > exp(epsilon) Q(event) + delta, so the bounds refute a false claim, and a true one only with the
stated probability.

The event is a threshold on one number per output. For outputs that repeat, such as tuples of indices, that
number is the estimated likelihood ratio, and the event a set of outputs. For vectors it is a coordinate, its
distance from the middle, the largest of all, or Fisher's linear discriminant.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import scipy

from dpkit_core.arrays import Floats
from dpkit_core.data.dataset import Dataset
from dpkit_core.privacy.budget import Budget

Outputs = Sequence[Hashable] | npt.NDArray[Any]
Mechanism = Callable[[Dataset, np.random.Generator], Any]
Merit = Callable[[Floats, Floats], Floats]

CONFIDENCE = 0.999

# Probabilities bounded at once: two for each of three events, one chosen for each kind of bound.
_BOUNDS = 6
# Quantiles at which to cut numbers that do not repeat.
_LEVELS = np.concatenate(([0.0005, 0.002], np.linspace(0.005, 0.995, 100), [0.998, 0.9995]))


@attrs.frozen
class Audit:
    """What the samples prove about a mechanism, all at once with probability ``confidence``.

    Attributes
    ----------
    epsilon
        The mechanism is not (epsilon', claimed delta)-DP for any epsilon' below this.
    delta
        The mechanism is not (claimed epsilon, delta')-DP for any delta' below this.
    mu
        The mechanism is not mu'-GDP for any mu' below this (Dong, Roth and Su 2022).
    event
        Bounds for the event behind ``epsilon``: at least so probable on one dataset, at most on the other.
    claimed
        What the mechanism claims.
    samples
        Runs on each of the two datasets.
    confidence
        Probability that all the bounds hold.
    seconds
        Time taken.
    claimed_mu
        The mu that the mechanism claims, where it does; infinity elsewhere.
    """

    epsilon: float
    delta: float
    mu: float
    event: tuple[float, float]
    claimed: Budget
    samples: int
    confidence: float
    seconds: float
    claimed_mu: float = math.inf

    @property
    def violated(self) -> bool:
        """Whether the claimed budget, or the claimed mu, is refuted."""
        return (
            self.epsilon > self.claimed.epsilon
            or self.delta > self.claimed.delta
            or self.mu > self.claimed_mu
        )

    def renyi(self, order: float) -> float:
        """Return a lower bound on the Renyi divergence of ``order`` > 1 between the two outputs.

        By the data processing inequality it is at least that of the single event, a pair of coins.
        """
        p, q = self.event
        if p <= q:
            return 0.0
        ones = order * math.log(p) + (1 - order) * math.log(q)
        zeros = order * math.log1p(-p) + (1 - order) * math.log1p(-q) if p < 1 else -math.inf
        return float(np.logaddexp(ones, zeros)) / (order - 1)

    def describe(self) -> str:
        """Return the finding as a sentence."""
        told = math.isfinite(self.claimed_mu)
        mu = f" and mu at least {self.mu:.4g} (claimed {self.claimed_mu:.4g})" if told else ""
        runs = f"from {self.samples} runs on each dataset, confidence {100 * self.confidence:.6g}%"
        return (
            f"epsilon at least {self.epsilon:.4g} (claimed {self.claimed.epsilon:.4g}) and delta at least "
            f"{self.delta:.3g} (claimed {self.claimed.delta:.3g}){mu}, {runs}"
        )


def clopper_pearson(hits: npt.ArrayLike, runs: int, error: float) -> tuple[Floats, Floats]:
    """Return lower and upper bounds on a probability, each wrong with probability at most ``error``.

    >>> lower, upper = clopper_pearson(0, 1000, 0.05)
    >>> float(lower), round(float(upper), 5)  # about 3 / 1000, the rule of three
    (0.0, 0.00299)
    """
    k = np.asarray(hits, dtype=np.float64)
    lower = np.where(k > 0, scipy.special.betaincinv(np.maximum(k, 1), runs - k + 1, error), 0.0)
    upper = np.where(k < runs, scipy.special.betaincinv(k + 1, np.maximum(runs - k, 1), 1 - error), 1.0)
    return lower, upper


def audit(
    first: Outputs,
    second: Outputs,
    claimed: Budget,
    *,
    mu: float | None = None,
    confidence: float = CONFIDENCE,
    seconds: float = 0.0,
) -> Audit:
    """Return what equally many independent outputs on two neighbors prove.

    Parameters
    ----------
    first, second
        Outputs on the two datasets: hashable values, or an array with one row per output.
    claimed
        The budget under attack.
    mu
        The mu under attack, where mu-GDP is claimed as well.
    confidence
        Probability that every bound holds.
    seconds
        Time that the sampling took, for the report.
    """
    runs = len(first)
    if runs != len(second) or runs < 4:
        raise ValueError(f"an audit needs equally many outputs, at least 4, not {runs} and {len(second)}")
    start = time.perf_counter()
    half, error = runs // 2, (1 - confidence) / _BOUNDS
    numbers = _project(first, second, half)
    learn, certify = ([rows[:, part] for rows in numbers] for part in (slice(half), slice(half, None)))
    certified = {}
    for name, merit in _merits(claimed).items():
        event = _best_event(learn, merit, error)
        p, q = event.bounds(certify, error)
        certified[name] = max(0.0, float(merit(p, q))), (float(p), float(q))
    return Audit(
        certified["epsilon"][0],
        certified["delta"][0],
        certified["mu"][0],
        certified["epsilon"][1],
        claimed,
        runs,
        confidence,
        seconds + time.perf_counter() - start,
        math.inf if mu is None else mu,
    )


def provable(runs: int, claimed: Budget, confidence: float) -> tuple[float, float]:
    """Return the largest epsilon and mu that ``runs`` runs on each of two neighbors can prove.

    That is what they prove of two datasets that no output has in common, and no others prove more: half of
    the runs bound the probabilities, so these are at most q from 1 and at least q, where q is the bound on
    an event that never came.

    >>> epsilon, mu = provable(1200, Budget(1.0, 1e-6), 0.999)
    >>> round(epsilon, 2), round(mu, 2)
    (4.23, 4.37)
    """
    _, q = clopper_pearson(0, runs - runs // 2, (1 - confidence) / _BOUNDS)
    merits = _merits(claimed)
    return max(0.0, float(merits["epsilon"](1 - q, q))), float(merits["mu"](1 - q, q))


def strain(first: Outputs, second: Outputs, claimed: Budget, *, mu: float | None = None) -> float:
    """Return which share of a claim some runs on two neighbors seem to use: a hint where to run more.

    The event is chosen and judged by the same runs, so nothing is proved.
    """
    error = 0.2  # wide enough that a rare event does not beat a common one by luck
    numbers = _project(first, second, len(first))
    claims = {"epsilon": claimed.epsilon, "mu": math.inf if mu is None else mu}
    merits = _merits(claimed)
    return max(
        float(merits[name](*_best_event(numbers, merits[name], error).bounds(numbers, error))) / claim
        for name, claim in claims.items()
    )


@attrs.frozen
class _Event:
    """The outputs whose number ``row``, times ``sign``, is at least ``level``; likelier on ``likelier``."""

    likelier: int
    row: int
    sign: float
    level: float | Floats

    def bounds(self, numbers: Sequence[Floats], error: float) -> tuple[Floats, Floats]:
        """Return a lower bound on its probability on one dataset and an upper bound on the other."""
        p, q = (self.sign * numbers[i][self.row] for i in (self.likelier, 1 - self.likelier))
        return (
            clopper_pearson(_exceed(p, self.level), len(p), error)[0],
            clopper_pearson(_exceed(q, self.level), len(q), error)[1],
        )


def _best_event(numbers: Sequence[Floats], merit: Merit, error: float) -> _Event:
    best, best_merit = _Event(0, 0, 1.0, 0.0), -math.inf
    for likelier, row, sign in itertools.product((0, 1), range(len(numbers[0])), (1.0, -1.0)):
        levels = _levels(sign * np.concatenate([rows[row] for rows in numbers]))
        merits = merit(*_Event(likelier, row, sign, levels).bounds(numbers, error))
        i = int(np.argmax(merits))
        if merits[i] > best_merit:
            best, best_merit = _Event(likelier, row, sign, float(levels[i])), float(merits[i])
    return best


def attack_mechanism(
    run: Mechanism,
    claimed: Budget,
    pair: tuple[Dataset, Dataset],
    *,
    samples: int = 10_000,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Audit:
    """Return what ``samples`` runs on each dataset of ``pair`` prove about ``run``.

    Parameters
    ----------
    run
        Takes a dataset and a random generator; returns a float, a vector of fixed length, or something
        hashable.
    claimed
        The budget under attack.
    pair
        Neighbors, best those that ``attack_sensitivity`` found worst.
    """
    start = time.perf_counter()
    rng = np.random.default_rng(seed)
    first, second = (stack([run(data, rng) for _ in range(samples)]) for data in pair)
    return audit(first, second, claimed, confidence=confidence, seconds=time.perf_counter() - start)


def stack(outputs: Sequence[Any]) -> Outputs:
    """Return outputs that are floats or vectors as an array with one row each, others as they are."""
    if isinstance(outputs[0], float | np.ndarray):
        return np.array(outputs, dtype=np.float64).reshape(len(outputs), -1)
    return outputs


def _merits(claimed: Budget) -> dict[str, Merit]:
    """Return, for each kind of bound, what an event with probabilities at least p and at most q proves."""

    def epsilon(p: Floats, q: Floats) -> Floats:
        return np.log(np.maximum(p - claimed.delta, 1e-300)) - np.log(q)

    def delta(p: Floats, q: Floats) -> Floats:
        return p - math.exp(min(claimed.epsilon, 700.0)) * q

    def mu(p: Floats, q: Floats) -> Floats:
        # A test with power p and size q exists for no mu below the difference of normal quantiles.
        inside = (p > 0) & (q < 1)
        power, size = (
            scipy.special.ndtri(np.maximum(p, 1e-300)),
            scipy.special.ndtri(np.minimum(q, 1 - 1e-16)),
        )
        return np.where(inside, power - size, 0.0)

    return {"epsilon": epsilon, "delta": delta, "mu": mu}


def _project(first: Outputs, second: Outputs, half: int) -> tuple[Floats, Floats]:
    """Return the numbers by whose thresholds events are made, one row each, learned from the first halves."""
    if isinstance(first, np.ndarray) and first.dtype.kind == "f":
        both = [np.asarray(outputs, dtype=np.float64) for outputs in (first, second)]
        learn = np.concatenate([rows[:half] for rows in both])
        middle = np.median(learn, axis=0)
        direction = _discriminant(both[0][:half], both[1][:half])
        projected = [
            np.column_stack((rows, np.abs(rows - middle), np.abs(rows).max(axis=1), rows @ direction)).T
            for rows in both
        ]
        return projected[0], projected[1]
    ratio = _likelihood_ratios(list(first[:half]), list(second[:half]))
    ratios = [np.array([[ratio(output) for output in outputs]]) for outputs in (first, second)]
    return ratios[0], ratios[1]


def _likelihood_ratios(first: Sequence[Any], second: Sequence[Any]) -> Callable[[Hashable], float]:
    counts = Counter(first), Counter(second)
    ratios = {o: math.log((counts[0][o] + 0.5) / (counts[1][o] + 0.5)) for o in counts[0] | counts[1]}
    return lambda output: ratios.get(output, 0.0)


def _discriminant(first: Floats, second: Floats) -> Floats:
    covariance = np.atleast_2d(np.cov(first, rowvar=False) + np.cov(second, rowvar=False))
    shift = first.mean(axis=0) - second.mean(axis=0)
    # The pseudo-inverse leaves out directions in which nothing varies.
    direction: Floats = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True) @ shift
    return direction


def _levels(numbers: Floats) -> Floats:
    distinct = np.unique(numbers)
    return distinct if len(distinct) <= len(_LEVELS) else np.quantile(numbers, _LEVELS)


def _exceed(numbers: Floats, levels: float | Floats) -> npt.NDArray[np.int64] | int:
    """Return how many of ``numbers`` are at least each of ``levels``."""
    return len(numbers) - np.searchsorted(np.sort(numbers), levels, side="left")
