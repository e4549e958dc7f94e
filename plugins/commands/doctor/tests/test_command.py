"""``dpkit doctor``: one line for each part, and an exit code for machines."""

import json

import pytest
from dpkit_command_doctor.examine import Diagnosis

from dpkit_core import Registry
from dpkit_core.plugins.resources import resources

pytestmark = pytest.mark.usefixtures("parts")


def test_doctor_prints_a_line_for_each_part_and_fails_only_when_strict(dpkit, monkeypatch):
    ref = Registry().find("scorer", "large")
    found = [
        Diagnosis(ref, "broken", f"{ref} is installed but failed", None),
        Diagnosis(ref, "ok", "imports no large library", 0.5),
    ]
    monkeypatch.setattr("dpkit_command_doctor.examine.examine", lambda: found)
    result = dpkit("doctor")
    assert result.exit_code == 0
    assert [line.split(maxsplit=1) for line in result.stdout.splitlines()] == [
        ["broken", "scorer large (dpkit-tiny 1.2): is installed but failed"],
        ["ok", "0.50 s  scorer large (dpkit-tiny 1.2): imports no large library"],
    ]
    assert [part["status"] for part in json.loads(dpkit("doctor", "--format", "json").stdout)] == [
        "broken",
        "ok",
    ]
    assert dpkit("doctor", "--strict").exit_code == 1
    del found[0]
    assert dpkit("doctor", "--strict").exit_code == 0


def test_doctor_says_that_there_are_no_parts(dpkit, monkeypatch):
    monkeypatch.setattr("dpkit_command_doctor.examine.examine", lambda: [])
    result = dpkit("doctor", "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == []
    assert (
        "no parts are installed; this installs the first ones: uv pip install 'CLONE[starter]'"
        in " ".join(result.stderr.split())
    )
    assert dpkit("doctor", "--strict").exit_code == 1


@pytest.mark.slow
def test_a_guard_that_cannot_be_imported_fails_the_strict_doctor(dpkit, site, monkeypatch):
    points = {"dpkit.hooks": {"guard": "guard_of_nothing:Guard"}}
    site.install("dpkit-guard", entry_points=points, modules={"guard_of_nothing": "import nothing_at_all"})
    # Only what this test installed: the others take a process each.
    monkeypatch.setattr(
        "dpkit_command_doctor.examine.installed",
        lambda: (Registry().find("scorer", "large"), *resources("hooks")),
    )
    result = dpkit("doctor", "--strict")
    assert result.exit_code == 1
    assert "observer guard (dpkit-guard 1.0): is installed but failed while importing" in result.stdout
