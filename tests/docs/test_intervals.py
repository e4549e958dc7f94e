"""How often intervals of a score hold it, in whole runs, with the center, the cap and the noise released."""

import importlib.util
import itertools
from pathlib import Path

import pytest
from scipy import stats

spec = importlib.util.spec_from_file_location(
    "intervals", Path(__file__).parents[2] / "docs" / "results" / "intervals.py"
)
intervals = importlib.util.module_from_spec(spec)
spec.loader.exec_module(intervals)

CELLS = list(itertools.product(("level", "uneven"), intervals.BOUNDS, intervals.SETTINGS))


def covered(cell, runs):
    """Return in how many runs of a cell a score is told, and how many intervals hold it."""
    sample, bounds, setting = CELLS[cell]
    seeds = range(10**6 * (1 + cell), 10**6 * (1 + cell) + runs)  # others than of the page
    return intervals.whole(getattr(intervals, sample), intervals.BOUNDS[bounds], *setting, seeds)


@pytest.mark.slow
def test_intervals_of_a_score_hold_it_in_a_few_whole_runs():
    told, own, wider = covered(0, 100)
    assert told > 90
    assert min(own, wider) >= stats.binom.ppf(1e-4, told, 0.95)


@pytest.mark.exhaustive
@pytest.mark.parametrize("cell", range(len(CELLS)))
def test_intervals_of_a_score_hold_it_in_95_of_100_whole_runs(cell):
    """With 1 % for what normal tails do not say; two cells in a thousand fail by chance."""
    told, own, wider = covered(cell, 1000)
    assert told > 950
    assert min(own, wider) >= stats.binom.ppf(1e-3, told, 0.94)
    assert max(own, wider) <= stats.binom.ppf(1 - 1e-3, told, 0.96)
