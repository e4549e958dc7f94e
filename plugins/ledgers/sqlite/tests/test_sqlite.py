"""The promises of every backend, and what is this one's alone."""

import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from dpkit_command_ledger.audit import audit
from dpkit_ledger_sqlite import SqliteStore
from dpkit_ledger_sqlite import promises as suite
from dpkit_ledger_sqlite.sqlite import file_system

from dpkit_core.errors import InvalidLedger, LedgerUnavailable
from dpkit_core.ledger.ledger import Ledger
from dpkit_core.ledger.store import InDoubt

# Many processes, each of which imports dpkit.
HEAVY = {
    suite.check_killed_at_any_moment,
    suite.check_killed_runs_are_charged,
}
# Tried below, in more rounds.
RACES = suite.check_racers_never_spend_too_much


@pytest.fixture
def files(tmp_path):
    numbers = iter(range(1000))
    return lambda: Ledger.create(str(tmp_path / f"ledger{next(numbers)}.db"))


@pytest.mark.first(5)
@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, marks=[pytest.mark.slow] if check in HEAVY else [])
        for check in suite.CHECKS
        if check is not RACES
    ],
    ids=lambda check: check.__name__,
)
def test_a_file_of_sqlite_keeps_every_promise(check, files):
    check(files)


@pytest.mark.slow
def test_races_are_never_won_by_one_too_many(files):
    suite.check_racers_never_spend_too_much(files, rounds=10)


@pytest.mark.exhaustive
def test_a_thousand_races_are_never_won_by_one_too_many(files):
    suite.check_racers_never_spend_too_much(files, rounds=1000)


def test_a_file_is_never_created_over_something_else(tmp_path, files):
    ledger = files()
    with pytest.raises(InvalidLedger, match="is a ledger already"):
        Ledger.create(ledger.url)
    with pytest.raises(InvalidLedger, match=r"there is no ledger .*dpkit ledger create none\.db"):
        Ledger.open(str(tmp_path / "none.db"))
    with pytest.raises(InvalidLedger, match="there is no folder"):
        Ledger.create(str(tmp_path / "none" / "ledger.db"))
    text = tmp_path / "notes.txt"
    text.write_text("not a database" * 100)
    for action in (Ledger.create, Ledger.open):
        with pytest.raises(InvalidLedger, match="is not a ledger, or is damaged"):
            action(str(text))
    assert text.read_text() == "not a database" * 100
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE entry (sequence)")
    for action in (Ledger.create, Ledger.open):
        with pytest.raises(InvalidLedger, match="another kind of database"):
            action(str(other))


def test_what_a_crash_left_of_a_creation_is_created_anew(tmp_path):
    path = tmp_path / "ledger.db"
    path.touch()
    with pytest.raises(InvalidLedger, match="another kind of database"):
        Ledger.open(str(path))
    SqliteStore.create(str(path))
    with pytest.raises(InvalidLedger, match="holds no ledger"):
        Ledger.open(str(path))
    assert Ledger.open(Ledger.create(str(path)).url).head().sequence == 1


