"""``dpkit categories``: from a schema without a list to a schema with one, and a model made with it."""

import json

import attrs
import numpy as np
import pytest
from dpkit_command_verify.replan import Replanned, replan

from dpkit_core import Ledger, Release, Schema
from dpkit_core.errors import InvalidRelease
from dpkit_core.release.verify import verify

SCHEMA = """
neighboring = "add-remove"
target = "rent"
assertions = ["the table is about Germany"]

[unit]
column = "person"
most_records = 2

[columns.city]
kind = "categorical"

[columns.street]
categories = "hashed"
buckets = 8

[columns.rooms]
lower = 0
upper = 9

[columns.rent]
lower = 0
upper = 20
"""


@pytest.fixture
def table(folder):
    rng = np.random.default_rng(0)
    lines = ["person,city,street,rooms,rent"]
    for person in range(1500):
        city = rng.choice(["Bonn", "Köln", 'Bad "B"']) if person > 2 else f"Rare {person}"
        quoted = '"Bad ""B"""' if city.startswith("Bad") else city
        for _ in range(rng.integers(1, 4)):
            rooms, street = rng.integers(0, 9), rng.choice(["Hof", "Weg"])
            lines.append(f"{person},{quoted},{street},{rooms},{rooms + 5 * (city == 'Bonn')}")
    (folder / "rents.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "rents.toml").write_text(SCHEMA, encoding="utf-8")
    return folder


RUN = ("categories", "rents.csv", "--schema", "rents.toml", "--column", "city")


def opened(dpkit, epsilon):
    """Open an account, and return the options by which it pays."""
    limits = "--schema", "rents.toml", "--epsilon", epsilon, "--delta", 1e-5
    result = dpkit("ledger", "create", "l.db", *limits, "--account", "rents")
    assert result.exit_code == 0, result.output
    return "--ledger", "l.db", "--account", "rents"


def words(result):
    return " ".join(result.output.split())


def test_a_plan_is_shown_and_nothing_is_written_or_spent(dpkit, table):
    before = sorted(table.iterdir())
    result = dpkit(*RUN, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "Plan: stable_histogram on 'city'" in words(result)
    assert "different 'person' have it and no other value" in words(result)
    assert "missing value" not in words(result)
    assert sorted(table.iterdir()) == before


@pytest.mark.slow
def test_from_a_schema_without_a_list_to_a_prediction_paid_by_one_account(dpkit, table):
    account = opened(dpkit, 3)
    found = dpkit(*RUN, "--column", "street", "--epsilon", "1", *account, "--filled", "filled.toml")
    assert found.exit_code == 0, found.output
    release = Release.read("categories.json")
    city, street = release.model.columns
    assert set(city.values) == {"Bonn", "Köln", 'Bad "B"'}
    assert set(street.values) == {"Hof", "Weg"}
    assert verify(release).private

    filled = Schema.read("filled.toml")
    columns = {column.name: column for column in filled.columns}
    assert columns["city"].categories == city.values
    assert columns["street"].categories == street.values
    assert columns["street"].buckets is None
    assert filled.assertions[0] == "the table is about Germany"
    assert len(filled.assertions) == 3
    assert filled.unit == Schema.read("rents.toml").unit

    composed = dpkit(
        *[
            "compose",
            "rents.csv",
            "--schema",
            "filled.toml",
            "--regressor",
            "adassp",
            "--epsilon",
            "1",
            "-o",
            "model.json",
        ],
        *account,
    )
    assert composed.exit_code == 0, composed.output
    assert dpkit("verify", "--replan", "categories.json", "model.json").exit_code == 0
    assert dpkit("ledger", "audit", "l.db", "categories.json", "model.json").exit_code == 0
    predicted = dpkit("predict", "model.json", "rents.csv")
    assert predicted.exit_code == 0, predicted.output
    assert len(predicted.stdout.splitlines()) == len((table / "rents.csv").read_text().splitlines())
    spent = Ledger.open("l.db").statement("rents").in_words()
    assert "epsilon 1.99" in spent or "epsilon 2 " in spent


def test_a_list_that_is_planned_again_must_have_the_same_events(dpkit, table):
    assert dpkit(*RUN, "--epsilon", "1", "--frequencies").exit_code == 0
    release = Release.read("categories.json")
    assert replan(release) == Replanned((), ())
    (planned,) = release.certificate.events
    half = attrs.evolve(planned, event=attrs.evolve(planned.event, leak=planned.event.leak / 2))
    ((problem,), _) = attrs.astuple(replan(edited(release, events=(half,))), recurse=False)
    assert "the certificate is not what the installed parts plan: event 1" in problem
    accountant = [part for part in release.certificate.parts if part.role == "accountant"]
    with pytest.raises(InvalidRelease, match="does not list the parts of its plan"):
        replan(edited(release, parts=accountant))


def edited(release, **changes):
    return attrs.evolve(release, certificate=attrs.evolve(release.certificate, **changes))


@pytest.mark.parametrize("forged", ["digest", "column"])
def test_an_account_pays_for_no_list_that_no_release_of_its_own_found(dpkit, table, forged):
    account = "--ledger", "l.db", "--account", "rents"
    dpkit(
        "ledger",
        "create",
        "l.db",
        *["--schema", "rents.toml", "--epsilon", "9", "--delta", "1e-5", "--account", "rents"],
    )
    assert dpkit(*RUN, "--epsilon", "1", *account).exit_code == 0
    text = (table / "found.schema.toml").read_text(encoding="utf-8")
    if forged == "digest":
        digest = text.partition("that release ")[2].partition(" ")[0]
        text = text.replace(digest, "0" * 64)
    else:
        text = text.replace('categories = "hashed"\nbuckets = 8', 'categories = ["Hof", "Weg"]')
    (table / "forged.toml").write_text(text, encoding="utf-8")
    result = dpkit(*["compose", "rents.csv", "--schema", "forged.toml", "--regressor", "adassp"], *account)
    assert result.exit_code == 2
    assert "cannot pay for this run" in words(result)
    assert not (table / "release.json").exists()


def test_an_account_that_lists_no_categories_lets_a_run_hash_them(dpkit, table):
    account = "--ledger", "l.db", "--account", "rents"
    dpkit(
        "ledger",
        "create",
        "l.db",
        *["--schema", "rents.toml", "--epsilon", "9", "--delta", "1e-5", "--account", "rents"],
    )
    text = SCHEMA.replace('kind = "categorical"', 'categories = "hashed"\nbuckets = 5')
    (table / "hashed.toml").write_text(text, encoding="utf-8")
    result = dpkit(*["compose", "rents.csv", "--schema", "hashed.toml", "--regressor", "adassp"], *account)
    assert result.exit_code == 0, result.output


def test_frequencies_and_json(dpkit, table):
    result = dpkit(*RUN, "--frequencies", "--format", "json", "--epsilon", "1")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    (listed,) = document["model"]["columns"]
    assert len(listed["counts"]) == len(listed["values"]) == 3
    assert listed["counts"] == sorted(listed["counts"], reverse=True)
    assert document["certificate"]["parts"][0]["options"] == {"frequencies": True}


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--column rooms", "column 'rooms' is numeric"),
        ("--column town", "no feature column 'town'"),
        ("--delta 0", "delta above 0"),
        ("--accountant basic", "does not support StableHistogram"),
        ("--filled rents.toml", "it is also an input"),
        ("--filled -", "only a release can go to standard output"),
        ("--output rents.csv --force", "it is also an input"),
        ("--ledger none.db --account a", "none.db"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(dpkit, table, more, says):
    before = sorted(table.iterdir())
    result = dpkit(*RUN, *more.split())
    assert result.exit_code == 2
    assert says in words(result)
    assert sorted(table.iterdir()) == before


def test_a_list_is_not_overwritten_and_a_listed_column_not_searched(dpkit, table):
    assert dpkit(*RUN, "--epsilon", "1").exit_code == 0
    again = dpkit(*RUN, "--epsilon", "1")
    assert again.exit_code == 2
    assert "categories.json exists" in words(again)
    listed = dpkit(
        "categories", "rents.csv", "--schema", "found.schema.toml", "--column", "city", "--output", "b.json",
        "--filled", "b.toml",
    )  # fmt: skip
    assert listed.exit_code == 2
    assert "nothing to find" in words(listed)


def test_a_column_described_by_a_star_gets_a_table_of_its_own(dpkit, folder):
    rows = "".join(f"{'ab'[i % 2]},{i % 3},{i}\n" for i in range(900))
    (folder / "t.csv").write_text("x,z,y\n" + rows)
    (folder / "t.toml").write_text('target = "y"\n[columns."*"]\nkind = "categorical"\n[columns.y]\n')
    result = dpkit(*["categories", "t.csv", "--schema", "t.toml", "--column", "x", "--epsilon", "1"])
    assert result.exit_code == 0, result.output
    filled = Schema.read("found.schema.toml", names=["x", "z", "y"])
    columns = {column.name: column for column in filled.columns}
    assert set(columns["x"].categories) == {"a", "b"}
    assert columns["z"].categories == ()
