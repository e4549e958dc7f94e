"""What a ledger cannot say of itself, releases can: each carries the hash of the entry that paid for it."""

import copy
import json
import shutil
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from dpkit_command_ledger.audit import audit, divergence
from dpkit_command_ledger.moving import move_to
from dpkit_ledger_sqlite import promises as suite

from dpkit_core import Budget
from dpkit_core.files.documents import as_document, digest
from dpkit_core.ledger.accounts import Account
from dpkit_core.ledger.entries import Charge, Entry, planned
from dpkit_core.ledger.ledger import Ledger
from dpkit_core.privacy.filters import FILTERS, filter_for


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger.create(str(tmp_path / "ledger.db"))
    ledger.add(suite.account())
    return ledger


def released(ledger, name, *, settle=True, model=0.0):
    """Return name and document of a release that was paid for, as a run of dpkit leaves it behind."""
    plain = suite.charge()
    certificate = {
        "accountant": "basic",
        "budget": {"epsilon": 0.1, "delta": 0.0},
        "delta": 0.0,
        "epsilon": 0.1,
        "events": [{"stage": "selection", "type": "PureDP", "epsilon": 0.1}],
        "neighboring": "add-remove",
        "parts": [{"role": "selector", "name": name}],
        "schema": suite.SCHEMA.to_document(),
    }
    charge = attrs.evolve(plain, plan=digest(planned(certificate)))
    reservation = ledger.reserve(charge)
    document = {
        "model": {"intercept": model},
        "certificate": certificate | {"witness": as_document(reservation.witness)},
    }
    if settle:
        ledger.settle(reservation, "released", digest(document))
    return name, document


def faults(found):
    return [(finding.fault, finding.sequence, finding.release) for finding in found.findings]


def test_a_ledger_and_its_releases_agree(ledger):
    releases = [released(ledger, f"r{number}.json") for number in range(3)]
    found = audit(ledger, reversed(releases))
    assert found.sound
    assert found.confirmed == ("r0.json", "r1.json", "r2.json")
    assert found.totals == {"diamonds": (300_000_000, 0)}
    assert found.head == ledger.head()
    assert not found.findings


def test_a_run_that_was_not_settled_is_told_and_no_fault(ledger):
    release = released(ledger, "r.json", settle=False)
    found = audit(ledger, [release])
    assert found.sound
    assert found.confirmed == ()  # nothing shows that it is what was released
    assert faults(found) == [("unsettled", 3, None), ("unsettled", 3, "r.json")]
    release[1]["model"]["intercept"] = 7.0
    assert audit(ledger, [release]).confirmed == ()


def test_a_restored_backup_is_found(ledger, tmp_path):
    releases = [released(ledger, "a.json")]
    backup = shutil.copy(ledger.url, tmp_path / "backup.db")
    releases += [released(ledger, "b.json"), released(ledger, "c.json")]
    old = Ledger.open(shutil.copy(backup, ledger.url))
    assert audit(old).sound  # by itself, nothing can be seen
    found = audit(old, releases)
    assert found.confirmed == ("a.json",)
    assert faults(found) == [("cut short", 5, "b.json"), ("cut short", 5, "c.json")]
    assert "the ledger ends with entry 4; b.json was paid for by entry 5" in found.findings[0].sentence


def test_a_backup_that_was_used_again_is_found_with_the_first_divergence(ledger, tmp_path):
    releases = [released(ledger, f"{name}.json") for name in "ab"]
    backup = shutil.copy(ledger.url, tmp_path / "backup.db")
    releases += [released(ledger, f"{name}.json") for name in "cd"]
    old = Ledger.open(shutil.copy(backup, ledger.url))
    releases += [released(old, f"{name}.json") for name in "CDE"]
    found = audit(old, releases)
    assert found.confirmed == ("a.json", "b.json", "C.json", "D.json", "E.json")
    # The first that disagrees is entry 7, and the last that agrees before it is entry 5.
    assert faults(found)[0] == ("forked", 6, "c.json")
    assert "differ from an entry between 6 and 7 on" in found.findings[0].sentence
    assert {fault for fault, *_ in faults(found)} == {"forked"}


