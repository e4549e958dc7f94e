"""Lists of the values that occur, with a threshold or counts that forget somebody."""

import attrs
import numpy as np
import pandas as pd
from dpkit_command_categories.entries import UNIT, Entries
from dpkit_command_categories.histogram import ListingSettings, above
from dpkit_command_categories.planned import plan_of

from dpkit_core import Budget, Column, Sampler, Schema, Unit
from dpkit_core.data.frames import frame_source

from .attacks import mechanism

CLAIMED = Budget(3.0, 0.02)


def schema(most):
    unit = None if most is None else Unit(("who",), most)
    return Schema((Column("city", "categorical", buckets=2),), Column("y"), unit=unit)


def tables(most, others, own):
    """Return tables that differ in the records of one unit, whose cities are ``own``."""
    frame = pd.DataFrame(
        {"city": [*others, *own], "who": [f"u{i}" for i in range(len(others))] + ["me"] * len(own)}
    )
    facts = schema(most)
    return tuple(Entries.from_source(frame_source(part), facts) for part in (frame, frame[: len(others)]))


def listed(most, change=lambda settings: settings, counts=lambda data: data.counts(0)):
    """Return what is listed of a table, by the settings of a real plan, changed."""
    plan = plan_of(schema(most), CLAIMED).stages[0].plan
    settings = change(plan.settings_as(ListingSettings))

    def run(data, rng):
        numbers = counts(data)
        occurs = np.flatnonzero(numbers)
        passed, _ = above(numbers[occurs], settings, Sampler(rng))
        return tuple(data.texts[0][i] for i in occurs[passed])

    return run


def one_lower(settings):
    return attrs.evolve(settings, threshold=settings.threshold - UNIT)


def by_records(data):
    """Count every value of a unit 1, whatever others it has."""
    return UNIT * np.bincount(data.places[0], minlength=len(data.texts[0])).astype(np.int64)


SEVERAL = [f"mine {i}" for i in range(16)]

ROWS = (
    mechanism(
        "threshold one too low",
        "The threshold is a quantile of the noise, without the 1 that a person adds to a value of their own.",
        "a habit: thresholds of group-by",
        pair=tables(None, ["common"] * 3, ["mine"]),
        claimed=CLAIMED,
        false=listed(None, one_lower),
        true=listed(None),
        samples=4000,
    ),
    mechanism(
        "each value counted once",
        "A person has 16 values, and each counts 1: together they move the counts by 4, and not by 1.",
        "a habit: thresholds of group-by",
        pair=tables(16, ["common"] * 3, SEVERAL),
        claimed=CLAIMED,
        false=listed(16, counts=by_records),
        true=listed(16),
        samples=4000,
    ),
)
