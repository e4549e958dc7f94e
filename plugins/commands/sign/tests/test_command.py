"""``dpkit key``, ``--sign`` and ``dpkit verify --key``."""

import json
import os
import stat

import pytest

pytestmark = pytest.mark.usefixtures("parts")

PARTS = "--scorer large --selector best --accountant basic --delta 0"
RUN = tuple(f"compose diamonds.csv --schema facts.toml -k 2 {PARTS}".split())


@pytest.fixture
def keys(dpkit, folder):
    result = dpkit("key", "new", "alice")
    assert result.exit_code == 0, result.output
    return result


def words(result):
    return " ".join(result.output.split())


def test_a_key_is_made_once_and_kept_from_others(dpkit, keys, folder):
    assert len(keys.stdout.strip()) == 64
    if os.name == "posix":
        assert stat.S_IMODE((folder / "alice.key").stat().st_mode) == 0o600
    before = (folder / "alice.key").read_bytes()
    again = dpkit("key", "new", "alice")
    assert again.exit_code == 2
    assert "alice.key exists" in words(again)
    assert (folder / "alice.key").read_bytes() == before


def test_a_signed_release_is_verified_by_its_key_alone(dpkit, keys, folder):
    assert dpkit(*RUN, "--sign", "alice.key", "--output", "a.json").exit_code == 0
    plain = dpkit("verify", "a.json")
    assert plain.exit_code == 0
    assert "not checked; give that key with --key" in words(plain)
    signed = dpkit("verify", "a.json", "--key", "alice.pub")
    assert signed.exit_code == 0
    assert "valid, by key" in words(signed)
    assert "No signature can prove" in words(signed)
    assert all(len(line) <= 80 for line in signed.stdout.splitlines())
    document = json.loads(dpkit("verify", "a.json", "--key", "alice.pub", "--format", "json").stdout)
    assert (document["signed"], document["confirmed"]) == (True, True)
    dpkit("key", "new", "bob")
    other = dpkit("verify", "a.json", "--key", "bob.pub")
    assert other.exit_code == 2
    assert "NOT valid: the release names key" in words(other)


def test_a_release_that_was_changed_after_it_was_signed_is_not_confirmed(dpkit, keys, folder):
    dpkit(*RUN, "--sign", "alice.key", "--output", "a.json")
    document = json.loads((folder / "a.json").read_text())
    document["selected"].reverse()
    (folder / "a.json").write_text(json.dumps(document))
    assert dpkit("verify", "a.json").exit_code == 0  # the arithmetic is as it was
    changed = dpkit("verify", "a.json", "--key", "alice.pub", "--format", "json")
    assert changed.exit_code == 2
    answer = json.loads(changed.stdout)
    assert (answer["signed"], answer["confirmed"], answer["private"]) == (False, False, False)
    assert "the file was changed" in answer["problems"][0]


def test_an_unsigned_release_is_not_confirmed_where_a_key_is_given(dpkit, keys):
    dpkit(*RUN, "--output", "a.json")
    result = dpkit("verify", "a.json", "--key", "alice.pub")
    assert result.exit_code == 2
    assert "the release is not signed" in words(result)


def test_a_saved_plan_is_signed_as_well(dpkit, keys):
    dpkit(*RUN, "--dry-run", "--save", "plan.toml")
    ran = dpkit("run", "plan.toml", "diamonds.csv", "--sign", "alice.key", "--output", "a.json")
    assert ran.exit_code == 0, ran.output
    assert dpkit("verify", "a.json", "--key", "alice.pub").exit_code == 0


def test_a_key_that_cannot_sign_is_found_before_anything_is_spent(dpkit, keys, folder):
    create = "ledger create l.db --schema facts.toml --account d --epsilon 3 --delta 0"
    assert dpkit(*create.split()).exit_code == 0
    for key, message in (("none.key", "cannot read key"), ("alice.pub", "not a private key")):
        (folder / "alice.pub").chmod(0o600)
        refused = dpkit(*RUN, "--ledger", "l.db", "--account", "d", "--sign", key)
        assert refused.exit_code == 2
        assert message in words(refused)
        assert not (folder / "release.json").exists()
    shown = json.loads(dpkit("ledger", "show", "l.db", "--format", "json").stdout)
    assert shown["accounts"][0]["total"] == [0, 0]


def test_without_the_distribution_a_signed_release_is_read_and_each_option_names_it(dpkit, keys, without):
    assert dpkit(*RUN, "--sign", "alice.key", "--output", "a.json").exit_code == 0
    without("dpkit-command-sign")
    assert dpkit("verify", "a.json").exit_code == 0
    for command in (
        (*RUN, "--sign", "alice.key", "--force"),
        ("verify", "a.json", "--key", "alice.pub"),
        ("key", "new", "bob"),
    ):
        missing = dpkit(*command)
        assert missing.exit_code == 2, missing.output
        assert "uv pip install 'CLONE[signing]'" in words(missing)
    assert "--key needs dpkit-command-sign" in words(dpkit("verify", "a.json", "--key", "alice.pub"))