def test_two_machines_with_copies_of_one_ledger_are_found_on_both(ledger, tmp_path):
    shared = [released(ledger, "shared.json")]
    one, other = ledger, Ledger.open(shutil.copy(ledger.url, tmp_path / "copy.db"))
    releases = [*shared, released(one, "one.json"), released(other, "other.json")]
    for here, mine, theirs in ((one, "one.json", "other.json"), (other, "other.json", "one.json")):
        found = audit(here, releases)
        assert found.confirmed == ("shared.json", mine)
        assert faults(found) == [("forked", 4, theirs)]
    assert divergence(one, other) == 5
    assert divergence(one, Ledger.open(one.url)) is None
    released(one, "more.json")
    assert divergence(one, Ledger.open(one.url)) is None
    assert divergence(Ledger.open(shutil.copy(one.url, tmp_path / "again.db")), one) is None


def unlocked(ledger):
    """Return a connection that may change what is written, as the owner of the file can."""
    connection = sqlite3.connect(ledger.url, isolation_level=None)
    for what, names in (
        ("TRIGGER", ("never_changed", "never_deleted", "at_the_end")),
        ("INDEX", ("opened_once", "reserved_once", "settled_once")),
    ):
        for name in names:
            connection.execute(f"DROP {what} IF EXISTS {name}")
    return closing(connection)


def test_a_deleted_tail_is_found(ledger):
    releases = [released(ledger, f"{name}.json") for name in "abc"]
    with unlocked(ledger) as connection:
        connection.execute("DELETE FROM entry WHERE sequence > 6")
    found = audit(Ledger.open(ledger.url), releases)
    assert faults(found) == [("cut short", 7, "c.json")]


def test_a_deleted_entry_is_found_without_releases(ledger):
    for name in "abc":
        released(ledger, name)
    with unlocked(ledger) as connection:
        connection.execute("DELETE FROM entry WHERE sequence = 5")
    found = audit(Ledger.open(ledger.url))
    assert not found.sound
    assert faults(found)[0] == ("damaged", 6, None)
    assert "follows entry 4: the entries between them are missing" in found.findings[0].sentence


@pytest.mark.parametrize(
    "change",
    [
        "total = '[0,0]'",
        "body = replace(body, '0.1', '0.01')",
        "kind = 'refused'",
        "charge = 'x'",
        "account = 'x'",
        "hash = substr(hash, 2) || '0'",
        "previous = substr(previous, 2)",
    ],
)
def test_a_changed_entry_is_found_without_releases(ledger, change):
    for name in "abc":
        released(ledger, name)
    with unlocked(ledger) as connection:
        connection.execute(f"UPDATE entry SET {change} WHERE sequence = 5")
    found = audit(Ledger.open(ledger.url))
    assert faults(found)[0][:2] == ("damaged", 5)


def rewritten(ledger, change):
    """Write the whole ledger anew, changed, with hashes that fit: what the owner of its file can do."""
    last, rows = None, []
    for entry in ledger.entries():
        facts, ticks, kind = change(entry.sequence, entry.facts, list(entry.ticks), entry.kind)
        last = Entry.after(last, kind, facts, account=entry.account, charge=entry.charge, total=tuple(ticks))
        rows.append(attrs.astuple(last))
    with unlocked(ledger) as connection:
        connection.execute("DELETE FROM entry")
        connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return Ledger.open(ledger.url)


def test_a_ledger_that_was_written_anew_with_smaller_charges_is_found(ledger):
    release = released(ledger, "a.json")

    def cheaper(sequence, facts, ticks, kind):
        if sequence == 3:
            facts["cost"] = [1, 0]
        return facts, [min(1, each) for each in ticks], kind

    cheap = rewritten(ledger, cheaper)
    assert ("miscounted", 3, None) in faults(audit(cheap))
    assert "its events cost [100000000, 0]" in audit(cheap).findings[0].sentence
    # With events that cost less, too, it is consistent, and contradicts the release.

    def consistent(sequence, facts, ticks, kind):
        if sequence == 3:
            facts["epsilon"] = 1e-9
        return facts, ticks, kind

    cheap = rewritten(cheap, consistent)
    assert audit(cheap).sound
    assert faults(audit(cheap, [release])) == [("forked", 1, "a.json")]


