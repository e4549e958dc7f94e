"""Tables in which a person has several records: how many are paid for, which are kept, and whose they are."""

from __future__ import annotations

import functools
import zlib

import attrs
import numpy as np
from dpkit_sklearn.folds import drawn_folds, folds_of

from dpkit_core import Budget, Dataset, Schema
from dpkit_core.data.columns import Column, Unit
from dpkit_core.noise.randomness import Randomness

from .attacks import Finding, claim, mechanism


@attrs.frozen(eq=False)
class Visits:
    """Whose each record is, and its target."""

    whose: list[str]
    y: np.ndarray


def visits(*persons, backwards=False):
    """Return the records of persons, each with a name and targets."""
    whose = [name for name, targets in persons for _ in targets]
    y = np.array([target for _, targets in persons for target in targets])
    return Visits(whose[::-1], y[::-1]) if backwards else Visits(whose, y)


@functools.cache
def kept_by_the_core(data, most=1):
    schema = Schema((Column("x"),), Column("y", lower=-1.0, upper=1.0), unit=Unit(("name",), most))
    return Dataset.from_arrays(np.zeros((len(data.y), 1)), data.y, schema, units=data.whose).y


@functools.cache
def kept_by(number, code=lambda name: name):
    """Return a rule that keeps of each person, by some code, the target whose number is least."""

    @functools.cache
    def kept(data):
        least = {}
        for name, n, target in zip(map(code, data.whose), number(data), data.y.tolist(), strict=True):
            least[name] = min(least.get(name, (n, target)), (n, target))
        return np.array([target for _, target in least.values()])

    return kept


def in_order(data):
    return range(len(data.y))


def coins(data):
    return np.random.default_rng(7).permutation(len(data.y)).tolist()


def of_content(data):
    return [zlib.crc32(target.tobytes()) for target in data.y]


def total(kept, records=1):
    """Release what is kept, added up, with the noise that a number of records needs at epsilon 1."""
    return lambda data, rng: float(kept(data).sum() + rng.laplace(scale=records))


def mean_of_what_is_kept(kept, seed):
    """Compare a mean over 5000 persons of 8 records with that of what is kept of them."""
    rng = np.random.default_rng(seed)
    y = (rng.random((5000, 8)) < 0.1).astype(float)
    mean = float(kept(visits(*((str(i), row) for i, row in enumerate(y)))).mean())
    error = float(np.sqrt(y.mean() * (1 - y.mean()) / len(y)))
    off = abs(mean - y.mean()) / error
    return Finding(bool(off > 4), y.size, f"mean {mean:.3f} of {y.mean():.3f}, {off:.1f} standard errors")


def fits_of_a_person(folds, seed):
    """Count in how many of four fits, of which three are paid for, any of a person's records are."""
    schema = Schema((Column("x"),), Column("y", lower=0.0, upper=1.0), unit=Unit(("name",), 8))
    ids = np.repeat(np.arange(120), 8)
    data = Dataset.from_arrays(np.zeros((len(ids), 1)), np.linspace(0, 1, len(ids)), schema, units=ids)
    fold = folds(data, Randomness.from_seed(seed))
    fits = max(len({f for f in range(4) if (fold[data.whose == i] != f).any()}) for i in range(120))
    return Finding(fits > 3, 0, f"records of one person are in {fits} fits, of which 3 are paid for")


OTHERS = [(f"p{i}", (-1.0, 1.0)) for i in range(40)]
ONE = ("ann", (1.0,))
FOUR = ("ann", (1.0,) * 4)

# Two names of one checksum.
assert zlib.crc32(b"plumless") == zlib.crc32(b"buckeroo")
NAMESAKES = [("plumless", (1.0,)), ("buckeroo", (-1.0,))]


def checksum(name):
    return zlib.crc32(name.encode())


ROWS = (
    mechanism(
        "one record paid for, four kept",
        "A release is charged what one record costs; a person has four.",
        "a habit: examples are protected where people were meant",
        pair=(visits(*OTHERS, FOUR), visits(*OTHERS)),
        claimed=Budget(1.0),
        false=total(functools.partial(kept_by_the_core, most=4)),
        true=total(functools.partial(kept_by_the_core, most=4), records=4),
        samples=2000,
    ),
    mechanism(
        "the first of each person",
        "Of each person the first record is kept, in an order that a table does not promise to repeat.",
        "a habit: `drop_duplicates`, or a limit without an order",
        pair=(visits(*OTHERS, ONE, backwards=True), visits(*OTHERS)),
        claimed=Budget(1.0),
        false=total(kept_by(in_order)),
        true=total(kept_by_the_core),
        samples=500,
    ),
    mechanism(
        "coins by position",
        "Coins decide which record of each person is kept, one for each place in the table: who comes first "
        "moves all others'.",
        "a habit: one generator for all rows",
        pair=(visits(ONE, *OTHERS), visits(*OTHERS)),
        claimed=Budget(1.0),
        false=total(kept_by(coins)),
        true=total(kept_by_the_core),
        samples=500,
    ),
    mechanism(
        "persons by a checksum",
        "Two persons whose names have one checksum share a quota, and a record of one displaces the other's.",
        "a habit: hashed identifiers",
        pair=(visits(*NAMESAKES, *OTHERS), visits(NAMESAKES[1], *OTHERS)),
        claimed=Budget(1.0),
        false=total(kept_by(in_order, checksum)),
        true=total(kept_by_the_core),
        samples=20_000,
    ),
    claim(
        "the least content of each person",
        "The record whose content has the least hash is kept: one content wins in every person, and "
        "estimates are far off.",
        "an early design of this core",
        attack=mean_of_what_is_kept,
        false=kept_by(of_content),
        true=kept_by_the_core,
        samples=40_000,
        found_by="four standard errors",
    ),
    claim(
        "folds by record",
        "Each record draws a fold, so that every fit sees some records of a person; one fit is not paid for.",
        "cross-validation of records, where people are protected",
        attack=fits_of_a_person,
        false=lambda data, randomness: drawn_folds(data.records, 4, randomness),
        true=lambda data, randomness: folds_of(data, 4, randomness),
        samples=0,
        found_by="fits counted",
    ),
)
