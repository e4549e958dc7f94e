"""The doctor: every part examined in a process of its own, whatever the part does there."""

import json
import subprocess
import sys

import attrs
import pytest

from dpkit_core.doctor import Diagnosis, examine
from dpkit_core.registry import Registry


class Zoo(Registry):
    """Only the parts that the test installed."""

    def refs(self, kind=None):
        return tuple(ref for ref in super().refs(kind) if ref.distribution.startswith("zoo-"))


@pytest.fixture
def zoo(site):
    def install(*animals):
        site.install_zoo(*animals)
        return Zoo()

    return install


def test_each_animal_of_the_zoo_has_its_diagnosis(zoo):
    registry = zoo(
        "missing_dependency",
        "missing_attribute",
        "exits",
        "crashes",
        "prints",
        "wrong_api",
        "wrong_signatures",
        "twin_a",
        "twin_b",
    )
    diagnoses = {diagnosis.ref.qualified: diagnosis for diagnosis in examine(registry, slow=60)}
    expected = {
        "zoo-missing-dependency:missing_dependency": (
            "broken",
            "No module named 'a_library_that_nobody_has'",
        ),
        "zoo-missing-attribute:missing_attribute": ("broken", "looking up OldName"),
        "zoo-exits:exits": ("broken", "SystemExit: 3"),
        "zoo-crashes:crashes": ("broken", "ended its process with code 7"),
        "zoo-prints:prints": ("noisy", "Thank you for using zoo_prints!"),
        "zoo-wrong-api:wrong_api": ("incompatible", "targets plugin API 99"),
        "zoo-wrong-signatures:wrong_signatures": ("incompatible", "prepare(X, y) cannot be called"),
        "zoo-twin-a:twin": ("ambiguous", "zoo-twin-a:twin, zoo-twin-b:twin"),
        "zoo-twin-b:twin": ("ambiguous", "zoo-twin-a:twin, zoo-twin-b:twin"),
    }
    assert {name: diagnosis.status for name, diagnosis in diagnoses.items()} == {
        name: status for name, (status, _) in expected.items()
    }
    for name, (_, detail) in expected.items():
        assert detail in diagnoses[name].detail
    assert [diagnosis.ref for diagnosis in examine(Registry([]))] == []
    assert list(diagnoses) == [ref.qualified for ref in registry.refs()]


def test_a_slow_import_is_measured_and_told_from_a_fast_one(zoo):
    (slow,) = examine(zoo("slow_import"), slow=0.9)
    assert slow.status == "slow"
    assert 1.0 <= slow.seconds < 20  # the module sleeps for one second
    (patient,) = examine(Zoo(), slow=60)
    assert patient.status == "ok"
    assert patient.detail == "imports no large library"


def test_a_part_that_never_ends_its_import_is_given_up(site):
    points = {"dpkit.scorers": {"hangs": "hangs:Scorer"}}
    site.install("zoo-hangs", entry_points=points, modules={"hangs": "import time\ntime.sleep(600)"})
    (diagnosis,) = examine(Zoo(), time_limit=1.5)
    assert diagnosis.status == "broken"
    assert diagnosis.detail == "scorer 'hangs' (zoo-hangs 1.0) was still being imported after 1.5 s"
    assert diagnosis.seconds is None


def test_noise_of_compiled_code_is_noticed_and_large_imports_are_told(site):
    source = "import os, numpy\nos.write(1, b'from below')\n" + SCORER
    points = {"dpkit.scorers": {"below": "below:Scorer"}}
    site.install("zoo-below", entry_points=points, modules={"below": source})
    (diagnosis,) = examine(Zoo(), slow=60)
    assert (diagnosis.status, diagnosis.detail) == ("noisy", "prints while it is imported: 'from below'")
    (site.folder / "below.py").write_text("import numpy\n" + SCORER)
    (diagnosis,) = examine(Zoo(), slow=60)
    assert (diagnosis.status, diagnosis.detail) == ("ok", "imports numpy")


def test_examining_imports_no_part_into_this_process(zoo):
    examine(zoo("prints"))
    assert "zoo_prints" not in sys.modules


def test_a_diagnosis_is_plain_data(zoo):
    (diagnosis,) = examine(zoo("prints"))
    assert attrs.asdict(diagnosis)["ref"]["name"] == "prints"
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        diagnosis.status = "ok"
    assert isinstance(diagnosis, Diagnosis)


def test_the_probe_writes_only_its_finding_to_standard_output(zoo, site):
    (ref,) = zoo("prints").refs()
    done = subprocess.run(
        [sys.executable, "-m", "dpkit_core.doctor_probe", json.dumps(attrs.asdict(ref))],
        cwd=site.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    finding = json.loads(done.stdout)
    assert finding["status"] == "ok"
    assert finding["noise"] == "Thank you for using zoo_prints!"


SCORER = """
class Scorer:
    api = 1
    adaptive = False
    def sensitivity(self, schema, round): ...
    def prepare(self, data): ...
"""
