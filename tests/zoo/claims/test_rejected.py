"""Every published falsehood is refuted by the attack made for it; its corrected twin is not.

The statistical attacks have seeds that are fixed and a false-alarm probability of 10^-3 each; the sensitivity
and law attacks cannot raise a false alarm at all.
"""

from pathlib import Path

import pytest
from falsehoods import SPECIMENS, rows

PAGE = Path(__file__).parents[3] / "docs/reference/kit.md"

each_specimen = pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda s: s.name)


@pytest.mark.first(20)
@each_specimen
def test_the_falsehood_is_caught(specimen):
    finding = specimen.attack(0)
    assert finding.caught, finding.detail
    assert finding.samples <= specimen.samples or not specimen.samples


@pytest.mark.slow  # the twins cost as much again, and break with the kit only
@each_specimen
def test_the_corrected_twin_is_not(specimen):
    finding = specimen.twin(0)
    assert not finding.caught, finding.detail


def test_the_documentation_lists_the_specimens():
    assert "{{ falsehoods }}" in PAGE.read_text(encoding="utf-8")  # from rows(), by docs/conf.py
    assert all(row.count(" | ") == 3 for row in rows())


def test_names_are_unique():
    assert len({specimen.name for specimen in SPECIMENS}) == len(SPECIMENS)
