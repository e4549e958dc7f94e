"""A ledger that moves is charged in one place at a time, whenever the move is interrupted."""

from contextlib import contextmanager, suppress

import pytest
from dpkit_command_ledger.audit import audit
from dpkit_command_ledger.moving import move_to
from dpkit_ledger_sqlite import SqliteStore
from dpkit_ledger_sqlite import promises as suite

from dpkit_core.errors import InvalidLedger
from dpkit_core.ledger.ledger import Ledger


@pytest.fixture
def files(tmp_path):
    numbers = iter(range(1000))
    return lambda: Ledger.create(str(tmp_path / f"ledger{next(numbers)}.db"))


class _Interrupted(Exception):
    pass


@pytest.mark.parametrize("moment", range(7))
def test_a_move_that_is_interrupted_anywhere_goes_on(moment, files, tmp_path, monkeypatch):
    ledger, place = files(), str(tmp_path / "new.db")
    ledger.add(suite.account())
    ledger.reserve(suite.charge(0.7))
    transaction, calls = SqliteStore.transaction, []

    @contextmanager
    def interrupted(self, *, write):
        calls.append(write)
        if len(calls) == moment + 1:
            raise _Interrupted
        with transaction(self, write=write) as inner:
            yield inner

    monkeypatch.setattr(SqliteStore, "transaction", interrupted)
    with suppress(_Interrupted):
        move_to(ledger, place)
    monkeypatch.undo()
    moved = move_to(Ledger.open(ledger.url), place)
    assert moved.id == ledger.id
    assert [entry.kind for entry in moved.entries(after=2)] == ["reserved", "moved", "arrived"]
    assert suite.granted(moved) == 3
    with pytest.raises(InvalidLedger, match="has left"):
        Ledger.open(ledger.url).reserve(suite.charge(0.1))
    assert audit(moved).sound
    assert audit(ledger).sound


def test_a_ledger_moves_once_and_to_an_empty_place(files, tmp_path):
    ledger, other = files(), files()
    with pytest.raises(InvalidLedger, match="holds entries already"):
        move_to(ledger, other.url)
    with pytest.raises(InvalidLedger, match="holds entries already"):
        move_to(ledger, ledger.url)
    move_to(ledger, str(tmp_path / "new.db"))
    with pytest.raises(InvalidLedger, match=r"has moved to .*new\.db already"):
        move_to(ledger, str(tmp_path / "third.db"))
    assert not (tmp_path / "third.db").exists()
    with pytest.raises(InvalidLedger, match="has left"):
        Ledger.open(ledger.url).add(suite.account())


@pytest.mark.parametrize("become", ["kept", "renamed", "emptied"])
def test_a_finished_move_is_not_repeated_whatever_has_become_of_the_new_place(become, files, tmp_path):
    ledger, place = files(), tmp_path / "new.db"
    ledger.add(suite.account())
    moved = move_to(ledger, str(place))
    moved.reserve(suite.charge(0.7))
    if become == "renamed":
        place.rename(tmp_path / "renamed.db")
    if become == "emptied":
        place.unlink()
        SqliteStore.create(str(place))
    before = sorted(path.name for path in tmp_path.iterdir())
    for handle in (ledger, Ledger.open(ledger.url)):
        with pytest.raises(InvalidLedger, match=r"has moved to .*new\.db already.*Use the new place"):
            move_to(handle, str(place))
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert audit(Ledger.open(ledger.url)).sound
    with pytest.raises(InvalidLedger, match="has left"):
        Ledger.open(ledger.url).reserve(suite.charge(0.1))


def test_a_moved_ledger_moves_on_and_back_into_a_place_of_its_own(files, tmp_path):
    ledger = files()
    ledger.add(suite.account())
    there = move_to(ledger, str(tmp_path / "new.db"))
    with pytest.raises(InvalidLedger, match="holds entries already"):
        move_to(there, ledger.url)
    back = move_to(there, str(tmp_path / "back.db"))
    assert [entry.kind for entry in back.entries(after=2)] == ["moved", "arrived", "moved", "arrived"]
    assert [entry.kind for entry in there.entries(after=2)] == ["moved", "arrived", "moved", "moved"]
    assert audit(back).sound
    assert audit(there).sound
