"""``dpkit verify``: two answers, many files, and no plugin for the sums that the core has."""

import importlib.metadata
import json

import attrs
import pytest

from dpkit_core import Release
from dpkit_core.plugins import registry
from dpkit_core.privacy.events import Gaussian
from dpkit_core.release.certificate import StageEvent
from dpkit_core.release.kinds import OWN_KINDS
from dpkit_core.release.verify import TOTALS

pytestmark = pytest.mark.usefixtures("parts")

SELECTION = ("numbers.csv", "--target", "y", "--scorer", "large", "--selector", "best", "-k", "2")


@pytest.fixture
def release(dpkit, folder):
    """Write a private release; return its path."""
    assert dpkit("compose", *SELECTION, "--accountant", "basic", "--output", "private.json").exit_code == 0
    return folder / "private.json"


@pytest.fixture
def seeded(dpkit, folder):
    """Write a release from a seed."""
    compose = ("compose", *SELECTION, "--accountant", "basic", "--output", "seeded.json", "--seed", 1)
    assert dpkit(*compose).exit_code == 0


def altered(path, **facts):
    """Write the release with other facts in its certificate."""
    document = json.loads(path.read_text())
    document["certificate"] |= facts
    path.write_text(json.dumps(document))


def verified(dpkit, *words):
    result = dpkit("verify", *words, "--format", "json")
    return result.exit_code, json.loads(result.stdout)


def test_a_private_release_is_confirmed(dpkit, release):
    code, answer = verified(dpkit, "private.json")
    assert (code, answer["confirmed"], answer["private"]) == (0, True, True)
    assert dpkit("verify", "private.json").stdout.splitlines()[-1] == "confirmed"


@pytest.mark.parametrize("kind", OWN_KINDS)
def test_a_release_is_not_confirmed_when_its_model_is_damaged(dpkit, release, kind):
    """So what reads the models of dpkit is there: one that is not read would hide its features, too."""
    required = importlib.metadata.requires("dpkit-command-verify")
    assert f"dpkit-model-{OWN_KINDS[kind].partition('/')[2]}>=0.1" in required
    document = json.loads(release.read_text())
    document["model"] = {"kind": kind, "features": {"of no schema": {}}}
    release.write_text(json.dumps(document))
    result = dpkit("verify", release)
    assert result.exit_code == 2
    assert "cannot read" in result.stderr


def test_what_came_from_a_seed_is_confirmed_and_not_private(dpkit, seeded):
    code, answer = verified(dpkit, "seeded.json")
    assert (code, answer["confirmed"], answer["private"]) == (5, True, False)
    assert "from a seed" in answer["reasons"][0]
    result = dpkit("verify", "seeded.json")
    assert result.exit_code == 5
    assert result.stdout.splitlines()[-1] == "confirmed, NOT PRIVATE"
    assert dpkit("verify", "seeded.json", "--allow-non-private").exit_code == 0


@pytest.mark.parametrize(
    ("epsilon", "delta", "words"), [(5000.0, 0.0, "e^5000"), (1.0, 0.6, "delta 0.6 would let a table")]
)
def test_a_guarantee_that_says_nothing_is_not_headed_private(dpkit, folder, epsilon, delta, words):
    arguments = ("--epsilon", epsilon, "--delta", delta, "--accountant", "basic")
    result = dpkit("compose", *SELECTION, *arguments)
    said = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert "Private:" not in said
    assert "NO MEANINGFUL PRIVACY" in said
    assert words in said
    assert "Warning:" in said  # in the plan, before anything is spent
    assert dpkit("verify", "release.json").exit_code == 5


def test_a_delta_at_one_record_says_nothing_where_their_number_is_public(dpkit, folder):
    (folder / "facts.toml").write_text(
        'target = "y"\nneighboring = "replace-one"\nrecords = 40\n[columns.a]\n[columns.b]\n[columns.y]\n'
    )
    words = (*SELECTION, "--schema", "facts.toml", "--accountant", "basic")
    dpkit("compose", *words, "--delta", 0.025)
    assert dpkit("verify", "release.json").exit_code == 5
    dpkit("compose", *words, "--delta", 0.024, "--force")
    assert dpkit("verify", "release.json").exit_code == 0


