"""Rules of a site: each is quoted where it refuses, before a part is loaded or given data."""

import json

import pytest
from dpkit_cli.planfile import read_plan, write_plan

from dpkit_core import Budget, Randomness, compose
from dpkit_core.errors import AgainstPolicy, DpkitError, InvalidPolicy
from dpkit_core.ledger.accounts import Account
from dpkit_core.ledger.ledger import Ledger
from dpkit_core.pipeline import policy
from dpkit_core.pipeline.policy import Policy, installed_digest
from dpkit_core.plugins.registry import Registry


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """Write the rules of this site, where no user can go round them."""
    path = tmp_path / "etc" / "policy.toml"
    path.parent.mkdir()
    monkeypatch.setattr(policy, "INSTALLED", (path, tmp_path / "none.toml"))
    return path


@pytest.fixture
def loads(monkeypatch):
    """The names of the parts that are loaded."""
    names = []
    load = Registry.load
    monkeypatch.setattr(Registry, "load", lambda self, ref: names.append(ref.name) or load(self, ref))
    return names


def ran(schema, data, *, budget=None, randomness=None, accountant="basic", **more):
    plan = compose(scorer="kendall", selector="peel", accountant=accountant).plan(
        schema, budget or Budget(0.5), k=1
    )
    return plan.run(data, randomness=randomness, **more)


def test_without_rules_everything_is_allowed(schema, data):
    assert Policy.of_site().files == ()
    ran(schema, data)


@pytest.mark.parametrize(
    ("rule", "quoted"),
    [
        ("[run]\nmax_epsilon = 0.4", "[run] max_epsilon = 0.4; this run asks for 0.5"),
        ("[run]\nmax_delta = 0", "[run] max_delta = 0; this run asks for 1e-06"),
        ('[run]\naccountants = ["rdp"]', '[run] accountants = ["rdp"]; this run names basic'),
        ("[run]\nprivate_only = true", "this run is not private: the noise comes from a seed"),
        ('[distributions]\ndpkit-selector-peel = "any"', "scorer kendall comes from dpkit-scorer-kendall"),
        ('[distributions]\nDPKIT_scorer_kendall = ["9.9", "8.8"]', '= ["9.9", "8.8"]; installed is 0.'),
    ],
)
def test_a_rule_refuses_and_is_quoted(rule, quoted, rules, schema, data):
    rules.write_text(rule)
    with pytest.raises(AgainstPolicy) as refusal:
        ran(schema, data, budget=Budget(0.5, 1e-6), randomness=Randomness.from_seed(1))
    assert str(rules) in str(refusal.value)
    assert quoted in str(refusal.value)


ALLOWED = """
[run]
max_epsilon = 0.5
max_delta = 1e-6
accountants = ["dpkit-accountant-basic:basic", "rdp"]
private_only = true

[account]
max_epsilon = 3.0

[distributions]
dpkit-scorer-kendall = "any"
dpkit-selector-peel = ["0.0.1", "{version}"]
dpkit-accountant-basic = "any"
"""


def test_what_every_rule_allows_runs(rules, schema, data):
    version = Registry().find("selectors", "peel").version
    rules.write_text(ALLOWED.format(version=version))
    assert ran(schema, data).certificate.private


def test_a_part_that_is_not_allowed_is_not_loaded(rules, loads, schema):
    rules.write_text('[distributions]\ndpkit-scorer-kendall = "any"')
    with pytest.raises(AgainstPolicy, match="selector peel comes from dpkit-selector-peel"):
        compose(scorer="kendall", selector="peel")
    assert loads == ["kendall"]
    rules.write_text('[run]\naccountants = ["basic"]')
    with pytest.raises(AgainstPolicy, match="this run names rdp"):
        compose(regressor="mean", accountant="rdp").plan(schema, Budget(1.0))
    assert "rdp" not in loads


def test_a_part_of_no_distribution_is_not_allowed_where_distributions_are_listed(rules, toys, schema, data):
    rules.write_text('[distributions]\ndpkit-accountant-basic = "any"')
    with pytest.raises(AgainstPolicy, match="regressor MeanRegressor comes from none"):
        compose(regressor=toys.MeanRegressor(), accountant="basic").plan(schema, Budget(1.0)).run(data)


