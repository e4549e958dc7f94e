"""The public suite on a real server, and what is this backend's alone."""

import copy
import functools
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from dpkit_command_ledger.audit import audit, divergence
from dpkit_command_ledger.moving import move_to
from dpkit_ledger_postgresql import postgresql
from dpkit_ledger_sqlite import promises as suite
from sqlalchemy import text

from dpkit_core.errors import InvalidLedger, LedgerUnavailable, OverBudget
from dpkit_core.files.documents import as_document
from dpkit_core.ledger.ledger import Ledger
from dpkit_core.ledger.store import InDoubt

# A server is started for them; together they take a minute or two.
pytestmark = pytest.mark.slow


@pytest.fixture
def databases(server):
    return lambda: Ledger.create(server.url())


@pytest.fixture
def ledger(databases):
    ledger = databases()
    ledger.add(suite.account())
    return ledger


# Races are in test_races.py, in more rounds.
@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, marks=pytest.mark.exhaustive)  # in CI of files of SQLite
        if check is suite.check_killed_runs_are_charged
        else check
        for check in suite.CHECKS
        if check is not suite.check_racers_never_spend_too_much
    ],
    ids=lambda check: check.__name__,
)
def test_a_database_of_postgresql_keeps_every_promise(check, databases):
    check(databases)


def test_a_ledger_is_created_once_and_opened_by_its_url(server, databases):
    ledger = databases()
    with pytest.raises(InvalidLedger, match="is a ledger already"):
        Ledger.create(ledger.url)
    assert Ledger.create_or_open(ledger.url).id == ledger.id
    assert Ledger.open(ledger.url.replace("postgresql://", "postgresql+psycopg://")).id == ledger.id
    assert Ledger.open(ledger.url.replace("postgresql://", "postgres://")).id == ledger.id
    with pytest.raises(InvalidLedger, match="there is no ledger in postgresql://custodian"):
        Ledger.open(server.url())


def test_each_schema_of_a_database_holds_a_ledger_of_its_own(server, ledger):
    other = Ledger.create(server.url())
    assert other.id != ledger.id
    assert other.head().sequence == 1
    assert ledger.head().sequence == 2
    assert Ledger.create(server.url(database=server.database())).head().sequence == 1


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM dpkit_entry",
        "DELETE FROM dpkit_entry WHERE sequence = 3",
        "UPDATE dpkit_entry SET total = '[0,0]' WHERE sequence = 3",
        "TRUNCATE dpkit_entry",
        "INSERT INTO dpkit_entry VALUES (5, 'reserved', 'diamonds', 'x', '{}', '[0,0]', 'x', 'y')",
        "INSERT INTO dpkit_entry VALUES (4, 'reserved', 'diamonds', 'x', '{}', '[0,0]', 'x', 'y')",
        "INSERT INTO dpkit_entry VALUES (3, 'reserved', 'diamonds', 'x', '{}', '[0,0]', 'x', 'y')"
        " ON CONFLICT (sequence) DO UPDATE SET total = '[0,0]'",
    ],
)
def test_the_database_itself_refuses_changes(statement, server, ledger):
    ledger.reserve(suite.charge())
    with beside(server, ledger) as connection, pytest.raises(psycopg.Error, match="entr"):
        connection.execute(statement)
    assert ledger.head().sequence == 3
    assert audit(ledger).sound


def beside(server, ledger, user="custodian"):
    """Return a connection to where a ledger is, as people have one."""
    return server.connection("ledgers", user, ledger.url.rpartition("%3D")[2])