def test_many_files_end_with_the_worst(dpkit, release, seeded, folder):
    (folder / "broken.json").write_text("{")
    code, answer = verified(dpkit, "private.json", "private.json")
    assert (code, answer["confirmed"], answer["private"]) == (0, True, True)
    assert [one["file"] for one in answer["releases"]] == ["private.json"] * 2
    code, answer = verified(dpkit, "seeded.json", "private.json")
    assert (code, answer["confirmed"], answer["private"]) == (5, True, False)
    code, answer = verified(dpkit, "seeded.json", "broken.json", "private.json")
    assert (code, answer["confirmed"], answer["private"]) == (2, False, False)
    assert "not valid JSON" in answer["releases"][1]["problems"][0]
    result = dpkit("verify", "seeded.json", "broken.json", "private.json")
    assert result.exit_code == 2
    for words in ("confirmed, NOT PRIVATE", "NOT confirmed", "epsilon 1 at delta"):
        assert words in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(selected=["a", "nobody"]), "'nobody' is selected"),
        (lambda d: d.update(selected=["a", "a"]), "selected twice"),
        (
            lambda d: d.update(model={"kind": "linear", "coefficients": {"nobody": 1.0}, "intercept": 0}),
            "the model uses 'nobody'",
        ),
        (lambda d: d["certificate"].update(private=False), "gives no reason"),
    ],
)
def test_what_contradicts_the_schema_or_itself_is_not_confirmed(dpkit, release, change, words):
    document = json.loads(release.read_text())
    change(document)
    release.write_text(json.dumps(document))
    code, answer = verified(dpkit, "private.json")
    assert code == 2
    assert words in " ".join(answer["problems"])


@pytest.mark.parametrize("accountant", ["basic", "rdp", "tight"])
def test_a_bare_core_verifies_the_accountants_whose_sums_it_has(dpkit, release, monkeypatch, accountant):
    if accountant != "basic":
        found = Release.read(release)
        events = (StageEvent("selection", Gaussian(20.0)),)
        part = attrs.evolve(found.certificate.parts[-1], name=accountant, distribution="")
        parts = (*found.certificate.parts[:-1], part)
        total = TOTALS[accountant]([Gaussian(20.0)], found.certificate.neighboring, found.certificate.delta)
        facts = {"events": events, "accountant": accountant, "parts": parts, "epsilon": total}
        attrs.evolve(found, certificate=attrs.evolve(found.certificate, **facts)).write(release)
    # Without entry points, there is no plugin but the command itself.
    commands = registry.installed("dpkit.commands")
    monkeypatch.setattr(
        "dpkit_core.plugins.registry.installed",
        lambda group: commands if group == "dpkit.commands" else (),
    )
    done = dpkit("verify", release)
    assert done.exit_code == 0, done.stderr
    assert f"by {accountant}" in done.stdout
    altered(release, epsilon=0.1)
    assert dpkit("verify", release).exit_code == 2


@pytest.mark.slow
def test_planning_again_finds_what_the_arithmetic_does_not(dpkit, release):
    code, answer = verified(dpkit, "private.json", "--replan")
    assert (code, answer["confirmed"], answer["replanned"], answer["notes"]) == (0, True, True, [])
    assert (
        "replanned:  the installed parts plan the same " in dpkit("verify", "private.json", "--replan").stdout
    )
    budget = json.loads(release.read_text())["certificate"]["budget"]
    altered(release, budget={**budget, "epsilon": 3 * budget["epsilon"]})
    assert verified(dpkit, "private.json")[0] == 0
    code, answer = verified(dpkit, "private.json", "--replan")
    assert (code, answer["confirmed"], answer["replanned"]) == (2, False, False)
    assert "is not what the installed parts plan: event 1" in answer["problems"][0]
    assert "problem: the certificate is not what" in " ".join(
        dpkit("verify", "private.json", "--replan").stdout.split()
    )


def test_a_part_that_is_not_installed_cannot_plan_again(dpkit, release):
    parts = json.loads(release.read_text())["certificate"]["parts"]
    altered(release, parts=[{**parts[0], "name": "larger"}, *parts[1:]])
    result = dpkit("verify", "private.json", "--replan")
    assert result.exit_code == 2
    assert "cannot plan the release again" in result.output


def test_a_share_is_for_planning_again(dpkit, release):
    result = dpkit("verify", "private.json", "--select-share", "0.3")
    assert result.exit_code == 2
    assert "applies only with --replan" in " ".join(result.output.split())