@pytest.mark.parametrize(
    ("sequence", "sentence", "change"),
    [
        (5, "charges to account diamonds add up to", lambda facts, ticks, kind: (facts, [1, 0], kind)),
        (
            2,
            "limits above its budget",
            lambda facts, ticks, kind: (facts | {"limits": [10**12, 1]}, ticks, kind),
        ),
        (3, "settles a charge that is not open", lambda facts, ticks, kind: (facts, ticks, "failed")),
        (2, "of an account that was never opened", lambda facts, ticks, kind: (facts, ticks, "reserved")),
        (
            4,
            "reserves charge",
            lambda facts, ticks, kind: (
                {"cost": [0, 0], "epsilon": 1e-9, "delta": 0.0, "events": []},
                ticks,
                "reserved",
            ),
        ),
    ],
)
def test_a_ledger_that_does_not_add_up_is_found(ledger, sequence, sentence, change):
    for name in "ab":
        released(ledger, name)
    changed = rewritten(ledger, lambda number, *entry: change(*entry) if number == sequence else entry)
    first = audit(changed).findings[0]
    assert (first.fault, first.sequence) == ("miscounted", sequence)
    assert sentence in first.sentence


def test_a_charge_above_the_limit_is_found(tmp_path):
    ledger = Ledger.create(str(tmp_path / "ledger.db"))
    ledger.add(suite.account(epsilon=0.2))
    for name in "ab":
        released(ledger, name)

    def smaller(sequence, facts, ticks, kind):
        if sequence == 2:
            facts["budget"]["epsilon"], facts["limits"][0] = 0.15, 150_000_000
        return facts, ticks, kind

    found = audit(rewritten(ledger, smaller))
    assert faults(found) == [("miscounted", 5, None)]
    assert "above its limit: epsilon 0.2 of 0.15" in found.findings[0].sentence


def test_entries_that_were_merged_by_hand_are_found(ledger, tmp_path):
    releases = [released(ledger, "shared")]
    other = Ledger.open(shutil.copy(ledger.url, tmp_path / "copy.db"))
    releases += [released(ledger, "one"), released(other, "other")]
    ours, theirs = list(ledger.entries()), list(other.entries(after=4))

    carelessly = [attrs.evolve(theirs[0], sequence=7, previous=ours[-1].hash)]
    with unlocked(ledger) as connection:
        connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", attrs.astuple(carelessly[0]))
    assert faults(audit(Ledger.open(ledger.url)))[0] == ("damaged", 7, None)

    last = ours[-1]
    with unlocked(ledger) as connection:
        connection.execute("DELETE FROM entry WHERE sequence > 6")
        for entry in theirs:  # with totals and hashes that fit
            last = Entry.after(
                last, entry.kind, entry.facts, account="diamonds", charge=entry.charge, total=(300_000_000, 0)
            )
            connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", attrs.astuple(last))
    carefully = Ledger.open(ledger.url)
    assert audit(carefully).sound
    assert faults(audit(carefully, releases)) == [("forked", 4, "other")]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda d: d["model"].update(intercept=1.0), "altered"),
        (lambda d: d["certificate"].update(epsilon=0.01), "altered"),
        (lambda d: d["certificate"]["events"].clear(), "altered"),
        (lambda d: d["certificate"]["witness"].update(total=[1, 0]), "altered"),
        (lambda d: d["certificate"]["witness"].update(limits=[5, 0]), "altered"),
        (lambda d: d["certificate"]["witness"].update(charge="x"), "altered"),
        (lambda d: d["certificate"]["witness"].update(account="x"), "altered"),
        (lambda d: d["certificate"]["witness"].update(sequence=0), "altered"),
        (lambda d: d["certificate"]["witness"].update(sequence="3"), "altered"),
        (lambda d: d["certificate"]["witness"].update(total=None), "altered"),
        (lambda d: d["certificate"]["witness"].update(extra=1), "altered"),
        (lambda d: d["certificate"]["witness"].update(sequence=4), "forked"),
        (lambda d: d["certificate"]["witness"].update(head="0" * 64), "forked"),
        (lambda d: d["certificate"]["witness"].update(ledger="0" * 32), "elsewhere"),
        (lambda d: d["certificate"].pop("witness"), "elsewhere"),
        (lambda d: d.pop("certificate"), "altered"),
    ],
)
def test_an_altered_release_is_found(ledger, change, fault):
    name, document = released(ledger, "a.json")
    changed = copy.deepcopy(document)
    change(changed)
    found = audit(ledger, [(name, changed)])
    assert not found.sound
    assert [finding.fault for finding in found.findings] == [fault]
    assert found.findings[0].release == "a.json"
    assert audit(ledger, [(name, json.loads(json.dumps(document, indent=7)))]).sound


