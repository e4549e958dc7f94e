"""``dpkit ledger``, and runs of the command line that an account pays for."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest
from dpkit_ledger_sqlite import promises as suite

from dpkit_core.ledger.ledger import Ledger
from dpkit_core.pipeline import policy

PARTS = "--scorer large --selector best --accountant basic --delta 0"
RUN = tuple(f"compose diamonds.csv --schema facts.toml -k 2 {PARTS}".split())
PAID = ("--ledger", "ledger.db", "--account", "diamonds")

pytestmark = pytest.mark.usefixtures("parts")


def create(dpkit, account, epsilon, delta, *, measure="basic", schema="facts.toml"):
    line = f"ledger create ledger.db --schema {schema} --account {account} --measure {measure}"
    return dpkit(*line.split(), "--epsilon", epsilon, "--delta", delta)


@pytest.fixture
def opened(dpkit, folder):
    result = create(dpkit, "diamonds", 2.5, 1e-5)
    assert result.exit_code == 0, result.output
    return result


def words(result):
    return " ".join(result.output.split())


def test_an_account_pays_until_it_is_spent_and_the_audit_knows_every_release(dpkit, opened, folder):
    assert "opened account diamonds" in opened.stderr
    for name in ("a.json", "b.json"):
        result = dpkit(*RUN, *PAID, "--output", name)
        assert result.exit_code == 0, result.output
    assert "Account diamonds has spent epsilon 1 of 2.5" in words(result)
    assert "Charged to account diamonds, entry 5 of ledger" in words(result)
    third = dpkit(*RUN, *PAID, "--output", "c.json")
    assert third.exit_code == 2
    assert "which does not fit" in words(third)
    assert "account diamonds cannot pay for this run" in words(third)
    assert not (folder / "c.json").exists()
    audited = dpkit("ledger", "audit", "ledger.db", "--against", "a.json", "b.json")
    assert audited.exit_code == 0
    assert "2 of 2 releases are charged here, settled, and what was released" in words(audited)


def test_show_says_who_spent_what_and_what_one_more_run_would_cost(dpkit, opened):
    assert "Runs paid by diamonds: 0" in words(dpkit("ledger", "show", "ledger.db"))
    dpkit(*RUN, *PAID, "--save", "plan.toml")
    shown = dpkit("ledger", "show", "ledger.db", "--plan", "plan.toml")
    said = (
        "epsilon 1 of 2.5, delta 0 of 1e-05",
        "40 %",
        "large + best",
        "released",
        "at most 92.5 %, where guessing has 50 %",
        "After one more run of the plan: epsilon 2 of 2.5",
        "Such runs that still fit: 1.",
    )
    for part in said:
        assert part in words(shown)
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
    document = json.loads(
        dpkit("ledger", "show", "ledger.db", "--plan", "plan.toml", "--format", "json").stdout
    )
    assert document["accounts"][0]["total"] == [10**9, 0]
    assert [entry["kind"] for entry in document["entries"]] == ["released", "reserved", "account"]
    assert document["not_shown"] == 0
    assert document["price"]["runs"] == 1


@pytest.fixture(scope="module")
def sixty(tmp_path_factory):
    """Sixty runs of which one was never settled, beside the two entries of the ledger and the account."""
    ledger = Ledger.create(str(tmp_path_factory.mktemp("sixty") / "ledger.db"))
    ledger.add(suite.account(epsilon=1000.0))
    for number in range(60):
        reservation = ledger.reserve(suite.charge(0.001 * (number + 1)))
        if number != 58:
            ledger.settle(reservation, "released" if number % 2 else "failed")
    return ledger.url


@pytest.fixture
def many(sixty, folder):
    shutil.copy(sixty, "ledger.db")


def shown_runs(result):
    """Return what is in the first and last columns of the table of runs."""
    rows = [line.split() for line in result.stdout.partition("Runs paid by")[2].splitlines()[3:]]
    return [(int(row[0]), row[-1]) for row in rows if row[0].isdecimal() and "not shown" not in " ".join(row)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "count"), [((), 50), (("--limit", "2"), 2), (("--limit", "59"), 59), (("--limit", "1000"), 60),
                         (("--limit", "0"), 60), (("--limit", "all"), 60)],
)  # fmt: skip
def test_the_newest_runs_are_shown_and_how_many_are_not(limit, count, dpkit, many):
    result = dpkit("ledger", "show", "ledger.db", *limit)
    assert result.exit_code == 0, result.output
    runs = shown_runs(result)
    assert len(runs) == count
    assert runs[:2] == [(120, "released"), (119, "reserved")]
    assert runs == sorted(runs, reverse=True)
    said = "Runs paid by diamonds: 60"
    if count < 60:
        said += f", the newest {count} of them shown"
        runs_are = "1 earlier run is" if count == 59 else f"{60 - count} earlier runs are"
        assert f"{runs_are} not shown; --limit all shows every one." in words(result)
    else:
        assert "not shown" not in words(result)
    assert said in result.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "count"), [((), 50), (("--limit", "1"), 1), (("--limit", "0"), 120), (("--limit", "all"), 120)]
)
def test_entries_in_json_are_the_newest_and_how_many_are_not(limit, count, dpkit, many):
    text = dpkit("ledger", "show", "ledger.db", "--format", "json", *limit).stdout
    document = json.loads(text)
    assert [entry["sequence"] for entry in document["entries"]] == list(range(121, 121 - count, -1))
    assert document["not_shown"] == 120 - count
    lines = [line.strip().rstrip(",") for line in text.splitlines() if '"sequence"' in line]
    assert [json.loads(line) for line in lines] == document["entries"]


def test_a_ledger_without_accounts_is_shown_as_json(dpkit, folder):
    Ledger.create("ledger.db")
    document = json.loads(dpkit("ledger", "show", "ledger.db", "--format", "json").stdout)
    assert (document["accounts"], document["entries"], document["not_shown"]) == ([], [], 0)


@pytest.mark.parametrize("limit", ["-1", "1.5", "few", ""])
def test_a_limit_that_is_no_number_is_refused(limit, dpkit, many):
    result = dpkit("ledger", "show", "ledger.db", f"--limit={limit}")
    assert result.exit_code == 2
    assert "give a whole number, or all" in words(result)


@pytest.mark.parametrize("form", ["table", "json"])
def test_entries_that_are_not_shown_are_not_read(form, dpkit, many):
    # An early entry that cannot be read as JSON is noticed by whoever reads it.
    with closing(sqlite3.connect("ledger.db", isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER never_changed")
        connection.execute("UPDATE entry SET body = '{' WHERE sequence = 5")
    line = ("ledger", "show", "ledger.db", "--format", form, "--limit")
    assert dpkit(*line, "50").exit_code == 0
    everything = dpkit(*line, "all")
    assert everything.exit_code == 2
    assert "entry 5 of the ledger is damaged" in words(everything)


@pytest.mark.slow
def test_a_finished_move_is_not_repeated(dpkit, opened, folder):
    assert dpkit("ledger", "move", "ledger.db", "new.db").exit_code == 0
    assert "was moved to" in words(dpkit("ledger", "show", "ledger.db"))
    (folder / "new.db").rename(folder / "renamed.db")
    again = dpkit("ledger", "move", "ledger.db", "new.db")
    assert again.exit_code == 2
    assert "already, and arrived there on" in words(again)
    assert not (folder / "new.db").exists()
    assert dpkit("ledger", "audit", "ledger.db").exit_code == 0


def test_a_second_account_has_a_table_of_its_own(dpkit, opened):
    again = create(dpkit, "diamonds", 9, 0)
    assert again.exit_code == 2
    assert "its budget cannot be changed" in words(again)
    other = create(dpkit, "numbers", 1, 1e-6, measure="renyi")
    assert other.exit_code == 0, other.output
    assert "numbers" in dpkit("ledger", "show", "ledger.db").stdout
    one = dpkit("ledger", "show", "ledger.db", "--account", "numbers").stdout
    assert "diamonds" not in one


def test_a_star_in_the_schema_is_completed_by_a_table(dpkit, folder):
    (folder / "all.toml").write_text('target = "y"\n[columns."*"]\nkind = "numeric"\n')
    assert create(dpkit, "n", 1, 0, schema="all.toml").exit_code == 2
    assert create(dpkit, "n", 1, 0, schema="all.toml --table numbers.csv").exit_code == 0
    paid = "--features a,c -k 1 --ledger ledger.db --account n"
    run = dpkit(*f"compose numbers.csv --schema all.toml {PARTS} {paid}".split())
    assert run.exit_code == 0, run.output


def test_a_dry_run_shows_the_price_and_charges_nothing(dpkit, opened):
    shown = dpkit(*RUN, *PAID, "--dry-run")
    assert "after this run: epsilon 1 of 2.5" in words(shown)
    assert "Runs paid by diamonds: 0" in words(dpkit("ledger", "show", "ledger.db"))


def test_a_saved_plan_is_paid_for_as_well_and_a_job_runs_once(dpkit, opened, folder):
    dpkit(*RUN, "--dry-run", "--save", "plan.toml")
    run = ("run", "plan.toml", "diamonds.csv", *PAID, "--charge", "nightly", "--output")
    assert dpkit(*run, "a.json").exit_code == 0
    again = dpkit(*run, "b.json")
    assert again.exit_code == 2
    assert "charge nightly is entry 3 of account diamonds, released" in words(again)


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--account", "diamonds"), "--account is given without --ledger"),
        (("--charge", "x"), "--charge is given without --ledger"),
        (("--ledger", "ledger.db"), "Give --account diamonds"),
        (("--ledger", "ledger.db", "--account", "other"), "has no account 'other'; it has diamonds"),
        (("--ledger", "none.db", "--account", "diamonds"), "there is no ledger"),
        (("--ledger", "diamonds.csv", "--account", "diamonds"), "is not a ledger, or is damaged"),
        ((*PAID, "--seed", "1"), "no account pays for a run that is not private"),
    ],
)
def test_what_cannot_pay_says_why(options, message, dpkit, opened, folder):
    result = dpkit(*RUN, *options)
    assert result.exit_code == 2
    assert message in words(result)
    assert not (folder / "release.json").exists()


def test_an_audit_names_what_is_wrong(dpkit, opened, folder):
    shutil.copy("ledger.db", "backup.db")
    dpkit(*RUN, *PAID, "--output", "a.json")
    dpkit(*RUN, "--output", "free.json")
    shutil.copy("backup.db", "ledger.db")
    audited = dpkit("ledger", "audit", "ledger.db", "--against", "a.json", "free.json")
    assert audited.exit_code == 2
    for part in ("cut short: the ledger ends with entry 2; a.json was paid for by entry 3", "NOT sound",
                 "elsewhere: free.json was charged to no ledger", "0 of 2 releases"):  # fmt: skip
        assert part in words(audited)
    document = json.loads(
        dpkit("ledger", "audit", "ledger.db", "--against", "a.json", "--format", "json").stdout
    )
    assert document["sound"] is False
    assert document["findings"][0]["fault"] == "cut short"
    alone = dpkit("ledger", "audit", "ledger.db")
    assert alone.exit_code == 0
    assert "Compared with no release" in words(alone)
    missing = dpkit("ledger", "audit", "ledger.db", "--against", "none.json")
    assert missing.exit_code == 2
    assert "cannot read release none.json" in words(missing)


def test_the_rules_of_a_site_bind_the_command_line(dpkit, opened, folder, monkeypatch):
    path = folder / "policy.toml"
    monkeypatch.setattr(policy, "INSTALLED", (path,))
    path.write_text("[run]\nmax_epsilon = 0.5\n[account]\nmax_epsilon = 2\n")
    refused = dpkit(*RUN, *PAID)
    assert refused.exit_code == 2
    assert "policy.toml says [run] max_epsilon = 0.5; this run asks for 1" in words(refused)
    assert "importing the parts" not in refused.output
    account = create(dpkit, "big", 3, 0)
    assert account.exit_code == 2
    assert "[account] max_epsilon = 2; account big would have 3" in words(account)
    path.write_text(f'[ledger]\nurl = "{folder / "ledger.db"}"\n')
    free = dpkit(*RUN)
    assert free.exit_code == 2
    assert "Give --account diamonds" in words(free)
    assert dpkit(*RUN, "--account", "diamonds").exit_code == 0
