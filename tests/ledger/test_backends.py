"""The ledger in memory, how other backends are found, and accounts."""

import copy
import pickle
import subprocess
import sys

import attrs
import pytest
from dpkit_ledger_sqlite import promises as suite

from dpkit_core import Budget, Column, Neighboring, Schema
from dpkit_core.errors import InvalidLedger, MissingDependency, OverBudget, UnknownName
from dpkit_core.ledger.accounts import Account
from dpkit_core.ledger.ledger import Ledger
from dpkit_core.ledger.store import MemoryStore


@pytest.mark.parametrize("check", suite.WITHIN_ONE_PROCESS, ids=lambda check: check.__name__)
def test_a_ledger_in_memory_keeps_every_promise_within_its_process(check):
    check(Ledger.in_memory)


def test_a_ledger_in_memory_refuses_other_processes():
    ledger = Ledger.in_memory()
    with pytest.raises(InvalidLedger, match="keep the ledger in a file"):
        pickle.dumps(ledger)
    assert copy.deepcopy(ledger) is ledger
    script = f"""
import os, sys
sys.path[:] = {sys.path!r}
from dpkit_core.ledger.ledger import Ledger
from dpkit_core.ledger.store import MemoryStore
from dpkit_core.errors import InvalidLedger
ledger = Ledger.in_memory()
if os.fork() == 0:
    try:
        ledger.head()
    except InvalidLedger as error:
        assert "each would spend the whole budget" in str(error)
        os._exit(7)
    os._exit(1)
_, status = os.wait()
sys.exit(os.waitstatus_to_exitcode(status))
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7
    with pytest.raises(InvalidLedger, match="belongs to the program that made it"):
        MemoryStore.open("memory:")


def test_a_scheme_of_no_installed_backend_says_so():
    with pytest.raises(UnknownName, match="no ledger 'oracle' is installed"):
        Ledger.open("oracle+driver://db/ledger")


def test_a_backend_of_another_distribution_is_found_by_its_scheme(site, tmp_path):
    path = Ledger.create(str(tmp_path / "ledger.db")).url
    site.install(
        "acme-ledgers",
        entry_points={"dpkit.ledgers": {"acme": "acme_ledgers:AcmeStore"}},
        modules={
            "acme_ledgers": (
                "from dpkit_ledger_sqlite import SqliteStore\n"
                "class AcmeStore(SqliteStore):\n"
                "    @classmethod\n"
                "    def open(cls, url):\n"
                "        return super().open(url.removeprefix('acme://'))\n"
            )
        },
    )
    assert Ledger.open(f"acme://{path}").head().sequence == 1


def test_accounts_and_charges_have_names_that_can_be_printed():
    for name in ("", " ", "a b", "a\n", "../x", "x" * 101, "\x1b[31m"):
        with pytest.raises(InvalidLedger, match="cannot be called"):
            suite.account(name)
    for identity in ("", "x" * 201):
        with pytest.raises(InvalidLedger, match="identity"):
            suite.charge(id=identity)


def test_an_account_says_why_a_run_is_not_one_on_its_table():
    schema = Schema(
        (
            Column("a", lower=0, upper=1),
            Column("cut", kind="categorical", categories=("x", "y")),
            Column("z"),
        ),
        Column("y"),
        assertions=("the bounds of a",),
    )
    ours = Account("diamonds", schema, Budget(1.0))
    for fits in (
        schema,
        schema.restrict(["z"]),
        attrs.evolve(schema, columns=(Column("y"),), target=Column("z")),
        attrs.evolve(schema, assertions=()),
    ):
        assert ours.mismatch(fits) is None
    for other, reason in (
        (Schema.numeric(["a", "b"], "y", {"a": (0, 1)}), "has no column 'b'"),
        (Schema.numeric(["a"], "y", {"a": (0, 2)}), "upper 1, the run as numeric, lower 0, upper 2"),
        (Schema.numeric(["a"], "y"), "lower 0, upper 1, the run as numeric"),
        (
            attrs.evolve(schema, columns=(Column("cut", kind="categorical", categories=("x",)),)),
            "2 categories, the run as categorical, 1 category",
        ),
        (attrs.evolve(schema, neighboring=Neighboring.REPLACE_ONE), "protects add-remove neighbors"),
        (attrs.evolve(schema, assertions=("z is public",)), "declare public that z is public"),
    ):
        assert reason in ours.mismatch(other)
    counted = attrs.evolve(schema, neighboring=Neighboring.REPLACE_ONE, records=100)
    assert "records = 100, the run's 99" in Account("d", counted, Budget(1.0)).mismatch(
        attrs.evolve(counted, records=99)
    )


def test_what_an_account_refuses_names_both_sides_and_the_remedy():
    ledger = Ledger.in_memory()
    ledger.add(suite.account(epsilon=1.0))
    ledger.reserve(suite.charge(0.7))
    with pytest.raises(OverBudget) as refusal:
        ledger.reserve(suite.charge(0.5, 1e-9))
    assert str(refusal.value) == (
        "account diamonds cannot pay for this run: spent so far epsilon 0.7 of 1, delta 0 of 1e-06; after "
        "it, "
        "epsilon 1.2 of 1, delta 1e-09 of 1e-06. Nothing is charged, and no part was given data. Plan it "
        "with a "
        "smaller budget"
    )
    with pytest.raises(InvalidLedger, match="has no account 'emeralds'; it has diamonds"):
        ledger.statement("emeralds")


@pytest.mark.parametrize(
    ("url", "distribution", "extra"),
    [
        ("postgresql://host/base", "dpkit-ledger-postgresql", "postgresql"),
        ("ledger.db", "dpkit-ledger-sqlite", "starter"),
        ("budgets/of/2026", "dpkit-ledger-sqlite", "starter"),
    ],
)
def test_a_backend_that_is_not_installed_is_named(url, distribution, extra, monkeypatch):
    monkeypatch.setattr("dpkit_core.plugins.registry.installed", lambda group: ())
    for action in (Ledger.open, Ledger.create, Ledger.create_or_open):
        with pytest.raises(MissingDependency, match=rf"needs {distribution}.* 'CLONE\[{extra}\]'"):
            action(url)