def test_the_database_itself_refuses_changes(files):
    ledger = files()
    ledger.add(suite.account())
    ledger.reserve(suite.charge())
    with closing(sqlite3.connect(ledger.url, isolation_level=None)) as connection:
        for statement in (
            "DELETE FROM entry",
            "DELETE FROM entry WHERE sequence = 3",
            "UPDATE entry SET total = '[0,0]' WHERE sequence = 3",
            "INSERT INTO entry VALUES (5, 'reserved', 'diamonds', 'x', '{}', '[0,0]', 'x', 'y')",
            "INSERT INTO entry VALUES (4, 'reserved', 'diamonds', 'x', '{}', '[0,0]', 'x', 'y')",
            "INSERT OR REPLACE INTO entry VALUES (3, 'reserved', 'diamonds', 'x', '{}', '[0,0]', 'x', 'y')",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(statement)
    assert ledger.head().sequence == 3


def test_every_connection_is_as_safe_as_the_first(files):
    with files().store._connection("rw") as connection:
        settings = {
            pragma: connection.execute(f"PRAGMA {pragma}").fetchone()[0]
            for pragma in ("journal_mode", "synchronous")
        }
    assert settings == {"journal_mode": "delete", "synchronous": 3}  # 3 is EXTRA


def test_a_journal_that_may_lose_a_commit_is_not_accepted(files):
    ledger = files()
    ledger.add(suite.account())
    with closing(sqlite3.connect(ledger.url)) as reader:
        assert reader.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        reader.execute("SELECT * FROM entry").fetchone()
        with pytest.raises((InvalidLedger, LedgerUnavailable), match=r"journal mode wal|locked"):
            attrs.evolve(ledger.store).transaction(write=True).__enter__()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits and permissions are those of POSIX")
def test_on_a_full_disk_nothing_is_charged_and_no_run_begins(files):
    ledger = files()
    ledger.add(suite.account())
    script = f"""
import resource, sys, pickle
sys.path[:] = {sys.path!r}
from dpkit_core.errors import DpkitError, LedgerUnavailable
ledger, charges = pickle.loads(sys.stdin.buffer.read())
size = __import__("os").path.getsize(ledger.url)
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
try:
    for charge in charges:
        ledger.reserve(charge)
        print("granted")
except LedgerUnavailable as error:
    print(type(error).__name__)
"""
    charges = [suite.charge(1e-9, about={"why": "x" * 3000}) for _ in range(20)]
    done = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps((ledger, charges)), capture_output=True, check=True
    )
    *before, last = done.stdout.decode().split()
    assert last == "LedgerUnavailable"
    assert ledger.statement("diamonds").total == (len(before), 0)
    assert audit(ledger).sound
    ledger.reserve(suite.charge())


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="root may write everything")
def test_a_ledger_that_cannot_be_written_admits_nothing(files):
    _admits_nothing(files(), lambda path: path.chmod(0o444))


def test_a_ledger_that_was_made_read_only_admits_nothing(files, monkeypatch):
    ledger = files()
    ledger.add(suite.account())
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda file, **options: connect(file.replace("mode=rw", "mode=ro"), **options)
    )
    assert ledger.statement("diamonds").total == (0, 0)
    with pytest.raises(LedgerUnavailable, match="readonly"):
        ledger.reserve(suite.charge())


def _admits_nothing(ledger, damage):
    ledger.add(suite.account())
    damage(Path(ledger.url))
    with pytest.raises((InvalidLedger, LedgerUnavailable)):
        ledger.reserve(suite.charge())


@pytest.mark.slow
def test_a_damaged_page_is_noticed_before_anything_is_charged(files):
    ledger = files()
    ledger.add(suite.account())
    for _ in range(3):
        ledger.reserve(suite.charge())
    path = Path(ledger.url)
    content = path.read_bytes()
    for place in range(4096 - 200, len(content), 997):
        damaged = bytearray(content)
        damaged[place : place + 40] = bytes(byte ^ 0x5A for byte in damaged[place : place + 40])
        path.write_bytes(bytes(damaged))
        try:
            found = not audit(Ledger.open(str(path))).sound
        except (InvalidLedger, LedgerUnavailable):
            found = True
        try:
            charged = Ledger.open(str(path)).reserve(suite.charge(1e-9)).witness
        except (InvalidLedger, LedgerUnavailable):
            continue
        # Damage elsewhere than in what the next charge rests on may pass it, and not the audit.
        assert charged.total[0] == 300_000_001
        assert found or audit(Ledger.open(str(path))).sound


def test_a_ledger_that_lost_a_page_admits_nothing(files):
    _admits_nothing(files(), lambda path: path.write_bytes(path.read_bytes()[:4096]))


def test_a_ledger_of_zeros_admits_nothing(files):
    _admits_nothing(files(), lambda path: path.write_bytes(bytes(len(path.read_bytes()))))


def test_order_is_by_number_whatever_the_clock_says(files, monkeypatch):
    ledger = files()
    ledger.add(suite.account())
    times = iter(["2026-03-01T12:00:00+00:00", "1970-01-01T00:00:00+00:00"])
    monkeypatch.setattr("dpkit_core.ledger.ledger.now", lambda: next(times))
    ledger.settle(ledger.reserve(suite.charge()), "released")
    ledger.settle(ledger.reserve(suite.charge()), "failed")
    assert [entry.sequence for entry in ledger.entries()] == [1, 2, 3, 4, 5, 6]
    assert audit(ledger).sound


