"""``dpkit compose``: one command from a table to a certified release."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from dpkit_core import Release, verify

FULL = (
    "--scorer",
    "large",
    "--selector",
    "best",
    "-k",
    "2",
    "--regressor",
    "average",
    "--accountant",
    "basic",
)
SELECTION = ("--scorer", "large", "--selector", "best", "-k", "2", "--accountant", "basic")

pytestmark = pytest.mark.usefixtures("parts")


def test_a_release_is_printed_written_and_verifiable(dpkit, folder):
    result = dpkit("compose", "diamonds.csv", "--schema", "facts.toml", *FULL)
    assert result.exit_code == 0, result.output
    release = Release.read(folder / "release.json")
    assert len(release.selected) == 2
    assert verify(release).confirmed
    printed = " ".join(result.stdout.split())
    for word in ("Plan: large + best + average", "2 choices by the", "5%", "95%"):
        assert word in printed
    for word in (", ".join(release.selected), "(intercept)", "Private: adding or removing one record"):
        assert word in printed
    assert "wrote release.json" in result.stderr


@pytest.fixture
def wasted(folder):
    """Return a composition that needs some thousand records, on forty."""
    (folder / "few.toml").write_text("records_about = 40\n" + (folder / "facts.toml").read_text())
    return ("compose", "diamonds.csv", "--schema", "few.toml", "--regressor", "winsorized_least_squares")


def test_a_run_that_is_foretold_to_be_wasted_stops_before_anything_is_spent(dpkit, folder, wasted):
    result = dpkit(*wasted)
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "dpkit: the budget of winsorized_least_squares will likely be wasted: it wants about " in said
    assert "Nothing is spent. Give --anyway to run it as it is" in said
    assert not (folder / "release.json").exists()
    assert dpkit(*wasted, "--dry-run", "--save", "plan.toml").exit_code == 0
    assert dpkit(*wasted, "--anyway").exit_code in {0, 3}
    assert dpkit("run", "plan.toml", "diamonds.csv", "-o", "again.json").exit_code == 2
    assert dpkit("run", "plan.toml", "diamonds.csv", "-o", "again.json", "--anyway").exit_code in {0, 3}
    assert (folder / "again.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "codes"), [("n", {2}), ("y", {0, 3})])
def test_at_a_terminal_a_run_that_is_foretold_to_be_wasted_is_asked_about(folder, wasted, answer, codes):
    outer, inner = os.openpty()
    program = Path(sys.executable).parent / "dpkit"
    with subprocess.Popen([program, *wasted], stdin=inner, stdout=subprocess.DEVNULL, stderr=inner) as run:
        os.close(inner)
        os.write(outer, f"{answer}\n".encode())
        said = b""
        with suppress(OSError):  # of a terminal that the program has left
            while some := os.read(outer, 2**16):
                said += some
    os.close(outer)
    assert run.returncode in codes
    assert b"Spend it anyway?" in said
    assert (folder / "release.json").exists() == (answer == "y")


def test_json_is_the_release_and_nothing_else_is_on_standard_output(dpkit, folder):
    result = dpkit("compose", "diamonds.csv", "--schema", "facts.toml", *FULL, "--format", "json")
    document = json.loads(result.stdout)  # though the parts print while imported, planning and running
    assert document == json.loads((folder / "release.json").read_text())
    assert {"selected", "model", "certificate"} <= set(document)
    assert set(document["certificate"]) >= {
        "private", "reasons", "epsilon", "delta", "neighboring", "accountant", "events", "parts",
        "assumptions", "randomness",
    }  # fmt: skip
    assert "planning" in result.stderr
    for words in ("preparing", "selecting", "fitting"):  # a part that has the data is not heard
        assert words not in result.stderr


def test_a_program_that_asks_for_the_same_gets_the_same_release(dpkit, folder):
    from pathlib import Path

    from dpkit_cli.facts import Facts
    from dpkit_cli.request import Request, agreed_in, propose

    from dpkit_core import Budget, Randomness

    options = ("--set", "regressor.style=fancy", "--seed", 3, "--save", "plan.toml")
    assert dpkit("compose", "diamonds.csv", "--schema", "facts.toml", *FULL, *options).exit_code == 0
    parts = {"scorer": "large", "selector": "best", "regressor": "average", "accountant": "basic"}
    told = []
    agreed = propose(
        Request(
            Facts(Path("facts.toml")),
            Budget(1.0, 1e-6),
            "diamonds.csv",
            parts=parts,
            options={"regressor": {"style": "fancy"}},
            k=2,
        ),
        told.append,
    )
    saved = agreed_in("plan.toml", ["diamonds.csv"], report=told.append)
    assert saved.plan.events == agreed.plan.events
    for one in (agreed, saved):
        release = one.plan.run(one.records(), randomness=Randomness.from_seed(3))
        assert release.to_json() == (folder / "release.json").read_text()
    assert told == []


def test_a_request_that_is_made_cannot_be_changed_from_outside():
    from dpkit_cli.facts import Facts
    from dpkit_cli.request import Request

    from dpkit_core import Budget

    parts, features = {"regressor": "average"}, ["a"]
    wanted = Request(Facts(features=features, target="y"), Budget(1.0, 1e-6), ["t.csv"], parts=parts)
    parts["regressor"], features[0] = "other", "b"
    assert (wanted.parts["regressor"], wanted.facts.features) == ("average", ("a",))


def test_a_selection_alone_and_a_regressor_alone_are_compositions(dpkit, folder):
    assert dpkit("compose", "numbers.csv", "--target", "y", *SELECTION).exit_code == 0
    release = Release.read(folder / "release.json")
    assert len(release.selected) == 2
    assert release.model is None
    average = ("--regressor", "average", "--accountant", "basic", "--force")
    assert dpkit("compose", "diamonds.csv", "--schema", "facts.toml", *average).exit_code == 0
    release = Release.read(folder / "release.json")
    assert release.selected == ()
    assert release.model.features == ("carat", "depth", "cut=Fair", "cut=Good")


def test_where_nothing_is_named_the_plan_says_what_is_composed_and_why(dpkit, folder):
    command = ("compose", "numbers.csv", "--target", "y", "--dry-run", "--set", "regressor.trees=8")
    printed = " ".join(dpkit(*command).stdout.split())
    assert "Plan: boosted_trees on all 3 features" in printed
    two = dpkit(*command, "--features", "a", "--features", "b")
    assert "Plan: boosted_trees on all 2 features" in two.stdout
    assert "Plan: boosted_trees on 1 feature\n" in dpkit(*command, "--features", "a").stdout
    assert "Recommended for these public facts: recipe trees, because the schema does not say" in printed
    document = json.loads(dpkit(*command, "--format", "json").stdout)
    assert document["recommended"]["recipe"] == "trees"
    assert document["plan"]["parts"]["regressor"]["component"].endswith(":boosted_trees")


def test_the_recipe_that_is_named_is_the_one_that_is_run_also_where_auto_selects_nothing(dpkit, folder):
    command = ("compose", "numbers.csv", "--target", "y", "--dry-run")
    printed = " ".join(dpkit(*command, "-k", "auto").stdout.split())
    assert "recipe trees, because" in printed
    assert "all of 3, without a selection" in printed
    recipes = {}
    for k in ("auto", "1"):
        document = json.loads(dpkit(*command, "-k", k, "--format", "json").stdout)
        recipes[document["recommended"]["recipe"]] = sorted(document["plan"]["parts"])
    assert recipes == {
        "trees": ["accountant", "regressor"],
        "k-trees": ["accountant", "regressor", "scorer", "selector"],
    }


@pytest.mark.slow
def test_a_model_is_scored_on_records_that_are_held_out(dpkit, folder):
    rng = np.random.default_rng(0)
    rows = [f"{a},{3 * a + b / 9}" for a, b in rng.normal(size=(6000, 2))]
    (folder / "line.csv").write_text("\n".join(["a,y", *rows]) + "\n")
    line = ("compose", "line.csv", "--target", "y", "--regressor", "winsorized_least_squares")
    command = (*line, "--evaluate", "0.2", "--epsilon", "4")
    dry = " ".join(dpkit(*command, "--dry-run", "--save", "plan.toml").stdout.split())
    assert "Evaluation: capped R2 of the model on 20 % of the records, held out by a hash" in dry
    composed = dpkit(*command)
    assert composed.exit_code == 0, composed.output
    assert composed.stdout.index("How good it is") < composed.stdout.index("Model")
    assert dpkit("run", "plan.toml", "line.csv", "-o", "again.json").exit_code == 0
    for name in ("release.json", "again.json"):
        score = Release.read(folder / name).evaluation.score()
        assert 0.8 < score.low < score.value
        assert dpkit("verify", name, "--replan").exit_code == 0
    replaced = dpkit(*command, "--neighboring", "replace-one", "--force")
    assert replaced.exit_code == 2
    assert "may change its side" in " ".join(replaced.stderr.split())


def test_a_dry_run_foretells_of_which_columns_a_missing_value_is_refused(dpkit, folder):
    (folder / "holes.csv").write_text("a,b,y\n1,,1\n2,3,\n,5,6\n", encoding="utf-8")
    (folder / "holes.toml").write_text(
        'target = "y"\n[columns.a]\nkind = "numeric"\nmissing = "constant"\nfill = 0\n'
        '[columns.b]\nkind = "numeric"\n[columns.y]\nkind = "numeric"\n',
        encoding="utf-8",
    )
    command = ("compose", "holes.csv", "--schema", "holes.toml")
    printed = " ".join(dpkit(*command, "--dry-run").stdout.split())
    assert "a table with a missing value in 'b', 'y' is refused, before anything is spent" in printed
    document = json.loads(dpkit(*command, "--dry-run", "--format", "json").stdout)
    assert document["refused_if_missing"] == ["b", "y"]
    account = ("--account", "mine", "--epsilon", "1", "--delta", "1e-5")
    assert dpkit("ledger", "create", "ledger.db", "--schema", "holes.toml", *account).exit_code == 0
    refused = dpkit(*command, "--ledger", "ledger.db", "--account", "mine")
    assert refused.exit_code == 2
    assert "column 'b' has missing (NaN) values; set a rule for them in the schema" in refused.stderr
    assert not (folder / "release.json").exists()
    shown = json.loads(dpkit("ledger", "show", "ledger.db", "--format", "json").stdout)
    assert [entry["kind"] for entry in shown["entries"]] == ["account"]


@pytest.mark.slow
def test_counts_are_composed_verified_predicted_and_refused_by_their_bounds(dpkit, folder):
    rows = ["hour,count", *(f"{i % 24},{max(i % 24 - 12, 0) * (i % 3)}" for i in range(900))]
    (folder / "bike.csv").write_text("\n".join(rows))
    loss = ("--regressor", "boosted_trees", "--set", "regressor.loss=poisson", "--set", "regressor.trees=20")
    result = dpkit("compose", "bike.csv", "--target", "count", *loss, "--epsilon", "8")
    assert "The prediction is the exponential of the sum of" in " ".join(result.stdout.split())
    assert dpkit("verify", "release.json").exit_code == 0
    assert dpkit("predict", "release.json", "bike.csv", "--output", "found.csv").exit_code == 0
    found = [float(line.split(",")[-1]) for line in (folder / "found.csv").read_text().split()[1:]]
    assert len(found) == 900
    assert min(found) >= 0
    assert sum(found[23::24]) > 3 * sum(found[::24])  # in 200 runs 20 times at least
    bounds = "[columns.hour]\n[columns.count]\nlower = -1\nupper = 40\n"
    (folder / "below.toml").write_text(bounds)
    refused = dpkit("compose", "bike.csv", "--schema", "below.toml", "--target", "count", *loss, "--force")
    assert refused.exit_code != 0
    assert "'count' has lower = -1" in " ".join(refused.stderr.split())


def test_k_may_be_left_to_the_public_facts(dpkit, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    words = ("--scorer", "kendall", "--selector", "peel", "--regressor", "winsorized_least_squares")
    command = ("compose", "numbers.csv", "--target", "y", "--dry-run", *words, "-k")
    lines = dpkit(*command, "auto").stdout.splitlines()
    assert any(line.startswith("  regression   winsorized_least_squares ") for line in lines)  # not broken
    assert max(map(len, lines)) <= 80
    printed = " ".join(" ".join(lines).split())
    assert "Plan: winsorized_least_squares on all 3 features" in printed
    assert "k by the public facts: all" in printed
    wrong = dpkit(*command, "many")
    assert wrong.exit_code == 2
    assert "-k is 'many'; it must be a whole number of at least 1, or auto" in wrong.stderr


def test_a_refusal_is_written_with_its_charge_and_exits_with_3(dpkit, folder):
    arguments = ("compose", "diamonds.csv", "--schema", "facts.toml", *FULL, "--set", "regressor.refuse=true")
    result = dpkit(*arguments)
    assert result.exit_code == 3
    assert "the table may be too small" in result.stdout
    assert "larger epsilon" in result.stdout
    release = Release.read(folder / "release.json")
    assert release.model is None
    assert release.certificate.outcome == "refused"
    assert release.certificate.epsilon == pytest.approx(1.0, rel=2e-4)
    as_json = dpkit(*arguments, "--format", "json", "--output", "again.json")
    assert as_json.exit_code == 3
    assert json.loads(as_json.stdout)["refusal"] == "the table may be too small"


def test_a_seed_reproduces_the_release_and_takes_its_privacy_away(dpkit, folder):
    documents = []
    arguments = ("compose", "diamonds.csv", "--schema", "facts.toml", *FULL, "--seed", 7, "--format", "json")
    for output in ("one.json", "other.json"):
        result = dpkit(*arguments, "--output", output)
        documents.append(json.loads(result.stdout))
    assert documents[0] == documents[1]
    assert documents[0]["certificate"]["private"] is False
    assert "seed" in documents[0]["certificate"]["reasons"][0]


def test_a_dry_run_spends_nothing_and_needs_no_table(dpkit, folder):
    result = dpkit("compose", "--schema", "facts.toml", *FULL, "--dry-run", "--format", "json")
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)["plan"]
    assert plan["k"] == 2
    assert [event["stage"] for event in plan["events"]] == ["selection"] * 2 + ["regression"] * 2
    assert not (folder / "release.json").exists()
    assert "Plan: large" in dpkit("compose", "--schema", "facts.toml", *FULL, "--dry-run").stdout


def test_k_may_be_given_as_an_option_of_the_selector(dpkit, folder):
    arguments = ("compose", "--schema", "facts.toml", "--dry-run", "--format", "json", "--scorer", "large")
    result = dpkit(*arguments, "--selector", "best", "--accountant", "basic", "--set", "selector.k=3")
    assert json.loads(result.stdout)["plan"]["k"] == 3


def test_settings_reach_the_parts_and_the_certificate(dpkit, folder):
    settings = ("--set", "scorer.threshold=0.25", "--set", "regressor.style=fancy")
    result = dpkit("compose", "diamonds.csv", "--schema", "facts.toml", *FULL, *settings, "--format", "json")
    options = {part["role"]: part["options"] for part in json.loads(result.stdout)["certificate"]["parts"]}
    assert options["scorer"] == {"threshold": 0.25}
    assert options["regressor"] == {"style": "fancy"}


def test_a_schema_beside_the_table_is_used_and_said(dpkit, folder):
    (folder / "facts.toml").rename(folder / "diamonds.schema.toml")
    result = dpkit("compose", "diamonds.csv", *FULL)
    assert result.exit_code == 0, result.output
    assert "public facts from diamonds.schema.toml" in result.stderr


def test_without_a_schema_the_names_of_the_columns_are_said_to_be_public(dpkit, folder):
    result = dpkit("compose", "numbers.csv", "--target", "y", *SELECTION)
    assert result.exit_code == 0
    assert "no schema given" in result.stderr


def test_features_restrict_the_columns_and_the_others_are_named(dpkit, folder):
    result = dpkit("compose", "numbers.csv", "--target", "y", "--features", "c, a", *SELECTION)
    assert set(Release.read(folder / "release.json").selected) == {"a", "c"}
    assert "does not include them: b" in result.stderr


def test_another_target_leaves_the_old_one_out_unless_it_is_asked_for(dpkit, folder):
    arguments = (
        "compose",
        "diamonds.csv",
        "--schema",
        "facts.toml",
        "--target",
        "carat",
        *SELECTION,
        "--dry-run",
    )
    result = dpkit(*arguments, "--format", "json")
    assert set(json.loads(result.stdout)["plan"]["schema"]["columns"]) == {"carat", "depth", "cut"}
    assert result.stderr.count("price") == 2
    assert "target 'carat' (--target) instead of the schema's 'price'" in result.stderr
    assert (
        "not used, because the schema, --features or --target does not include them: price" in result.stderr
    )
    without_table = dpkit("compose", *arguments[2:])
    assert "'price' is not used as a feature" in without_table.stderr
    result = dpkit(*arguments, "--features", "price,depth", "--format", "json")
    schema = json.loads(result.stdout)["plan"]["schema"]
    assert schema["target"] == "carat"
    assert list(schema["columns"]) == ["price", "depth", "carat"]


def test_neighboring_on_the_command_line_wins_over_the_schema(dpkit, folder):
    result = dpkit(
        "compose",
        "diamonds.csv",
        "--schema",
        "facts.toml",
        *FULL,
        "--neighboring",
        "replace-one",
        "--format",
        "json",
    )
    assert json.loads(result.stdout)["certificate"]["neighboring"] == "replace-one"


@pytest.fixture
def never_run(monkeypatch):
    """Fail a test in which a plan is run, that is, in which budget is spent."""
    monkeypatch.setattr("dpkit_core.pipeline.plan.Plan.run", lambda *_, **__: pytest.fail("the plan is run"))


@pytest.mark.usefixtures("never_run")
def test_a_release_is_not_overwritten(dpkit, folder):
    (folder / "release.json").write_text("paid for")
    arguments = ("compose", "diamonds.csv", "--schema", "facts.toml", *FULL)
    result = dpkit(*arguments)
    assert result.exit_code == 2
    assert "release.json exists" in result.stderr
    assert "--output" in result.stderr
    assert "--force" in result.stderr
    assert result.stdout == ""
    assert (folder / "release.json").read_text() == "paid for"
    assert dpkit(*arguments, "--dry-run", "--save", "plan.toml").exit_code == 0
    assert "release.json exists" in dpkit("run", "plan.toml", "diamonds.csv").stderr


def test_a_release_is_overwritten_on_demand(dpkit, folder):
    (folder / "release.json").write_text("paid for")
    arguments = ("compose", "diamonds.csv", "--schema", "facts.toml", *FULL, "--save", "plan.toml", "--force")
    assert dpkit(*arguments).exit_code == 0
    first = (folder / "release.json").read_text()
    assert Release.read(folder / "release.json").selected
    assert dpkit("run", "plan.toml", "diamonds.csv", "--force").exit_code == 0
    assert (folder / "release.json").read_text() != first  # fresh noise, but for a chance of 2^-50


@pytest.mark.parametrize("step", ["prepare", "fit"])
def test_a_part_that_fails_while_it_runs_is_charged_and_exits_with_4(dpkit, folder, site, step):
    role, base = ("scorer", "Large") if step == "prepare" else ("regressor", "Mean")
    module = f"""