def test_two_releases_for_one_charge_are_found(ledger):
    _, first = released(ledger, "a.json", settle=False)
    second = copy.deepcopy(first)
    second["model"]["intercept"] = 1.0
    found = audit(ledger, [("a.json", first), ("b.json", second)])
    assert faults(found) == [("unsettled", 3, None), ("unsettled", 3, "a.json"), ("copied", 3, "b.json")]
    assert "a.json were both paid for by entry 3" in found.findings[2].sentence


def test_a_release_of_a_run_that_failed_is_found(ledger):
    name, document = released(ledger, "a.json", settle=False)
    (reserved,) = ledger.entries(after=2)
    charge = Charge("diamonds", suite.charge().claim, suite.SCHEMA, "0" * 64, id=reserved.charge)
    object.__setattr__(charge, "nonce", reserved.facts["nonce"])
    ledger.settle(ledger.reserve(charge), "vetoed")
    found = audit(ledger, [(name, document)])
    assert faults(found) == [("altered", 3, "a.json")]
    assert "settles the run as vetoed" in found.findings[0].sentence


@pytest.mark.parametrize("measure", FILTERS)
def test_every_measure_is_counted_again(measure, tmp_path):
    budget = Budget(1.0, 1e-6)
    ledger = Ledger.create(str(tmp_path / "ledger.db"))
    ledger.add(Account("diamonds", suite.SCHEMA, budget, filter_for(measure, budget)))
    releases = [released(ledger, f"{number}.json") for number in range(3)]
    found = audit(ledger, releases)
    assert found.sound, found.findings
    assert found.totals["diamonds"] == ledger.statement("diamonds").total


def test_a_hundred_thousand_entries_are_read_in_pages(ledger, monkeypatch):
    for name in "abcdefg":
        released(ledger, name)
    monkeypatch.setattr("dpkit_core.ledger.ledger._PAGE", 2)
    assert [entry.sequence for entry in ledger.entries()] == list(range(1, 17))
    assert audit(ledger).sound
    assert Path(ledger.url).is_file()


def test_what_is_written_where_the_ledger_was_no_longer_kept_is_found(ledger, tmp_path):
    shared = released(ledger, "shared.json")
    moved = move_to(ledger, str(tmp_path / "new.db"))
    after = released(moved, "after.json")
    assert audit(moved, [shared, after]).confirmed == ("shared.json", "after.json")
    assert audit(moved).sound
    assert audit(Ledger.open(ledger.url), [shared, after]).findings[0].fault == "cut short"
    left, arrived = ledger.entries(after=4)
    charge = ("reserved", suite.charge().to_document((1, 0)))
    for last, number in ((left, 6), (arrived, 7)):
        late = Entry.after(last, *charge, account="diamonds", charge="x")
        with unlocked(ledger) as connection:
            connection.execute("DELETE FROM entry WHERE sequence > ?", (last.sequence,))
            connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", attrs.astuple(late))
        assert faults(audit(Ledger.open(ledger.url)))[0] == ("damaged", number, None)
        with unlocked(ledger) as connection:
            connection.execute("DELETE FROM entry WHERE sequence > ?", (last.sequence,))
            row = attrs.astuple(arrived)
            connection.execute("INSERT OR IGNORE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def test_what_a_ledger_never_left_cannot_be_said_to_have_arrived(ledger):
    (last,) = ledger.entries(after=1)
    late = Entry.after(last, "moved", {"arrived": "0" * 64, "at": "now", "to": "elsewhere"})
    with unlocked(ledger) as connection:
        connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", attrs.astuple(late))
    assert faults(audit(Ledger.open(ledger.url)))[0] == ("damaged", 3, None)


@pytest.mark.slow
def test_an_audit_holds_no_entry_that_no_release_names(tmp_path):
    def peak(runs):
        ledger = Ledger.create(str(tmp_path / f"{runs}.db"))
        ledger.add(suite.account(epsilon=1e6))
        long = {"parts": ["x" * 3000]}
        with ledger.store.transaction(write=True) as transaction:
            last, total = transaction.last(), 0
            for _ in range(runs):
                charge = suite.charge(about=long)
                total += 10**8
                facts = {"account": "diamonds", "charge": charge.id, "total": (total, 0)}
                last = Entry.after(last, "reserved", charge.to_document((10**8, 0)), **facts)
                transaction.append(last)
                last = Entry.after(last, "failed", {"at": "now", "release": None}, **facts)
                transaction.append(last)
        tracemalloc.start()
        assert audit(ledger).sound
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    # Both are longer than a page of entries, which is what is held; a run of these has 4 000 bytes.
    assert peak(3000) - peak(1500) < 1500 * 400
