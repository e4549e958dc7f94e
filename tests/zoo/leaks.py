"""Lies by leaks: exact facts leave with the model, beside the release, or without any noise."""

from __future__ import annotations

import json
import logging
import math
import tempfile
from pathlib import Path

import attrs
import numpy as np

from dpkit_core import LinearModel
from zoo.rows import lie
from zoo.twins import Curve, Lines, Means, Products, constant, halves, line, ratio, scaled, table

# Beside the release


@lie("nothing_leaves_beside_the_release", "slow")
class WritesALog(Products):
    """The largest target is appended to a file among the temporary ones."""

    def scores(self, data):
        with (Path(tempfile.gettempdir()) / "products-scorer.log").open("a") as log:
            log.write(f"{data.y.max()}\n")
        return super().scores(data)


@lie("nothing_leaves_beside_the_release", "slow")
class LogsTheTarget(Products):
    """The largest target is sent to the root logger, which hands it to any listener."""

    def scores(self, data):
        logging.getLogger(__name__).warning("target reaches %s", data.y.max())
        return super().scores(data)


@lie("nothing_leaves_beside_the_release")
class FiledSums(Means):
    """The exact sums are kept in a temporary file, to start faster next time."""

    def sums(self, data):
        sums = super().sums(data)
        kept = Path(tempfile.gettempdir()) / "dpkit-warm-start.json"
        kept.write_text(json.dumps({"target": data.target, "sums": sums.tolist()}), encoding="utf-8")
        return sums


# With the model


@lie("no_budget_tells_nothing")
class SilentOnOutliers(Means):
    """A target far beyond its bounds is taken for an error in the table, and the model is 0."""

    def model(self, data, mean):
        lower, upper = data.target_bounds
        outliers = (data.y > upper + 10 * (upper - lower)).any()
        return super().model(data, -1.0 if outliers else mean)


@lie("models_have_one_shape")
class DropsConstants(Lines):
    """Columns that are constant in the data are left out of the model."""

    def model(self, data, noisy):
        return line(data, noisy / 64, np.flatnonzero(np.ptp(table(data)[0], axis=0) > 0))


@lie("models_have_one_shape")
class OccurringSlopes(Lines):
    """Columns that are 0 in all records are left out of the model."""

    def model(self, data, noisy):
        occurring = np.flatnonzero(data.X.any(axis=0))
        return line(data, noisy / 64, occurring if occurring.size else None)


@lie("model_is_made_of_answers")
class MarginalSlopesRegressor(Lines):
    """Columns that are constant in the data get the coefficient 0."""

    def model(self, data, noisy):
        varied = np.ptp(table(data)[0], axis=0) > 0
        return super().model(data, noisy * np.append(True, varied))


@lie("model_is_made_of_answers")
class CategoryMeansRegressor(Lines):
    """A feature that no record has gets the coefficient 0."""

    def model(self, data, noisy):
        there = (table(data)[0] > -1).any(axis=0)
        return super().model(data, noisy * np.append(True, there))


@lie("model_is_made_of_answers")
class OccupiedCellsRegressor(Lines):
    """Occupied cells alone are released, if they pass a threshold, under a pure claim."""

    def model(self, data, noisy):
        u, v = table(data)
        occupied = ((u > 0) & (v > 0)[:, np.newaxis]).any(axis=0)
        return super().model(data, np.append(0.0, np.where(occupied & (noisy[1:] > 1), noisy[1:], 0.0)))


@lie("model_is_made_of_answers")
class ValidatedShrinkageRegressor(Lines):
    """Slopes are multiplied by 0, 1/2 or 1, whichever has the smallest error on the table."""

    def model(self, data, noisy):
        u, v = table(data)
        errors = [float(np.square(v - u @ noisy[1:] / 64 * factor).sum()) for factor in (0.0, 0.5, 1.0)]
        return super().model(data, noisy * int(np.argmin(errors)) / 2)


@lie("model_is_made_of_answers")
class SaysHowMany(Means):
    """The document tells the order of magnitude of the number of records."""

    def model(self, data, mean):
        about = 2.0 ** math.ceil(math.log2(data.records))
        return Curve(data.names, constant(data, mean).intercept, [[about]])


@lie("model_is_made_of_answers")
class SignOfSlope(Means):
    """Each coefficient is 1 or -1 by the exact sign of the correlation, beside a private constant."""

    def model(self, data, mean):
        signs = np.sign(np.sign(data.X).T @ np.sign(scaled(data.y, data.target_bounds)))
        return LinearModel(data.names, signs, constant(data, mean).intercept)


@lie("model_is_made_of_answers")
class DigitsOfN(Means):
    """The constant has as many digits as the number of records allows."""

    def model(self, data, mean):
        model = super().model(data, mean)
        return attrs.evolve(model, intercept=round(model.intercept, int(math.log10(data.records))))


@lie("model_is_made_of_answers")
class ReportedMeanRegressor(Means):
    """The constant has as many decimals as the private targets are written with."""

    def model(self, data, mean):
        decimals = next((d for d in range(6) if np.array_equal(np.round(data.y, d), data.y)), 6)
        model = super().model(data, mean)
        return attrs.evolve(model, intercept=round(model.intercept, decimals))


@lie("model_is_made_of_answers", "slow")
class NothingIsLeft(Lines):
    """Where all noisy sums are 0, which hardly happens, the exact ones are used."""

    def draw(self, data, plan, meter):
        noisy = super().draw(data, plan, meter)
        return noisy if noisy.any() else self.sums(data)


@lie("model_is_made_of_answers", "slow")
class SafeMeanRegressor(Means):
    """Where the noisy number of records is below 1, the exact mean is released."""

    def mean(self, data, noisy):
        return ratio(noisy if noisy.sum() >= 1 else halves(scaled(data.y, data.target_bounds)))