def test_an_old_copy_in_its_place_is_refused_by_whoever_saw_more(files, tmp_path):
    ledger = files()
    ledger.add(suite.account())
    ledger.reserve(suite.charge())
    backup = shutil.copy(ledger.url, tmp_path / "backup.db")
    ledger.reserve(suite.charge())
    shutil.copy(backup, ledger.url)
    for handle in (ledger, pickle.loads(pickle.dumps(ledger))):
        with pytest.raises(InvalidLedger, match="no longer holds entry 4 as it was"):
            handle.reserve(suite.charge())
    # Who opens it anew cannot know: releases can, see test_audit.
    Ledger.open(ledger.url).reserve(suite.charge())
    with pytest.raises(InvalidLedger, match="no longer holds entry 4 as it was"):
        ledger.reserve(suite.charge())


MOUNTS = r"""
22 27 0:21 / / rw - ext4 /dev/sda1 rw
23 22 0:22 / /disk rw shared:1 - nfs4 server:/disk rw
24 22 0:23 / /disk/ann/local\040disk rw - xfs /dev/sdb rw
25 22 0:24 / /net/photos rw - fuse.encfs encfs rw
26 22 0:25 / /net/share rw - cifs //server/share rw
27 22 0:26 / /net/cloud rw - fuse.sshfs ann@server: rw
28 26 0:27 / /net/share rw - ext4 /dev/sdc rw
""".strip()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/ledger.db", "ext4"),
        ("/disks/ledger.db", "ext4"),
        ("/disk/ann/ledger.db", "nfs4"),
        ("/disk/ann/local disk/ledger.db", "xfs"),
        ("/net/cloud/a/b/ledger.db", "fuse.sshfs"),
        ("/net/share/ledger.db", "ext4"),  # mounted over the share
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path, kind):
    assert file_system(Path(path), MOUNTS) == kind


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="only Linux says so")
def test_the_kernel_says_what_a_file_is_on(tmp_path):
    assert file_system(tmp_path) is not None


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "lustre", "ceph"])
def test_a_network_file_system_is_refused(kind, files, monkeypatch):
    ledger = files()
    monkeypatch.setattr("dpkit_ledger_sqlite.sqlite.file_system", lambda path: kind)
    for action in (files, lambda: Ledger.open(ledger.url)):
        with pytest.raises(InvalidLedger, match=rf"network file system \({kind}\).*PostgreSQL"):
            action()


@pytest.mark.parametrize("kind", ["ext4", "tmpfs", "xfs", "overlay", "afs2", None])
def test_a_local_file_system_is_accepted(kind, files, monkeypatch):
    monkeypatch.setattr("dpkit_ledger_sqlite.sqlite.file_system", lambda path: kind)
    files()


def test_a_file_system_that_may_be_anywhere_is_warned_about(files, monkeypatch):
    monkeypatch.setattr("dpkit_ledger_sqlite.sqlite.file_system", lambda path: "fuse.encfs")
    with pytest.warns(RuntimeWarning, match="if other machines can access it"):
        files()


def test_a_file_with_two_names_is_refused(files, tmp_path):
    ledger = files()
    os.link(ledger.url, tmp_path / "other.db")
    for name in (ledger.url, str(tmp_path / "other.db")):
        with pytest.raises(InvalidLedger, match=r"has 2 names \(hard links\)"):
            Ledger.open(name)
    (tmp_path / "other.db").unlink()
    assert Ledger.open(ledger.url).id == ledger.id


def test_a_symbolic_link_is_the_file_that_it_names(files, tmp_path):
    ledger = files()
    (tmp_path / "link.db").symlink_to(ledger.url)
    linked = Ledger.open(str(tmp_path / "link.db"))
    assert linked.store == ledger.store


def test_what_was_lost_and_then_unavailable_may_have_been_written(files, monkeypatch):
    ledger = files()
    ledger.add(suite.account())
    flaky = suite._troubled(ledger, "after", InDoubt)
    transaction = flaky.store.transaction

    def gone(*, write):
        if write and not flaky.store._trouble:
            raise LedgerUnavailable("the disk is gone; nothing was written to it")
        return transaction(write=write)

    monkeypatch.setattr(flaky.store, "transaction", gone)
    with pytest.raises(LedgerUnavailable, match="may have been recorded") as refusal:
        flaky.reserve(suite.charge())
    assert "nothing was written" not in str(refusal.value)
    assert ledger.statement("diamonds").total[0] == 100_000_000


def test_a_file_is_also_named_by_the_scheme_of_its_backend(tmp_path):
    ledger = Ledger.create(f"sqlite://{tmp_path}/ledger.db")
    assert Ledger.open(str(tmp_path / "ledger.db")).id == ledger.id