def test_rules_hold_for_parts_that_were_made_before_and_plans_that_were_made_elsewhere(
    rules, toys, schema, data, tmp_path
):
    plan = compose(scorer="kendall", selector="peel").plan(schema, Budget(1.0, 1e-6), k=1)
    write_plan(plan, tmp_path / "plan.toml")
    rules.write_text("[run]\nmax_epsilon = 0.5")
    with pytest.raises(AgainstPolicy, match="max_epsilon"):
        plan.run(data)
    with pytest.raises(AgainstPolicy, match="max_epsilon"):
        read_plan(tmp_path / "plan.toml")


def test_a_digest_allows_files_and_refuses_others(rules, site, schema):
    source = "from dpkit_scorer_kendall import KendallScorer as Mine\n"
    site.install(
        "acme-scorer",
        entry_points={"dpkit.scorers": {"acme": "acme_scorer:Mine"}},
        modules={"acme_scorer": source},
    )
    info = site.folder / "acme_scorer-1.0.dist-info"
    with pytest.raises(InvalidPolicy, match="does not list its files"):
        installed_digest("acme-scorer")
    (info / "RECORD").write_text(
        "acme_scorer.py,,\nacme_scorer-1.0.dist-info/METADATA,,\nacme_scorer-1.0.dist-info/RECORD,,\n"
        "acme_scorer-1.0.dist-info/INSTALLER,,\n__pycache__/acme_scorer.cpython-311.pyc,,\n"
    )
    allowed = installed_digest("acme-scorer")
    rules.write_text(f'[distributions]\nacme-scorer = ["{allowed}"]\ndpkit-selector-peel = "any"')
    compose(scorer="acme", selector="peel")
    (site.folder / "acme_scorer.py").write_text(source + "# changed\n")
    with pytest.raises(AgainstPolicy, match=rf"{allowed}.*; installed is 1.0, sha256:"):
        compose(scorer="acme", selector="peel")


def test_an_editable_distribution_has_no_digest(site):
    site.install("acme-editable", entry_points={}, modules={"acme": ""})
    info = site.folder / "acme_editable-1.0.dist-info"
    (info / "RECORD").write_text("acme_editable-1.0.dist-info/METADATA,,\n")
    (info / "direct_url.json").write_text(json.dumps({"url": "file:acme", "dir_info": {"editable": True}}))
    with pytest.raises(InvalidPolicy, match="editable"):
        installed_digest("acme-editable")


@pytest.mark.parametrize(
    "text",
    [
        "[run]\nmax_epsilom = 1",
        "[runs]\nmax_epsilon = 1",
        "max_epsilon = 1",
        '[run]\nmax_epsilon = "1"',
        "[run]\nmax_epsilon = nan",
        "[run]\nprivate_only = 1",
        '[run]\naccountants = "rdp"',
        "[distributions]\ndpkit-scorer-kendall = []",
        "[distributions]\ndpkit-scorer-kendall = true",
        "[ledger]\nurl = 3",
        "not TOML",
    ],
)
def test_rules_with_a_slip_stop_every_run(text, rules, schema, data):
    rules.write_text(text)
    with pytest.raises(InvalidPolicy):
        ran(schema, data)


def test_a_policy_that_cannot_be_read_stops_every_run(rules, schema, data):
    rules.mkdir()
    with pytest.raises(InvalidPolicy, match="cannot read policy"):
        ran(schema, data)


def test_a_variable_adds_rules_and_drops_none(rules, tmp_path, monkeypatch, schema, data):
    rules.write_text("[run]\nmax_epsilon = 0.4")
    lax = tmp_path / "lax.toml"
    lax.write_text("[run]\nmax_epsilon = 100")
    for value in (str(lax), ""):
        monkeypatch.setenv("DPKIT_POLICY", value)
        with pytest.raises(AgainstPolicy, match=r"max_epsilon = 0\.4"):
            ran(schema, data)
    lax.write_text('[run]\naccountants = ["rdp"]')
    monkeypatch.setenv("DPKIT_POLICY", str(lax))
    with pytest.raises(AgainstPolicy, match="accountants"):
        ran(schema, data, budget=Budget(0.1))
    monkeypatch.setenv("DPKIT_POLICY", str(tmp_path / "gone.toml"))
    with pytest.raises(InvalidPolicy, match="cannot read policy"):
        ran(schema, data)


