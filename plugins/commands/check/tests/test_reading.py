"""The code of a part is read while it runs: nothing changes but what is known of it."""

import attrs
import numpy as np
import pytest
from dpkit_check import kind_of, run_checks
from dpkit_check.reading import watched
from dpkit_check.recipes import TABLES, Constants
from dpkit_check.search import worlds

LIMIT = 2**5


@attrs.frozen
class Tower:
    """Branches of every form, each behind a constant of its own."""

    scale: float = 2.0

    def size(self, n):
        """Return what depends on the size."""
        if n > LIMIT:
            return "large"
        return "seven" if n == 7 else min(n, 12)

    def cell(self, column, name):
        """Return what depends on values and on a name."""
        missing = column == -99
        if name.startswith("log"):
            column = np.log1p(column.clip(0))
        return np.where(missing, 0.0, column).sum() * self.scale

    @property
    def never(self):
        """Return nothing that anybody asks for."""
        try:
            return 1
        except ValueError:
            return 0

    def inside(self, x):
        """Return whether a number lies between two others."""
        return 0 < x <= 3 and not x == 2  # noqa: SIM201 - a condition of its own


def unreached(watch):
    return [str(place).partition(":")[2].partition(" ")[2] for place in watch.reach().unreached]


def test_what_is_not_reached_is_told_with_what_was_seen_instead():
    part = Tower()
    with watched(Tower) as watch:
        assert [part.size(n) for n in (3, 30)] == [3, 12]
        assert part.cell(np.arange(3.0), "a") == 6.0
    told = unreached(watch)
    assert "needs n > LIMIT, seen 3 to 30" in told
    assert "needs n == 7, seen 3 to 30" in told
    assert "needs column == -99, seen 2" in told
    assert 'needs name.startswith("log"), seen a' in told
    assert "needs a call of Tower.never" in told


def test_what_is_reached_is_not_told():
    part = Tower()
    with watched(Tower) as watch:
        assert [part.size(n) for n in (3, 7, 30, 40)] == [3, "seven", 12, "large"]
        assert part.cell(np.array([-99.0, 1.0]), "log x") == pytest.approx(2 * np.log(2))
        assert part.cell(np.array([-99.0, 1.0]), "x") == 2.0
        assert [part.inside(x) for x in (-1, 1, 2, 3, 4)] == [False, True, False, True, False]
        assert part.never == 1
    assert [line for line in unreached(watch) if "an exception" not in line] == []


def test_functions_get_their_own_code_back_even_after_an_exception():
    before = {name: getattr(Tower, name).__code__ for name in ("size", "cell", "inside")}
    watch = watched(Tower)
    with watch:
        assert Tower.size.__code__ is not before["size"]
    with pytest.raises(TypeError), watch:
        Tower().size("x")
    assert {name: getattr(Tower, name).__code__ for name in before} == before


def test_constants_are_those_of_the_code_and_of_the_names_that_it_loads():
    numbers, words = watched(Tower).constants()
    assert {-99.0, 7.0, 12.0, 32.0, 2.0} <= set(numbers)
    assert "log" in words


def test_worlds_at_constants_come_with_both_of_their_neighbors():
    constants = Constants((7.0, -99.0), ("log",))
    found = list(TABLES[0].at_constants(constants))
    assert {6, 7, 8} <= {world.records for world in found}
    assert {(-99.0,), (np.nextafter(-99.0, 0),)} <= {world.values for world in found}
    assert {"log", "logx"} <= {world.columns[0][0] for world in found}


def test_one_seed_gives_one_list_of_worlds_and_the_budget_counts_worlds():
    constants = Constants((7.0,), ())
    lists = [
        list(worlds(TABLES, watched(Tower), constants, np.random.default_rng(3), variants=2, most=150))
        for _ in range(2)
    ]
    assert lists[0] == lists[1]
    assert len(lists[0]) == 150


def test_a_report_tells_what_was_not_attacked_and_strict_minds():
    from dpkit_selector_peel import PeelSelector

    report = run_checks(PeelSelector, kind_of(PeelSelector), only=["check_protocol"])
    assert report.ok
    assert not report.strict
    assert report.reach.blocks[0] < report.reach.blocks[1]
    assert "places of the code not attacked" in report.statement
    assert report.to_document()["reach"]["unreached"][0]["needs"]
