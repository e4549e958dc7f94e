"""``dpkit evaluate`` scores a released model, charges for it, and says on which records."""

import json

import numpy as np
import pytest

from dpkit_core import Release


@pytest.fixture
def release(dpkit, folder):
    rng = np.random.default_rng(0)
    rows = [f"{a},{3 * a + b / 9}" for a, b in rng.normal(size=(20_000, 2))]
    (folder / "line.csv").write_text("\n".join(["a,y", *rows]) + "\n")
    composed = dpkit(
        *("compose", "line.csv", "--target", "y", "--regressor", "winsorized_least_squares"),
        *("--evaluate", "0.2", "--epsilon", "4"),
    )
    assert composed.exit_code == 0, composed.output
    return "release.json"


@pytest.mark.slow
def test_a_model_is_scored_later_by_a_run_that_an_account_pays_for(dpkit, folder, release):
    (folder / "t.toml").write_text(
        'target = "y"\n[columns.a]\nkind = "numeric"\n[columns.y]\nkind = "numeric"\n'
    )
    account = ("--account", "mine", "--epsilon", "5", "--delta", "1e-5")
    assert dpkit("ledger", "create", "led.json", "--schema", "t.toml", *account).exit_code == 0
    command = ("evaluate", release, "line.csv", "--epsilon", "1", "--ledger", "led.json", "--account", "mine")
    dry = dpkit(*command, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "20 % of the records, held out by a hash" in " ".join(dry.stdout.split())
    assert not (folder / "evaluation.json").exists()
    done = dpkit(*command)
    assert done.exit_code == 0, done.output
    assert "How good it is" in done.stdout
    found = Release.read(folder / "evaluation.json")
    assert found.evaluation.of is not None  # the score has fresh noise, of which a test can say nothing
    assert found.certificate.witness.account == "mine"
    assert dpkit("verify", "evaluation.json", "--replan").exit_code == 0
    again = dpkit(*command)
    assert again.exit_code == 2
    assert "evaluation.json exists" in again.stderr
    fitted = dpkit(*command, "--of", "fitted", "-o", "fitted.json", "--format", "json")
    assert fitted.exit_code == 0, fitted.output
    assert json.loads(fitted.stdout)["evaluation"]["records"] == "fitted"
    over = dpkit("evaluate", release, "line.csv", "--epsilon", "4", "-o", "o.json", *command[5:])
    assert over.exit_code == 2
    assert "Nothing is charged" in " ".join(over.stderr.split())
    audit = dpkit("ledger", "audit", "led.json", "evaluation.json", "fitted.json")
    assert audit.exit_code == 0, audit.output


def test_wrong_use_says_what_to_do(dpkit, folder, release):
    without = dpkit("evaluate", release, "line.csv")
    assert without.exit_code == 2
    assert "--epsilon" in without.output
    (folder / "other.csv").write_text("b,y\n1,2\n")
    lacking = dpkit("evaluate", release, "other.csv", "--epsilon", "1")
    assert lacking.exit_code == 2
    assert "'a'" in lacking.stderr


@pytest.mark.slow
def test_a_model_is_scored_on_the_records_of_its_fit_for_a_share_of_the_budget(dpkit, folder, release):
    line = ("compose", "line.csv", "--target", "y", "--regressor", "winsorized_least_squares")
    done = dpkit(*line, "--in-sample", ".3", "--epsilon", "4", "-o", "seen.json")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert "that the model was fitted to. This is optimistic" in said
    assert "too high by" in said
    assert dpkit("verify", "seen.json", "--replan").exit_code == 0
    both = dpkit(*line, "--in-sample", ".3", "--evaluate", ".1", "-o", "both.json")
    assert both.exit_code == 2
    assert "give one" in both.stderr
    assert not (folder / "both.json").exists()