from tiny_parts import {base}


class Fails({base}):
    def {step}(self, *arguments):
        raise RuntimeError("17 records are odd")
"""
    points = {f"dpkit.{role}s": {"fails": "failing_part:Fails"}}
    site.install("dpkit-fails", entry_points=points, modules={"failing_part": module})
    arguments = [*FULL]
    arguments[arguments.index(f"--{role}") + 1] = "fails"
    result = dpkit("compose", "diamonds.csv", "--schema", "facts.toml", *arguments)
    assert result.exit_code == 4
    assert "counts as spent" in result.stderr
    assert "17 records" not in result.stderr  # it may depend on the data
    assert not (folder / "release.json").exists()


@pytest.fixture
def sales(folder):
    """A folder of Parquet files, partitioned by year, one of them without records."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(2)
    for year, records in ((2020, 30), (2021, 20), (2022, 0)):
        part = folder / "sales" / f"year={year}"
        part.mkdir(parents=True)
        columns = {name: rng.random(records) for name in ("a", "y", "b")}
        pq.write_table(pa.table(columns), part / "0.parquet")
    return "sales"


TINY = ("--target", "y", "--scorer", "kendall", "--selector", "peel", "-k", "2", "--regressor", "ols")


@pytest.mark.first(2)
@pytest.mark.parametrize("data", ["sales", "sales/", "sales/*/*.parquet", "sales/**/*.parquet"])
def test_a_folder_or_a_pattern_of_parquet_files_is_one_table(dpkit, folder, sales, data):
    result = dpkit("compose", data, *TINY, "--seed", "3")
    assert result.exit_code == 0, result.output
    release = Release.read(folder / "release.json")
    assert set(release.selected) <= {"a", "b", "year"}
    assert [c.name for c in release.certificate.schema.columns] == ["a", "b", "year"]
    result = dpkit("predict", "release.json", data)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 51