def test_the_role_of_those_who_run_can_charge_and_nothing_else(server, ledger):
    schema = ledger.url.rpartition("%3D")[2]
    with beside(server, ledger) as connection:
        connection.execute("DROP ROLE IF EXISTS runs")
        connection.execute("CREATE ROLE runs LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO runs")
        connection.execute("GRANT SELECT, INSERT ON dpkit_entry TO runs")
        connection.execute("GRANT SELECT, UPDATE ON dpkit_turn TO runs")
    url = server.url(schema=schema, user="runs")
    theirs = Ledger.open(url)
    theirs.settle(theirs.reserve(suite.charge()), "released", "0" * 64)
    with beside(server, ledger, "runs") as connection:
        for statement in (
            "DELETE FROM dpkit_entry",
            "ALTER TABLE dpkit_entry DISABLE TRIGGER ALL",
            "DROP TABLE dpkit_entry",
            "DELETE FROM dpkit_turn",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    assert audit(theirs).sound
    with beside(server, ledger) as connection:
        connection.execute("REVOKE INSERT ON dpkit_entry FROM runs")
    with pytest.raises(LedgerUnavailable, match="permission denied"):
        theirs.reserve(suite.charge())
    with beside(server, ledger) as connection:
        connection.execute("DROP OWNED BY runs")
        connection.execute("DROP ROLE runs")


def test_without_the_row_for_which_writers_wait_nobody_writes(server, ledger):
    with beside(server, ledger) as connection:
        connection.execute("DELETE FROM dpkit_turn")
    with pytest.raises(InvalidLedger, match="the row of dpkit_turn"):
        ledger.reserve(suite.charge())


def test_a_table_that_is_no_ledger_is_refused(server):
    schema = server.schema()
    with server.connection("ledgers", schema=schema) as connection:
        connection.execute("CREATE TABLE dpkit_entry (sequence INTEGER)")
    with pytest.raises(InvalidLedger, match="is not a ledger"):
        Ledger.open(server.url(schema=schema))


def test_texts_that_cannot_be_stored_are_refused(ledger):
    with pytest.raises(InvalidLedger), ledger.store.transaction(write=False) as transaction:
        transaction.of_charge("zero \0 byte")
    with pytest.raises(InvalidLedger), ledger.store.transaction(write=False) as transaction:
        transaction.of_charge("half \ud800 a pair")


def test_commits_are_durable_whatever_the_defaults_are(server):
    database = server.database()
    ledger = Ledger.create(server.url(database=database))
    with server.connection(database) as connection:
        connection.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")
    with ledger.store.transaction(write=True) as transaction:
        connection = transaction._connection
        assert connection.execute(text("SHOW synchronous_commit")).scalar_one() == "on"
        assert connection.execute(text("SHOW lock_timeout")).scalar_one() == "1min"


def test_one_writer_at_a_time_and_readers_wait_for_nobody(server, ledger, monkeypatch):
    monkeypatch.setattr(postgresql, "SECONDS", 1)
    with beside(server, ledger) as other, other.transaction():
        other.execute("SELECT * FROM dpkit_turn FOR UPDATE")
        assert copy.copy(ledger).head().sequence == 2
        with pytest.raises(LedgerUnavailable, match="lock timeout"):
            pickle.loads(pickle.dumps(ledger)).reserve(suite.charge())
    assert suite.granted(ledger) == 10


def test_a_client_that_falls_silent_is_cut_off(ledger, monkeypatch):
    monkeypatch.setattr(postgresql, "SECONDS", 1)

    def silent():
        with ledger.store.transaction(write=True) as transaction:
            time.sleep(1.3)
            transaction.last()

    with pytest.raises(InDoubt, match="idle-in-transaction"):
        silent()
    assert suite.granted(ledger) == 10


def ended(server):
    """End all connections to ledgers, as an operator or a broken network does; return how many there were."""
    with server.connection("postgres") as connection:
        query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'ledgers'"
        return connection.execute(query).fetchone()[0]


@pytest.mark.parametrize("moment", ["append", "last", "of_charge"])
def test_a_connection_that_is_lost_within_a_transaction_charges_once(moment, server, ledger, monkeypatch):
    method, cuts = getattr(postgresql._Transaction, moment), []

    def cut(self, *arguments):
        result = method(self, *arguments)
        if not cuts:
            cuts.append(ended(server))
        return result

    monkeypatch.setattr(postgresql._Transaction, moment, cut)
    reservation = ledger.reserve(suite.charge())
    assert cuts == [1]
    assert reservation.witness.sequence == 3
    assert ledger.statement("diamonds").total[0] == 100_000_000
    assert audit(ledger).sound


def test_an_answer_that_is_lost_after_the_commit_charges_once(server, ledger, monkeypatch):
    commit, lost = postgresql.Connection.commit, []

    def unheard(self):
        commit(self)
        if not lost:
            lost.append(self)
            raise postgresql.exc.OperationalError(
                "COMMIT", {}, psycopg.OperationalError("the answer was lost")
            )

    monkeypatch.setattr(postgresql.Connection, "commit", unheard)
    reservation = ledger.reserve(suite.charge())
    assert len(lost) == 1
    assert reservation.witness.sequence == 3
    assert [entry.kind for entry in ledger.entries()] == ["ledger", "account", "reserved"]


def test_a_server_that_loses_its_power_keeps_what_it_answered(server, ledger):
    reservation = ledger.reserve(suite.charge())
    server.stop()
    with pytest.raises(LedgerUnavailable):
        ledger.reserve(suite.charge())
    with pytest.raises(LedgerUnavailable):
        ledger.settle(reservation, "released", "0" * 64)
    server.start()
    assert ledger.statement("diamonds").total[0] == 100_000_000
    ledger.settle(reservation, "released", "0" * 64)
    assert audit(ledger).sound
    assert suite.granted(ledger) == 9


def test_a_server_that_does_not_wait_for_its_disk_is_refused(server, ledger):
    server.stop()
    server.start("fsync=off")
    try:
        with pytest.raises(InvalidLedger, match="fsync = off"):
            ledger.reserve(suite.charge())
        assert ledger.head().sequence == 2
    finally:
        server.stop()
        server.start()


def test_a_server_that_is_read_only_admits_nothing(server):
    database = server.database()
    ledger = Ledger.create(server.url(database=database))
    ledger.add(suite.account())
    with server.connection("postgres") as connection:
        connection.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    with pytest.raises(LedgerUnavailable, match="read-only"):
        ledger.reserve(suite.charge())
    assert ledger.statement("diamonds").total == (0, 0)


def test_a_database_that_was_restored_is_refused_by_whoever_saw_more(server, ledger):
    witness = ledger.reserve(suite.charge()).witness
    seen = copy.copy(ledger)
    with beside(server, ledger) as connection:
        connection.execute("ALTER TABLE dpkit_entry DISABLE TRIGGER ALL")
        connection.execute("DELETE FROM dpkit_entry WHERE sequence = 3")
        connection.execute("ALTER TABLE dpkit_entry ENABLE TRIGGER ALL")
    with pytest.raises(InvalidLedger, match="no longer holds entry 3"):
        seen.reserve(suite.charge())
    forgetful = Ledger.open(ledger.url)
    assert audit(forgetful).sound
    document = {"certificate": {"witness": as_document(witness)}}
    assert [finding.fault for finding in audit(forgetful, [("r", document)]).findings] == ["cut short"]


def test_a_ledger_moves_from_a_file_and_back(server, tmp_path):
    filed = Ledger.create(str(tmp_path / "ledger.db"))
    filed.add(suite.account())
    spent = filed.settle(filed.reserve(suite.charge(0.7)), "released", "0" * 64)
    moved = move_to(filed, server.url())
    assert moved.id == filed.id
    assert [entry.kind for entry in moved.entries(after=4)] == ["moved", "arrived"]
    assert divergence(filed, moved) == 6
    assert next(moved.entries(after=3)) == spent
    with pytest.raises(InvalidLedger, match=r"the ledger has left .* for postgresql://custodian"):
        Ledger.open(filed.url).reserve(suite.charge(0.1))
    with pytest.raises(OverBudget):
        moved.reserve(suite.charge(0.4))
    moved.reserve(suite.charge(0.3))
    assert audit(moved).sound
    back = move_to(moved, str(tmp_path / "again.db"))
    assert back.statement("diamonds").total[0] == 10**9
    assert audit(back).sound


def test_a_finished_move_to_a_server_is_not_repeated_though_the_tables_are_emptied(server, tmp_path):
    filed, url = Ledger.create(str(tmp_path / "ledger.db")), server.url()
    filed.add(suite.account())
    move_to(filed, url)
    again = functools.partial(move_to, filed)
    for _ in range(2):
        with pytest.raises(InvalidLedger, match=r"has moved to postgresql://custodian.* already"):
            again(url)
        with server.connection("ledgers", schema=url.rpartition("%3D")[2]) as connection:
            connection.execute("ALTER TABLE dpkit_entry DISABLE TRIGGER ALL")
            connection.execute("TRUNCATE dpkit_entry")
        again = functools.partial(move_to, Ledger.open(filed.url))


def test_the_newest_entries_of_a_server_are_read_first(server):
    ledger = Ledger.create(server.url())
    for name in ("diamonds", "emeralds"):
        ledger.add(suite.account(name))
    for _ in range(3):
        ledger.settle(ledger.reserve(suite.charge()), "failed")
    assert [entry.sequence for entry in ledger.newest(page=4)] == list(range(9, 0, -1))
    assert [entry.sequence for entry in ledger.newest("diamonds", page=2)] == [9, 8, 7, 6, 5, 4, 2]
    assert (ledger.count("diamonds"), ledger.count("diamonds", "reserved")) == (7, 3)
    assert [each.account.name for each in ledger.accounts()] == ["diamonds", "emeralds"]


def test_the_commands_of_the_how_to_run(server, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    root = Path(__file__).parents[4]
    page = (root / "docs/howto/move-to-postgresql.md").read_text(encoding="utf-8")
    shutil.copytree(root / "docs/data", tmp_path / "docs/data")
    here = server.url()
    blocks = re.findall(r"^```(?:text|sh)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    moving = next(
        number for number, line in enumerate(lines) if line.startswith("dpkit ledger move old.db postgresql")
    )
    for number, line in enumerate(lines):
        if number == moving:
            here = server.url()
        if "dpkit ledger move old.db new.db" in line:
            break  # which the page's own test runs
        command = line.replace("postgresql://custodian@db.example/privacy", f"'{here}'")
        done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert Ledger.open(here).head().sequence == 6


def test_it_behaves_like_the_model(server):
    hypothesis = pytest.importorskip("hypothesis")
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

    class Model(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.ledger = Ledger.create(server.url())
            self.ledger.add(suite.account())
            self.left = 10

        @rule(tenths=st.integers(1, 4), outcome=st.sampled_from(["released", "failed"]))
        def run(self, tenths, outcome):
            try:
                self.ledger.settle(self.ledger.reserve(suite.charge(tenths / 10)), outcome)
            except OverBudget:
                assert tenths > self.left
            else:
                self.left -= tenths
                assert self.left >= 0

        @rule()
        def reopen(self):
            self.ledger = Ledger.open(self.ledger.url)

        def teardown(self):
            assert self.ledger.statement("diamonds").total[0] == (10 - self.left) * 10**8
            assert audit(self.ledger).sound

    settings = hypothesis.settings(
        max_examples=10,
        stateful_step_count=15,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    run_state_machine_as_test(Model, settings=settings)
