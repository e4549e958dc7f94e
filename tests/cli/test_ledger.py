"""``dpkit ledger``, and runs of the command line that an account pays for."""

import json
import shutil

import pytest

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
    assert [entry["kind"] for entry in document["entries"]] == ["account", "reserved", "released"]
    assert document["price"]["runs"] == 1


def test_a_second_account_has_a_table_of_its_own(dpkit, opened):
    again = create(dpkit, "diamonds", 9, 0)
    assert again.exit_code == 2
    assert "what it allows cannot be changed" in words(again)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--account", "diamonds"), "--account is given without --ledger"),
        (("--charge", "x"), "--charge is given without --ledger"),
        (("--ledger", "ledger.db"), "Give --account: diamonds"),
        (("--ledger", "ledger.db", "--account", "other"), "has no account 'other'; it has diamonds"),
        (("--ledger", "none.db", "--account", "diamonds"), "there is no ledger"),
        (("--ledger", "diamonds.csv", "--account", "diamonds"), "is no ledger, or a damaged one"),
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
    assert "Give --account: diamonds" in words(free)
    assert dpkit(*RUN, "--account", "diamonds").exit_code == 0