def test_a_folder_is_streamed_where_the_table_is_large_and_the_release_is_the_same(
    dpkit, folder, sales, monkeypatch
):
    words = ("compose", sales, "--target", "y", "--regressor", "winsorized_least_squares", "--seed", "3")
    releases = []
    for large in (0, 2**30):
        monkeypatch.setattr("dpkit_core.data.dataset.LARGE", large)
        result = dpkit(*words, "--output", f"{large}.json")
        assert result.exit_code in (0, 3), result.output
        releases.append((folder / f"{large}.json").read_text())
    assert releases[0] == releases[1]


def test_a_folder_has_a_schema_like_any_table(dpkit, folder, sales):
    result = dpkit("schema", sales, "--target", "y")
    assert result.exit_code == 0, result.output
    (folder / "sales.schema.toml").write_text(result.stdout)
    result = dpkit("compose", sales, *TINY, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "sales.schema.toml, next to the table" in " ".join(result.stderr.split())


@pytest.mark.parametrize("data", ["empty", "empty/*.parquet"])
def test_a_folder_without_tables_is_bad_input(dpkit, folder, data):
    (folder / "empty").mkdir()
    result = dpkit("compose", data, *TINY)
    assert result.exit_code == 2
    assert f"{data} has no files that an installed source reads" in " ".join(result.stderr.split())


def test_a_table_as_people_have_them_goes_from_a_packed_file_to_predictions(dpkit, folder):
    (folder / "loans.schema.toml").write_text(
        """
target = "paid"

[columns.income]
missing = "indicator"
lower = 0
upper = 10

[columns.opened]
kind = "date"
lower = "2000-01-01"
upper = "2020-01-01"
missing = "drop"

[columns.paid]
kind = "categorical"
categories = ["no", "yes"]
"""
    )
    rows = ["1,5;2001-01-31;yes", ";2002-01-31;no", "?;2003-01-31;yes", "2,5;;no"] * 1000
    text = "\n".join(["income;opened;paid", *rows]) + "\n"
    (folder / "loans.csv.gz").write_bytes(gzip.compress(text.encode()))
    written = ("--delimiter", ";", "--decimal", ",", "--missing", "?")
    parts = ("--regressor", "winsorized_least_squares", "--epsilon", "5", "--format", "json")
    result = dpkit("compose", "loans.csv.gz", *parts, *written)
    assert result.exit_code == 0, result.stderr
    release = json.loads(result.stdout)
    assert list(release["model"]["features"]) == ["income", "income is missing", "opened"]
    shown = dpkit("verify", "release.json")
    assert shown.exit_code == 0, shown.stderr
    predicted = dpkit("predict", "release.json", "loans.csv.gz", *written)
    rows = list(csv.DictReader(io.StringIO(predicted.stdout)))
    assert [row["paid=yes"] == "nan" for row in rows] == [False, False, False, True] * 1000
    assert [row["paid"] == "" for row in rows] == [False, False, False, True] * 1000
    assert rows[1]["paid=yes"] != rows[0]["paid=yes"]
    assert "1000 of 4000 records lack a value" in predicted.stderr


def test_a_dry_run_foretells_and_warns_by_the_public_number_of_records(dpkit, folder):
    (folder / "facts.toml").write_text("records_about = 40\n" + (folder / "facts.toml").read_text())
    parts = ("--scorer", "kendall", "--selector", "peel", "--epsilon", "0.1")
    command = ("compose", "--schema", "facts.toml", "--dry-run", *parts)
    document = json.loads(dpkit(*command, "-k", "2", "--format", "json").stdout)
    (foretold,) = document["forecasts"]
    assert foretold["part"] == "peel"
    assert foretold["records"] > 40
    assert "the budget of peel will likely be wasted" in document["warnings"][0]
    shown = " ".join(dpkit(*command, "-k", "2").stdout.split())
    assert f"Forecast of peel: {foretold['sentence']}." in shown
    assert "Warning: the budget of peel will likely be wasted" in shown
