"""The code of a part is read while it runs: nothing changes but what is known of it."""

import importlib.util
import sys

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


def test_a_watch_inside_of_another_reads_the_same():
    part = Tower()
    with watched(Tower) as outer:
        inner = watched(Tower)
        with inner:
            assert part.size(30) == 12
        assert inner.reach().not_read == ()
        assert inner.reach().sides[1] == outer.reach().sides[1]
        assert inner.constants() == outer.constants()
        assert outer.reach().blocks[0] < inner.reach().blocks[0]
        assert part.size(30) == 12
    assert outer.reach() == inner.reach()


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
    assert len(lists[0]) == len(TABLES) + 150


@pytest.mark.slow
def test_mechanisms_that_a_part_calls_are_counted_apart():
    from dpkit_accountant_tight import TightAccountant
    from dpkit_regressor_mean import MeanRegressor

    report = run_checks(MeanRegressor, only=["check_every_branch_keeps_the_law"])
    reached, blocks = report.reach.core
    assert 0 < reached <= blocks
    assert f"{reached} of {blocks} blocks of the mechanisms" in report.statement
    assert not any("dpkit_core" in place.file for place in report.reach.unreached)
    # Nearly all that an accountant does is done by the core.
    tight = watched(TightAccountant).reach()
    assert tight.core[1] > 10 * tight.blocks[1]


def test_a_report_tells_what_was_not_attacked_and_strict_minds():
    from dpkit_selector_peel import PeelSelector

    report = run_checks(PeelSelector, kind_of(PeelSelector), only=["check_protocol"])
    assert report.ok
    assert not report.strict
    assert report.reach.blocks[0] < report.reach.blocks[1]
    assert "places of the code not attacked" in report.statement
    assert report.to_document()["reach"]["unreached"][0]["needs"]


EDITED = '''
def size(n):
    """Return a size."""
    return "many" if n > {limit} else "few"


def other(n):
    """Return another."""
    return [n == 5 for n in range(n)], (lambda: 1), (lambda: 2)


class Part:
    def ask(self, n):
        return size(n), other(n)
'''


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "edited_part.py"
    path.write_text(EDITED.format(limit=10))
    spec = importlib.util.spec_from_file_location("edited_part", path)
    found = importlib.util.module_from_spec(spec)
    sys.modules["edited_part"] = found
    spec.loader.exec_module(found)
    yield found, path
    del sys.modules["edited_part"]


def test_a_file_that_is_as_it_was_imported_is_read(module):
    found, _ = module
    with watched(found.Part) as watch:
        assert found.Part().ask(11)[0] == "many"
    assert watch.reach().not_read == ()
    assert "needs not (n > 10), seen 11" in unreached(watch)


@pytest.mark.parametrize(
    ("old", "new", "unread"),
    [
        ("n > 10", "n > 10.0", ["size"]),
        ("n > 10", "n >= 10", ["size"]),
        ("n == 5", "n == 6", ["other"]),
        ("lambda: 2", "lambda: 3", ["other"]),
        ("    return size", "    # one more line\n        return size", []),
        ("def other", "\ndef other", ["Part.ask", "other"]),
        ("def other", "def (", ["Part.ask", "other", "size"]),
    ],
)
def test_where_the_file_is_not_what_was_imported_the_kit_says_so_and_runs_what_was(module, old, new, unread):
    found, path = module
    before = found.size.__code__
    path.write_text(path.read_text().replace(old, new))
    watch = watched(found.Part)
    assert [told.partition(":")[0] for told in watch.reach().not_read] == unread
    with watch:
        assert [found.size(n) for n in (10, 11)] == ["few", "many"]  # what was imported, not what is there
        assert (found.size.__code__ is before) is ("size" in unread)
    assert 10 in watch.constants()[0]


COMPILED = """
def njit(f):
    return f


@njit
def size(n):
    return n


@njit  # kit: unreachable, it is compiled
def other(n):
    return n


class Part:
    def ask(self, n):
        return size(n), other(n)
"""


def test_what_is_compiled_is_said_unless_the_line_says_why(module):
    found, path = module
    path.write_text(COMPILED)
    found.__spec__.loader.exec_module(found)
    assert watched(found.Part).reach().not_read == ("size: it is compiled",)


@pytest.mark.parametrize(("reason", "told"), [("", True), ("no table is so large", False)])
def test_a_line_that_cannot_be_reached_says_why(module, reason, told):
    found, path = module
    guard = f"    if n > 99:  # kit: unreachable, {reason}\n            raise ValueError\n        return size"
    path.write_text(EDITED.format(limit=10).replace("    return size", guard))
    found.__spec__.loader.exec_module(found)
    with watched(found.Part) as watch:
        found.Part().ask(1)
    assert any("n > 99" in line for line in unreached(watch)) is told