def test_no_variable_of_observers_touches_the_rules(rules, monkeypatch, schema, data):
    rules.write_text("[run]\nmax_epsilon = 0.4")
    monkeypatch.setenv("DPKIT_DISABLE_PLUGINS", "policy,ledger,peel,kendall")
    with pytest.raises(AgainstPolicy):
        ran(schema, data)


@pytest.fixture
def demanded(rules, schema, tmp_path):
    ledger = Ledger.create(str(tmp_path / "site.db"))
    ledger.add(Account("toys", schema, Budget(0.7, 1e-5)))
    rules.write_text(f'[ledger]\nurl = "{ledger.url}"\nlog = "{tmp_path / "runs.jsonl"}"')
    return ledger


def test_where_a_ledger_is_demanded_no_run_is_free(demanded, schema, data, tmp_path):
    with pytest.raises(AgainstPolicy, match=r"every run is charged there; name an account.* There are: toys"):
        ran(schema, data)
    other = Ledger.create(str(tmp_path / "own.db"))
    other.add(Account("toys", schema, Budget(100.0, 1e-5)))
    with pytest.raises(AgainstPolicy, match="and this run names an account of Ledger"):
        ran(schema, data, paid_by=other.payer("toys"))
    copied = tmp_path / "copy.db"
    copied.write_bytes((tmp_path / "site.db").read_bytes())
    with pytest.raises(AgainstPolicy, match="and this run names"):
        ran(schema, data, paid_by=Ledger.open(str(copied)).payer("toys"))
    for randomness in (Randomness.from_seed(3), None):
        if randomness is not None:
            with pytest.raises(DpkitError, match="not private"):
                ran(schema, data, paid_by=demanded.payer("toys"), randomness=randomness)
        else:
            ran(schema, data, paid_by=demanded.payer("toys"))
    assert [entry.kind for entry in demanded.entries(after=2)] == ["reserved", "released"]


def test_each_event_is_one_line_of_the_log(demanded, schema, data, tmp_path):
    release = ran(schema, data, paid_by=demanded.payer("toys", charge="nightly"))
    for _ in range(2):
        with pytest.raises(DpkitError):
            ran(schema, data, paid_by=demanded.payer("toys"))
    lines = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["reserved", "released", "declined", "declined"]
    reserved, released, declined, _ = lines
    assert reserved["head"] == release.certificate.witness.head
    assert (reserved["sequence"], released["sequence"]) == (3, 4)
    assert {"at", "account", "charge", "ledger"} <= set(declined)
    assert declined["why"] == "OverBudget"
    assert released["charge"] == "nightly"


def test_a_log_that_cannot_be_written_stops_the_run(demanded, rules, schema, data, tmp_path):
    rules.write_text(f'[ledger]\nurl = "{demanded.url}"\nlog = "{tmp_path / "none" / "runs.jsonl"}"')
    with pytest.raises(DpkitError, match="cannot write the log"):
        ran(schema, data, paid_by=demanded.payer("toys"))


def test_a_ledger_that_is_demanded_and_gone_stops_every_run(rules, schema, data, tmp_path):
    rules.write_text(f'[ledger]\nurl = "{tmp_path / "gone.db"}"')
    with pytest.raises(DpkitError, match="there is no ledger"):
        ran(schema, data)


def test_an_account_that_a_user_opened_pays_for_nothing(demanded, rules, schema, data):
    rules.write_text(f'[ledger]\nurl = "{demanded.url}"\naccounts = ["toys"]\n[account]\nopen = false')
    own = Account("own", schema, Budget(100.0, 1e-5))
    with pytest.raises(AgainstPolicy, match=r"says \[account\] open = false, so no account is opened here"):
        Policy.of_site().require_account(own)
    demanded.add(own)  # by somebody who may write the file
    with pytest.raises(AgainstPolicy, match=r'accounts = \["toys"\]; this run names account own'):
        ran(schema, data, paid_by=demanded.payer("own"))
    assert ran(schema, data, paid_by=demanded.payer("toys")).certificate.witness.account == "toys"


def test_a_rule_is_quoted_without_a_password(rules):
    rules.write_text('[ledger]\nurl = "postgresql://me:secret@host/base"')
    (only,) = Policy.of_site().files
    assert only.quoted("ledger", "url").endswith('url = "postgresql://me:***@host/base"')
